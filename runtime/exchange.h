/* The sum over nodes: how the sums of the nodes become the mean on every node,
 * piece by piece, so that summing, sending and adding overlap.
 *
 * Each piece of the gradient has an owner.  A node that gives sends the owner
 * its sum of the piece; the owner adds the givers' sums in node order, scales
 * the piece and sends it to all who take.  With one owner, node 0, that is a
 * star; with every taker owning each n-th piece it is a reduce-scatter and an
 * all-gather, in which a node sends and receives 2 (n - 1) / n gradients
 * instead of node 0 sending and receiving n - 1.  Both add in node order, so
 * that the bits are the same.
 *
 * Pieces carry (step, attempt).  Those of an older plan are dropped; those of a
 * plan that has not come yet wait in their sender's only buffer.  A node that
 * does not give or take costs the others one such message.  Givers send their
 * pieces in the same order, and an owner needs the lowest one next: no cycle of
 * nodes waits for each other.
 *
 * In a star a node may send its sum before it is asked for it, as attempt
 * EXCHANGE_EARLY: it waits at node 0 like those of a plan that has not come
 * yet.  If what node 0 asks for in the end is just these sums, the plan is of
 * that attempt, and need not be told; else the plan is another, and they are
 * dropped.
 *
 * The node's own sum and the mean are in one ring slot, the reserved one: a
 * piece of the mean comes only after the node's sum of it was sent. */
#ifndef DSGD_EXCHANGE_H
#define DSGD_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "node.h"
#include "transport.h"

struct exchange;

enum exchange_role { EXCHANGE_GIVES = 1, EXCHANGE_TAKES = 2 };

/* The attempt before all others. */
#define EXCHANGE_EARLY 0

/* The same on all nodes; node 0 takes. */
struct exchange_plan {
    uint64_t step;
    uint32_t attempt;
    bool spread; /* every taker owns pieces; else node 0 owns all */
    float factor;
    const uint8_t *role; /* [n_nodes] */
};

/* Largest piece between any two nodes, in floats. */
size_t exchange_piece_elems(size_t grad_elems, uint32_t n_nodes);

/* Errors: DSGD_E_NOMEM.  node and transport stay the caller's. */
enum dsgd_err exchange_create(struct node *node, struct transport *t,
                              uint32_t index, uint32_t n_nodes,
                              struct exchange **x, struct dsgd_error *err);
void exchange_destroy(struct exchange *x);

/* Follow a plan, in place of the one before.
 *   mask  [n_local]  enum msg_take: what this node sums, if it gives */
void exchange_begin(struct exchange *x, const struct exchange_plan *plan,
                    const uint8_t *mask);

/* On other nodes than 0: give what mask says to a step of which there is no
 * plan yet, as a star.  Returns false when there is one.
 *   mask  [n_local] enum msg_take */
bool exchange_early(struct exchange *x, uint64_t step, const uint8_t *mask);

/* On node 0: early sums of this step and those before are not used, and do not
 * wait: the sender's buffer is wanted for something else. */
void exchange_refuse(struct exchange *x, uint64_t step);

/* MSG_SUM or MSG_MEAN has come; it is released when it has been used. */
void exchange_message(struct exchange *x, uint32_t node, const struct msg *m,
                      const void *body, size_t bytes);

/* Do what can be done.  Returns whether anything was. */
bool exchange_pump(struct exchange *x);

/* The mean of this plan is whole, in the reserved slot. */
bool exchange_complete(const struct exchange *x, uint64_t step,
                       uint32_t attempt);
/* It was committed to the ring: what others still lack is sent from there. */
void exchange_committed(struct exchange *x);
/* The reserved slot is wanted for something else. */
void exchange_drop(struct exchange *x);

uint32_t exchange_nodes(const struct exchange *x);

/* A gradient is one piece. */
bool exchange_whole(const struct exchange *x);

/* Something is on its way, and comes soon. */
bool exchange_active(const struct exchange *x);

/* Node 0 of a star: the next piece waits for this node. */
bool exchange_owes(const struct exchange *x, uint32_t node);

#endif
