/* Shares that workers give in parts (dsgd_deposit, launch_deposits): a step
 * that is closed takes what each worker has given by then.
 *
 * A worker writes the sum of its parts to its two buffers in turn.  It writes
 * over the older sum when the coordinator knows of the newer one, which it is
 * told by KNOWN, and that is said only while the step is open: so whatever the
 * mask names, the latest that the coordinator knew of, stays as it is until the
 * step is published, and is worth the samples that it knew of.  */
#ifndef DSGD_COORDINATOR_DEPOSITS_H
#define DSGD_COORDINATOR_DEPOSITS_H

#include "coordinator_priv.h"

/* c->deposits, if the options ask for them.  Errors: DSGD_E_NOMEM. */
enum dsgd_err deposits_create(struct coordinator *c, struct dsgd_error *err);
void deposits_free(struct coordinator *c);

/* The step opens; its ranges are known. */
void deposits_open(struct coordinator *c);

/* SEG_EVENT_DEPOSIT. */
void deposits_event(struct coordinator *c, uint32_t worker,
                    const struct msg_event *e);

/* The worker gives no more to the step than it has given: it has arrived. */
void deposits_finish(struct coordinator *c, uint32_t worker);

/* A whole share has arrived. */
void deposits_arrived(struct coordinator *c, const struct worker *worker);

/* Samples of those who have not arrived. */
uint64_t deposits_samples(const struct coordinator *c);

/* What has arrived, parts too, is worth so many workers' batches. */
bool deposits_reach(const struct coordinator *c, uint32_t target);

/* The step is being closed: who has given a part of its share contributes. */
void deposits_take(struct coordinator *c);

/* The closing step is open again, or a node is back in it. */
void deposits_reopen(struct coordinator *c);

/* Tell the nodes what is known.  Returns whether anything was sent. */
bool deposits_tell(struct coordinator *c);

#endif
