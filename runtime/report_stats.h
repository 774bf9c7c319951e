/* Quantiles. */
#ifndef DSGD_REPORT_STATS_H
#define DSGD_REPORT_STATS_H

#include <stddef.h>

/* The k-th smallest, k < n, from 0, of n values without NaN; reorders x.
 * Hoare's FIND, linear time on average. */
float report_select(float *x, size_t n, size_t k);

/* The smallest value that a share q of the values does not exceed (nearest
 * rank), 0 < q <= 1; NaN when n is 0.  Reorders x. */
double report_quantile(float *x, size_t n, double q);

#endif
