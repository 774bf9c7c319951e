/* Times of a benchmark, in microseconds, and what they come to. */
#ifndef DSGD_TESTS_MEASURE_H
#define DSGD_TESTS_MEASURE_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* us: [n], n > 0; it is sorted. */
static double median(double *us, size_t n)
{
    qsort(us, n, sizeof *us, ascending);
    return us[n / 2];
}

__attribute__((unused)) static void show(const char *what, double *us, size_t n)
{
    double p50 = median(us, n);

    printf("  %s p50 %8.1f us  p99 %8.1f us", what, p50, us[n - 1 - n / 100]);
}

#endif
