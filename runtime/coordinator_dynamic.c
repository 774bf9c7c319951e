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

/* Predicting waits for this part of a median duration: no step is closed
 * before. */
#define PUT_OFF .25

struct dyn {
    struct dynamic *d;
    const uint32_t *index; /* [n_workers] of a worker in the model's order */
    uint8_t *part; /* [n_workers], in the model's order as the next two */
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
    free(y->part);
    free(y->log_s);
    free(y->status);
    free(y->latest_s);
    free(y);
    c->dyn = NULL;
}

static bool allocate(struct coordinator *c, struct dyn *y)
{
    size_t n = c->n_workers;

    y->part = calloc(n, sizeof *y->part);
    y->log_s = calloc(n, sizeof *y->log_s);
    y->status = calloc(n, sizeof *y->status);
    y->latest_s = calloc(n, sizeof *y->latest_s);
    return y->latest_s && y->part && y->log_s && y->status;
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
    rc = loads_create(c, config->model, err);
    if (rc != DSGD_OK)
        return rc;
    y->index = c->loads->index;
    if (!allocate(c, y))
        return error_set(err, DSGD_E_NOMEM, "timing model: no memory");
    spec.n = c->n_workers;
    spec.n_nodes = c->n_nodes;
    spec.node = c->loads->node;
    spec.late = c->opt.polls ? LIVE_POLL : LIVE_BUSY;
    spec.min = c->opt.min_contributors;
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
    struct record_decision row = {.step = y->step,
                                  .planned_s = r->planned_s,
                                  .expected = r->expected,
                                  .would_s = r->would_s,
                                  .would = (uint32_t)r->would,
                                  .predicted_gain = r->predicted_gain,
                                  .realised_gain = r->realised_gain,
                                  .lambda = r->lambda,
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

    if (y && !y->waiting && !worker->fresh && worker->working)
        dynamic_start(y->d, y->index[w], (double)worker->lag_s);
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

/* Observe the step before, predict the open one. */
static void predict(struct coordinator *c)
{
    struct dyn *y = c->dyn;

    y->waiting = false;
    observe_last(c);
    uint64_t began_ns = sys_now_ns();
    memset(y->status, TIMING_NONE, c->n_workers);
    memset(y->log_s, 0, c->n_workers * sizeof *y->log_s);
    for (uint32_t w = 0; w < c->n_workers; w++) {
        const struct worker *worker = &c->worker[w];
        y->part[y->index[w]] = !worker->working ? DYNAMIC_ABSENT
                               : worker->fresh  ? DYNAMIC_READY
                                                : DYNAMIC_BUSY;
    }
    dynamic_begin(y->d, y->part, loads_features(c), c->overhead_s);
    for (uint32_t w = 0; w < c->n_workers; w++) {
        if (!isnan(c->worker[w].lag_s))
            dyn_begin(c, w);
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

void dyn_commit(struct coordinator *c, uint32_t w, double arrival_s,
                bool partial, bool in_time)
{
    struct dyn *y = c->dyn;

    if (!y)
        return;
    if (in_time && y->waiting)
        predict(c);
    uint32_t i = y->index[w];
    y->log_s[i] = (float)log(arrival_s);
    y->status[i] = partial ? TIMING_PROGRESS : TIMING_EXACT;
    if (!in_time)
        return;
    dynamic_arrive(y->d, i, arrival_s, c->now_s - c->step_s);
    y->next_s = c->now_s;
}

void dyn_leave(struct coordinator *c, uint32_t w)
{
    struct dyn *y = c->dyn;

    if (y && y->running && !y->waiting && c->phase == PHASE_OPEN)
        dynamic_leave(y->d, y->index[w]);
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

/* Who has not arrived takes at least as long as it has been running. */
void dyn_closed(struct coordinator *c)
{
    struct dyn *y = c->dyn;

    if (!y)
        return;
    if (y->waiting)
        predict(c);
    y->elapsed_s = c->now_s - c->step_s;
    y->next_s = INFINITY;
    for (uint32_t w = 0; w < c->n_workers; w++) {
        const struct worker *worker = &c->worker[w];
        uint32_t i = y->index[w];
        double running_s = y->elapsed_s - (double)worker->lag_s;
        if (!worker->working || worker->arrived ||
            y->status[i] != TIMING_NONE || !(running_s > 0))
            continue;
        y->log_s[i] = (float)log(running_s);
        y->status[i] = TIMING_CENSORED;
    }
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
