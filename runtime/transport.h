/* Messages between nodes, as the aggregators need them: nothing blocks, a peer
 * that does not take its messages costs one buffer, and all calls come from the
 * aggregator's thread. */
#ifndef DSGD_TRANSPORT_H
#define DSGD_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "message.h"

struct transport;

/* Called by transport_poll for each message.  The bytes are valid during the
 * call, those of a bulk message until transport_release. */
typedef void transport_handler(void *context, uint32_t node,
                               const struct msg *m, const void *body,
                               size_t bytes);

struct transport_ops {
    /* Queue a control message.  Returns false when the peer has not taken the
     * ones before. */
    bool (*control)(struct transport *t, uint32_t node, const struct msg *m,
                    const void *body, size_t bytes);
    /* May a bulk message be sent to this node? */
    bool (*bulk_idle)(struct transport *t, uint32_t node);
    /* Send a bulk message made of two parts; copies.  Only when bulk_idle. */
    void (*bulk)(struct transport *t, uint32_t node, const struct msg *m,
                 const void *body, size_t bytes, const void *tail,
                 size_t tail_bytes);
    /* Deliver what has come.  Returns how many messages, -1 on an error. */
    int (*poll)(struct transport *t, transport_handler *handler, void *context);
    /* The bulk message of this node has been used. */
    void (*release)(struct transport *t, uint32_t node);
    /* Everything sent to this node has been taken. */
    bool (*drained)(struct transport *t, uint32_t node);
    void (*destroy)(struct transport *t);
};

/* Implementations embed this first. */
struct transport {
    const struct transport_ops *ops;
    struct dsgd_error error; /* when poll returned -1 */
};

#endif
