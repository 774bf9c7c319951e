#include <math.h>

#include "coordinator_parts_priv.h"
#include "coordinator_shares.h"

/* Tokens are handed out for so long ahead, about two round trips. */
#define AHEAD_S .002

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
            given = tokens || fixed ? deal_grant(c, i, tokens, fixed) : 0;
            tokens -= given;
            fixed = 0;
        } while (given && tokens);
    }
}

static void forget_step(struct coordinator *c)
{
    struct deal *d = c->deal;

    for (uint32_t w = 0; w < c->n_workers; w++) {
        d->waits[w] = 0;
        d->first[w] = d->lost[w] = 0;
        d->busy_s[w] = 0;
        d->since_s[w] = d->done_s[w] = NAN;
    }
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        struct deal_node *n = &d->node[i];
        n->n = n->asked = n->fixed = 0;
        n->samples = n->withdrawn = 0;
        n->freezes = n->withdraws = false;
    }
}

void deal_open(struct coordinator *c)
{
    struct deal *d = c->deal;

    count_alive(c);
    forget_step(c);
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

double deal_spent_s(const struct deal *d, uint32_t w, double until_s)
{
    return (isnan(d->done_s[w]) ? until_s : d->done_s[w]) - d->since_s[w];
}

struct deal_part *deal_part_of(struct deal_node *n, uint32_t entry)
{
    uint32_t index = entry & ~MSG_CARRIED_PART;

    if (entry == index)
        return index < n->n ? &n->part[index] : NULL;
    return index < n->n_held ? &n->held[index] : NULL;
}

/* How long the worker was with a part that is in.  One that is carried it had
 * computed before. */
static double count_time(struct coordinator *c, uint32_t w,
                         const struct msg_event *e, bool carried)
{
    struct deal *d = c->deal;
    double took_s = carried ? NAN : deal_spent_s(d, w, c->now_s);

    d->busy_s[w] += isnan(took_s) ? (double)e->duration_s : took_s;
    if (e->duration_s > 0)
        d->slow_s = fmax(d->slow_s, (double)e->duration_s);
    d->since_s[w] = c->now_s;
    d->done_s[w] = NAN;
    return took_s;
}

static void take_part(struct coordinator *c, uint32_t w,
                      const struct msg_event *e)
{
    struct deal *d = c->deal;
    struct worker *worker = &c->worker[w];
    struct deal_node *n = &d->node[worker->node];
    uint32_t entry = (uint32_t)(e->value >> 32);
    uint64_t samples = e->value & UINT32_MAX;
    bool carried = (entry & MSG_CARRIED_PART) != 0;
    struct deal_part *p = deal_part_of(n, entry);

    if (!p || p->worker != NOBODY || p->count != samples)
        return;
    if (entry < n->fixed && d->first[w])
        first_in(c, w);
    p->worker = w;
    tokens_accept(&d->tokens, worker->node, samples, c->now_s - c->step_s);
    worker->samples += samples;
    worker->buf = e->buf;
    double took_s = count_time(c, w, e, carried);
    if (carried)
        sizes_carried(c, w, samples);
    else
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
    } else if (e->kind == SEG_EVENT_KEPT) {
        if (c->replay)
            deal_script_event(c, w, e);
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
        deal_take_back(c, &n->part[i]);
    d->n_parts -= n->n_held;
    deal_release_node(c, n);
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
            did = (want && deal_grant(c, i, want, 0)) || did;
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
                deal_grant(c, i, 0, 0);
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
    if (c->replay)
        return deal_script_tick(c);
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
    if (d->opens)
        return c->now_s;
    return fmax(d->look_s, d->came_s + coordinator_hard_timeout_s(c));
}
