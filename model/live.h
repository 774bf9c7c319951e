/* Live stopping: at each arrival or tick of a step, condition the predictive on
 * who has arrived and on how long each of the others has been running, and close
 * the step when going on no longer pays.
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
#include "predictive.h"

struct live;

enum live_late {
    LIVE_FRESH, /* every worker starts each step at once */
    LIVE_BUSY,  /* a cut worker finishes its batch first; realignment */
    LIVE_POLL   /* a cut worker stops at its next micro-batch */
};

/* Allocates all that later calls need.  min_share: a step is not closed below
 * this share of n (.1).  Errors: DSGD_E_NOMEM, DSGD_E_RANGE. */
enum dsgd_err live_create(size_t n, size_t n_nodes, const uint32_t *node,
                          double min_share, struct live **l,
                          struct dsgd_error *err);
void live_free(struct live *l);

/* A step is about to start: build the time grid and the survival table from the
 * predictive.  The costly part; runs while the workers compute.
 *   p     in   NULL: nothing is predicted, the step waits for all
 *   late  in   what a cut worker does
 * Local, no allocation. */
void live_plan(struct live *l, const struct predictive *p, enum live_late late);

/* A worker's part in the step, all times in seconds since the step's start.
 * Every worker starts at 0 unless told otherwise. */
void live_lagging(struct live *l, size_t worker, double expected_lag_s);
/* … is free and may start now.  Returns false when it should sit the step out
 * (realignment: its lag and median duration pass 1.1 times the planned close). */
bool live_start(struct live *l, size_t worker, double at_s);
void live_absent(struct live *l, size_t worker); /* lost, no work, sits out */
void live_arrive(struct live *l, size_t worker, double duration_s, double at_s);

/* Close now?
 *   now_s     in   since the step's start
 *   lambda    in   contributors a second
 *   next_s    out  when to ask again if nobody arrives (INFINITY: never)
 * Asked at ticks (*next_s) and, for n <= 64, at each arrival.  Local, no
 * allocation. */
bool live_close(struct live *l, double now_s, double lambda, double *next_s);

/* The close planned at the last tick, seconds; and its expected count. */
double live_planned_s(const struct live *l);
double live_expected(const struct live *l);

#endif
