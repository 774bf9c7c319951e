/* The set model at work: files, placements, states, missing observations and
 * telemetry, and the symmetries it promises. */
#include <malloc.h>
#include <stdint.h>
#include <unistd.h>

#include "model_data.h"
#include "set_filter.h"
#include "set_model.h"
#include "tap.h"
#include "timing_model.h"

enum { N = 12, NODES = 3 };
static const uint32_t node[N] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2};
static struct timing_model *model;
static struct dsgd_error err;

static void fill(float *y, uint8_t *status, size_t step)
{
    for (size_t j = 0; j < N; j++) {
        y[j] = 1 + .1f * (float)((j * 7 + step * 13) % 11);
        status[j] = TIMING_EXACT;
    }
}

static const float telemetry[NODES * 3] = {.1f, .2f, .3f, .4f, .5f,
                                           .6f, .7f, .8f, .9f};

/* Steps from first to end - 1; the prediction after them. */
static const struct predictive *run(struct timing *t, size_t first, size_t end)
{
    float y[N];
    uint8_t status[N];

    for (size_t i = first; i < end; i++) {
        timing_predict(t, telemetry);
        fill(y, status, i);
        timing_observe(t, y, status);
    }
    return timing_predict(t, telemetry);
}

static struct timing *start(void)
{
    struct timing *t;

    timing_create(model, N, NODES, node, &t, NULL);
    return t;
}

static void test_placements(void)
{
    static const uint32_t bad[][3] = {{1, 1, 1}, {0, 2, 2}, {0, 1, 0}};
    struct timing *t;

    ok(timing_create(model, 3, 2, bad[0], &t, &err) == DSGD_E_RANGE && !t,
       "first node is not 0");
    ok(timing_create(model, 3, 3, bad[1], &t, &err) == DSGD_E_RANGE &&
           strstr(err.text, "worker 1"),
       "a node left out");
    ok(timing_create(model, 3, 2, bad[2], &t, &err) == DSGD_E_RANGE,
       "nodes that do not ascend");
    ok(timing_create(model, 3, 3, (uint32_t[]){0, 1, 1}, &t, &err) ==
           DSGD_E_RANGE,
       "a node without workers");
    ok(timing_create(model, 0, 0, NULL, &t, &err) == DSGD_E_RANGE,
       "no workers");
    timing_free(t);
    ok(timing_create(model, 1, 1, (uint32_t[]){0}, &t, &err) == DSGD_OK,
       "one worker");
    timing_observe(t, (float[]){0}, (uint8_t[]){2});
    const struct predictive *p = timing_predict(t, NULL);
    ok(p && isfinite(loglik(p, (float[]){0})), "is predicted");
    timing_free(t);
}

static void test_state(void)
{
    struct timing *a = start(), *b = start();
    float y[N];
    uint8_t status[N];

    run(a, 0, 9); /* a prediction is open: it is not part of the state */
    size_t bytes = timing_state_bytes(a);
    char *state = malloc(bytes);
    timing_state_save(a, state);
    ok(timing_state_load(b, state, bytes, &err) == DSGD_OK, "state loads");
    fill(y, status, 99);
    double want = loglik(run(a, 9, 15), y);
    ok(loglik(run(b, 9, 15), y) == want, "and goes on, same bits");
    ok(timing_state_load(b, state, bytes - 1, &err) == DSGD_E_FORMAT,
       "a state cut short");
    ok(timing_state_load(b, state, 3, &err) == DSGD_E_FORMAT, "three bytes");
    state[0]++;
    ok(timing_state_load(b, state, bytes, &err) == DSGD_E_FORMAT,
       "something else");
    state[0]--;
    memset(state + bytes - 4, 0xff, 4);
    ok(timing_state_load(b, state, bytes, &err) == DSGD_E_FORMAT, "a NaN");
    ok(loglik(timing_predict(b, telemetry), y) == want,
       "a refused state changes nothing");
    timing_free(b);
    timing_create(model, N, 1, (uint32_t[N]){0}, &b, NULL);
    ok(timing_state_load(b, state, bytes, &err) == DSGD_E_FORMAT &&
           strstr(err.text, "12 workers on 3 nodes"),
       "a state of another placement");
    free(state);
    timing_free(a);
    timing_free(b);
}

static void test_files(void)
{
    char path[] = "/tmp/dsgd-test-XXXXXX", text[64];
    struct timing_model *again;
    struct safetensors *file;
    struct timing *a = start(), *b;
    float y[N];
    uint8_t status[N];

    close(mkstemp(path));
    ok(timing_model_set_meta(model, "trained", "never", &err) == DSGD_OK &&
           timing_model_set_meta(model, "trained", "here", &err) == DSGD_OK &&
           timing_model_set_meta(model, "x", "y", &err) == DSGD_OK &&
           timing_model_set_meta(model, "x", NULL, &err) == DSGD_OK,
       "metadata set and removed");
    ok(timing_model_save(model, path, &err) == DSGD_OK, "saved");
    err.text[0] = '\0';
    ok(timing_model_load(path, &again, &err) == DSGD_OK && !err.text[0],
       "loaded again, without a fault");
    if (ok(timing_model_save(again, path, &err) == DSGD_OK &&
               safetensors_load(path, &file, &err) == DSGD_OK,
           "and saved again")) {
        is_str(safetensors_meta(file, "trained"), "here", "metadata kept");
        ok(!safetensors_meta(file, "x"), "metadata removed");
        safetensors_free(file);
    }
    is_str(timing_model_feature(again, 1), "u1", "feature names kept");
    timing_create(again, N, NODES, node, &b, NULL);
    fill(y, status, 3);
    ok(loglik(run(a, 0, 5), y) == loglik(run(b, 0, 5), y),
       "predicts the same bits");
    timing_free(a);
    timing_free(b);
    timing_model_free(again);
    unlink(path);

    struct set_config each = {2, SET_FLAGS_EACH, 5, 7};
    ok(set_model_create(&each, (const char *[]){"load1", "psi_io"}, &again,
                        &err) == DSGD_OK,
       "a new model");
    set_net_init(set_model_net(again), 1);
    ok(timing_model_save(again, path, &err) == DSGD_OK, "saved");
    timing_model_free(again);
    ok(timing_model_load(path, &again, &err) == DSGD_OK, "loaded");
    struct set_net *net = again ? set_model_net(again) : NULL;
    ok(net && net->config.n_telemetry == 2 && net->config.hidden == 5 &&
           net->config.head == 7 && net->config.flags == SET_FLAGS_EACH,
       "sizes kept");
    is_str(timing_model_feature(again, 1), "psi_io", "names kept");
    net->w[3] = NAN;
    timing_model_save(again, path, &err);
    timing_model_free(again);
    ok(timing_model_load(path, &again, &err) == DSGD_E_FORMAT && !again &&
           strstr(err.text, "not finite"),
       "a weight that is NaN");
    snprintf(text, sizeof text, "%s", "a,b");
    ok(set_model_create(&each, (const char *[]){text, "c"}, &again, &err) ==
           DSGD_E_FORMAT,
       "a feature name with a comma");
    each.hidden = 0;
    ok(set_model_create(&each, NULL, &again, &err) == DSGD_E_RANGE,
       "hidden size 0");
    unlink(path);
}

/* What a file says, with one thing changed. */
static void refuse(const char *kind, const char *key, const char *value,
                   size_t width, const char *part)
{
    char path[] = "/tmp/dsgd-test-XXXXXX";
    static float zero[4096];
    struct set_net *net = set_model_net(model);
    struct safetensor t[SET_PARAMS];
    struct safetensors_meta meta[] = {{"model", kind}, {key, value}};
    struct timing_model *m;

    for (size_t i = 0; i < SET_PARAMS; i++)
        t[i] = (struct safetensor){
            .name = net->param[i].name,
            .n_dims = net->param[i].n_dims,
            .shape = {net->param[i].shape[0], net->param[i].shape[1]},
            .data = net->w + net->param[i].offset};
    if (width) {
        t[SET_N2].shape[1] = width;
        t[SET_N2].data = zero;
    }
    close(mkstemp(path));
    safetensors_save(path, t, SET_PARAMS, meta, 2, &err);
    ok(timing_model_load(path, &m, &err) == DSGD_E_FORMAT && !m, "refused");
    has_str(err.text, part, part);
    ok(strncmp(err.text, path, strlen(path)) == 0, "of the file named");
    unlink(path);
}

static void test_foreign_files(void)
{
    refuse("", "x", "", 0, "kind \"\"");
    refuse("gpt", "x", "", 0, "kind \"gpt\"");
    refuse("set", "version", "2", 0, "version \"2\"");
    refuse("set", "flags", "none", 0, "one|each");
    refuse("set", "G", "8", 0, "G = 8");
    refuse("set", "features", "a,b", 0, "names 2 features");
    refuse("set", "features", "a,,c", 0, "feature name \"\"");
    refuse("set", "flags", "each", 0, "fits no number of features");
    refuse("set", "x", "", 47, "\"n2.weight\" has shape [16, 47]");
}

static void test_missing(void)
{
    struct timing *a = start(), *b = start();
    float y[N], nan[NODES * 3];
    uint8_t status[N];

    for (size_t i = 0; i < NODES * 3; i++)
        nan[i] = NAN;
    run(a, 0, 6);
    run(b, 0, 6);
    fill(y, status, 7);
    ok(loglik(timing_predict(a, nan), y) == loglik(timing_predict(b, NULL), y),
       "telemetry that is not valid is none");
    timing_predict(a, telemetry);
    timing_predict(b, nan);
    timing_predict(b, telemetry);
    timing_observe(a, y, status);
    timing_observe(b, y, status);
    ok(loglik(timing_predict(a, telemetry), y) ==
           loglik(timing_predict(b, telemetry), y),
       "a prediction asked for again leaves no trace");
    timing_observe(a, y, status);
    timing_observe(b, y, status);
    for (size_t i = 0; i < 60; i++) {
        for (size_t j = 0; j < N; j++) {
            y[j] = j % 2 ? NAN : INFINITY;
            status[j] = j % 3 ? TIMING_EXACT : TIMING_NONE;
        }
        timing_observe(a, y, status);
    }
    fill(y, status, 8);
    ok(isfinite(loglik(timing_predict(a, telemetry), y)),
       "sixty steps of nothing");
    status[2] = 77;
    timing_observe(a, y, status);
    ok(isfinite(loglik(timing_predict(a, telemetry), y)),
       "a status that there is not");
    timing_free(a);
    timing_free(b);
    a = start();
    for (size_t j = 0; j < N; j++)
        status[j] = TIMING_NONE;
    timing_observe(a, y, status);
    ok(!timing_predict(a, NULL), "a first step of nothing is none");
    status[4] = TIMING_EXACT;
    timing_observe(a, y, status);
    ok(timing_predict(a, NULL) && isfinite(loglik(timing_predict(a, NULL), y)),
       "one worker heard of stands for all");
    timing_free(a);
}

/* A worker cut at every step must not be thought slow for ever; one that was
 * not heard of stays where it was. */
static void test_filter(void)
{
    struct set_filter *f;
    size_t size;
    float y[2] = {0, 2};
    uint8_t status[2] = {2, 2};

    set_filter_create(2, 1, (uint32_t[]){0, 0}, 0, SET_FLAGS_ONE, &f, NULL);
    double *slow = set_filter_state(f, &size), *fast = slow + 2;
    double *age = slow + 10;
    for (size_t i = 0; i < 20; i++)
        set_filter_update(f, y, status, NULL);
    near(fast[1], 2, 1e-9, "a slow worker is known");
    status[1] = TIMING_NONE;
    double before = slow[1];
    for (size_t i = 0; i < 20; i++)
        set_filter_update(f, y, status, NULL);
    ok(fast[1] == 2 && slow[1] == before, "and stays where it was");
    near(age[1], 20, 0, "its age grows");
    status[1] = TIMING_CENSORED;
    y[1] = .5f;
    for (size_t i = 0; i < 60; i++)
        set_filter_update(f, y, status, NULL);
    ok(fast[1] < .8 && fast[1] > .5,
       "cut again and again it nears three deviations beyond the cut");
    y[1] = 3;
    for (size_t i = 0; i < 30; i++)
        set_filter_update(f, y, status, NULL);
    ok(fast[1] > 3, "a bound above what it was pulls it up");
    ok(set_filter_valid(f, slow), "its state is valid");
    fast[0] = NAN;
    ok(!set_filter_valid(f, slow), "one with a NaN is not");
    set_filter_free(f);
}

/* Twice the durations give the same prediction shifted by log 2; nodes and
 * workers may change places. */
static void test_symmetries(void)
{
    static const size_t order[N] = {11, 10, 9, 8, 1, 0, 3, 2, 4, 5, 7, 6};
    struct timing *a = start(), *b = start(), *c = start();
    float y[N], twice[N], moved[N], tele[NODES * 3];
    uint8_t status[N];
    static const size_t from[NODES] = {2, 0, 1};

    for (size_t i = 0; i < NODES * 3; i++)
        tele[i] = telemetry[from[i / 3] * 3 + i % 3];
    double at_a = 0, at_b = 0, at_c = 0;
    for (size_t i = 0; i < 12; i++) {
        fill(y, status, i);
        for (size_t j = 0; j < N; j++) {
            twice[j] = y[j] + logf(2);
            moved[j] = y[order[j]];
        }
        const struct predictive *p = timing_predict(a, telemetry);
        at_a = p ? loglik(p, y) : 0;
        p = timing_predict(b, telemetry);
        at_b = p ? loglik(p, twice) : 0;
        p = timing_predict(c, tele);
        at_c = p ? loglik(p, moved) : 0;
        timing_observe(a, y, status);
        timing_observe(b, twice, status);
        timing_observe(c, moved, status);
    }
    near(at_b, at_a, 2e-3, "durations in another unit");
    near(at_c, at_a, 2e-3, "workers and nodes in another order");
    timing_free(a);
    timing_free(b);
    timing_free(c);
}

static void test_no_allocation(void)
{
    struct timing *t = start();
    float y[N];
    uint8_t status[N];

    run(t, 0, 3);
    size_t before = mallinfo2().uordblks;
    run(t, 3, 30);
    fill(y, status, 30);
    loglik(timing_predict(t, telemetry), y);
    is_int((long long)mallinfo2().uordblks, (long long)before,
           "nothing is allocated in a step");
    timing_free(t);
}

int main(void)
{
    char path[DATA_PATH];

    if (!ok(timing_model_load(data_path("set-prototype.safetensors", path),
                              &model, &err) == DSGD_OK,
            "prototype loads"))
        return done();
    test_placements();
    test_state();
    test_files();
    test_foreign_files();
    test_missing();
    test_filter();
    test_symmetries();
    test_no_allocation();
    timing_model_free(model);
    return done();
}
