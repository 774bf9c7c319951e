/* First parts, one for each worker, of the size that coordinator_shares.h
 * says. */
#include "coordinator_parts_priv.h"
#include "coordinator_shares.h"

static bool takes_part(const struct coordinator *c, uint32_t w)
{
    const struct deal *d = c->deal;

    return d->counts[w] && !d->tokens.node[c->worker[w].node].out;
}

/* They come from what nobody was given yet: what came back is in pieces.  So
 * that each can be withdrawn there must be as many samples besides. */
void first_draw(struct coordinator *c)
{
    struct deal *d = c->deal;
    struct tokens *t = &d->tokens;
    bool roomy = !d->ending && d->spare >= (int64_t)t->batch;

    if (!sizes_plan(c, t->batch, d->part, d->counts, roomy ? d->first : NULL))
        return;
    d->lean = true;
    for (uint32_t w = 0; w < c->n_workers; w++) {
        struct sample_range r = {0};
        if (takes_part(c, w) && d->first[w] && d->first[w] <= t->reserve)
            r = sampler_draw_fresh(c->sampler, d->first[w]);
        d->first[w] = r.count;
        d->first_at[w] = r.first;
        if (r.count)
            tokens_fix(t, c->worker[w].node, r.count);
        else
            sizes_single(c, w);
    }
}

uint32_t first_ranges(struct coordinator *c, uint32_t node)
{
    struct deal *d = c->deal;
    const struct peer *p = &c->peer[node];
    bool any = false;

    for (uint32_t l = 0; l < p->n_local; l++) {
        uint32_t w = p->worker[l];
        any = any || d->first[w];
        d->range[l] =
            (struct msg_range){.first = d->first_at[w], .count = d->first[w]};
    }
    return any ? p->n_local : 0;
}

void first_note(struct coordinator *c, uint32_t node)
{
    struct deal *d = c->deal;
    struct deal_node *n = &d->node[node];

    n->fixed = c->peer[node].n_local;
    for (uint32_t l = 0; l < n->fixed; l++) {
        n->part[n->n++] =
            (struct deal_part){.first = d->range[l].first,
                               .count = (uint32_t)d->range[l].count,
                               .worker = NOBODY};
        n->samples += d->range[l].count;
    }
    d->n_parts += n->fixed;
}

void first_unsent(struct coordinator *c, uint32_t node)
{
    struct deal *d = c->deal;
    const struct peer *p = &c->peer[node];

    for (uint32_t l = p->n_local; l-- > 0;) {
        uint32_t w = p->worker[l];
        if (!d->first[w])
            continue;
        sampler_take_back(c->sampler, d->first_at[w], d->first[w]);
        tokens_withdraw(&d->tokens, node, d->first[w]);
        d->first[w] = 0;
        sizes_single(c, w);
    }
}

void first_in(struct coordinator *c, uint32_t w)
{
    struct deal *d = c->deal;

    tokens_first_in(&d->tokens, c->worker[w].node, d->first[w]);
    d->first[w] = 0;
}

void first_freeze(struct coordinator *c, uint32_t node)
{
    struct deal *d = c->deal;
    const struct peer *p = &c->peer[node];

    for (uint32_t l = 0; l < p->n_local; l++) {
        if (d->first[p->worker[l]])
            first_in(c, p->worker[l]);
    }
}

/* Samples 0: it came, in a message before this one.  Meanwhile the node may
 * have been asked for all that it has. */
static void withdrawn(struct coordinator *c, uint32_t w, uint64_t samples)
{
    struct deal *d = c->deal;
    uint32_t node = c->worker[w].node;

    if (!samples || samples > d->first[w] + tokens_left(&d->tokens, node))
        return;
    if (!d->first[w])
        d->tokens.node[node].fixed += samples;
    d->first[w] = 0;
    d->lost[w] = samples;
    d->lost_s[w] = c->now_s;
    d->spare -= (int64_t)samples;
    d->node[node].samples -= samples;
    d->node[node].withdrawn += samples;
    tokens_withdraw(&d->tokens, node, samples);
    sizes_single(c, w);
    d->news = true;
}

void first_returned(struct coordinator *c, uint32_t node, const struct msg *m)
{
    struct deal *d = c->deal;
    const struct peer *p = &c->peer[node];

    d->node[node].withdraws = false;
    d->tokens.node[node].withdraws = 0;
    if (m->u.pool.part < p->n_local)
        withdrawn(c, p->worker[m->u.pool.part], m->u.pool.tokens);
}

static bool withdraw(struct coordinator *c, uint32_t w)
{
    struct deal *d = c->deal;
    uint32_t node = c->worker[w].node;
    struct deal_node *n = &d->node[node];
    struct msg m = {.kind = MSG_REVOKE, .flags = MSG_FIXED, .step = c->step};

    m.u.pool.part = c->worker[w].local;
    if (node == 0) {
        withdrawn(c, w, node_withdraw(c->node, c->step, c->worker[w].local));
        return true;
    }
    if (!c->transport->ops->control(c->transport, node, &m, NULL, 0))
        return false;
    n->withdraws = true;
    n->asked++;
    n->asked_s = c->now_s;
    d->tokens.node[node].withdraws = d->first[w];
    return true;
}

/* One at a time of a node. */
static bool may_withdraw(const struct coordinator *c, uint32_t w)
{
    const struct deal *d = c->deal;
    const struct deal_node *n = &d->node[c->worker[w].node];

    return d->first[w] && !n->withdraws && !n->freezes;
}

/* Those of workers who are gone, when one has gone. */
static bool withdraw_gone(struct coordinator *c)
{
    struct deal *d = c->deal;
    bool did = false, left = false;

    for (uint32_t w = 0; d->gone && w < c->n_workers; w++) {
        if (d->counts[w] || !d->first[w])
            continue;
        did = (may_withdraw(c, w) && withdraw(c, w)) || did;
        left = left || d->first[w];
    }
    d->gone = left;
    return did;
}

/* Of those that would sooner be computed by others, the one that is expected
 * last. */
static uint32_t find_late(struct coordinator *c, uint64_t lack)
{
    struct deal *d = c->deal;
    uint32_t latest = NOBODY;
    double most_s = -1, late_s;

    for (uint32_t w = 0; w < c->n_workers; w++) {
        if (!may_withdraw(c, w) ||
            !sizes_late(c, w, d->first[w], lack, &late_s) || late_s <= most_s)
            continue;
        most_s = late_s;
        latest = w;
    }
    return latest;
}

bool first_tick(struct coordinator *c)
{
    bool did = withdraw_gone(c);
    uint64_t lack;

    while (c->sizes && (lack = tokens_lack(&c->deal->tokens)) > 0) {
        uint32_t w = find_late(c, lack);
        if (w == NOBODY || !withdraw(c, w))
            break;
        did = true;
    }
    return did;
}
