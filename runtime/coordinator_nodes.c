/* What the coordinator knows of the nodes. */
#include <math.h>

#include "coordinator_priv.h"

bool coordinator_gives(const struct coordinator *c)
{
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        if (c->peer[i].contributes)
            return true;
    }
    return false;
}

/* A node that lives says so twice a second. */
bool coordinator_silent(const struct coordinator *c, uint32_t node)
{
    double limit_s = fmin(1.5, .75 * coordinator_hard_timeout_s(c));

    return node != 0 && c->now_s - c->peer[node].heard_s > limit_s;
}

/* A node that keeps the others waiting.  In a star it is seen who owes what;
 * else it is known by its silence. */
bool coordinator_late(const struct coordinator *c, uint32_t node)
{
    if (!c->spread)
        return exchange_owes(c->exchange, node);
    return c->peer[node].role && coordinator_silent(c, node);
}

/* A node that was told to show a mean and lacks pieces of it, whose owner is
 * gone perhaps, is sent all of it. */
void coordinator_has(struct coordinator *c, uint32_t node, uint64_t published)
{
    const double patience_s = 1;
    struct peer *p = &c->peer[node];

    c->now_s = own_clock_s(c->clock);
    p->heard_s = c->now_s;
    if (published > p->has)
        p->has = published;
    if (p->has < p->sent && p->sent == p->pieces &&
        c->now_s - p->pieces_s > patience_s)
        p->sent = p->has;
}

void coordinator_bye(struct coordinator *c, uint32_t node, const uint8_t *stuck)
{
    struct peer *p = &c->peer[node];
    for (uint32_t i = 0; i < p->n_local; i++)
        c->worker[p->worker[i]].stuck = stuck[i];
    p->bye = true;
}

void coordinator_done(struct coordinator *c, uint32_t node)
{
    c->peer[node].done = true;
}

bool coordinator_may_reap(const struct coordinator *c)
{
    return c->phase == PHASE_REAPING;
}

bool coordinator_finished(const struct coordinator *c)
{
    for (uint32_t i = 1; i < c->n_nodes; i++) {
        if (!c->peer[i].done)
            return false;
    }
    return c->phase == PHASE_REAPING;
}
