#include "sum.h"

#include <string.h>

#include "vmath.h"

VM_CLONES
static void add1(float *restrict out, const float *restrict a, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        out[i] += a[i];
}

VM_CLONES
static void add4(float *restrict out, const float *const *x, size_t n)
{
    const float *a = x[0], *b = x[1], *c = x[2], *d = x[3];
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        out[i] = (((out[i] + a[i]) + b[i]) + c[i]) + d[i];
}

VM_CLONES
static void set2(float *restrict out, const float *a, const float *b, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] + b[i];
}

VM_CLONES
static void set4(float *restrict out, const float *const *x, size_t n)
{
    const float *a = x[0], *b = x[1], *c = x[2], *d = x[3];
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        out[i] = ((a[i] + b[i]) + c[i]) + d[i];
}

VM_CLONES
void sum_scale(float *restrict out, const float *restrict x, float factor,
               size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * factor;
}

void sum_group(float *out, const float *const *x, uint32_t rows, bool set,
               size_t n)
{
    uint32_t from = 0;

    if (rows == SUM_GROUP) {
        (set ? set4 : add4)(out, x, n);
        return;
    }
    if (set && rows == 1)
        memcpy(out, x[0], n * sizeof *out);
    else if (set)
        set2(out, x[0], x[1], n);
    if (set)
        from = rows == 1 ? 1 : 2;
    for (uint32_t r = from; r < rows; r++)
        add1(out, x[r], n);
}

/* One block, in memory of its own: out may be one of the rows. */
static void sum_block(float *out, const float *const *x, size_t at,
                      uint32_t rows, float factor, size_t n)
{
    float sum[SUM_BLOCK];
    const float *group[SUM_GROUP];

    for (uint32_t r = 0; r < rows; r += SUM_GROUP) {
        uint32_t count = rows - r < SUM_GROUP ? rows - r : SUM_GROUP;
        for (uint32_t i = 0; i < count; i++)
            group[i] = x[r + i] + at;
        sum_group(sum, group, count, r == 0, n);
    }
    sum_scale(out + at, sum, factor, n);
}

void sum_rows(float *out, const float *const *x, uint32_t rows, float factor,
              size_t n)
{
    for (size_t at = 0; at < n; at += SUM_BLOCK)
        sum_block(out, x, at, rows, factor,
                  n - at < SUM_BLOCK ? n - at : SUM_BLOCK);
}
