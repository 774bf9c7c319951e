/* For the tests of live.c: a step on a grid that the caller gives. */
#ifndef DSGD_LIVE_PRIV_H
#define DSGD_LIVE_PRIV_H

#include "live.h"
#include "live_table.h"

/* live_plan with the lowest tick and the 99 % quantile given, logs, and the
 * ticks beyond as in live_table_grid. */
void live_plan_grid(struct live *l, const struct predictive *p,
                    enum live_late late, double log_low, double log_high,
                    const double *tail, size_t n_tail);

/* Plan for up to so many arrivals ahead; 0: for ticks alone, as the modelling
 * prototype did. */
void live_set_counts(struct live *l, size_t counts);

/* Arrived so far; still waited for. */
size_t live_arrived(const struct live *l);
size_t live_waiting(const struct live *l);

/* A worker's predicted median duration in this step, seconds; NaN. */
double live_median_s(const struct live *l, size_t worker);

const struct live_table *live_table(const struct live *l);

#endif
