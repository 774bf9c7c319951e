/* A copy of the registered state on its way to another node, in pieces of a
 * gradient's size. */
#ifndef DSGD_STATE_TRANSFER_H
#define DSGD_STATE_TRANSFER_H

#include "state.h"
#include "transport.h"

struct state_sender {
    struct state_copy copy; /* fd -1: none is sent */
    uint64_t step;          /* the last mean that it contains */
    size_t sent;
};

/* Send the next piece, of at most piece_bytes; only when the node is bulk_idle.
 * Returns true when it was the last: the copy is dropped then. */
bool state_send(struct state_sender *s, struct transport *t, uint32_t node,
                size_t piece_bytes);

struct state_receiver {
    struct state_copy copy; /* fd -1: none has begun */
    uint32_t node;
    uint64_t step;
    size_t got;
};

/* Take a piece from a node; those that do not follow the last are ignored.
 * Returns true when the copy is complete: it is the caller's then. */
bool state_receive(struct state_receiver *r, uint32_t node, const struct msg *m,
                   const void *body, size_t bytes);

#endif
