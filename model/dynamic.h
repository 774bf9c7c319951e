/* The dynamic cutoff of a run: a timing model, the rule, the running throughput
 * and the guard, as one object.
 *
 * A step:
 *     dynamic_begin()                  predict, plan: hidden behind the compute
 *     dynamic_start(), _arrive(), _leave(), _close() ...   as things happen
 *     dynamic_end()                    observe, score: hidden as well
 * All times are seconds since the step's start, on one clock.  Local, not
 * thread safe, and nothing is allocated after dynamic_create. */
#ifndef DSGD_DYNAMIC_H
#define DSGD_DYNAMIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "live.h"
#include "rules.h"
#include "timing.h"

struct dynamic_spec {
    size_t n, n_nodes;
    const uint32_t *node; /* [n] ascending, as in timing_create */
    enum rule rule;       /* RULE_LIVE */
    enum live_late late;  /* LIVE_BUSY */
    double min_share;     /* a step is not closed below this share of n: .1 */
    size_t min;           /* nor below this count: 0 */
    size_t warmup;        /* first steps that wait for all: 10 */
    uint64_t seed;        /* of the fixed rules' samples: 1 */
    bool guard;           /* true: fall back where the model does not help */
    bool dry;             /* decide, but close only when all are there */
};

/* The defaults above, each worker a node of its own (node NULL). */
void dynamic_spec_init(struct dynamic_spec *spec);

struct dynamic;

/*   spec   in   copied; node too.  node NULL: each worker is a node
 *   model  in   kept, must outlive d; NULL: no model, the guard's simple
 *               policies alone
 *   d      out  NULL on error; dynamic_free
 * Errors: DSGD_E_NOMEM, DSGD_E_RANGE (n < 1, node, min_share outside 0..1, min
 * above n, a model for another n). */
enum dsgd_err dynamic_create(const struct dynamic_spec *spec,
                             const struct timing_model *model,
                             struct dynamic **d, struct dsgd_error *err);
void dynamic_free(struct dynamic *d);

/* What a worker does when a step starts. */
enum dynamic_part {
    DYNAMIC_ABSENT = 0, /* lost, or has no samples: not waited for */
    DYNAMIC_READY = 1,  /* starts now */
    DYNAMIC_BUSY = 2    /* still with an older batch: see dynamic_start */
};

/* A step starts: predict it and plan.
 *   part        in  [n] enum dynamic_part
 *   telemetry   in  [n_nodes][timing_model_features] as readable now, NaN: not
 *                   valid; NULL: none
 *   overhead_s  in  measured cost of close, reduce, publish and update */
void dynamic_begin(struct dynamic *d, const uint8_t *part,
                   const float *telemetry, double overhead_s);

/* A busy worker is free.  True: it starts this step's batch now.  False: it
 * sits this step out, because its batch would come too late and make it late
 * for the next one as well (realignment); it is not waited for, and is to be
 * DYNAMIC_READY at the next step.  Always true under LIVE_FRESH and
 * LIVE_POLL. */
bool dynamic_start(struct dynamic *d, size_t worker, double at_s);

/* The latest time at which dynamic_start would return true, as it looks now;
 * INFINITY: any. */
double dynamic_latest_start_s(const struct dynamic *d, size_t worker);

/* A worker's whole batch of this step is in.  duration_s: its own, measured
 * from its own start. */
void dynamic_arrive(struct dynamic *d, size_t worker, double duration_s,
                    double at_s);

/* A worker is lost, or will not contribute to this step for another reason. */
void dynamic_leave(struct dynamic *d, size_t worker);

/* Close the step now?  To be asked after dynamic_begin with now_s = 0, after
 * each event and at *next_s.  Cheap when there is nothing to decide.
 *   next_s  out  when to ask again if nothing happens before; INFINITY: never
 * True also when nobody is left to wait for, without any arrival too; under
 * dry only then. */
bool dynamic_close(struct dynamic *d, double now_s, double *next_s);

/* The step is closed, by dynamic_close or by somebody else.
 *   elapsed_s  in  when
 *   log_s      in  [n] log of each worker's own duration, bound or estimate.
 *                  A worker cut earlier whose old batch finished in this step
 *                  reports that one's duration, once, as TIMING_EXACT
 *   status     in  [n] enum timing_status
 * Workers that arrived are the contributors. */
void dynamic_end(struct dynamic *d, double elapsed_s, const float *log_s,
                 const uint8_t *status);

/* What happened in the step that ended last. */
struct dynamic_record {
    uint64_t step;      /* counted from 0 by dynamic_begin */
    const char *policy; /* who decided: "warm-up", "live", "cautious", "full" */
    size_t contributors; /* arrived by the close */
    double elapsed_s;
    double planned_s; /* close planned before the first arrival; NaN: none */
    double expected;  /* contributors expected at that time; NaN */
    size_t would;     /* contributors and time at which the policy would */
    double would_s;   /* have closed (dry), else those above */
    double
        predicted_gain;   /* throughput over that of waiting for all, less 1, */
    double realised_gain; /* as predicted at the close, as known now; 0 uncut */
    double lambda;        /* running throughput, contributors a second */
};
const struct dynamic_record *dynamic_record(const struct dynamic *d);

/* State size in bytes, and saving and loading it (for checkpoints), between
 * dynamic_end and dynamic_begin only.  Under LIVE_FRESH the guard and its
 * simple policies are not part of it, and start anew: no run is of that kind.
 * Errors: DSGD_E_FORMAT (saved by another version or for another n, nodes or
 * model, or times and sums that cannot be). */
size_t dynamic_state_bytes(const struct dynamic *d);
void dynamic_state_save(const struct dynamic *d, void *out);
enum dsgd_err dynamic_state_load(struct dynamic *d, const void *in,
                                 size_t bytes, struct dsgd_error *err);

#endif
