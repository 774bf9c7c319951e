/* The coordinator's side of checkpoints: when one is made, what of the
 * coordinator goes into it, and going on from one.
 *
 * At a boundary the coordinator keeps a snapshot of its own state and asks the
 * workers of its node for the registered one; the first to have applied the
 * step's mean copies it.  When the record, too, has come that far, a thread
 * writes the file.  The training does not wait for any of it. */
#ifndef DSGD_COORDINATOR_CHECKPOINT_H
#define DSGD_COORDINATOR_CHECKPOINT_H

#include "checkpoint_store.h"
#include "coordinator.h"

/* Keep checkpoints in store, which is taken over also on an error, and go on
 * from one that was read; NULL for either: don't.
 * Errors: DSGD_E_FORMAT, DSGD_E_NOMEM. */
enum dsgd_err checkpoints_create(struct coordinator *c,
                                 struct checkpoint_store *store,
                                 const struct checkpoint_read *from,
                                 struct dsgd_error *err);
void checkpoints_free(struct coordinator *c);

/* Without a store these do nothing and return false. */

void checkpoints_request(struct coordinator *c, uint32_t request);

/* Step c->published was published, and no range is handed out: make a
 * checkpoint?  Sets c->preempted when the run is to end with it. */
bool checkpoints_publish(struct coordinator *c);

/* The same between epochs, with all at the boundary after c->published. */
void checkpoints_boundary(struct coordinator *c);

bool checkpoints_pump(struct coordinator *c);

/* A worker of this node has died.  If it was the one to give its state, another
 * that is there yet may. */
void checkpoints_died(struct coordinator *c);

/* A worker is yet to give its state; a checkpoint is not complete. */
bool checkpoints_want_state(const struct coordinator *c);
bool checkpoints_busy(const struct coordinator *c);

#endif
