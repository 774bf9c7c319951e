#include "simulate_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "parts_own.h"
#include "parts_world.h"
#include "shares.h"
#include "simulate_telemetry.h"

/* The policies whose workers claim from what they share. */
struct pool {
    struct parts_world w;
    struct shares *shares; /* NULL: whoever is free begins a part */
    struct timing *timing; /* parts-model, else NULL */
    struct simulate_telemetry telemetry;
    struct simulate_result *result;
    size_t missing;
    uint32_t *waiting; /* [n] who got nothing */
    size_t n_waiting;
    double asked_s;  /* the close that was planned when they asked last */
    double *lag_s;   /* [n] as expected */
    float *log_s;    /* [n] */
    uint8_t *status; /* [n] */
    bool scored, no_memory;
};

static void add_time(struct pool *p, struct simulate_times *times, double us)
{
    if (p->scored && !simulate_times_add(times, us))
        p->no_memory = true;
}

/* How much worker j is to begin now. */
static size_t next_claim(struct pool *p, size_t j, double now_s)
{
    if (!p->shares)
        return 1;
    if (!p->timing)
        return shares_claim(p->shares, j, now_s);
    double before = simulate_now_us();
    size_t units = shares_claim(p->shares, j, now_s);
    add_time(p, &p->result->tick, simulate_now_us() - before);
    return units;
}

static bool give(struct pool *p, size_t j, double now_s)
{
    size_t units = next_claim(p, j, now_s);

    if (units)
        parts_world_claim(&p->w, j, now_s, units);
    return units > 0;
}

static void give_waiting(struct pool *p, double now_s)
{
    size_t kept = 0;

    for (size_t i = 0; i < p->n_waiting; i++) {
        if (!give(p, p->waiting[i], now_s))
            p->waiting[kept++] = p->waiting[i];
    }
    p->n_waiting = kept;
    p->asked_s = p->shares ? shares_close_s(p->shares) : NAN;
}

/* Without a later close nobody is given what was not: single parts do not get
 * shorter. */
static bool asks(const struct pool *p)
{
    return p->timing || !p->shares || shares_close_s(p->shares) > p->asked_s;
}

/* Worker j is free, with what it has computed. */
static void take(struct pool *p, size_t j, double now_s)
{
    size_t units = p->w.worker[j].claim;

    if (units && p->shares)
        units = shares_deposit(p->shares, j, now_s);
    parts_world_deposit(&p->w, j, now_s, units);
    p->missing -= units;
}

/* Let the step happen until the batch is full; returns when. */
static double play(struct pool *p)
{
    struct parts_world *w = &p->w;
    struct parts_event e = {0};
    double now_s = 0;

    p->n_waiting = 0;
    p->asked_s = 0;
    while (p->missing) {
        double wake_s = p->n_waiting && p->shares
                            ? shares_wake_s(p->shares, now_s)
                            : INFINITY;
        bool woken = false;
        if (w->events && w->heap[0].at_s <= wake_s) {
            parts_world_next(w, &e);
            now_s = e.at_s;
            take(p, e.worker, now_s);
            if (p->missing && !give(p, e.worker, now_s))
                p->waiting[p->n_waiting++] = e.worker;
        } else {
            now_s = wake_s;
            woken = true;
        }
        if (p->missing && (woken || asks(p)))
            give_waiting(p, now_s);
    }
    return now_s;
}

/* When will a late worker be free?  Where its rate was seen that is known;
 * else it takes as long again as it has taken so far. */
static void expect_lags(struct pool *p)
{
    for (size_t j = 0; j < p->w.n; j++) {
        const struct parts_worker *worker = &p->w.worker[j];
        p->lag_s[j] = worker->lag_s;
        if (worker->lag_s > 0 && !worker->worked)
            p->lag_s[j] = -worker->start_s;
    }
}

static void begin(struct pool *p, size_t t)
{
    const struct predictive *predicted = NULL;

    p->missing = p->w.n * p->w.units;
    if (!p->shares)
        return;
    expect_lags(p);
    if (p->timing)
        predicted =
            timing_predict(p->timing, simulate_telemetry_at(&p->telemetry, t));
    shares_begin(p->shares, predicted, p->lag_s);
}

/* The warm-up waits for all and knows everything. */
static void warm(struct pool *p, const double *x, size_t t)
{
    if (!p->timing)
        return;
    timing_predict(p->timing, simulate_telemetry_at(&p->telemetry, t));
    for (size_t j = 0; j < p->w.n; j++) {
        p->log_s[j] = (float)log(x[j]);
        p->status[j] = TIMING_EXACT;
    }
    timing_observe(p->timing, p->log_s, p->status);
}

static double step(struct pool *p, const double *x, size_t t)
{
    double before = simulate_now_us();
    begin(p, t);
    double hidden_us = simulate_now_us() - before;
    parts_world_begin(&p->w, x);
    double close_s = play(p);
    if (p->timing) {
        parts_world_observe(&p->w, close_s, p->log_s, p->status);
        before = simulate_now_us();
        timing_observe(p->timing, p->log_s, p->status);
        add_time(p, &p->result->hidden, hidden_us + simulate_now_us() - before);
    }
    parts_world_carry(&p->w, close_s);
    return close_s;
}

/* To begin a part that is not wanted costs nothing where workers start afresh. */
static enum dsgd_err create_shares(struct pool *p,
                                   const struct simulate_spec *spec, bool last,
                                   const struct trace *t,
                                   struct dsgd_error *err)
{
    struct shares_spec shares = {.n = t->n,
                                 .n_nodes = t->n_nodes,
                                 .node = t->node,
                                 .parts = spec->parts,
                                 .units = p->w.units,
                                 .cost_s = spec->part_cost_s,
                                 .by_last = last};

    if (last && spec->late == LIVE_FRESH)
        return DSGD_OK;
    return shares_create(&shares, &p->shares, err);
}

static enum dsgd_err create(struct pool *p, const struct simulate_spec *spec,
                            enum policy_kind kind,
                            const struct policy_setup *setup,
                            struct dsgd_error *err)
{
    const struct trace *t = setup->trace;
    bool model = kind == POLICY_PARTS_MODEL;
    size_t units = model ? spec->parts * PART_UNITS : spec->parts;
    enum dsgd_err rc = parts_world_create(spec, t->n, units, &p->w, err);

    if (rc != DSGD_OK)
        return rc;
    p->waiting = calloc(t->n, sizeof *p->waiting);
    p->lag_s = calloc(t->n, sizeof *p->lag_s);
    p->log_s = calloc(t->n, sizeof *p->log_s);
    p->status = calloc(t->n, sizeof *p->status);
    if (!p->waiting || !p->lag_s || !p->log_s || !p->status)
        return error_set(err, DSGD_E_NOMEM, "simulate: no memory");
    if (kind != POLICY_PARTS_SHARED)
        rc = create_shares(p, spec, !model, t, err);
    if (rc == DSGD_OK && model)
        rc = timing_create(setup->model, t->n, t->n_nodes, t->node, &p->timing,
                           err);
    if (rc == DSGD_OK && model)
        rc = simulate_telemetry_create(&p->telemetry, t, setup->model, err);
    return rc;
}

static void destroy(struct pool *p)
{
    parts_world_free(&p->w);
    shares_free(p->shares);
    timing_free(p->timing);
    simulate_telemetry_free(&p->telemetry);
    free(p->waiting);
    free(p->lag_s);
    free(p->log_s);
    free(p->status);
}

static enum dsgd_err run_pool(const struct simulate_spec *spec,
                              enum policy_kind kind,
                              const struct policy_setup *setup,
                              struct simulate_result *result,
                              struct dsgd_error *err)
{
    const struct trace *t = setup->trace;
    struct pool p = {.result = result};
    double time_s = 0, steps = (double)(t->steps - spec->warmup);
    enum dsgd_err rc = create(&p, spec, kind, setup, err);

    for (size_t i = 0; rc == DSGD_OK && i < t->steps; i++) {
        const double *x = t->duration_s + i * t->n;
        p.scored = i >= spec->warmup;
        if (p.scored)
            time_s += step(&p, x, i) + spec->overhead_s;
        else
            warm(&p, x, i);
    }
    if (rc == DSGD_OK && p.no_memory)
        rc = error_set(err, DSGD_E_NOMEM, "simulate: no memory");
    result->throughput = (double)t->n * steps / time_s;
    result->mean_contributors = (double)t->n;
    result->mean_claims = (double)p.w.claims / (double)t->n / steps;
    destroy(&p);
    return rc;
}

enum dsgd_err simulate_parts(const struct simulate_spec *spec,
                             enum policy_kind kind,
                             const struct policy_setup *setup,
                             struct simulate_result *result,
                             struct dsgd_error *err)
{
    struct simulate_spec own = *spec;
    enum dsgd_err rc = simulate_check(setup->trace, spec, err);

    *result = (struct simulate_result){0};
    if (rc != DSGD_OK)
        return rc;
    own.carry_parts = spec->carry_parts && kind == POLICY_PARTS_SHARED;
    rc = kind == POLICY_PARTS_OWN ? parts_own_run(&own, setup, result, err)
                                  : run_pool(&own, kind, setup, result, err);
    if (rc != DSGD_OK)
        simulate_result_free(result);
    return rc;
}
