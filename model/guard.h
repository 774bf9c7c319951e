/* A guard over policies ("experts"): each is scored at every step by what it
 * would have got, contributors and time, and the default one is left only for
 * another whose advantage is significant.
 *
 * Counterfactual scores hold only when every worker starts each step fresh.
 * Under carry-over of cut work use struct guard_carry, below. */
#ifndef DSGD_GUARD_H
#define DSGD_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "dsgd_error.h"

struct guard;

/*   n_experts    in   >= 1
 *   favourite    in   the expert that is followed unless another is better
 *   full         in   the one that waits for all, picked as well while the
 *                     other has not gained by cutting
 * Errors: DSGD_E_RANGE (favourite or full not below n_experts),
 * DSGD_E_NOMEM. */
enum dsgd_err guard_create(size_t n_experts, size_t favourite, size_t full,
                           struct guard **g, struct dsgd_error *err);
void guard_free(struct guard *g);

/* The expert to follow in the coming step.  Local, no allocation. */
size_t guard_pick(struct guard *g);

/* A step is over; what each expert would have got.
 *   count   [n_experts] in  contributors
 *   time_s  [n_experts] in  time, overhead included
 *   lambda  in  the run's throughput so far, contributors a second; not
 *               positive and finite: unknown
 * A step in which some count or time is not finite and positive is not scored.
 * After some steps an advantage counts only if it is one at lambda as well as
 * at the favourite's throughput of late. */
void guard_score(struct guard *g, const double *count, const double *time_s,
                 double lambda);

/* Running throughput of an expert; NaN before the first score. */
double guard_throughput(const struct guard *g, size_t expert);

/* Has cutting at a lower price paid, against waiting for all?
 * Zero-initialised: it is thought to, until some steps are scored. */
struct guard_caution {
    double sum, weight; /* discounted: gain as a share of a step */
    unsigned steps;
};

bool guard_caution_pays(const struct guard_caution *g);

/* A step: contributors more than all, seconds longer than for all (both
 * negative when something was cut), the price of a second, and all. */
void guard_caution_score(struct guard_caution *g, double more, double longer_s,
                         double lambda, double all);

/* Under carry-over only waiting for all can be scored counterfactually, since
 * nobody lags then.  While the policy has got less than that, be cautious: live
 * stopping with a quarter of lambda. */
struct guard_carry {
    double got, got_s;   /* discounted: what the policy got */
    double full, full_s; /* what waiting for all would have */
    double margin;       /* to come back */
    unsigned since;      /* steps since the last change */
    bool cautious;
};

void guard_carry_init(struct guard_carry *g);

/* Is this, read from a file, what guard_carry_score can leave behind? */
bool guard_carry_valid(const struct guard_carry *g);

/* A step: contributors and time of the policy as it would be without caution
 * (while cautious: as planned), and time of waiting for all n. */
void guard_carry_score(struct guard_carry *g, double count, double time_s,
                       double n, double full_s);

#endif
