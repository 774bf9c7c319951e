/* The coordinator's side of replay:FILE: the sampler and the cutoff do what a
 * record says, step by step, and whatever else happens is waited out. */
#ifndef DSGD_COORDINATOR_REPLAY_H
#define DSGD_COORDINATOR_REPLAY_H

#include "coordinator.h"
#include "record_replay.h"
#include "sampler.h"

/* Ranges of the open step as recorded; who did not contribute gets none. */
void replay_assign(struct coordinator *c, struct sample_range *range);

/* The open step is being published: go on to the next.
 *   epoch_end, lr_scale  out  as recorded
 * Returns whether it was the last. */
bool replay_publish(struct coordinator *c, bool *epoch_end, double *lr_scale);

/* Warn, once, when a replica is not what the record says. */
void replay_checksum(struct coordinator *c, uint32_t worker, uint64_t step,
                     uint64_t value);

#endif
