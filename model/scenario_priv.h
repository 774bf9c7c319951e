/* Shared by the parts of the scenario generator. */
#ifndef DSGD_SCENARIO_PRIV_H
#define DSGD_SCENARIO_PRIV_H

#include "scenario.h"

/* A step is cut into parts, because jobs start and end within one. */
enum { PARTS = 5 };

/* Effects draw from streams of their own: one more effect leaves the others as
 * they are. */
enum stream {
    STREAM_NOISE,
    STREAM_OFFSETS,
    STREAM_HETERO,
    STREAM_AR,
    STREAM_REGIMES,
    STREAM_WREGIMES,
    STREAM_JOBS,
    STREAM_HICCUP,
    STREAM_PERIODIC,
    STREAM_DRIFT,
    STREAM_BIMODAL,
    STREAM_LEVELS,
    STREAM_TELEMETRY
};
void scenario_stream(const struct scenario *s, enum stream what, struct rng *r);

/* The co-tenants' doing, per node and part of a step: [steps * PARTS][N]. */
struct jobs {
    float *load;     /* share of the node's CPUs that they use */
    float *slow;     /* the load that slows the workers, a little later */
    float *steal;    /* part of the load that is outside the node */
    float *throttle; /* part of the load that a CPU quota answers */
    float *count;
};
enum dsgd_err jobs_create(const struct scenario *s, size_t steps,
                          size_t n_nodes, struct jobs *j,
                          struct dsgd_error *err);
void jobs_free(struct jobs *j);

/* Fill t->telemetry from the jobs and the durations. */
void scenario_look(const struct scenario *s, enum scenario_telemetry kind,
                   const struct jobs *jobs, struct trace *t, double *scratch);
enum { LOOK_STATES = 8 }; /* scratch: [n_nodes][LOOK_STATES] */

#endif
