/* The directory of a run's checkpoints, and the thread that writes into it. */
#ifndef DSGD_CHECKPOINT_STORE_H
#define DSGD_CHECKPOINT_STORE_H

#include <stdbool.h>

#include "checkpoint_file.h"
#include "dsgd.h"

struct checkpoint_store;

/* Make the directory that opt names, parents too, lock it against another run,
 * remove what a killed one left half-written, and start the thread.
 * Errors: DSGD_E_IO, DSGD_E_USAGE (in use by another run), DSGD_E_NOMEM. */
enum dsgd_err checkpoint_store_open(const struct dsgd_options *opt,
                                    struct checkpoint_store **s,
                                    struct dsgd_error *err);

/* Waits for the thread.  NULL is fine. */
void checkpoint_store_close(struct checkpoint_store *s);

/* Read the newest checkpoint that is good; opt->warn is told of each newer one
 * that is not.
 *   want  in   what it must be of: the first block of the facts
 *   c     out  NULL: there is none to go on from
 *   name  out  [256] file name of c
 * Errors: DSGD_E_USAGE (there are only good ones of another training),
 * DSGD_E_NOMEM, DSGD_E_IO (the directory can't be read). */
enum dsgd_err checkpoint_store_newest(struct checkpoint_store *s,
                                      const struct checkpoint_facts *want,
                                      struct checkpoint_read **c, char *name,
                                      struct dsgd_error *err);

/* Hand a checkpoint to the thread, which must be idle.  Its memory must stay
 * until checkpoint_store_poll says that it is written.  Does not block. */
void checkpoint_store_put(struct checkpoint_store *s,
                          const struct checkpoint *c);

enum checkpoint_progress {
    CHECKPOINT_IDLE,
    CHECKPOINT_BUSY,
    CHECKPOINT_WRITTEN, /* told once; the store is idle again, as next: */
    CHECKPOINT_FAILED
};

/*   result  out  the file's name, or what went wrong */
enum checkpoint_progress checkpoint_store_poll(struct checkpoint_store *s,
                                               struct dsgd_error *result);

#endif
