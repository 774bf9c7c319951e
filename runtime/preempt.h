/* Signals that ask a run to end early: SIGTERM, which Slurm sends before it
 * kills, and SIGUSR1, as with sbatch --signal=USR1@60.  They become a request
 * for a checkpoint and an end. */
#ifndef DSGD_PREEMPT_H
#define DSGD_PREEMPT_H

#include <stdbool.h>

#include "segment.h"

/* Watch on behalf of a segment.  A signal for which the program has a handler
 * of its own, or which it ignores, is left alone.  Returns false when another
 * run of this process is watching already. */
bool preempt_watch(struct seg_header *h);

/* Put the signals back as they were; returns once no handler runs. */
void preempt_unwatch(void);

#endif
