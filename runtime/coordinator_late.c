#include "coordinator_late.h"

#include <math.h>

#include "coordinator_deposits.h"
#include "launch.h"

bool late_takes_whole(const struct dsgd_options *opt)
{
    return opt->late == DSGD_LATE_CARRY;
}

bool late_takes_parts(const struct dsgd_options *opt)
{
    if (opt->partial == DSGD_PARTIAL_AUTO)
        return late_takes_whole(opt);
    return opt->partial == DSGD_PARTIAL_CONTRIBUTE && !launch_deposits(opt);
}

static bool takes_any(const struct coordinator *c)
{
    return late_takes_whole(&c->opt) || late_takes_parts(&c->opt);
}

uint64_t late_count(const struct coordinator *c, const struct sample_range *r,
                    uint64_t samples)
{
    bool more = c->opt.sampler == DSGD_SAMPLER_RANGES && samples > r->count;

    return more ? r->count : samples;
}

/* The owed gradient has come, of the first `samples` of the range.  What was
 * not processed goes back now; of what is not wanted, all does. */
static void accept(struct coordinator *c, struct worker *w, uint64_t samples,
                   uint32_t buf)
{
    struct carry *carry = &w->carry;
    bool whole = samples >= carry->range.count;
    struct sample_range rest = carry->range;

    if (!samples ||
        !(whole ? late_takes_whole(&c->opt)
                : late_takes_parts(&c->opt) && sampler_may_split(c->sampler))) {
        sampler_settle(c->sampler, &carry->range, 0);
        *carry = (struct carry){0};
        return;
    }
    if (!whole) {
        rest.first += samples;
        rest.count -= samples;
        sampler_settle(c->sampler, &rest, 0);
        carry->range.count = samples;
    }
    carry->samples = samples;
    carry->buf = buf;
}

void late_commit(struct coordinator *c, uint32_t worker,
                 const struct msg_event *e)
{
    struct worker *w = &c->worker[worker];

    if (c->phase == PHASE_CLOSING && e->step == c->step &&
        (!w->arrived || w->cut_short) && w->range.count) {
        w->late = true;
        w->late_samples = late_count(c, &w->range, e->value);
        w->late_buf = e->buf;
    } else if (c->phase == PHASE_OPEN && e->step + 1 == c->step &&
               w->carry.range.count && !w->carry.samples) {
        accept(c, w, late_count(c, &w->carry.range, e->value), e->buf);
    }
}

uint8_t late_take(struct worker *w)
{
    w->carry.taken = w->carry.samples > 0;
    if (!w->carry.taken)
        return 0;
    return MSG_CARRIED | (w->carry.buf ? MSG_CARRIED_BUF : 0);
}

void late_take_out(struct coordinator *c, struct worker *w)
{
    if (!w->arrived)
        return;
    w->arrived = false;
    c->n_arrived--;
    if (w->cut_short) { /* what it has given since may be more */
        w->cut_short = false;
        return;
    }
    w->late = true;
    w->late_samples = w->samples;
    w->late_buf = w->buf;
}

void late_reopen(struct coordinator *c)
{
    for (uint32_t i = 0; i < c->n_workers; i++) {
        struct worker *w = &c->worker[i];
        if (!w->late || c->peer[w->node].lost)
            continue;
        w->late = false;
        c->n_settled++;
        if (!w->late_samples) {
            w->working = false;
            continue;
        }
        w->arrived = true;
        w->samples = w->late_samples;
        w->buf = w->late_buf;
        c->n_arrived++;
    }
    deposits_reopen(c);
}

void late_forget(struct coordinator *c, struct worker *w)
{
    if (c->replay) /* what was carried then is carried */
        return;
    /* Its node still sums it. */
    if (w->carry.taken && c->phase == PHASE_CLOSING &&
        c->peer[w->node].contributes)
        return;
    sampler_settle(c->sampler, &w->carry.range, 0);
    w->carry = (struct carry){0};
}

uint64_t late_samples(const struct coordinator *c)
{
    uint64_t samples = 0;

    for (uint32_t w = 0; w < c->n_workers; w++) {
        if (c->worker[w].arrived)
            samples += c->worker[w].samples;
        if (c->worker[w].carry.taken)
            samples += c->worker[w].carry.samples;
    }
    return samples;
}

/* What the closed step carried is contributed; what it could not goes back. */
static void settle_carry(struct coordinator *c, uint32_t worker)
{
    struct worker *w = &c->worker[worker];
    struct carry *carry = &w->carry;

    sampler_settle(c->sampler, &carry->range,
                   carry->taken ? carry->samples : 0);
    if (carry->taken) {
        log_contribution(c, worker, c->step - 1, &carry->range, carry->samples);
        w->cuts -= w->cuts > 0;
        w->cut_run = 0;
    }
    *carry = (struct carry){0};
}

/* For the limits. */
static void count_cut(struct worker *w)
{
    if (!loss_alive(w) || !w->range.count)
        return;
    w->steps++;
    w->cuts += !w->arrived;
    w->cut_run = w->arrived ? 0 : w->cut_run + 1;
}

static uint64_t next_step_needs(const struct coordinator *c)
{
    uint64_t n = 0;

    for (uint32_t w = 0; w < c->n_workers; w++)
        n += loss_alive(&c->worker[w]);
    return n * c->opt.batch;
}

void late_settle(struct coordinator *c)
{
    for (uint32_t i = 0; i < c->n_workers; i++) {
        struct worker *w = &c->worker[i];
        settle_carry(c, i);
        count_cut(w);
        if (w->arrived) {
            sampler_settle(c->sampler, &w->range, w->samples);
            if (w->samples != w->range.count)
                log_contribution(c, i, c->step, &w->range, w->samples);
        }
    }
    bool room = takes_any(c) && sampler_left(c->sampler) >= next_step_needs(c);
    for (uint32_t i = 0; i < c->n_workers; i++) {
        struct worker *w = &c->worker[i];
        if (!w->arrived && room && loss_alive(w) && w->working) {
            w->carry.range = w->range;
            if (w->late)
                accept(c, w, w->late_samples, w->late_buf);
        } else if (!w->arrived) {
            sampler_settle(c->sampler, &w->range, 0);
        }
        w->late = false;
    }
}

bool late_at_limit(const struct coordinator *c, const struct worker *w)
{
    double share = c->opt.max_cut_share;

    if (c->opt.max_cuts && w->cut_run >= c->opt.max_cuts)
        return true;
    return share > 0 && share < 1 &&
           (double)(w->cuts + 1) > share * (double)(w->steps + 1);
}

double late_lr_scale(const struct coordinator *c, uint64_t samples)
{
    double full = (double)c->n_workers, part = (double)samples;

    if (c->opt.lr_scale == DSGD_LR_SCALE_NONE)
        return 1;
    if (c->opt.batch) {
        full *= (double)c->opt.batch;
    } else { /* a program's own batches may have any size */
        part = 0;
        for (uint32_t w = 0; w < c->n_workers; w++)
            part += c->worker[w].arrived + c->worker[w].carry.taken;
    }
    return c->opt.lr_scale == DSGD_LR_SCALE_SQRT ? sqrt(part / full)
                                                 : part / full;
}
