/* The `dmm` kind of timing model, for those who make and fit one.
 *
 * It predicts a struct predictive, so that every rule and live stopping work on
 * it as on the set model.  SAMPLES draws of z from the guide over the window
 * and of the next z from the transition, with noise that is the same every
 * time, give each worker's emission; they are matched by moments:
 *   - what all workers have in common in a draw (the mean over the workers)
 *     becomes the PRED_G cluster atoms: the draws sorted by it, in six groups
 *   - the rest is one Gaussian a worker, with the mean and variance over the
 *     draws (between draws and within); node atoms and further components are
 *     not used (weight e^-30)
 *
 * Durations may be in another unit than in training: when the first step is off
 * by more than a factor of e^2 in the median, that factor is taken out. */
#ifndef DSGD_DMM_H
#define DSGD_DMM_H

#include "dmm_net.h"
#include "timing.h"

/* A model for n workers with all parameters 0.  Errors: DSGD_E_NOMEM,
 * DSGD_E_RANGE. */
enum dsgd_err dmm_model_create(size_t n, struct timing_model **m,
                               struct dsgd_error *err);

/* Its parameters; NULL when the model is of another kind. */
struct dmm_net *dmm_model_net(struct timing_model *m);

#endif
