/* The classical rival of the timing models: a moving average of each worker's
 * log duration, its rate picked on-line, and whole rows of its residuals as
 * samples of the next step, which keeps what workers have in common. */
#ifndef DSGD_EWMA_H
#define DSGD_EWMA_H

#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "sort.h"

enum { EWMA_ROWS = 40 }; /* residual rows kept */

struct ewma;

/* Errors: DSGD_E_NOMEM, DSGD_E_RANGE (n < 1). */
enum dsgd_err ewma_create(size_t n, struct ewma **e, struct dsgd_error *err);
void ewma_free(struct ewma *e);

/* Predict the next step's durations.
 *   x_s  out  [EWMA_ROWS][n] seconds; the rows returned are filled
 * Returns the number of rows, 0 before the third step was observed.  Local, no
 * allocation. */
size_t ewma_predict(const struct ewma *e, double *x_s);

/* The same as logs, up to most rows of it, in groups of SORT_LANES rows side by
 * side, as sort_lanes takes them.
 *   y  out  [groups][n][SORT_LANES], groups enough for the rows returned; a
 *           lane without a row repeats the first
 * Returns the number of rows. */
size_t ewma_predict_lanes(const struct ewma *e, size_t most, float *y);

/* What became of the step, as in timing_observe: log_s [n], status [n] enum
 * timing_status.  Of a worker that was cut the mean of the normal beyond the
 * bound is taken.  Local, no allocation. */
void ewma_observe(struct ewma *e, const float *log_s, const uint8_t *status);

#endif
