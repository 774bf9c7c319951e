/* Shared work as it was recorded: each worker is given its parts, in the order
 * in which it added them, and nobody is waited for but those who gave some. */
#include "coordinator_parts_priv.h"

static void note_worker(struct coordinator *c, struct deal_node *n, uint32_t w)
{
    const struct script_worker *s = record_replay_worker(c->replay, w);
    struct deal *d = c->deal;

    for (size_t k = 0; k < s->n_parts; k++) {
        const struct script_part *p = &s->part[k];
        uint32_t from = n->n;
        if ((p->samples - 1) / p->part >= n->capacity - n->n) {
            d->hopeless = "a step has more parts than a node can be given";
            return;
        }
        deal_note(n, p->first, p->samples, p->part);
        for (uint32_t i = from; i < n->n; i++) {
            n->part[i].owner = w;
            n->part[i].late = p->late;
        }
        if (p->late)
            d->to_keep += p->samples;
        n->to_send++;
    }
    n->to_grant += s->given + s->carried;
}

void deal_script_open(struct coordinator *c)
{
    struct deal *d = c->deal;

    tokens_open(&d->tokens, d->part, record_replay_step(c->replay)->samples,
                d->alive);
    d->to_keep = 0;
    d->news = true;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        struct deal_node *n = &d->node[i];
        n->to_send = 0;
        n->to_grant = 0;
        for (uint32_t l = 0; l < c->peer[i].n_local; l++)
            note_worker(c, n, c->peer[i].worker[l]);
        tokens_grant(&d->tokens, i, n->to_grant);
    }
    deal_script_tick(c);
}

/* The last to_send rows of a node, as many as a message holds. */
static uint32_t fill_rows(struct coordinator *c, uint32_t node)
{
    const struct peer *p = &c->peer[node];
    const struct deal_node *n = &c->deal->node[node];
    size_t skip = 0, count = 0;

    for (uint32_t l = 0; l < p->n_local; l++)
        skip += record_replay_worker(c->replay, p->worker[l])->n_parts;
    skip -= n->to_send;
    for (uint32_t l = 0; l < p->n_local; l++) {
        const struct script_worker *s =
            record_replay_worker(c->replay, p->worker[l]);
        size_t k = skip < s->n_parts ? skip : s->n_parts;
        skip -= k;
        for (; k < s->n_parts && count < MSG_SCRIPTS; k++)
            c->deal->script[count++] =
                (struct msg_script){.first = s->part[k].first,
                                    .samples = (uint32_t)s->part[k].samples,
                                    .part = s->part[k].part,
                                    .worker = l,
                                    .late = s->part[k].late};
    }
    return (uint32_t)count;
}

static bool send_rows(struct coordinator *c, uint32_t node)
{
    struct deal_node *n = &c->deal->node[node];
    uint32_t count = fill_rows(c, node);
    size_t bytes = count * sizeof *c->deal->script;
    struct msg m = {.kind = MSG_SCRIPT,
                    .flags = n->n_held ? MSG_CARRIES : 0,
                    .count = count,
                    .step = c->step};

    m.u.pool.tokens = n->to_grant;
    if (!node)
        node_message(c->node, &m, c->deal->script, bytes);
    else if (!c->transport->ops->control(c->transport, node, &m,
                                         c->deal->script, bytes))
        return false;
    n->to_send -= count;
    n->to_grant = 0;
    return true;
}

bool deal_script_tick(struct coordinator *c)
{
    struct deal *d = c->deal;
    bool did = false;

    for (uint32_t i = 0; i < c->n_nodes && !d->hopeless; i++) {
        const struct deal_node *n = &d->node[i];
        while ((n->to_send || n->to_grant) && send_rows(c, i))
            did = true;
    }
    return did;
}

void deal_script_event(struct coordinator *c, uint32_t w,
                       const struct msg_event *e)
{
    struct deal *d = c->deal;
    struct deal_part *p =
        deal_part_of(&d->node[c->worker[w].node], (uint32_t)(e->value >> 32));

    if (!p || !p->late || p->kept || p->count != (uint32_t)e->value)
        return;
    p->kept = true;
    d->to_keep -= p->count;
}

/* Nobody who could give any more has not given all. */
static bool rest_left(const struct coordinator *c)
{
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        const struct deal_node *n = &c->deal->node[i];
        for (uint32_t k = 0; k < n->n; k++) {
            if (n->part[k].worker == NOBODY && !n->part[k].kept &&
                !c->worker[n->part[k].owner].left)
                return false;
        }
        for (uint32_t k = 0; k < n->n_held; k++) {
            if (n->held[k].count && n->held[k].worker == NOBODY &&
                !c->worker[n->held[k].owner].left)
                return false;
        }
    }
    return true;
}

bool deal_script_done(const struct coordinator *c)
{
    const struct deal *d = c->deal;

    if (d->tokens.accepted == d->tokens.batch && !d->to_keep)
        return true;
    for (uint32_t w = 0; w < c->n_workers; w++) {
        if (c->worker[w].left)
            return rest_left(c);
    }
    return false;
}

const char *deal_hopeless(const struct coordinator *c)
{
    if (!c->deal || !c->replay)
        return NULL;
    for (uint32_t w = 0; w < c->n_workers; w++) {
        if (c->worker[w].died)
            return "a worker has died, and what it gave can't be given again: "
                   "begin the replay anew";
    }
    return c->deal->hopeless;
}
