/* What workers did, as their nodes tell it. */
#include <math.h>

#include "coordinator_deposits.h"
#include "coordinator_dynamic.h"
#include "coordinator_late.h"
#include "coordinator_parts.h"
#include "coordinator_priv.h"
#include "coordinator_replay.h"

/* Policies count from a step's start to the arrival here, as a worker that
 * starts fresh would make it: its own duration, and what waking up and sending
 * usually add, which on a busy node is much.  NaN when nothing is known. */
static double fresh_arrival_s(struct coordinator *c, struct worker *worker,
                              const struct msg_event *e, bool in_time)
{
    double arrival_s = c->now_s - c->step_s;

    if (!(e->fraction > 0) || !(e->duration_s > 0))
        return NAN;
    double duration_s = (double)(e->duration_s / e->fraction);
    if (!in_time || !worker->fresh)
        return duration_s + worker->latency_s;
    double latency_s = fmax(0, arrival_s - duration_s);
    worker->latency_s += .2 * (latency_s - worker->latency_s);
    return arrival_s;
}

/* A gradient for the open step, or news of a late one. */
static void on_commit(struct coordinator *c, uint32_t w,
                      const struct msg_event *e)
{
    struct worker *worker = &c->worker[w];
    bool open = c->phase == PHASE_OPEN && e->step == c->step;

    bool in_time = open && !worker->arrived && worker->range.count && e->value;
    double arrival_s = fresh_arrival_s(c, worker, e, in_time);
    if (!isnan(arrival_s)) {
        cutoff_observe(c->cutoff, w, arrival_s);
        dyn_commit(c, w, arrival_s, e->fraction < 1, in_time);
    }
    if (!open || worker->arrived || !worker->range.count) {
        late_commit(c, w, e);
        if (e->fraction > 0)
            log_late(c, w, e);
        return;
    }
    if (!e->value && worker->deposited) {
        deposits_finish(c, w);
        return;
    }
    if (!e->value) { /* nothing to give: not waited for */
        worker->working = false;
        c->n_settled++;
        dyn_leave(c, w);
        return;
    }
    deposits_arrived(c, worker);
    worker->arrived = true;
    worker->samples = late_count(c, &worker->range, e->value);
    worker->buf = e->buf;
    worker->duration_s = e->duration_s;
    worker->lag_s = e->lag_s;
    c->n_arrived++;
    c->n_settled++;
    if (c->replay)
        replay_arrived(c, w);
}

static void on_ready(struct coordinator *c, uint32_t w,
                     const struct msg_event *e)
{
    loss_back(c, w);
    c->worker[w].ready = e->step;
}

static void on_begin(struct coordinator *c, uint32_t w,
                     const struct msg_event *e)
{
    loss_back(c, w);
    if (c->phase != PHASE_OPEN || e->step != c->step)
        return;
    c->worker[w].lag_s = e->lag_s;
    dyn_begin(c, w);
    if (c->deal)
        deal_event(c, w, e);
}

static void on_part(struct coordinator *c, uint32_t w,
                    const struct msg_event *e)
{
    loss_back(c, w);
    if (c->deal)
        deal_event(c, w, e);
}

static void on_resynced(struct coordinator *c, uint32_t w)
{
    loss_back(c, w);
    log_event(c, RECORD_EVENT_RESYNC, (int32_t)w, -1,
              "its state was overwritten with another worker's");
}

static void on_leave(struct coordinator *c, uint32_t w)
{
    struct worker *worker = &c->worker[w];

    worker->left = true;
    c->n_settled++;
    late_forget(c, worker);
    dyn_leave(c, w);
    if (c->deal)
        deal_forget(c, w);
}

static void on_event(struct coordinator *c, uint32_t w,
                     const struct msg_event *e)
{
    switch (e->kind) {
    case SEG_EVENT_READY:
        on_ready(c, w, e);
        break;
    case SEG_EVENT_BEGIN:
        on_begin(c, w, e);
        break;
    case SEG_EVENT_PART:
    case SEG_EVENT_WAITS:
    case SEG_EVENT_KEPT:
        on_part(c, w, e);
        break;
    case SEG_EVENT_DEPOSIT:
        deposits_event(c, w, e);
        break;
    case SEG_EVENT_COMMIT:
        on_commit(c, w, e);
        break;
    case SEG_EVENT_CHECKSUM:
        log_checksum(c, w, e);
        replay_checksum(c, w, e->step, e->value);
        break;
    case SEG_EVENT_RESYNCED:
        on_resynced(c, w);
        break;
    case SEG_EVENT_LEAVE:
        on_leave(c, w);
        break;
    case SEG_EVENT_DIED:
        loss_died(c, w, e->value);
        break;
    default:
        break;
    }
}

void coordinator_events(struct coordinator *c, uint32_t node,
                        const struct msg_event *events, uint32_t count,
                        double now_s)
{
    struct peer *p = &c->peer[node];

    c->now_s = now_s;
    for (uint32_t i = 0; i < count; i++) {
        if (events[i].worker >= p->n_local)
            continue;
        uint32_t w = p->worker[events[i].worker];
        loss_life(c, w, now_s);
        on_event(c, w, &events[i]);
    }
}

void coordinator_life(struct coordinator *c, uint32_t node,
                      const float *silent_s, const struct msg *m, double now_s)
{
    struct peer *p = &c->peer[node];

    c->now_s = now_s;
    p->state_bytes = m->u.node.state_bytes;
    p->wants_state = m->u.node.wants_state;
    if (p->lost) {
        p->lost = false;
        if (c->phase == PHASE_OPEN)
            late_reopen(c);
        log_event(c, RECORD_EVENT_NODE_BACK, -1, (int32_t)node,
                  "heard of again");
    }
    for (uint32_t i = 0; i < p->n_local && i < m->count; i++)
        loss_life(c, p->worker[i], now_s - silent_s[i]);
}
