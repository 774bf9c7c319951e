#include "coordinator_checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator_dynamic.h"
#include "coordinator_parts.h"
#include "coordinator_priv.h"
#include "error.h"
#include "launch.h"

/* A record that can't be written holds a checkpoint up so long. */
#define RECORD_WAIT_S 5.0

struct snapshot {
    struct checkpoint_facts facts;
    unsigned char *sampler,
        *timing; /* [sampler_state_most], [dyn_state_bytes] */
    size_t sampler_bytes;
    struct state_copy state; /* fd -1: not there yet */
    uint64_t mark;           /* of the record */
    double at_s;             /* own clock */
};

struct checkpoints {
    struct checkpoint_store *store;
    struct snapshot snapshot[2];
    struct snapshot *waiting, *writing; /* two of them, or NULL */
    uint32_t request;                   /* enum seg_request */
    uint64_t last_step;                 /* of the last one */
    double last_s;                      /* own clock */
    size_t timing_bytes;
};

static void warn(const struct coordinator *c, const struct dsgd_error *line)
{
    if (c->opt.warn)
        c->opt.warn(c->opt.warn_context, line->text);
}

void checkpoints_free(struct coordinator *c)
{
    struct checkpoints *k = c->checkpoints;

    if (!k)
        return;
    checkpoint_store_close(k->store); /* its thread reads the snapshot */
    for (int i = 0; i < 2; i++) {
        state_drop(&k->snapshot[i].state);
        free(k->snapshot[i].sampler);
        free(k->snapshot[i].timing);
    }
    free(k);
    c->checkpoints = NULL;
}

static bool allocate(struct coordinator *c, struct checkpoints *k)
{
    size_t queue = sampler_state_most(c->sampler, c->n_workers);
    bool good = true;

    k->timing_bytes = dyn_state_bytes(c);
    for (int i = 0; i < 2; i++) {
        struct snapshot *s = &k->snapshot[i];
        s->state.fd = -1;
        s->sampler = malloc(queue);
        s->timing = malloc(k->timing_bytes + 1);
        good = good && s->sampler && s->timing;
    }
    return good;
}

/* The run is at the boundary after the checkpoint's step. */
static enum dsgd_err resume(struct coordinator *c,
                            const struct checkpoint_read *from,
                            struct dsgd_error *err)
{
    const struct checkpoint_facts *f = &from->facts;
    struct dsgd_error why, line;
    enum dsgd_err rc =
        sampler_state_load(c->sampler, from->sampler, from->sampler_bytes, err);

    if (rc != DSGD_OK)
        return rc;
    if (from->timing_bytes && (c->dyn || c->sizes) &&
        dyn_state_load(c, from->timing, from->timing_bytes, &why) != DSGD_OK) {
        error_set(&line, DSGD_OK, "the timing model begins anew: %.400s",
                  why.text);
        warn(c, &line);
    }
    c->published = c->resumed = f->step;
    c->step = f->step + 1;
    c->run_samples = f->run_samples;
    c->run_s = f->run_s;
    c->last = (c->opt.max_steps && f->step >= c->opt.max_steps) ||
              (c->opt.epochs && sampler_epoch(c->sampler) >= c->opt.epochs);
    for (uint32_t i = 0; i < c->n_nodes; i++)
        c->peer[i].sent = f->step;
    return DSGD_OK;
}

enum dsgd_err checkpoints_create(struct coordinator *c,
                                 struct checkpoint_store *store,
                                 const struct checkpoint_read *from,
                                 struct dsgd_error *err)
{
    enum dsgd_err rc = DSGD_OK;

    if (!store)
        return DSGD_OK;
    if (from)
        rc = resume(c, from, err);
    struct checkpoints *k = calloc(1, sizeof *k);
    if (k)
        k->snapshot[0].state.fd = k->snapshot[1].state.fd = -1;
    if (rc == DSGD_OK && (!k || !allocate(c, k)))
        rc = error_set(err, DSGD_E_NOMEM, "checkpoints: no memory");
    if (!k) {
        checkpoint_store_close(store);
        return rc;
    }
    k->store = store;
    k->last_step = c->published;
    c->checkpoints = k;
    return rc; /* on an error coordinator_destroy frees it */
}

void checkpoints_request(struct coordinator *c, uint32_t request)
{
    if (c->checkpoints)
        c->checkpoints->request |= request;
}

static void fill_facts(const struct coordinator *c, struct checkpoint_facts *f)
{
    *f = (struct checkpoint_facts){.grad_elems = c->opt.grad_elems,
                                   .n_samples = c->opt.n_samples,
                                   .sampler = c->opt.sampler,
                                   .step = c->published,
                                   .epoch = sampler_epoch(c->sampler),
                                   .batch = c->opt.batch,
                                   .n_workers = c->n_workers,
                                   .n_nodes = c->n_nodes,
                                   .run_samples = c->run_samples,
                                   .run_s = c->run_s};
    memcpy(f->program, c->opt.program, sizeof c->opt.program);
    memcpy(f->identity, c->opt.identity, sizeof c->opt.identity);
    launch_run_name(f->run, sizeof f->run);
}

/* Gradients that are carried are not in the state: their samples come back. */
static size_t save_queue(struct coordinator *c, unsigned char *out)
{
    deal_hold_nothing(c);
    for (uint32_t w = 0; w < c->n_workers; w++)
        c->range[w] = c->worker[w].carry.range;
    return sampler_state_save(c->sampler, c->range, c->n_workers, out);
}

/* An older one that still waits for a worker's state makes way. */
static void take(struct coordinator *c)
{
    struct checkpoints *k = c->checkpoints;
    struct snapshot *s = &k->snapshot[k->writing == &k->snapshot[0]];

    if (k->waiting)
        state_drop(&k->waiting->state);
    k->waiting = s;
    k->request = 0;
    k->last_step = c->published;
    k->last_s = c->now_s;
    fill_facts(c, &s->facts);
    s->sampler_bytes = save_queue(c, s->sampler);
    dyn_state_save(c, s->timing);
    s->mark = record_mark(c->record);
    s->at_s = c->now_s;
    node_ask_checkpoint(c->node, c->published);
}

static bool is_due(const struct coordinator *c)
{
    const struct checkpoints *k = c->checkpoints;
    uint64_t steps = c->opt.checkpoint_steps;
    double period_s = 60 * c->opt.checkpoint_minutes;

    if (c->last || k->request)
        return true;
    if (k->waiting || k->writing)
        return false;
    return (steps && c->published - k->last_step >= steps) ||
           (period_s > 0 && c->now_s - k->last_s >= period_s);
}

static void preempt(struct coordinator *c)
{
    c->preempted = c->last = true;
    node_preempt(c->node);
    log_event(c, RECORD_EVENT_PREEMPTED, -1, -1,
              "ended early, at a checkpoint, because it was asked to");
}

bool checkpoints_publish(struct coordinator *c)
{
    struct checkpoints *k = c->checkpoints;

    if (!k || !is_due(c))
        return false;
    if ((k->request & SEG_REQUEST_END) && !c->last)
        preempt(c);
    take(c);
    return true;
}

void checkpoints_boundary(struct coordinator *c)
{
    struct checkpoints *k = c->checkpoints;

    if (!k || !(k->request & SEG_REQUEST_END) || c->last)
        return;
    preempt(c);
    if (c->published)
        take(c);
}

/* Nobody is going to give the state any more, or is taking too long. */
static bool is_in_vain(const struct coordinator *c, const struct snapshot *s)
{
    if (c->phase >= PHASE_ENDING && !node_checkpoint_begun(c->node))
        return true;
    return c->now_s - s->at_s > coordinator_hard_timeout_s(c);
}

static bool pump_waiting(struct coordinator *c)
{
    struct checkpoints *k = c->checkpoints;
    struct snapshot *s = k->waiting;
    struct dsgd_error line;

    if (s->state.fd < 0 &&
        !node_checkpoint_take(c->node, s->facts.step, &s->state)) {
        if (!is_in_vain(c, s))
            return false;
        node_ask_checkpoint(c->node, 0);
        k->waiting = NULL;
        k->request |= SEG_REQUEST_CHECKPOINT; /* at the next boundary */
        error_set(&line, DSGD_OK,
                  "the checkpoint of step %llu was given up: no worker of the "
                  "first node gave its state in time",
                  (unsigned long long)s->facts.step);
        warn(c, &line);
        return true;
    }
    if (k->writing || (!record_stored(c->record, s->mark) &&
                       c->now_s - s->at_s < RECORD_WAIT_S))
        return false;
    struct checkpoint file = {.facts = s->facts,
                              .sampler = s->sampler,
                              .sampler_bytes = s->sampler_bytes,
                              .timing = s->timing,
                              .timing_bytes = k->timing_bytes,
                              .state = s->state.data,
                              .state_bytes = s->state.bytes};
    checkpoint_store_put(k->store, &file);
    k->writing = s;
    k->waiting = NULL;
    return true;
}

static bool pump_writing(struct coordinator *c)
{
    struct checkpoints *k = c->checkpoints;
    struct dsgd_error result, line;

    switch (checkpoint_store_poll(k->store, &result)) {
    case CHECKPOINT_IDLE:
    case CHECKPOINT_BUSY:
        return false;
    case CHECKPOINT_WRITTEN:
        log_event(c, RECORD_EVENT_SAVED, -1, -1, result.text);
        break;
    case CHECKPOINT_FAILED:
        log_event(c, RECORD_EVENT_NOTE, -1, -1, result.text);
        error_set(&line, DSGD_OK,
                  "no checkpoint: %.400s: the older ones are kept",
                  result.text);
        warn(c, &line);
        break;
    }
    state_drop(&k->writing->state);
    k->writing = NULL;
    return true;
}

bool checkpoints_pump(struct coordinator *c)
{
    struct checkpoints *k = c->checkpoints;
    bool did = false;

    if (k && k->waiting)
        did = pump_waiting(c);
    if (k && k->writing)
        did = pump_writing(c) || did;
    return did;
}

void checkpoints_died(struct coordinator *c)
{
    struct checkpoints *k = c->checkpoints;

    if (checkpoints_want_state(c) && node_checkpoint_begun(c->node))
        node_ask_checkpoint(c->node, k->waiting->facts.step);
}

bool checkpoints_want_state(const struct coordinator *c)
{
    const struct checkpoints *k = c->checkpoints;

    return k && k->waiting && k->waiting->state.fd < 0;
}

bool checkpoints_busy(const struct coordinator *c)
{
    const struct checkpoints *k = c->checkpoints;

    return k && (k->waiting || k->writing);
}
