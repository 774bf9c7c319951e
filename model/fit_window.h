/* Windows of traces laid side by side for the set model's training. */
#ifndef DSGD_FIT_WINDOW_H
#define DSGD_FIT_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "fit_pool.h"
#include "set_train.h"

/* What the filter makes of a trace as it was seen, all steps. */
struct fit_features {
    float *worker;  /* [steps][n][SET_WORKER_FEATURES] */
    float *node_in; /* [steps][n_nodes][set_node_features] */
    float *anchor;  /* [steps][n][SET_ANCHORS] */
    float *log_sd;  /* [steps][n] */
};

enum dsgd_err fit_features_make(const struct fit_trace *t,
                                const struct set_config *config,
                                struct fit_features *f, struct dsgd_error *err);
void fit_features_free(struct fit_features *f);

/* A stretch of one trace. */
struct fit_window {
    const struct fit_trace *trace;
    const struct fit_features *features;
    size_t from; /* first step */
};

struct fit_batch;

/* Room for batches up to these sizes, in all. */
enum dsgd_err fit_batch_create(const struct set_config *config,
                               const struct set_size *max, struct fit_batch **b,
                               struct dsgd_error *err);
void fit_batch_free(struct fit_batch *b);

/* Lay windows of length steps side by side.  The result holds until the next
 * call.  Local, no allocation. */
const struct set_batch *fit_batch_pack(struct fit_batch *b,
                                       const struct fit_window *window,
                                       size_t count, size_t length);

#endif
