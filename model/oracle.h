/* What could have been reached: the best cutoffs with all run-times known. */
#ifndef DSGD_ORACLE_H
#define DSGD_ORACLE_H

#include <stddef.h>

#include "trace.h"

struct oracle {
    double throughput; /* of the best cutoff of each step */
    double full;       /* of waiting for all */
    double best_static;
    size_t best_c; /* the cutoff of best_static */
};

/* Batches a unit of time if nobody ever waits and nothing is thrown away: the
 * steps from `from` on, each of n batches, take n / sum_j(1 / x_j) + o.  No
 * step of n batches, whoever computes them, is faster. */
double oracle_no_idle(const struct trace *t, size_t from, double overhead_s);

/* Sort each row of a trace from step `from` on, ascending.
 *   out  out  [steps - from][n] durations; free(); NULL: no memory */
double *oracle_sort(const struct trace *t, size_t from);

/* Maximise sum(c_t) / sum(x_(c_t) + o) when every worker starts each step at
 * once: a fractional programme, solved by Dinkelbach's method (1967).
 *   sorted      [rows][n] in   each row ascending, > 0
 *   overhead_s  in   >= 0
 *   cutoff      [rows] out  the oracle's cutoffs; may be NULL
 * Local, no allocation.  rows, n >= 1. */
void oracle_find(size_t rows, size_t n, const double *sorted, double overhead_s,
                 size_t *cutoff, struct oracle *o);

#endif
