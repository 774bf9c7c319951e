/* How much faster than expected the last workers of a step come.
 *
 * A step of thousands closes far out in the tail of the durations, which the
 * model knows to some percent only; but some tens of workers come in the last
 * part of every step, so that soon more is known of the rate there.  No account
 * is taken of when steps close: whatever the rule, as many come until then as
 * the rates before it add up to, on average. */
#ifndef DSGD_LIVE_PACE_H
#define DSGD_LIVE_PACE_H

#include <stdbool.h>

/* Zero-initialised. */
struct live_pace {
    double came, due; /* discounted sums over steps: came, were to come */
    double steps;     /* closed so far */
};

/* Of one step. */
struct live_paced {
    double came, due;
    bool open; /* not closed yet */
};

/* From one look to the next; a due that is not above 0 is not counted. */
void live_paced_add(struct live_paced *s, double came, double due);

/* The step closes; again it does nothing. */
void live_pace_add(struct live_pace *p, struct live_paced *s);

/* Arrivals for each expected one. */
double live_pace_get(const struct live_pace *p);

/* Is this, read from a file, what the calls above can leave behind? */
bool live_pace_valid(const struct live_pace *p);

#endif
