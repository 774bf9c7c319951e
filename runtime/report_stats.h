/* Quantiles. */
#ifndef DSGD_REPORT_STATS_H
#define DSGD_REPORT_STATS_H

#include <stddef.h>

/* The smallest value that a share q of the values does not exceed (nearest
 * rank), 0 < q <= 1; NaN when n is 0.  Reorders x. */
double report_quantile(float *x, size_t n, double q);

#endif
