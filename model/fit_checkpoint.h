/* The state of a training, and its file: safetensors with the tensors params,
 * m, v and best, and the numbers as metadata. */
#ifndef DSGD_FIT_CHECKPOINT_H
#define DSGD_FIT_CHECKPOINT_H

#include <stdint.h>

#include "adam.h"
#include "dsgd_error.h"
#include "fit_learner.h"
#include "fit_run.h"

struct fit_state {
    struct adam adam;
    float *params, *best;      /* [adam.n] */
    uint64_t step;             /* updates tried */
    uint64_t best_step, looks; /* looks since best_step */
    double best_loss, last_loss, train_loss, elapsed_s;
    char fingerprint[160]; /* what must agree when going on */
};

/* Set s->fingerprint. */
void fit_state_fingerprint(struct fit_state *s, const struct fit_learner *l,
                           const struct fit_plan *plan);

/* Written atomically.  Errors: DSGD_E_IO, DSGD_E_NOSPACE, DSGD_E_NOMEM. */
enum dsgd_err fit_checkpoint_save(const char *path, const struct fit_state *s,
                                  struct dsgd_error *err);

/* s has its arrays and fingerprint; the rest is read.  Errors: DSGD_E_IO,
 * DSGD_E_FORMAT, DSGD_E_STATE (of another training). */
enum dsgd_err fit_checkpoint_load(const char *path, struct fit_state *s,
                                  struct dsgd_error *err);

#endif
