/* The parts of cluster_sim.c: what they know of a simulated cluster, and what
 * they do for each other. */
#ifndef DSGD_TESTS_CLUSTER_SIM_OWN_H
#define DSGD_TESTS_CLUSTER_SIM_OWN_H

#include "cluster_sim.h"
#include "first_node.h"
#include "node_early.h"
#include "parts_sim.h"
#include "rng.h"

enum { QUEUE = 64 };

enum doing { WAITS, COMPUTES, SHARES, DEPOSITS, COMMITTED, DEAD };

/* As in client.c, with virtual time for the work. */
struct worker {
    enum doing doing;
    uint64_t applied, step, told_ready;
    uint64_t first, count, give;
    bool stale, polls;
    double begin_s, end_s;
    double stopped_until, life_s;
    uint32_t buf;
    float *slot[2];
    double sample_s; /* with shared work */
    struct parts_worker parts;
    /* Of a share that is deposited in parts. */
    uint64_t given;
    uint32_t n_given;
    double part_s;
    bool adding;
};

struct control {
    struct msg m;
    unsigned char body[4096];
    size_t bytes;
};

struct node_sim {
    uint32_t n;
    struct segment *seg; /* with shared work, and node 0 */
    struct segment own;
    struct node *node;
    struct worker *worker; /* [n] */
    double frozen_until, life_s;
    uint64_t published, started, pending;
    struct msg_share *share, *next; /* [n] */
    struct control *queue;          /* [QUEUE] */
    unsigned head, tail;
    bool bulk_waits;
    struct msg bulk;
    struct msg_share *bulk_share; /* [n] */
    uint64_t plan_step;           /* what is exchanged; 0: nothing */
    uint32_t plan_attempt;
    bool whole;          /* its mean has come */
    struct control show; /* kind 0: none */
    struct node_early early;
    uint64_t told; /* last mean published here, for the coordinator */
    float *sum;
    float *sent; /* the sum that is on its way, or held by the coordinator */
    double arrives_s;
    bool sum_waits, sum_travels, sum_held;
    struct msg sent_msg;
    struct msg sum_msg;
    uint64_t known_step; /* the coordinator knows of so many of its deposits */
    uint32_t *known;     /* [n] */
    struct msg_event events[4096];
    uint32_t n_events;
};

struct cluster {
    struct first_node first; /* first */
    const struct cluster_spec *spec;
    struct cluster_result *r;
    struct rng rng;
    double now_s;
    struct node_sim *nodes; /* [n_nodes] */
    size_t elems;           /* a sample each, and one more */
    uint32_t bufs;
    bool deposits; /* shares are given in parts, of so many samples */
    uint64_t part;
    uint64_t checked; /* last mean looked at */
    uint64_t left;    /* samples of the epoch */
    uint8_t *seen;    /* [n_samples] */
};

/* What the coordinator and its exchange send through. */
extern const struct transport_ops sim_transport_ops;

/* Memory and what is simulated.  Freed by sim_clean_up, also after a
 * failure. */
bool sim_set_up(struct cluster *s);
void sim_clean_up(struct cluster *s);

/* A tick of a node with its workers, and of a worker that is not stopped. */
void sim_node_advance(struct cluster *s, uint32_t index);
void sim_worker_advance(struct cluster *s, struct node_sim *n, uint32_t w);

#endif
