/* Co-tenant jobs and what a node's telemetry shows of them.  Averages age in
 * wall-clock time: with steps of .1 s a load average sees a job hundreds of
 * steps after the workers felt it. */
#include "scenario_priv.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "detmath.h"
#include "error.h"
#include "telemetry_names.h"

void jobs_free(struct jobs *j)
{
    free(j->load);
    free(j->slow);
    free(j->steal);
    free(j->throttle);
    free(j->count);
    *j = (struct jobs){0};
}

/* The part that a time in steps falls into, within 0..parts. */
static size_t part_at(double step, size_t parts)
{
    double part = floor(step * PARTS);
    if (!(part > 0))
        return 0;
    return part < (double)parts ? (size_t)part : parts;
}

struct job {
    size_t node;
    double from, to; /* steps */
    double load;
};

static void add(float *what, const struct job *job, size_t n_nodes,
                size_t parts, double delay, double linger, double amount)
{
    size_t end = part_at(job->to + linger, parts);

    for (size_t p = part_at(job->from + delay, parts); p < end; p++)
        what[p * n_nodes + job->node] += (float)amount;
}

static void add_job(const struct scenario *s, struct jobs *jobs,
                    const struct job *job, size_t n_nodes, size_t parts,
                    struct rng *r)
{
    double outside = rng_uniform(r) < s->job_steal ? 1 : 0;
    double quota = rng_uniform(r) < s->job_throttle ? 1 : 0;
    /* it begins to hurt a little after it shows */
    double delay = rng_range(r, .5, 1.5);

    add(jobs->slow, job, n_nodes, parts, delay, .2, job->load);
    add(jobs->load, job, n_nodes, parts, 0, 0, job->load * (1 - outside));
    add(jobs->steal, job, n_nodes, parts, 0, 0, job->load * outside);
    add(jobs->throttle, job, n_nodes, parts, 0, 0, job->load * quota);
    add(jobs->count, job, n_nodes, parts, 0, 0, 1 - outside);
}

static void jobs_of_node(const struct scenario *s, struct jobs *jobs,
                         size_t node, size_t n_nodes, size_t parts,
                         struct rng *r)
{
    double t = -3 * s->cotenant_steps; /* some run already */

    for (;;) {
        t += rng_exponential(r) / s->cotenant_rate;
        if (t >= (double)parts / PARTS)
            return;
        double length = s->cotenant_steps * det_exp(.8 * rng_normal(r));
        struct job job = {node, t, t + length, rng_range(r, .2, 1)};
        add_job(s, jobs, &job, n_nodes, parts, r);
    }
}

enum dsgd_err jobs_create(const struct scenario *s, size_t steps,
                          size_t n_nodes, struct jobs *j,
                          struct dsgd_error *err)
{
    float **arrays[] = {&j->load, &j->slow, &j->steal, &j->throttle, &j->count};
    size_t parts = steps * PARTS;
    struct rng r;

    *j = (struct jobs){0};
    if (!(s->cotenant_rate > 0))
        return DSGD_OK;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        if (!(*arrays[i] = calloc(parts * n_nodes, sizeof **arrays[i]))) {
            jobs_free(j);
            return error_set(err, DSGD_E_NOMEM,
                             "scenario: no memory for %zu steps of %zu nodes",
                             steps, n_nodes);
        }
    }
    scenario_stream(s, STREAM_JOBS, &r);
    for (size_t i = 0; i < n_nodes; i++)
        jobs_of_node(s, j, i, n_nodes, parts, &r);
    return DSGD_OK;
}

/* What a node's counters and averages hold. */
enum state {
    S_BUSY,  /* CPU time of others since the last look */
    S_STEAL, /* stolen since the last look */
    S_PERIODS,
    S_LOAD1,
    S_PSI_CPU,
    S_PSI_IO,
    S_PSI_MEM,
    S_JOBS
};
_Static_assert(S_JOBS + 1 == LOOK_STATES, "one scratch cell a state");

static void average(double *value, double now, double dt_s, double tau_s)
{
    *value += (1 - det_exp(-dt_s / tau_s)) * (now - *value);
}

static float value_at(const float *what, size_t at)
{
    return what ? what[at] : 0;
}

static double clamp01(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

/* One part of a step passes on a node: the jobs' load and a background. */
static void pass(const struct scenario *s, const struct jobs *jobs, size_t at,
                 double dt_s, double share, double *state, struct rng *r)
{
    double load = value_at(jobs->load, at) + s->bgload * rng_exponential(r);
    double stall = clamp01((load + s->own_load - 1) / (load + s->own_load));

    state[S_BUSY] += share * clamp01(load);
    state[S_STEAL] += share * clamp01(.6 * value_at(jobs->steal, at));
    state[S_PERIODS] += share * clamp01(.8 * value_at(jobs->throttle, at));
    average(&state[S_LOAD1], load + s->own_load, dt_s, 60);
    average(&state[S_PSI_CPU], .9 * stall, dt_s, 10);
    average(&state[S_PSI_IO], .1 * clamp01(load), dt_s, 10);
    average(&state[S_PSI_MEM], .02 * clamp01(load), dt_s, 10);
    state[S_JOBS] = value_at(jobs->count, at);
}

/* Read the node: counters start again, noise of the sampling on top. */
static void look(double *state, float *out, struct rng *r)
{
    double value[N_FEATURES] = {
        [FEATURE_OTHER_CPU] = state[S_BUSY] + .02 * rng_normal(r),
        [FEATURE_LOAD1] = state[S_LOAD1] + .03 * rng_normal(r),
        [FEATURE_PSI_CPU] = state[S_PSI_CPU] + .01 * rng_normal(r),
        [FEATURE_PSI_IO] = state[S_PSI_IO] + .005 * rng_normal(r),
        [FEATURE_PSI_MEM] = state[S_PSI_MEM],
        [FEATURE_THROTTLE] = state[S_PERIODS],
        [FEATURE_STEAL] = state[S_STEAL],
        [FEATURE_CO_JOBS] = det_log(1 + state[S_JOBS]),
    };

    for (size_t f = 0; f < N_FEATURES; f++)
        out[f] = (float)(value[f] > 0 ? value[f] : 0);
    state[S_BUSY] = state[S_STEAL] = state[S_PERIODS] = 0;
}

/* Counters need a last look to be a difference to. */
static void blank(float *out, const bool *valid, bool first, bool missed)
{
    for (size_t f = 0; f < N_FEATURES; f++) {
        bool counter = f == FEATURE_OTHER_CPU || f == FEATURE_THROTTLE ||
                       f == FEATURE_STEAL;
        if (!valid[f] || missed || (first && counter))
            out[f] = NAN;
    }
}

static double mean_s(const struct trace *t, size_t step)
{
    double sum = 0;
    for (size_t j = 0; j < t->n; j++)
        sum += t->duration_s[step * t->n + j];
    return sum / (double)t->n;
}

static void look_features(const struct scenario *s, const struct jobs *jobs,
                          struct trace *t, double *state, struct rng *r)
{
    bool valid[N_FEATURES];

    for (size_t f = 0; f < N_FEATURES; f++)
        valid[f] = rng_uniform(r) < s->valid;
    for (size_t i = 0; i < t->n_nodes; i++)
        state[i * LOOK_STATES + S_LOAD1] = s->own_load + s->bgload;
    for (size_t step = 0; step < t->steps; step++) {
        double dt_s = mean_s(t, step) / PARTS;
        for (size_t i = 0; i < t->n_nodes; i++) {
            float *out = t->telemetry + (step * t->n_nodes + i) * N_FEATURES;
            double *own = state + i * LOOK_STATES;
            look(own, out, r);
            blank(out, valid, step == 0, rng_uniform(r) < s->missed);
            for (size_t k = 0; k < PARTS; k++)
                pass(s, jobs, (step * PARTS + k) * t->n_nodes + i, dt_s,
                     1.0 / PARTS, own, r);
        }
    }
}

/* The prototype's telemetry: load averages in steps, not in seconds. */
static void look_lab(const struct scenario *s, const struct jobs *jobs,
                     struct trace *t, double *state, struct rng *r)
{
    double *fast = state, *slow = state + t->n_nodes;

    for (size_t i = 0; i < t->n_nodes; i++)
        fast[i] = slow[i] = s->bgload;
    for (size_t step = 0; step < t->steps; step++) {
        for (size_t i = 0; i < t->n_nodes; i++) {
            float *out = t->telemetry + (step * t->n_nodes + i) * 3;
            out[0] = (float)fmax(0, fast[i] + .03 * rng_normal(r));
            out[1] = (float)fmax(0, slow[i] + .02 * rng_normal(r));
            out[2] = (float)(.1 * rng_normal(r));
            for (size_t k = 0; k < PARTS; k++) {
                size_t at = (step * PARTS + k) * t->n_nodes + i;
                double load =
                    value_at(jobs->load, at) + s->bgload * rng_exponential(r);
                average(&fast[i], load, 1, PARTS * .7);
                average(&slow[i], load, 1, PARTS * 8.0);
            }
        }
    }
}

void scenario_look(const struct scenario *s, enum scenario_telemetry kind,
                   const struct jobs *jobs, struct trace *t, double *scratch)
{
    struct rng r;

    scenario_stream(s, STREAM_TELEMETRY, &r);
    if (kind == SCENARIO_LAB3)
        look_lab(s, jobs, t, scratch, &r);
    else
        look_features(s, jobs, t, scratch, &r);
}
