#include "report_stats.h"

#include <math.h>

static void swap(float *a, float *b)
{
    float t = *a;
    *a = *b;
    *b = t;
}

/* The k-th smallest, k < n, from 0, of n values without NaN; reorders x.
 * Hoare's FIND, linear time on average. */
static float nth(float *x, size_t n, size_t k)
{
    size_t low = 0, high = n - 1;

    while (low < high) {
        float pivot = x[low + (high - low) / 2];
        size_t i = low, j = high;
        for (;;) {
            while (x[i] < pivot)
                i++;
            while (pivot < x[j])
                j--;
            if (i >= j)
                break;
            swap(&x[i++], &x[j--]);
        }
        /* x[low..j] <= pivot <= x[j+1..high], or x[j] is the pivot. */
        if (i == j && k == j)
            break;
        if (k <= j)
            high = i == j ? j - 1 : j;
        else
            low = j + 1;
    }
    return x[k];
}

double report_quantile(float *x, size_t n, double q)
{
    if (n == 0)
        return NAN;
    size_t rank = (size_t)ceil(q * (double)n);
    if (rank < 1)
        rank = 1;
    return nth(x, n, (rank > n ? n : rank) - 1);
}
