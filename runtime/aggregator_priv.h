/* What the files of the aggregator share. */
#ifndef DSGD_AGGREGATOR_PRIV_H
#define DSGD_AGGREGATOR_PRIV_H

#include <pthread.h>

#include "aggregator.h"
#include "exchange.h"
#include "message.h"
#include "node_early.h"
#include "node_load.h"
#include "state_giver.h"
#include "timing.h"

struct aggregator {
    struct seg_header *h;
    struct node *node;
    uint32_t index;
    struct transport *t;
    struct coordinator *c; /* NULL on other nodes */
    struct own_clock clock;
    struct node_load *load;
    struct timing_model *model;
    pthread_t thread;
    bool started, joined;

    /* Held by whoever does the aggregator's work: see aggregator_drive. */
    pthread_mutex_t turn;
    bool drivable;       /* if there is a worker of this process that waits */
    bool needs_all;      /* a step closes when all have committed */
    _Atomic bool wanted; /* the thread waits for its turn */
    uint64_t did_ns;     /* when there was something to do last */

    struct msg_event *events; /* [EVENTS], not yet sent */
    uint32_t n_events;
    uint64_t told;           /* the coordinator: last mean published here */
    struct exchange *x;      /* NULL when there is one node */
    struct node_early early; /* not the coordinator's node */
    struct msg show;         /* kind MSG_SHOW: the mean may be shown */
    struct msg_share *show_shares; /* [n_local] */
    uint8_t *stuck;                /* [n_local] */
    float *silent_s;               /* [n_local] */
    struct state_receiver incoming;
    struct state_copy state; /* what this aggregator announced */
    bool wants_state;
    uint64_t seen_state;      /* announced when a worker was last behind */
    struct state_giver giver; /* to the coordinator */
    uint64_t resumed; /* the step after which a checkpoint is announced */
    uint32_t request; /* of workers, to be passed on */

    struct msg end; /* kind MSG_END: the run is over */
    double life_s, told_s, end_s, hard_timeout_s;
    bool ended, bye_sent, may_reap, finished;
};

/* The worker of this process may do the aggregator's work while it waits. */
bool aggregator_drivable(const struct aggregator_config *config);

/* The thread's turn, before a worker's; blocks.  Then unlock a->turn. */
void aggregator_take_turn(struct aggregator *a);

/* To the coordinator, if it is on another node.  False: later. */
bool aggregator_send(struct aggregator *a, const struct msg *m,
                     const void *body, size_t bytes);

/* What workers did.  Returns whether there was anything. */
bool aggregator_pump_events(struct aggregator *a, double now_s);

/* What workers asked for: a checkpoint, an end. */
void aggregator_pump_request(struct aggregator *a);

/* Nothing that was sent to the coordinator is under way. */
bool aggregator_drained(struct aggregator *a);

/* The run ends on this node once it has shown the last mean. */
void aggregator_end_node(struct aggregator *a, double now_s);

/* What is to be done after that. */
void aggregator_pump_end(struct aggregator *a, double now_s);

#endif
