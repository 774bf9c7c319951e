/* Starting a worker's process. */
#ifndef DSGD_RUN_CHILD_H
#define DSGD_RUN_CHILD_H

#include <stdint.h>
#include <sys/types.h>

#include "dsgd_error.h"

struct run_child {
    char *const *command; /* NULL-terminated */
    int box_fd;           /* stays open in it */
    uint32_t rank, size, local_rank, local_size;
    uint32_t restart;   /* how often it was started before */
    size_t threads;     /* OMP_NUM_THREADS, unless that is set */
    int out_fd, err_fd; /* -1: those of this process */
};

/* Start a process that dies with this one; call from the main thread, which
 * lasts as long as the process.  Its standard input is empty, and what belongs
 * to this process as a task of an MPI job is not in its environment.
 *   pid  out
 * Errors: DSGD_E_FAIL (fork), DSGD_E_NOMEM. */
enum dsgd_err run_child_start(const struct run_child *child, pid_t *pid,
                              struct dsgd_error *err);

#endif
