/* Which worker computes which samples: an epoch is a queue of ranges of
 * positions [0, n_samples), handed out step by step.  A range that was not
 * contributed goes back into the queue (or is dropped), so that an epoch ends
 * when each of its samples was contributed exactly once (or dropped).
 *
 * Where shares are deposited in parts (launch_deposits) every worker has a
 * lane, a long range of which it is given the next batch and contributes the
 * front: what it did not get to is in front of its next batch, in one piece. */
#ifndef DSGD_SAMPLER_H
#define DSGD_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "dsgd.h"

/* A range cut so often is waited for. */
#define SAMPLER_MAX_CUTS 3

struct sample_range {
    uint64_t first;
    uint64_t count; /* 0: none */
    uint32_t cuts;  /* how often it was handed out in vain */
    uint32_t lane;  /* whose it is, where workers have lanes */
};

struct sampler;

/* sampler NONE: every worker gets `batch` samples (1 if 0) at position 0 of an
 * epoch that never ends.  Errors: DSGD_E_NOMEM, DSGD_E_USAGE (n_samples or
 * batch is 0 with RANGES). */
enum dsgd_err sampler_create(const struct dsgd_options *opt, uint32_t n_workers,
                             struct sampler **s, struct dsgd_error *err);
void sampler_destroy(struct sampler *s);

/* Hand out the next step's ranges; at least one must be able.
 *   able      in   [n_workers] who can be given work
 *   prefer    in   [n_workers] who was in time: gets ranges that were cut
 *                  before first, and the end of an epoch alone
 *   range     out  [n_workers] count 0 where not able or nothing is left
 * Returns true when every able worker got a whole batch; with lanes, when there
 * was one for each, of which the end of a lane may be less. */
bool sampler_assign(struct sampler *s, const bool *able, const bool *prefer,
                    struct sample_range *range);

/* Say what became of a range, or of a part of one that was settled in parts:
 * its first `samples` were contributed. */
void sampler_settle(struct sampler *s, const struct sample_range *range,
                    uint64_t samples);

/* The same for a step whose samples are handed out bit by bit.  There is room
 * for so many ranges that are taken back, or were before the step; before the
 * first step.  Errors: DSGD_E_NOMEM. */
enum dsgd_err sampler_reserve(struct sampler *s, size_t n_ranges,
                              struct dsgd_error *err);
/* Samples that can be drawn in multiples of unit. */
uint64_t sampler_whole(const struct sampler *s, uint64_t unit);
/* Draw samples, those that were taken back first.
 *   most   in   samples at most
 *   unit   in   >= 1: each range is a multiple of it
 *   range  out  [most_ranges]
 * Returns the number of ranges. */
size_t sampler_draw(struct sampler *s, uint64_t most, uint64_t unit,
                    struct sample_range *range, size_t most_ranges);
/* One range of so many samples that nobody was given yet, or none of 0. */
struct sample_range sampler_draw_fresh(struct sampler *s, uint64_t count);
/* So many ranges more can be taken back than there are in the queue. */
size_t sampler_room(const struct sampler *s);
/* Of what was drawn: a range that was not contributed; so many samples that
 * were. */
void sampler_take_back(struct sampler *s, uint64_t first, uint64_t count);
void sampler_done(struct sampler *s, uint64_t samples);

/* Samples of this epoch that are with no worker; UINT64_MAX with sampler
 * NONE. */
uint64_t sampler_left(const struct sampler *s);

/* There is room to settle ranges in more than one part. */
bool sampler_may_split(const struct sampler *s);

/* All ranges are settled and the queue is empty: starts the next epoch and
 * returns true. */
bool sampler_epoch_end(struct sampler *s);
uint64_t sampler_epoch(const struct sampler *s);

/* Somebody else hands ranges out: only count the epochs. */
void sampler_skip(struct sampler *s, bool epoch_end);

/* The queue, for a checkpoint at a step boundary.
 *   held  in   [n] ranges that are not settled then; saved as if they came back
 *   out   out  [sampler_state_most(s, n)] bytes
 * No allocation.  Returns the bytes written. */
size_t sampler_state_most(const struct sampler *s, size_t n);
size_t sampler_state_save(const struct sampler *s,
                          const struct sample_range *held, size_t n, void *out);

/* Go on from a saved queue, before the first sampler_assign; other workers and
 * another batch than those that it was saved under are fine.
 * Errors: DSGD_E_FORMAT (not a queue of this data set), DSGD_E_NOMEM. */
enum dsgd_err sampler_state_load(struct sampler *s, const void *in,
                                 size_t bytes, struct dsgd_error *err);

#endif
