/* What a timing model learns from: traces as they are, and as they were seen.
 */
#ifndef DSGD_FIT_POOL_H
#define DSGD_FIT_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "trace.h"

/* One cluster's steps.  Arrays belong to the pool. */
struct fit_trace {
    char *name; /* for messages */
    size_t steps, n, n_nodes, features;
    uint32_t *node; /* [n] ascending */
    float *target;  /* [steps][n] log durations to predict; a bound where
                         target_status is TIMING_CENSORED */
    uint8_t *target_status; /* [steps][n] enum timing_status */
    float *seen;      /* [steps][n] log durations as the runtime saw them */
    uint8_t *status;  /* [steps][n] of seen */
    float *telemetry; /* [steps][n_nodes][features], NaN: not valid; NULL:
                         none */
};

struct fit_pool {
    size_t count, room;
    struct fit_trace *trace;    /* [count] */
    size_t features;            /* columns of every trace's telemetry */
    const char *const *feature; /* their names, not owned */
};

/* An empty pool whose telemetry has these columns.  */
void fit_pool_init(struct fit_pool *pool, size_t features,
                   const char *const *feature);
void fit_pool_clear(struct fit_pool *pool);

/* Add a trace with its arrays: exact everywhere, telemetry NaN or none.
 *   out  out  valid until the next one is added
 * Errors: DSGD_E_NOMEM, DSGD_E_RANGE. */
enum dsgd_err fit_pool_new(struct fit_pool *pool, const char *name,
                           size_t steps, size_t n, size_t n_nodes,
                           bool telemetry, struct fit_trace **out,
                           struct dsgd_error *err);

/* Take back the trace that was added last. */
void fit_pool_drop(struct fit_pool *pool);

/* Add a copy of a trace; telemetry columns are matched by their names. */
enum dsgd_err fit_pool_add(struct fit_pool *pool, const struct trace *t,
                           struct dsgd_error *err);

/* What synthetic clusters are made of. */
struct fit_synth {
    size_t count, steps;   /* traces, and steps of each */
    uint64_t seed, stream; /* what trace number i depends on */
    uint64_t first;        /* number of the first one */
    bool named; /* the named scenarios in turn, not random ones: to validate */
    const char *scenario; /* this one, with other seeds; NULL: random ones */
    bool lab3; /* the telemetry of the prototype: load_1, load_8, distractor */
};

/* Add synthetic clusters: 8 to 64 workers, one in twelve up to 260, on 1 to n
 * nodes; 60 % with telemetry; what is seen of 22 % is cut off at random
 * closes, of 18 % estimated.  The target is always the whole row. */
enum dsgd_err fit_pool_synth(struct fit_pool *pool, const struct fit_synth *s,
                             struct dsgd_error *err);

/* Cells of a trace's target of which something is known, from a step on. */
size_t fit_trace_known(const struct fit_trace *t, size_t from);

/* Steps of all traces. */
size_t fit_pool_steps(const struct fit_pool *pool);

#endif
