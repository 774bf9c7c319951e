/* Sums of a node's gradients, chunk by chunk, by the aggregator and by workers
 * that wait.
 *
 * A sum is a job: its rows (buffers of slots, in rank order), the ring slot it
 * goes to and a factor, written by the aggregator into struct seg_sum, and then
 * announced by the word `claim` = job number and next chunk.  Whoever adds one
 * to that word has the chunk and sums it: row by row for each element, so that
 * the bits do not depend on who summed what, on how many helped, or on the
 * chunks.
 *
 * The description is read before the claim.  Job numbers and, within a job,
 * chunk numbers only grow, and the aggregator closes the word before it changes
 * the description: a claim that succeeds has read the description of its job.
 *
 * A worker may be stopped or killed at any point of this.  When no chunk is
 * left to claim, the aggregator waits for the others about as long as it takes
 * to do their work again; then it takes over: it reserves another ring slot,
 * copies the finished chunks there, sums the others itself, and the sum is the
 * other slot's.  A helper that wakes up after that is harmless:
 *   - it writes to the old slot and nowhere else, in the one chunk that it
 *     claimed.  Before it claims it says so in its word `writing`, and
 *     segment_reserve gives out no slot that a worker writes: until the helper
 *     is through, nobody reads that slot or writes another mean to it.  A claim
 *     that fails wrote nothing.  A worker writes or reads one ring slot at a
 *     time, never both, so that the ring is still long enough;
 *   - it reads slots whose owners may be at the next step: what it makes of
 *     them goes to the old slot, which is not read.  Row numbers are within the
 *     segment whatever job they are of;
 *   - it marks its chunk done by a compare-and-swap that expects its own job
 *     number, which fails once the next job has begun;
 *   - if it is dead, its successor clears `writing`: segment_join.  The old slot
 *     may then be given out again at once, and the chunk is summed there.
 */
#ifndef DSGD_CHUNKS_H
#define DSGD_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment.h"

/* The aggregator's side; one thread. */
struct chunks {
    struct segment *s;
    uint64_t job;
    uint64_t start_ns, until_ns; /* begun; helpers are waited for until */
    uint32_t slot;               /* where this job's sum goes */
    uint32_t threads;            /* that can run at a time; 0: not known yet */
    uint32_t ready;              /* chunks in front that are done */
    uint64_t taken_over;
};
void chunks_init(struct chunks *c, struct segment *s);

/* Sum the gradients that mask names, in rank order, a worker's own before its
 * carried one, times factor, into a ring slot that the caller has reserved.
 * There is at least one, and all were committed.
 *   mask  in  [n_local] enum msg_take
 * Returns the ring slot that holds the sum: `slot`, or another, reserved one if
 * a helper got stuck.  Blocks while chunks are summed. */
uint32_t chunks_sum(struct chunks *c, const uint8_t *mask, float factor,
                    uint32_t slot);

/* The same in pieces.  chunks_begin announces the sum and wakes helpers.
 * chunks_ready says how many chunks in front are done: they may be read, and
 * then be overwritten with something else.  Until all are, call chunks_tend: it
 * sums a chunk, or takes over, or returns false when there is only to wait;
 * the sum is in c->slot, which a take-over changes. */
void chunks_begin(struct chunks *c, const uint8_t *mask, float factor,
                  uint32_t slot);
uint32_t chunks_ready(struct chunks *c);
bool chunks_tend(struct chunks *c);

/* chunks_work sums one chunk that nobody has claimed, or returns false;
 * chunks_finish does and waits for what is left, as chunks_sum does. */
bool chunks_work(struct chunks *c);
uint32_t chunks_finish(struct chunks *c);

/* Give a sum up.  Returns whether a helper may still be writing to its slot: it
 * must not be used before segment_reserve gives it out again. */
bool chunks_abandon(struct chunks *c);

/* A worker's side: sum chunks as long as there are any.  Returns how many.  The
 * worker must not have a mean pinned. */
uint32_t chunks_help(struct segment *s, uint32_t worker);

/* The two halves of it, for tests: claim a chunk of the announced sum; sum it
 * and say so. */
struct chunk {
    uint64_t job;
    uint32_t index, slot;
};
bool chunks_claim(struct segment *s, uint32_t worker, struct chunk *chunk);
void chunks_do(struct segment *s, uint32_t worker, const struct chunk *chunk);

#endif
