/* Adam (Kingma & Ba 2015) with clipping by the global norm, and the learning
 * rate's schedule.  Deterministic: one order of additions, no threads. */
#ifndef DSGD_ADAM_H
#define DSGD_ADAM_H

#include <stddef.h>
#include <stdint.h>

struct adam {
    size_t n;
    double beta1, beta2; /* .9 and .99 by adam_init */
    double epsilon;      /* 1e-8 */
    double clip;         /* largest norm of a gradient; 0: any.  1 */
    uint64_t steps;      /* taken so far */
    float *m, *v;        /* [n] moments, the caller's memory */
};

/* Set the defaults named above, no steps taken.
 *   moments  [2 n]  kept, set to 0; the caller's */
void adam_init(struct adam *a, size_t n, float *moments);

/* One update.
 *   params  [n] in out
 *   grad    [n] in out  scaled down when its norm is past a->clip
 * Local, no allocation.  Returns the norm of grad as it came; when that is not
 * finite nothing is changed. */
double adam_step(struct adam *a, float *params, float *grad, double lr);

/* Learning rate of update number step, from 0, of total: a linear warm-up over
 * the first warmup updates times half a cosine from lr down to lr * floor. */
double adam_cosine(double lr, double floor, double warmup, double step,
                   double total);

#endif
