/* What becomes of workers that were cut: their samples, their late gradients,
 * and the limits to cutting them.
 *
 * A gradient that comes after its step t was closed may be carried into step
 * t + 1.  Until that one is closed the range stays the worker's; then it is
 * settled: contributed, or requeued.  The range is requeued at once when its
 * worker is lost, and when the next step may have to wait for everybody, so
 * that an epoch never waits for what is carried. */
#ifndef DSGD_COORDINATOR_LATE_H
#define DSGD_COORDINATOR_LATE_H

#include "coordinator_priv.h"

/* Late gradients of whole batches, and of abandoned ones, are carried. */
bool late_takes_whole(const struct dsgd_options *opt);
bool late_takes_parts(const struct dsgd_options *opt);

/* How many samples a commit is worth: no more than the range that was given,
 * where ranges are given. */
uint64_t late_count(const struct coordinator *c,
                    const struct sample_range *range, uint64_t samples);

/* A commit that is none of the open step's. */
void late_commit(struct coordinator *c, uint32_t worker,
                 const struct msg_event *e);

/* The step is being closed: what of worker's slot goes into it besides its own
 * gradient, enum msg_take. */
uint8_t late_take(struct worker *worker);

/* Its node does not deliver: the worker has not arrived, for now. */
void late_take_out(struct coordinator *c, struct worker *worker);

/* A step that was closing is open again, or a node is back in it: who committed
 * meanwhile, or had done so before its node was taken out, arrives. */
void late_reopen(struct coordinator *c);

/* The worker is lost or has left: its carried range goes back. */
void late_forget(struct coordinator *c, struct worker *worker);

/* Samples in the closing step, carried ones too. */
uint64_t late_samples(const struct coordinator *c);

/* The step is published: settle all ranges that can be. */
void late_settle(struct coordinator *c);

/* It was cut as often as it may be: the open step waits for it. */
bool late_at_limit(const struct coordinator *c, const struct worker *worker);

/* The factor of the learning rate for a mean. */
double late_lr_scale(const struct coordinator *c, uint64_t samples);

#endif
