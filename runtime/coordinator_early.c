/* Sums that nodes send before they are asked for them, in steps that wait for
 * everybody: two messages less between the last arrival and the mean.
 *
 * They are used when the step is closed with the gradients of all workers and
 * nothing else.  A node has summed just these then: it sums what its workers
 * have given once all of them have, and says so in the same order.  In any
 * other case, and in any attempt but the first, the sums are asked for with
 * CLOSE.  Where what workers have deposited counts, all may have given without
 * a commit. */
#include "coordinator_priv.h"
#include "launch.h"

void early_create(struct coordinator *c, enum cutoff_mode mode)
{
    size_t bytes = node_grad_elems(c->node) * sizeof(float);

    c->early.able =
        c->exchange && !c->deal && !launch_deposits(&c->opt) &&
        (mode == CUTOFF_FULL || mode == CUTOFF_DRY) &&
        (c->n_nodes < PEERS_SPREAD_NODES || bytes < c->opt.spread_bytes);
}

void early_open(struct coordinator *c)
{
    c->early.step = c->early.able && !c->replay && c->n_working == c->n_workers
                        ? c->step
                        : 0;
    c->early.used = false;
}

uint32_t early_flag(struct coordinator *c, uint32_t node)
{
    if (c->early.step != c->step)
        return 0;
    c->peer[node].early = c->step;
    return MSG_EARLY;
}

/* All that a node's workers have given to the step, and nothing else. */
static bool is_all(const struct peer *p)
{
    for (uint32_t l = 0; l < p->n_local; l++) {
        if ((p->mask[l] & ~MSG_OWN_BUF) != MSG_OWN)
            return false;
    }
    return true;
}

bool early_accepts(struct coordinator *c)
{
    if (c->attempt || c->early.step != c->step)
        return false;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        const struct peer *p = &c->peer[i];
        if (!is_all(p) || (i && p->early != c->step))
            return false;
    }
    c->early.used = true;
    return true;
}

void early_refuse(struct coordinator *c)
{
    if (!c->exchange || c->phase != PHASE_OPEN)
        return;
    c->early.step = 0;
    exchange_refuse(c->exchange, c->step);
}
