#include "coordinator_deposits.h"

#include <stdlib.h>

#include "coordinator_dynamic.h"
#include "error.h"
#include "launch.h"

/* Of all workers' shares of the open step. */
struct deposits {
    uint64_t samples; /* of those who have not arrived */
    bool due;         /* a node is to be told */
    bool *node_due;   /* [n_nodes] */
    uint32_t *known;  /* [largest n_local] scratch */
};

enum dsgd_err deposits_create(struct coordinator *c, struct dsgd_error *err)
{
    uint32_t largest = 0;

    if (!launch_deposits(&c->opt))
        return DSGD_OK;
    for (uint32_t i = 0; i < c->n_nodes; i++)
        largest = c->peer[i].n_local > largest ? c->peer[i].n_local : largest;
    struct deposits *d = calloc(1, sizeof *d);
    if (d) {
        d->node_due = calloc(c->n_nodes, sizeof *d->node_due);
        d->known = calloc(largest, sizeof *d->known);
    }
    c->deposits = d;
    if (!d || !d->node_due || !d->known)
        return error_set(err, DSGD_E_NOMEM, "coordinator: no memory");
    return DSGD_OK;
}

void deposits_free(struct coordinator *c)
{
    if (!c->deposits)
        return;
    free(c->deposits->node_due);
    free(c->deposits->known);
    free(c->deposits);
    c->deposits = NULL;
}

void deposits_open(struct coordinator *c)
{
    if (!c->deposits)
        return;
    c->deposits->samples = 0;
    c->deposits->due = false;
    for (uint32_t i = 0; i < c->n_nodes; i++)
        c->deposits->node_due[i] = false;
    for (uint32_t w = 0; w < c->n_workers; w++) {
        struct worker *worker = &c->worker[w];
        worker->n_deposits = 0;
        worker->deposited = 0;
        worker->cut_short = false;
    }
}

static void is_due(struct deposits *d, uint32_t node)
{
    d->node_due[node] = d->due = true;
}

/* While the step is closing it is remembered for the case that it is opened
 * again. */
void deposits_event(struct coordinator *c, uint32_t w,
                    const struct msg_event *e)
{
    struct deposits *d = c->deposits;
    struct worker *worker = &c->worker[w];
    uint32_t number = (uint32_t)(e->value >> 32);
    uint64_t samples = e->value & UINT32_MAX;
    bool open = c->phase == PHASE_OPEN;

    if (!d || e->step != c->step || !(open || c->phase == PHASE_CLOSING) ||
        (worker->arrived && !worker->cut_short) ||
        number <= worker->n_deposits || samples > worker->range.count ||
        samples < worker->deposited)
        return;
    d->samples += samples - worker->deposited;
    worker->n_deposits = number;
    worker->deposited = samples;
    worker->deposit_buf = e->buf;
    worker->deposit_s = worker->fresh
                            ? c->now_s - c->step_s
                            : (double)e->duration_s + worker->latency_s;
    is_due(d, worker->node);
    if (open)
        dyn_deposit(c, w);
}

void deposits_arrived(struct coordinator *c, const struct worker *worker)
{
    if (c->deposits)
        c->deposits->samples -= worker->deposited;
}

static void take(struct coordinator *c, struct worker *worker)
{
    worker->arrived = true;
    worker->samples = worker->deposited;
    worker->buf = worker->deposit_buf;
    c->n_arrived++;
}

void deposits_finish(struct coordinator *c, uint32_t w)
{
    struct worker *worker = &c->worker[w];

    if (!c->deposits || c->phase != PHASE_OPEN || worker->arrived ||
        !worker->deposited)
        return;
    deposits_arrived(c, worker);
    take(c, worker);
    c->n_settled++;
}

uint64_t deposits_samples(const struct coordinator *c)
{
    return c->deposits ? c->deposits->samples : 0;
}

bool deposits_reach(const struct coordinator *c, uint32_t target)
{
    if (!c->deposits)
        return c->n_arrived >= target;
    return c->n_arrived * c->opt.batch + c->deposits->samples >=
           target * c->opt.batch;
}

void deposits_take(struct coordinator *c)
{
    for (uint32_t w = 0; c->deposits && w < c->n_workers; w++) {
        struct worker *worker = &c->worker[w];
        if (worker->arrived || !worker->deposited || c->peer[worker->node].lost)
            continue;
        take(c, worker);
        worker->cut_short = true;
    }
}

void deposits_reopen(struct coordinator *c)
{
    struct deposits *d = c->deposits;

    if (!d)
        return;
    d->samples = 0;
    for (uint32_t w = 0; w < c->n_workers; w++) {
        struct worker *worker = &c->worker[w];
        if (worker->arrived || c->peer[worker->node].lost)
            continue;
        d->samples += worker->deposited;
        if (worker->died)
            deposits_finish(c, w);
        if (worker->deposited)
            is_due(d, worker->node);
    }
}

static bool send_known(struct coordinator *c, uint32_t node,
                       const struct msg *m)
{
    const uint32_t *known = c->deposits->known;
    size_t bytes = m->count * sizeof *known;

    if (node)
        return c->transport->ops->control(c->transport, node, m, known, bytes);
    node_message(c->node, m, known, bytes);
    return true;
}

bool deposits_tell(struct coordinator *c)
{
    struct deposits *d = c->deposits;
    struct msg m = {.kind = MSG_KNOWN, .step = c->step};
    bool did = false;

    if (!d || !d->due)
        return false;
    d->due = false;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        const struct peer *p = &c->peer[i];
        if (!d->node_due[i])
            continue;
        m.count = p->n_local;
        for (uint32_t l = 0; l < p->n_local; l++)
            d->known[l] = c->worker[p->worker[l]].n_deposits;
        d->node_due[i] = !send_known(c, i, &m);
        d->due = d->due || d->node_due[i];
        did = did || !d->node_due[i];
    }
    return did;
}
