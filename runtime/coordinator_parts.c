#include <math.h>

#include "coordinator_parts_priv.h"

/* Tokens are handed out for so long ahead, about two round trips. */
#define AHEAD_S .002

static bool send_pool(struct coordinator *c, uint32_t node, uint32_t n_ranges,
                      uint64_t tokens)
{
    struct deal *d = c->deal;
    struct msg m = {.kind = n_ranges ? MSG_POOL : MSG_TOKENS,
                    .flags = d->node[node].n_held ? MSG_CARRIES : 0,
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
    int64_t extra = d->ending ? 0 : (int64_t)(t->workers * d->part);
    int64_t want = (int64_t)tokens + extra - has;
    int64_t most = (int64_t)tokens + (d->ending ? 0 : d->spare);

    want = want < most ? want : most;
    return want > 0 ? (uint64_t)want : 0;
}

/* Draw ranges for a node, d->range.  Returns how many. */
static uint32_t draw(struct coordinator *c, uint32_t node, uint64_t samples)
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
        d->range[i] = (struct msg_range){.first = d->drawn[i].first,
                                         .count = d->drawn[i].count};
    return (uint32_t)count;
}

/* Give a node tokens, and the samples for them.  Returns how many tokens. */
static uint64_t grant(struct coordinator *c, uint32_t node, uint64_t tokens)
{
    struct deal *d = c->deal;
    struct deal_node *n = &d->node[node];
    uint64_t has = n->samples - d->tokens.node[node].given, drawn = 0;
    uint64_t samples = to_draw(d, node, tokens);
    uint32_t count = samples ? draw(c, node, samples) : 0;

    for (uint32_t i = 0; i < count; i++)
        drawn += d->range[i].count;
    if (tokens > has + drawn)
        tokens = has + drawn;
    if (!tokens && !count)
        return 0;
    if (!send_pool(c, node, count, tokens)) {
        while (count-- > 0)
            sampler_take_back(c->sampler, d->range[count].first,
                              d->range[count].count);
        return 0;
    }
    for (uint32_t i = 0; i < count; i++)
        note_parts(d, n, &d->range[i]);
    d->spare += (int64_t)tokens - (int64_t)drawn;
    tokens_grant(&d->tokens, node, tokens);
    return tokens;
}

static void count_alive(struct coordinator *c)
{
    struct deal *d = c->deal;

    d->n_alive = 0;
    for (uint32_t i = 0; i < c->n_nodes; i++)
        d->alive[i] = 0;
    for (uint32_t w = 0; w < c->n_workers; w++) {
        d->counts[w] = loss_alive(&c->worker[w]);
        if (!d->counts[w])
            continue;
        d->alive[c->worker[w].node]++;
        d->n_alive++;
    }
}

/* How large the step is. */
static uint64_t plan(struct coordinator *c)
{
    struct deal *d = c->deal;
    uint64_t batch = d->n_alive * c->opt.batch;
    uint64_t whole = sampler_whole(c->sampler, d->part);
    uint64_t left = sampler_left(c->sampler);

    d->ending = whole < batch + d->n_alive * d->part;
    d->spare = (int64_t)whole - (int64_t)batch;
    return d->ending && left < batch ? left : batch;
}

void deal_open(struct coordinator *c)
{
    struct deal *d = c->deal;

    count_alive(c);
    for (uint32_t w = 0; w < c->n_workers; w++) {
        d->waits[w] = 0;
        d->busy_s[w] = 0;
    }
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        struct deal_node *n = &d->node[i];
        n->n = n->asked = 0;
        n->samples = 0;
        n->freezes = false;
    }
    if (c->replay) {
        deal_script_open(c);
        return;
    }
    uint64_t batch = plan(c);
    if (d->ending && deal_release(c)) /* there may be more then */
        batch = plan(c);
    tokens_open(&d->tokens, d->part, batch, d->alive);
    d->n_parts = 0;
    for (uint32_t i = 0; i < c->n_nodes; i++)
        d->n_parts += d->node[i].n_held;
    d->freezing = false;
    d->came_s = c->now_s;
    d->news = true;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        uint64_t tokens = tokens_first(&d->tokens, i), given;
        while (tokens && (given = grant(c, i, tokens)) > 0)
            tokens -= given;
    }
}

struct deal_part *deal_part_of(struct deal_node *n, uint32_t entry)
{
    uint32_t index = entry & ~MSG_CARRIED_PART;

    if (entry == index)
        return index < n->n ? &n->part[index] : NULL;
    return index < n->n_held ? &n->held[index] : NULL;
}

static void take_part(struct coordinator *c, uint32_t w,
                      const struct msg_event *e)
{
    struct deal *d = c->deal;
    struct worker *worker = &c->worker[w];
    uint64_t samples = e->value & UINT32_MAX;
    struct deal_part *p =
        deal_part_of(&d->node[worker->node], (uint32_t)(e->value >> 32));

    if (!p || p->worker != NOBODY || p->count != samples)
        return;
    p->worker = w;
    tokens_accept(&d->tokens, worker->node, samples, c->now_s - c->step_s);
    worker->samples += samples;
    worker->buf = e->buf;
    if (e->duration_s > 0) {
        d->busy_s[w] += (double)e->duration_s;
        d->slow_s = fmax(d->slow_s, (double)e->duration_s);
    }
    c->n_arrived += !worker->arrived;
    worker->arrived = true;
}

static void set_waits(struct deal *d, uint32_t node, uint32_t w,
                      uint64_t samples)
{
    d->tokens.node[node].waits += samples - d->waits[w];
    d->waits[w] = samples;
}

void deal_event(struct coordinator *c, uint32_t w, const struct msg_event *e)
{
    struct deal *d = c->deal;
    uint32_t node = c->worker[w].node;

    if (c->phase != PHASE_OPEN || e->step != c->step ||
        d->tokens.node[node].out)
        return;
    d->came_s = c->now_s;
    d->news = true;
    if (e->kind == SEG_EVENT_PART) {
        set_waits(d, node, w, 0);
        take_part(c, w, e);
    } else if (e->kind == SEG_EVENT_WAITS) {
        set_waits(d, node, w, e->value);
    } else if (e->kind == SEG_EVENT_KEPT && c->replay) {
        deal_script_event(c, w, e);
    }
}

void deal_forget(struct coordinator *c, uint32_t w)
{
    struct deal *d = c->deal;

    if (!d->counts[w])
        return;
    d->counts[w] = false;
    tokens_leave(&d->tokens, c->worker[w].node, d->waits[w]);
    d->waits[w] = 0;
    d->news = true;
}

static void come_back(struct coordinator *c, uint32_t node, uint64_t tokens)
{
    struct deal *d = c->deal;

    tokens_return(&d->tokens, node, tokens);
    d->spare -= (int64_t)tokens;
    d->news = true;
}

void coordinator_returned(struct coordinator *c, uint32_t node, uint64_t step,
                          uint64_t tokens, double now_s)
{
    struct deal *d = c->deal;

    c->now_s = now_s;
    if (!d || c->phase != PHASE_OPEN || step != c->step ||
        d->tokens.node[node].out || !d->node[node].asked ||
        tokens > tokens_left(&d->tokens, node))
        return;
    d->node[node].asked--;
    d->came_s = now_s;
    come_back(c, node, tokens);
}

/* Ask a node for tokens; this one answers at once. */
static void revoke(struct coordinator *c, uint32_t node, uint64_t most)
{
    struct deal_node *n = &c->deal->node[node];
    struct msg m = {.kind = MSG_REVOKE, .step = c->step};

    m.u.pool.tokens = most;
    if (node == 0) {
        come_back(c, 0, node_revoke(c->node, c->step, most));
    } else if (c->transport->ops->control(c->transport, node, &m, NULL, 0)) {
        n->asked++;
        n->asked_s = c->now_s;
    } else {
        come_back(c, node, 0);
        return;
    }
    n->freezes = n->freezes || most == UINT64_MAX;
}

void deal_lose(struct coordinator *c, uint32_t node)
{
    struct deal *d = c->deal;
    struct deal_node *n = &d->node[node];
    const struct peer *p = &c->peer[node];

    if (d->tokens.node[node].out)
        return;
    for (uint32_t l = 0; l < p->n_local; l++) {
        struct worker *worker = &c->worker[p->worker[l]];
        c->n_arrived -= worker->arrived;
        worker->arrived = false;
        worker->samples = 0;
        d->waits[p->worker[l]] = 0;
    }
    for (uint32_t i = n->n; i-- > 0;)
        sampler_take_back(c->sampler, n->part[i].first, n->part[i].count);
    d->n_parts -= n->n_held;
    deal_release_node(c, n);
    d->spare += (int64_t)n->samples - (int64_t)d->tokens.node[node].given;
    d->n_parts -= n->n;
    n->n = n->asked = 0;
    n->samples = 0;
    tokens_lose(&d->tokens, node);
    d->news = true;
}

/* A node that is asked for tokens and does not answer is lost. */
static bool find_lost(struct coordinator *c)
{
    double hard_s = coordinator_hard_timeout_s(c);
    bool found = false;

    for (uint32_t i = 1; i < c->n_nodes; i++) {
        const struct deal_node *n = &c->deal->node[i];
        if (!n->asked || c->now_s - n->asked_s <= hard_s)
            continue;
        deal_lose(c, i);
        loss_node(c, i,
                  "was asked for tokens and did not answer for one "
                  "hard timeout");
        found = true;
    }
    return found;
}

/* Without somebody who was there when the step opened, no part for as long as
 * several take means that none will come. */
static double patience_s(const struct coordinator *c)
{
    const double least_s = .2, parts = 4;
    const struct deal *d = c->deal;
    double hard_s = coordinator_hard_timeout_s(c);
    uint32_t n_alive = 0;

    if (c->now_s - d->came_s <= fmin(least_s, hard_s))
        return hard_s;
    for (uint32_t w = 0; w < c->n_workers; w++)
        n_alive += loss_alive(&c->worker[w]);
    if (n_alive >= d->n_alive)
        return hard_s;
    return fmin(hard_s, fmax(least_s, parts * d->slow_s));
}

static bool anybody(const struct coordinator *c)
{
    for (uint32_t w = 0; w < c->n_workers; w++) {
        if (loss_alive(&c->worker[w]))
            return true;
    }
    return c->n_arrived > 0;
}

static bool freeze(struct coordinator *c)
{
    struct deal *d = c->deal;

    if (!d->freezing && (c->now_s - d->came_s <= patience_s(c) || !anybody(c)))
        return false;
    d->freezing = true;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        if (d->node[i].n && !d->node[i].freezes)
            revoke(c, i, UINT64_MAX);
    }
    return true;
}

/* Who waits is served first. */
static bool grant_all(struct coordinator *c)
{
    struct deal *d = c->deal;
    double elapsed_s = c->now_s - c->step_s;
    bool did = false;

    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < c->n_nodes && d->tokens.reserve; i++) {
            if ((d->tokens.node[i].waits > 0) != (pass == 0))
                continue;
            uint64_t want = tokens_want(&d->tokens, i, elapsed_s, AHEAD_S);
            did = (want && grant(c, i, want)) || did;
        }
    }
    return did;
}

/* At the end of an epoch there are no samples to use the tokens for
 * elsewhere. */
static bool revoke_some(struct coordinator *c)
{
    struct deal *d = c->deal;
    uint64_t most = 0;
    bool did = false;

    for (uint32_t k = 0; k < c->n_nodes && !d->ending; k++) {
        uint32_t i = tokens_revoke(&d->tokens, c->now_s - c->step_s, &most);
        if (i == c->n_nodes)
            break;
        revoke(c, i, most);
        did = true;
    }
    return did;
}

bool deal_tick(struct coordinator *c)
{
    const double look_s = .005;
    struct deal *d = c->deal;

    if (!d->news && c->now_s < d->look_s)
        return false;
    d->news = false;
    d->look_s = c->now_s + look_s;
    if (c->replay)
        return deal_script_tick(c);
    bool did = find_lost(c);
    if (deal_done(c) || freeze(c))
        return did;
    did = grant_all(c) || did;
    return revoke_some(c) || did;
}

bool deal_done(const struct coordinator *c)
{
    const struct deal *d = c->deal;

    if (c->replay)
        return deal_script_done(c);
    if (d->tokens.accepted == d->tokens.batch)
        return true;
    if (!d->freezing || !anybody(c))
        return false;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        const struct deal_node *n = &d->node[i];
        if (n->n && (n->asked || !n->freezes || tokens_left(&d->tokens, i)))
            return false;
    }
    return true;
}

double deal_next_s(const struct coordinator *c)
{
    const struct deal *d = c->deal;

    if (c->phase != PHASE_OPEN)
        return INFINITY;
    return fmax(d->look_s, d->came_s + coordinator_hard_timeout_s(c));
}
