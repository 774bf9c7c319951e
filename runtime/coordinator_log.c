#include <stdio.h>
#include <string.h>

#include "coordinator_priv.h"

void log_event(struct coordinator *c, enum record_event_kind kind,
               int32_t worker, int32_t node, const char *text)
{
    struct record_event e = {.kind = kind,
                             .step = c->step,
                             .worker = worker,
                             .node = node,
                             .at_s = c->now_s - c->origin_s};
    if (!c->origin_s) /* before the first step */
        e.at_s = 0;
    snprintf(e.text, sizeof e.text, "%s", text);
    record_put_event(c->record, &e);
}

void log_step(struct coordinator *c, bool epoch_end, uint64_t samples,
              double lr_scale)
{
    struct record_step row = {.step = c->step,
                              .epoch = sampler_epoch(c->sampler) - epoch_end,
                              .attempt = c->attempt + c->early.used,
                              .target = c->target,
                              .contributors = c->n_arrived,
                              .epoch_end = epoch_end,
                              .samples = samples,
                              .start_s = c->step_s - c->origin_s,
                              .close_s = c->close_s - c->step_s,
                              .publish_s = c->now_s - c->step_s,
                              .lr_scale = lr_scale,
                              .mask = c->row_mask,
                              .duration_s = c->row_duration,
                              .lag_s = c->row_lag,
                              .first = c->row_first,
                              .count = c->row_count};

    for (uint32_t w = 0; w < c->n_workers; w++) {
        const struct worker *worker = &c->worker[w];
        row.alive += !worker->lost && !worker->left;
        c->row_mask[w] = worker->arrived;
        c->row_duration[w] = worker->duration_s;
        c->row_lag[w] = worker->lag_s;
        c->row_first[w] = worker->range.first;
        c->row_count[w] = (uint32_t)worker->range.count;
    }
    record_put_step(c->record, &row);
}

void log_contribution(struct coordinator *c, uint32_t worker, uint64_t from,
                      const struct sample_range *range, uint64_t samples)
{
    struct record_contribution row = {.step = c->step,
                                      .worker = worker,
                                      .from = from,
                                      .first = range->first,
                                      .samples = samples};
    record_put_contribution(c->record, &row);
}

void log_late(struct coordinator *c, uint32_t worker, const struct msg_event *e)
{
    struct record_late late = {.step = e->step,
                               .worker = worker,
                               .duration_s = e->duration_s / e->fraction,
                               .lag_s = e->lag_s,
                               .fraction = e->fraction};
    record_put_late(c->record, &late);
}

void log_checksum(struct coordinator *c, uint32_t worker,
                  const struct msg_event *e)
{
    struct worker *w = &c->worker[worker];

    w->checksum_step = e->step;
    w->checksum = e->value;
    record_put_checksum(c->record, e->step, worker, e->value);
    for (uint32_t i = 0; i < c->n_workers; i++) {
        const struct worker *other = &c->worker[i];
        if (other->checksum_step != e->step)
            continue;
        if (other->checksum != e->value) {
            log_event(c, RECORD_EVENT_CHECKSUM, (int32_t)worker, -1,
                      "its replica differs from the others'");
            if (c->opt.warn)
                c->opt.warn(c->opt.warn_context,
                            "replicas differ: the registered state of two "
                            "workers is not the same after an epoch; the "
                            "record says whose");
        }
        break;
    }
}
