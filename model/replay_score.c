#include "replay_score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "simulate_parts.h"
#include "sort.h"

/* Median duration of the first rows; NaN: no memory. */
static double median_s(const struct trace *t, size_t rows)
{
    size_t count = rows * t->n;
    double *x = malloc(count * sizeof *x), median = NAN;

    if (x) {
        memcpy(x, t->duration_s, count * sizeof *x);
        sort_doubles(count, x);
        median = (x[(count - 1) / 2] + x[count / 2]) / 2;
    }
    free(x);
    return median;
}

static enum dsgd_err find_oracle(struct score *s, size_t warmup,
                                 struct dsgd_error *err)
{
    double *sorted = oracle_sort(s->trace, warmup);

    if (!sorted)
        return error_set(err, DSGD_E_NOMEM, "replay: no memory for %s",
                         s->trace->name);
    oracle_find(s->trace->steps - warmup, s->trace->n, sorted, s->overhead_s,
                NULL, &s->oracle);
    free(sorted);
    return DSGD_OK;
}

static void take(struct score *s, struct policy_score *p,
                 struct simulate_result *r)
{
    static const double q[2] = {.5, .99};

    p->throughput = r->throughput;
    p->of_oracle = r->throughput / s->oracle.throughput;
    p->vs_full = r->throughput / s->oracle.full;
    p->vs_static_best = r->throughput / s->best_static;
    p->of_bound = r->throughput / s->no_idle;
    p->mean_contributors = r->mean_contributors;
    p->mean_claims = r->mean_claims;
    for (int i = 0; i < 2; i++) {
        p->hidden_us[i] = simulate_quantile(&r->hidden, q[i]);
        p->tick_us[i] = simulate_quantile(&r->tick, q[i]);
    }
}

static const struct timing_model *model_of(const struct score_spec *spec,
                                           enum policy_kind kind)
{
    enum policy_model need = policy_model(kind);

    return need == POLICY_NEEDS_DMM   ? spec->dmm
           : need == POLICY_NEEDS_SET ? spec->set
                                      : NULL;
}

static enum dsgd_err run_whole(const struct simulate_spec *spec,
                               const struct policy_setup *setup,
                               enum policy_kind kind,
                               struct simulate_result *result,
                               struct dsgd_error *err)
{
    struct policy *policy;
    enum dsgd_err rc = policy_create(kind, setup, &policy, err);

    if (rc != DSGD_OK)
        return rc;
    rc = simulate_run(setup->trace, spec, policy, setup->model, result, err);
    policy_free(policy);
    return rc;
}

static enum dsgd_err score_policy(struct score *s,
                                  const struct score_spec *spec,
                                  const struct policy_setup *setup,
                                  enum policy_kind kind, struct dsgd_error *err)
{
    struct policy_setup own = *setup;
    struct simulate_spec simulate = spec->simulate;
    struct simulate_result result = {.mean_claims = NAN};
    enum dsgd_err rc = DSGD_OK;

    own.model = model_of(spec, kind);
    simulate.overhead_s = s->overhead_s;
    simulate.part_cost_s = s->part_cost_s;
    if (kind == POLICY_NO_IDLE) {
        result.throughput = s->no_idle;
        result.mean_contributors = (double)s->trace->n;
    } else if (policy_in_parts(kind)) {
        rc = simulate_parts(&simulate, kind, &own, &result, err);
    } else {
        rc = run_whole(&simulate, &own, kind, &result, err);
    }
    if (rc != DSGD_OK)
        return rc;
    struct policy_score *p = &s->policy[s->n_policies++];
    p->kind = kind;
    take(s, p, &result);
    simulate_result_free(&result);
    return DSGD_OK;
}

/* What the spec's carry-over leaves of the best fixed count. */
static enum dsgd_err find_static(struct score *s, const struct score_spec *spec,
                                 size_t *best_c, struct dsgd_error *err)
{
    struct simulate_spec simulate = spec->simulate;

    simulate.overhead_s = s->overhead_s;
    *best_c = s->oracle.best_c;
    s->best_static = s->oracle.best_static;
    if (simulate.late == LIVE_FRESH)
        return DSGD_OK;
    return simulate_best_static(s->trace, &simulate, best_c, &s->best_static,
                                err);
}

enum dsgd_err score_trace(const struct trace *t, const struct score_spec *spec,
                          struct score *out, struct dsgd_error *err)
{
    struct score s = {.trace = t};
    size_t warmup = spec->simulate.warmup, best_c;

    if (warmup >= t->steps)
        return error_set(err, DSGD_E_RANGE,
                         "%s: %zu steps leave none after a warm-up of %zu; "
                         "give a longer trace or a smaller --warmup",
                         t->name, t->steps, warmup);
    double percent_s = median_s(t, warmup ? warmup : 1) / 100;
    s.overhead_s = spec->overhead_percent * percent_s;
    s.part_cost_s = spec->part_cost_percent * percent_s;
    if (!(s.overhead_s >= 0))
        return error_set(err, DSGD_E_NOMEM, "replay: no memory for %s",
                         t->name);
    s.no_idle = oracle_no_idle(t, warmup, s.overhead_s);
    enum dsgd_err rc = find_oracle(&s, warmup, err);
    if (rc == DSGD_OK)
        rc = find_static(&s, spec, &best_c, err);
    if (rc != DSGD_OK)
        return rc;
    struct policy_setup setup = {.trace = t,
                                 .warmup = warmup,
                                 .overhead_s = s.overhead_s,
                                 .late = spec->simulate.late,
                                 .micro_batches = spec->simulate.micro_batches,
                                 .best_c = best_c,
                                 .rule = spec->rule,
                                 .seed = spec->simulate.seed};
    for (size_t i = 0; rc == DSGD_OK && i < spec->n_kinds; i++)
        rc = score_policy(&s, spec, &setup, spec->kind[i], err);
    if (rc == DSGD_OK)
        *out = s;
    return rc;
}
