/* Steps with carry-over worked by hand, observations, and policies against the
 * prototype's scores (tests/data/model/policies.txt). */
#include "simulate.h"

#include "model_data.h"
#include "oracle.h"
#include "simulate_world.h"

static void world(struct world *w, struct simulate_spec *spec, size_t n)
{
    struct dsgd_error err;

    if (world_create(spec, n, w, &err) != DSGD_OK)
        printf("# %s\n", err.text);
}

/* What one worker looks like after a step. */
static void seen(const struct world *w, size_t j, enum timing_status status,
                 double s, const char *name)
{
    bool good = w->status[j] == status &&
                (status == TIMING_NONE || fabs(exp(w->log_s[j]) - s) <= 1e-5);

    if (!ok(good, "%s", name))
        printf("#   got status %d, %g; want %d, %g\n", w->status[j],
               exp(w->log_s[j]), status, s);
}

/* Durations 1, 2, 9; cut after two, overhead .5. */
static void busy(void)
{
    struct simulate_spec spec = {.late = LIVE_BUSY, .overhead_s = .5};
    const double first[] = {1, 2, 9}, second[] = {1, 3, 4}, third[] = {1, 1, 2};
    struct world w;

    world(&w, &spec, 3);
    world_begin(&w, first);
    near(world_close_at(&w, 2), 2, 0, "closed when the second arrives");
    is_int((long long)world_contributors(&w), 2, "two contribute");
    world_observe(&w, 2);
    seen(&w, 0, TIMING_EXACT, 1, "the first is known");
    seen(&w, 2, TIMING_CENSORED, 2, "the third has run for 2");
    world_carry(&w, 2);
    near(w.lag_s[2], 6.5, 1e-12, "it is busy for another 9 - 2 - .5");

    world_begin(&w, second);
    ok(w.busy[2] && w.n_busy == 1 && w.free[0].at_s == 6.5 &&
           w.arrive[2].at_s == 10.5,
       "its next batch would arrive at 6.5 + 4");
    near(world_close_at(&w, 2), 3, 0, "closed at 3");
    world_observe(&w, 3);
    seen(&w, 2, TIMING_CENSORED, 5.5, "the old batch has run for 2.5 + 3");
    world_carry(&w, 3);
    near(w.lag_s[2], 3, 1e-12, "3 are left");

    world_begin(&w, third);
    near(world_close_at(&w, 3), 5, 0, "waiting for it: 3 + 2");
    world_observe(&w, 5);
    seen(&w, 2, TIMING_EXACT, 2, "its own duration, without the lag");
    world_carry(&w, 5);
    near(w.lag_s[2], 0, 0, "and it is ready");
    world_free(&w);
}

/* The old batch ends in a step: reported once, if it says more. */
static void reports_old(void)
{
    struct simulate_spec spec = {.late = LIVE_BUSY, .overhead_s = 0};
    const double first[] = {1, 3}, second[] = {4, 8};
    struct world w;

    world(&w, &spec, 2);
    world_begin(&w, first);
    world_carry(&w, (world_close_at(&w, 1), 1));
    world_begin(&w, second);
    near(w.lag_s[1], 2, 0, "free at 2");
    world_close_at(&w, 1);
    world_observe(&w, 4);
    seen(&w, 1, TIMING_EXACT, 3, "the old batch's 3 says more than 'over 2'");
    world_carry(&w, 4);
    near(w.lag_s[1], 6, 0, "2 of the new batch's 8 are done");
    world_begin(&w, second);
    w.sits_out[1] = true;
    world_close_at(&w, 1);
    world_carry(&w, 7);
    near(w.lag_s[1], 0, 0, "one that sat out starts fresh");
    world_free(&w);
}

static void poll(void)
{
    struct simulate_spec spec = {.late = LIVE_POLL,
                                 .micro_batches = 4,
                                 .observe = OBSERVE_PROGRESS,
                                 .overhead_s = .25};
    const double first[] = {1, 8}, second[] = {1, 80};
    struct world w;

    world(&w, &spec, 2);
    world_begin(&w, first);
    world_close_at(&w, 1);
    world_observe(&w, 1);
    seen(&w, 1, TIMING_CENSORED, 5, "no micro-batch done: 4 * 1.25 at least");
    world_carry(&w, 1);
    near(w.lag_s[1], .75, 1e-12, "stops at 2, its next micro-batch");
    world_begin(&w, second);
    world_close_at(&w, 1);
    world_observe(&w, 3);
    ok(w.status[1] == TIMING_CENSORED || w.status[1] == TIMING_PROGRESS,
       "one report");
    world_carry(&w, 1);
    near(w.lag_s[1], 20.75 - 1.25, 1e-12, "a long micro-batch");
    world_begin(&w, second);
    world_close_at(&w, 1);
    world_observe(&w, 1);
    seen(&w, 1, TIMING_NONE, 0, "nothing is known while it lasts");
    world_free(&w);
}

static void fresh(void)
{
    struct simulate_spec spec = {.late = LIVE_FRESH, .overhead_s = .1};
    const double x[] = {1, 2, 3};
    struct world w;

    world(&w, &spec, 3);
    world_begin(&w, x);
    world_close_at(&w, 1);
    world_observe(&w, 1);
    seen(&w, 2, TIMING_EXACT, 3, "late: known by the next step");
    world_carry(&w, 1);
    near(w.lag_s[2], 0, 0, "and fresh");
    spec.observe = OBSERVE_CENSORED;
    world_observe(&w, 1);
    seen(&w, 2, TIMING_CENSORED, 1, "censored: over 1");
    spec.observe = OBSERVE_PROGRESS;
    double sum = 0, square = 0;
    for (int i = 0; i < 4000; i++) {
        world_observe(&w, 1);
        double e = w.log_s[2] - log(3);
        sum += e / 4000;
        square += e * e / 4000;
    }
    ok(w.status[2] == TIMING_PROGRESS && fabs(sum) < .008, "progress: centred");
    near(sqrt(square), .1, .006, "10 % off");
    world_free(&w);
}

static double score(const struct trace *t, enum policy_kind kind,
                    const struct simulate_spec *spec, size_t best_c)
{
    struct policy_setup setup = {.trace = t,
                                 .warmup = spec->warmup,
                                 .overhead_s = spec->overhead_s,
                                 .late = spec->late,
                                 .micro_batches = spec->micro_batches,
                                 .best_c = best_c};
    struct policy *p;
    struct simulate_result r;
    struct dsgd_error err;

    if (policy_create(kind, &setup, &p, &err) != DSGD_OK ||
        simulate_run(t, spec, p, NULL, &r, &err) != DSGD_OK) {
        printf("# %s\n", err.text);
        return NAN;
    }
    double rate = r.throughput;
    simulate_result_free(&r);
    policy_free(p);
    return rate;
}

static void best_under(const struct trace *t, struct simulate_spec spec,
                       enum live_late late, double want, const char *name)
{
    size_t c;
    double rate;
    struct dsgd_error err;

    spec.late = late;
    spec.micro_batches = 8;
    ok(simulate_best_static(t, &spec, &c, &rate, &err) == DSGD_OK, "%s", name);
    near(rate, want, 1e-3 * want, "best static");
    near(score(t, POLICY_STATIC_BEST, &spec, c), rate, 1e-9 * rate,
         "and as a policy");
}

/* A line of policies.txt. */
static void against_prototype(char *line)
{
    static const enum policy_kind kind[] = {POLICY_FULL, POLICY_STATIC_BEST,
                                            POLICY_LAST, POLICY_ROLLING,
                                            POLICY_EWMA};
    struct trace *t = data_trace(strtok(line, " "));
    struct simulate_spec spec = {.warmup = 20, .seed = 1};
    struct oracle o;
    double want;

    if (!ok(t, "%s", line))
        return;
    spec.overhead_s = atof(strtok(NULL, " "));
    double *sorted = oracle_sort(t, 20);
    oracle_find(t->steps - 20, t->n, sorted, spec.overhead_s, NULL, &o);
    free(sorted);
    want = atof(strtok(NULL, " "));
    near(o.throughput, want, 1e-7 * want, "oracle");
    for (size_t i = 0; i < sizeof kind / sizeof kind[0]; i++) {
        want = atof(strtok(NULL, " "));
        near(score(t, kind[i], &spec, o.best_c) / o.throughput, want, 3e-4,
             policy_name(kind[i]));
    }
    want = atof(strtok(NULL, " "));
    if (want > 0) {
        best_under(t, spec, LIVE_BUSY, want * o.throughput, "busy");
        want = atof(strtok(NULL, " "));
        best_under(t, spec, LIVE_POLL, want * o.throughput, "poll:8");
    }
    trace_free(t);
}

/* Fractions of the oracle without overhead, rolling over 10 steps. */
static void rolling(const char *name, double want)
{
    struct trace *t = data_trace(name);
    struct simulate_spec spec = {.warmup = 10};
    struct oracle o;

    if (!t)
        return;
    double *sorted = oracle_sort(t, 10);
    oracle_find(t->steps - 10, t->n, sorted, 0, NULL, &o);
    free(sorted);
    near(score(t, POLICY_ROLLING, &spec, 0) / o.throughput, want, .003, name);
    trace_free(t);
}

static void refused(void)
{
    struct trace *t = data_trace("bytedance-SE-dp32");
    struct simulate_spec spec = {.warmup = 43};
    struct simulate_result r;
    struct policy *p;
    struct dsgd_error err;
    struct policy_setup setup = {.trace = t, .warmup = 0};

    if (!t || policy_create(POLICY_FULL, &setup, &p, &err) != DSGD_OK)
        return;
    ok(simulate_run(t, &spec, p, NULL, &r, &err) == DSGD_E_RANGE &&
           strstr(err.text, "43 steps leave none after a warm-up of 43"),
       "no step after the warm-up: %s", err.text);
    policy_free(p);
    ok(policy_parse("ewma", 4) == POLICY_EWMA &&
           policy_parse("ewmas", 5) == N_POLICIES &&
           policy_parse("", 0) == N_POLICIES,
       "names of policies");
    trace_free(t);
}

int main(void)
{
    busy();
    reports_old();
    poll();
    fresh();
    rolling("pai-job1", .994);
    rolling("pai-job4", .985);
    rolling("bytedance-SE-dp32", .985);
    rolling("varbench-1024", .997);
    refused();
    data_lines("policies.txt", against_prototype);
    return done();
}
