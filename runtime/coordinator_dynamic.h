/* The coordinator's side of the dynamic cutoff: feeds the timing model with
 * what happens, and asks it when to close.
 *
 * Observing the last step and predicting this one are put off until a part of
 * the step has passed, when the workers compute anyway; what is heard of late
 * workers until then still counts for the last step. */
#ifndef DSGD_COORDINATOR_DYNAMIC_H
#define DSGD_COORDINATOR_DYNAMIC_H

#include "coordinator_priv.h"

/* No effect, and no dynamic, unless the cutoff is dynamic or dry.  Errors:
 * DSGD_E_NOMODEL, DSGD_E_NOMEM, those of dynamic_create. */
enum dsgd_err dyn_create(struct coordinator *c,
                         const struct coordinator_config *config,
                         struct dsgd_error *err);
void dyn_free(struct coordinator *c);

/* With c->dyn == NULL these do nothing; dyn_close returns false. */

void dyn_open(struct coordinator *c); /* c->step has opened */
/* Predict, if that has waited long enough. */
bool dyn_pump(struct coordinator *c);
void dyn_begin(struct coordinator *c, uint32_t worker); /* as its lag_s says */
/* A worker's batch is in.
 *   arrival_s  since its step's start, had it started then
 *   partial    estimated from a part of the batch */
void dyn_commit(struct coordinator *c, uint32_t worker, double arrival_s,
                bool partial, bool in_time);
/* A part of its batch is: worker->deposited, deposit_s. */
void dyn_deposit(struct coordinator *c, uint32_t worker);
void dyn_leave(struct coordinator *c, uint32_t worker);
bool dyn_close(struct coordinator *c); /* close the open step now? */
void dyn_closed(struct coordinator *c);

/* The state of model and guard for a checkpoint, while no step is open: its
 * size (0: no model), saving and loading it. */
size_t dyn_state_bytes(const struct coordinator *c);
void dyn_state_save(struct coordinator *c, void *out);
enum dsgd_err dyn_state_load(struct coordinator *c, const void *in,
                             size_t bytes, struct dsgd_error *err);

#endif
