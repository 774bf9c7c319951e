/* The parts of a step on one node: the pool that its workers claim from, and
 * which of the parts that they offer are accepted.  Behind node_message,
 * node_revoke, node_withdraw and node_event of node.h; the aggregator's thread.
 *
 * A worker that has computed a part offers it: the sum of what of its parts was
 * accepted and of this one lies in one of its two buffers then, and the sum
 * without it stays in the other.  The part is accepted when the node has tokens
 * for its samples; else it waits for them, and is dropped when the next step's
 * pool comes.  A worker makes the next offer when it has seen the one before
 * accepted, so that it has one at a time, and may be stopped or killed
 * anywhere: what was accepted is never written to.
 *
 * A worker's first part, of any size, has tokens of its own: it never waits.
 * It is accepted, or it was withdrawn before; then its entry says 0 samples,
 * and its worker goes on as if it had not offered it.
 *
 * Where late parts are carried, a worker keeps what it had computed when the
 * step was over, but for a first part, and offers that first in the next step,
 * as if it had just computed it; the pool says whether the coordinator has kept
 * the samples for it.  Which parts of the step before were not accepted is
 * known here, so that none counts twice. */
#ifndef DSGD_NODE_PARTS_H
#define DSGD_NODE_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "message.h"
#include "segment.h"

struct node_parts {
    struct segment *seg;
    uint64_t step, tokens;
    uint32_t fixed;     /* first parts at the front of the pool */
    bool closed;        /* nothing more of the step is accepted */
    uint64_t returned;  /* samples that REVOKE got, to be told of */
    uint32_t n_returns; /* answers to REVOKE to be given */
    /* Whose first part was withdrawn, plus 1, and its samples; 0: nobody's to
     * be told of. */
    uint32_t withdrawn;
    uint64_t withdrawn_samples;
    uint32_t n;     /* entries of the pool */
    uint32_t *open; /* [SEGMENT_PARTS + n_local] samples; 0: accepted */
    uint32_t n_before, *open_before; /* the same of the step before; n_before
                                        is 0 when nothing is carried */
    /* [n_local] each: a worker is in at most one place of both. */
    struct msg_event *waiting, *accepted;
    uint32_t n_waiting, n_accepted;
};

/* False: no memory; then and after the use parts_destroy. */
bool parts_create(struct node_parts *p, struct segment *seg);
void parts_destroy(struct node_parts *p);

uint64_t parts_revoke(struct node_parts *p, uint64_t step, uint64_t most);
/* A worker's first part is not accepted any more.  Returns its samples; 0: it
 * was accepted, or there is none. */
uint64_t parts_withdraw(struct node_parts *p, uint64_t step, uint32_t worker);

/* All that the workers of the node can give was given, or waits for tokens. */
bool parts_idle(const struct node_parts *p);

/* Decide on an offer, SEG_EVENT_PART.
 *   event  in   kind, worker, step, value (samples), buf, times set
 *          out  true: PART or WAITS for the coordinator */
bool parts_offer(struct node_parts *p, uint32_t entry, struct msg_event *event);

/* The next that was accepted since it was offered. */
bool parts_next(struct node_parts *p, struct msg_event *event);

/* A worker has died: what it offered and was not accepted is no more. */
void parts_forget(struct node_parts *p, uint32_t worker);

/* What the coordinator says, see node_message; and the next answer to it, which
 * is owed until parts_returned.  False: none is. */
void parts_message(struct node_parts *p, const struct msg *m, const void *body,
                   size_t bytes);
bool parts_return(const struct node_parts *p, struct msg *m);
void parts_returned(struct node_parts *p);

#endif
