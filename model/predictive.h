/* The predictive of a step's run-times: a hierarchical mixture over the log
 * durations y of n workers on N nodes, with discrete latents only, so that
 * likelihood and conditioning are exact sums:
 *
 *   p(y) = sum_g pi_g prod_i sum_m pi_im prod_{j on i} sum_k w_jgmk
 *              N(y_j; mu_jk + shift_g + node_shift_im,
 *                exp(log_sd_jk + scale_g))
 *   w_jgm. = softmax_k(log_w_jk + tail_gk + node_tail_imk),  tail_g0 = 0
 *
 * A cluster atom g carries a common slow-down and "many stragglers now", a node
 * atom m a node that turns slow or recovers, a worker component k its core,
 * bursts and tail. */
#ifndef DSGD_PREDICTIVE_H
#define DSGD_PREDICTIVE_H

#include <stddef.h>
#include <stdint.h>

enum { PRED_G = 6, PRED_M = 4, PRED_K = 3 };

/* Arrays belong to whoever made the predictive and hold until it predicts
 * again.  Workers of a node are adjacent: node is ascending. */
struct predictive {
    size_t n, n_nodes;
    const uint32_t *node;    /* [n] */
    const float *mu;         /* [n][K] mean log duration, ascending in k */
    const float *log_sd;     /* [n][K] */
    const float *log_w;      /* [n][K] not normalised */
    const float *node_shift; /* [N][M] */
    const float *node_log_p; /* [N][M] normalised */
    const float *node_tail;  /* [N][M][K-1] */
    const float *shift;      /* [G] */
    const float *log_p;      /* [G] normalised */
    const float *tail;       /* [G][K-1] */
    const float *scale;      /* [G] added to log_sd */
};

#endif
