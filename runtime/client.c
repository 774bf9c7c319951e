#include "client.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chunks.h"
#include "error.h"
#include "launch.h"
#include "preempt.h"
#include "sys.h"

/* A worker that waits for another's state asks again after so long. */
#define BEHIND_AGAIN_NS UINT64_C(200000000)

void client_sign_of_life(struct dsgd *d)
{
    atomic_store_explicit(&client_self(d)->life_ns, sys_now_ns(),
                          memory_order_relaxed);
}

static void take_place(struct dsgd *d)
{
    d->replaces = atomic_load(&client_self(d)->exit) == SEG_EXIT_DIED;
    d->hold_step = atomic_load(&client_self(d)->hold_step);
    atomic_store(&client_self(d)->exit, SEG_EXIT_NONE);
    segment_join(&d->seg, d->local);
    atomic_store(&client_self(d)->pid, (int32_t)getpid());
    client_sign_of_life(d);
}

enum dsgd_err client_create(const struct dsgd_options *opt,
                            const struct segment *seg, uint32_t local,
                            struct aggregator *agg, struct dsgd **out,
                            struct dsgd_error *err)
{
    struct dsgd *d = calloc(1, sizeof *d);
    *out = NULL;
    if (!d)
        return error_set(err, DSGD_E_NOMEM, "worker: no memory");
    d->seg = *seg;
    d->local = local;
    d->agg = agg;
    d->size = d->nodes = 1;
    d->grad_elems = opt->grad_elems;
    d->sampler = opt->sampler;
    d->work.shared = opt->work == DSGD_WORK_SHARED;
    d->work.deposits = opt->deposits && opt->sampler == DSGD_SAMPLER_RANGES;
    d->work.counts = launch_deposits(opt);
    d->work.per_part = launch_part(opt);
    if (client_is_worker(d) && launch_keeps_parts(opt) &&
        !carry_create(&d->work.carry, opt->grad_elems)) {
        carry_free(&d->work.carry);
        free(d);
        return error_set(err, DSGD_E_NOMEM, "worker: no memory");
    }
    d->copy.fd = d->checkpoint.fd = -1;
    d->has_checkpoints = *opt->checkpoint_dir != '\0';
    d->watches = d->has_checkpoints && opt->checkpoint_signals;
    if (client_is_worker(d))
        take_place(d);
    if (client_is_worker(d) && agg)
        aggregator_let_drive(agg);
    *out = d;
    return DSGD_OK;
}

void client_destroy(struct dsgd *d)
{
    if (!d)
        return;
    aggregator_destroy(d->agg);
    if (d->watches)
        preempt_unwatch();
    state_drop(&d->copy);
    state_drop(&d->checkpoint);
    segment_detach(&d->seg);
    carry_free(&d->work.carry);
    free(d->parts);
    free(d);
}

/* Waits until this process is to be ended in its main thread's place. */
static void *help(void *argument)
{
    struct dsgd *d = argument;
    struct seg_worker *worker = client_self(d);

    for (;;) {
        uint32_t seen = atomic_load(&worker->reap);
        if (atomic_load(&d->helper_stop))
            return NULL;
        if (atomic_load(&worker->exit) == SEG_EXIT_REAPED)
            break;
        sys_futex_wait(&worker->reap, seen, UINT64_MAX);
    }
    if (d->agg)
        aggregator_join(d->agg);
    if (d->finalize)
        d->finalize();
    _exit(0);
}

enum dsgd_err client_start(struct dsgd *d, void (*finalize)(void),
                           struct dsgd_error *err)
{
    d->finalize = finalize;
    if (d->agg) {
        enum dsgd_err rc = aggregator_start(d->agg, err);
        if (rc != DSGD_OK)
            return rc;
    }
    if (client_is_worker(d)) {
        enum dsgd_err rc = sys_thread_start(&d->helper, help, d, "worker", err);
        if (rc != DSGD_OK)
            return rc;
        d->has_helper = true;
    }
    d->watches = d->watches && preempt_watch(d->seg.h);
    return DSGD_OK;
}

static void post(struct dsgd *d, enum seg_event_kind kind, uint64_t step,
                 uint64_t value, float fraction)
{
    struct seg_event e = {.kind = kind,
                          .fraction = fraction,
                          .step = step,
                          .at_ns = sys_now_ns(),
                          .value = value,
                          .buf = atomic_load(&client_self(d)->buf)};
    atomic_store_explicit(&client_self(d)->life_ns, e.at_ns,
                          memory_order_relaxed);
    bool entered = d->agg && segment_has_room(&d->seg, d->local) &&
                   aggregator_enter(d->agg);
    segment_post(&d->seg, d->local, &e);
    if (entered)
        aggregator_leave(d->agg, kind == SEG_EVENT_BEGIN);
}

static bool is_running(const struct dsgd *d)
{
    return atomic_load(&d->seg.h->run) == SEG_RUNNING;
}

/* The aggregator must know how large the state is that a node lacks. */
static void tell_state_bytes(struct dsgd *d)
{
    _Atomic uint64_t *told = &d->seg.h->state_bytes;
    uint64_t seen = atomic_load(told);

    while (seen < d->state_bytes &&
           !atomic_compare_exchange_weak(told, &seen, d->state_bytes))
        ;
}

enum dsgd_err dsgd_register(struct dsgd *d, void *state, size_t bytes,
                            struct dsgd_error *err)
{
    if (d->began_first)
        return error_set(err, DSGD_E_STATE,
                         "dsgd_register: call it before the first "
                         "dsgd_step_begin");
    struct state_part *parts =
        realloc(d->parts, (d->n_parts + 1) * sizeof *parts);
    if (!parts)
        return error_set(err, DSGD_E_NOMEM, "dsgd_register: no memory");
    d->parts = parts;
    d->parts[d->n_parts++] = (struct state_part){state, bytes};
    d->state_bytes += bytes;
    tell_state_bytes(d);
    return DSGD_OK;
}

/* Asked for a copy of the state: only where all means taken were applied. */
static void give_state(struct dsgd *d)
{
    struct state_copy copy;

    client_give_checkpoint(d);
    if (!atomic_exchange(&client_self(d)->give_state, 0) || !d->state_bytes ||
        !client_copy_state(d, &copy))
        return;
    if (!state_announce(&d->seg.h->state, &copy, d->applied)) {
        state_drop(&copy);
        return;
    }
    state_drop(&d->copy);
    d->copy = copy;
    sys_futex_ring(&d->seg.h->worker_bell);
}

void client_take_copy(struct dsgd *d, const struct state_copy *copy,
                      uint64_t step)
{
    size_t at = 0;

    for (size_t i = 0; i < d->n_parts; i++) {
        memcpy(d->parts[i].memory, copy->data + at, d->parts[i].bytes);
        at += d->parts[i].bytes;
    }
    d->applied = step;
}

/* Take a copy of the state that is ahead of this worker's own. */
static bool take_state(struct dsgd *d)
{
    struct seg_state *box = &d->seg.h->state;
    struct state_copy copy;
    uint64_t step;

    if (atomic_load(&box->step) <= d->applied + 1 ||
        state_open(box, d->state_bytes, &copy, &step, NULL) != DSGD_OK)
        return false;
    bool ahead = step > d->applied;
    if (ahead)
        client_take_copy(d, &copy, step);
    state_drop(&copy);
    return ahead;
}

static void post_checksum(struct dsgd *d)
{
    if (!d->check_due)
        return;
    d->check_due = false;
    if (d->n_parts)
        post(d, SEG_EVENT_CHECKSUM, d->applied,
             state_checksum(d->parts, d->n_parts), 0);
}

/* May step begin, or is it over, and may the slot be written? */
static bool may_begin(const struct dsgd *d, uint64_t step)
{
    const struct seg_header *h = d->seg.h;
    uint64_t published = atomic_load(&h->published);

    return (atomic_load(&h->started) >= step || published >= step) &&
           published >= d->hold_step;
}

void client_wait_bell(struct dsgd *d, uint32_t seen, uint64_t timeout_ns)
{
    _Atomic uint32_t *bell = &d->seg.h->worker_bell;
    uint64_t hold_ns = segment_driven(d->seg.h) ? SYS_HOLD_NS : 0;

    if (chunks_help(&d->seg, d->local))
        return;
    if (!(d->agg ? aggregator_drive(d->agg, bell, seen)
                 : sys_futex_spin(bell, seen, hold_ns)))
        segment_doze(&d->seg, seen, timeout_ns);
}

/* Sleep until step may begin, serving requests for the state. */
static enum dsgd_err wait_for_start(struct dsgd *d, uint64_t step)
{
    bool told = false;

    for (;;) {
        uint32_t bell = atomic_load(&d->seg.h->worker_bell);
        bool running = is_running(d);
        if (may_begin(d, step))
            return DSGD_OK; /* also when the run is over: means are missing */
        if (!running)
            return client_check_run(d);
        give_state(d);
        if (!told)
            post(d, SEG_EVENT_READY, step, 0, 0);
        told = true;
        client_wait_bell(d, bell, UINT64_MAX);
    }
}

/* Read this worker's share; false when it is for a later step already. */
static bool read_share(struct dsgd *d, struct dsgd_step *step)
{
    const struct seg_worker *worker = client_self(d);

    if (atomic_load(&worker->assign_step) != step->index)
        return false;
    step->epoch = atomic_load(&worker->assign_epoch);
    step->first_sample = atomic_load(&worker->assign_first);
    step->n_samples = atomic_load(&worker->assign_count);
    d->limit = atomic_load(&worker->assign_limit);
    return atomic_load(&worker->assign_step) == step->index;
}

/* Late from an older step, and too late for this one: see node_latest. */
static bool sits_out(const struct dsgd *d, uint64_t step)
{
    const struct seg_worker *worker = client_self(d);

    return atomic_load(&worker->latest_step) == step &&
           sys_now_ns() > atomic_load(&worker->latest_ns);
}

/* Nothing to do for a process without a worker but to let the aggregator's
 * thread do its own. */
static enum dsgd_err await_end(struct dsgd *d)
{
    aggregator_join(d->agg);
    return client_check_run(d);
}

enum dsgd_err dsgd_step_begin(struct dsgd *d, struct dsgd_step *step)
{
    if (!client_is_worker(d))
        return await_end(d);
    if (d->step)
        return error_set(&d->error, DSGD_E_STATE,
                         "dsgd_step_begin: step %llu was not handed over with "
                         "dsgd_reduce",
                         (unsigned long long)d->step);
    enum dsgd_err rc = d->began_first ? DSGD_OK : client_resume(d);
    if (rc != DSGD_OK)
        return rc;
    segment_unpin(&d->seg, d->local);
    atomic_store(&client_self(d)->applied, d->applied);
    post_checksum(d);
    d->began_first = true;
    d->epoch_ended = false;

    struct dsgd_step s = {.index = d->applied + 1};
    rc = wait_for_start(d, s.index);
    if (rc != DSGD_OK)
        return rc;
    give_state(d);
    d->stale =
        atomic_load(&d->seg.h->published) > d->applied || !read_share(d, &s);
    if (d->stale || sits_out(d, s.index))
        s.n_samples = 0;
    d->first_sample = s.first_sample;
    d->share = s.n_samples;
    d->step = s.index;
    /* Those on the same CPU can take the mean, before one of them computes. */
    if (atomic_load(&d->seg.h->crowded))
        sched_yield();
    d->begin_ns = sys_now_ns();
    atomic_store(&client_self(d)->done, 0);
    atomic_store(&client_self(d)->total, 1);
    if (!d->stale)
        post(d, SEG_EVENT_BEGIN, s.index, 0, 0);
    else
        client_sign_of_life(d);
    *step = s;
    return DSGD_OK;
}

/* In a replay: this worker stopped here then.  Its micro-batches are of one
 * size, but for the last, or else of nearly one. */
static bool at_limit(const struct dsgd *d, uint64_t done, uint64_t total)
{
    if (!d->limit || d->limit >= d->share || !done)
        return false;
    uint64_t size = d->limit % done ? 0 : d->limit / done;
    if (size && (d->share + size - 1) / size == total)
        return true;
    return (double)done * (double)d->share >= (double)d->limit * (double)total;
}

/* A part of the worker's own share is so much of all of it. */
enum dsgd_err dsgd_poll(struct dsgd *d, uint64_t done, uint64_t total)
{
    if (!client_is_worker(d))
        return DSGD_ABANDON;
    struct seg_worker *worker = client_self(d);
    struct client_work *work = &d->work;
    bool in_part = work->claimed && work->step == d->step;
    bool unwanted = in_part && done < total && client_unwanted(d);
    if (in_part && !work->shared) {
        done = work->given + work->part.n_samples * done / (total ? total : 1);
        total = d->share;
    }
    atomic_store_explicit(&worker->done, (uint32_t)done, memory_order_relaxed);
    atomic_store_explicit(&worker->total, (uint32_t)total,
                          memory_order_relaxed);
    client_sign_of_life(d);
    if (in_part) {
        work->abandoned = unwanted;
        return unwanted ? DSGD_ABANDON : DSGD_GO_ON;
    }
    if (atomic_load(&d->seg.h->published) >= d->step ||
        atomic_load(&d->seg.h->run) != SEG_RUNNING || at_limit(d, done, total))
        return done < total ? DSGD_ABANDON : DSGD_GO_ON;
    return DSGD_GO_ON;
}

float *dsgd_grad_buffer(struct dsgd *d)
{
    if (!client_is_worker(d))
        return NULL;
    return segment_slot(&d->seg, d->local, atomic_load(&client_self(d)->buf));
}

/* What part of the share was processed: samples given, or else what was said to
 * dsgd_poll. */
static float fraction_done(const struct dsgd *d, uint64_t samples)
{
    const struct seg_worker *worker = client_self(d);
    uint32_t done = atomic_load(&worker->done);
    uint32_t total = atomic_load(&worker->total);

    if (!d->share)
        return 0;
    if (samples)
        return (float)((double)samples / (double)d->share);
    return total ? (float)done / (float)total : 0;
}

/* A gradient can still be used: its step is open, or it may be carried into
 * the next. */
static bool is_wanted(const struct dsgd *d)
{
    uint64_t published = atomic_load(&d->seg.h->published);

    return !d->stale && (published < d->step ||
                         (d->seg.h->slot_bufs > 1 && published == d->step));
}

enum dsgd_err dsgd_reduce(struct dsgd *d, const float *grad, size_t n,
                          uint64_t samples)
{
    if (!d->step)
        return error_set(
            &d->error, DSGD_E_STATE,
            "dsgd_reduce: no step was begun: call dsgd_step_begin before");
    if (d->work.shared)
        return error_set(&d->error, DSGD_E_STATE,
                         "dsgd_reduce: the run shares its work, which the "
                         "program must ask for with dsgd_claim: run it with "
                         "--dsgd-work=own");
    if (d->work.deposits)
        return error_set(&d->error, DSGD_E_STATE,
                         "dsgd_reduce: opt.deposits says that the program "
                         "gives its parts with dsgd_deposit");
    return client_commit(d, grad, n, samples);
}

enum dsgd_err client_commit(struct dsgd *d, const float *grad, size_t n,
                            uint64_t samples)
{
    float *slot = dsgd_grad_buffer(d);

    if (n != d->grad_elems)
        return error_set(&d->error, DSGD_E_RANGE,
                         "dsgd_reduce: %zu floats, and the run was opened with "
                         "%zu",
                         n, d->grad_elems);
    if (samples > d->share && d->sampler == DSGD_SAMPLER_RANGES)
        return error_set(&d->error, DSGD_E_RANGE,
                         "dsgd_reduce: %llu samples of a share of %llu",
                         (unsigned long long)samples,
                         (unsigned long long)d->share);
    float fraction = fraction_done(d, samples);
    bool given = samples && is_wanted(d);
    if (given && grad != slot)
        memcpy(slot, grad, n * sizeof *slot);
    if (!d->stale)
        post(d, SEG_EVENT_COMMIT, d->step, given ? samples : 0, fraction);
    /* The sum stays until the commit after this one: see segment_create. */
    if (given && d->seg.h->slot_bufs > 1)
        atomic_store(&client_self(d)->buf, !atomic_load(&client_self(d)->buf));
    d->reduced = d->step;
    d->step = 0;
    return DSGD_OK;
}

/* Take the mean after the last one taken, which must be published. */
static enum dsgd_err take_mean(struct dsgd *d, struct dsgd_mean *mean)
{
    int slot = segment_pin(&d->seg, d->local, d->applied + 1);
    if (slot < 0)
        return DSGD_BEHIND;
    const struct seg_mean *m = &d->seg.means[slot];
    *mean = (struct dsgd_mean){.grad = segment_ring(&d->seg, (uint32_t)slot),
                               .step = d->applied + 1,
                               .epoch = m->epoch,
                               .samples = m->samples,
                               .contributors = m->contributors,
                               .lr_scale = m->lr_scale,
                               .epoch_end = m->epoch_end != 0};
    d->applied++;
    d->behind_tries = 0;
    d->epoch_ended = d->epoch_ended || mean->epoch_end;
    d->check_due = mean->epoch_end || m->checkpoint;
    return DSGD_OK;
}

/* The ring lost the next mean: go on from another worker's state.  Who was asked
 * for it may be stuck, and a copy's owner gone. */
static enum dsgd_err catch_up(struct dsgd *d)
{
    uint64_t now = sys_now_ns();

    if (!d->state_bytes)
        return error_set(&d->error, DSGD_E_STATE,
                         "worker %u fell behind by more means than the ring "
                         "keeps and has no registered state to be given: call "
                         "dsgd_register, or raise DSGD_RING_BYTES",
                         d->rank);
    if (take_state(d)) {
        d->behind_tries = 0;
        d->check_due = false;
        post(d, SEG_EVENT_RESYNCED, d->applied, 0, 0);
        return DSGD_RESYNCED;
    }
    if (!d->behind_tries || now - d->behind_ns >= BEHIND_AGAIN_NS) {
        post(d, SEG_EVENT_BEHIND, d->applied + 1, d->behind_tries++, 0);
        d->behind_ns = now;
    }
    return DSGD_BEHIND;
}

enum dsgd_err dsgd_next_mean(struct dsgd *d, struct dsgd_mean *mean)
{
    if (d->step)
        return error_set(&d->error, DSGD_E_STATE,
                         "dsgd_next_mean: step %llu was not handed over with "
                         "dsgd_reduce",
                         (unsigned long long)d->step);
    if (!client_is_worker(d)) {
        enum dsgd_err rc = client_check_run(d);
        return rc == DSGD_OK ? DSGD_UP_TO_DATE : rc;
    }
    segment_unpin(&d->seg, d->local);
    atomic_store(&client_self(d)->applied, d->applied);
    for (;;) {
        client_give_checkpoint(d);
        uint32_t bell = atomic_load(&d->seg.h->worker_bell);
        bool running = is_running(d);
        enum dsgd_err rc = DSGD_BEHIND;
        uint64_t timeout_ns = UINT64_MAX;
        if (atomic_load(&d->seg.h->published) > d->applied) {
            rc = take_mean(d, mean);
            if (rc == DSGD_OK)
                client_sign_of_life(d);
            if (rc == DSGD_OK && !mean->samples)
                continue; /* nobody had anything to give */
            if (rc == DSGD_BEHIND)
                rc = catch_up(d);
            if (rc != DSGD_BEHIND)
                return rc;
            timeout_ns = BEHIND_AGAIN_NS;
        } else if (d->applied >= d->reduced) {
            return d->epoch_ended ? DSGD_EPOCH_END : DSGD_UP_TO_DATE;
        }
        if (!running)
            return client_check_run(d);
        give_state(d);
        client_wait_bell(d, bell, timeout_ns);
    }
}

/* This worker gives no more. */
static void leave(struct dsgd *d)
{
    segment_unpin(&d->seg, d->local);
    atomic_store(&client_self(d)->applied, d->applied);
    post_checksum(d);
    if (atomic_load(&d->seg.h->run) == SEG_RUNNING)
        post(d, SEG_EVENT_LEAVE, d->applied, 0, 0);
    client_answer_end(d);
}

enum dsgd_err dsgd_close(struct dsgd *d)
{
    enum dsgd_err rc = DSGD_OK;

    if (!d)
        return DSGD_OK;
    if (client_is_worker(d))
        leave(d);
    if (d->has_helper) {
        atomic_store(&d->helper_stop, true);
        sys_futex_ring(&client_self(d)->reap);
        pthread_join(d->helper, NULL);
    }
    if (d->agg)
        aggregator_join(d->agg);
    if (atomic_load(&d->seg.h->run) == SEG_BROKEN)
        rc = DSGD_E_MPI;
    else if (atomic_load(&d->seg.h->preempted))
        rc = DSGD_E_PREEMPTED;
    client_destroy(d);
    return rc;
}
