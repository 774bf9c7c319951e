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
    uint32_t fixed;     /* first parts at the front: workers, or 0 */
    uint64_t samples;   /* less what was withdrawn */
    uint64_t withdrawn; /* first parts */
    bool withdraws;     /* it was asked for one, and has not answered */
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
    struct deal_node *node; /* [n_nodes] */
    uint64_t *waits;        /* [n_workers] samples it has offered */
    bool *counts;           /* [n_workers] among its node's workers */
    uint64_t *first;    /* [n_workers] samples of its first part, 0: none, or
                           it is in, or withdrawn */
    uint64_t *first_at; /* [n_workers] where it starts */
    uint64_t *lost;  /* [n_workers] its samples when it was withdrawn, else 0 */
    double *lost_s;  /* … own clock then */
    double *busy_s;  /* [n_workers] with its parts of this step that count */
    double *since_s; /* … own clock since when it is with another, NAN: it has
                        not begun */
    double *done_s; /* … when it had that one done and offered, NAN: not yet */
    uint32_t *alive;                 /* [n_nodes] workers */
    uint32_t n_alive;                /* when the step opened */
    struct sample_range *drawn;      /* [MSG_RANGES] */
    struct msg_range *range;         /* [most workers of a node + MSG_RANGES] */
    struct msg_script *script;       /* [MSG_SCRIPTS] */
    struct record_contribution *row; /* [n_workers] of parts that follow each
                                        other */
    size_t n_parts;                  /* of all nodes in this step */
    uint64_t part;                   /* samples, divides the batch */
    int64_t spare; /* samples in the queue beyond those for the reserve */
    bool opens;    /* nothing of the step is handed out yet */
    bool gone;     /* a worker with a first part has gone */
    bool ending;   /* tokens and ranges go together */
    bool lean;     /* … also, as long as what was claimed is expected */
    bool freezing; /* the step is closed with what it has */
    double came_s; /* … when the last part came, or a worker began */
    double slow_s; /* the longest that a part took, fading */
    double look_s; /* own clock of the next look without news */
    bool news;
    uint64_t to_keep;     /* in a replay: samples of this step for the next */
    const char *hopeless; /* … why it can't go on, or NULL */
};

/* The part that the node's number stands for, or NULL. */
struct deal_part *deal_part_of(struct deal_node *n, uint32_t entry);

/* How long a worker has been with what it claimed last, waits for tokens left
 * out; NaN: it has claimed nothing. */
double deal_spent_s(const struct deal *d, uint32_t worker, double until_s);

/* coordinator_parts_grant.c */

/* Number a range's parts as the node does. */
void deal_note(struct deal_node *n, uint64_t first, uint64_t samples,
               uint64_t part);

/* Give a node tokens, and the samples for them, after so many first parts that
 * are in d->range.  Returns how many tokens. */
uint64_t deal_grant(struct coordinator *c, uint32_t node, uint64_t tokens,
                    uint32_t fixed);

/* coordinator_parts_first.c */

/* Size and draw the first parts of the step that opens, if it is to have
 * any. */
void first_draw(struct coordinator *c);
/* Those of a node, to d->range.  Returns how many, 0: it has none. */
uint32_t first_ranges(struct coordinator *c, uint32_t node);
/* They were sent; they could not be. */
void first_note(struct coordinator *c, uint32_t node);
void first_unsent(struct coordinator *c, uint32_t node);
/* A worker's has come. */
void first_in(struct coordinator *c, uint32_t w);
/* The node is asked for all tokens: theirs are among them. */
void first_freeze(struct coordinator *c, uint32_t node);
/* Withdraw what is not worth being waited for.  Returns whether it did. */
bool first_tick(struct coordinator *c);
/* The answer. */
void first_returned(struct coordinator *c, uint32_t node, const struct msg *m);

/* coordinator_parts_settle.c */

/* A part that nobody gave, unless it is of nothing, as first parts may be. */
void deal_take_back(struct coordinator *c, const struct deal_part *part);

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
