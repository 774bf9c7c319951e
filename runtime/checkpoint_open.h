/* Opening a run's checkpoints, in the coordinator's process. */
#ifndef DSGD_CHECKPOINT_OPEN_H
#define DSGD_CHECKPOINT_OPEN_H

#include "checkpoint_store.h"

struct checkpoint_resume {
    struct checkpoint_store *store; /* NULL: the run keeps no checkpoints */
    struct checkpoint_read *from;   /* NULL: it begins at its beginning */
};

/* Open opt's store, if it names one, and read the newest good checkpoint;
 * opt->note is told of it, in a line.
 *   r  out  all NULL on error.  r->from is freed with checkpoint_free
 * Errors: those of checkpoint_store_open and checkpoint_store_newest. */
enum dsgd_err checkpoint_resume_open(const struct dsgd_options *opt,
                                     uint32_t n_workers,
                                     struct checkpoint_resume *r,
                                     struct dsgd_error *err);

#endif
