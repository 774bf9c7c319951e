/* The evidence lower bound of windows of a deep Markov model, and its gradient.
 */
#ifndef DSGD_DMM_ELBO_H
#define DSGD_DMM_ELBO_H

#include <stddef.h>
#include <stdint.h>

#include "dmm_net.h"

struct dmm_elbo; /* work space for L steps of B windows */

enum dsgd_err dmm_elbo_create(const struct dmm_net *net, size_t length,
                              size_t batch, struct dmm_elbo **e,
                              struct dsgd_error *err);
void dmm_elbo_free(struct dmm_elbo *e);

/* Means over the windows, nats; the likelihood without n L log sqrt(2 pi). */
struct dmm_terms {
    double log_lik; /* E_q log p(y | z), one sample */
    double kl;      /* KL(q || p), analytic given that sample */
};

/* The terms of one batch.
 *   y      [L][B][n] in  standardised log durations; a censored one: its bound
 *   x      [L][B][n] in  what the guide sees: y, with guesses for bounds
 *   known  [L][B][n] in  1: observed, 0: y is a lower bound, 2: nothing
 *                        known; NULL: all observed
 *   noise  [L][B][Z] in  standard normal
 * Local, no allocation. */
struct dmm_terms dmm_elbo_forward(struct dmm_elbo *e, const float *y,
                                  const float *x, const uint8_t *known,
                                  const float *noise);

/* The gradient of the loss -(log_lik - beta kl) / (L n) of the batch given
 * last.
 *   grad  [n_params] out */
void dmm_elbo_backward(struct dmm_elbo *e, double beta, float *grad);

#endif
