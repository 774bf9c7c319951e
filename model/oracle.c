#include "oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sort.h"

double *oracle_sort(const struct trace *t, size_t from)
{
    size_t rows = t->steps - from;
    double *sorted = malloc(rows * t->n * sizeof *sorted);

    if (!sorted)
        return NULL;
    memcpy(sorted, t->duration_s + from * t->n, rows * t->n * sizeof *sorted);
    for (size_t r = 0; r < rows; r++)
        sort_doubles(t->n, sorted + r * t->n);
    return sorted;
}

double oracle_no_idle(const struct trace *t, size_t from, double overhead_s)
{
    double n = (double)t->n, time_s = 0;

    for (size_t r = from; r < t->steps; r++) {
        double rate = 0;
        for (size_t j = 0; j < t->n; j++)
            rate += 1 / t->duration_s[r * t->n + j];
        time_s += n / rate + overhead_s;
    }
    return n * (double)(t->steps - from) / time_s;
}

/* argmax over c of c - lambda * x_(c), the larger one of equals. */
static size_t best_of(size_t n, const double *x, double lambda)
{
    size_t best = 1;
    double most = -INFINITY;

    for (size_t c = 1; c <= n; c++) {
        double value = (double)c - lambda * x[c - 1];
        if (value >= most) {
            most = value;
            best = c;
        }
    }
    return best;
}

/* One step of Dinkelbach's: the ratio that the best cutoffs at lambda give. */
static double improve(size_t rows, size_t n, const double *sorted,
                      double overhead_s, double lambda, size_t *cutoff)
{
    double count = 0, time_s = 0;

    for (size_t r = 0; r < rows; r++) {
        const double *x = sorted + r * n;
        size_t c = best_of(n, x, lambda);
        count += (double)c;
        time_s += x[c - 1] + overhead_s;
        if (cutoff)
            cutoff[r] = c;
    }
    return count / time_s;
}

static double static_rate(size_t rows, size_t n, const double *sorted,
                          double overhead_s, size_t c)
{
    double time_s = 0;

    for (size_t r = 0; r < rows; r++)
        time_s += sorted[r * n + c - 1] + overhead_s;
    return (double)c * (double)rows / time_s;
}

void oracle_find(size_t rows, size_t n, const double *sorted, double overhead_s,
                 size_t *cutoff, struct oracle *o)
{
    enum { MOST_STEPS = 60 }; /* it converges superlinearly: 5 or 6 do */

    o->full = static_rate(rows, n, sorted, overhead_s, n);
    o->best_static = 0;
    for (size_t c = 1; c <= n; c++) {
        double rate = static_rate(rows, n, sorted, overhead_s, c);
        if (rate >= o->best_static) {
            o->best_static = rate;
            o->best_c = c;
        }
    }
    double lambda = o->best_static;
    for (int i = 0; i < MOST_STEPS; i++) {
        double next = improve(rows, n, sorted, overhead_s, lambda, cutoff);
        if (!(next > lambda * (1 + 1e-13)))
            break;
        lambda = next;
    }
    o->throughput = lambda;
}
