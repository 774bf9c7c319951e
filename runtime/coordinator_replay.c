#include "coordinator_replay.h"

#include "coordinator_late.h"
#include "coordinator_priv.h"
#include "error.h"

static void warn(struct coordinator *c, const struct dsgd_error *line)
{
    log_event(c, RECORD_EVENT_NOTE, -1, -1, line->text);
    if (c->opt.warn)
        c->opt.warn(c->opt.warn_context, line->text);
}

static void differs(struct coordinator *c, const char *what, uint64_t step)
{
    struct dsgd_error line;

    if (c->replay_differs)
        return;
    c->replay_differs = true;
    error_set(&line, DSGD_OK,
              "the replay is not what was recorded: %s step %llu", what,
              (unsigned long long)step);
    warn(c, &line);
}

void replay_assign(struct coordinator *c, struct sample_range *range)
{
    for (uint32_t w = 0; w < c->n_workers; w++) {
        const struct script_worker *s = record_replay_worker(c->replay, w);
        range[w] = (struct sample_range){.first = s->first, .count = s->count};
    }
}

uint64_t replay_limit(const struct coordinator *c, uint32_t worker)
{
    const struct script_worker *s = record_replay_worker(c->replay, worker);

    return s->given < s->count ? s->given : 0;
}

void replay_arrived(struct coordinator *c, uint32_t worker)
{
    if (!record_replay_worker(c->replay, worker)->late)
        return;
    late_take_out(c, &c->worker[worker]);
    c->worker[worker].working = false; /* and owes no more */
}

/* A worker that left, or gave other samples than it did then, is the program's
 * doing. */
static void check_contributions(struct coordinator *c)
{
    for (uint32_t w = 0; w < c->n_workers; w++) {
        const struct script_worker *s = record_replay_worker(c->replay, w);
        const struct worker *worker = &c->worker[w];
        uint64_t in_time = worker->arrived ? worker->samples : 0;
        uint64_t late = worker->late ? worker->late_samples : 0;
        uint64_t carried = worker->carry.taken ? worker->carry.samples : 0;
        if (c->deal && in_time == s->given + s->carried)
            continue;
        if (c->deal || in_time != (s->late ? 0 : s->given) ||
            late != (s->late ? s->given : 0) || carried != s->carried)
            differs(c, "other samples contributed to", c->step);
    }
}

/* What was carried is in the sum; who came late is in the next. */
static void settle(struct coordinator *c, uint32_t worker)
{
    struct worker *w = &c->worker[worker];

    if (w->carry.taken)
        log_contribution(c, worker, c->step - 1, &w->carry.range,
                         w->carry.samples);
    if (w->arrived && w->samples != w->range.count)
        log_contribution(c, worker, c->step, &w->range, w->samples);
    w->carry = (struct carry){0};
    if (w->late)
        w->carry = (struct carry){
            .range = w->range, .samples = w->late_samples, .buf = w->late_buf};
    w->late = false;
}

bool replay_publish(struct coordinator *c, bool *epoch_end, double *lr_scale)
{
    const struct record_step *s = record_replay_step(c->replay);
    bool last = record_replay_last(c->replay);
    struct dsgd_error error;

    *epoch_end = s->epoch_end;
    *lr_scale = s->lr_scale;
    check_contributions(c);
    for (uint32_t w = 0; w < c->n_workers && !c->deal; w++)
        settle(c, w);
    if (!last && record_replay_next(c->replay, &error) != DSGD_OK) {
        warn(c, &error);
        return true;
    }
    return last;
}

void replay_checksum(struct coordinator *c, uint32_t worker, uint64_t step,
                     uint64_t value)
{
    uint64_t want;

    if (c->replay && record_replay_checksum(c->replay, step, worker, &want) &&
        value != want)
        differs(c, "a replica differs after", step);
}
