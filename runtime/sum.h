/* Sums of vectors in a fixed order.  Local, no allocation. */
#ifndef DSGD_SUM_H
#define DSGD_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SUM_BLOCK = 1024 }; /* floats summed at a time: they stay in L1 */
enum { SUM_GROUP = 4 };    /* vectors read at a time */

/* Up to SUM_GROUP vectors, in order, for each element by itself: out = ((x0 +
 * x1) + …, or out = ((out + x0) + x1) + ….  out is none of them.
 *   out  [n] out, or in and out
 *   x    [rows][n] in
 *   set  in  start anew */
void sum_group(float *out, const float *const *x, uint32_t rows, bool set,
               size_t n);

/* out = x * factor; they do not overlap. */
void sum_scale(float *out, const float *x, float factor, size_t n);

/* out = (((x0 + x1) + x2) + …) * factor; out may be one of them.
 *   x  [rows][n] in */
void sum_rows(float *out, const float *const *x, uint32_t rows, float factor,
              size_t n);

#endif
