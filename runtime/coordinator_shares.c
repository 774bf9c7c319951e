#include "coordinator_shares.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator_loads.h"
#include "coordinator_parts.h"
#include "error.h"
#include "lambda.h"
#include "shares.h"

/* A first claim is all of what is expected to fit but for a single part (and
 * what costs little when it runs late, shares.h): with two claims. */
#define CLAIMS 2

enum {
    BLIND_STEPS = 5,   /* before the model has seen enough to be believed */
    LAMBDA_STEPS = 300 /* half-life of the running throughput */
};

/* What outlives steps beside the timing model's own state. */
struct sizes_core {
    uint64_t steps; /* observed */
    struct lambda lambda;
};

/* Arrays [n_workers] are in the model's order, but for those marked. */
struct sizes {
    struct timing *timing;
    struct shares *shares;
    struct sizes_core core;
    double *lag_s;
    float *log_s;
    uint8_t *status;
    double *began_s; /* by worker: own clock when it began the open step, NAN */
    double *start_s; /* by worker: from the step's start to its own, mean */
    bool *gave;      /* by worker: something to the step before */
    uint64_t part;   /* samples of a unit; 0: the step is not planned */
    bool waits;      /* what became of the step before is to be observed */
    double planned_s; /* the close as planned at first, NAN */
    double end_s;     /* … when all tokens were out, NAN: not yet */
    double plan_s;    /* own clock of the next plan */
    double hidden_us, tick_us;
};

static double stopwatch_us(uint64_t since_ns)
{
    return (double)(sys_now_ns() - since_ns) * 1e-3;
}

void sizes_free(struct coordinator *c)
{
    struct sizes *z = c->sizes;

    if (!z)
        return;
    timing_free(z->timing);
    shares_free(z->shares);
    free(z->lag_s);
    free(z->log_s);
    free(z->status);
    free(z->began_s);
    free(z->start_s);
    free(z->gave);
    free(z);
    c->sizes = NULL;
}

static enum dsgd_err make(struct coordinator *c, struct sizes *z,
                          const struct timing_model *model,
                          struct dsgd_error *err)
{
    size_t n = c->n_workers, units = deal_parts(c);
    enum dsgd_err rc = loads_create(c, model, 1, err);

    if (rc != DSGD_OK)
        return rc;
    z->lag_s = calloc(n, sizeof *z->lag_s);
    z->log_s = calloc(n, sizeof *z->log_s);
    z->status = calloc(n, sizeof *z->status);
    z->began_s = calloc(n, sizeof *z->began_s);
    z->start_s = calloc(n, sizeof *z->start_s);
    z->gave = calloc(n, sizeof *z->gave);
    if (!z->lag_s || !z->log_s || !z->status || !z->began_s || !z->start_s ||
        !z->gave)
        return error_set(err, DSGD_E_NOMEM, "timing model: no memory");
    struct shares_spec spec = {.n = n,
                               .n_nodes = c->n_nodes,
                               .node = c->loads->node,
                               .parts = units < CLAIMS ? units : CLAIMS,
                               .units = units,
                               .most = units};
    rc = shares_create(&spec, &z->shares, err);
    if (rc != DSGD_OK)
        return rc;
    return timing_create(model, n, c->n_nodes, c->loads->node, &z->timing, err);
}

enum dsgd_err sizes_create(struct coordinator *c,
                           const struct coordinator_config *config,
                           struct dsgd_error *err)
{
    if (!c->deal || config->cutoff->mode != CUTOFF_DYNAMIC)
        return DSGD_OK;
    struct sizes *z = calloc(1, sizeof *z);
    if (!z)
        return error_set(err, DSGD_E_NOMEM, "timing model: no memory");
    c->sizes = z;
    lambda_init(&z->core.lambda, LAMBDA_STEPS);
    z->planned_s = NAN;
    enum dsgd_err rc = make(c, z, config->model, err);
    if (rc != DSGD_OK)
        sizes_free(c);
    return rc;
}

void sizes_open(struct coordinator *c)
{
    struct sizes *z = c->sizes;

    if (!z)
        return;
    z->part = 0;
    z->end_s = NAN;
    for (uint32_t w = 0; w < c->n_workers; w++)
        z->began_s[w] = NAN;
}

static void log_decision(struct coordinator *c)
{
    const struct sizes *z = c->sizes;
    struct record_decision row = {.step = c->step,
                                  .policy = "shares",
                                  .planned_s = z->planned_s,
                                  .expected = c->n_working,
                                  .would_s = c->close_s - c->step_s,
                                  .would = c->n_arrived,
                                  .lambda = lambda_get(&z->core.lambda),
                                  .hidden_us = z->hidden_us,
                                  .tick_us = z->tick_us};

    if (isnan(z->planned_s)) {
        snprintf(row.policy, sizeof row.policy, "warm-up");
        row.expected = NAN;
    }
    record_put_decision(c->record, &row);
}

/* Who gave nothing to the step before is with something older still; the others
 * start when they have applied the mean. */
static void expect_lags(struct coordinator *c)
{
    struct sizes *z = c->sizes;

    for (uint32_t w = 0; w < c->n_workers; w++)
        z->lag_s[c->loads->index[w]] = z->gave[w] ? z->start_s[w] : INFINITY;
}

static void observe_last(struct coordinator *c)
{
    struct sizes *z = c->sizes;
    uint64_t began_ns = sys_now_ns();

    if (!z->waits)
        return;
    z->waits = false;
    timing_observe(z->timing, z->log_s, z->status);
    z->core.steps++;
    z->hidden_us += stopwatch_us(began_ns);
}

/* What each worker claims first, of a batch of so many units. */
static void size(struct coordinator *c, const struct predictive *p,
                 size_t units, const bool *counts, uint64_t *first)
{
    struct sizes *z = c->sizes;
    const uint32_t *index = c->loads->index;

    expect_lags(c);
    shares_batch(z->shares, units);
    shares_begin(z->shares, p, z->lag_s);
    for (uint32_t w = 0; w < c->n_workers; w++) {
        if (!counts[w])
            shares_leave(z->shares, index[w]);
    }
    for (uint32_t w = 0; w < c->n_workers; w++) {
        bool late = isinf(z->lag_s[index[w]]);
        first[w] = late ? 0 : z->part * shares_claim(z->shares, index[w], 0);
    }
    z->planned_s = shares_close_s(z->shares);
    for (uint32_t w = 0; w < c->n_workers; w++) {
        if (!isnan(z->began_s[w]))
            shares_began(z->shares, index[w], z->began_s[w] - c->step_s);
    }
}

bool sizes_plan(struct coordinator *c, uint64_t batch, uint64_t part,
                const bool *counts, uint64_t *first)
{
    struct sizes *z = c->sizes;

    if (!z)
        return false;
    z->hidden_us = z->tick_us = 0;
    z->planned_s = NAN;
    observe_last(c);
    uint64_t began_ns = sys_now_ns();
    const struct predictive *p = timing_predict(z->timing, loads_features(c));
    bool sized = first && p && z->core.steps >= BLIND_STEPS;
    if (sized) {
        z->part = part;
        size(c, p, (size_t)(batch / part), counts, first);
    }
    z->hidden_us += stopwatch_us(began_ns);
    return sized;
}

void sizes_begin(struct coordinator *c, uint32_t w)
{
    struct sizes *z = c->sizes;

    if (!z)
        return;
    z->began_s[w] = c->now_s;
    z->start_s[w] += .2 * (c->now_s - c->step_s - z->start_s[w]);
    if (z->part)
        shares_began(z->shares, c->loads->index[w], c->now_s - c->step_s);
}

/* It goes on with its own from now. */
void sizes_carried(struct coordinator *c, uint32_t w, uint64_t samples)
{
    struct sizes *z = c->sizes;

    if (!z || !z->part)
        return;
    shares_add(z->shares, (size_t)(samples / z->part));
    shares_began(z->shares, c->loads->index[w], c->now_s - c->step_s);
}

void sizes_single(struct coordinator *c, uint32_t w)
{
    struct sizes *z = c->sizes;

    if (z && z->part)
        shares_take(z->shares, c->loads->index[w], 1, c->now_s - c->step_s);
}

void sizes_part(struct coordinator *c, uint32_t w, double duration_s)
{
    struct sizes *z = c->sizes;
    double at_s = c->now_s - c->step_s;

    if (!z || !z->part)
        return;
    uint32_t i = c->loads->index[w];
    if (duration_s > 0)
        shares_began(z->shares, i, at_s - duration_s);
    shares_deposit(z->shares, i, at_s);
    shares_take(z->shares, i, 1, at_s);
}

void sizes_leave(struct coordinator *c, uint32_t w)
{
    struct sizes *z = c->sizes;

    if (z && z->part)
        shares_leave(z->shares, c->loads->index[w]);
}

bool sizes_late(struct coordinator *c, uint32_t w, uint64_t samples,
                uint64_t waits, double *late_s)
{
    struct sizes *z = c->sizes;

    *late_s = 0;
    if (!z || !z->part)
        return false;
    uint32_t i = c->loads->index[w];
    double rest = samples > waits ? (double)(samples - waits) : 0;
    double rate = shares_rate(z->shares, i) * (double)z->part;
    double others_s = rest > 0 ? rest / rate : 0; /* nobody else: never */

    *late_s = shares_left_s(z->shares, i, c->now_s - c->step_s);
    return !(others_s >= *late_s);
}

bool sizes_overdue(struct coordinator *c)
{
    const double patience = 2, most = 2;
    struct sizes *z = c->sizes;
    double at_s = c->now_s - c->step_s;

    if (isnan(z->end_s)) {
        uint64_t began_ns = sys_now_ns();
        shares_plan(z->shares, at_s);
        double wait_s = patience * (shares_close_s(z->shares) - at_s);
        z->end_s = fmin(at_s + wait_s, most * at_s);
        z->tick_us = fmax(z->tick_us, stopwatch_us(began_ns));
    }
    return at_s >= z->end_s;
}

bool sizes_stop(struct coordinator *c, uint64_t accepted, uint64_t batch)
{
    const double often = .01; /* of the step */
    struct sizes *z = c->sizes;
    double at_s = c->now_s - c->step_s;
    double least = (1 - c->opt.batch_slack) * (double)batch;

    if (!z || !z->part || !(c->opt.batch_slack > 0) ||
        !((double)accepted >= least) || c->now_s < z->plan_s)
        return false;
    uint64_t began_ns = sys_now_ns();
    z->plan_s = c->now_s + often * at_s;
    shares_plan(z->shares, at_s);
    bool stop = shares_stop(z->shares, at_s,
                            lambda_get(&z->core.lambda) / (double)z->part);
    z->tick_us = fmax(z->tick_us, stopwatch_us(began_ns));
    return stop;
}

void sizes_settle(struct coordinator *c, uint64_t samples)
{
    struct sizes *z = c->sizes;

    if (!z)
        return;
    for (uint32_t w = 0; w < c->n_workers; w++) {
        const struct worker *worker = &c->worker[w];
        uint32_t i = c->loads->index[w];
        double bound = deal_at_least_s(c, w);
        z->status[i] = TIMING_NONE;
        z->log_s[i] = 0;
        z->gave[w] = worker->arrived;
        if (worker->arrived && worker->duration_s > 0) {
            z->log_s[i] = logf(worker->duration_s);
            z->status[i] = TIMING_EXACT;
        } else if (bound > 0) {
            z->log_s[i] = (float)log(bound);
            z->status[i] = TIMING_CENSORED;
        }
    }
    z->waits = true;
    lambda_add(&z->core.lambda, (double)samples,
               c->close_s - c->step_s + c->overhead_s);
    log_decision(c);
}

size_t sizes_state_bytes(const struct coordinator *c)
{
    const struct sizes *z = c->sizes;

    return z ? sizeof z->core + timing_state_bytes(z->timing) : 0;
}

/* It is observed now, as in sizes_plan. */
void sizes_state_save(struct coordinator *c, void *out)
{
    struct sizes *z = c->sizes;

    if (!z)
        return;
    observe_last(c);
    memcpy(out, &z->core, sizeof z->core);
    timing_state_save(z->timing, (char *)out + sizeof z->core);
}

enum dsgd_err sizes_state_load(struct coordinator *c, const void *in,
                               size_t bytes, struct dsgd_error *err)
{
    struct sizes *z = c->sizes;
    struct sizes_core core;

    if (bytes != sizes_state_bytes(c))
        return error_set(err, DSGD_E_FORMAT,
                         "the saved state of %zu bytes is not one of shared "
                         "work of %u workers and this model",
                         bytes, c->n_workers);
    memcpy(&core, in, sizeof core);
    if (!lambda_valid(&core.lambda))
        return error_set(err, DSGD_E_FORMAT,
                         "the saved state of shared work has a throughput of "
                         "%g samples in %g s",
                         core.lambda.count, core.lambda.time_s);
    enum dsgd_err rc = timing_state_load(
        z->timing, (const char *)in + sizeof core, bytes - sizeof core, err);
    if (rc == DSGD_OK)
        z->core = core;
    return rc;
}
