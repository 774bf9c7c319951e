/* A deep Markov model at work on its cluster: observes steps, predicts the next.
 *
 * It predicts a struct predictive, so that every rule and live stopping work on
 * it as on the set model.  SAMPLES draws of z from the guide over the window and
 * of the next z from the transition, with noise that is the same every time,
 * give each worker's emission; they are matched by moments:
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

#include <stddef.h>
#include <stdint.h>

#include "dmm_net.h"
#include "dsgd_error.h"
#include "predictive.h"

struct dmm;

/* See timing.h for what these do.  net is kept.  Errors: DSGD_E_RANGE (n is not
 * the model's), DSGD_E_NOMEM. */
enum dsgd_err dmm_create(const struct dmm_net *net, size_t n, size_t n_nodes,
                         const uint32_t *node, struct dmm **d,
                         struct dsgd_error *err);
void dmm_free(struct dmm *d);
const struct predictive *dmm_predict(struct dmm *d);
void dmm_observe(struct dmm *d, const float *log_s, const uint8_t *status);
size_t dmm_state_bytes(const struct dmm *d);
void dmm_state_save(const struct dmm *d, void *out);
enum dsgd_err dmm_state_load(struct dmm *d, const void *in, size_t bytes,
                             struct dsgd_error *err);

#endif
