#include "sum.h"

#include "vmath.h"

/* With rows known where it is used, so that each loop has just what it needs. */
VM_INLINE void add(float *out, const float *const *x, const uint32_t rows,
                   float factor, size_t n)
{
    const float *a = x[0], *b = x[rows > 1 ? 1 : 0], *c = x[rows > 2 ? 2 : 0];
    const float *d = x[rows > 3 ? 3 : 0], *e = x[rows > 4 ? 4 : 0];

#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float sum = a[i];
        sum = rows > 1 ? sum + b[i] : sum;
        sum = rows > 2 ? sum + c[i] : sum;
        sum = rows > 3 ? sum + d[i] : sum;
        sum = rows > 4 ? sum + e[i] : sum;
        out[i] = sum * factor;
    }
}

VM_CLONES
void sum_group(float *out, const float *const *x, uint32_t rows, float factor,
               size_t n)
{
    switch (rows) {
    case 1:
        add(out, x, 1, factor, n);
        break;
    case 2:
        add(out, x, 2, factor, n);
        break;
    case 3:
        add(out, x, 3, factor, n);
        break;
    case 4:
        add(out, x, 4, factor, n);
        break;
    default:
        add(out, x, SUM_GROUP, factor, n);
        break;
    }
}

void sum_begin(struct sum *s, float *out, float factor, size_t n)
{
    s->out = out;
    s->factor = factor;
    s->n = n;
    s->rows = 0;
}

void sum_add(struct sum *s, const float *row)
{
    if (s->rows == SUM_GROUP) {
        sum_group(s->total, s->row, SUM_GROUP, 1, s->n);
        s->row[0] = s->total;
        s->rows = 1;
    }
    s->row[s->rows++] = row;
}

void sum_end(struct sum *s)
{
    sum_group(s->out, s->row, s->rows, s->factor, s->n);
}

void sum_rows(float *out, const float *const *x, uint32_t rows, float factor,
              size_t n)
{
    struct sum s;

    for (size_t at = 0; at < n; at += SUM_BLOCK) {
        sum_begin(&s, out + at, factor,
                  n - at < SUM_BLOCK ? n - at : SUM_BLOCK);
        for (uint32_t r = 0; r < rows; r++)
            sum_add(&s, x[r] + at);
        sum_end(&s);
    }
}
