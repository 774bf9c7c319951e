/* Simulated workers: what client.c does, in virtual time. */
#include <math.h>
#include <string.h>

#include "cluster_sim_own.h"

enum { PIECES = 8 };

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

    if (kind == SEG_EVENT_COMMIT || kind == SEG_EVENT_DEPOSIT)
        e.duration_s = (float)(s->now_s - worker->begin_s);
    worker->life_s = s->now_s;
    n->events[n->n_events++] = e;
}

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
    k->doing = spec->opt.work == DSGD_WORK_SHARED ? SHARES
               : s->deposits                      ? DEPOSITS
                                                  : COMPUTES;
    k->given = k->n_given = 0;
    k->adding = false;
    k->part_s = s_of * (double)s->part / (double)spec->opt.batch;
    if (s->deposits)
        k->end_s = s->now_s + (k->count ? k->part_s : 0);
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

/* As in client_parts.c. */
static bool is_known(struct cluster *s, struct node_sim *n, uint32_t w)
{
    const struct worker *k = &n->worker[w];
    uint64_t word = SEGMENT_POOL_WORD(k->step, k->n_given);

    if (!k->n_given)
        return true;
    if (n == s->nodes)
        return atomic_load(&s->first.seg.workers[w].accepted) == word;
    return n->known_step == k->step && n->known[w] == k->n_given;
}

static uint64_t next_part(const struct cluster *s, const struct worker *k)
{
    uint64_t left = k->count - k->given;

    return left < s->part ? left : s->part;
}

static void leave_share(struct cluster *s, struct node_sim *n, uint32_t w)
{
    struct worker *k = &n->worker[w];
    uint64_t samples = k->given + next_part(s, k);

    k->doing = COMMITTED;
    if (!k->stale)
        post(s, n, w, SEG_EVENT_COMMIT, 0,
             k->count ? (float)samples / (float)k->count : 0);
}

/* The second half of an addition: what is there now, and a part. */
static void add_part(struct cluster *s, struct node_sim *n, uint32_t w)
{
    struct worker *k = &n->worker[w];
    float *to = k->slot[k->buf];
    const float *from = k->slot[!k->buf];
    uint64_t part = next_part(s, k);

    for (size_t i = 0; i < s->elems; i++)
        to[i] = k->n_given ? from[i] : 0;
    for (uint64_t i = 0; i < part; i++)
        to[k->first + k->given + i] += 1;
    k->adding = false;
    k->given += part;
    k->n_given++;
    k->end_s = s->now_s + k->part_s;
    if (k->given < k->count) {
        post(s, n, w, SEG_EVENT_DEPOSIT, (uint64_t)k->n_given << 32 | k->given,
             0);
        return;
    }
    post(s, n, w, SEG_EVENT_COMMIT, k->given, 1);
    k->doing = COMMITTED;
}

static void deposit(struct cluster *s, struct node_sim *n, uint32_t w)
{
    struct worker *k = &n->worker[w];

    if (s->now_s < k->end_s)
        return;
    if (k->adding) {
        add_part(s, n, w);
    } else if (k->stale || !k->count || n->published >= k->step) {
        leave_share(s, n, w);
    } else if (is_known(s, n, w)) {
        k->adding = true;
        k->buf = k->n_given ? !k->buf : 0;
        for (size_t i = 0; i < s->elems; i++)
            k->slot[k->buf][i] = -1e6f;
    }
}

static void share(struct cluster *s, struct node_sim *n, uint32_t w)
{
    struct worker *k = &n->worker[w];
    double sample_s = k->sample_s * rng_range(&s->rng, .8, 1.2);

    if (k->stale || n->published >= k->step) {
        if (k->stale || k->parts.step != k->step ||
            parts_over(n->seg, w, &k->parts, s->now_s))
            k->doing = COMMITTED;
        return;
    }
    if (rng_uniform(&s->rng) < s->spec->slow)
        sample_s *= rng_log_range(&s->rng, 3, 30);
    parts_work(n->seg, w, &k->parts, k->step, s->now_s, sample_s);
    if (!k->parts.part.count) /* waits, and says so */
        k->life_s = s->now_s;
}

void sim_worker_advance(struct cluster *s, struct node_sim *n, uint32_t w)
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
    if (k->doing == DEPOSITS)
        deposit(s, n, w);
    if (k->doing == COMMITTED && n->published >= k->step) {
        k->applied = n->published;
        k->doing = WAITS;
    }
    if (k->doing == WAITS)
        begin(s, n, w);
}
