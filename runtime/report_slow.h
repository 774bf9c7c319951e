/* Who is slow: a test that noise and heavy tails do not pass. */
#ifndef DSGD_REPORT_SLOW_H
#define DSGD_REPORT_SLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"

/* A unit (a node, or a worker) is slow when all of these hold:
 * - its median is at least this ratio times the lower median of the other
 *   units' medians; */
#define REPORT_SLOW_RATIO 1.25
/*   and this ratio in a part of the run only: for some seconds any node of a
 *   shared machine is a little slow; */
#define REPORT_SLOW_PART_RATIO 1.5
/* - it is slower than the median of the others in at least this share of the
 *   steps; */
#define REPORT_SLOW_SHARE .75
/* - by chance that would happen to one of all units with at most this
 *   probability (one-sided sign test, Bonferroni). */
#define REPORT_SLOW_ALPHA .001

struct report_slow {
    bool slow;
    bool enough;               /* steps for the test to be passed at all */
    double median_s, others_s; /* NaN: nothing to compare */
    double ratio;              /* of the two */
    uint64_t steps, slower;    /* compared in, and slower in */
    size_t first, last;        /* rows where it was slow, if it was */
};

/* Test every unit: over all rows, and then, for the units that are not slow
 * over all, over parts of the run of at least 25 rows.
 *   rows, units  in   a row is a step
 *   duration_s   in   [rows][units] NaN: not known, or not to be compared;
 *                     negative: at least so long, which is compared only when
 *                     it is more than the others'
 *   result       out  [units]
 * Local.  Errors: DSGD_E_NOMEM. */
enum dsgd_err report_slow(size_t rows, size_t units, const float *duration_s,
                          struct report_slow *result, struct dsgd_error *err);

/* One row: the median of the others' absolute values, for each unit whose value
 * is known (NaN for the rest, and when there are no others).  With an even
 * number of others, the geometric mean of the middle two, so that a unit is
 * above it as often as below when all are alike.
 *   order  scratch [units] */
void report_slow_others(size_t units, const float *value, size_t *order,
                        double *others);

/* The probability of at least k heads in n throws of a fair coin. */
double report_slow_tail(uint64_t n, uint64_t k);

#endif
