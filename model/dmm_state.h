/* A deep Markov model at work on its cluster: the functions of its kind, see
 * timing.h, and dmm.h for what it predicts. */
#ifndef DSGD_DMM_STATE_H
#define DSGD_DMM_STATE_H

#include "dmm.h"
#include "timing_model.h"

const struct dmm_net *dmm_net_of(const struct timing_model *m);

enum dsgd_err dmm_create(const struct timing_model *m, size_t n, size_t n_nodes,
                         const uint32_t *node, struct timing **t,
                         struct dsgd_error *err);
void dmm_free(struct timing *t);
const struct predictive *dmm_predict(struct timing *t, const float *telemetry);
void dmm_observe(struct timing *t, const float *log_s, const uint8_t *status);
size_t dmm_state_bytes(const struct timing *t);
void dmm_state_save(const struct timing *t, void *out);
enum dsgd_err dmm_state_load(struct timing *t, const void *in,
                             struct dsgd_error *err);

#endif
