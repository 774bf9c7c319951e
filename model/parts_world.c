#include "parts_world.h"

#include <math.h>
#include <stdlib.h>

#include "error.h"

static const double progress_error = .1;

enum dsgd_err parts_world_create(const struct simulate_spec *spec, size_t n,
                                 size_t units, struct parts_world *w,
                                 struct dsgd_error *err)
{
    *w = (struct parts_world){.spec = spec, .n = n, .units = units};
    w->worker = calloc(n, sizeof *w->worker);
    w->heap = calloc(n, sizeof *w->heap);
    rng_seed(&w->rng, spec->seed, 0x7061727473);
    rng_seed(&w->noise, spec->seed, 0x72617465);
    if (w->worker && w->heap)
        return DSGD_OK;
    parts_world_free(w);
    return error_set(err, DSGD_E_NOMEM, "simulate: no memory for %zu workers",
                     n);
}

void parts_world_free(struct parts_world *w)
{
    free(w->worker);
    free(w->heap);
    w->worker = NULL;
    w->heap = NULL;
}

static bool is_before(const struct parts_event *a, const struct parts_event *b)
{
    return a->at_s < b->at_s || (a->at_s == b->at_s && a->worker < b->worker);
}

static void push(struct parts_world *w, double at_s, size_t worker)
{
    struct parts_event e = {at_s, (uint32_t)worker};
    size_t i = w->events++;

    while (i > 0 && is_before(&e, &w->heap[(i - 1) / 2])) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = e;
}

bool parts_world_next(struct parts_world *w, struct parts_event *e)
{
    size_t i = 0;

    if (!w->events)
        return false;
    *e = w->heap[0];
    struct parts_event last = w->heap[--w->events];
    for (size_t child = 1; child < w->events; child = 2 * i + 1) {
        if (child + 1 < w->events &&
            is_before(&w->heap[child + 1], &w->heap[child]))
            child++;
        if (!is_before(&w->heap[child], &last))
            break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return true;
}

void parts_world_begin(struct parts_world *w, const double *x)
{
    w->x = x;
    w->events = 0;
    for (size_t j = 0; j < w->n; j++) {
        struct parts_worker *p = &w->worker[j];
        bool carried = w->spec->carry_parts && !p->old && p->lag_s > 0;
        p->old = p->lag_s > 0;
        p->claim = carried ? p->claim : 0;
        p->in = p->worked = 0;
        p->work_s = 0;
        if (!p->old)
            p->end_s = INFINITY;
        push(w, p->lag_s, j);
    }
}

void parts_world_claim(struct parts_world *w, size_t j, double at_s,
                       size_t units)
{
    struct parts_worker *p = &w->worker[j];

    p->start_s = at_s;
    p->batch_s = w->x[j];
    p->old = false;
    if (w->spec->part_noise > 0)
        p->batch_s *= exp(w->spec->part_noise * rng_normal(&w->noise));
    p->claim = units;
    p->end_s = at_s + w->spec->part_cost_s +
               (double)units * p->batch_s / (double)w->units;
    w->claims++;
    push(w, p->end_s, j);
}

void parts_world_deposit(struct parts_world *w, size_t j, double at_s,
                         size_t units)
{
    struct parts_worker *p = &w->worker[j];

    if (p->claim && !p->old) {
        p->work_s += at_s - p->start_s - w->spec->part_cost_s;
        p->worked += p->claim;
    }
    p->in += units;
    p->claim = 0;
    p->end_s = INFINITY;
}

struct seen {
    double s;
    enum timing_status status;
};

/* Of a worker that deposited nothing: its claim, in a batch's measure. */
static struct seen see_running(const struct parts_world *w, size_t j,
                               double close_s, double noise)
{
    const struct parts_worker *p = &w->worker[j];
    const struct simulate_spec *spec = w->spec;
    double ran_s = fmax(close_s - p->start_s - spec->part_cost_s, 1e-12);
    double bound_s = ran_s * (double)w->units / (double)p->claim;

    if (spec->observe == OBSERVE_LATE &&
        (spec->late == LIVE_FRESH || p->end_s <= close_s + spec->overhead_s))
        return (struct seen){p->batch_s, TIMING_EXACT};
    if (spec->observe == OBSERVE_PROGRESS && spec->late == LIVE_POLL &&
        ran_s < p->batch_s / (double)spec->micro_batches)
        return (struct seen){ran_s * (double)spec->micro_batches,
                             TIMING_CENSORED};
    if (spec->observe == OBSERVE_PROGRESS)
        return (struct seen){p->batch_s * noise, TIMING_PROGRESS};
    return (struct seen){bound_s, TIMING_CENSORED};
}

static struct seen see(const struct parts_world *w, size_t j, double close_s,
                       double noise)
{
    const struct parts_worker *p = &w->worker[j];

    if (p->worked)
        return (struct seen){p->work_s * (double)w->units / (double)p->worked,
                             TIMING_EXACT};
    if (!p->claim || p->old) /* nothing of this step was begun */
        return (struct seen){0, TIMING_NONE};
    return see_running(w, j, close_s, noise);
}

void parts_world_observe(struct parts_world *w, double close_s, float *log_s,
                         uint8_t *status)
{
    for (size_t j = 0; j < w->n; j++) {
        double noise = exp(progress_error * rng_normal(&w->rng));
        struct seen seen = see(w, j, close_s, noise);
        status[j] = (uint8_t)seen.status;
        log_s[j] = seen.status == TIMING_NONE ? 0 : (float)log(seen.s);
    }
}

/* When a worker stops that has something in hand at the close. */
static double stop_s(const struct parts_world *w, const struct parts_worker *p,
                     double close_s)
{
    if (w->spec->late == LIVE_FRESH)
        return close_s;
    if (w->spec->late == LIVE_BUSY)
        return p->end_s;
    double micro_s = p->batch_s / (double)w->spec->micro_batches;
    double done = floor(fmax(close_s - p->start_s, 0) / micro_s);
    return fmin(p->end_s, p->start_s + (done + 1) * micro_s);
}

/* When a worker is free, after the close or before. */
static double free_s(const struct parts_world *w, const struct parts_worker *p,
                     double close_s)
{
    if (p->old)
        return p->lag_s;
    return p->claim && p->end_s > close_s ? stop_s(w, p, close_s) : 0;
}

void parts_world_carry(struct parts_world *w, double close_s)
{
    double step_s = close_s + w->spec->overhead_s;

    for (size_t j = 0; j < w->n; j++) {
        struct parts_worker *p = &w->worker[j];
        p->lag_s = fmax(free_s(w, p, close_s) - step_s, 0);
        p->start_s -= step_s;
    }
}
