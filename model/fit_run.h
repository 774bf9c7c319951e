/* Training: Adam along a schedule, the best parameters on held-out data, early
 * stopping, and a checkpoint from which a broken-off training goes on to the
 * same bits. */
#ifndef DSGD_FIT_RUN_H
#define DSGD_FIT_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "fit_learner.h"

struct fit_status {
    uint64_t step, steps; /* steps 0: the time decides */
    double done;          /* 0..1 */
    double elapsed_s, eta_s;
    double train_loss;      /* moving average; NaN before the first step */
    double loss, best_loss; /* held-out; NaN until known */
    bool validated;         /* loss is new */
};

struct fit_plan {
    uint64_t seed;
    uint64_t steps; /* 0: train for seconds */
    double seconds;
    double lr, floor, warmup, clip; /* see adam_cosine */
    uint64_t every;                 /* steps between looks at held-out data */
    uint64_t patience; /* looks without improvement until it ends; 0: no end */
    double watch_from; /* share of the training before looks count */
    const char *checkpoint; /* file; NULL: none */
    bool resume;            /* go on from it */
    /* Told of every step; false: write a checkpoint and stop. */
    bool (*report)(void *context, const struct fit_status *status);
    void *context;
};

struct fit_result {
    struct fit_facts facts;
    bool stopped; /* by report */
    bool early;   /* by patience */
};

/* Train.  learner->params are the best ones afterwards; when stopped, the best
 * so far.  The checkpoint has the training as it ended: remove it once the
 * parameters are safe.
 * Errors: DSGD_E_NOMEM, DSGD_E_NUMERIC (the loss is not finite), DSGD_E_IO and
 * DSGD_E_FORMAT (the checkpoint), DSGD_E_STATE (it is of another training). */
enum dsgd_err fit_run(struct fit_learner *learner, const struct fit_plan *plan,
                      struct fit_result *result, struct dsgd_error *err);

#endif
