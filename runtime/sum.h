/* Sums of vectors in a fixed order.  Local, no allocation. */
#ifndef DSGD_SUM_H
#define DSGD_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SUM_BLOCK = 1024 }; /* floats summed at a time: they stay in L1 */
enum { SUM_GROUP = 5 };    /* vectors read at a time */

/* out = (((x0 + x1) + x2) + …) * factor; out may be one of them.
 *   x     [rows][n] in
 *   rows  in        1 to SUM_GROUP */
void sum_group(float *out, const float *const *x, uint32_t rows, float factor,
               size_t n);

/* The same of any number of rows, at least one, up to SUM_BLOCK floats, one row
 * after the other: out is written once, at the end. */
struct sum {
    float *out;
    float factor;
    size_t n;
    uint32_t rows; /* in row */
    const float *row[SUM_GROUP];
    float total[SUM_BLOCK];
};
void sum_begin(struct sum *s, float *out, float factor, size_t n);
void sum_add(struct sum *s, const float *row);
void sum_end(struct sum *s);

/* out = (((x0 + x1) + x2) + …) * factor; out may be one of them.
 *   x  [rows][n] in */
void sum_rows(float *out, const float *const *x, uint32_t rows, float factor,
              size_t n);

#endif
