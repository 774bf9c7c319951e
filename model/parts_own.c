#include "parts_own.h"

#include <math.h>
#include <stdlib.h>

#include "error.h"
#include "parts_world.h"
#include "simulate_telemetry.h"

/* Part m (1..parts) of worker j is a worker of its own to the timing model and
 * the rule: it starts with the batch and takes m parts' time. */
struct own {
    const struct simulate_spec *spec;
    struct parts_world w;
    size_t parts;
    struct dynamic *dynamic; /* of n * parts workers */
    struct simulate_telemetry telemetry;
    struct simulate_result *result;
    uint32_t *node;      /* [n][parts] */
    uint8_t *is_ready;   /* [n][parts] enum dynamic_part */
    float *log_s;        /* [n][parts] */
    uint8_t *status;     /* [n][parts] */
    float *batch_log_s;  /* [n] */
    uint8_t *batch_seen; /* [n] */
    double *begin_s;     /* [n] of each worker's batch */
    bool scored, no_memory;
};

/* As in simulate_run: what a decision costs is measured where there is one. */
static bool ask(struct own *o, double at_s, bool decides, double *next_s)
{
    double before = simulate_now_us();
    bool close = dynamic_close(o->dynamic, at_s, next_s);

    if (o->scored && decides &&
        !simulate_times_add(&o->result->tick, simulate_now_us() - before))
        o->no_memory = true;
    if (!(*next_s > at_s))
        *next_s = INFINITY;
    return close;
}

/* A worker is free: with its next part, if there is one. */
static void advance(struct own *o, size_t j, double at_s)
{
    struct parts_worker *p = &o->w.worker[j];
    size_t first = j * o->parts;

    bool computed = p->claim > 0;

    parts_world_deposit(&o->w, j, at_s, computed);
    if (computed) {
        dynamic_arrive(o->dynamic, first + p->in - 1, at_s - o->begin_s[j],
                       at_s);
    } else {
        o->begin_s[j] = at_s;
        for (size_t m = 0; p->old && m < o->parts; m++)
            dynamic_start(o->dynamic, first + m, at_s);
    }
    if (p->in < o->parts)
        parts_world_claim(&o->w, j, at_s, 1);
}

static double play(struct own *o)
{
    struct parts_event e;
    double now_s = 0, next_s;
    bool closed = ask(o, 0, false, &next_s);

    while (!closed && (o->w.events || isfinite(next_s))) {
        bool tick = !o->w.events || o->w.heap[0].at_s > next_s;
        if (!tick) {
            parts_world_next(&o->w, &e);
            now_s = e.at_s;
            advance(o, e.worker, now_s);
        } else {
            now_s = next_s;
        }
        closed = ask(o, now_s, tick || o->w.n * o->parts <= 64, &next_s);
    }
    return now_s;
}

/* What is known of one part, from what is known of its worker's batch. */
static void observe_part(const struct own *o, size_t j, size_t m)
{
    const struct parts_worker *p = &o->w.worker[j];
    const struct simulate_spec *spec = o->spec;
    double cost_s = spec->part_cost_s * (double)m;
    double share = (double)m / (double)o->parts;
    size_t i = j * o->parts + m - 1;
    uint8_t status = o->batch_seen[j];

    if (m > p->in && status == TIMING_EXACT &&
        (spec->late != LIVE_FRESH || spec->observe != OBSERVE_LATE))
        status = TIMING_PROGRESS;
    o->status[i] = status;
    o->log_s[i] =
        status == TIMING_NONE
            ? 0
            : (float)log(exp((double)o->batch_log_s[j]) * share + cost_s);
}

static void observe(struct own *o, double close_s)
{
    parts_world_observe(&o->w, close_s, o->batch_log_s, o->batch_seen);
    for (size_t j = 0; j < o->w.n; j++) {
        for (size_t m = 1; m <= o->parts; m++)
            observe_part(o, j, m);
    }
}

static size_t deposited(const struct own *o)
{
    size_t sum = 0;

    for (size_t j = 0; j < o->w.n; j++)
        sum += o->w.worker[j].in;
    return sum;
}

static void begin(struct own *o, const double *x, size_t t)
{
    const float *telemetry = simulate_telemetry_at(&o->telemetry, t);

    parts_world_begin(&o->w, x);
    for (size_t i = 0; i < o->w.n * o->parts; i++)
        o->is_ready[i] =
            o->w.worker[i / o->parts].old ? DYNAMIC_BUSY : DYNAMIC_READY;
    dynamic_begin(o->dynamic, o->is_ready, telemetry, o->spec->overhead_s);
}

static double step(struct own *o, const double *x, size_t t)
{
    double before = simulate_now_us(), hidden_us;

    begin(o, x, t);
    hidden_us = simulate_now_us() - before;
    double close_s = play(o);
    observe(o, close_s);
    before = simulate_now_us();
    dynamic_end(o->dynamic, close_s, o->log_s, o->status);
    hidden_us += simulate_now_us() - before;
    if (o->scored && !simulate_times_add(&o->result->hidden, hidden_us))
        o->no_memory = true;
    return close_s;
}

static enum dsgd_err create_dynamic(struct own *o,
                                    const struct policy_setup *setup,
                                    struct dsgd_error *err)
{
    const struct trace *t = setup->trace;
    struct dynamic_spec spec;

    for (size_t i = 0; i < t->n * o->parts; i++)
        o->node[i] = t->node[i / o->parts];
    dynamic_spec_init(&spec);
    spec.n = t->n * o->parts;
    spec.n_nodes = t->n_nodes;
    spec.node = o->node;
    spec.rule = setup->rule;
    /* whatever it does, a cut worker is free after a part at most */
    spec.late = setup->late == LIVE_FRESH ? LIVE_FRESH : LIVE_POLL;
    spec.warmup = setup->warmup;
    spec.seed = setup->seed;
    return dynamic_create(&spec, setup->model, &o->dynamic, err);
}

static enum dsgd_err create(struct own *o, const struct policy_setup *setup,
                            struct dsgd_error *err)
{
    const struct trace *t = setup->trace;
    enum dsgd_err rc = parts_world_create(o->spec, t->n, o->parts, &o->w, err);

    if (rc != DSGD_OK)
        return rc;
    o->node = calloc(t->n, o->parts * sizeof *o->node);
    o->is_ready = calloc(t->n, o->parts * sizeof *o->is_ready);
    o->log_s = calloc(t->n, o->parts * sizeof *o->log_s);
    o->status = calloc(t->n, o->parts * sizeof *o->status);
    o->batch_log_s = calloc(t->n, sizeof *o->batch_log_s);
    o->batch_seen = calloc(t->n, sizeof *o->batch_seen);
    o->begin_s = calloc(t->n, sizeof *o->begin_s);
    if (!o->node || !o->is_ready || !o->log_s || !o->status ||
        !o->batch_log_s || !o->batch_seen || !o->begin_s)
        return error_set(err, DSGD_E_NOMEM,
                         "simulate: no memory for %zu workers in %zu parts",
                         t->n, o->parts);
    rc = create_dynamic(o, setup, err);
    if (rc == DSGD_OK)
        rc = simulate_telemetry_create(&o->telemetry, t, setup->model, err);
    return rc;
}

static void destroy(struct own *o)
{
    parts_world_free(&o->w);
    dynamic_free(o->dynamic);
    simulate_telemetry_free(&o->telemetry);
    free(o->node);
    free(o->is_ready);
    free(o->log_s);
    free(o->status);
    free(o->batch_log_s);
    free(o->batch_seen);
    free(o->begin_s);
}

enum dsgd_err parts_own_run(const struct simulate_spec *spec,
                            const struct policy_setup *setup,
                            struct simulate_result *result,
                            struct dsgd_error *err)
{
    const struct trace *t = setup->trace;
    struct own o = {.spec = spec, .parts = spec->parts, .result = result};
    double time_s = 0, in = 0, claims = 0;
    double steps = (double)(t->steps - spec->warmup);
    enum dsgd_err rc = create(&o, setup, err);

    for (size_t i = 0; rc == DSGD_OK && i < t->steps; i++) {
        o.scored = i >= spec->warmup;
        o.w.claims = 0;
        double close_s = step(&o, t->duration_s + i * t->n, i);
        if (o.scored) {
            time_s += close_s + spec->overhead_s;
            in += (double)deposited(&o) / (double)o.parts;
            claims += (double)o.w.claims;
        }
        parts_world_carry(&o.w, close_s);
    }
    if (rc == DSGD_OK && o.no_memory)
        rc = error_set(err, DSGD_E_NOMEM, "simulate: no memory");
    result->throughput = in / time_s;
    result->mean_contributors = in / steps;
    result->mean_claims = claims / (double)t->n / steps;
    destroy(&o);
    return rc;
}
