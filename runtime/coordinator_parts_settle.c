/* What becomes of a step's parts: recorded, held for the next step, given
 * back. */
#include <math.h>

#include "coordinator_parts_priv.h"
#include "coordinator_shares.h"

static void put_row(struct coordinator *c, struct record_contribution *row)
{
    if (!row->samples)
        return;
    record_put_contribution(c->record, row);
    row->nth++;
    row->samples = 0;
}

/* A worker has added the part after those before: its node numbers parts in the
 * order in which they are claimed. */
static void add_to_row(struct coordinator *c, const struct deal_part *p,
                       uint64_t from)
{
    struct record_contribution *row = &c->deal->row[p->worker];

    if (row->from != from || row->first + row->samples != p->first ||
        !row->samples || row->samples % row->part || p->count > row->part) {
        put_row(c, row);
        row->from = from;
        row->first = p->first;
        row->part = p->count;
    }
    row->samples += p->count;
}

/* What was carried comes first. */
static void record_node(struct coordinator *c, const struct deal_node *n)
{
    for (uint32_t i = 0; i < n->n_held; i++) {
        if (n->held[i].count && n->held[i].worker != NOBODY)
            add_to_row(c, &n->held[i], c->step - 1);
    }
    for (uint32_t i = 0; i < n->n; i++) {
        if (n->part[i].worker != NOBODY)
            add_to_row(c, &n->part[i], c->step);
    }
}

static void record_parts(struct coordinator *c)
{
    struct record_contribution *row = c->deal->row;

    for (uint32_t w = 0; w < c->n_workers; w++)
        row[w] = (struct record_contribution){.step = c->step, .worker = w};
    for (uint32_t i = 0; i < c->n_nodes; i++)
        record_node(c, &c->deal->node[i]);
    for (uint32_t w = 0; w < c->n_workers; w++)
        put_row(c, &row[w]);
}

void deal_take_back(struct coordinator *c, const struct deal_part *p)
{
    if (p->count)
        sampler_take_back(c->sampler, p->first, p->count);
}

void deal_release_node(struct coordinator *c, struct deal_node *n)
{
    for (uint32_t i = n->n_held; i-- > 0;)
        deal_take_back(c, &n->held[i]);
    n->n_held = 0;
}

bool deal_release(struct coordinator *c)
{
    bool any = false;

    for (uint32_t i = c->n_nodes; i-- > 0;) {
        any = any || c->deal->node[i].n_held;
        deal_release_node(c, &c->deal->node[i]);
    }
    return any;
}

void deal_hold_nothing(struct coordinator *c)
{
    if (c->deal && !c->replay)
        deal_release(c);
}

/* Contributed, or if nothing is to be held given back. */
static void settle_part(struct coordinator *c, struct deal_part *p, bool hold)
{
    if (!p->count || (hold && p->worker == NOBODY))
        return;
    if (p->worker == NOBODY)
        deal_take_back(c, p);
    else
        sampler_done(c->sampler, p->count);
    p->count = 0;
}

static void turn(struct deal_node *n, bool hold)
{
    struct deal_part *held = n->part;

    n->part = n->held;
    n->held = held;
    n->n_held = hold ? n->n : 0;
    n->n = 0;
}

/* First parts are not held, see node_parts.h. */
static void settle_node(struct coordinator *c, uint32_t node)
{
    struct deal *d = c->deal;
    struct deal_node *n = &d->node[node];
    bool hold = c->opt.late == DSGD_LATE_CARRY && !d->ending &&
                !d->tokens.node[node].out;

    for (uint32_t i = n->n; i-- > 0;)
        settle_part(c, &n->part[i], hold && i >= n->fixed);
    for (uint32_t i = n->n_held; i-- > 0;)
        settle_part(c, &n->held[i], false);
    turn(n, hold);
}

/* In a replay what was kept is held. */
static void settle_script(struct deal_node *n)
{
    bool hold = false;

    for (uint32_t i = 0; i < n->n; i++) {
        if (!n->part[i].kept)
            n->part[i].count = 0;
        hold = hold || n->part[i].kept;
    }
    turn(n, hold);
}

/* A batch at a worker's rate in this step, as seen from here: what it had in
 * hand at the close counts, as half a part, for what takes long is what is in
 * hand; or in the next step, when it is carried.  So does a first part that was
 * withdrawn: it was with that before.  NaN: it gave nothing. */
static double batch_s(const struct coordinator *c, uint32_t w)
{
    const struct deal *d = c->deal;
    const struct worker *worker = &c->worker[w];
    double samples = (double)worker->samples, s = d->busy_s[w];
    double in_hand_s = deal_spent_s(d, w, c->close_s);

    if (!worker->arrived || !(s > 0))
        return NAN;
    if (in_hand_s > 0 && c->opt.late != DSGD_LATE_CARRY) {
        s += in_hand_s;
        samples += d->waits[w] ? (double)d->waits[w] : .5 * (double)d->part;
    }
    samples += .5 * (double)d->lost[w];
    return s / samples * (double)c->opt.batch;
}

double deal_at_least_s(const struct coordinator *c, uint32_t w)
{
    const struct deal *d = c->deal;
    uint64_t samples = d->first[w] ? d->first[w] : d->lost[w];
    double until_s = samples == d->first[w] ? c->close_s : d->lost_s[w];

    if (!samples)
        samples = d->part;
    return (until_s - d->since_s[w]) * (double)c->opt.batch / (double)samples;
}

static void observe(struct coordinator *c)
{
    for (uint32_t w = 0; w < c->n_workers; w++) {
        double took_s = batch_s(c, w);
        if (isnan(took_s))
            continue;
        c->worker[w].duration_s = (float)took_s;
        cutoff_observe(c->cutoff, w, took_s);
    }
}

void deal_settle(struct coordinator *c)
{
    const double fade = .9;
    struct deal *d = c->deal;

    record_parts(c);
    for (uint32_t i = c->n_nodes; i-- > 0;) {
        if (c->replay)
            settle_script(&d->node[i]);
        else
            settle_node(c, i);
    }
    observe(c);
    d->slow_s *= fade;
    sizes_settle(c, d->tokens.accepted);
    tokens_close(&d->tokens);
}
