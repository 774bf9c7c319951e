/* The `set` kind of timing model, for those who make and fit one. */
#ifndef DSGD_SET_MODEL_H
#define DSGD_SET_MODEL_H

#include "set_net.h"
#include "timing.h"

/* A model with all weights 0.
 *   feature  in  [config->n_telemetry] names; NULL: u0, u1, ...
 * Errors: DSGD_E_NOMEM, DSGD_E_RANGE, DSGD_E_FORMAT (a name). */
enum dsgd_err set_model_create(const struct set_config *config,
                               const char *const *feature,
                               struct timing_model **m, struct dsgd_error *err);

/* Its weights; NULL when the model is of another kind. */
struct set_net *set_model_net(struct timing_model *m);

/* Censored durations enter the state by the filter's truncated mean, as in the
 * lab's prototype, and not by what the prediction expects of them; for the
 * comparison with it.  t is of this kind. */
void set_timing_truncate(struct timing *t);

#endif
