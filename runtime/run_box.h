/* What dsgd-run and the workers of its node share before there is a segment,
 * and where the segment is.
 *
 * dsgd-run can't make the segment before a worker has said how large a gradient
 * is.  So its memory file, which the workers inherit, starts as a box alone:
 * the first worker that opens the run writes its options there and all sleep;
 * dsgd-run appends the segment and rings. */
#ifndef DSGD_RUN_BOX_H
#define DSGD_RUN_BOX_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "dsgd.h"
#include "segment.h"

#define RUN_BOX_WORKERS 4096 /* on a node, at most */

struct run_box {
    uint64_t magic; /* this line and the next are the same in all versions */
    char version[32];
    uint64_t layout;
    uint64_t segment_at; /* offset in the file */
    int32_t pid;         /* of dsgd-run */
    uint32_t first_rank, n_local;
    uint32_t size, nodes; /* of the whole run */

    alignas(64) _Atomic uint32_t bell; /* futex: the segment is there */
    _Atomic uint32_t is_open;
    _Atomic int32_t claim;  /* pid of who writes what follows, 0: nobody */
    _Atomic uint32_t asked; /* it is written */
    struct dsgd_options opt;
    char kernel[64];                       /* of the workers' BLAS library */
    _Atomic uint8_t here[RUN_BOX_WORKERS]; /* who has opened the run */
};

/* How a node's workers are numbered. */
struct run_box_place {
    uint32_t first_rank, n_local, size, nodes;
};

/* Make a box in a memory file that children inherit.
 *   fd   out  the file; the caller closes it
 *   box  out  ends with run_box_unmap
 * Errors: DSGD_E_NOMEM. */
enum dsgd_err run_box_create(const struct run_box_place *place, int *fd,
                             struct run_box **box, struct dsgd_error *err);
void run_box_unmap(struct run_box *box); /* NULL is fine */

/* dsgd-run's side: append the segment, and let the workers have it. */
enum dsgd_err run_box_segment(int fd, const struct run_box *box,
                              size_t grad_elems, uint32_t slot_bufs,
                              size_t ring_bytes, struct segment *seg,
                              struct dsgd_error *err);
void run_box_open(struct run_box *box);

/* Has this worker opened the run? */
bool run_box_has(const struct run_box *box, uint32_t local);

/* A worker's process has ended; it may have been about to write its options. */
void run_box_forget(struct run_box *box, uint32_t local, pid_t pid);

/* A worker's side: map the box of an inherited file.
 *   text  in   value of DSGD_RUN_FD
 * Errors: DSGD_E_USAGE (not a number), DSGD_E_STATE (no open file),
 * DSGD_E_FORMAT (another kind of file, another user's, another version's). */
enum dsgd_err run_box_attach(const char *text, int *fd, struct run_box **box,
                             struct dsgd_error *err);

/* Write the options, unless another worker does, and sleep until the segment is
 * there.  Errors: DSGD_E_LAUNCH (dsgd-run is gone). */
enum dsgd_err run_box_ask(struct run_box *box, uint32_t local,
                          const struct dsgd_options *opt,
                          struct dsgd_error *err);

#endif
