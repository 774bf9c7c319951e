#include "sort.h"

/* Shell's sort; gaps by Ciura (2001), then growing by 2.25. */
void sort_doubles(size_t n, double *x)
{
    static const size_t gaps[] = {1,   4,    10,   23,   57,    132,   301,
                                  701, 1577, 3548, 7983, 17961, 40412, 90927};

    for (size_t g = sizeof gaps / sizeof gaps[0]; g-- > 0;) {
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
