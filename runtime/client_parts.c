/* A worker's step in parts: claimed, computed, offered; see node_parts.h. */
#include <string.h>

#include "client.h"
#include "error.h"
#include "sum.h"
#include "sys.h"

/* A worker that waits says so often: it is not the one that holds the step
 * up. */
#define LIFE_EVERY_NS UINT64_C(200000000)

static bool is_open(const struct dsgd *d)
{
    return SEGMENT_POOL_STEP(atomic_load(&d->seg.pool->claim)) == d->step;
}

/* Nothing that this worker could give to the step would count. */
static bool is_over(const struct dsgd *d)
{
    const struct seg_header *h = d->seg.h;

    return d->stale || atomic_load(&h->published) >= d->step ||
           atomic_load(&h->run) != SEG_RUNNING ||
           SEGMENT_POOL_STEP(atomic_load(&d->seg.pool->claim)) > d->step;
}

/* This worker's first part was withdrawn: it is not accepted any more, and was
 * not before. */
static bool is_withdrawn(const struct dsgd *d)
{
    return !atomic_load(&d->seg.parts[d->local].count) && is_open(d);
}

bool client_unwanted(const struct dsgd *d)
{
    const struct client_work *work = &d->work;

    if (work->first)
        return is_over(d) || is_withdrawn(d);
    return is_over(d) && !work->carry.is_on;
}

/* Was the last offer accepted?  Only then is the other buffer free.  A first
 * part may have been withdrawn: then it has not been offered. */
static bool is_decided(struct dsgd *d)
{
    struct client_work *work = &d->work;
    uint64_t word = atomic_load(&client_self(d)->accepted);

    if (work->first_offered && is_withdrawn(d)) {
        work->first_offered = false;
        work->offers--;
        work->buf = !work->buf;
    }
    return !work->offers || word == SEGMENT_POOL_WORD(d->step, work->offers);
}

/* The step is over; what was accepted does not change any more.
 *   part  in  that was computed, is not offered and may be kept, or NULL */
static enum dsgd_err hand_over(struct dsgd *d, const struct client_kept *part)
{
    struct client_carry *carry = &d->work.carry;

    if (carry->is_on && !d->stale)
        carry_over(carry, is_decided(d), part, d->grad_elems);
    d->work.claimed = false;
    d->reduced = d->step;
    d->step = 0;
    return DSGD_ABANDON;
}

static void doze(struct dsgd *d, uint32_t bell)
{
    client_sign_of_life(d);
    client_wait_bell(d, bell, LIFE_EVERY_NS);
}

/* Where every part is somebody's. */
static bool next_own(struct dsgd *d, uint32_t *entry)
{
    struct client_work *work = &d->work;
    uint64_t limit = atomic_load(&d->seg.pool->limit);

    if (SEGMENT_POOL_STEP(limit) != d->step)
        return false;
    while (work->next < SEGMENT_POOL_INDEX(limit)) {
        *entry = work->next++;
        if (atomic_load(&d->seg.parts[*entry].owner) == d->local + 1)
            return true;
    }
    return false;
}

static bool take_entry(struct dsgd *d, uint32_t *entry)
{
    struct seg_pool *pool = d->seg.pool;
    uint64_t word = atomic_load(&pool->claim);

    if (SEGMENT_POOL_STEP(word) == d->step &&
        (atomic_load(&pool->kind) & SEG_POOL_OWNED))
        return next_own(d, entry);
    do {
        uint64_t limit = atomic_load(&pool->limit);
        if (SEGMENT_POOL_STEP(word) != d->step ||
            SEGMENT_POOL_STEP(limit) != d->step ||
            SEGMENT_POOL_INDEX(word) >= SEGMENT_POOL_INDEX(limit))
            return false;
    } while (!atomic_compare_exchange_weak(&pool->claim, &word, word + 1));
    *entry = SEGMENT_POOL_INDEX(word);
    return true;
}

/* What an entry says, unless the pool is another step's by now: whoever reads
 * what was written for that sees claim 0 or later. */
static bool read_entry(struct dsgd *d, uint32_t entry, struct dsgd_part *part)
{
    const struct seg_part *from = &d->seg.parts[entry];

    part->first_sample =
        atomic_load_explicit(&from->first, memory_order_acquire);
    part->n_samples = atomic_load_explicit(&from->count, memory_order_acquire);
    d->work.late = atomic_load_explicit(&from->late, memory_order_acquire);
    return is_open(d);
}

/* The part that was cut out for this worker, if any. */
static bool take_first(struct dsgd *d)
{
    struct client_work *work = &d->work;

    if (work->first_had || !is_open(d) ||
        d->local >= SEGMENT_POOL_INDEX(atomic_load(&d->seg.pool->fixed)))
        return false;
    work->first_had = true;
    work->entry = d->local;
    work->first =
        read_entry(d, d->local, &work->part) && work->part.n_samples > 0;
    return work->first;
}

static bool take_any(struct dsgd *d)
{
    struct client_work *work = &d->work;

    work->first = false;
    return take_entry(d, &work->entry) &&
           read_entry(d, work->entry, &work->part);
}

/* The process that was here before gave parts to this step: they lie where this
 * one would put its own. */
static bool has_given(const struct dsgd *d)
{
    uint64_t word = atomic_load(&client_self(d)->accepted);

    return !d->work.offers && SEGMENT_POOL_STEP(word) == d->step &&
           SEGMENT_POOL_INDEX(word) > 0;
}

static void tell(struct dsgd *d, enum seg_event_kind kind, uint64_t value,
                 uint32_t entry, float fraction)
{
    struct seg_event e = {.kind = kind,
                          .fraction = fraction,
                          .step = d->step,
                          .at_ns = sys_now_ns(),
                          .value = value,
                          .buf = d->work.buf,
                          .entry = entry};

    client_sign_of_life(d);
    segment_post(&d->seg, d->local, &e);
}

/* What was given before and this, in the buffer that does not hold the
 * former. */
static void add(struct dsgd *d, const float *grad)
{
    struct client_work *work = &d->work;
    uint32_t buf = work->offers ? !work->buf : 0;
    float *to = segment_slot(&d->seg, d->local, buf);
    const float *const rows[] = {segment_slot(&d->seg, d->local, !buf), grad};

    if (work->offers)
        sum_group(to, rows, 2, 1, d->grad_elems);
    else
        memcpy(to, grad, d->grad_elems * sizeof *to);
    work->buf = buf;
    work->offers++;
}

static void offer(struct dsgd *d, const struct client_kept *part)
{
    add(d, part->grad);
    tell(d, SEG_EVENT_PART, part->samples, part->entry, part->spent_s);
}

/* Sleep until the other buffer is free.  False: the step is over. */
static bool await_decision(struct dsgd *d)
{
    bool over, decided;

    for (;;) {
        atomic_store(&client_self(d)->waits, !is_decided(d));
        uint32_t bell = atomic_load(&d->seg.h->worker_bell);
        over = is_over(d);
        decided = is_decided(d);
        if (over || decided)
            break;
        doze(d, bell);
    }
    atomic_store(&client_self(d)->waits, 0);
    return !over;
}

/* What was kept for this step comes before its own parts.  Returns whether all
 * was offered, or is of no use. */
static bool offer_kept(struct dsgd *d)
{
    struct client_carry *carry = &d->work.carry;
    struct seg_pool *pool = d->seg.pool;

    if (!carry_is_due(carry))
        return true;
    if (SEGMENT_POOL_STEP(atomic_load(&pool->claim)) != d->step)
        return false;
    uint32_t kind = atomic_load(&pool->kind);
    if (SEGMENT_POOL_STEP(atomic_load(&pool->claim)) != d->step)
        return false;
    if (!(kind & SEG_POOL_CARRIES))
        carry->n = 0;
    while (carry->n && is_decided(d)) {
        struct client_kept part = carry->part[0];
        part.entry |= MSG_CARRIED_PART;
        offer(d, &part);
        carry_drop_first(carry);
    }
    return !carry->n;
}

static enum dsgd_err claim_shared(struct dsgd *d)
{
    for (;;) {
        uint32_t bell = atomic_load(&d->seg.h->worker_bell);
        if (is_over(d))
            return hand_over(d, NULL);
        if (offer_kept(d) && !has_given(d) && (take_first(d) || take_any(d)))
            break;
        doze(d, bell);
    }
    client_sign_of_life(d);
    return DSGD_OK;
}

/* A part that the next step is to have. */
static void keep(struct dsgd *d, const struct client_kept *part)
{
    carry_keep(&d->work.carry, part, d->grad_elems);
    tell(d, SEG_EVENT_KEPT, (uint64_t)part->entry << 32 | part->samples,
         part->entry, part->spent_s);
}

/* A first part is not kept: the next step would have to wait for the tokens of
 * all of it. */
static enum dsgd_err deposit_shared(struct dsgd *d, const float *grad)
{
    struct client_work *work = &d->work;
    struct client_kept part = {
        .entry = work->entry, .samples = work->part.n_samples, .grad = grad};

    part.spent_s = (float)((double)(sys_now_ns() - work->claim_ns) * 1e-9);
    if (work->late ? is_over(d) : !await_decision(d))
        return hand_over(d, work->first ? NULL : &part);
    if (work->late) {
        keep(d, &part);
        return DSGD_OK;
    }
    if (work->first && is_withdrawn(d))
        return DSGD_OK;
    offer(d, &part);
    work->first_offered = work->first;
    if (work->carry.is_on && !work->first)
        carry_offered(&work->carry, &part, d->grad_elems);
    return DSGD_OK;
}

static float of_share(const struct dsgd *d, uint64_t samples)
{
    return d->share ? (float)((double)samples / (double)d->share) : 0;
}

/* The step is over.  How much was computed of the share, what did not come in
 * time too, says how long all of it would have taken. */
static enum dsgd_err leave_share(struct dsgd *d, uint64_t computed)
{
    if (!d->stale)
        tell(d, SEG_EVENT_COMMIT, 0, 0, of_share(d, computed));
    return hand_over(d, NULL);
}

/* The next part of the worker's own share, until it is done or abandoned. */
static enum dsgd_err claim_own(struct dsgd *d)
{
    struct client_work *work = &d->work;
    uint64_t left = d->share - work->given;

    if (!left || dsgd_poll(d, work->given, d->share) == DSGD_ABANDON) {
        if (work->counts)
            return leave_share(d, work->given);
        enum dsgd_err rc =
            client_commit(d, dsgd_grad_buffer(d), d->grad_elems, work->given);
        return rc == DSGD_OK ? DSGD_ABANDON : rc;
    }
    work->part.first_sample = d->first_sample + work->given;
    work->part.n_samples = left < work->per_part ? left : work->per_part;
    return DSGD_OK;
}

/* All parts together, once the last is there. */
static enum dsgd_err deposit_own(struct dsgd *d, const float *grad, size_t n)
{
    struct client_work *work = &d->work;
    float *to = dsgd_grad_buffer(d);
    const float *const rows[] = {to, grad};

    if (work->given)
        sum_group(to, rows, 2, 1, n);
    else
        memcpy(to, grad, n * sizeof *to);
    work->given += work->part.n_samples;
    return work->given < d->share ? DSGD_OK
                                  : client_commit(d, to, n, work->given);
}

/* Each part counts from now on. */
static enum dsgd_err deposit_counted(struct dsgd *d, const float *grad)
{
    struct client_work *work = &d->work;
    uint64_t given = work->given + work->part.n_samples;

    if (!await_decision(d))
        return leave_share(d, given);
    add(d, grad);
    work->given = given;
    if (given < d->share) {
        tell(d, SEG_EVENT_DEPOSIT, (uint64_t)work->offers << 32 | given, 0,
             of_share(d, given));
        return DSGD_OK;
    }
    tell(d, SEG_EVENT_COMMIT, given, 0, 1);
    hand_over(d, NULL);
    return DSGD_OK;
}

enum dsgd_err dsgd_claim(struct dsgd *d, struct dsgd_part *part)
{
    struct client_work *work = &d->work;

    if (!d->step && work->step && work->step == d->reduced)
        return DSGD_ABANDON; /* the last part was deposited */
    if (!d->step || d->sampler != DSGD_SAMPLER_RANGES)
        return error_set(&d->error, DSGD_E_STATE, "dsgd_claim: %s",
                         d->step ? "needs DSGD_SAMPLER_RANGES"
                                 : "no step was begun");
    if (work->step != d->step) {
        work->step = d->step;
        work->claimed = work->abandoned = false;
        work->first = work->first_had = work->first_offered = false;
        work->offers = 0;
        work->given = 0;
        work->next = 0;
        carry_begin(&work->carry, d->step);
    }
    if (work->claimed && !work->abandoned)
        return error_set(&d->error, DSGD_E_STATE,
                         "dsgd_claim: the part before was not deposited: call "
                         "dsgd_deposit first");
    work->claimed = false;
    enum dsgd_err rc = work->shared ? claim_shared(d) : claim_own(d);
    if (rc != DSGD_OK)
        return rc;
    work->claimed = true;
    work->abandoned = false;
    work->claim_ns = sys_now_ns();
    *part = work->part;
    return DSGD_OK;
}

enum dsgd_err dsgd_deposit(struct dsgd *d, const float *grad, size_t n,
                           uint64_t samples)
{
    struct client_work *work = &d->work;

    if (!d->step || work->step != d->step || !work->claimed)
        return error_set(
            &d->error, DSGD_E_STATE,
            "dsgd_deposit: no part was claimed: call dsgd_claim first");
    if (n != d->grad_elems)
        return error_set(&d->error, DSGD_E_RANGE,
                         "dsgd_deposit: %zu floats, and the run was opened "
                         "with %zu",
                         n, d->grad_elems);
    if (samples != work->part.n_samples)
        return error_set(&d->error, DSGD_E_RANGE,
                         "dsgd_deposit: %llu samples, and the part has %llu",
                         (unsigned long long)samples,
                         (unsigned long long)work->part.n_samples);
    work->claimed = false;
    if (work->shared)
        return deposit_shared(d, grad);
    return work->counts ? deposit_counted(d, grad) : deposit_own(d, grad, n);
}
