/* What the nodes last said of their load, as a timing model reads it, and the
 * workers in the order in which it wants them. */
#ifndef DSGD_COORDINATOR_LOADS_H
#define DSGD_COORDINATOR_LOADS_H

#include "coordinator_priv.h"
#include "timing.h"

struct loads {
    uint32_t n_units; /* that stand for a worker in the model */
    size_t n_features;
    int *feature;     /* [n_features] index in the node's telemetry, -1 */
    uint32_t *index;  /* [n_workers] of its first unit in the model's order */
    uint32_t *node;   /* [n_workers * n_units] in that order */
    float *telemetry; /* [n_nodes][n_features] */
    float *value;     /* [n_nodes][DSGD_N_TELEMETRY] as last heard */
    bool heard;       /* any node has telemetry */
};

/* c->loads.  Errors: DSGD_E_NOMEM. */
enum dsgd_err loads_create(struct coordinator *c,
                           const struct timing_model *model, uint32_t n_units,
                           struct dsgd_error *err);
void loads_free(struct coordinator *c);

/* [n_nodes][n_features] for timing_predict, until the next call; NULL: nothing
 * was heard. */
const float *loads_features(struct coordinator *c);

#endif
