#include "coordinator_dynamic.h"

#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "coordinator_loads.h"
#include "coordinator_parts.h"
#include "coordinator_shares.h"
#include "dynamic.h"
#include "error.h"
#include "launch.h"

/* Predicting waits for this part of a median duration: no step is closed
 * before. */
#define PUT_OFF .25

/* Of so many units at most the model is asked to think live. */
#define MOST_UNITS 4096

/* Where shares are deposited in parts the model's workers are units: the k-th
 * of a worker is the first k of n_units equal pieces of its batch, which start
 * with it and take k times as long as one. */
struct dyn {
    struct dynamic *d;
    uint32_t n_units;      /* of a worker */
    const uint32_t *index; /* [n_workers] of its first in the model's order */
    uint32_t *done;        /* [n_workers] units that have arrived */
    uint8_t *part; /* [n_workers][n_units] in that order, as the next two */
    float *log_s;
    uint8_t *status;
    float *latest_s;  /* [n_workers] scratch */
    bool waiting;     /* to predict the open step */
    bool running;     /* the model has begun a step that is not ended */
    double elapsed_s; /* of that step, once closed */
    double next_s;    /* own clock */
    double hidden_us, tick_us;
    uint64_t step;
};

static double stopwatch_us(uint64_t since_ns)
{
    return (double)(sys_now_ns() - since_ns) * 1e-3;
}

void dyn_free(struct coordinator *c)
{
    struct dyn *y = c->dyn;

    if (!y)
        return;
    dynamic_free(y->d);
    free(y->done);
    free(y->part);
    free(y->log_s);
    free(y->status);
    free(y->latest_s);
    free(y);
    c->dyn = NULL;
}

static bool allocate(struct coordinator *c, struct dyn *y)
{
    size_t n = c->n_workers, units = n * y->n_units;

    y->done = calloc(n, sizeof *y->done);
    y->part = calloc(units, sizeof *y->part);
    y->log_s = calloc(units, sizeof *y->log_s);
    y->status = calloc(units, sizeof *y->status);
    y->latest_s = calloc(n, sizeof *y->latest_s);
    return y->latest_s && y->done && y->part && y->log_s && y->status;
}

/* A model of a fixed cluster has its workers. */
static uint32_t count_units(const struct coordinator *c,
                            const struct timing_model *model)
{
    uint64_t part = launch_part(&c->opt);
    uint64_t most = MOST_UNITS / c->n_workers;
    uint64_t units = (c->opt.batch + part - 1) / part;

    if (!c->deposits || !strcmp(timing_model_kind(model), "dmm") || !most)
        return 1;
    return (uint32_t)(units < most ? units : most);
}

/* Samples after which a worker's units up to k, from 1, are complete. */
static uint64_t unit_end(const struct coordinator *c, uint32_t w, uint32_t k)
{
    uint64_t count = c->worker[w].range.count;
    uint64_t n = c->dyn->n_units;
    uint64_t end = (c->opt.batch * k + n - 1) / n;

    return k == n || end > count ? count : end;
}

static enum dsgd_err make(struct coordinator *c, struct dyn *y,
                          const struct coordinator_config *config,
                          struct dsgd_error *err)
{
    struct dynamic_spec spec;
    enum dsgd_err rc;

    dynamic_spec_init(&spec);
    rc = rule_parse("DSGD_RULE", c->opt.rule, &spec.rule, err);
    if (rc != DSGD_OK)
        return rc;
    y->n_units = count_units(c, config->model);
    rc = loads_create(c, config->model, y->n_units, err);
    if (rc != DSGD_OK)
        return rc;
    y->index = c->loads->index;
    if (!allocate(c, y))
        return error_set(err, DSGD_E_NOMEM, "timing model: no memory");
    spec.n = (size_t)c->n_workers * y->n_units;
    spec.n_nodes = c->n_nodes;
    spec.node = c->loads->node;
    spec.late = c->opt.polls || c->deposits ? LIVE_POLL : LIVE_BUSY;
    spec.min = c->opt.min_contributors * y->n_units;
    spec.dry = config->cutoff->mode == CUTOFF_DRY;
    return dynamic_create(&spec, config->model, &y->d, err);
}

enum dsgd_err dyn_create(struct coordinator *c,
                         const struct coordinator_config *config,
                         struct dsgd_error *err)
{
    bool dry = config->cutoff->mode == CUTOFF_DRY;

    if (config->cutoff->mode != CUTOFF_DYNAMIC && !dry)
        return DSGD_OK;
    if (!config->model)
        return error_set(err, DSGD_E_NOMODEL,
                         "--dsgd-cutoff: %s needs a timing model and none is "
                         "installed; use full, static:K or order",
                         dry ? "dry" : "dynamic");
    if (!dry && c->opt.work == DSGD_WORK_SHARED)
        return DSGD_OK; /* see coordinator_shares.h */
    struct dyn *y = calloc(1, sizeof *y);
    if (!y)
        return error_set(err, DSGD_E_NOMEM, "timing model: no memory");
    c->dyn = y;
    y->next_s = INFINITY;
    enum dsgd_err rc = make(c, y, config, err);
    if (rc != DSGD_OK)
        dyn_free(c);
    return rc;
}

void dyn_open(struct coordinator *c)
{
    if (c->dyn)
        c->dyn->waiting = true;
}

static void log_decision(struct coordinator *c)
{
    struct dyn *y = c->dyn;
    const struct dynamic_record *r = dynamic_record(y->d);
    double units = (double)y->n_units;
    struct record_decision row = {.step = y->step,
                                  .planned_s = r->planned_s,
                                  .expected = r->expected / units,
                                  .would_s = r->would_s,
                                  .would = (uint32_t)(r->would / y->n_units),
                                  .predicted_gain = r->predicted_gain,
                                  .realised_gain = r->realised_gain,
                                  .lambda = r->lambda / units,
                                  .hidden_us = y->hidden_us,
                                  .tick_us = y->tick_us};

    snprintf(row.policy, sizeof row.policy, "%s", r->policy);
    record_put_decision(c->record, &row);
}

/* Realignment: a worker that frees itself too late for the planned close would
 * be cut again, and late again; it is told to sit the step out. */
static void tell_latest(struct coordinator *c)
{
    struct dyn *y = c->dyn;

    for (uint32_t i = 0; i < c->n_nodes; i++) {
        const struct peer *p = &c->peer[i];
        bool any = false;
        for (uint32_t l = 0; l < p->n_local; l++) {
            uint32_t at = y->index[p->worker[l]];
            y->latest_s[l] = INFINITY;
            if (y->part[at] == DYNAMIC_BUSY &&
                !c->worker[p->worker[l]].waited_for)
                y->latest_s[l] = (float)dynamic_latest_start_s(y->d, at);
            any = any || isfinite(y->latest_s[l]);
        }
        if (any)
            peers_latest(c, i, y->latest_s);
    }
}

void dyn_begin(struct coordinator *c, uint32_t w)
{
    struct dyn *y = c->dyn;
    const struct worker *worker = &c->worker[w];

    if (!y || y->waiting || worker->fresh || !worker->working)
        return;
    for (uint32_t k = 0; k < y->n_units; k++)
        dynamic_start(y->d, y->index[w] + k, (double)worker->lag_s);
}

/* Tell the model what became of the step before. */
static void observe_last(struct coordinator *c)
{
    struct dyn *y = c->dyn;
    uint64_t began_ns = sys_now_ns();

    if (!y->running)
        return;
    dynamic_end(y->d, y->elapsed_s, y->log_s, y->status);
    y->running = false;
    y->hidden_us += stopwatch_us(began_ns);
    log_decision(c);
}

/* What the model is told that a worker does in the open step. */
static void set_parts(struct coordinator *c, uint32_t w)
{
    struct dyn *y = c->dyn;
    const struct worker *worker = &c->worker[w];

    y->done[w] = 0;
    for (uint32_t k = 0; k < y->n_units; k++) {
        bool has =
            worker->working && (!k || unit_end(c, w, k) < worker->range.count);
        y->part[y->index[w] + k] = !has            ? DYNAMIC_ABSENT
                                   : worker->fresh ? DYNAMIC_READY
                                                   : DYNAMIC_BUSY;
    }
}

/* A worker's first samples are in, after so long. */
static void arrive(struct coordinator *c, uint32_t w, uint64_t samples,
                   double arrival_s, uint8_t status)
{
    struct dyn *y = c->dyn;

    while (y->done[w] < y->n_units) {
        uint32_t i = y->index[w] + y->done[w];
        uint64_t end = unit_end(c, w, y->done[w] + 1);
        if (end > samples || y->part[i] == DYNAMIC_ABSENT)
            break;
        double unit_s = arrival_s * (double)end / (double)samples;
        y->log_s[i] = (float)log(unit_s);
        y->status[i] = status;
        dynamic_arrive(y->d, i, unit_s, c->now_s - c->step_s);
        y->done[w]++;
        y->next_s = c->now_s;
    }
}

/* Observe the step before, predict the open one. */
static void predict(struct coordinator *c)
{
    struct dyn *y = c->dyn;

    y->waiting = false;
    observe_last(c);
    uint64_t began_ns = sys_now_ns();
    size_t n = (size_t)c->n_workers * y->n_units;
    memset(y->status, TIMING_NONE, n);
    memset(y->log_s, 0, n * sizeof *y->log_s);
    for (uint32_t w = 0; w < c->n_workers; w++)
        set_parts(c, w);
    dynamic_begin(y->d, y->part, loads_features(c), c->overhead_s);
    for (uint32_t w = 0; w < c->n_workers; w++) {
        const struct worker *worker = &c->worker[w];
        if (!isnan(worker->lag_s))
            dyn_begin(c, w);
        if (worker->deposited && !worker->arrived)
            arrive(c, w, worker->deposited, worker->deposit_s, TIMING_EXACT);
    }
    y->running = true;
    y->step = c->step;
    y->tick_us = 0;
    y->next_s = c->step_s;
    y->hidden_us = stopwatch_us(began_ns);
    tell_latest(c);
}

bool dyn_pump(struct coordinator *c)
{
    struct dyn *y = c->dyn;
    double put_off_s = PUT_OFF * cutoff_median_s(c->cutoff);

    if (!y || !y->waiting || c->now_s - c->step_s < put_off_s)
        return false;
    predict(c);
    return true;
}

/* All of a batch of a step that was closed is known to take so long. */
static void learn(struct dyn *y, uint32_t w, double batch_s, uint8_t status)
{
    for (uint32_t k = y->done[w]; k < y->n_units; k++) {
        uint32_t i = y->index[w] + k;
        double share = (double)(k + 1) / (double)y->n_units;
        y->log_s[i] = (float)log(batch_s * share);
        y->status[i] = status;
    }
}

void dyn_deposit(struct coordinator *c, uint32_t w)
{
    const struct worker *worker = &c->worker[w];

    if (c->dyn && !c->dyn->waiting)
        arrive(c, w, worker->deposited, worker->deposit_s, TIMING_EXACT);
}

void dyn_commit(struct coordinator *c, uint32_t w, double arrival_s,
                bool partial, bool in_time)
{
    struct dyn *y = c->dyn;

    if (!y)
        return;
    if (in_time && y->waiting)
        predict(c);
    uint8_t status = partial ? TIMING_PROGRESS : TIMING_EXACT;
    if (in_time)
        arrive(c, w, c->worker[w].range.count, arrival_s, status);
    else
        learn(y, w, arrival_s, status);
}

void dyn_leave(struct coordinator *c, uint32_t w)
{
    struct dyn *y = c->dyn;

    if (!y || !y->running || y->waiting || c->phase != PHASE_OPEN)
        return;
    for (uint32_t k = 0; k < y->n_units; k++)
        dynamic_leave(y->d, y->index[w] + k);
}

bool dyn_close(struct coordinator *c)
{
    struct dyn *y = c->dyn;
    double next_s;

    if (!y || y->waiting || c->now_s < y->next_s)
        return false;
    uint64_t began_ns = sys_now_ns();
    bool close = dynamic_close(y->d, c->now_s - c->step_s, &next_s);
    y->tick_us = fmax(y->tick_us, stopwatch_us(began_ns));
    y->next_s = c->step_s + next_s;
    return close;
}

/* What of a worker has not arrived takes at least as long as it has been
 * running. */
static void censor(struct coordinator *c, uint32_t w)
{
    struct dyn *y = c->dyn;
    const struct worker *worker = &c->worker[w];
    double running_s = y->elapsed_s - (double)worker->lag_s;

    if (!worker->working || (worker->arrived && !worker->cut_short) ||
        !(running_s > 0))
        return;
    for (uint32_t k = y->done[w]; k < y->n_units; k++) {
        uint32_t i = y->index[w] + k;
        if (y->status[i] != TIMING_NONE)
            continue;
        y->log_s[i] = (float)log(running_s);
        y->status[i] = TIMING_CENSORED;
    }
}

void dyn_closed(struct coordinator *c)
{
    struct dyn *y = c->dyn;

    if (!y)
        return;
    if (y->waiting)
        predict(c);
    y->elapsed_s = c->now_s - c->step_s;
    y->next_s = INFINITY;
    for (uint32_t w = 0; w < c->n_workers; w++)
        censor(c, w);
}

size_t dyn_state_bytes(const struct coordinator *c)
{
    if (c->sizes)
        return sizes_state_bytes(c);
    return c->dyn ? dynamic_state_bytes(c->dyn->d) : 0;
}

/* It is observed now: what would still be heard of late workers is missed in
 * this step. */
void dyn_state_save(struct coordinator *c, void *out)
{
    sizes_state_save(c, out);
    if (!c->dyn)
        return;
    observe_last(c);
    dynamic_state_save(c->dyn->d, out);
}

enum dsgd_err dyn_state_load(struct coordinator *c, const void *in,
                             size_t bytes, struct dsgd_error *err)
{
    if (c->sizes)
        return sizes_state_load(c, in, bytes, err);
    return dynamic_state_load(c->dyn->d, in, bytes, err);
}

double coordinator_next_s(const struct coordinator *c)
{
    const struct dyn *y = c->dyn;
    double put_off_s = PUT_OFF * cutoff_median_s(c->cutoff);

    if (c->deal)
        return deal_next_s(c);
    if (!y || c->phase != PHASE_OPEN)
        return INFINITY;
    if (y->waiting)
        return c->step_s + (isnan(put_off_s) ? 0 : put_off_s);
    return y->next_s;
}
