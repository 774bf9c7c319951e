/* Shared work sized by the timing model (DSGD_WORK_SHARED with a dynamic
 * cutoff): each worker's first part of a step is as large as model/shares.h
 * says for the rate that is predicted of it; the rest is claimed in single
 * parts.
 *
 * A first part has tokens of its own, so that it never waits: it is accepted
 * when it comes.  While it is expected they are its own; when others have
 * nothing left to do, their offers wait, and they would sooner have computed
 * its samples than it is expected to be in, it is withdrawn, and its tokens and
 * as many samples are given out in single parts.  What a worker is expected to
 * take longer grows as it runs over what was predicted, so that one that is
 * stopped is given up after a time that follows from the prediction.
 *
 * With a batch slack the step may be closed before it is full, by the rule of
 * live stopping. */
#ifndef DSGD_COORDINATOR_SHARES_H
#define DSGD_COORDINATOR_SHARES_H

#include "coordinator_priv.h"

/* c->sizes, unless work is own or the cutoff is not dynamic; needs c->deal.
 * Errors: DSGD_E_NOMODEL, DSGD_E_NOMEM. */
enum dsgd_err sizes_create(struct coordinator *c,
                           const struct coordinator_config *config,
                           struct dsgd_error *err);
void sizes_free(struct coordinator *c);

/* With c->sizes == NULL the rest does nothing, and answers false or 0. */

/* The step has opened; it is to be sized later, once that is in nobody's
 * way. */
void sizes_open(struct coordinator *c);

/* Observe the step before, predict this one.
 *   batch   in   samples, in parts of `part`
 *   counts  in   [n_workers] who takes part
 *   first   out  [n_workers] samples of each one's first part, multiples of
 *                `part`; 0: none
 * Returns false when nothing is predicted yet: all are to claim single
 * parts. */
bool sizes_plan(struct coordinator *c, uint64_t batch, uint64_t part,
                const bool *counts, uint64_t *first);

/* A worker has begun; so many samples that it had kept from the step before
 * were accepted; what it had claimed was, after duration_s; its first part was
 * withdrawn; it gives no more. */
void sizes_begin(struct coordinator *c, uint32_t worker);
void sizes_carried(struct coordinator *c, uint32_t worker, uint64_t samples);
void sizes_part(struct coordinator *c, uint32_t worker, double duration_s);
void sizes_single(struct coordinator *c, uint32_t worker);
void sizes_leave(struct coordinator *c, uint32_t worker);

/* Offers of so many samples wait: would others have computed the worker's first
 * part sooner than it is expected?
 *   late_s  out  for how long it is expected to be on its way */
bool sizes_late(struct coordinator *c, uint32_t worker, uint64_t samples,
                uint64_t waits, double *late_s);

/* All tokens are out: has it taken twice as long since then as was expected?
 * Until then what was claimed is enough. */
bool sizes_overdue(struct coordinator *c);

/* Close before the batch is full?  `accepted` samples of it are in. */
bool sizes_stop(struct coordinator *c, uint64_t accepted, uint64_t batch);

/* The step is published, with so many samples. */
void sizes_settle(struct coordinator *c, uint64_t samples);

/* For checkpoints, as of dyn_state_bytes. */
size_t sizes_state_bytes(const struct coordinator *c);
void sizes_state_save(struct coordinator *c, void *out);
enum dsgd_err sizes_state_load(struct coordinator *c, const void *in,
                               size_t bytes, struct dsgd_error *err);

#endif
