#include "report_wait.h"

#include <math.h>
#include <stdlib.h>

static int compare_arrival(const void *a, const void *b, void *arrival_s)
{
    double x = ((const double *)arrival_s)[*(const size_t *)a];
    double y = ((const double *)arrival_s)[*(const size_t *)b];
    return (x > y) - (x < y);
}

void report_wait(size_t n, const double *arrival_s, const bool *vain,
                 double close_s, size_t *order, double *waited_s)
{
    size_t come = 0, missing = 0;
    double charge_s = 0, last_s = 0;

    for (size_t w = 0; w < n; w++) {
        if (isfinite(arrival_s[w]))
            order[come++] = w;
        missing += vain && vain[w];
    }
    qsort_r(order, come, sizeof *order, compare_arrival, (void *)arrival_s);
    if (come > 0)
        last_s = arrival_s[order[(come - 1) / 2]];
    for (size_t i = (come - 1) / 2 + 1; come > 0 && i < come; i++) {
        double at_s = arrival_s[order[i]];
        charge_s += (at_s - last_s) / (double)(come - i + missing);
        waited_s[order[i]] += charge_s;
        last_s = at_s;
    }
    if (missing == 0)
        return;
    if (close_s > last_s)
        charge_s += (close_s - last_s) / (double)missing;
    for (size_t w = 0; w < n; w++)
        if (vain[w])
            waited_s[w] += charge_s;
}
