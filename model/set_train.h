/* The loss of the `set` model on windows of traces, and its gradient:
 *
 *   loss = mean over t >= burn_in and over clusters of -(1/n) log p(y_t | past)
 *
 * from a zero recurrent state (teacher forcing, backpropagation through the
 * whole window).  Several clusters make one batch. */
#ifndef DSGD_SET_TRAIN_H
#define DSGD_SET_TRAIN_H

#include "dsgd_error.h"
#include "set_net.h"
#include "set_pass.h"

struct set_batch {
    struct set_input in;   /* features by set_filter_features, one filter a
                              cluster, laid side by side */
    const float *y;        /* [T][W] log durations (or bounds: see status) */
    const uint8_t *status; /* [T][W] enum timing_status; NULL: all exact.
                              Progress counts as exact, a censored one with
                              its survival, none not at all */
};

struct set_train;

/* Workspace for batches up to these sizes (steps, workers, nodes, clusters of
 * the whole batch).  backward false: only losses.  Errors: DSGD_E_NOMEM. */
enum dsgd_err set_train_create(const struct set_config *config,
                               const struct set_size *max, bool backward,
                               struct set_train **t, struct dsgd_error *err);
void set_train_free(struct set_train *t);

/* Returns the loss.
 *   grad          out  [net->n] dLoss/dw in the arena's layout, overwritten;
 *                      NULL: not wanted
 *   cluster_loss  out  [B] each cluster's own mean; NULL: not wanted
 * steps > burn_in.  Local, no allocation, same input same bits. */
double set_train_window(struct set_train *t, const struct set_net *net,
                        const struct set_batch *batch, size_t burn_in,
                        float *grad, double *cluster_loss);

#endif
