/* Samples and tokens for a node: drawn, sent, and noted as the node numbers
 * them. */
#include "coordinator_parts_priv.h"

static bool send_pool(struct coordinator *c, uint32_t node, bool fixed,
                      uint32_t n_ranges, uint64_t tokens)
{
    struct deal *d = c->deal;
    struct msg m = {.kind = n_ranges ? MSG_POOL : MSG_TOKENS,
                    .flags = (d->node[node].n_held ? MSG_CARRIES : 0) |
                             (fixed ? MSG_FIXED : 0),
                    .count = n_ranges,
                    .step = c->step};
    size_t bytes = n_ranges * sizeof *d->range;

    m.u.pool.part = d->part;
    m.u.pool.tokens = tokens;
    if (node)
        return c->transport->ops->control(c->transport, node, &m, d->range,
                                          bytes);
    node_message(c->node, &m, d->range, bytes);
    return true;
}

void deal_note(struct deal_node *n, uint64_t first, uint64_t samples,
               uint64_t part)
{
    for (uint64_t at = 0; at < samples; at += part) {
        uint64_t left = samples - at;
        n->part[n->n++] =
            (struct deal_part){.first = first + at,
                               .count = (uint32_t)(left < part ? left : part),
                               .worker = NOBODY};
    }
    n->samples += samples;
}

static void note_parts(struct deal *d, struct deal_node *n,
                       const struct msg_range *range)
{
    uint32_t before = n->n;

    deal_note(n, range->first, range->count, d->part);
    d->n_parts += n->n - before;
}

/* What is drawn for a node that is granted tokens: for each of its workers it
 * is to have a part more than it has tokens, if there are so many. */
static uint64_t to_draw(const struct deal *d, uint32_t node, uint64_t tokens)
{
    const struct tokens_node *t = &d->tokens.node[node];
    int64_t has = (int64_t)(d->node[node].samples - t->given);
    int64_t extra = d->ending || d->lean ? 0 : (int64_t)(t->workers * d->part);
    int64_t want = (int64_t)tokens + extra - has;
    int64_t most = (int64_t)tokens + (d->ending ? 0 : d->spare);

    want = want < most ? want : most;
    return want > 0 ? (uint64_t)want : 0;
}

/* Draw ranges for a node.  Returns how many. */
static uint32_t draw(struct coordinator *c, uint32_t node, uint64_t samples,
                     struct msg_range *range)
{
    struct deal *d = c->deal;
    size_t n_free = d->node[node].capacity - d->node[node].n;
    size_t room = sampler_room(c->sampler);

    room = room > d->n_parts ? room - d->n_parts : 0;
    n_free = n_free < room ? n_free : room;
    if (d->ending) /* parts may be smaller: as many for the rests of ranges */
        n_free /= 2;
    uint64_t most = samples < n_free * d->part ? samples : n_free * d->part;
    size_t count =
        sampler_draw(c->sampler, most, d->ending ? 1 : d->part, d->drawn,
                     n_free < MSG_RANGES ? n_free : MSG_RANGES);
    for (size_t i = 0; i < count; i++)
        range[i] = (struct msg_range){.first = d->drawn[i].first,
                                      .count = d->drawn[i].count};
    return (uint32_t)count;
}

uint64_t deal_grant(struct coordinator *c, uint32_t node, uint64_t tokens,
                    uint32_t fixed)
{
    struct deal *d = c->deal;
    struct deal_node *n = &d->node[node];
    struct msg_range *range = d->range + fixed;
    uint64_t has = n->samples - d->tokens.node[node].given, drawn = 0;
    uint64_t samples = to_draw(d, node, tokens);
    uint32_t count = samples ? draw(c, node, samples, range) : 0;

    for (uint32_t i = 0; i < count; i++)
        drawn += range[i].count;
    if (tokens > has + drawn)
        tokens = has + drawn;
    if (!tokens && !count && !fixed)
        return 0;
    if (!send_pool(c, node, fixed > 0, fixed + count, tokens)) {
        while (count-- > 0)
            sampler_take_back(c->sampler, range[count].first,
                              range[count].count);
        if (fixed)
            first_unsent(c, node);
        return 0;
    }
    if (fixed)
        first_note(c, node);
    for (uint32_t i = 0; i < count; i++)
        note_parts(d, n, &range[i]);
    d->spare += (int64_t)tokens - (int64_t)drawn;
    tokens_grant(&d->tokens, node, tokens);
    return tokens;
}
