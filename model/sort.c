#include "sort.h"

#include <stdbool.h>

/* Gaps of Shell's sort by Ciura (2001), then growing by 2.25. */
static const size_t gaps[] = {90927, 40412, 17961, 7983, 3548, 1577, 701,
                              301,   132,   57,    23,   10,   4,    1};
enum { N_GAPS = sizeof gaps / sizeof gaps[0] };

void sort_doubles(size_t n, double *x)
{
    for (size_t g = 0; g < N_GAPS; g++) {
        size_t gap = gaps[g];
        for (size_t i = gap; i < n; i++) {
            double v = x[i];
            size_t j = i;
            for (; j >= gap && x[j - gap] > v; j -= gap)
                x[j] = x[j - gap];
            x[j] = v;
        }
    }
}

static bool before(const double *key, uint32_t a, uint32_t b)
{
    return key[a] < key[b] || (key[a] == key[b] && a < b);
}

void sort_indices(size_t n, const double *key, uint32_t *index)
{
    for (size_t g = 0; g < N_GAPS; g++) {
        size_t gap = gaps[g];
        for (size_t i = gap; i < n; i++) {
            uint32_t v = index[i];
            size_t j = i;
            for (; j >= gap && before(key, v, index[j - gap]); j -= gap)
                index[j] = index[j - gap];
            index[j] = v;
        }
    }
}
