/* Training of the deep Markov model on one cluster's traces. */
#ifndef DSGD_FIT_DMM_H
#define DSGD_FIT_DMM_H

#include <stdint.h>

#include "dsgd_error.h"
#include "fit_learner.h"
#include "fit_pool.h"
#include "timing.h"

enum {
    FIT_DMM_BATCH = 32,  /* windows of DMM_WINDOW steps */
    FIT_DMM_LEAST = 100, /* steps to train on, at least */
    FIT_DMM_HELD = 25    /* steps to validate on, at least */
};

struct fit_dmm_plan {
    uint64_t seed;
    double validate; /* share of each trace's steps held out, its last */
    bool warm;       /* keep the model's standardisation and parameters */
};

/* Set up.  The bound's divergence counts from .2 to 1 in the first fifth of the
 * training.
 *   model  in  of the kind dmm, for as many workers; initialised here unless
 *              plan->warm; kept
 *   data   in  kept
 * Errors: DSGD_E_NOMEM, DSGD_E_RANGE (too few data; no run-time known in what
 * is held out; traces of other n). */
enum dsgd_err fit_dmm_create(struct timing_model *model,
                             const struct fit_pool *data,
                             const struct fit_dmm_plan *plan,
                             struct fit_learner *learner,
                             struct dsgd_error *err);

#endif
