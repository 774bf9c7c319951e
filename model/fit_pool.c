#include "fit_pool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "rng.h"
#include "scenario.h"
#include "timing.h"

void fit_pool_init(struct fit_pool *pool, size_t features,
                   const char *const *feature)
{
    *pool = (struct fit_pool){.features = features, .feature = feature};
}

static void free_trace(struct fit_trace *t)
{
    free(t->name);
    free(t->node);
    free(t->target);
    free(t->target_status);
    free(t->seen);
    free(t->status);
    free(t->telemetry);
}

void fit_pool_clear(struct fit_pool *pool)
{
    for (size_t i = 0; i < pool->count; i++)
        free_trace(&pool->trace[i]);
    free(pool->trace);
    fit_pool_init(pool, pool->features, pool->feature);
}

static bool make_room(struct fit_pool *pool)
{
    if (pool->count < pool->room)
        return true;
    size_t room = pool->room ? 2 * pool->room : 16;
    struct fit_trace *trace = reallocarray(pool->trace, room, sizeof *trace);
    if (!trace)
        return false;
    pool->trace = trace;
    pool->room = room;
    return true;
}

static bool allocate(struct fit_trace *t, bool telemetry)
{
    size_t cells, looks;

    if (__builtin_mul_overflow(t->steps, t->n, &cells) ||
        __builtin_mul_overflow(t->steps * t->n_nodes, t->features, &looks))
        return false;
    t->node = calloc(t->n, sizeof *t->node);
    t->target = calloc(cells, sizeof *t->target);
    t->target_status = malloc(cells);
    t->seen = calloc(cells, sizeof *t->seen);
    t->status = malloc(cells);
    if (telemetry && looks)
        t->telemetry = reallocarray(NULL, looks, sizeof *t->telemetry);
    if (!t->name || !t->node || !t->target || !t->target_status || !t->seen ||
        !t->status || (telemetry && looks && !t->telemetry))
        return false;
    memset(t->target_status, TIMING_EXACT, cells);
    memset(t->status, TIMING_EXACT, cells);
    for (size_t i = 0; t->telemetry && i < looks; i++)
        t->telemetry[i] = NAN;
    return true;
}

enum dsgd_err fit_pool_new(struct fit_pool *pool, const char *name,
                           size_t steps, size_t n, size_t n_nodes,
                           bool telemetry, struct fit_trace **out,
                           struct dsgd_error *err)
{
    if (steps < 1 || n < 1 || n_nodes < 1 || n_nodes > n)
        return error_set(err, DSGD_E_RANGE,
                         "%s: %zu steps of %zu workers on %zu nodes", name,
                         steps, n, n_nodes);
    struct fit_trace t = {.name = strdup(name),
                          .steps = steps,
                          .n = n,
                          .n_nodes = n_nodes,
                          .features = pool->features};
    if (!make_room(pool) || !allocate(&t, telemetry)) {
        free_trace(&t);
        return error_set(err, DSGD_E_NOMEM,
                         "%s: no memory for %zu steps of %zu workers", name,
                         steps, n);
    }
    *out = &pool->trace[pool->count++];
    **out = t;
    return DSGD_OK;
}

void fit_pool_drop(struct fit_pool *pool)
{
    free_trace(&pool->trace[--pool->count]);
}

/* Column of t that has the pool's feature f, or t->features. */
static size_t column_of(const struct fit_pool *pool, const struct trace *t,
                        size_t f)
{
    size_t i = 0;

    while (i < t->features && strcmp(t->feature[i], pool->feature[f]) != 0)
        i++;
    return i;
}

static void copy_telemetry(const struct fit_pool *pool, const struct trace *t,
                           struct fit_trace *out)
{
    for (size_t f = 0; f < pool->features; f++) {
        size_t from = column_of(pool, t, f);
        if (from == t->features)
            continue;
        for (size_t i = 0; i < t->steps * t->n_nodes; i++)
            out->telemetry[i * pool->features + f] =
                t->telemetry[i * t->features + from];
    }
}

static enum dsgd_err add(struct fit_pool *pool, const struct trace *t,
                         bool telemetry, struct fit_trace **out,
                         struct dsgd_error *err)
{
    telemetry = telemetry && t->features && t->telemetry && pool->features;
    enum dsgd_err rc = fit_pool_new(pool, t->name ? t->name : "trace", t->steps,
                                    t->n, t->n_nodes, telemetry, out, err);
    if (rc != DSGD_OK)
        return rc;
    memcpy((*out)->node, t->node, t->n * sizeof *t->node);
    for (size_t i = 0; i < t->steps * t->n; i++)
        (*out)->seen[i] = (*out)->target[i] = (float)log(t->duration_s[i]);
    if (telemetry)
        copy_telemetry(pool, t, *out);
    return DSGD_OK;
}

enum dsgd_err fit_pool_add(struct fit_pool *pool, const struct trace *t,
                           struct dsgd_error *err)
{
    struct fit_trace *out;

    return add(pool, t, true, &out, err);
}

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* A worker cut in the step before may still be at its old batch, and sit this
 * step out. */
static bool sits_out(const struct fit_trace *t, size_t step, size_t j,
                     struct rng *r)
{
    return t->status[(step - 1) * t->n + j] == TIMING_CENSORED &&
           rng_uniform(r) < .25;
}

/* Close a step, not the first, after its c fastest. */
static void cut_row(struct fit_trace *t, size_t step, float *sorted, size_t c,
                    bool progress, struct rng *r)
{
    float *y = t->seen + step * t->n;
    uint8_t *status = t->status + step * t->n;

    memcpy(sorted, y, t->n * sizeof *y);
    qsort(sorted, t->n, sizeof *sorted, ascending);
    for (size_t j = 0; j < t->n; j++) {
        if (sits_out(t, step, j, r)) {
            status[j] = TIMING_NONE;
            continue;
        }
        if (!(y[j] > sorted[c - 1]) || status[j] != TIMING_EXACT)
            continue;
        status[j] = progress ? TIMING_PROGRESS : TIMING_CENSORED;
        y[j] = progress ? y[j] + .1f * (float)rng_normal(r) : sorted[c - 1];
    }
}

/* Cut what is seen of a trace at random closes, as if a rule had: late workers
 * are censored there, and a fourth of them sits out the next step, or, when
 * progress, are estimated with 10 % error. */
static void cut(struct fit_trace *t, bool progress, struct rng *r)
{
    double share = rng_range(r, .5, 1);
    float *sorted = malloc(t->n * sizeof *sorted);

    for (size_t step = 10; sorted && step < t->steps; step++) {
        if (rng_uniform(r) < .1)
            share = rng_range(r, .45, 1);
        size_t c = (size_t)(share * (double)t->n);
        if (rng_uniform(r) < .1 || c > t->n)
            c = t->n;
        cut_row(t, step, sorted, c < 2 ? (t->n < 2 ? 1 : 2) : c, progress, r);
    }
    free(sorted);
}

/* Sizes as in REPORT 4.5: mostly small, log-uniform, now and then large. */
static void choose_size(struct scenario *s, bool named, struct rng *r)
{
    bool small = named || rng_uniform(r) < .92;
    double n = floor(small ? rng_log_range(r, 8, named ? 100 : 64)
                           : rng_range(r, 64, 260));
    double kind = rng_uniform(r), most = floor(n / 4) + 1;

    s->n = n;
    s->N = kind < .2    ? n
           : kind < .25 ? 1
                        : floor(rng_range(r, 2, most > 3 ? most : 3));
}

static enum dsgd_err choose_scenario(const struct fit_synth *s, uint64_t i,
                                     struct rng *r, struct scenario *scenario,
                                     struct dsgd_error *err)
{
    enum dsgd_err rc = DSGD_OK;

    if (s->scenario)
        return scenario_parse(s->scenario, scenario, err);
    if (s->named)
        rc = scenario_parse(scenario_name(i % scenario_names()), scenario, err);
    else
        scenario_random(r, scenario);
    if (rc == DSGD_OK) {
        choose_size(scenario, s->named, r);
        scenario->step_s = exp(rng_normal(r));
    }
    return rc;
}

static enum dsgd_err synth_one(struct fit_pool *pool, const struct fit_synth *s,
                               uint64_t i, struct dsgd_error *err)
{
    struct scenario scenario;
    struct trace *t;
    struct fit_trace *out;
    struct rng r;

    rng_seed(&r, s->seed, (s->stream << 48) + i);
    enum dsgd_err rc = choose_scenario(s, i, &r, &scenario, err);
    if (rc != DSGD_OK)
        return rc;
    scenario.T = (double)s->steps;
    scenario.seed = (double)(rng_u64(&r) >> 12);
    bool telemetry = rng_uniform(&r) < .6;
    double mode = rng_uniform(&r);
    rc = scenario_make(&scenario, s->lab3 ? SCENARIO_LAB3 : SCENARIO_FEATURES,
                       &t, err);
    if (rc == DSGD_OK)
        rc = add(pool, t, telemetry, &out, err);
    if (rc == DSGD_OK && mode < .4)
        cut(out, mode < .18, &r);
    trace_free(t);
    return rc;
}

enum dsgd_err fit_pool_synth(struct fit_pool *pool, const struct fit_synth *s,
                             struct dsgd_error *err)
{
    enum dsgd_err rc = DSGD_OK;

    for (size_t i = 0; rc == DSGD_OK && i < s->count; i++)
        rc = synth_one(pool, s, s->first + i, err);
    return rc;
}

size_t fit_trace_known(const struct fit_trace *t, size_t from)
{
    size_t known = 0;

    for (size_t i = from * t->n; i < t->steps * t->n; i++)
        known += t->target_status[i] != TIMING_NONE;
    return known;
}

size_t fit_pool_steps(const struct fit_pool *pool)
{
    size_t steps = 0;

    for (size_t i = 0; i < pool->count; i++)
        steps += pool->trace[i].steps;
    return steps;
}
