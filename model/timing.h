/* A timing model: observes the run-times of each step, predicts the next.
 *
 * Two kinds: `set`, permutation-equivariant, for any workers and nodes, and
 * `dmm`, the deep Markov model of Teng & Wood 2018 for a fixed cluster.  Both
 * work on log durations and need no unit. */
#ifndef DSGD_TIMING_H
#define DSGD_TIMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "predictive.h"

/* What is known of a worker's duration in the step that is over. */
enum timing_status {
    TIMING_CENSORED = 0, /* at least so long */
    TIMING_PROGRESS = 1, /* estimated from its progress, about 10 % off */
    TIMING_EXACT = 2,
    TIMING_NONE = 3 /* nothing: it did not run */
};

struct timing_model; /* weights and configuration; shared, read-only */
struct timing;       /* a model at work on one cluster: its state */

/* Read a model file (safetensors).
 *   path  in
 *   m     out  NULL on error; timing_model_free
 * Errors: DSGD_E_IO, DSGD_E_FORMAT (wrong, truncated, foreign; shapes that do
 * not fit), DSGD_E_NOMEM. */
enum dsgd_err timing_model_load(const char *path, struct timing_model **m,
                                struct dsgd_error *err);

/* Write it, atomically (temporary file, fsync, rename).  Errors: DSGD_E_IO. */
enum dsgd_err timing_model_save(const struct timing_model *m, const char *path,
                                struct dsgd_error *err);
void timing_model_free(struct timing_model *m);

const char *timing_model_kind(const struct timing_model *m); /* "set", "dmm" */

/* Telemetry features that the model reads, and their names. */
size_t timing_model_features(const struct timing_model *m);
const char *timing_model_feature(const struct timing_model *m, size_t i);

/* Put a model to work.
 *   node  in  [n] node of each worker, ascending, 0..n_nodes-1, each used
 *   t     out  NULL on error; timing_free.  Keeps m.
 * Allocates all that later calls need.  Errors: DSGD_E_NOMEM, DSGD_E_RANGE (n <
 * 1, node not as above; a dmm for another n). */
enum dsgd_err timing_create(const struct timing_model *m, size_t n,
                            size_t n_nodes, const uint32_t *node,
                            struct timing **t, struct dsgd_error *err);
void timing_free(struct timing *t);

/* Predict the next step.
 *   telemetry  in  [n_nodes][features] as readable at the step's start, NaN:
 *                  not valid; NULL: none at all
 * Returns NULL until a first step was observed; otherwise a predictive that
 * holds until the next call.  Local, no allocation. */
const struct predictive *timing_predict(struct timing *t,
                                        const float *telemetry);

/* Tell what became of the step that was predicted last.
 *   log_s   [n] in  log durations (or bounds, estimates: see status)
 *   status  [n] in
 * Local, no allocation. */
void timing_observe(struct timing *t, const float *log_s,
                    const uint8_t *status);

/* State size in bytes, and saving and loading it (for checkpoints). */
size_t timing_state_bytes(const struct timing *t);
void timing_state_save(const struct timing *t, void *out);
enum dsgd_err timing_state_load(struct timing *t, const void *in, size_t bytes,
                                struct dsgd_error *err);

#endif
