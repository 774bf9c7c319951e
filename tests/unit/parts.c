/* Policies in parts: steps worked by hand, what always holds. */
#include "simulate_parts.h"

#include "model_data.h"
#include "oracle.h"
#include "scenario.h"

static struct timing_model *model;

static struct trace *hand(size_t steps, size_t n, const double *x)
{
    struct trace *t = NULL;
    struct dsgd_error err;

    if (trace_create(steps, n, n, 0, &t, &err) != DSGD_OK)
        printf("# %s\n", err.text);
    else
        memcpy(t->duration_s, x, steps * n * sizeof *x);
    return t;
}

static struct trace *synthetic(const char *text)
{
    struct scenario s;
    struct trace *t = NULL;
    struct dsgd_error err;

    if (scenario_parse(text, &s, &err) != DSGD_OK ||
        scenario_make(&s, SCENARIO_FEATURES, &t, &err) != DSGD_OK)
        printf("# %s\n", err.text);
    return t;
}

static struct policy_setup setup_of(const struct trace *t,
                                    const struct simulate_spec *spec)
{
    return (struct policy_setup){.trace = t,
                                 .warmup = spec->warmup,
                                 .overhead_s = spec->overhead_s,
                                 .late = spec->late,
                                 .micro_batches = spec->micro_batches,
                                 .model = model,
                                 .rule = RULE_LIVE,
                                 .seed = spec->seed};
}

static struct simulate_result run(const struct trace *t,
                                  const struct simulate_spec *spec,
                                  enum policy_kind kind)
{
    struct policy_setup setup = setup_of(t, spec);
    struct simulate_result r = {.throughput = NAN};
    struct dsgd_error err;

    if (simulate_parts(spec, kind, &setup, &r, &err) != DSGD_OK) {
        printf("# %s\n", err.text);
        return (struct simulate_result){.throughput = NAN};
    }
    struct simulate_result scores = r;
    simulate_result_free(&r);
    return scores; /* without its times */
}

/* Two workers, batches of 1 and 3 in two parts, steps of four parts.  Worker 0
 * deposits at .5, 1, 1.5, worker 1 at 1.5.  Worker 0 deposited its third just
 * before and has begun a fourth; where both rates are known, and are looked at,
 * it has not. */
static void shared(void)
{
    const double x[] = {1, 3, 1, 3, 1, 3};
    struct trace *one = hand(1, 2, x), *two = hand(2, 2, x);
    struct trace *three = hand(3, 2, x);
    struct simulate_spec spec = {.late = LIVE_FRESH, .parts = 2};
    struct simulate_result r = run(one, &spec, POLICY_PARTS_SHARED);

    near(r.throughput, 2 / 1.5, 1e-12, "shared: a step of 1.5");
    near(r.mean_contributors, 2, 0, "of two batches");
    near(r.mean_claims, 5 / 2., 1e-12, "and five claims");
    near(oracle_no_idle(one, 0, 0), 2 / 1.5, 1e-12, "which is the bound");
    near(run(two, &spec, POLICY_PARTS_SHARED).throughput, 4 / 3., 1e-12,
         "fresh: so is the second");
    spec.late = LIVE_BUSY;
    near(run(two, &spec, POLICY_PARTS_SHARED).throughput, 4 / 3.5, 1e-12,
         "busy: .5 late, the fourth part at 2");
    r = run(three, &spec, POLICY_PARTS_LAST);
    near(r.throughput, 6 / 5., 1e-12, "which is not begun any more: 2, 1.5");
    near(r.mean_claims, (5 + 4 + 4) / 6., 1e-12, "four claims");
    spec.carry_parts = true;
    near(run(two, &spec, POLICY_PARTS_SHARED).throughput, 4 / 3., 1e-12,
         "carried: it counts in the second step, at .5 of that");
    spec.carry_parts = false;
    spec.late = LIVE_POLL;
    spec.micro_batches = 8;
    near(run(two, &spec, POLICY_PARTS_SHARED).throughput, 4 / 3.125, 1e-12,
         "poll:8: 1/8 late");
    spec = (struct simulate_spec){
        .late = LIVE_FRESH, .parts = 2, .overhead_s = .25, .part_cost_s = .25};
    near(run(one, &spec, POLICY_PARTS_SHARED).throughput, 2 / 2.5, 1e-12,
         "costs: .75, 1.5, 1.75, 2.25, and the overhead");
    near(oracle_no_idle(one, 0, .25), 2 / 1.75, 1e-12,
         "the bound knows of the overhead alone");
    trace_free(one);
    trace_free(two);
    trace_free(three);
}

/* A batch of 1 and one of 9: the slow one's first part, of 4.5, is not waited
 * for, which closes two steps at 2.  It is thrown away; free at .5 of the third
 * step, its worker has its first part of that in at 2, as the other its
 * fourth. */
static void straggler(void)
{
    const double x[] = {1, 9, 1, 9, 1, 3};
    struct trace *t = hand(3, 2, x);
    struct simulate_spec spec = {.late = LIVE_BUSY, .parts = 2};

    near(run(t, &spec, POLICY_PARTS_SHARED).throughput, 6 / 6., 1e-12,
         "a straggler's part is thrown away");
    spec.carry_parts = true;
    near(run(t, &spec, POLICY_PARTS_SHARED).throughput, 6 / 6., 1e-12,
         "also where parts are carried: it is two steps old");
    trace_free(t);
}

/* Both batches in two parts, all are waited for without a prediction. */
static void own(void)
{
    const double x[] = {1, 3};
    struct trace *t = hand(1, 2, x);
    struct simulate_spec spec = {
        .late = LIVE_BUSY, .parts = 2, .part_cost_s = .5};
    struct simulate_result r = run(t, &spec, POLICY_PARTS_OWN);

    near(r.throughput, 2 / 4., 1e-12, "own: 3 and two parts' costs");
    near(r.mean_contributors, 2, 1e-12, "both whole");
    near(r.mean_claims, 2, 1e-12, "in two parts each");
    trace_free(t);
}

/* In one part it is the policy dynamic. */
static void own_whole(const char *text, enum live_late late)
{
    struct trace *t = synthetic(text);
    struct simulate_spec spec = {
        .late = late, .parts = 1, .warmup = 20, .overhead_s = .02, .seed = 1};
    struct policy_setup setup = setup_of(t, &spec);
    struct simulate_result r;
    struct policy *p = NULL;
    struct dsgd_error err;

    if (policy_create(POLICY_DYNAMIC, &setup, &p, &err) != DSGD_OK ||
        simulate_run(t, &spec, p, model, &r, &err) != DSGD_OK) {
        ok(false, "%s", err.text);
    } else {
        near(run(t, &spec, POLICY_PARTS_OWN).throughput, r.throughput,
             1e-12 * r.throughput, "own in one part: as dynamic");
        simulate_result_free(&r);
    }
    policy_free(p);
    trace_free(t);
}

static double of_bound(const struct trace *t, struct simulate_spec spec,
                       size_t parts, enum policy_kind kind)
{
    spec.parts = parts;
    return run(t, &spec, kind).throughput /
           oracle_no_idle(t, spec.warmup, spec.overhead_s);
}

/* Whatever happens, no step of n batches is faster than nobody idle. */
static void bounded(const char *text)
{
    static const enum live_late late[] = {LIVE_FRESH, LIVE_BUSY, LIVE_POLL};
    struct trace *t = synthetic(text);
    double most = 0, fine = 1, model3 = 1, least8 = 1;

    for (int i = 0; i < 3; i++) {
        struct simulate_spec spec = {.late = late[i],
                                     .micro_batches = 8,
                                     .warmup = 30,
                                     .overhead_s = .02,
                                     .observe = i == 2 ? OBSERVE_PROGRESS
                                                       : OBSERVE_LATE};
        for (size_t parts = 1; parts <= 16; parts *= 2)
            most = fmax(most, of_bound(t, spec, parts, POLICY_PARTS_SHARED));
        fine = fmin(fine, of_bound(t, spec, 400, POLICY_PARTS_SHARED));
        double with3 = of_bound(t, spec, 3, POLICY_PARTS_MODEL);
        double last8 = of_bound(t, spec, 8, POLICY_PARTS_LAST);
        double shared8 = of_bound(t, spec, 8, POLICY_PARTS_SHARED);
        model3 = fmin(model3, with3 - fmax(shared8, last8));
        least8 = fmin(least8, last8);
        most = fmax(most, with3);
        most = fmax(most, of_bound(t, spec, 8, POLICY_PARTS_MODEL));
    }
    ok(most > .9 && most <= 1 + 1e-9, "%s: never above the bound: %.4f", text,
       most);
    ok(fine >= .99, "with many parts at the bound: %.4f", fine);
    ok(least8 >= .93, "parts-last in 8 within .07 of it: %.4f", least8);
    ok(model3 >= 0, "parts-model in 3 is the others in 8: %+.4f", model3);
    trace_free(t);
}

/* One worker has nobody to share with: the rate is its own. */
static void alone(void)
{
    const double x[] = {1, 2, 1.5, .5, 1};
    struct trace *t = hand(5, 1, x);
    struct simulate_spec spec = {
        .late = LIVE_BUSY, .parts = 3, .overhead_s = .1};

    near(run(t, &spec, POLICY_PARTS_SHARED).throughput, 5 / 6.5, 1e-12,
         "one worker, shared");
    near(run(t, &spec, POLICY_PARTS_MODEL).throughput, 5 / 6.5, 1e-9,
         "by the model");
    near(oracle_no_idle(t, 0, .1), 5 / 6.5, 1e-12, "and the bound");
    trace_free(t);
}

/* Rates that change within a step; the same seed, the same noise. */
static void noise(void)
{
    struct trace *t = synthetic("iid:n=16,T=120,seed=2");
    struct simulate_spec spec = {.late = LIVE_BUSY,
                                 .parts = 3,
                                 .warmup = 30,
                                 .overhead_s = .02,
                                 .seed = 1};
    double calm = run(t, &spec, POLICY_PARTS_MODEL).throughput;

    spec.part_noise = .2;
    double first = run(t, &spec, POLICY_PARTS_MODEL).throughput;
    ok(first < calm && first > .85 * calm,
       "rates that change by 20 %% cost less than 15 %%: %.4f", first / calm);
    near(run(t, &spec, POLICY_PARTS_MODEL).throughput, first, 0,
         "the same seed gives the same");
    trace_free(t);
}

static void refused(void)
{
    const double x[] = {1, 3};
    struct trace *t = hand(1, 2, x);
    struct simulate_spec spec = {.parts = 2, .warmup = 1};
    struct policy_setup setup = setup_of(t, &spec);
    struct simulate_result r;
    struct dsgd_error err;

    ok(simulate_parts(&spec, POLICY_PARTS_SHARED, &setup, &r, &err) ==
           DSGD_E_RANGE,
       "no step after the warm-up: %s", err.text);
    ok(policy_in_parts(POLICY_PARTS_MODEL) && !policy_in_parts(POLICY_DYNAMIC),
       "which are in parts");
    trace_free(t);
}

int main(void)
{
    model = data_default_model();
    if (!model)
        return done();
    shared();
    straggler();
    own();
    own_whole("mix:n=12,T=80,seed=3", LIVE_FRESH);
    own_whole("bimodal:n=16,T=80,seed=4", LIVE_FRESH);
    bounded("mix:n=16,T=120,seed=1");
    bounded("bimodal:n=40,T=90,seed=2");
    alone();
    noise();
    refused();
    timing_model_free(model);
    return done();
}
