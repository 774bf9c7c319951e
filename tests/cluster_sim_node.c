/* Simulated nodes: what arrives, what they sum and show, what they say. */
#include <string.h>

#include "cluster_sim_own.h"

static const double life_s = 0.1, transfer_s = 0.003;

static bool frozen(const struct cluster *s, const struct node_sim *n)
{
    return n->frozen_until > s->now_s;
}

/* --- the transport --- */

static bool control(struct transport *t, uint32_t node, const struct msg *m,
                    const void *body, size_t bytes)
{
    struct cluster *s = (struct cluster *)t;
    struct node_sim *n = &s->nodes[node];

    s->r->asked += m->kind == MSG_CLOSE;
    if (m->kind == MSG_CLOSE && rng_uniform(&s->rng) < s->spec->freeze_in_sum)
        n->frozen_until = s->now_s + rng_log_range(&s->rng, .1, .8);
    if (n->head - n->tail == QUEUE || bytes > sizeof n->queue->body)
        return false;
    struct control *to = &n->queue[n->head++ % QUEUE];
    to->m = *m;
    to->bytes = bytes;
    if (bytes)
        memcpy(to->body, body, bytes);
    return true;
}

static bool bulk_idle(struct transport *t, uint32_t node)
{
    return !((struct cluster *)t)->nodes[node].bulk_waits;
}

static void bulk(struct transport *t, uint32_t node, const struct msg *m,
                 const void *body, size_t bytes, const void *tail,
                 size_t tail_bytes)
{
    struct node_sim *n = &((struct cluster *)t)->nodes[node];

    (void)tail;
    (void)tail_bytes;
    n->bulk_waits = true;
    n->bulk = *m;
    if (bytes == n->n * sizeof *n->bulk_share)
        memcpy(n->bulk_share, body, bytes);
}

static void release(struct transport *t, uint32_t node)
{
    ((struct cluster *)t)->nodes[node].sum_held = false;
}

static bool drained(struct transport *t, uint32_t node)
{
    (void)t;
    (void)node;
    return true;
}

const struct transport_ops sim_transport_ops = {.control = control,
                                                .bulk_idle = bulk_idle,
                                                .bulk = bulk,
                                                .release = release,
                                                .drained = drained};

/* --- nodes --- */

static void let_begin(struct node_sim *n, uint64_t step,
                      const struct msg_share *share)
{
    memcpy(n->share, share, n->n * sizeof *share);
    n->started = step;
}

static void sum(struct cluster *s, struct node_sim *n, const struct control *c)
{
    memset(n->sum, 0, s->elems * sizeof *n->sum);
    for (uint32_t w = 0; w < n->n; w++) {
        unsigned mask = c->body[w];
        for (size_t i = 0; i < s->elems; i++) {
            if (mask & MSG_OWN)
                n->sum[i] += n->worker[w].slot[(mask & MSG_OWN_BUF) != 0][i];
            if (mask & MSG_CARRIED)
                n->sum[i] +=
                    n->worker[w].slot[(mask & MSG_CARRIED_BUF) != 0][i];
        }
    }
    n->sum_msg = (struct msg){.kind = MSG_SUM,
                              .count = (uint32_t)s->elems,
                              .attempt = c->m.attempt,
                              .step = c->m.step};
    n->sum_waits = true;
}

/* Node 0 owns the only piece of a small gradient, whatever the plan. */
static void on_close(struct cluster *s, struct node_sim *n,
                     const struct control *c)
{
    uint8_t role = c->body[n->n + (uint32_t)(n - s->nodes)];

    if (c->m.step != n->published + 1)
        return;
    n->plan_step = c->m.step;
    n->plan_attempt = c->m.attempt;
    n->whole = n->sum_waits = false;
    if (role & EXCHANGE_GIVES)
        sum(s, n, c);
}

/* One message a tick: the answer to the first of two may be on its way when the
 * second is read. */
static void take_control(struct cluster *s, struct node_sim *n)
{
    if (n->head == n->tail)
        return;
    const struct control *c = &n->queue[n->tail++ % QUEUE];
    node_early_message(&n->early, &c->m);
    if (c->m.kind == MSG_CLOSE)
        on_close(s, n, c);
    if (n->node)
        node_message(n->node, &c->m, c->body, c->bytes);
    if (c->m.kind == MSG_KNOWN) {
        n->known_step = c->m.step;
        memcpy(n->known, c->body, c->bytes);
    }
    if (c->m.kind == MSG_SHOW && c->m.step == n->published + 1)
        n->show = *c;
    if (c->m.kind == MSG_START && c->m.step == n->published + 1)
        let_begin(n, c->m.step, (const void *)c->body);
}

static void publish(struct node_sim *n, const struct msg *m,
                    const struct msg_share *share)
{
    n->published = m->step;
    if (n->node)
        node_jump(n->node, m->step);
    n->show.m.kind = 0;
    n->plan_step = 0;
    n->sum_waits = false;
    if (m->flags & MSG_STARTS)
        let_begin(n, n->published + 1, share);
}

/* A piece of a plan that has not come yet waits. */
static void take_mean(struct node_sim *n)
{
    const struct msg *m = &n->bulk;

    if (m->step > n->published &&
        (m->step > n->plan_step ||
         (m->step == n->plan_step && m->attempt > n->plan_attempt)))
        return;
    n->bulk_waits = false;
    if (m->step == n->plan_step && m->attempt == n->plan_attempt)
        n->whole = true;
}

static void take_bulk(struct node_sim *n)
{
    if (n->bulk_waits && n->bulk.kind == MSG_MEAN) {
        take_mean(n);
    } else if (n->bulk_waits) {
        n->bulk_waits = false;
        node_early_message(&n->early, &n->bulk);
        if (n->bulk.kind == MSG_PUBLISH && n->bulk.step == n->published + 1)
            publish(n, &n->bulk, n->bulk_share);
    }
}

static void show(struct node_sim *n)
{
    const struct msg *m = &n->show.m;

    if (m->kind == MSG_SHOW && n->whole && m->step == n->plan_step &&
        m->attempt == n->plan_attempt)
        publish(n, m, (const void *)n->show.body);
}

/* Node 0's view is the real segment. */
static void look_at_segment(struct cluster *s)
{
    struct node_sim *n = &s->nodes[0];

    n->published = atomic_load(&s->first.seg.h->published);
    n->started = atomic_load(&s->first.seg.h->started);
    for (uint32_t w = 0; w < n->n; w++) {
        const struct seg_worker *worker = &s->first.seg.workers[w];
        n->share[w].first = atomic_load(&worker->assign_first);
        n->share[w].count = atomic_load(&worker->assign_step) == n->started
                                ? atomic_load(&worker->assign_count)
                                : 0;
        n->share[w].limit = atomic_load(&worker->assign_limit);
    }
}

/* What was offered and accepted on the node. */
static void take_parts(struct cluster *s, uint32_t index)
{
    struct node_sim *n = &s->nodes[index];
    struct node *node = index ? n->node : s->first.node;

    while (node_event(node, &n->events[n->n_events])) {
        const struct msg_event *e = &n->events[n->n_events++];
        s->r->parts += e->kind == SEG_EVENT_PART;
        n->worker[e->worker].life_s = s->now_s;
        if (s->spec->twice > 0 && rng_uniform(&s->rng) < s->spec->twice)
            n->events[n->n_events++] = *e;
    }
}

static void give_back(struct cluster *s, uint32_t index)
{
    struct node_sim *n = &s->nodes[index];
    struct msg m;

    while (n->node && node_return(n->node, &m)) {
        coordinator_returned(s->first.c, index, &m, s->now_s);
        node_returned(n->node);
    }
}

static void send_life(struct cluster *s, uint32_t index)
{
    struct node_sim *n = &s->nodes[index];
    struct msg m = {.kind = MSG_LIFE, .count = n->n};
    float silent_s[1024];

    if (s->now_s - n->life_s < life_s)
        return;
    n->life_s = s->now_s;
    for (uint32_t w = 0; w < n->n; w++) {
        struct worker *k = &n->worker[w];
        if (k->stopped_until <= s->now_s && k->doing != COMMITTED &&
            k->doing != DEAD)
            k->life_s = s->now_s;
        silent_s[w] = (float)(s->now_s - k->life_s);
    }
    if (index)
        coordinator_has(s->first.c, index, n->published);
    coordinator_life(s->first.c, index, silent_s, &m, s->now_s);
}

/* Slower than anything else that is sent. */
static void send_sum(struct cluster *s, uint32_t index)
{
    struct node_sim *n = &s->nodes[index];

    if (n->sum_travels && s->now_s >= n->arrives_s) {
        n->sum_travels = false;
        n->sum_held = true;
        exchange_message(s->first.x, index, &n->sent_msg, n->sent,
                         s->elems * sizeof *n->sent);
    }
    if (!n->sum_waits || n->sum_travels || n->sum_held)
        return;
    n->sum_waits = false;
    n->sum_travels = true;
    n->arrives_s = s->now_s + transfer_s;
    n->sent_msg = n->sum_msg;
    memcpy(n->sent, n->sum, s->elems * sizeof *n->sent);
}

/* As exchange_early. */
static void give_early(struct cluster *s, struct node_sim *n)
{
    const uint8_t *mask = node_early_due(&n->early, n->published);
    struct control c = {
        .m = {.step = n->published + 1, .attempt = EXCHANGE_EARLY}};

    if (!mask || c.m.step <= n->plan_step)
        return;
    s->r->early++;
    if (rng_uniform(&s->rng) < s->spec->freeze_in_sum)
        n->frozen_until = s->now_s + rng_log_range(&s->rng, .1, .8);
    memcpy(c.body, mask, n->n);
    n->plan_step = c.m.step;
    n->plan_attempt = EXCHANGE_EARLY;
    n->whole = false;
    sum(s, n, &c);
}

static void send_events(struct cluster *s, uint32_t index)
{
    struct node_sim *n = &s->nodes[index];

    if (index && (n->n_events || n->told != n->published))
        coordinator_has(s->first.c, index, n->published);
    n->told = n->published;
    if (n->n_events)
        coordinator_events(s->first.c, index, n->events, n->n_events, s->now_s);
    for (uint32_t i = 0; i < n->n_events; i++)
        node_early_event(&n->early, &n->events[i]);
    n->n_events = 0;
}

/* Where it matters what the coordinator knows of, it takes a while. */
void sim_node_advance(struct cluster *s, uint32_t index)
{
    struct node_sim *n = &s->nodes[index];

    if (frozen(s, n))
        return;
    if (index == 0) {
        look_at_segment(s);
    } else {
        take_control(s, n);
        take_bulk(n);
        show(n);
        send_sum(s, index);
    }
    for (uint32_t w = 0; w < n->n; w++)
        sim_worker_advance(s, n, w);
    if (n->seg)
        take_parts(s, index);
    if (!s->deposits || !index || rng_uniform(&s->rng) < .3)
        send_events(s, index);
    give_early(s, n);
    give_back(s, index);
    send_life(s, index);
}
