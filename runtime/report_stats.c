#include "report_stats.h"

#include <math.h>

#include "sort.h"

double report_quantile(float *x, size_t n, double q)
{
    if (n == 0)
        return NAN;
    size_t rank = (size_t)ceil(q * (double)n);
    if (rank < 1)
        rank = 1;
    return sort_nth(n, x, (rank > n ? n : rank) - 1);
}
