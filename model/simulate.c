#include "simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "error.h"
#include "simulate_telemetry.h"
#include "simulate_world.h"
#include "sort.h"

/* A policy at work on a trace. */
struct run {
    const struct trace *t;
    struct world w;
    struct policy *policy;
    struct dynamic *dynamic; /* of the policy, NULL: it counts */
    struct simulate_telemetry telemetry;
    struct simulate_result *result;
    bool scored;
    size_t contributors;
    double time_s;
    bool no_memory;
};

double simulate_now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec * 1e-3;
}

bool simulate_times_add(struct simulate_times *times, double us)
{
    if (times->count == times->room) {
        size_t room = times->room ? 2 * times->room : 256;
        double *grown = realloc(times->us, room * sizeof *grown);
        if (!grown)
            return false;
        times->us = grown;
        times->room = room;
    }
    times->us[times->count++] = us;
    return true;
}

static void push(struct run *r, struct simulate_times *times, double us)
{
    if (!simulate_times_add(times, us))
        r->no_memory = true;
}

/* Ask whether to close; what a decision costs is measured where there is one:
 * at ticks and, in small clusters, at arrivals. */
static bool ask(struct run *r, double at_s, bool decides, double *next_s)
{
    double before = simulate_now_us();
    bool close = dynamic_close(r->dynamic, at_s, next_s);

    if (r->scored && decides)
        push(r, &r->result->tick, simulate_now_us() - before);
    if (!(*next_s > at_s))
        *next_s = INFINITY;
    return close;
}

static double event_at(const struct event *e, size_t i, size_t count)
{
    return i < count ? e[i].at_s : INFINITY;
}

/* Let the step happen, event by event, until the policy closes it. */
static double play(struct run *r)
{
    struct world *w = &r->w;
    size_t arrived = 0, freed = 0;
    double now_s = 0, next_s;
    bool closed = ask(r, 0, false, &next_s);

    while (!closed) {
        while (arrived < w->n && w->sits_out[w->arrive[arrived].worker])
            arrived++;
        double arrive_s = event_at(w->arrive, arrived, w->n);
        double free_s = event_at(w->free, freed, w->n_busy);
        double event_s = fmin(fmin(arrive_s, free_s), next_s);
        bool tick = next_s <= fmin(arrive_s, free_s);
        if (isinf(event_s))
            break;
        now_s = event_s;
        if (!tick && free_s <= arrive_s) {
            size_t j = w->free[freed++].worker;
            w->sits_out[j] = !dynamic_start(r->dynamic, j, now_s);
        } else if (!tick) {
            size_t j = w->arrive[arrived++].worker;
            w->done[j] = true;
            dynamic_arrive(r->dynamic, j, w->x[j], now_s);
        }
        closed = ask(r, now_s, tick || w->n <= 64, &next_s);
    }
    return now_s;
}

static void step(struct run *r, size_t t)
{
    struct world *w = &r->w;
    const struct simulate_spec *spec = w->spec;
    const float *telemetry = simulate_telemetry_at(&r->telemetry, t);
    double close_s, hidden_us;

    r->scored = t >= spec->warmup;
    world_begin(w, r->t->duration_s + t * w->n);
    double before = simulate_now_us();
    if (r->dynamic) {
        dynamic_begin(r->dynamic, w->part, telemetry, spec->overhead_s);
        hidden_us = simulate_now_us() - before;
        close_s = play(r);
    } else {
        size_t c = policy_begin(r->policy, w->busy);
        hidden_us = simulate_now_us() - before;
        close_s = world_close_at(w, c);
    }
    size_t count = world_contributors(w);
    world_observe(w, close_s);
    before = simulate_now_us();
    if (r->dynamic)
        dynamic_end(r->dynamic, close_s, w->log_s, w->status);
    else
        policy_end(r->policy, count, close_s, w->start_s, w->log_s, w->status);
    hidden_us += simulate_now_us() - before;
    world_carry(w, close_s);
    if (!r->scored)
        return;
    push(r, &r->result->hidden, hidden_us);
    r->contributors += count;
    r->time_s += close_s + spec->overhead_s;
}

enum dsgd_err simulate_check(const struct trace *t,
                             const struct simulate_spec *spec,
                             struct dsgd_error *err)
{
    if (spec->warmup < t->steps)
        return DSGD_OK;
    return error_set(err, DSGD_E_RANGE,
                     "%s: %zu steps leave none after a warm-up of %zu; give a "
                     "longer trace or --warmup=%zu",
                     t->name ? t->name : "trace", t->steps, spec->warmup,
                     t->steps / 2);
}

enum dsgd_err
simulate_run(const struct trace *t, const struct simulate_spec *spec,
             struct policy *policy, const struct timing_model *model,
             struct simulate_result *result, struct dsgd_error *err)
{
    struct run r = {.t = t,
                    .policy = policy,
                    .dynamic = policy_dynamic(policy),
                    .result = result};

    *result = (struct simulate_result){0};
    enum dsgd_err rc = simulate_check(t, spec, err);
    if (rc == DSGD_OK)
        rc = world_create(spec, t->n, &r.w, err);
    if (rc != DSGD_OK)
        return rc;
    rc = simulate_telemetry_create(&r.telemetry, t, model, err);
    for (size_t i = 0; rc == DSGD_OK && i < t->steps; i++)
        step(&r, i);
    if (rc == DSGD_OK && r.no_memory)
        rc = error_set(err, DSGD_E_NOMEM, "simulate: no memory");
    result->throughput = (double)r.contributors / r.time_s;
    result->mean_claims = NAN;
    result->mean_contributors =
        (double)r.contributors / (double)(t->steps - spec->warmup);
    world_free(&r.w);
    simulate_telemetry_free(&r.telemetry);
    if (rc != DSGD_OK)
        simulate_result_free(result);
    return rc;
}

void simulate_result_free(struct simulate_result *r)
{
    free(r->hidden.us);
    free(r->tick.us);
    *r = (struct simulate_result){0};
}

double simulate_quantile(struct simulate_times *times, double q)
{
    if (!times->count)
        return NAN;
    sort_doubles(times->count, times->us);
    return times->us[(size_t)(q * (double)(times->count - 1) + .5)];
}

static double fixed_rate(const struct trace *t,
                         const struct simulate_spec *spec, struct world *w,
                         size_t c)
{
    double count = 0, time_s = 0;

    memset(w->lag_s, 0, w->n * sizeof *w->lag_s);
    for (size_t i = spec->warmup; i < t->steps; i++) {
        world_begin(w, t->duration_s + i * t->n);
        double close_s = world_close_at(w, c);
        count += (double)world_contributors(w);
        time_s += close_s + spec->overhead_s;
        world_carry(w, close_s);
    }
    return count / time_s;
}

enum dsgd_err simulate_best_static(const struct trace *t,
                                   const struct simulate_spec *spec,
                                   size_t *best_c, double *throughput,
                                   struct dsgd_error *err)
{
    enum { ALL = 256, SOME = 100 };
    size_t tries = t->n <= ALL ? t->n : SOME;
    struct world w;
    enum dsgd_err rc = simulate_check(t, spec, err);

    if (rc == DSGD_OK)
        rc = world_create(spec, t->n, &w, err);
    if (rc != DSGD_OK)
        return rc;
    *throughput = 0;
    for (size_t i = 1; i <= tries; i++) {
        size_t c = i * t->n / tries;
        double rate = fixed_rate(t, spec, &w, c);
        if (rate >= *throughput) {
            *throughput = rate;
            *best_c = c;
        }
    }
    world_free(&w);
    return DSGD_OK;
}
