#include "simulate_world.h"

#include <math.h>
#include <stdlib.h>

#include "error.h"

static const double progress_error = .1;

enum dsgd_err world_create(const struct simulate_spec *spec, size_t n,
                           struct world *w, struct dsgd_error *err)
{
    *w = (struct world){.spec = spec, .n = n};
    w->lag_s = calloc(n, sizeof *w->lag_s);
    w->elapsed_s = calloc(n, sizeof *w->elapsed_s);
    w->old_s = calloc(n, sizeof *w->old_s);
    w->busy = calloc(n, sizeof *w->busy);
    w->sits_out = calloc(n, sizeof *w->sits_out);
    w->done = calloc(n, sizeof *w->done);
    w->start_s = calloc(n, sizeof *w->start_s);
    w->log_s = calloc(n, sizeof *w->log_s);
    w->status = calloc(n, sizeof *w->status);
    w->part = calloc(n, sizeof *w->part);
    w->arrive = calloc(n, sizeof *w->arrive);
    w->free = calloc(n, sizeof *w->free);
    rng_seed(&w->rng, spec->seed, 0x73696d);
    if (w->lag_s && w->elapsed_s && w->old_s && w->busy && w->sits_out &&
        w->done && w->start_s && w->log_s && w->status && w->part &&
        w->arrive && w->free)
        return DSGD_OK;
    world_free(w);
    return error_set(err, DSGD_E_NOMEM, "simulate: no memory for %zu workers",
                     n);
}

void world_free(struct world *w)
{
    free(w->lag_s);
    free(w->elapsed_s);
    free(w->old_s);
    free(w->busy);
    free(w->sits_out);
    free(w->done);
    free(w->start_s);
    free(w->log_s);
    free(w->status);
    free(w->part);
    free(w->arrive);
    free(w->free);
}

static int compare_events(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    int order = (x->at_s > y->at_s) - (x->at_s < y->at_s);

    return order ? order : (x->worker > y->worker) - (x->worker < y->worker);
}

void world_begin(struct world *w, const double *x)
{
    w->x = x;
    w->n_busy = 0;
    for (size_t j = 0; j < w->n; j++) {
        w->busy[j] = w->lag_s[j] > 0;
        w->part[j] = w->busy[j] ? DYNAMIC_BUSY : DYNAMIC_READY;
        w->sits_out[j] = w->done[j] = false;
        w->arrive[j] = (struct event){w->lag_s[j] + x[j], (uint32_t)j};
        if (w->busy[j])
            w->free[w->n_busy++] = (struct event){w->lag_s[j], (uint32_t)j};
    }
    qsort(w->arrive, w->n, sizeof *w->arrive, compare_events);
    qsort(w->free, w->n_busy, sizeof *w->free, compare_events);
}

double world_close_at(struct world *w, size_t c)
{
    double close_s = w->arrive[c - 1].at_s;

    for (size_t i = 0; i < c; i++)
        w->done[w->arrive[i].worker] = true;
    return close_s;
}

size_t world_contributors(const struct world *w)
{
    size_t count = 0;

    for (size_t j = 0; j < w->n; j++)
        count += w->done[j];
    return count;
}

struct seen {
    double s;
    enum timing_status status;
};

/* Of a batch begun in this step that did not make it. */
static struct seen see_cut(const struct world *w, size_t j, double close_s,
                           double noise)
{
    const struct simulate_spec *spec = w->spec;
    double ran_s = fmax(close_s - w->lag_s[j], 1e-12), x = w->x[j];
    double all_s = ran_s + spec->overhead_s; /* it runs on while we publish */
    bool progress = spec->observe == OBSERVE_PROGRESS;

    if (spec->late == LIVE_FRESH && spec->observe == OBSERVE_LATE)
        return (struct seen){x, TIMING_EXACT};
    if (spec->observe == OBSERVE_CENSORED)
        return (struct seen){ran_s, TIMING_CENSORED};
    if (spec->late == LIVE_BUSY && !progress)
        return (struct seen){ran_s, TIMING_CENSORED};
    if (spec->late == LIVE_POLL &&
        all_s < x / (double)spec->micro_batches) /* not one done yet */
        return (struct seen){all_s * (double)spec->micro_batches,
                             TIMING_CENSORED};
    return (struct seen){x * noise, TIMING_PROGRESS};
}

/* Of the old batch that a worker ended before it was free at its lag. */
static struct seen see_old(const struct world *w, size_t j, double noise)
{
    const struct simulate_spec *spec = w->spec;

    if (spec->observe == OBSERVE_CENSORED)
        return (struct seen){0, TIMING_NONE};
    if (spec->late == LIVE_POLL) /* it was abandoned */
        return (struct seen){w->old_s[j] * noise, TIMING_PROGRESS};
    return (struct seen){w->old_s[j], TIMING_EXACT};
}

static struct seen see(const struct world *w, size_t j, double close_s,
                       double noise)
{
    const struct simulate_spec *spec = w->spec;
    double lag_s = w->lag_s[j];
    /* a batch that ends while the mean is published is known as well */
    bool ended =
        !w->sits_out[j] && lag_s + w->x[j] <= close_s + spec->overhead_s;

    if (w->done[j] || (ended && spec->late != LIVE_FRESH))
        return (struct seen){w->x[j], TIMING_EXACT};
    if (w->busy[j] && lag_s >= close_s) { /* still with the old one */
        if (spec->late == LIVE_POLL)
            return (struct seen){0, TIMING_NONE};
        return (struct seen){w->elapsed_s[j] + close_s, TIMING_CENSORED};
    }
    if (w->sits_out[j])
        return see_old(w, j, noise);
    struct seen cut = see_cut(w, j, close_s, noise);
    if (lag_s > 0 && cut.status == TIMING_CENSORED) {
        /* one report a step: the one that says more */
        struct seen old = see_old(w, j, noise);
        if (old.status != TIMING_NONE && old.s > cut.s)
            return old;
    }
    return cut;
}

void world_observe(struct world *w, double close_s)
{
    for (size_t j = 0; j < w->n; j++) {
        double noise = exp(progress_error * rng_normal(&w->rng));
        struct seen seen = see(w, j, close_s, noise);
        w->start_s[j] = fmin(w->lag_s[j], close_s);
        w->status[j] = (uint8_t)seen.status;
        w->log_s[j] = seen.status == TIMING_NONE ? 0 : (float)log(seen.s);
    }
}

/* What a worker that started in this step has left when the next one starts. */
static double left_of_cut(const struct world *w, size_t j, double close_s)
{
    double end_s = w->lag_s[j] + w->x[j];

    if (w->spec->late == LIVE_POLL) {
        double part_s = w->x[j] / (double)w->spec->micro_batches;
        double parts = floor((close_s - w->lag_s[j]) / part_s) + 1;
        end_s = w->lag_s[j] + parts * part_s;
    }
    return end_s - close_s - w->spec->overhead_s;
}

void world_carry(struct world *w, double close_s)
{
    double step_s = close_s + w->spec->overhead_s;

    for (size_t j = 0; j < w->n; j++) {
        double lag_s = w->lag_s[j], left_s;
        bool started = !w->sits_out[j] && (!w->busy[j] || lag_s < close_s);

        if (w->spec->late == LIVE_FRESH || w->done[j] ||
            (w->sits_out[j] && lag_s < close_s))
            left_s = 0;
        else if (started)
            left_s = left_of_cut(w, j, close_s);
        else
            left_s = lag_s - step_s;
        if (left_s > 0 && started) {
            w->elapsed_s[j] = step_s - lag_s;
            w->old_s[j] = w->x[j];
        } else if (left_s > 0) {
            w->elapsed_s[j] += step_s;
        }
        w->lag_s[j] = left_s > 0 ? left_s : 0;
    }
}
