/* What live stopping expects at one moment of a step, and the plans that it
 * weighs: close now, at a later tick, as soon as k more workers have arrived
 * and at a tick at the latest, or at a time between two ticks.
 *
 * Counts matter where arrivals come ever faster, as in the upper half of most
 * durations: the next one is then worth its own time, but not the time until it
 * is certain to be in.
 *
 * Times matter where many come from one tick to the next.  A plan for a count
 * takes the hazard between two ticks to be constant; and it closes when that
 * count is in, the sooner the more the model underrates those late: just when
 * they are worth waiting for. */
#ifndef DSGD_LIVE_OUTLOOK_H
#define DSGD_LIVE_OUTLOOK_H

#include <stdbool.h>
#include <stddef.h>

#include "live_table.h"

/* The largest k: a share of the workers.  LIVE_COUNTS_MIN from a tick to the
 * next are many. */
enum { LIVE_COUNTS_MIN = 16, LIVE_COUNTS = 64, LIVE_COUNTS_SHARE = 32 };

struct live_outlook {
    double now_s;
    size_t arrived, late;   /* late: expected to come yet */
    size_t ticks;           /* later ones */
    size_t counts;          /* plans for k = 1..counts; at most late */
    bool dense;             /* plans between ticks as well */
    const double *tau_s;    /* [ticks] ascending, above now_s */
    double left[LIVE_COLS]; /* [ticks] expected late at each */
    /* Of closing at the k-th arrival from now, or at a tick: expected arrivals
     * until then, and time; [counts][ticks]. */
    double gain[LIVE_COUNTS][LIVE_COLS], wait_s[LIVE_COUNTS][LIVE_COLS];
};

/* The plan that is worth the most. */
struct live_choice {
    bool now;
    double close_s;  /* expected */
    double expected; /* contributors */
    size_t count;    /* arrivals at which it closes, SIZE_MAX: at a time only */
    bool between;    /* that time is no tick */
};

/* Fill left at ticks [from, to). */
void live_outlook_left(struct live_outlook *o, const float *sum, size_t from,
                       size_t to);

/* Arrivals a second expected now, where there are two ticks or more. */
double live_outlook_rate(const struct live_outlook *o);

/* Expected late at a moment between now and the last tick, where there are two
 * ticks or more; NaN beyond. */
double live_outlook_left_at(const struct live_outlook *o, double at_s);

/* As many as LIVE_COUNTS_MIN come in the time between two ticks, at the rate
 * expected until the next one. */
bool live_outlook_is_dense(const struct live_outlook *o);

/* Fill gain and wait_s.  Given a cluster atom, the late are taken to be
 * alike and independent, and to come at a constant hazard between two ticks.
 *   p    [PRED_G] in           probability of each cluster atom
 *   sum  [ticks][LANES] in     expected late, by lane */
void live_outlook_expect(struct live_outlook *o, const double *p,
                         const float *sum);

/* The value of a plan is its expected contributors less lambda times its
 * expected close; the earliest of equals is taken.  Where plans between ticks
 * are weighed, one worth next to nothing is not waited for. */
struct live_choice live_outlook_best(const struct live_outlook *o,
                                     double lambda);

#endif
