#include <string.h>

#include "coordinator_priv.h"
#include "coordinator_replay.h"

void peers_shares(struct coordinator *c, const struct peer *p)
{
    for (uint32_t i = 0; i < p->n_local; i++) {
        const struct worker *w = &c->worker[p->worker[i]];
        c->share[i] = (struct msg_share){.epoch = sampler_epoch(c->sampler),
                                         .first = w->range.first,
                                         .count = w->range.count};
        if (c->replay)
            c->share[i].limit = replay_limit(c, p->worker[i]);
    }
}

static bool control(struct coordinator *c, uint32_t node, const struct msg *m,
                    const void *body, size_t bytes)
{
    return c->transport->ops->control(c->transport, node, m, body, bytes);
}

static void start_node(struct coordinator *c, uint32_t node)
{
    struct peer *p = &c->peer[node];
    struct msg m = {.kind = MSG_START, .count = p->n_local, .step = c->step};

    peers_shares(c, p);
    m.flags = early_flag(c, node);
    if (node == 0)
        node_start(c->node, c->step, c->share);
    else if (!control(c, node, &m, c->share, p->n_local * sizeof *c->share))
        p->unstarted = c->step;
}

/* A node that could not be told that a step begins is told later: those of its
 * workers that live are waited for. */
static bool start_late(struct coordinator *c, uint32_t node)
{
    struct peer *p = &c->peer[node];

    if (!p->unstarted)
        return false;
    bool due = p->unstarted == c->step && c->phase == PHASE_OPEN;
    p->unstarted = 0;
    if (due)
        start_node(c, node);
    return due && !p->unstarted;
}

void peers_start(struct coordinator *c)
{
    for (uint32_t i = 0; i < c->n_nodes; i++)
        start_node(c, i);
}

void peers_latest(struct coordinator *c, uint32_t node, const float *latest_s)
{
    struct msg m = {
        .kind = MSG_LATEST, .count = c->peer[node].n_local, .step = c->step};

    if (node == 0)
        node_latest(c->node, c->step, latest_s);
    else
        control(c, node, &m, latest_s, m.count * sizeof *latest_s);
}

/* So small a gradient is published as soon as it could be taken in pieces, and
 * with one message instead of two. */
static bool is_small(const struct coordinator *c)
{
    size_t bytes = node_grad_elems(c->node) * sizeof(float);

    return exchange_whole(c->exchange) && bytes < c->opt.spread_bytes;
}

/* Nodes that are awake and have all means so far take this one in pieces; the
 * others get it whole, later, and so do all when nobody gives. */
static uint8_t role(const struct coordinator *c, uint32_t node)
{
    const struct peer *p = &c->peer[node];
    bool awake = p->has == c->published && !coordinator_silent(c, node);
    bool takes = node == 0 || (!is_small(c) && (p->contributes || awake));

    return (uint8_t)((p->contributes ? EXCHANGE_GIVES : 0) |
                     (takes ? EXCHANGE_TAKES : 0));
}

/* A mean of which a node has only some pieces yet: no more come once the next
 * step's are exchanged. */
static void forget_pieces(struct peer *p)
{
    if (!p->role && p->sent == p->pieces && p->has < p->sent)
        p->sent = p->has;
}

/* Roles of all nodes; returns how many take part. */
static uint32_t give_roles(struct coordinator *c)
{
    bool any = coordinator_gives(c);
    uint32_t count = 0;

    for (uint32_t i = 0; i < c->n_nodes; i++) {
        struct peer *p = &c->peer[i];
        p->role = any ? role(c, i) : 0;
        count += p->role != 0;
        forget_pieces(p);
    }
    return count;
}

/* The same body for every node but for the mask in front. */
static void send_close(struct coordinator *c, uint32_t node, float factor)
{
    const struct peer *p = &c->peer[node];
    uint8_t *roles = c->close_body + p->n_local;
    struct msg m = {.kind = MSG_CLOSE,
                    .flags = c->spread ? MSG_SPREAD : 0,
                    .count = p->n_local,
                    .attempt = c->attempt,
                    .step = c->step};

    m.u.close.factor = factor;
    memcpy(c->close_body, p->mask, p->n_local);
    for (uint32_t i = 0; i < c->n_nodes; i++)
        roles[i] = c->peer[i].role;
    struct exchange_plan plan = {.step = m.step,
                                 .attempt = m.attempt,
                                 .spread = c->spread,
                                 .factor = factor,
                                 .role = roles};
    if (node == 0)
        exchange_begin(c->exchange, &plan, c->close_body);
    else
        control(c, node, &m, c->close_body, p->n_local + c->n_nodes);
}

/* A node that can't be told is one that does not deliver: the hard timeout
 * takes it out. */
void peers_close(struct coordinator *c)
{
    size_t bytes = node_grad_elems(c->node) * sizeof(float);

    if (!c->exchange)
        return;
    uint32_t n = give_roles(c);
    float factor = coordinator_factor(c); /* all workers are looked at */
    c->spread = c->attempt == 1 && n >= PEERS_SPREAD_NODES &&
                bytes >= c->opt.spread_bytes;
    for (uint32_t i = c->n_nodes; i-- > 0;) {
        if (c->peer[i].role && (i == 0 || c->attempt != EXCHANGE_EARLY))
            send_close(c, i, factor);
    }
}

void peers_committed(struct coordinator *c)
{
    if (!c->exchange)
        return;
    exchange_committed(c->exchange);
    for (uint32_t i = 1; i < c->n_nodes; i++) {
        if (c->peer[i].role & EXCHANGE_TAKES)
            c->peer[i].pieces = c->published;
    }
}

struct msg peers_mean(const struct coordinator *c, uint64_t step,
                      const struct seg_mean *about)
{
    struct msg m = {.kind = MSG_PUBLISH, .step = step};

    m.u.mean.epoch = about->epoch;
    m.u.mean.samples = about->samples;
    m.u.mean.contributors = about->contributors;
    m.u.mean.lr_scale = about->lr_scale;
    m.u.mean.run_samples = c->run_samples;
    m.u.mean.run_ns = (uint64_t)(c->run_s * 1e9);
    if (about->epoch_end)
        m.flags |= MSG_EPOCH_END;
    if (about->checkpoint)
        m.flags |= MSG_CHECKPOINT;
    if (step < c->published || c->phase == PHASE_OPEN ||
        c->phase == PHASE_CLOSING)
        m.flags |= MSG_STARTS;
    return m;
}

/* The next mean that a node lacks.  A step that is over may begin there too,
 * without work, so that nobody waits for it to start. */
static bool send_mean(struct coordinator *c, uint32_t node)
{
    struct peer *p = &c->peer[node];
    struct seg_mean about;
    const float *mean = node_mean(c->node, p->sent + 1, &about);

    if (!mean)
        return false;
    struct msg m = peers_mean(c, p->sent + 1, &about);
    bool latest = p->sent + 1 == c->published;
    m.count = p->n_local;
    if (latest && (m.flags & MSG_STARTS)) {
        peers_shares(c, p);
        m.flags |= early_flag(c, node);
    } else {
        memset(c->share, 0, p->n_local * sizeof *c->share);
    }
    c->transport->ops->bulk(c->transport, node, &m, c->share,
                            p->n_local * sizeof *c->share, mean,
                            node_grad_elems(c->node) * sizeof *mean);
    p->sent++;
    return true;
}

/* A node that has got the mean in pieces, or soon will, is told to show it. */
static bool send_show(struct coordinator *c, uint32_t node)
{
    struct peer *p = &c->peer[node];
    struct seg_mean about;

    if (!node_mean(c->node, c->published, &about))
        return false;
    struct msg m = peers_mean(c, c->published, &about);
    m.kind = MSG_SHOW;
    m.attempt = c->final_attempt;
    m.count = p->n_local;
    if (m.flags & MSG_STARTS) {
        peers_shares(c, p);
        m.flags |= early_flag(c, node);
    } else {
        memset(c->share, 0, p->n_local * sizeof *c->share);
    }
    if (!control(c, node, &m, c->share, p->n_local * sizeof *c->share))
        return false;
    p->sent = c->published;
    p->pieces_s = c->now_s;
    return true;
}

bool peers_taken(struct coordinator *c)
{
    for (uint32_t i = 1; i < c->n_nodes; i++) {
        if (!c->peer[i].lost && c->peer[i].sent == c->published &&
            !c->transport->ops->bulk_idle(c->transport, i))
            return false;
    }
    return true;
}

/* The next piece of the registered state, and what follows the last. */
static void send_state(struct coordinator *c, uint32_t node)
{
    struct peer *p = &c->peer[node];

    if (!state_send(&p->state, c->transport, node,
                    node_grad_elems(c->node) * sizeof(float)))
        return;
    p->sent = p->state.step;
    p->wants_state = false;
    if (p->sent == c->published &&
        (c->phase == PHASE_OPEN || c->phase == PHASE_CLOSING))
        start_node(c, node);
}

/* Have a state announced on this node: one of its workers copies its own, or
 * else, also when those who were asked do not answer, another node gives
 * one. */
static void ask_state(struct coordinator *c, uint64_t least)
{
    const double again_s = .1;
    struct msg m = {.kind = MSG_GIVE, .step = least};

    if (c->now_s < c->ask_s)
        return;
    c->ask_s = c->now_s + again_s;
    if (node_ask_state(c->node, least))
        return;
    early_refuse(c); /* their senders are who may have one */
    for (uint32_t i = 1; i < c->n_nodes; i++) {
        uint32_t node = 1 + c->ask_next++ % (c->n_nodes - 1);
        const struct peer *p = &c->peer[node];
        if (!p->lost && !p->wants_state && p->sent >= least &&
            control(c, node, &m, NULL, 0))
            return;
    }
}

/* The ring no longer has what a node lacks, or all its workers fell out of its
 * own: it gets a copy of the state that is announced on this node, once there
 * is one that serves. */
static bool begin_state(struct coordinator *c, uint32_t node)
{
    struct peer *p = &c->peer[node];
    const struct seg_state *box = node_state_box(c->node);
    uint64_t announced = atomic_load(&box->step);

    if (!p->state_bytes)
        return false;
    if (announced > p->sent && node_state_serves(c->node, announced - 1) &&
        state_open(box, p->state_bytes, &p->state.copy, &p->state.step, NULL) ==
            DSGD_OK) {
        if (p->state.step >= p->sent)
            return true;
        state_drop(&p->state.copy);
    }
    ask_state(c, p->sent);
    return false;
}

static bool pump_bulk(struct coordinator *c, uint32_t node)
{
    struct peer *p = &c->peer[node];
    struct seg_mean about;
    bool lacks = p->sent < c->published;

    if (p->sent + 1 == c->published && p->pieces == c->published &&
        p->pieces_s < c->published_s && send_show(c, node))
        return true;
    if (!(lacks || p->wants_state || p->state.copy.fd >= 0) ||
        !c->transport->ops->bulk_idle(c->transport, node))
        return false;
    if (p->state.copy.fd >= 0 ||
        ((p->wants_state || !node_mean(c->node, p->sent + 1, &about)) &&
         begin_state(c, node))) {
        send_state(c, node);
        return true;
    }
    return lacks && send_mean(c, node);
}

/* The end of the run, once a node has all its means, and the permission to
 * reap. */
static bool pump_end(struct coordinator *c, uint32_t node)
{
    struct peer *p = &c->peer[node];
    struct msg m = {.kind = MSG_END, .step = p->sent};
    struct seg_mean about;
    bool all_sent =
        p->sent == c->published || !node_mean(c->node, p->sent + 1, &about);

    if (c->phase >= PHASE_ENDING && !p->end_sent && all_sent &&
        p->state.copy.fd < 0) {
        m.u.end.hard_timeout_s = coordinator_hard_timeout_s(c);
        m.u.end.last = c->published;
        m.flags = c->broken ? MSG_BROKEN : 0;
        if (c->preempted)
            m.flags |= MSG_PREEMPTED;
        p->end_sent = control(c, node, &m, NULL, 0);
        return p->end_sent;
    }
    if (c->phase == PHASE_REAPING && !p->reap_sent && p->bye) {
        m.kind = MSG_REAP;
        p->reap_sent = control(c, node, &m, NULL, 0);
        return p->reap_sent;
    }
    return false;
}

bool peers_pump(struct coordinator *c)
{
    bool did = false;

    if (c->n_nodes > 1 && c->peer[0].wants_state)
        ask_state(c, 1);
    for (uint32_t i = 1; i < c->n_nodes; i++) {
        did = start_late(c, i) || did;
        did = pump_bulk(c, i) || did;
        did = pump_end(c, i) || did;
    }
    return did;
}
