#include "record_sim.h"

#include <math.h>
#include <stdlib.h>

enum { MICRO_BATCHES = 8, BATCH = 64 };

struct worker {
    double free_s;     /* since the run's start */
    double lag_s;      /* when it could begin this step */
    double duration_s; /* of this step's batch */
    bool is_late;      /* with this, still: */
    struct record_late late;
};

double sim_uniform(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return ((double)((z ^ z >> 31) >> 11) + .5) / 9007199254740992.;
}

double sim_normal(uint64_t *state)
{
    double radius = sqrt(-2 * log(sim_uniform(state)));
    return radius * cos(2 * M_PI * sim_uniform(state));
}

static double draw(const struct sim *sim, uint64_t *state, uint32_t w,
                   uint64_t step, double common)
{
    double factor = sim->node_factor[w / sim->per_node];
    double s = sim->median_s * common * exp(sim->sigma * sim_normal(state));

    if (sim_uniform(state) < sim->tail)
        s *= 3 * pow(10, sim_uniform(state));
    if (factor > 0 &&
        (!sim->slow_from || (step >= sim->slow_from && step <= sim->slow_to)))
        s *= factor;
    if (w + 1 == sim->slow_worker)
        s *= 3;
    if (w + 1 == sim->stuck_worker && step >= sim->stuck_step)
        s = INFINITY;
    return s;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* When the step closes: at the keep-th arrival.  Whoever never comes is waited
 * for no longer than all others. */
static double close_time(const struct sim *sim, const struct worker *worker,
                         double *scratch, uint32_t n)
{
    uint32_t come = 0;

    for (uint32_t w = 0; w < n; w++)
        if (isfinite(worker[w].lag_s + worker[w].duration_s))
            scratch[come++] = worker[w].lag_s + worker[w].duration_s;
    qsort(scratch, come, sizeof *scratch, compare);
    uint32_t keep = sim->keep && sim->keep < come ? sim->keep : come;
    return keep ? scratch[keep - 1] : 0;
}

/* A cut worker finishes, or stops at its next micro-batch. */
static void end_cut(const struct sim *sim, struct worker *k, double start_s,
                    double close_s)
{
    double ran_s = close_s - k->lag_s;

    k->free_s = start_s + k->lag_s + k->duration_s;
    if (sim->polls && isfinite(k->duration_s)) {
        double micro_s = k->duration_s / MICRO_BATCHES;
        double done = ceil((ran_s > 0 ? ran_s : 0) / micro_s);
        if (done < MICRO_BATCHES)
            k->free_s = start_s + k->lag_s + done * micro_s;
    }
}

struct state {
    struct worker *worker;
    double *scratch;
    uint8_t *mask;
    float *duration, *lag;
    uint64_t *first;
    uint32_t *count;
    uint64_t random;
    void (*late)(void *, const struct record_late *);
    void *arg;
};

/* What a worker does in a step that closes at close_s. */
static void end_step(const struct sim *sim, struct state *s, uint32_t w,
                     uint64_t t, double start_s, double close_s)
{
    struct worker *k = &s->worker[w];

    s->mask[w] = k->lag_s + k->duration_s <= close_s;
    s->lag[w] = s->duration[w] = NAN;
    if (!(k->lag_s < close_s)) /* not begun: still at an earlier one */
        return;
    if (k->is_late)
        s->late(s->arg, &k->late);
    k->is_late = !s->mask[w];
    s->lag[w] = (float)k->lag_s;
    if (s->mask[w]) {
        s->duration[w] = (float)k->duration_s;
        k->free_s = start_s + close_s;
        return;
    }
    k->late = (struct record_late){.step = t,
                                   .worker = w,
                                   .duration_s = (float)k->duration_s,
                                   .lag_s = (float)k->lag_s,
                                   .fraction = sim->polls ? .5f : 1};
    end_cut(sim, k, start_s, close_s);
}

/* Let the step happen; returns when it was closed, since its start. */
static double run_step(const struct sim *sim, struct state *s, uint64_t t,
                       double start_s)
{
    uint32_t n = sim->nodes * sim->per_node;
    double common = exp(sim->common * sim_normal(&s->random));

    for (uint32_t w = 0; w < n; w++) {
        struct worker *k = &s->worker[w];
        s->first[w] = (t * n + w) * BATCH;
        s->count[w] = BATCH;
        k->lag_s = k->free_s > start_s ? k->free_s - start_s : 0;
        k->duration_s = draw(sim, &s->random, w, t, common);
    }
    double close_s = close_time(sim, s->worker, s->scratch, n);
    for (uint32_t w = 0; w < n; w++)
        end_step(sim, s, w, t, start_s, close_s);
    return close_s;
}

static uint32_t bits(const uint8_t *mask, uint32_t n)
{
    uint32_t sum = 0;
    for (uint32_t w = 0; w < n; w++)
        sum += mask[w];
    return sum;
}

void sim_run(const struct sim *sim,
             void (*step)(void *arg, const struct record_step *step),
             void (*late)(void *arg, const struct record_late *late), void *arg)
{
    uint32_t n = sim->nodes * sim->per_node;
    struct state s = {.random = sim->seed, .late = late, .arg = arg};
    double start_s = 0;

    s.worker = calloc(n, sizeof *s.worker);
    s.scratch = calloc(n, sizeof *s.scratch);
    s.mask = calloc(n, 1);
    s.duration = calloc(n, sizeof *s.duration);
    s.lag = calloc(n, sizeof *s.lag);
    s.first = calloc(n, sizeof *s.first);
    s.count = calloc(n, sizeof *s.count);
    for (uint64_t t = 1; t <= sim->steps; t++) {
        double close_s = run_step(sim, &s, t, start_s);
        struct record_step row = {
            .step = t,
            .epoch = (t - 1) / sim->steps_per_epoch,
            .target = sim->keep,
            .contributors = bits(s.mask, n),
            .alive = n,
            .epoch_end = t % sim->steps_per_epoch == 0,
            .samples = (uint64_t)BATCH * bits(s.mask, n),
            .start_s = start_s,
            .close_s = close_s,
            .publish_s = close_s + .002,
            .lr_scale = 1,
            .mask = s.mask,
            .duration_s = s.duration,
            .lag_s = s.lag,
            .first = s.first,
            .count = s.count,
        };
        step(arg, &row);
        start_s += close_s + .003 + (row.epoch_end ? 1 : 0); /* evaluation */
    }
    free(s.worker);
    free(s.scratch);
    free(s.mask);
    free(s.duration);
    free(s.lag);
    free(s.first);
    free(s.count);
}
