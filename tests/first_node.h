/* The first node of a run, on which its coordinator lives: a segment, the node,
 * the exchange and the coordinator, sending through the test's own
 * transport. */
#ifndef DSGD_TESTS_FIRST_NODE_H
#define DSGD_TESTS_FIRST_NODE_H

#include "coordinator.h"
#include "exchange.h"
#include "node.h"
#include "segment.h"
#include "transport.h"

struct first_node {
    struct transport t; /* first; its ops are the caller's to set */
    struct segment seg;
    struct node *node;
    struct exchange *x;
    struct coordinator *c;
    struct own_clock clock;
    struct cutoff_spec cutoff; /* what opt->cutoff says */
};

/*   f            in   all zero but t.ops; first_node_destroy, also after an
 *                     error
 *   opt          in   checked as by launch_check
 *   ring_bytes   in   as in segment_create
 *   worker_node  in   [n_workers]
 *   model        in   as in struct coordinator_config */
enum dsgd_err first_node_create(struct first_node *f,
                                const struct dsgd_options *opt,
                                size_t ring_bytes, uint32_t n_workers,
                                uint32_t n_nodes, const uint32_t *worker_node,
                                const struct timing_model *model,
                                struct dsgd_error *err);
void first_node_destroy(struct first_node *f);

/* Operations of a transport that takes everything at once. */
bool first_node_idle(struct transport *t, uint32_t node);
void first_node_bulk(struct transport *t, uint32_t node, const struct msg *m,
                     const void *body, size_t bytes, const void *tail,
                     size_t tail_bytes);
void first_node_release(struct transport *t, uint32_t node);

#endif
