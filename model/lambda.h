/* Running throughput, lambda in the renewal-reward rules: contributors over
 * time, both discounted alike.
 *
 * It is seeded from what was realised, never from what a model expects: a
 * pessimistic model would make closing at once look best, and the throughput
 * that follows hardly moves a time-weighted mean. */
#ifndef DSGD_LAMBDA_H
#define DSGD_LAMBDA_H

#include <stdbool.h>
#include <stddef.h>

struct lambda {
    double keep;          /* discount a step */
    double count, time_s; /* discounted sums */
};

/* half_steps: steps after which a step counts 1/e. */
void lambda_init(struct lambda *l, double half_steps);

/* Start over from a throughput, which counts as much as `steps` steps of
 * step_s seconds. */
void lambda_seed(struct lambda *l, double throughput, double steps,
                 double step_s);

/* A step of c contributors took time_s, overhead included.  Values that are
 * not finite and positive are ignored. */
void lambda_add(struct lambda *l, double c, double time_s);

/* Contributors a second; NaN before anything is known. */
double lambda_get(const struct lambda *l);

/* Is this, read from a file, what the calls above can leave behind? */
bool lambda_valid(const struct lambda *l);

/* Throughput of the best static cutoff in hindsight.
 *   order_s  [n] in  mean over the rows of the c-th arrival, ascending
 * NaN when n < 1. */
double lambda_best_static(size_t n, const double *order_s, double overhead_s);

#endif
