/* Which sum a node sends before it is asked for it: that of what all of its
 * workers have given to the open step, where the coordinator has said that it
 * wants it (MSG_EARLY). */
#ifndef DSGD_NODE_EARLY_H
#define DSGD_NODE_EARLY_H

#include <stdbool.h>
#include <stdint.h>

#include "exchange.h"
#include "message.h"

struct node_early {
    uint64_t step; /* whose sum is wanted; 0: none */
    uint32_t n_local, n_given;
    uint8_t *mask; /* [n_local] enum msg_take */
};

/* False: no memory; then and after the use node_early_destroy. */
bool node_early_create(struct node_early *e, uint32_t n_local);
void node_early_destroy(struct node_early *e);

/* A message of the coordinator: PUBLISH, SHOW and START come before a worker
 * can give to the step that begins with them. */
void node_early_message(struct node_early *e, const struct msg *m);

/* What a worker said, in the order in which the coordinator is told. */
void node_early_event(struct node_early *e, const struct msg_event *event);

/* The mask of the step after `published` when its sum is due, once; else
 * NULL. */
const uint8_t *node_early_due(struct node_early *e, uint64_t published);

/* Give the sum, if it is due.  Returns whether it was. */
bool node_early_give(struct node_early *e, const struct node *node,
                     struct exchange *x);

#endif
