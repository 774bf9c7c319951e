#include "coordinator.h"

#include <math.h>
#include <string.h>

#include "coordinator_checkpoint.h"
#include "coordinator_deposits.h"
#include "coordinator_dynamic.h"
#include "coordinator_late.h"
#include "coordinator_parts.h"
#include "coordinator_priv.h"
#include "coordinator_replay.h"

static void enter(struct coordinator *c, enum phase phase)
{
    c->phase = phase;
    c->phase_s = c->now_s;
}

/* It was in time for the step before, with all of its share. */
static bool was_done(const struct worker *worker)
{
    return worker->arrived && !worker->cut_short;
}

/* Ranges for the open step; who gets none is not expected to contribute. */
static void assign(struct coordinator *c)
{
    bool *able = c->flag_a, *prefer = c->flag_b;

    for (uint32_t w = 0; w < c->n_workers; w++) {
        able[w] = loss_alive(&c->worker[w]);
        prefer[w] = was_done(&c->worker[w]);
    }
    if (c->deal)
        memset(c->range, 0, c->n_workers * sizeof *c->range);
    else if (c->replay)
        replay_assign(c, c->range);
    else
        c->whole = sampler_assign(c->sampler, able, prefer, c->range);
    for (uint32_t w = 0; w < c->n_workers; w++) {
        struct worker *worker = &c->worker[w];
        worker->fresh = !worker->working || was_done(worker);
        if (worker->fresh)
            worker->owes_s = c->now_s;
        worker->range = c->range[w];
        worker->working = c->deal ? able[w] : worker->range.count > 0;
        worker->waited_for =
            worker->range.cuts >= SAMPLER_MAX_CUTS || late_at_limit(c, worker);
        worker->arrived = false;
        worker->samples = 0;
        worker->duration_s = NAN;
        worker->lag_s = NAN;
    }
}

/* Open step c->step: its ranges, and how many to wait for. */
static void open_step(struct coordinator *c)
{
    assign(c);
    deposits_open(c);
    c->n_working = c->n_settled = 0;
    for (uint32_t w = 0; w < c->n_workers; w++) {
        c->flag_a[w] = c->worker[w].working;
        c->n_working += c->flag_a[w];
    }
    c->target = (uint32_t)cutoff_begin(c->cutoff, c->flag_a, c->overhead_s);
    c->n_arrived = 0;
    c->attempt = 0;
    c->timed_out = false;
    c->step_s = c->now_s;
    enter(c, PHASE_OPEN);
    early_open(c);
    dyn_open(c);
    if (c->deal)
        deal_open(c);
}

static void show_mean(struct coordinator *c)
{
    c->own_waits = false;
    peers_shares(c, &c->peer[0]);
    node_show(c->node, &c->own_mean, c->share);
}

/* This node sees a mean last: sending it to the others competes with its own
 * workers, which would look slow.  A peer that is slow to take it is not waited
 * for long. */
static bool show_own(struct coordinator *c)
{
    double limit_s = .002 + 2 * c->overhead_s;

    if (!c->own_waits ||
        (c->now_s - c->published_s < limit_s && !peers_taken(c)))
        return false;
    show_mean(c);
    return true;
}

static void end_run(struct coordinator *c)
{
    const char *why = c->last ? NULL : loss_of_all(c);

    enter(c, PHASE_ENDING);
    if (c->own_waits)
        show_mean(c);
    c->broken = why != NULL;
    if (why)
        node_break(c->node, why);
    else
        node_end(c->node, c->published);
}

/* An early end does not wait for all to come to the boundary: what ended it may
 * not wait either. */
static bool may_end_early(struct coordinator *c)
{
    const double patience_s = 5;

    return c->preempted && !checkpoints_want_state(c) &&
           (peers_taken(c) || c->now_s - c->phase_s > patience_s);
}

/* A step boundary that all who live come to: the start, the end of an epoch,
 * the end of the run. */
static bool tick_boundary(struct coordinator *c)
{
    uint32_t n_alive = 0, n_left = 0;

    checkpoints_boundary(c);
    if (may_end_early(c)) {
        end_run(c);
        return true;
    }
    loss_find(c);
    for (uint32_t w = 0; w < c->n_workers; w++) {
        const struct worker *worker = &c->worker[w];
        n_left += worker->left;
        n_alive += loss_alive(worker);
        if (loss_alive(worker) && worker->ready < c->step)
            return false;
    }
    if (n_left == c->n_workers || c->last || loss_of_all(c)) {
        end_run(c);
        return true;
    }
    if (!n_alive)
        return false;
    open_step(c);
    if (!c->origin_s)
        c->origin_s = c->now_s;
    peers_start(c);
    return true;
}

/* The open step has something to sum. */
static bool anything(const struct coordinator *c)
{
    return c->n_arrived || deposits_samples(c);
}

/* Nothing has happened that the open step could close upon. */
static bool goes_on(const struct coordinator *c)
{
    if (c->n_settled >= c->n_working)
        return false;
    if (!anything(c) || !c->whole)
        return true;
    return c->dyn ? coordinator_next_s(c) > c->now_s
                  : !deposits_reach(c, c->target);
}

static bool should_close(struct coordinator *c)
{
    uint32_t owing = 0;
    bool idle = false; /* somebody lives who has given what it had */

    if (goes_on(c))
        return false;
    for (uint32_t w = 0; w < c->n_workers; w++) {
        const struct worker *worker = &c->worker[w];
        bool owes = worker->working && !worker->arrived && loss_alive(worker);
        owing += owes;
        idle = idle || loss_alive(worker);
        if (owes && worker->waited_for)
            return false;
    }
    if (!owing)
        return anything(c) || idle;
    if (!anything(c))
        return false;
    if (c->dyn)
        return c->whole && dyn_close(c);
    return c->whole && deposits_reach(c, c->target);
}

/* With nobody left who could contribute there is nothing to wait for. */
static bool all_left(const struct coordinator *c)
{
    for (uint32_t w = 0; w < c->n_workers; w++) {
        if (!c->worker[w].left)
            return false;
    }
    return true;
}

static void begin_close(struct coordinator *c)
{
    deposits_take(c);
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        struct peer *p = &c->peer[i];
        p->contributes = false;
        for (uint32_t l = 0; l < p->n_local; l++) {
            struct worker *worker = &c->worker[p->worker[l]];
            p->mask[l] = late_take(worker);
            if (worker->arrived)
                p->mask[l] |= MSG_OWN | (worker->buf ? MSG_OWN_BUF : 0);
            p->contributes = p->contributes || p->mask[l];
        }
    }
    dyn_closed(c);
    c->attempt += !early_accepts(c);
    c->close_s = c->wait_s = c->now_s;
    enter(c, PHASE_CLOSING);
    peers_close(c);
}

float coordinator_factor(const struct coordinator *c)
{
    return (float)(1.0 / (double)late_samples(c));
}

/* Nobody had anything to give: the mean is zero. */
static void clear_mean(struct coordinator *c)
{
    if (c->exchange)
        exchange_drop(c->exchange);
    memset(node_reserve(c->node), 0, node_grad_elems(c->node) * sizeof(float));
}

/* Returns whether the mean is whole, in the reserved slot. */
static bool make_mean(struct coordinator *c)
{
    if (!coordinator_gives(c))
        clear_mean(c);
    else if (c->exchange)
        return exchange_complete(c->exchange, c->step, c->attempt);
    else
        node_sum(c->node, c->peer[0].mask, coordinator_factor(c));
    return true;
}

static void account(struct coordinator *c, uint64_t samples)
{
    double overhead = c->now_s - c->close_s;

    c->run_samples += samples;
    c->run_s += c->now_s - c->step_s;
    if (!c->published)
        c->overhead_s = overhead;
    else if (!c->timed_out) /* a timeout is no cost of the next step */
        c->overhead_s = .9 * c->overhead_s + .1 * overhead;
    cutoff_end(c->cutoff);
}

/* Whoever contributed owes its readiness from now on. */
static void enter_boundary(struct coordinator *c)
{
    for (uint32_t w = 0; w < c->n_workers; w++) {
        struct worker *worker = &c->worker[w];
        if (!worker->working || was_done(worker))
            worker->owes_s = c->now_s;
    }
    enter(c, PHASE_BOUNDARY);
}

/* The sum of step c->step is complete: show the mean and go on. */
static void publish(struct coordinator *c)
{
    uint64_t samples = late_samples(c), epoch;
    struct seg_mean about = {.samples = samples,
                             .lr_scale = late_lr_scale(c, samples)};
    bool epoch_end, last = false;

    c->final_attempt = c->attempt;
    c->now_s = own_clock_s(c->clock);
    for (uint32_t w = 0; w < c->n_workers; w++)
        about.contributors += c->worker[w].arrived;
    epoch = sampler_epoch(c->sampler);
    if (c->replay) {
        if (c->deal)
            deal_settle(c);
        last = replay_publish(c, &epoch_end, &about.lr_scale);
        sampler_skip(c->sampler, epoch_end);
    } else {
        if (c->deal)
            deal_settle(c);
        else
            late_settle(c);
        epoch_end = sampler_epoch_end(c->sampler);
    }
    log_step(c, epoch_end, samples, about.lr_scale);
    account(c, samples);
    c->last = last || (c->opt.max_steps && c->step >= c->opt.max_steps) ||
              (epoch_end && c->opt.epochs &&
               sampler_epoch(c->sampler) >= c->opt.epochs);
    about.epoch = epoch;
    about.epoch_end = epoch_end || c->last;
    c->published = c->step++;
    c->published_s = c->now_s;
    about.checkpoint = checkpoints_publish(c);

    if (about.epoch_end || c->preempted)
        enter_boundary(c);
    else
        open_step(c);
    c->own_mean = peers_mean(c, c->published, &about);
    c->own_waits = true;
    node_commit(c->node, &c->own_mean);
    peers_committed(c);
}

/* Take nodes that do not deliver out of the step, and begin again without them:
 * as a star.  Returns whether the time to deliver was over. */
static bool drop_late_nodes(struct coordinator *c)
{
    if (c->replay || !c->exchange ||
        c->now_s - c->wait_s <= coordinator_hard_timeout_s(c))
        return false;
    c->wait_s = c->now_s;
    c->timed_out = true;
    for (uint32_t i = 1; i < c->n_nodes; i++) {
        struct peer *p = &c->peer[i];
        if (!coordinator_late(c, i))
            continue;
        for (uint32_t l = 0; l < p->n_local && !c->deal; l++)
            late_take_out(c, &c->worker[p->worker[l]]);
        if (c->deal)
            deal_lose(c, i);
        p->contributes = false;
        loss_node(c, i, "did not deliver its sum for one hard timeout");
    }
    c->attempt++;
    if (c->n_arrived)
        peers_close(c);
    return true;
}

/* All that had arrived were on nodes that are lost.  The other nodes' sums are
 * of carried gradients; they are asked for anew. */
static void reopen(struct coordinator *c)
{
    exchange_drop(c->exchange);
    exchange_refuse(c->exchange, c->step);
    for (uint32_t i = 1; i < c->n_nodes; i++)
        c->peer[i].contributes = false;
    enter(c, PHASE_OPEN);
    late_reopen(c);
}

static bool tick_closing(struct coordinator *c)
{
    if (make_mean(c)) {
        publish(c);
        return true;
    }
    if (drop_late_nodes(c) && !c->n_arrived) {
        reopen(c);
        return true;
    }
    return false;
}

static bool tick_open(struct coordinator *c)
{
    loss_find(c);
    if (deal_hopeless(c) || (!anything(c) && (all_left(c) || loss_of_all(c)))) {
        end_run(c);
        return true;
    }
    bool did = c->deal ? deal_tick(c) : dyn_pump(c);
    if (!(c->deal ? deal_done(c) : should_close(c)))
        return deposits_tell(c) || did;
    begin_close(c);
    if (!c->exchange)
        tick_closing(c);
    return true;
}

/* The nodes' last words are in, or overdue: complete the record. */
static bool tick_ending(struct coordinator *c)
{
    double limit_s = 2 * coordinator_hard_timeout_s(c) + 1;
    struct dsgd_error error;

    for (uint32_t i = 0; i < c->n_nodes; i++) {
        if (!c->peer[i].bye && c->now_s - c->phase_s < limit_s)
            return false;
    }
    if (checkpoints_busy(c))
        return false;
    for (uint32_t w = 0; w < c->n_workers; w++) {
        struct worker *worker = &c->worker[w];
        if (!c->peer[worker->node].bye)
            worker->stuck = true;
        if (worker->stuck)
            log_event(c, RECORD_EVENT_LEFT, (int32_t)w, -1,
                      "never came to the end of the run");
    }
    if (record_close(c->record, !c->preempted && !c->broken,
                     c->now_s - c->origin_s, RECORD_FLUSH_S,
                     &error) != DSGD_OK &&
        c->opt.warn)
        c->opt.warn(c->opt.warn_context, error.text);
    c->record = NULL;
    enter(c, PHASE_REAPING);
    return true;
}

bool coordinator_rests(const struct coordinator *c)
{
    return c->phase == PHASE_OPEN && !c->n_settled && !checkpoints_busy(c);
}

bool coordinator_tick(struct coordinator *c, double now_s)
{
    struct dsgd_error warning;
    bool did = false;

    c->now_s = now_s;
    if (c->record && c->opt.warn && record_warning(c->record, &warning))
        c->opt.warn(c->opt.warn_context, warning.text);
    did = checkpoints_pump(c);
    switch (c->phase) {
    case PHASE_BOUNDARY:
        did = tick_boundary(c) || did;
        break;
    case PHASE_OPEN:
        did = tick_open(c) || did;
        break;
    case PHASE_CLOSING:
        did = tick_closing(c) || did;
        break;
    case PHASE_ENDING:
        did = tick_ending(c) || did;
        break;
    case PHASE_REAPING:
        break;
    }
    did = peers_pump(c) || did;
    return show_own(c) || did;
}
