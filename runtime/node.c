#include "node.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chunks.h"
#include "error.h"
#include "node_parts.h"
#include "sys.h"

enum { STARTS = 256 }; /* step starts remembered, for the lags of late ones */

struct local {
    uint64_t begin_step, begin_ns;
    uint64_t commit_step;
    uint64_t cpu_ticks;
    uint64_t used_ticks; /* when node_cpu_s last looked */
};

struct node {
    struct segment *seg, view;
    struct local *local; /* [n_local] */
    uint32_t next;       /* whose events are looked at first */
    int reserved;        /* ring slot, -1: none */
    enum seg_sleep sleep;
    struct chunks chunks;
    struct node_parts parts;
    uint64_t start_step[STARTS], start_ns[STARTS];
    uint64_t total_ticks;  /* of all processes that were workers here */
    uint64_t pending_step; /* may begin once step - 1 is published */
    struct msg_share *pending;
};

enum dsgd_err node_create(const struct segment *seg, struct node **out,
                          struct dsgd_error *err)
{
    struct node *n = calloc(1, sizeof *n);
    bool has_parts = false;
    *out = NULL;
    if (n) {
        n->view = *seg;
        n->seg = &n->view;
        n->reserved = -1;
        n->sleep = SEG_ASLEEP;
        chunks_init(&n->chunks, n->seg);
        has_parts = parts_create(&n->parts, n->seg);
        n->local = calloc(seg->h->n_local, sizeof *n->local);
        n->pending = calloc(seg->h->n_local, sizeof *n->pending);
    }
    if (!has_parts || !n->local || !n->pending) {
        node_destroy(n);
        return error_set(err, DSGD_E_NOMEM, "aggregator: no memory");
    }
    *out = n;
    return DSGD_OK;
}

void node_destroy(struct node *n)
{
    if (!n)
        return;
    parts_destroy(&n->parts);
    free(n->local);
    free(n->pending);
    free(n);
}

uint32_t node_size(const struct node *n)
{
    return n->seg->h->n_local;
}

size_t node_grad_elems(const struct node *n)
{
    return n->seg->h->grad_elems;
}

uint64_t node_published(const struct node *n)
{
    return atomic_load(&n->seg->h->published);
}

/* Seconds from a step's start on this node, NaN when it is not remembered. */
static float lag_s(const struct node *n, uint64_t step, uint64_t at_ns)
{
    if (n->start_step[step % STARTS] != step)
        return NAN;
    return (float)((double)(int64_t)(at_ns - n->start_ns[step % STARTS]) *
                   1e-9);
}

static void convert(struct node *n, uint32_t w, const struct seg_event *e,
                    struct msg_event *out)
{
    struct local *local = &n->local[w];

    *out = (struct msg_event){.worker = w,
                              .kind = e->kind,
                              .step = e->step,
                              .value = e->value,
                              .fraction = e->fraction,
                              .buf = e->buf,
                              .duration_s = NAN,
                              .lag_s = NAN};
    if (e->kind == SEG_EVENT_BEGIN) {
        local->begin_step = e->step;
        local->begin_ns = e->at_ns;
        out->lag_s = lag_s(n, e->step, e->at_ns);
    } else if (e->kind == SEG_EVENT_COMMIT || e->kind == SEG_EVENT_DEPOSIT) {
        if (e->kind == SEG_EVENT_COMMIT)
            local->commit_step = e->step;
        if (local->begin_step == e->step) {
            out->duration_s =
                (float)((double)(e->at_ns - local->begin_ns) * 1e-9);
            out->lag_s = lag_s(n, e->step, local->begin_ns);
        }
    } else if (e->kind == SEG_EVENT_PART) {
        out->duration_s = e->fraction;
        out->lag_s = lag_s(n, e->step, e->at_ns);
    }
}

/* Convert what a worker said.  False: it is nobody's business. */
static bool look_at(struct node *n, uint32_t w, const struct seg_event *e,
                    struct msg_event *out)
{
    convert(n, w, e, out);
    if (e->kind == SEG_EVENT_DIED)
        parts_forget(&n->parts, w);
    return e->kind != SEG_EVENT_PART || parts_offer(&n->parts, e->entry, out);
}

bool node_event(struct node *n, struct msg_event *event)
{
    struct seg_event e;
    uint32_t n_local = n->seg->h->n_local;

    if (parts_next(&n->parts, event))
        return true;
    for (uint32_t i = 0; i < n_local; i++) {
        uint32_t w = (n->next + i) % n_local;
        while (segment_take(n->seg, w, &e)) {
            if (!look_at(n, w, &e, event))
                continue;
            n->next = (w + 1) % n_local;
            return true;
        }
    }
    return false;
}

bool node_waits(const struct node *n)
{
    return segment_waits(n->seg);
}

bool node_idle(const struct node *n)
{
    uint64_t step = node_published(n) + 1;

    if (n->parts.step == step)
        return parts_idle(&n->parts);
    for (uint32_t w = 0; w < n->seg->h->n_local; w++) {
        if (n->local[w].commit_step != step)
            return false;
    }
    return true;
}

uint32_t node_bell(const struct node *n)
{
    return atomic_load(&n->seg->h->agg_bell);
}

void node_nap(struct node *n, uint32_t bell, uint64_t timeout_ns)
{
    struct seg_header *h = n->seg->h;

    atomic_store(&h->agg_asleep, n->sleep);
    if (!segment_waits(n->seg))
        sys_futex_wait(&h->agg_bell, bell, timeout_ns);
}

void node_let_drive(struct node *n)
{
    n->sleep = SEG_ASLEEP_LIGHTLY;
    atomic_store(&n->seg->h->driven, 1);
}

void node_watch(struct node *n)
{
    _Atomic uint32_t *asleep = &n->seg->h->agg_asleep;

    if (atomic_load(asleep) != SEG_AWAKE)
        atomic_store_explicit(asleep, SEG_AWAKE, memory_order_relaxed);
}

void node_unwatch(struct node *n, bool computes)
{
    struct seg_header *h = n->seg->h;

    atomic_store(&h->agg_asleep, computes ? SEG_COMPUTES : n->sleep);
    if (segment_waits(n->seg))
        sys_futex_ring(&h->agg_bell);
}

float *node_reserve(struct node *n)
{
    if (n->reserved < 0)
        n->reserved = (int)segment_reserve(n->seg);
    return segment_ring(n->seg, (uint32_t)n->reserved);
}

/* A slot that no helper of a sum before this one still writes. */
static uint32_t clean_slot(struct node *n)
{
    if (chunks_abandon(&n->chunks) || n->reserved < 0)
        n->reserved = (int)segment_reserve(n->seg);
    return (uint32_t)n->reserved;
}

float *node_sum(struct node *n, const uint8_t *mask, float factor)
{
    n->reserved = (int)chunks_sum(&n->chunks, mask, factor, clean_slot(n));
    return node_reserve(n);
}

void node_sum_begin(struct node *n, const uint8_t *mask)
{
    chunks_begin(&n->chunks, mask, 1, clean_slot(n));
}

bool node_sum_tend(struct node *n)
{
    bool did = chunks_tend(&n->chunks);

    n->reserved = (int)n->chunks.slot;
    return did;
}

size_t node_sum_ready(struct node *n)
{
    size_t ready = chunks_ready(&n->chunks) * n->seg->h->chunk_elems;
    return ready < node_grad_elems(n) ? ready : node_grad_elems(n);
}

void node_sum_drop(struct node *n)
{
    clean_slot(n);
}

size_t node_chunk_elems(const struct node *n)
{
    return n->seg->h->chunk_elems;
}

/* None of these orders what is stored before what is loaded after. */
static void store_release(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

static void give_shares(struct node *n, uint64_t step,
                        const struct msg_share *shares)
{
    for (uint32_t w = 0; w < n->seg->h->n_local; w++) {
        struct seg_worker *worker = &n->seg->workers[w];
        atomic_store_explicit(&worker->assign_step, 0, memory_order_relaxed);
        store_release(&worker->assign_epoch, shares[w].epoch);
        store_release(&worker->assign_first, shares[w].first);
        store_release(&worker->assign_count, shares[w].count);
        store_release(&worker->assign_limit, shares[w].limit);
        store_release(&worker->assign_step, step);
    }
}

static void let_begin(struct node *n, uint64_t step,
                      const struct msg_share *shares)
{
    n->start_step[step % STARTS] = step;
    n->start_ns[step % STARTS] = sys_now_ns();
    if (shares)
        give_shares(n, step, shares);
    atomic_store(&n->seg->h->started, step);
}

static void start_pending(struct node *n)
{
    uint64_t published = node_published(n);
    /* Not again what has begun: a worker may be reading its share. */
    if (n->pending_step == published + 1 &&
        atomic_load(&n->seg->h->started) < n->pending_step)
        let_begin(n, n->pending_step, n->pending);
    if (n->pending_step <= published + 1)
        n->pending_step = 0;
}

void node_commit(struct node *n, const struct msg *m)
{
    struct seg_mean *mean = &n->seg->means[n->reserved];

    mean->epoch = m->u.mean.epoch;
    mean->samples = m->u.mean.samples;
    mean->contributors = m->u.mean.contributors;
    mean->epoch_end = (m->flags & MSG_EPOCH_END) != 0;
    mean->checkpoint = (m->flags & MSG_CHECKPOINT) != 0;
    mean->lr_scale = m->u.mean.lr_scale;
    store_release(&mean->step, m->step);
    n->reserved = -1;
}

void node_show(struct node *n, const struct msg *m,
               const struct msg_share *shares)
{
    struct seg_header *h = n->seg->h;

    store_release(&h->progress_samples, m->u.mean.run_samples);
    store_release(&h->progress_ns, m->u.mean.run_ns);
    store_release(&h->progress_steps, m->step);
    atomic_store(&h->published, m->step);
    if (m->flags & MSG_STARTS)
        let_begin(n, m->step + 1, shares);
    start_pending(n);
    segment_call(n->seg);
}

const float *node_mean(const struct node *n, uint64_t step,
                       struct seg_mean *about)
{
    int slot = segment_find(n->seg, step);
    if (slot < 0)
        return NULL;
    *about = n->seg->means[slot];
    return segment_ring(n->seg, (uint32_t)slot);
}

void node_start(struct node *n, uint64_t step, const struct msg_share *shares)
{
    n->pending_step = step;
    memcpy(n->pending, shares, n->seg->h->n_local * sizeof *n->pending);
    start_pending(n);
    segment_call(n->seg);
}

uint64_t node_revoke(struct node *n, uint64_t step, uint64_t most)
{
    return parts_revoke(&n->parts, step, most);
}

uint64_t node_withdraw(struct node *n, uint64_t step, uint32_t worker)
{
    return parts_withdraw(&n->parts, step, worker);
}

void node_message(struct node *n, const struct msg *m, const void *body,
                  size_t bytes)
{
    parts_message(&n->parts, m, body, bytes);
}

bool node_return(const struct node *n, struct msg *m)
{
    return parts_return(&n->parts, m);
}

void node_returned(struct node *n)
{
    parts_returned(&n->parts);
}

void node_latest(struct node *n, uint64_t step, const float *latest_s)
{
    if (n->start_step[step % STARTS] != step)
        return;
    for (uint32_t w = 0; w < n->seg->h->n_local; w++) {
        struct seg_worker *worker = &n->seg->workers[w];
        if (!isfinite(latest_s[w]))
            continue;
        uint64_t after_ns = latest_s[w] > 0 ? (uint64_t)(latest_s[w] * 1e9) : 0;
        atomic_store(&worker->latest_ns, n->start_ns[step % STARTS] + after_ns);
        atomic_store(&worker->latest_step, step);
    }
}

void node_jump(struct node *n, uint64_t step)
{
    if (step <= node_published(n))
        return;
    atomic_store(&n->seg->h->published, step);
    atomic_store(&n->seg->h->started, step);
    start_pending(n);
    segment_call(n->seg);
}

void node_resume(struct node *n, uint64_t step, uint64_t samples,
                 uint64_t run_ns)
{
    struct seg_header *h = n->seg->h;

    atomic_store(&h->progress_steps, step);
    atomic_store(&h->progress_samples, samples);
    atomic_store(&h->progress_ns, run_ns);
    atomic_store(&h->resumed, step);
    node_jump(n, step);
}

void node_ask_checkpoint(struct node *n, uint64_t step)
{
    atomic_store(&n->seg->h->checkpoint_due, step);
    segment_call(n->seg);
}

bool node_checkpoint_begun(const struct node *n)
{
    return atomic_load(&n->seg->h->checkpoint_due) == 0;
}

bool node_checkpoint_take(struct node *n, uint64_t step,
                          struct state_copy *copy)
{
    struct seg_state *box = &n->seg->h->checkpoint;
    uint64_t got;

    if (atomic_load(&box->step) != step + 1 ||
        state_open(box, SIZE_MAX, copy, &got, NULL) != DSGD_OK)
        return false;
    if (got == step) {
        atomic_store(&box->step, 0);
        return true;
    }
    state_drop(copy);
    return false;
}

uint32_t node_request(struct node *n)
{
    struct seg_header *h = n->seg->h;

    return atomic_load(&h->request) ? atomic_exchange(&h->request, 0) : 0;
}

void node_preempt(struct node *n)
{
    atomic_store(&n->seg->h->preempted, 1);
}

void node_end(struct node *n, uint64_t last_step)
{
    atomic_store(&n->seg->h->last, last_step);
    atomic_store(&n->seg->h->run, SEG_ENDED);
    segment_call(n->seg);
}

void node_break(struct node *n, const char *why)
{
    snprintf(n->seg->h->broken, sizeof n->seg->h->broken, "%s", why);
    atomic_store(&n->seg->h->run, SEG_BROKEN);
    segment_call(n->seg);
}

/* What a worker's process has used.  The aggregator's thread is no sign of life
 * of the worker in whose process it runs.
 *   last  in  what was used when it was asked before */
static uint64_t worker_ticks(int pid, uint64_t last)
{
    if (pid != getpid())
        return sys_process_ticks(pid);
    double others_s = fmax(0, sys_cpu_s() - sys_thread_cpu_s());
    uint64_t ticks = (uint64_t)(others_s * (double)sysconf(_SC_CLK_TCK));
    return ticks > last ? ticks : last; /* the two clocks are read in turn */
}

/* The worker has given what it had to give to the step that it began. */
static bool between_steps(const struct node *n, const struct local *local)
{
    return local->commit_step >= local->begin_step ||
           (n->parts.step >= local->begin_step &&
            node_published(n) >= local->begin_step);
}

void node_life(struct node *n, float *silent_s)
{
    uint64_t now = sys_now_ns();

    for (uint32_t w = 0; w < n->seg->h->n_local; w++) {
        struct seg_worker *worker = &n->seg->workers[w];
        struct local *local = &n->local[w];
        uint64_t life = atomic_load(&worker->life_ns);
        if (between_steps(n, local)) {
            uint64_t ticks =
                worker_ticks(atomic_load(&worker->pid), local->cpu_ticks);
            if (ticks != local->cpu_ticks) {
                local->cpu_ticks = ticks;
                atomic_store(&worker->life_ns, now);
                life = now;
            }
        }
        silent_s[w] = life < now ? (float)((double)(now - life) * 1e-9) : 0;
    }
}

double node_cpu_s(struct node *n)
{
    bool own = false; /* this process is a worker too */

    for (uint32_t w = 0; w < n->seg->h->n_local; w++) {
        struct local *local = &n->local[w];
        int pid = atomic_load(&n->seg->workers[w].pid);
        uint64_t ticks = sys_process_ticks(pid);
        own = own || pid == getpid();
        if (ticks >= local->used_ticks)
            n->total_ticks += ticks - local->used_ticks;
        else /* another process has taken its place */
            n->total_ticks += ticks;
        local->used_ticks = ticks;
    }
    double used_s = (double)n->total_ticks / (double)sysconf(_SC_CLK_TCK);
    return own ? used_s : used_s + sys_cpu_s();
}

bool node_state_serves(const struct node *n, uint64_t step)
{
    return step == node_published(n) || segment_find(n->seg, step + 1) >= 0;
}

bool node_ask_state(struct node *n, uint64_t least)
{
    struct seg_worker *best = NULL;
    uint64_t best_step = 0;

    for (uint32_t w = 0; w < n->seg->h->n_local; w++) {
        struct seg_worker *worker = &n->seg->workers[w];
        uint64_t applied = atomic_load(&worker->applied);
        if (applied > best_step && applied >= least &&
            !atomic_load(&worker->exit) && !atomic_load(&worker->give_state) &&
            node_state_serves(n, applied)) {
            best_step = applied;
            best = worker;
        }
    }
    if (!best)
        return false;
    atomic_store(&best->give_state, 1);
    segment_call(n->seg);
    return true;
}

struct seg_state *node_state_box(struct node *n)
{
    return &n->seg->h->state;
}

uint32_t node_stuck(const struct node *n, uint8_t *stuck)
{
    uint32_t count = 0;
    for (uint32_t w = 0; w < n->seg->h->n_local; w++) {
        uint32_t how = atomic_load(&n->seg->workers[w].exit);
        stuck[w] = how == SEG_EXIT_NONE || how == SEG_EXIT_BEHIND;
        count += how == SEG_EXIT_NONE;
    }
    return count;
}

void node_reap(struct node *n, uint32_t w)
{
    struct seg_worker *worker = &n->seg->workers[w];
    uint32_t how = atomic_load(&worker->exit);

    do {
        if (how != SEG_EXIT_NONE && how != SEG_EXIT_BEHIND)
            return;
    } while (
        !atomic_compare_exchange_weak(&worker->exit, &how, SEG_EXIT_REAPED));
    int pid = atomic_load(&worker->pid);
    sys_futex_ring(&worker->reap);
    if (pid > 0 && pid != getpid())
        kill(pid, SIGCONT);
}
