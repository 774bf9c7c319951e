/* Live stopping: at each arrival or tick of a step, condition the predictive on
 * who has arrived and on how long each of the others has been running, and
 * close the step when going on no longer pays.
 *
 * The value of closing at time tau is E[contributors by tau] - lambda * tau
 * (renewal reward: lambda is the running realised throughput); the step is
 * closed when no later time of the grid is worth more than now. */
#ifndef DSGD_LIVE_H
#define DSGD_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "live_pace.h"
#include "predictive.h"

struct live;

enum live_late {
    LIVE_FRESH, /* every worker starts each step at once */
    LIVE_BUSY,  /* a cut worker finishes its batch first; realignment */
    LIVE_POLL   /* a cut worker stops at its next micro-batch */
};

/* Allocates all that later calls need.
 *   node       in  [n] ascending; copied
 *   min_share  in  0..1: a step is not closed below this share of n (.1)
 *   min_count  in  nor below this count (0)
 * Errors: DSGD_E_NOMEM, DSGD_E_RANGE. */
enum dsgd_err live_create(size_t n, size_t n_nodes, const uint32_t *node,
                          double min_share, size_t min_count, struct live **l,
                          struct dsgd_error *err);
void live_free(struct live *l);

/* A step is about to start: build the time grid and the survival table from the
 * predictive.  The costly part; runs while the workers compute.
 *   p     in   NULL: nothing is predicted, the step waits for all.  Must hold
 *              until the step is over
 *   late  in   what a cut worker does
 * Local, no allocation. */
void live_plan(struct live *l, const struct predictive *p, enum live_late late);

/* A worker's part in the step, all times in seconds since the step's start.
 * Every worker starts at 0 unless told otherwise. */
void live_lagging(struct live *l, size_t worker, double expected_lag_s);
/* … is free and may start now.  Returns false when it should sit the step out
 * (realignment: its lag and median duration pass 1.1 times the planned close).
 */
bool live_start(struct live *l, size_t worker, double at_s);
/* … the latest time at which live_start would return true; INFINITY. */
double live_latest_start_s(const struct live *l, size_t worker);
void live_absent(struct live *l, size_t worker); /* lost, no work, sits out */
/* … arrived, after duration_s of its own.  Told twice, it counts once. */
void live_arrive(struct live *l, size_t worker, double duration_s);

/* Close now?
 *   now_s     in   since the step's start
 *   lambda    in   contributors a second; not positive: wait for all
 *   next_s    out  when to ask again if nobody arrives (INFINITY: never)
 * To be asked at *next_s, a tick or the time at which the plan closes, and at
 * each arrival; decides at *next_s, at the arrival that the plan waits for, and
 * for n <= 64 at each call.  True as well when nobody is left to wait for.
 * Local, no allocation. */
bool live_close(struct live *l, double now_s, double lambda, double *next_s);

/* Would another lambda close at the last decision too?  Its plan then holds. */
bool live_recheck(struct live *l, double lambda);

/* The step was closed, whoever did it.  Until the next live_plan: */
void live_end(struct live *l, double elapsed_s);

/* What a worker that has not arrived will take in all, from its own start: five
 * quantiles (10, 30 … 90 %) given that it still ran at the close. */
enum { LIVE_POINTS = 5 };
void live_residual(struct live *l, size_t worker, double points_s[LIVE_POINTS]);

/* The close planned at the last tick, seconds, and its expected count; NaN
 * when nothing was planned. */
double live_planned_s(const struct live *l);
double live_expected(const struct live *l);

/* When all would be in: the first tick with less than half a worker expected
 * late, as seen at the last one; NaN. */
double live_all_s(const struct live *l);

/* The state that outlives steps: the running close, seconds (NaN before the
 * first), and the ends of the last grid, from which those of the next are
 * sought. */
struct live_state {
    double close_s, log_low, log_high;
    struct live_pace pace;
};
struct live_state live_state(const struct live *l);
void live_set_state(struct live *l, const struct live_state *s);

#endif
