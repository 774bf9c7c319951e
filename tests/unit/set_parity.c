/* The set model against PyTorch (tests/data/model/make_set.py): filter,
 * features, recurrent states, heads, log-likelihood and moments over a run
 * with censored steps and progress estimates. */
#include <stdint.h>

#include "model_data.h"
#include "predictive_grad.h"
#include "set_filter.h"
#include "set_model.h"
#include "set_pass.h"
#include "tap.h"
#include "timing_model.h"

static struct safetensors *data;
static struct timing_model *model;

/* Largest difference, relative to 1 + |want| of float32 results of a sum of
 * terms near 1. */
static double worst_of(const float *got, const char *name, size_t row)
{
    const struct safetensor *want = safetensors_find(data, name);
    size_t n = want ? want->n / want->shape[0] : 0;
    double worst = want ? 0 : NAN;

    for (size_t i = 0; i < n; i++) {
        double w = want->data[row * n + i];
        double e = fabs(got[i] - w) / (1 + fabs(w));
        worst = e > worst || isnan(e) ? e : worst;
    }
    return worst;
}

/* As worst_of, kept over the steps under a name. */
enum { MAX_KEPT = 40 };
static struct {
    const char *name;
    double worst;
} kept[MAX_KEPT];

static void keep(const float *got, const char *name, size_t row)
{
    size_t i = 0;

    while (kept[i].name && strcmp(kept[i].name, name) != 0)
        i++;
    kept[i].name = name;
    double e = worst_of(got, name, row);
    if (e > kept[i].worst || isnan(e))
        kept[i].worst = e;
}

static void keep_doubles(const double *got, size_t n, const char *name,
                         size_t row)
{
    float value[64];

    for (size_t i = 0; i < n; i++)
        value[i] = (float)got[i];
    keep(value, name, row);
}

/* Mean and standard deviation of worker j's log duration. */
static void moments(const struct predictive *p, size_t j, float *mean,
                    float *sd)
{
    double sum = 0, square = 0;

    for (size_t g = 0; g < PRED_G; g++) {
        for (size_t m = 0; m < PRED_M; m++) {
            size_t at = p->node[j] * PRED_M + m;
            double w[PRED_K], norm = 0;
            for (size_t k = 0; k < PRED_K; k++) {
                double tail = k ? p->tail[g * (PRED_K - 1) + k - 1] +
                                      p->node_tail[at * (PRED_K - 1) + k - 1]
                                : 0;
                w[k] = exp(p->log_w[j * PRED_K + k] + tail);
                norm += w[k];
            }
            for (size_t k = 0; k < PRED_K; k++) {
                double weight =
                    w[k] / norm * exp(p->log_p[g] + p->node_log_p[at]);
                double mu =
                    p->mu[j * PRED_K + k] + p->shift[g] + p->node_shift[at];
                double s = exp(p->log_sd[j * PRED_K + k] + p->scale[g]);
                sum += weight * mu;
                square += weight * (mu * mu + s * s);
            }
        }
    }
    *mean = (float)sum;
    *sd = (float)sqrt(square - sum * sum);
}

static void check_predictive(const struct predictive *p, size_t row)
{
    float mean[64], sd[64];
    const struct safetensor *want = safetensors_find(data, "p.eg");
    size_t wide = PRED_K * PRED_G;

    keep(p->mu, "p.mu", row);
    keep(p->log_sd, "p.ls", row);
    keep(p->log_w, "p.lw", row);
    keep(p->node_shift, "p.d", row);
    keep(p->node_log_p, "p.lm", row);
    keep(p->shift, "p.b", row);
    keep(p->log_p, "p.lg", row);
    keep(p->scale, "p.cs", row);
    for (size_t g = 0; g < PRED_G; g++) {
        for (size_t k = 1; k < PRED_K; k++) {
            double w = want->data[row * wide + g * PRED_K + k];
            double e = fabs(p->tail[g * (PRED_K - 1) + k - 1] - w);
            if (!(e <= 1e-5 * (1 + fabs(w))))
                ok(false, "tail of atom %zu at step %zu", g, row);
        }
    }
    for (size_t j = 0; j < p->n; j++)
        moments(p, j, &mean[j], &sd[j]);
    keep(mean, "mean", row);
    keep(sd, "sd", row);
}

static void check_filter(struct set_filter *f, size_t n, size_t row)
{
    static const char *const name[] = {"filter.eS", "filter.eF", "filter.v",
                                       "filter.y",  "filter.mk", "filter.age"};
    size_t size;
    const double *state = set_filter_state(f, &size);

    for (size_t i = 0; i < 6; i++)
        keep_doubles(state + i * n, n, name[i], row);
}

enum { WORKERS = 21, NODES = 5 };

static void read_step(size_t t, const float **telemetry, const float **y,
                      const float **seen, uint8_t *status)
{
    *telemetry = data_row(data, "telemetry", t);
    *y = data_row(data, "y", t);
    *seen = data_row(data, "seen", t);
    const float *s = data_row(data, "status", t);
    for (size_t j = 0; j < WORKERS; j++)
        status[j] = (uint8_t)s[j];
}

static void test_filter(const uint32_t *node, size_t steps)
{
    float worker[WORKERS * 12], in[NODES * 9], anchor[WORKERS * 4];
    float log_sd[WORKERS];
    const float *telemetry, *y, *seen;
    uint8_t status[WORKERS];
    struct set_filter *f;

    if (set_filter_create(WORKERS, NODES, node, 3, SET_FLAGS_ONE, &f, NULL) !=
        DSGD_OK)
        return;
    for (size_t t = 0; t < steps; t++) {
        read_step(t, &telemetry, &y, &seen, status);
        set_filter_features(f, telemetry, worker, in, anchor, log_sd);
        keep(worker, "worker", t);
        keep(in, "node", t);
        keep(anchor, "anchor", t);
        keep(log_sd, "log_sd", t);
        set_filter_update(f, seen, status, NULL);
        check_filter(f, WORKERS, t);
    }
    set_filter_free(f);
}

/* The recurrent state lies at the end of a saved one. */
static void check_recurrence(const struct timing *t, size_t row)
{
    static float state[8192];
    size_t bytes = timing_state_bytes(t), h = 32;
    char *at = (char *)state;

    if (!ok(bytes <= sizeof state, "the state is small"))
        return;
    timing_state_save(t, state);
    float end[(WORKERS + NODES + 1) * 32];
    memcpy(end, at + bytes - sizeof end, sizeof end);
    keep(end, "hw", row);
    keep(end + WORKERS * h, "hn", row);
    keep(end + (WORKERS + NODES) * h, "hg", row);
}

static void test_model(const uint32_t *node, size_t steps)
{
    const float *telemetry, *y, *seen;
    uint8_t status[WORKERS];
    struct timing *t;
    double worst = 0;

    if (!ok(timing_create(model, WORKERS, NODES, node, &t, NULL) == DSGD_OK,
            "at work"))
        return;
    set_timing_truncate(t);
    for (size_t i = 0; i < steps; i++) {
        read_step(i, &telemetry, &y, &seen, status);
        const struct predictive *p = timing_predict(t, telemetry);
        if (i == 0)
            ok(!p, "nothing is predicted before the first step");
        if (p) {
            double want = data_row(data, "loglik", i)[0];
            /* A sum of WORKERS terms near 1, which may cancel. */
            double e = fabs(loglik(p, y) - want) / (WORKERS + fabs(want));
            worst = e > worst || isnan(e) ? e : worst;
            check_predictive(p, i);
        }
        timing_observe(t, seen, status);
        if (i + 1 == steps || i == 7)
            check_recurrence(t, i);
    }
    near(worst, 0, 1e-5, "log-likelihood per worker");
    timing_free(t);
}

int main(void)
{
    uint32_t node[WORKERS];
    char path[DATA_PATH];
    struct dsgd_error err = {""};

    data = data_load("set-steps.safetensors");
    if (timing_model_load(data_path("set-prototype.safetensors", path), &model,
                          &err) != DSGD_OK)
        printf("# %s\n", err.text);
    if (!ok(data && model, "fixtures and prototype load"))
        return done();
    is_str(timing_model_kind(model), "set", "kind");
    is_int((long long)timing_model_features(model), 3, "features");
    is_str(timing_model_feature(model, 2), "u2", "a feature's name");
    for (size_t j = 0; j < WORKERS; j++)
        node[j] = (uint32_t)safetensors_find(data, "worker_node")->data[j];
    size_t steps = safetensors_find(data, "y")->shape[0];
    ok(steps >= 30, "%zu steps", steps);
    test_filter(node, steps);
    test_model(node, steps);
    for (size_t i = 0; kept[i].name; i++)
        near(kept[i].worst, 0, 1e-5, kept[i].name);
    safetensors_free(data);
    timing_model_free(model);
    return done();
}
