#include "coordinator_replay.h"

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
    const struct record_step *s = record_replay_step(c->replay);

    for (uint32_t w = 0; w < c->n_workers; w++) {
        range[w] = (struct sample_range){0};
        if (s->mask[w])
            range[w] = (struct sample_range){.first = s->first[w],
                                             .count = s->count[w]};
    }
}

/* A worker that left, or gave less than it was given, is the program's doing. */
static void check_contributions(struct coordinator *c,
                                const struct record_step *s)
{
    for (uint32_t w = 0; w < c->n_workers; w++) {
        const struct worker *worker = &c->worker[w];
        if (worker->arrived != (s->mask[w] != 0) ||
            (worker->arrived && worker->samples != s->count[w]))
            differs(c, "other samples contributed to", s->step);
    }
}

bool replay_publish(struct coordinator *c, bool *epoch_end, double *lr_scale)
{
    const struct record_step *s = record_replay_step(c->replay);
    bool last = record_replay_last(c->replay);
    struct dsgd_error error;

    *epoch_end = s->epoch_end;
    *lr_scale = s->lr_scale;
    check_contributions(c, s);
    if (record_replay_next(c->replay, &error) != DSGD_OK)
        warn(c, &error);
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
