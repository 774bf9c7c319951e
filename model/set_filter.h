/* The filter in front of the `set` model: per worker a slow and a fast moving
 * mean and a variance of its log durations, from which it makes features that
 * do not change when all durations are multiplied by a constant.
 *
 * A censored duration, at least b, is replaced by what a prediction of it
 * expects beyond b; without one by the mean of the filter's normal beyond b, at
 * most three standard deviations above b.  Either way a worker that is always
 * cut is not thought slow for ever. */
#ifndef DSGD_SET_FILTER_H
#define DSGD_SET_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"

enum { SET_WORKER_FEATURES = 12, SET_ANCHORS = 4 };

/* How a node's features tell which telemetry is valid. */
enum set_flags {
    SET_FLAGS_ONE, /* one flag: any is valid.  values F, changes F, flag */
    SET_FLAGS_EACH /* a flag each.  values F, changes F, flags F */
};

/* Features of a node, after which come its workers' mean residual and the
 * log of how many they are: 3 F + 2, or 2 F + 3 with one flag. */
size_t set_node_features(size_t n_telemetry, enum set_flags flags);

struct set_filter;

/* node [n] ascending 0..n_nodes-1, each used; copied.  Errors: DSGD_E_NOMEM. */
enum dsgd_err set_filter_create(size_t n, size_t n_nodes, const uint32_t *node,
                                size_t n_telemetry, enum set_flags flags,
                                struct set_filter **f, struct dsgd_error *err);
void set_filter_free(struct set_filter *f);

/* What the model sees of the coming step; once or more a step, before
 * set_filter_update.
 *   telemetry  in   [n_nodes][n_telemetry], NaN: not valid; NULL: none is
 *   worker     out  [n][12]
 *   node       out  [n_nodes][set_node_features]
 *   anchor     out  [n][4] log durations: slow mean, fast mean, last, slow mean
 *                   with the node's residual
 *   log_sd     out  [n] log standard deviation
 * All 0 (log_sd -2.5) but the node's until a first step was observed. */
void set_filter_features(struct set_filter *f, const float *telemetry,
                         float *worker, float *node, float *anchor,
                         float *log_sd);

/* Mean and variance of what the censored log durations may be; [n]. */
struct set_imputed {
    const float *mean, *var;
};

/* The step is over.  log_s, status (enum timing_status) [n]; a value that is
 * not finite counts as TIMING_NONE.  A worker first heard of later than the
 * others starts from their mean.
 *   imputed  in  of the censored; NULL: nothing was predicted */
void set_filter_update(struct set_filter *f, const float *log_s,
                       const uint8_t *status,
                       const struct set_imputed *imputed);

/* Steps observed. */
uint64_t set_filter_steps(const struct set_filter *f);

/* All of its state as n doubles, for checkpoints and tests: per worker slow
 * mean, fast mean, variance, last value, weight of the last value, age, heard
 * of; then the telemetry's means; the steps observed. */
double *set_filter_state(struct set_filter *f, size_t *n);

/* Can these bytes be a state of f? */
bool set_filter_valid(const struct set_filter *f, const void *state);

#endif
