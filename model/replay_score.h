/* Scores of cutoff policies on one trace. */
#ifndef DSGD_REPLAY_SCORE_H
#define DSGD_REPLAY_SCORE_H

#include <stdbool.h>
#include <stddef.h>

#include "oracle.h"
#include "policy.h"
#include "simulate.h"

struct score_spec {
    struct simulate_spec simulate;     /* overhead_s is found by the trace */
    double overhead_percent;           /* of the warm-up's median duration */
    double part_cost_percent;          /* of the same */
    enum policy_kind kind[N_POLICIES]; /* in the order of the report */
    size_t n_kinds;
    const struct timing_model *set, *dmm; /* NULL: none */
    enum rule rule;
};

struct policy_score {
    enum policy_kind kind;
    double throughput; /* contributors per unit of time of the trace */
    double of_oracle, vs_full, vs_static_best, of_bound;
    double mean_contributors;
    double mean_claims; /* parts begun a worker and step, NaN: no parts */
    double hidden_us[2], tick_us[2]; /* p50 and p99, NaN: nothing to measure */
};

struct score {
    const struct trace *trace;
    struct oracle oracle; /* every worker starts each step at once */
    double no_idle;       /* their bound of steps of n batches */
    double overhead_s, part_cost_s;
    double best_static; /* under the spec's carry-over */
    struct policy_score policy[N_POLICIES];
    size_t n_policies;
};

/* Score the policies of a spec.  Errors: those of simulate_run and
 * policy_create. */
enum dsgd_err score_trace(const struct trace *t, const struct score_spec *spec,
                          struct score *out, struct dsgd_error *err);

#endif
