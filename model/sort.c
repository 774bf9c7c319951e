#include "sort.h"

#include <stdbool.h>

#include "vmath.h"

/* Batcher's merge exchange (Knuth, The Art of Computer Programming, 5.2.2,
 * algorithm M).  Which elements are compared does not depend on their values:
 * there is nothing to mispredict, and vectors take many at a time.
 *   exchange  puts x[i] and x[i + distance] in order, for i < pairs, or rows
 *             x[i] of width each; pairs <= distance */
VM_INLINE void merge_exchange(size_t n, void *x,
                              void (*exchange)(void *x, size_t i,
                                               size_t distance, size_t pairs))
{
    size_t top = 1;

    if (n < 2)
        return;
    while (top < n - top)
        top *= 2;
    for (size_t p = top; p > 0; p /= 2) {
        size_t d = p, r = 0;
        for (size_t q = top;; q /= 2) {
            for (size_t i = r; i + d < n; i += 2 * p) {
                size_t rest = n - d - i;
                exchange(x, i, d, rest < p ? rest : p);
            }
            if (q == p)
                break;
            d = q - p;
            r = p;
        }
    }
}

VM_INLINE void exchange_doubles(void *x, size_t i, size_t distance,
                                size_t pairs)
{
    double *low = (double *)x + i, *high = low + distance;

#pragma omp simd
    for (size_t k = 0; k < pairs; k++) {
        double a = low[k], b = high[k];
        low[k] = a < b ? a : b;
        high[k] = a > b ? a : b;
    }
}

VM_CLONES
void sort_doubles(size_t n, double *x)
{
    merge_exchange(n, x, exchange_doubles);
}

VM_INLINE void exchange_lanes(void *x, size_t i, size_t distance, size_t pairs)
{
    float *low = (float *)x + i * SORT_LANES,
          *high = low + distance * SORT_LANES;

#pragma omp simd
    for (size_t k = 0; k < pairs * SORT_LANES; k++) {
        float a = low[k], b = high[k];
        low[k] = a < b ? a : b;
        high[k] = a > b ? a : b;
    }
}

VM_CLONES
void sort_lanes(size_t n, float *x)
{
    merge_exchange(n, x, exchange_lanes);
}

struct keyed {
    const double *key;
    uint32_t *index;
};

static bool before(const double *key, uint32_t a, uint32_t b)
{
    return key[a] < key[b] || (a < b && key[a] == key[b]);
}

VM_INLINE void exchange_indices(void *x, size_t i, size_t distance,
                                size_t pairs)
{
    const struct keyed *keyed = x;
    uint32_t *low = keyed->index + i, *high = low + distance;

    for (size_t k = 0; k < pairs; k++) {
        uint32_t a = low[k], b = high[k];
        if (before(keyed->key, b, a)) {
            low[k] = b;
            high[k] = a;
        }
    }
}

void sort_indices(size_t n, const double *key, uint32_t *index)
{
    struct keyed keyed = {key, index};

    merge_exchange(n, &keyed, exchange_indices);
}

float sort_nth(size_t n, float *x, size_t k)
{
    size_t low = 0, high = n - 1;

    while (low < high) {
        float pivot = x[low + (high - low) / 2];
        size_t i = low, j = high;
        for (;; i++, j--) {
            while (x[i] < pivot)
                i++;
            while (x[j] > pivot)
                j--;
            if (i >= j)
                break;
            float swap = x[i];
            x[i] = x[j];
            x[j] = swap;
        }
        if (k <= j)
            high = j;
        else
            low = j + 1;
    }
    return x[low];
}
