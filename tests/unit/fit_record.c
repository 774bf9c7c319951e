/* Records as training data: what was seen, what became known, whose node. */
#include <string.h>
#include <unistd.h>

#include "fit_record.h"
#include "record.h"
#include "tap.h"
#include "telemetry_names.h"
#include "timing.h"

enum { N = 4, NODES = 2, STEPS = 3 };

static const char *const features[] = {MODEL_FEATURES};
/* Ranks 0 and 2 on node 1, 1 and 3 on node 0: places 2, 0, 3, 1. */
static const uint32_t worker_node[N] = {1, 0, 1, 0};
static char dir[] = "/tmp/dsgd-fit-record-XXXXXX", path[64];

static void put_step(struct record *r, uint64_t step, const float *duration,
                     const float *lag)
{
    static const uint8_t mask[N] = {1, 1, 0, 0};
    static const uint64_t first[N];
    static const uint32_t count[N] = {8, 8, 8, 8};

    record_put_step(r, &(struct record_step){.step = step,
                                             .contributors = 2,
                                             .alive = N,
                                             .samples = 16,
                                             .start_s = (double)step,
                                             .close_s = 2,
                                             .publish_s = 2.1,
                                             .lr_scale = 1,
                                             .mask = mask,
                                             .duration_s = duration,
                                             .lag_s = lag,
                                             .first = first,
                                             .count = count});
}

static void write_record(void)
{
    static const char *const names[NODES] = {"n1", "n2"};
    static float telemetry[NODES * DSGD_N_TELEMETRY];
    const float duration[N] = {1, 2, NAN, NAN}, lag[N] = {0, 0, .5f, NAN};
    struct record_job job = {.job_id = "1",
                             .step_id = "0",
                             .n_workers = N,
                             .n_nodes = NODES,
                             .node_name = names,
                             .node_kernel = names,
                             .worker_node = worker_node,
                             .telemetry = telemetry};
    struct record *r;

    telemetry[DSGD_N_TELEMETRY + 1] = .25f; /* load1 of n2 */
    telemetry[0] = NAN;
    if (!mkdtemp(dir))
        exit(1);
    snprintf(path, sizeof path, "%s/a.dsgd", dir);
    if (record_create(path, &job, &r, NULL) != DSGD_OK)
        exit(1);
    for (uint64_t s = 1; s <= STEPS; s++)
        put_step(r, s, duration, lag);
    record_put_telemetry(
        r, &(struct record_telemetry){
               .step = 2, .node = 1, .value = {INFINITY, NAN, .5f}});
    record_put_telemetry(r, &(struct record_telemetry){
                                .step = 3, .node = 1, .value = {.75f, .5f}});
    record_put_late(r, &(struct record_late){1, 2, 4, .5f, 1});
    record_put_late(r, &(struct record_late){2, 2, 3, .5f, .5f});
    record_close(r, true, 9, 10, NULL);
}

static void reading(void)
{
    struct fit_pool pool;
    struct dsgd_error err = {""};

    fit_pool_init(&pool, N_FEATURES, features);
    is_int(fit_record_add(&pool, path, &err), DSGD_OK, "a record is read");
    if (err.text[0])
        printf("# %s\n", err.text);
    const struct fit_trace *t = pool.trace;
    ok(pool.count == 1 && t->steps == STEPS && t->n == N && t->n_nodes == NODES,
       "its steps, workers and nodes");
    ok(t->node[0] == 0 && t->node[1] == 0 && t->node[2] == 1 && t->node[3] == 1,
       "workers of a node are adjacent");
    near(t->target[0], log(2), 1e-6, "rank 1's duration comes first");
    is_int(t->status[0], TIMING_EXACT, "and is exact");
    near(t->seen[3], log(1.5), 1e-6,
         "rank 2 was cut: it had run from its own start to the close");
    is_int(t->status[3], TIMING_CENSORED, "which is a bound");
    near(t->target[3], log(4), 1e-6, "what became known later is the target");
    is_int(t->target_status[3], TIMING_EXACT, "and exact");
    is_int(t->status[1], TIMING_NONE, "rank 3 had not begun");
    near(t->seen[N + 3], log(3), 1e-6, "an estimate from its progress");
    is_int(t->status[N + 3], TIMING_PROGRESS, "is marked as one");
    is_int(t->target_status[2 * N + 3], TIMING_CENSORED,
           "a bound is the target of what never became known");
    ok(isnan(t->telemetry[0]), "telemetry that is not valid");
    const float *look = t->telemetry + N_FEATURES; /* of the second node */
    near(look[1], .25, 0, "telemetry at launch holds for the steps after");
    look += NODES * N_FEATURES;
    ok(isnan(look[1]) && look[2] == .5f, "until the next look");
    ok(isnan(look[0]), "which need not be valid");
    look += NODES * N_FEATURES;
    ok(look[0] == .75f && look[1] == .5f && look[2] == 0,
       "or the one after that");
    fit_pool_clear(&pool);
}

static void foreign(void)
{
    struct fit_pool pool;
    struct dsgd_error err;
    char other[64];

    fit_pool_init(&pool, N_FEATURES, features);
    snprintf(other, sizeof other, "%s/b.dsgd", dir);
    is_int(fit_record_add(&pool, other, &err), DSGD_E_IO, "a missing file");
    has_str(err.text, other, "is named");
    FILE *f = fopen(other, "w");
    fputs("not a database, but long enough to look at\n", f);
    fclose(f);
    is_int(fit_record_add(&pool, other, &err), DSGD_E_FORMAT, "a foreign file");
    has_str(err.text, "not a record", "is called what it is not");
    is_int((long long)pool.count, 0, "and leaves nothing in the pool");
    unlink(other);
    fit_pool_clear(&pool);
}

/* Cut short at several lengths: an error or fewer steps, never a crash. */
static void cut_short(void)
{
    static char bytes[1 << 20];
    char other[64];
    FILE *f = fopen(path, "rb");
    size_t size = fread(bytes, 1, sizeof bytes, f);
    bool clean = true;

    fclose(f);
    snprintf(other, sizeof other, "%s/c.dsgd", dir);
    for (size_t length = 0; length < size; length += 509) {
        struct fit_pool pool;
        struct dsgd_error err = {""};
        f = fopen(other, "wb");
        fwrite(bytes, 1, length, f);
        fclose(f);
        fit_pool_init(&pool, N_FEATURES, features);
        enum dsgd_err rc = fit_record_add(&pool, other, &err);
        clean = clean && (rc == DSGD_OK ? pool.count == 1
                                        : pool.count == 0 && err.text[0]);
        fit_pool_clear(&pool);
    }
    ok(clean, "a record cut short is an error with a text");
    unlink(other);
}

int main(void)
{
    write_record();
    reading();
    foreign();
    cut_short();
    unlink(path);
    rmdir(dir);
    return done();
}
