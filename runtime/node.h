/* The aggregator's hands on its node's segment: events in, sums, means and
 * shares out.  One thread, the aggregator's. */
#ifndef DSGD_NODE_H
#define DSGD_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "message.h"
#include "segment.h"
#include "state.h"

struct node;

/* Errors: DSGD_E_NOMEM.  The mapping stays the caller's. */
enum dsgd_err node_create(const struct segment *seg, struct node **n,
                          struct dsgd_error *err);
void node_destroy(struct node *n);

uint32_t node_size(const struct node *n); /* workers */
size_t node_grad_elems(const struct node *n);
uint64_t node_published(const struct node *n);

/* The next event of any worker, oldest first within a worker, with durations
 * and lags worked out. */
bool node_event(struct node *n, struct msg_event *event);

/* Some worker has one. */
bool node_waits(const struct node *n);

/* All workers have committed what they have to give to the step that is
 * next. */
bool node_idle(const struct node *n);

/* Sleep until a worker posts an event or timeout_ns has passed; node_watch
 * comes next.
 *   bell  in  node_bell before it was looked whether there is anything to do */
uint32_t node_bell(const struct node *n);
void node_nap(struct node *n, uint32_t bell, uint64_t timeout_ns);

/* A worker may do the aggregator's work while it waits.  From now on a BEGIN
 * does not wake node_nap's sleeper, and who spins does so on a CPU of its own,
 * unless workers are crowded. */
void node_let_drive(struct node *n);

/* Somebody looks for events from now on: workers need not ring for a sleeper.
 * And nobody does: they ring, and for what has come meanwhile it is rung now.
 *   computes  in  who watches next, in time for whoever commits, is
 *                 computing */
void node_watch(struct node *n);
void node_unwatch(struct node *n, bool computes);

/* Sum what mask[w], enum msg_take, says of each worker, in rank order, a
 * worker's own gradient before its carried one, times factor, into the reserved
 * ring slot; workers that wait help.  There is at least one, and all were
 * committed.  Returns node_reserve's slot from now on. */
float *node_sum(struct node *n, const uint8_t *mask, float factor);

/* The same without blocking, factor 1: node_sum_ready floats in front of
 * node_reserve's slot are summed so far; until that is all of them, call
 * node_sum_tend, which returns whether it did anything and may change
 * node_reserve's slot.  node_sum_drop gives the sum up, and must come before
 * the slot is used for anything but what was ready. */
void node_sum_begin(struct node *n, const uint8_t *mask);
bool node_sum_tend(struct node *n);
size_t node_sum_ready(struct node *n);
void node_sum_drop(struct node *n);
size_t node_chunk_elems(const struct node *n); /* that are ready at a time */

/* A ring slot for the next mean, to be filled and then published. */
float *node_reserve(struct node *n);

/* The reserved slot holds step m->step's mean now: node_mean finds it, workers
 * do not see it yet. */
void node_commit(struct node *n, const struct msg *m);

/* Show the workers the committed mean.  shares: [n_local], or NULL: no work is
 * known.  MSG_STARTS lets the next step begin. */
void node_show(struct node *n, const struct msg *m,
               const struct msg_share *shares);

/* A mean of the ring and its description; NULL when the ring has it no more. */
const float *node_mean(const struct node *n, uint64_t step,
                       struct seg_mean *about);

/* Let a step begin, once its predecessor is published. */
void node_start(struct node *n, uint64_t step, const struct msg_share *shares);

/* What the coordinator says of parts; before or after the step's start.
 *   POOL    a step's parts, and the samples that may be accepted of what
 *           workers offer (tokens).  The ranges are cut as said at struct
 *           msg_range; more of the same step are added to those there are.
 *           Their epoch is that of the step's shares (struct msg_share).  With
 *           FIXED the first ranges are the workers' first parts
 *   SCRIPT  parts as they were recorded, each for one worker
 *   TOKENS  so many samples more may be accepted; what waits is, oldest first
 *   REVOKE  node_revoke, with FIXED node_withdraw, and a RETURN is due
 *   KNOWN   deposits of each worker's own share
 * A body of another size has no effect. */
void node_message(struct node *n, const struct msg *m, const void *body,
                  size_t bytes);

/* Take back up to `most` samples of the tokens; with UINT64_MAX all, and
 * nothing more of this step is accepted.  Returns how many. */
uint64_t node_revoke(struct node *n, uint64_t step, uint64_t most);

/* Take back a worker's first part.  Returns its samples; 0: it was accepted. */
uint64_t node_withdraw(struct node *n, uint64_t step, uint32_t worker);

/* The RETURN that a REVOKE waits for; false: none.  It is for the coordinator
 * once node_event has nothing more; then call node_returned. */
bool node_return(const struct node *n, struct msg *m);
void node_returned(struct node *n);

/* Workers that are still busy with an older step when `step` starts had better
 * sit it out if they are free only so long after its start.
 *   latest_s  in  [n_local] INFINITY: no limit */
void node_latest(struct node *n, uint64_t step, const float *latest_s);

/* Go on from a state that contains the means up to step; never back. */
void node_jump(struct node *n, uint64_t step);

/* Before the first step: the run goes on after step, its progress as given. */
void node_resume(struct node *n, uint64_t step, uint64_t samples,
                 uint64_t run_ns);

/* The checkpoint of the state after step, of the coordinator's node: ask for
 * it (0: no more); whether a worker has begun to copy it; its copy. */
void node_ask_checkpoint(struct node *n, uint64_t step);
bool node_checkpoint_begun(const struct node *n);
bool node_checkpoint_take(struct node *n, uint64_t step,
                          struct state_copy *copy);

/* What workers have asked for since the last call, enum seg_request. */
uint32_t node_request(struct node *n);

/* The end that comes is early, at a checkpoint. */
void node_preempt(struct node *n);
void node_end(struct node *n, uint64_t last_step);
void node_break(struct node *n, const char *why);

/* Seconds since each worker's last sign of life, [n_local].  The processor time
 * of a worker that is between steps (evaluating, say) counts as one. */
void node_life(struct node *n, float *silent_s);

/* Processor time that the node's workers and this process have used so far,
 * seconds; never less than before. */
double node_cpu_s(struct node *n);

/* A state after that step is of use: the means after it can still be had. */
bool node_state_serves(const struct node *n, uint64_t step);

/* Ask a worker for a copy of its state: of those who have not been asked yet,
 * for they may be stuck, the one with the most recent state that serves.
 *   least  in  the state must be of that step or a later one
 * Returns false when there is none. */
bool node_ask_state(struct node *n, uint64_t least);

/* Where copies of the state are announced on this node. */
struct seg_state *node_state_box(struct node *n);

/* After node_end: who has not answered yet, [n_local]; returns how many. */
uint32_t node_stuck(const struct node *n, uint8_t *stuck);

/* End a stuck worker's process: its helper thread does it; SIGCONT wakes it. */
void node_reap(struct node *n, uint32_t worker);

#endif
