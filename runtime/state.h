/* Copies of the registered state, for workers that fell too far behind: an
 * anonymous file that its owner keeps open and others read through
 * /proc/<pid>/fd/<fd>.  A copy never changes once it is announced. */
#ifndef DSGD_STATE_H
#define DSGD_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "segment.h"

/* Registered memory of one worker. */
struct state_part {
    void *memory;
    size_t bytes;
};

struct state_copy {
    int fd;              /* -1: none */
    unsigned char *data; /* [bytes], mapped */
    size_t bytes;
    void *map;
    size_t map_bytes;
};

/* Make an empty copy of a size.  Errors: DSGD_E_NOMEM. */
enum dsgd_err state_make(size_t bytes, struct state_copy *c,
                         struct dsgd_error *err);
void state_drop(struct state_copy *c);

/* Announce c as the state after step in box; the caller keeps c open until it
 * announces another.  False: a later state is announced there. */
bool state_announce(struct seg_state *box, const struct state_copy *c,
                    uint64_t step);

/* Announce nothing any more, if it is c that is announced. */
void state_retract(struct seg_state *box, const struct state_copy *c);

/* Open what a box announces.
 *   bytes  in   its size, SIZE_MAX: any
 *   step   out  the last mean that the copy contains
 * Errors: DSGD_E_IO (its owner is gone, or has just announced another),
 * DSGD_E_FORMAT (its size is not `bytes`). */
enum dsgd_err state_open(const struct seg_state *box, size_t bytes,
                         struct state_copy *c, uint64_t *step,
                         struct dsgd_error *err);

/* Checksum of all parts in order: eight bytes at a time through a
 * multiply-and-rotate, four lanes. */
uint64_t state_checksum(const struct state_part *parts, size_t n_parts);

#endif
