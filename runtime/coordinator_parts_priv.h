/* Inside coordinator_parts.c and the files that begin with its name. */
#ifndef DSGD_COORDINATOR_PARTS_PRIV_H
#define DSGD_COORDINATOR_PARTS_PRIV_H

#include "coordinator_parts.h"
#include "tokens.h"

/* A part that nobody gave. */
#define NOBODY UINT32_MAX

struct deal_part {
    uint64_t first;
    uint32_t count;  /* 0: it is settled */
    uint32_t worker; /* who gave it, or NOBODY */
    uint32_t owner;  /* in a replay: who is to give it */
    bool late, kept; /* … to the next step; and has computed it */
};

/* What a node was told of the step's samples; its parts are numbered as there
 * (struct msg_range). */
struct deal_node {
    struct deal_part *part; /* [capacity] */
    uint32_t n, capacity;
    uint64_t samples;
    /* Parts of the step before that were not given then and are held for those
     * who may still do so, besides settled ones. */
    struct deal_part *held; /* [capacity] */
    uint32_t n_held;
    uint32_t to_send;  /* in a replay: rows that it was not sent yet */
    uint64_t to_grant; /* … tokens */
    uint32_t asked;    /* REVOKEs that it has not answered */
    double asked_s;    /* own clock of the last */
    bool freezes;      /* it was asked to accept no more */
};

struct deal {
    struct tokens tokens;
    struct deal_node *node;     /* [n_nodes] */
    uint64_t *waits;            /* [n_workers] samples it has offered */
    bool *counts;               /* [n_workers] among its node's workers */
    double *busy_s;             /* [n_workers] with its parts of this step */
    uint32_t *alive;            /* [n_nodes] workers */
    uint32_t n_alive;           /* when the step opened */
    struct sample_range *drawn; /* [MSG_RANGES] */
    struct msg_range *range;    /* [MSG_RANGES] */
    struct msg_script *script;  /* [MSG_SCRIPTS] */
    struct record_contribution *row; /* [n_workers] of parts that follow each
                                        other */
    size_t n_parts;                  /* of all nodes in this step */
    uint64_t part;                   /* samples, divides the batch */
    int64_t spare;   /* samples in the queue beyond those for the reserve */
    bool ending;     /* tokens and ranges go together */
    bool freezing;   /* the step is closed with what it has */
    double freeze_s; /* own clock when that was decided */
    double came_s;   /* … when the last part came, or a worker began */
    double slow_s;   /* the longest that a part took, fading */
    double look_s;   /* own clock of the next look without news */
    bool news;
    uint64_t to_keep;     /* in a replay: samples of this step for the next */
    const char *hopeless; /* … why it can't go on, or NULL */
};

/* The part that the node's number stands for, or NULL. */
struct deal_part *deal_part_of(struct deal_node *n, uint32_t entry);

/* Number a range's parts as the node does. */
void deal_note(struct deal_node *n, uint64_t first, uint64_t samples,
               uint64_t part);

/* coordinator_parts_settle.c */

/* What is held goes back.  Returns whether anything was. */
bool deal_release(struct coordinator *c);
void deal_release_node(struct coordinator *c, struct deal_node *n);

/* coordinator_parts_replay.c */

void deal_script_open(struct coordinator *c);
void deal_script_event(struct coordinator *c, uint32_t worker,
                       const struct msg_event *e);
bool deal_script_tick(struct coordinator *c);
bool deal_script_done(const struct coordinator *c);

#endif
