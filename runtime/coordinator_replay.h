/* The coordinator's side of replay:FILE: the sampler and the cutoff do what a
 * record says, step by step, and whatever else happens is waited out. */
#ifndef DSGD_COORDINATOR_REPLAY_H
#define DSGD_COORDINATOR_REPLAY_H

#include "coordinator.h"
#include "record_replay.h"
#include "sampler.h"

/* Ranges of the open step as recorded; who gave nothing of its own gets
 * none. */
void replay_assign(struct coordinator *c, struct sample_range *range);

/* After how many samples a worker stopped; 0: not before all were done. */
uint64_t replay_limit(const struct coordinator *c, uint32_t worker);

/* A worker has arrived: if it was late then, it is no part of the open step's
 * sum, but of the next one's. */
void replay_arrived(struct coordinator *c, uint32_t worker);

/* The open step is being published: settle what contributed, go on to the next.
 *   epoch_end, lr_scale  out  as recorded
 * Returns whether it was the last. */
bool replay_publish(struct coordinator *c, bool *epoch_end, double *lr_scale);

/* Warn, once, when a replica is not what the record says. */
void replay_checksum(struct coordinator *c, uint32_t worker, uint64_t step,
                     uint64_t value);

#endif
