#include <math.h>

#include "coordinator_parts_priv.h"
#include "coordinator_shares.h"

/* Tokens are handed out for so long ahead, about two round trips. */
#define AHEAD_S .002

static bool send_pool(struct coordinator *c, uint32_t node, bool fixed,
                      uint32_t n_ranges, uint64_t tokens)
{
    struct deal *d = c->deal;
    struct msg m = {.kind = n_ranges ? MSG_POOL : MSG_TOKENS,
                    .flags = fixed ? MSG_FIXED : 0,
                    .count = n_ranges,
                    .step = c->step};

    m.u.pool.part = d->part;
    m.u.pool.tokens = tokens;
    if (node)
        return c->transport->ops->control(c->transport, node, &m, d->range,
                                          n_ranges * sizeof *d->range);
    if (n_ranges)
        node_pool(c->node, c->step, d->part, fixed, d->range, n_ranges, tokens);
    else
        node_tokens(c->node, c->step, tokens);
    return true;
}

/* Number a range's parts as the node does. */
static void note_parts(struct deal *d, struct deal_node *n,
                       const struct msg_range *range)
{
    uint32_t before = n->n;

    for (uint64_t at = 0; at < range->count; at += d->part) {
        uint64_t left = range->count - at;
        n->part[n->n++] = (struct deal_part){
            .first = range->first + at,
            .count = (uint32_t)(left < d->part ? left : d->part),
            .worker = NOBODY};
    }
    d->n_parts += n->n - before;
    n->samples += range->count;
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

/* Give a node tokens, and the samples for them, after so many first parts that
 * are in d->range.  Returns how many tokens. */
static uint64_t grant(struct coordinator *c, uint32_t node, uint64_t tokens,
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

static void hand_out(struct coordinator *c)
{
    struct deal *d = c->deal;

    d->opens = false;
    first_draw(c);
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        uint32_t fixed = first_ranges(c, i);
        uint64_t tokens = tokens_first(&d->tokens, i), given = 0;
        do {
            given = tokens || fixed ? grant(c, i, tokens, fixed) : 0;
            tokens -= given;
            fixed = 0;
        } while (given && tokens);
    }
}

void deal_open(struct coordinator *c)
{
    struct deal *d = c->deal;

    count_alive(c);
    for (uint32_t w = 0; w < c->n_workers; w++) {
        d->waits[w] = 0;
        d->first[w] = 0;
        d->busy_s[w] = 0;
        d->since_s[w] = d->done_s[w] = NAN;
    }
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        struct deal_node *n = &d->node[i];
        n->n = n->asked = n->fixed = 0;
        n->samples = n->withdrawn = 0;
        n->freezes = n->withdraws = false;
    }
    tokens_open(&d->tokens, d->part, plan(c), d->alive);
    d->n_parts = 0;
    d->freezing = d->gone = false;
    d->came_s = c->now_s;
    d->news = true;
    d->opens = true;
    d->lean = false;
    sizes_open(c);
    if (!c->sizes)
        hand_out(c);
}

/* Predicting takes a while with many workers: first they get the mean. */
static bool may_hand_out(const struct coordinator *c)
{
    const uint32_t few = 64;

    return c->deal->opens && (!c->own_waits || c->n_workers <= few);
}

/* How long a worker has been with what it claimed last, waits for tokens left
 * out. */
static double spent_s(const struct deal *d, uint32_t w, double until_s)
{
    return (isnan(d->done_s[w]) ? until_s : d->done_s[w]) - d->since_s[w];
}

static void take_part(struct coordinator *c, uint32_t w,
                      const struct msg_event *e)
{
    struct deal *d = c->deal;
    struct worker *worker = &c->worker[w];
    struct deal_node *n = &d->node[worker->node];
    uint64_t entry = e->value >> 32, samples = e->value & UINT32_MAX;

    if (entry >= n->n || n->part[entry].worker != NOBODY ||
        n->part[entry].count != samples)
        return;
    if (entry < n->fixed && d->first[w])
        first_in(c, w);
    n->part[entry].worker = w;
    tokens_accept(&d->tokens, worker->node, samples, c->now_s - c->step_s);
    worker->samples += samples;
    worker->buf = e->buf;
    if (e->duration_s > 0)
        d->slow_s = fmax(d->slow_s, (double)e->duration_s);
    double took_s = spent_s(d, w, c->now_s);
    d->busy_s[w] += isnan(took_s) ? (double)e->duration_s : took_s;
    d->since_s[w] = c->now_s;
    d->done_s[w] = NAN;
    sizes_part(c, w, took_s);
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
        d->done_s[w] = c->now_s;
    } else {
        d->since_s[w] = c->now_s;
        sizes_begin(c, w);
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
    d->gone = d->gone || d->first[w];
    sizes_leave(c, w);
    d->news = true;
}

static void come_back(struct coordinator *c, uint32_t node, uint64_t tokens)
{
    struct deal *d = c->deal;

    tokens_return(&d->tokens, node, tokens);
    d->spare -= (int64_t)tokens;
    d->news = true;
}

void coordinator_returned(struct coordinator *c, uint32_t node,
                          const struct msg *m, double now_s)
{
    struct deal *d = c->deal;
    uint64_t tokens = m->u.pool.tokens;
    bool first = m->flags & MSG_FIXED;

    c->now_s = now_s;
    if (!d || c->phase != PHASE_OPEN || m->step != c->step ||
        d->tokens.node[node].out || !d->node[node].asked ||
        (!first && tokens > tokens_left(&d->tokens, node)))
        return;
    d->node[node].asked--;
    d->came_s = now_s;
    if (first)
        first_returned(c, node, m);
    else
        come_back(c, node, tokens);
}

/* Ask a node for tokens; this one answers at once. */
static void revoke(struct coordinator *c, uint32_t node, uint64_t most)
{
    struct deal_node *n = &c->deal->node[node];
    struct msg m = {.kind = MSG_REVOKE, .step = c->step};

    m.u.pool.tokens = most;
    if (most == UINT64_MAX)
        first_freeze(c, node);
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

/* A first part may be of nothing. */
static void take_back(struct coordinator *c, const struct deal_part *part)
{
    if (part->count)
        sampler_take_back(c->sampler, part->first, part->count);
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
        d->first[p->worker[l]] = 0;
    }
    for (uint32_t i = n->n; i-- > 0;)
        take_back(c, &n->part[i]);
    d->spare += (int64_t)(n->samples + n->withdrawn) -
                (int64_t)d->tokens.node[node].given;
    d->n_parts -= n->n;
    n->n = n->asked = n->fixed = 0;
    n->samples = n->withdrawn = 0;
    n->withdraws = false;
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
        loss_node(c, i);
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

    if (!d->freezing &&
        (c->now_s - d->came_s <= patience_s(c) || !anybody(c)) &&
        !sizes_stop(c, d->tokens.accepted, d->tokens.batch))
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
            did = (want && grant(c, i, want, 0)) || did;
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

/* Of a step whose parts are sized all tokens are out.  As long as the batch is
 * not overdue nobody begins what is not needed. */
static bool stay_lean(struct coordinator *c)
{
    struct deal *d = c->deal;
    uint64_t most = 0;

    if (!d->lean || d->tokens.reserve)
        return false;
    if (sizes_overdue(c)) {
        d->lean = false;
        for (uint32_t i = 0; i < c->n_nodes; i++) {
            if (d->tokens.node[i].workers && !d->tokens.node[i].out)
                grant(c, i, 0, 0);
        }
        return true;
    }
    uint32_t i = tokens_level(&d->tokens, &most);
    if (i < c->n_nodes)
        revoke(c, i, most);
    return i < c->n_nodes;
}

bool deal_tick(struct coordinator *c)
{
    const double look_s = .005;
    struct deal *d = c->deal;

    if (may_hand_out(c))
        hand_out(c);
    if (d->opens || (!d->news && c->now_s < d->look_s))
        return false;
    d->news = false;
    d->look_s = c->now_s + look_s;
    bool did = find_lost(c);
    if (deal_done(c) || freeze(c))
        return did;
    did = grant_all(c) || did;
    did = stay_lean(c) || revoke_some(c) || did;
    return first_tick(c) || did;
}

bool deal_done(const struct coordinator *c)
{
    const struct deal *d = c->deal;

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

/* Record a node's parts, one row for parts of a worker that follow each other,
 * and give back what nobody gave. */
static void settle_node(struct coordinator *c, const struct deal_node *n)
{
    struct sample_range run = {0};

    for (uint32_t i = n->n; i-- > 0;) {
        const struct deal_part *p = &n->part[i];
        if (p->worker == NOBODY) {
            take_back(c, p);
            continue;
        }
        sampler_done(c->sampler, p->count);
        run.first = p->first;
        run.count += p->count;
        if (i && n->part[i - 1].worker == p->worker &&
            n->part[i - 1].first + n->part[i - 1].count == p->first)
            continue;
        log_contribution(c, p->worker, c->step, &run, run.count);
        run.count = 0;
    }
}

/* A batch at a worker's rate in this step, as seen from here: what it had in
 * hand at the close counts, as half a part, for what takes long is what is in
 * hand.  NaN: it gave nothing. */
static double batch_s(const struct coordinator *c, uint32_t w)
{
    const struct deal *d = c->deal;
    const struct worker *worker = &c->worker[w];
    double samples = (double)worker->samples, s = d->busy_s[w];
    double in_hand_s = spent_s(d, w, c->close_s);

    if (!worker->arrived || !(s > 0))
        return NAN;
    if (in_hand_s > 0) {
        s += in_hand_s;
        samples += d->waits[w] ? (double)d->waits[w] : .5 * (double)d->part;
    }
    return s / samples * (double)c->opt.batch;
}

void deal_settle(struct coordinator *c)
{
    const double fade = .9;
    struct deal *d = c->deal;

    for (uint32_t i = c->n_nodes; i-- > 0;)
        settle_node(c, &d->node[i]);
    for (uint32_t w = 0; w < c->n_workers; w++) {
        struct worker *worker = &c->worker[w];
        double took_s = batch_s(c, w);
        if (isnan(took_s))
            continue;
        worker->duration_s = (float)took_s;
        cutoff_observe(c->cutoff, w, took_s);
    }
    d->slow_s *= fade;
    sizes_settle(c, d->tokens.accepted, d->first);
    tokens_close(&d->tokens);
}

double deal_next_s(const struct coordinator *c)
{
    const struct deal *d = c->deal;

    if (c->phase != PHASE_OPEN)
        return INFINITY;
    if (d->opens)
        return c->now_s;
    return fmax(d->look_s, d->came_s + coordinator_hard_timeout_s(c));
}
