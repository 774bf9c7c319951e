/* Inside coordinator_parts.c and coordinator_parts_create.c. */
#ifndef DSGD_COORDINATOR_PARTS_PRIV_H
#define DSGD_COORDINATOR_PARTS_PRIV_H

#include "coordinator_parts.h"
#include "tokens.h"

/* A part that nobody gave. */
#define NOBODY UINT32_MAX

struct deal_part {
    uint64_t first;
    uint32_t count, worker; /* who gave it, or NOBODY */
};

/* What a node was told of the step's samples; its parts are numbered as there
 * (struct msg_range). */
struct deal_node {
    struct deal_part *part; /* [capacity] */
    uint32_t n, capacity;
    uint64_t samples;
    uint32_t asked; /* REVOKEs that it has not answered */
    double asked_s; /* own clock of the last */
    bool freezes;   /* it was asked to accept no more */
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
    size_t n_parts;             /* of all nodes in this step */
    uint64_t part;              /* samples, divides the batch */
    int64_t spare;   /* samples in the queue beyond those for the reserve */
    bool ending;     /* tokens and ranges go together */
    bool freezing;   /* the step is closed with what it has */
    double freeze_s; /* own clock when that was decided */
    double came_s;   /* … when the last part came, or a worker began */
    double slow_s;   /* the longest that a part took, fading */
    double look_s;   /* own clock of the next look without news */
    bool news;
};

#endif
