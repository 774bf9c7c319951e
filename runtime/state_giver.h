/* A node that gives the coordinator's a copy of the registered state: no worker
 * there has one that serves. */
#ifndef DSGD_STATE_GIVER_H
#define DSGD_STATE_GIVER_H

#include "node.h"
#include "state_transfer.h"

struct state_giver {
    bool asked;     /* and not done */
    uint64_t least; /* a state after that step or a later one */
    double ask_s;   /* when a worker is asked again */
    struct state_sender sender;
};

/* Have a worker copy its state, or send the next piece of a copy to node 0.
 * Returns whether it sent anything. */
bool state_giver_pump(struct state_giver *g, struct node *node,
                      struct transport *t, double now_s);

#endif
