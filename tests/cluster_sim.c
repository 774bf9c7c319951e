#include "cluster_sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exchange.h"
#include "launch.h"
#include "parts_sim.h"
#include "rng.h"
#include "segment.h"
#include "transport.h"

enum { QUEUE = 64, PIECES = 8 };
static const double tick_s = 0.0005, life_s = 0.1, transfer_s = 0.003;

enum doing { WAITS, COMPUTES, SHARES, COMMITTED, DEAD };

/* As in client.c, with virtual time for the work. */
struct worker {
    enum doing doing;
    uint64_t applied, step, told_ready;
    uint64_t first, count, give;
    bool stale, polls;
    double begin_s, end_s;
    double stopped_until, life_s;
    uint32_t buf;
    float *slot[2];
    double sample_s; /* with shared work */
    struct parts_worker parts;
};

struct control {
    struct msg m;
    unsigned char body[4096];
    size_t bytes;
};

struct node_sim {
    uint32_t n;
    struct segment *seg; /* with shared work, and node 0 */
    struct segment own;
    struct node *node;
    struct worker *worker; /* [n] */
    double frozen_until, life_s;
    uint64_t published, started, pending;
    struct msg_share *share, *next; /* [n] */
    struct control *queue;          /* [QUEUE] */
    unsigned head, tail;
    bool bulk_waits;
    struct msg bulk;
    struct msg_share *bulk_share; /* [n] */
    uint64_t plan_step;           /* what is exchanged; 0: nothing */
    uint32_t plan_attempt;
    bool whole;          /* its mean has come */
    struct control show; /* kind 0: none */
    uint64_t told;       /* last mean published here, for the coordinator */
    float *sum;
    float *sent; /* the sum that is on its way, or held by the coordinator */
    double arrives_s;
    bool sum_waits, sum_travels, sum_held;
    struct msg sent_msg;
    struct msg sum_msg;
    struct msg_event events[4096];
    uint32_t n_events;
};

struct cluster {
    struct transport t; /* first */
    const struct cluster_spec *spec;
    struct cluster_result *r;
    struct rng rng;
    double now_s;
    struct segment seg;
    struct node *node; /* 0 */
    struct exchange *x;
    struct coordinator *c;
    struct own_clock clock;
    struct node_sim *nodes; /* [n_nodes] */
    size_t elems;
    uint32_t bufs;
    uint64_t checked; /* last mean looked at */
    uint64_t left;    /* samples of the epoch */
    uint8_t *seen;    /* [elems] */
};

static struct cluster *running; /* whose clock is asked for */

double __wrap_own_clock_s(struct own_clock *clock);
double __wrap_own_clock_s(struct own_clock *clock)
{
    (void)clock;
    return running->now_s;
}

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

static const struct transport_ops ops = {.control = control,
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
    if (c->m.kind == MSG_CLOSE)
        on_close(s, n, c);
    if (n->node)
        node_message(n->node, &c->m, c->body, c->bytes);
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

    n->published = atomic_load(&s->seg.h->published);
    n->started = atomic_load(&s->seg.h->started);
    for (uint32_t w = 0; w < n->n; w++) {
        const struct seg_worker *worker = &s->seg.workers[w];
        n->share[w].first = atomic_load(&worker->assign_first);
        n->share[w].count = atomic_load(&worker->assign_step) == n->started
                                ? atomic_load(&worker->assign_count)
                                : 0;
        n->share[w].limit = atomic_load(&worker->assign_limit);
    }
}

static void post(struct cluster *s, struct node_sim *n, uint32_t w,
                 enum seg_event_kind kind, uint64_t value, float fraction)
{
    struct worker *worker = &n->worker[w];
    struct msg_event e = {.worker = w,
                          .kind = kind,
                          .step = worker->step,
                          .value = value,
                          .fraction = fraction,
                          .buf = worker->buf};

    if (kind == SEG_EVENT_COMMIT)
        e.duration_s = (float)(s->now_s - worker->begin_s);
    worker->life_s = s->now_s;
    n->events[n->n_events++] = e;
}

/* --- workers --- */

static void begin(struct cluster *s, struct node_sim *n, uint32_t w)
{
    struct worker *k = &n->worker[w];
    const struct cluster_spec *spec = s->spec;
    double s_of = spec->step_s * rng_range(&s->rng, .8, 1.2);

    k->step = k->applied + 1;
    if (n->started < k->step) {
        if (k->told_ready != k->step)
            post(s, n, w, SEG_EVENT_READY, 0, 0);
        k->told_ready = k->step;
        return;
    }
    k->stale = n->published >= k->step;
    k->first = n->share[w].first;
    k->count = k->stale || n->started != k->step ? 0 : n->share[w].count;
    if (rng_uniform(&s->rng) < spec->slow)
        s_of *= rng_log_range(&s->rng, 3, 30);
    k->give = k->count;
    if (rng_uniform(&s->rng) < spec->less)
        k->give = rng_below(&s->rng, k->count + 1);
    if (k->count && n->share[w].limit)
        k->give = n->share[w].limit;
    k->polls = rng_uniform(&s->rng) < .5;
    k->begin_s = s->now_s;
    k->end_s = s->now_s + (k->count ? s_of : 0);
    k->doing = spec->opt.work == DSGD_WORK_SHARED ? SHARES : COMPUTES;
    if (!k->stale)
        post(s, n, w, SEG_EVENT_BEGIN, 0, 0);
}

static void commit(struct cluster *s, struct node_sim *n, uint32_t w,
                   uint64_t samples)
{
    struct worker *k = &n->worker[w];
    bool wanted =
        n->published < k->step || (s->bufs > 1 && n->published == k->step);

    if (samples && wanted && !k->stale) {
        float *slot = k->slot[k->buf];
        memset(slot, 0, s->elems * sizeof *slot);
        for (uint64_t i = 0; i < samples; i++)
            slot[k->first + i] += 1;
    } else {
        samples = 0;
    }
    if (!k->stale)
        post(s, n, w, SEG_EVENT_COMMIT, samples,
             k->count ? (float)samples / (float)k->count : 0);
    if (samples && s->bufs > 1)
        k->buf = !k->buf;
    k->doing = COMMITTED;
}

static void share(struct cluster *s, struct node_sim *n, uint32_t w)
{
    struct worker *k = &n->worker[w];
    double sample_s = k->sample_s * rng_range(&s->rng, .8, 1.2);

    if (k->stale || n->published >= k->step) {
        k->doing = COMMITTED;
        return;
    }
    if (rng_uniform(&s->rng) < s->spec->slow)
        sample_s *= rng_log_range(&s->rng, 3, 30);
    parts_work(n->seg, w, &k->parts, k->step, s->now_s, sample_s);
    if (!k->parts.count) /* waits, and says so */
        k->life_s = s->now_s;
}

/* What was offered and accepted on the node. */
static void take_parts(struct cluster *s, uint32_t index)
{
    struct node_sim *n = &s->nodes[index];
    struct node *node = index ? n->node : s->node;

    while (node_event(node, &n->events[n->n_events])) {
        n->worker[n->events[n->n_events].worker].life_s = s->now_s;
        n->n_events++;
    }
}

static void give_back(struct cluster *s, uint32_t index)
{
    struct node_sim *n = &s->nodes[index];
    struct msg m;

    while (n->node && node_return(n->node, &m)) {
        coordinator_returned(s->c, index, m.step, m.u.pool.tokens, s->now_s);
        node_returned(n->node);
    }
}

static void advance(struct cluster *s, struct node_sim *n, uint32_t w)
{
    struct worker *k = &n->worker[w];
    double part = (s->now_s - k->begin_s) / (k->end_s - k->begin_s);

    if (k->stopped_until > s->now_s || k->doing == DEAD)
        return;
    if (k->doing == COMPUTES && s->now_s >= k->end_s)
        commit(s, n, w, k->give);
    else if (k->doing == COMPUTES && k->polls && n->published >= k->step)
        commit(s, n, w,
               (uint64_t)(floor(part * PIECES) / PIECES * (double)k->give));
    if (k->doing == SHARES)
        share(s, n, w);
    if (k->doing == COMMITTED && n->published >= k->step) {
        k->applied = n->published;
        k->doing = WAITS;
    }
    if (k->doing == WAITS)
        begin(s, n, w);
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
        coordinator_has(s->c, index, n->published);
    coordinator_life(s->c, index, silent_s, &m, s->now_s);
}

/* Slower than anything else that is sent. */
static void send_sum(struct cluster *s, uint32_t index)
{
    struct node_sim *n = &s->nodes[index];

    if (n->sum_travels && s->now_s >= n->arrives_s) {
        n->sum_travels = false;
        n->sum_held = true;
        exchange_message(s->x, index, &n->sent_msg, n->sent,
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

static void advance_node(struct cluster *s, uint32_t index)
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
        advance(s, n, w);
    if (n->seg)
        take_parts(s, index);
    if (index && (n->n_events || n->told != n->published))
        coordinator_has(s->c, index, n->published);
    n->told = n->published;
    if (n->n_events)
        coordinator_events(s->c, index, n->events, n->n_events, s->now_s);
    n->n_events = 0;
    give_back(s, index);
    send_life(s, index);
}

/* --- faults and checks --- */

static bool happens(struct cluster *s, double every_s)
{
    return every_s > 0 && rng_uniform(&s->rng) < tick_s / every_s;
}

static void die(struct cluster *s)
{
    uint32_t i = (uint32_t)rng_below(&s->rng, s->spec->n_nodes);
    struct node_sim *n = &s->nodes[i];
    uint32_t w = (uint32_t)rng_below(&s->rng, n->n);
    struct seg_event e = {.kind = SEG_EVENT_DIED, .value = SEG_DIED_FINAL | 9};

    if ((!i && !w) || n->worker[w].doing == DEAD)
        return;
    n->worker[w].doing = DEAD;
    segment_post(n->seg, w, &e);
}

static void faults(struct cluster *s)
{
    const struct cluster_spec *spec = s->spec;

    if (happens(s, spec->die_s))
        die(s);

    if (happens(s, spec->stop_s)) {
        struct node_sim *n = &s->nodes[rng_below(&s->rng, spec->n_nodes)];
        n->worker[rng_below(&s->rng, n->n)].stopped_until =
            s->now_s + rng_log_range(&s->rng, .01, 1);
    }
    if (spec->n_nodes > 1 && happens(s, spec->freeze_s))
        s->nodes[1 + rng_below(&s->rng, spec->n_nodes - 1)].frozen_until =
            s->now_s + rng_log_range(&s->rng, .01, .8);
}

static void end_epoch(struct cluster *s)
{
    for (size_t i = 0; i < s->elems; i++)
        s->r->missing += !s->seen[i];
    memset(s->seen, 0, s->elems);
    s->left = s->elems;
    s->r->epochs++;
}

static void hash(struct cluster *s, const void *data, size_t bytes)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < bytes; i++)
        s->r->hash = (s->r->hash ^ p[i]) * UINT64_C(0x100000001b3);
}

static void hash_mean(struct cluster *s, const float *mean,
                      const struct seg_mean *about)
{
    hash(s, mean, s->elems * sizeof *mean);
    hash(s, &about->samples, sizeof about->samples);
    hash(s, &about->contributors, sizeof about->contributors);
    hash(s, &about->epoch_end, sizeof about->epoch_end);
    hash(s, &about->lr_scale, sizeof about->lr_scale);
}

/* What a mean contains, from the mean alone. */
static void check_mean(struct cluster *s, uint64_t step)
{
    struct seg_mean about;
    const float *mean = node_mean(s->node, step, &about);

    s->r->steps++;
    hash_mean(s, mean, &about);
    for (size_t i = 0; i < s->elems; i++) {
        long times = lround((double)mean[i] * (double)about.samples);
        s->r->doubled += (uint64_t)(times > 1 || (times && s->seen[i]));
        s->seen[i] = s->seen[i] || times > 0;
    }
    s->r->samples += about.samples;
    s->r->empty += !about.samples;
    uint64_t nominal =
        s->spec->n_nodes * s->spec->per_node * s->spec->opt.batch;
    s->r->over += about.samples > nominal;
    s->r->under += about.samples < nominal && s->left >= nominal;
    s->left -= about.samples < s->left ? about.samples : s->left;
    uint64_t most = about.contributors * s->spec->opt.batch;
    if (about.samples > most)
        s->r->carried += about.samples - most;
    if (about.epoch_end)
        end_epoch(s);
}

/* Node 0 may be shown more than one mean at a time. */
static void check_means(struct cluster *s)
{
    while (s->checked < node_published(s->node))
        check_mean(s, ++s->checked);
}

/* As the aggregator does, once all messages are in. */
static bool coordinate(struct cluster *s)
{
    bool did = coordinator_tick(s->c, s->now_s);

    check_means(s);
    return exchange_pump(s->x) || did;
}

static void run(struct cluster *s)
{
    const struct cluster_spec *spec = s->spec;
    double start_s = s->now_s;

    while (s->now_s < spec->limit_s &&
           atomic_load(&s->seg.h->run) == SEG_RUNNING) {
        s->now_s += tick_s;
        faults(s);
        for (uint32_t i = 0; i < spec->n_nodes; i++)
            advance_node(s, i);
        for (int i = 0; i < 4 && coordinate(s); i++)
            ;
    }
    s->r->ended = atomic_load(&s->seg.h->run) != SEG_RUNNING;
    s->r->time_s = s->now_s - start_s;
    double rate = 0;
    for (uint32_t i = 0; i < spec->n_nodes; i++) {
        for (uint32_t w = 0; w < s->nodes[i].n; w++)
            rate += 1 / s->nodes[i].worker[w].sample_s;
    }
    s->r->ideal_s = (double)s->r->samples / rate;
}

/* --- setting up --- */

static double sample_s(struct cluster *s)
{
    const struct cluster_spec *spec = s->spec;
    double spread = spec->spread > 1 ? spec->spread : 1;

    return spec->step_s / (double)spec->opt.batch *
           rng_log_range(&s->rng, 1 / spread, spread);
}

/* What the parts are claimed from. */
static bool make_segment(struct cluster *s, uint32_t index)
{
    struct node_sim *n = &s->nodes[index];
    char name[SEGMENT_NAME];

    if (index == 0) {
        n->seg = &s->seg;
        return true;
    }
    if (segment_create(n->n, s->elems, s->bufs, (size_t)1 << 16, &n->own, name,
                       NULL) != DSGD_OK)
        return false;
    segment_unlink(name);
    n->seg = &n->own;
    return node_create(n->seg, &n->node, NULL) == DSGD_OK;
}

static bool make_node(struct cluster *s, uint32_t index)
{
    struct node_sim *n = &s->nodes[index];
    uint32_t per = s->spec->per_node;

    n->n = per;
    n->worker = calloc(per, sizeof *n->worker);
    n->share = calloc(per, sizeof *n->share);
    n->bulk_share = calloc(per, sizeof *n->bulk_share);
    n->queue = calloc(QUEUE, sizeof *n->queue);
    n->sum = calloc(s->elems, sizeof *n->sum);
    n->sent = calloc(s->elems, sizeof *n->sent);
    if (!n->worker || !n->share || !n->bulk_share || !n->queue || !n->sum ||
        !n->sent)
        return false;
    if (s->spec->opt.work == DSGD_WORK_SHARED && !make_segment(s, index))
        return false;
    for (uint32_t w = 0; w < per; w++) {
        n->worker[w].sample_s = sample_s(s);
        for (uint32_t b = 0; b < s->bufs; b++) {
            n->worker[w].slot[b] = index == 0 ? segment_slot(&s->seg, w, b)
                                   : n->seg   ? segment_slot(n->seg, w, b)
                                              : calloc(s->elems, sizeof(float));
            if (!n->worker[w].slot[b])
                return false;
        }
    }
    return true;
}

static void clean_up(struct cluster *s)
{
    coordinator_destroy(s->c);
    exchange_destroy(s->x);
    node_destroy(s->node);
    segment_detach(&s->seg);
    for (uint32_t i = 0; s->nodes && i < s->spec->n_nodes; i++) {
        struct node_sim *n = &s->nodes[i];
        for (uint32_t w = 0; i && !n->seg && n->worker && w < n->n; w++) {
            free(n->worker[w].slot[0]);
            free(n->worker[w].slot[1]);
        }
        node_destroy(n->node);
        if (i && n->seg)
            segment_detach(n->seg);
        free(n->worker);
        free(n->share);
        free(n->bulk_share);
        free(n->queue);
        free(n->sum);
        free(n->sent);
    }
    free(s->nodes);
    free(s->seen);
}

/* Keep a record, and do another again, as far as that is asked for. */
static bool attach(struct cluster *s, const struct dsgd_options *opt,
                   const struct cutoff_spec *cutoff,
                   const uint32_t *worker_node)
{
    const struct cluster_spec *spec = s->spec;
    const char **names = calloc(spec->n_nodes, sizeof *names);
    struct record_job job = {.job_id = "1",
                             .step_id = "0",
                             .program = "sim",
                             .cutoff = opt->cutoff,
                             .late = "?",
                             .grad_elems = opt->grad_elems,
                             .n_samples = opt->n_samples,
                             .batch = opt->batch,
                             .n_workers = spec->n_nodes * spec->per_node,
                             .n_nodes = spec->n_nodes,
                             .node_name = names,
                             .node_kernel = names,
                             .worker_node = worker_node};
    struct record *record = NULL;
    struct record_replay *replay = NULL;
    bool good = names != NULL;

    for (uint32_t i = 0; good && i < spec->n_nodes; i++)
        names[i] = "sim";
    if (good && spec->record)
        good = record_create(spec->record, &job, &record, NULL) == DSGD_OK;
    if (good && cutoff->mode == CUTOFF_REPLAY)
        good = record_replay_open(cutoff->file, &job, &replay, NULL) == DSGD_OK;
    coordinator_record(s->c, record);
    coordinator_replay(s->c, replay);
    free(names);
    return good;
}

static bool set_up(struct cluster *s)
{
    const struct cluster_spec *spec = s->spec;
    uint32_t n = spec->n_nodes * spec->per_node;
    struct dsgd_options opt = spec->opt;
    struct cutoff_spec cutoff;
    char name[SEGMENT_NAME];
    uint32_t *worker_node = calloc(n, sizeof *worker_node);

    for (uint32_t w = 0; worker_node && w < n; w++)
        worker_node[w] = w / spec->per_node;
    opt.grad_elems = s->elems;
    bool good =
        worker_node && launch_check(&opt, &cutoff, NULL) == DSGD_OK &&
        segment_create(spec->per_node, s->elems, s->bufs, (size_t)64 << 20,
                       &s->seg, name, NULL) == DSGD_OK;
    if (good)
        segment_unlink(name);
    good = good && node_create(&s->seg, &s->node, NULL) == DSGD_OK &&
           exchange_create(s->node, &s->t, 0, spec->n_nodes, &s->x, NULL) ==
               DSGD_OK;
    struct coordinator_config config = {.opt = &opt,
                                        .cutoff = &cutoff,
                                        .n_workers = n,
                                        .n_nodes = spec->n_nodes,
                                        .worker_node = worker_node,
                                        .node = s->node,
                                        .exchange = s->x,
                                        .transport = &s->t,
                                        .clock = &s->clock};
    good = good && coordinator_create(&config, &s->c, NULL) == DSGD_OK &&
           attach(s, &opt, &cutoff, worker_node);
    free(worker_node);
    for (uint32_t i = 0; good && i < spec->n_nodes; i++)
        good = make_node(s, i);
    return good;
}

bool cluster_run(const struct cluster_spec *spec, struct cluster_result *r)
{
    struct cluster s = {.t.ops = &ops, .spec = spec, .r = r, .now_s = 1};

    *r = (struct cluster_result){0};
    s.elems = (size_t)spec->opt.n_samples;
    s.left = s.elems;
    s.bufs = launch_slot_bufs(&spec->opt);
    rng_seed(&s.rng, spec->seed, 0);
    s.nodes = calloc(spec->n_nodes, sizeof *s.nodes);
    s.seen = calloc(s.elems, 1);
    running = &s;
    bool good = s.nodes && s.seen && set_up(&s);
    if (good)
        run(&s);
    clean_up(&s);
    return good;
}
