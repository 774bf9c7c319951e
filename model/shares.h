/* Predictive shares: how much of a step's batch each worker is to claim at a
 * time, so that few, large parts do and nobody has much in hand when the batch
 * is full.
 *
 * Work is counted in units, `units` to a worker's batch; a step's nominal batch
 * is n * units.  A worker claims some units, computes them, deposits them, and
 * claims again.  It takes cost_s a claim and u a unit, where u = x / units and
 * x is the duration of its whole batch: predicted until its first deposit of
 * the step, known from then on.
 *
 * The close is planned for the earliest time T by which the batch is expected
 * to be full,
 *     T = min { T : deposited + sum_j E[units of j by T] >= nominal },
 * where a running claim of k units whose duration is not known contributes
 *     mean over those quantiles x of its predictive that it has not outrun,
 *     of units (T - start) / x if k x / units <= T - start, else nothing,
 * one with a known u the claim itself if it ends by T and then whole units.
 * Known rates change too: overdue, such a claim is expected to take as long
 * again as it is overdue.  So a worker that is late is given up by and by, and
 * its units are free for others.
 *
 * A claim at time t is a fixed share of what fits until T, that with which
 * parts - 1 claims leave a single unit of a batch, 1 - units^(-1/(parts - 1))
 * (guided self-scheduling: Polychronopoulos & Kuck 1987; factoring: Hummel et
 * al. 1992).  A first claim is not larger than what costs 2 % of the worker's
 * expected units when it runs late; later ones leave two standard deviations of
 * the change of rates from claim to claim, which is learnt.  No claim is handed
 * out that is not expected to end by T, nor units that running claims are
 * expected to bring.  Some may come to nothing all the same, and more be
 * claimed than the batch holds, so that nobody is waited for; the sum of the
 * deposits taken is the batch, exactly.
 *
 * Without a prediction, by_last, work is claimed in single units, planned by the
 * rates that workers have shown themselves: in this step, or before its first
 * deposit when they last deposited anything; whoever has shown none brings
 * nothing to the plan.  A worker's first claim of a step is always handed out,
 * so that one that was slow once is not thought slow for ever; a later one if
 * it is expected to end by T.  Rates change from unit to unit by what is learnt,
 * which is taken to be equally likely up to two standard deviations, m, either
 * way: what is to end at e is in by T with a chance of 1/2 + (T - e) / 2m, that
 * is what it counts for, and one that may be in by T is begun where such chances
 * leave room for it.
 *
 * Times are seconds since the step's start.  Local, not thread safe, nothing
 * is allocated after shares_create. */
#ifndef DSGD_SHARES_H
#define DSGD_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "predictive.h"

struct shares_spec {
    size_t n, n_nodes;
    const uint32_t *node; /* [n] ascending, as in timing_create; copied.
                             by_last: not read */
    size_t parts;         /* claims of a worker in a step, about; >= 1 */
    size_t units;         /* of a worker's batch; >= parts */
    size_t most;          /* units of a claim; 0: no limit */
    double cost_s;        /* of a claim and its deposit, >= 0 */
    bool by_last;         /* nothing is ever predicted: claims of one unit by
                             the rates that were seen */
};

struct shares;

/*   s  out  NULL on error; shares_free
 * Errors: DSGD_E_NOMEM, DSGD_E_RANGE. */
enum dsgd_err shares_create(const struct shares_spec *spec, struct shares **s,
                            struct dsgd_error *err);
void shares_free(struct shares *s);

/* The batch is of so many units, from the next step on: not everybody takes
 * part. */
void shares_batch(struct shares *s, size_t units);

/* A step starts.
 *   p      in  of the durations of whole batches; NULL: nothing is predicted,
 *              and all claims are units / parts, or by_last.  Need not be kept
 *   lag_s  in  [n] when each is expected to be free, 0: now */
void shares_begin(struct shares *s, const struct predictive *p,
                  const double *lag_s);

/* A worker will contribute nothing more in this step; what it has in hand is
 * lost. */
void shares_leave(struct shares *s, size_t worker);

/* A worker is free at now_s, which never goes back: the units that it is to
 * claim, which from now on count as its own.  The first of a step may be asked
 * for right after shares_begin, for now_s = 0, also of one that is not free
 * yet; one that asks later is free, whenever that was expected.  0: nothing
 * that it could start is expected to make the close; ask again after deposits
 * and at shares_wake_s. */
size_t shares_claim(struct shares *s, size_t worker, double now_s);

/* Instead: it has begun so many units of its own accord, and whatever it had in
 * hand before is lost. */
void shares_take(struct shares *s, size_t worker, size_t units, double now_s);

/* It turns out that it began what it has in hand at that time. */
void shares_began(struct shares *s, size_t worker, double at_s);

/* When those that got nothing are to ask again, if nothing happens before. */
double shares_wake_s(const struct shares *s, double now_s);

/* A worker's claim is computed.  Returns its units, or 0 when they no longer
 * fit into the batch and are thrown away. */
size_t shares_deposit(struct shares *s, size_t worker, double now_s);

/* So many units came besides, without a claim; what the batch has no room for
 * is not counted. */
void shares_add(struct shares *s, size_t units);

/* Units still missing; 0: the batch is full, close. */
size_t shares_missing(const struct shares *s);

/* The planned close; NaN when nothing is planned, INFINITY when no rates are
 * known. */
double shares_close_s(const struct shares *s);

/* Plan anew, with what is known at now_s. */
void shares_plan(struct shares *s, double now_s);

/* How much longer a worker is expected to take for what it has in hand: of the
 * durations predicted that it has not outrun the mean; if it has outrun them
 * all, or its rate is known, and it is overdue, as long again.  0: nothing is
 * in hand, or nothing is predicted. */
double shares_left_s(struct shares *s, size_t worker, double now_s);

/* Units a second that all others do while they work, and 0 when nothing is
 * predicted. */
double shares_rate(const struct shares *s, size_t but);

/* Renewal reward: is no later time up to the planned close worth more than now,
 * at so many units a second that are got otherwise?  As of the last plan. */
bool shares_stop(const struct shares *s, double now_s, double lambda);

#endif
