/* What fit_run trains: parameters, a loss on a batch, a loss on data held out.
 */
#ifndef DSGD_FIT_LEARNER_H
#define DSGD_FIT_LEARNER_H

#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"

/* Where a training stands; told to model files. */
struct fit_facts {
    uint64_t seed, steps, best_step;
    double loss, best_loss; /* nat a worker and step, on held-out data */
    double elapsed_s;
};

struct fit_learner {
    void *self;
    const char *kind; /* "set", "dmm" */
    size_t n;         /* parameters */
    float *params;    /* [n] */

    /* Loss and gradient of batch number step, which depends on it and the seed
     * alone.
     *   done  in   of the training, 0..1
     *   grad  out  [n]
     * NaN as well when it failed, see there. */
    double (*loss)(void *self, uint64_t step, double done, float *grad);
    /* Loss on data that no batch has; the same data every time. */
    double (*validate)(void *self);
    /* Why loss gave NaN; DSGD_OK: it is the loss.  NULL: it always is. */
    enum dsgd_err (*failed)(void *self, struct dsgd_error *err);
    void (*free)(void *self);
};

#endif
