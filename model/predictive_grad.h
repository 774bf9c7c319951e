/* The predictive's log-likelihood with incomplete observations, and its
 * gradient. */
#ifndef DSGD_PREDICTIVE_GRAD_H
#define DSGD_PREDICTIVE_GRAD_H

#include "predictive.h"

/* dLoss/d of the arrays of struct predictive, in their shapes; that of log_p
 * and node_log_p is with respect to each value by itself. */
struct predictive_grad {
    float *mu, *log_sd, *log_w, *node_shift, *node_log_p, *node_tail, *shift,
        *log_p, *tail, *scale;
};

/* Workspace of predictive_loglik_grad, floats. */
size_t predictive_grad_work(size_t n, size_t n_nodes);

/* log p(observation), nats.
 *   y       in   [n] log durations or bounds
 *   status  in   [n] enum timing_status: exact and progress count with their
 *                density, censored with its survival, none and what is not
 *                finite not at all; NULL: all exact
 *   scale   in   the gradient is multiplied by it
 *   d       out  overwritten; NULL: not wanted
 *   work    out  [predictive_grad_work], aligned as a double; may be NULL
 *                when d is
 * Local, no allocation. */
double predictive_loglik_grad(const struct predictive *p, const float *y,
                              const uint8_t *status, float scale,
                              const struct predictive_grad *d, float *work);

#endif
