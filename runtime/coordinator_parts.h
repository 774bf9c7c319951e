/* Steps whose batch is computed in parts by whoever is free
 * (DSGD_WORK_SHARED).
 *
 * A step's batch is the batches of all workers that live, exactly; at the end
 * of an epoch it is what is left.  Each node gets ranges of samples, which its
 * workers claim in parts, and tokens, one for each sample that it may give.
 * Tokens are worth the batch (tokens.h); of samples a node has a part more for
 * each worker, so that a worker that is slow with a part holds up nobody.  A
 * step is closed when all tokens were used, and what else was claimed, or was
 * not, goes back to the epoch's queue.  Ranges and tokens are multiples of a
 * part, so that the last tokens are worth what is offered.
 *
 * Where the timing model sizes the work, each worker's first part is cut out
 * for it, see coordinator_shares.h, unless the epoch has less than two batches.
 *
 * At the end of an epoch there are no samples to spare: tokens go with ranges,
 * none are revoked, and those who have claimed parts are waited for.  When no
 * part comes for one hard timeout all tokens are taken back, and the step is
 * closed with what it has.
 *
 * Where late parts are carried, what was not given to a step is held for one
 * step more: who has computed some of it by then offers that first, and it uses
 * the tokens of that step.  Whatever was not offered goes back after it, so
 * that nobody need know who had what.  Nothing is held when the next step may
 * need all that is left of the epoch, nor over a checkpoint.
 *
 * In a replay each worker is given the parts that it gave then, and keeps those
 * that were carried. */
#ifndef DSGD_COORDINATOR_PARTS_H
#define DSGD_COORDINATOR_PARTS_H

#include "coordinator_priv.h"

/* c->deal, or NULL when each worker computes its own batch; deal_free.
 * Errors: DSGD_E_USAGE (options that shared work has no use for),
 * DSGD_E_NOMEM. */
enum dsgd_err deal_create(struct coordinator *c, enum cutoff_mode mode,
                          struct dsgd_error *err);
void deal_free(struct coordinator *c);

/* Parts of a worker's batch. */
uint64_t deal_parts(const struct coordinator *c);

/* Step c->step opens: ranges and tokens for those who live. */
void deal_open(struct coordinator *c);

/* SEG_EVENT_PART, SEG_EVENT_WAITS, SEG_EVENT_KEPT, and that a worker has
 * begun. */
void deal_event(struct coordinator *c, uint32_t worker,
                const struct msg_event *e);

/* The worker is lost, or has left: it gives no more to the open step. */
void deal_forget(struct coordinator *c, uint32_t worker);

/* Move tokens to where they are needed.  Returns whether anything was done. */
bool deal_tick(struct coordinator *c);

/* The batch is full, or no more of it will come: the step can be closed. */
bool deal_done(const struct coordinator *c);

/* Nothing that this node gave counts in this step; its share is handed out
 * again while the step is open, and otherwise goes back. */
void deal_lose(struct coordinator *c, uint32_t node);

/* The step is published: what was given is contributed, and recorded, all else
 * goes back. */
void deal_settle(struct coordinator *c);

/* What a whole batch takes a worker that gave nothing to the step that closes,
 * at least: at the rate at which it had not done its first part, or a single
 * one, when the step closed or that was withdrawn.  NaN: it has not begun. */
double deal_at_least_s(const struct coordinator *c, uint32_t worker);

/* Nothing is held for the next step, whose samples are to be saved. */
void deal_hold_nothing(struct coordinator *c);

/* Why a replay can't go on, or NULL. */
const char *deal_hopeless(const struct coordinator *c);

/* When deal_tick has something to do if nothing happens before; INFINITY. */
double deal_next_s(const struct coordinator *c);

#endif
