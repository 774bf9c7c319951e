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

    if (kind == SEG_EVENT_COMMIT)
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
    if (k->doing == COMMITTED && n->published >= k->step) {
        k->applied = n->published;
        k->doing = WAITS;
    }
    if (k->doing == WAITS)
        begin(s, n, w);
}
