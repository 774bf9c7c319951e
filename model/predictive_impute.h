/* What an incomplete observation of a step says about the durations that it
 * leaves open. */
#ifndef DSGD_PREDICTIVE_IMPUTE_H
#define DSGD_PREDICTIVE_IMPUTE_H

#include "predictive.h"

/* Workspace of predictive_impute, doubles. */
size_t predictive_impute_work(size_t n_nodes);

/* Mean and variance of the log durations of the censored workers given all that
 * was observed: the bounds, and through the atoms what the others did.
 *   y       in   [n] log durations or bounds
 *   status  in   [n] enum timing_status
 *   work    out  [predictive_impute_work]
 *   mean    out  [n] of the censored; of the others y
 *   var     out  [n] of the censored; of the others 0
 * Local, no allocation. */
void predictive_impute(const struct predictive *p, const float *y,
                       const uint8_t *status, double *work, float *mean,
                       float *var);

#endif
