#include "live_pace.h"

#include <math.h>

/* A step counts 1/e after 66 more.  So many arrivals are taken to have come as
 * expected; and in the first steps the model knows too little of the cluster
 * for what it errs by then to hold later.  Chosen on iid clusters of 2175
 * workers. */
#define KEEP  .985
#define PRIOR 300.
enum { BLIND_STEPS = 30 };

/* What the tail may be wrong by.  Where more is off, as of workers that are
 * slow in some steps and not in others, one number for all steps is of no
 * help. */
#define MOST 1.05

void live_paced_add(struct live_paced *s, double came, double due)
{
    if (came >= 0 && due > 0 && isfinite(due)) {
        s->came += came;
        s->due += due;
    }
}

void live_pace_add(struct live_pace *p, struct live_paced *s)
{
    if (!s->open)
        return;
    s->open = false;
    if (++p->steps <= BLIND_STEPS)
        return;
    p->came = KEEP * p->came + s->came;
    p->due = KEEP * p->due + s->due;
}

double live_pace_get(const struct live_pace *p)
{
    double pace = (p->came + PRIOR) / (p->due + PRIOR);

    return fmax(1 / MOST, fmin(pace, MOST));
}

bool live_pace_valid(const struct live_pace *p)
{
    return p->came >= 0 && p->due >= 0 && p->steps >= 0 &&
           isfinite(p->came + p->due + p->steps);
}
