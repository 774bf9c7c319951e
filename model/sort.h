/* Sorting without allocation: glibc's qsort takes memory for larger arrays. */
#ifndef DSGD_SORT_H
#define DSGD_SORT_H

#include <stddef.h>
#include <stdint.h>

/* Ascending.  No NaN. */
void sort_doubles(size_t n, double *x);

enum { SORT_LANES = 8 };

/* Eight columns side by side: each of x [n][SORT_LANES], ascending.  No NaN. */
void sort_lanes(size_t n, float *x);

/* Indices by their keys, ascending; equal keys by index.
 *   key    in     no NaN at the indices given
 *   index  inout  [n] */
void sort_indices(size_t n, const double *key, uint32_t *index);

/* The k-th smallest of n values without NaN, k < n, from 0; reorders x.
 * Hoare's FIND, linear time on average. */
float sort_nth(size_t n, float *x, size_t k);

#endif
