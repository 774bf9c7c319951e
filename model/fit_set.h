/* Training of the set model on synthetic clusters, on files, or on both. */
#ifndef DSGD_FIT_SET_H
#define DSGD_FIT_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "fit_learner.h"
#include "fit_pool.h"
#include "timing.h"

enum {
    FIT_SET_WINDOW = 48,  /* steps of a window */
    FIT_SET_BURN_IN = 8,  /* of them without loss */
    FIT_SET_BATCH = 8,    /* windows of a batch */
    FIT_SET_WORKERS = 640 /* most workers of a batch, unless one trace has
                             more */
};

struct fit_set_plan {
    uint64_t seed;
    bool synth;           /* random synthetic clusters */
    const char *scenario; /* these instead, NAME:key=value…; NULL: random */
    double validate;      /* share of each file's steps held out, its last */
};

/* Set up.  When synth is set, two of the ring of 64 synthetic traces are
 * replaced with new ones at every step; a batch takes 8 windows, with files
 * half of them from these.  Held out: the files' last steps; without files,
 * clusters of the scenario, or three of each named one.
 *   model  in   of the kind set, with the parameters to start from; kept
 *   files  in   kept; features must be the model's; may be empty
 * Errors: DSGD_E_NOMEM, DSGD_E_USAGE (the scenario), DSGD_E_RANGE (too few
 * data: the text says how many steps there are and how many are needed; no
 * run-time known in what is held out). */
enum dsgd_err fit_set_create(struct timing_model *model,
                             const struct fit_pool *files,
                             const struct fit_set_plan *plan,
                             struct fit_learner *learner,
                             struct dsgd_error *err);

/* The held-out loss of the present parameters by group: the named scenarios,
 * "synthetic", or "files".  Returns how many groups there are; name and loss
 * are set for group i below that. */
size_t fit_set_score(void *self, size_t i, const char **name, double *loss);

#endif
