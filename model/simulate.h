/* Run a cutoff policy on a trace, seeing what the runtime would see. */
#ifndef DSGD_SIMULATE_H
#define DSGD_SIMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "live.h"
#include "policy.h"
#include "trace.h"

/* What becomes known of the run-time of a worker that was cut. */
enum simulate_observe {
    OBSERVE_LATE,     /* all of it, when it is known: under LIVE_FRESH by the
                         next step, under LIVE_BUSY when it has finished; under
                         LIVE_POLL, which never finishes, as progress */
    OBSERVE_PROGRESS, /* an estimate, 10 % off, from the micro-batches done */
    OBSERVE_CENSORED  /* that it is longer than it has run so far */
};

struct simulate_spec {
    enum live_late late;
    size_t micro_batches; /* of LIVE_POLL: a batch is done in so many parts */
    enum simulate_observe observe;
    double overhead_s;  /* of closing a step, added to each */
    size_t parts;       /* of a batch, for the parts policies; >= 1 */
    double part_cost_s; /* of claiming and depositing a part */
    double part_noise;  /* sd of the log of a claim's rate around its step's */
    bool carry_parts;   /* of LIVE_BUSY and parts-shared: what is in hand at the
                           close counts in the next step */
    size_t warmup;      /* first steps: wait for all, and do not count */
    uint64_t seed;      /* of the noise of progress estimates */
};

/* Durations measured, microseconds. */
struct simulate_times {
    double *us;
    size_t count, room;
};

struct simulate_result {
    double throughput; /* batches contributed / sum(step + overhead) */
    double mean_contributors;
    double mean_claims; /* parts started a worker and step, NaN: no parts */
    struct simulate_times hidden; /* a step's observing and predicting */
    struct simulate_times tick;   /* one decision in a step */
};

/* Run a policy over all steps of a trace.  Under carry-over a worker that was
 * cut starts its next batch late: when its old one is finished (busy), or at
 * its next micro-batch (poll); a duration in row t is that of the batch begun
 * in step t.
 *   policy   in/out  fresh from policy_create
 *   model    in      whose telemetry it reads; NULL: none
 *   result   out     simulate_result_free
 * Errors: DSGD_E_NOMEM, DSGD_E_RANGE (no step after the warm-up). */
enum dsgd_err
simulate_run(const struct trace *t, const struct simulate_spec *spec,
             struct policy *policy, const struct timing_model *model,
             struct simulate_result *result, struct dsgd_error *err);
void simulate_result_free(struct simulate_result *r);

/* For those who measure: false when there is no memory. */
double simulate_now_us(void);
bool simulate_times_add(struct simulate_times *times, double us);

/* DSGD_E_RANGE when no step is left after the warm-up. */
enum dsgd_err simulate_check(const struct trace *t,
                             const struct simulate_spec *spec,
                             struct dsgd_error *err);

/* q-quantile (0..1) of measured durations; NaN when there are none.  Sorts. */
double simulate_quantile(struct simulate_times *times, double q);

/* The best fixed count in hindsight with this spec's carry-over: of all counts
 * up to n = 256, of 100 of them above.
 * Errors: as above. */
enum dsgd_err simulate_best_static(const struct trace *t,
                                   const struct simulate_spec *spec,
                                   size_t *best_c, double *throughput,
                                   struct dsgd_error *err);

#endif
