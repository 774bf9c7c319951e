/* Expected order statistics of normal samples, and the cutoff that they give.
 */
#ifndef DSGD_ORDER_STATS_H
#define DSGD_ORDER_STATS_H

#include <stddef.h>

#include "dsgd_error.h"

/* Quantile of the standard normal distribution, 0 < p < 1: Acklam's rational
 * approximation with one step of Halley's method, relative error < 1e-15 away
 * from the far tails.  NaN outside (0, 1). */
double normal_quantile(double p);

/* Expected k-th smallest of n independent standard normal variables, 1 <= k <=
 * n, by Elfving's formula, Phi^-1((k - a) / (n - 2 a + 1)) with a = pi / 8
 * (Elfving 1947; as used by Teng & Wood 2018).  NaN outside. */
double elfving(size_t k, size_t n);

/* How many of n workers to wait for: argmax over c of c / (E[x_(c)] + o).
 *   order_s     [n] in   expected arrival of the c-th fastest, seconds
 *   overhead_s  in       o: closing, reducing, publishing, updating
 *   k           out      1..n, the larger one of equals; untouched on error
 * Local, no allocation.  Errors: DSGD_E_RANGE (n < 1; NaN, or a sum <= 0). */
enum dsgd_err cutoff_pick(size_t n, const double *order_s, double overhead_s,
                          size_t *k, struct dsgd_error *err);

#endif
