#include "node_parts.h"

#include <stdlib.h>
#include <string.h>

#include "sys.h"

static uint32_t capacity(const struct node_parts *p)
{
    return SEGMENT_PARTS + p->seg->h->n_local;
}

bool parts_create(struct node_parts *p, struct segment *seg)
{
    uint32_t n_local = seg->h->n_local;

    *p = (struct node_parts){.seg = seg};
    p->taken = calloc(capacity(p), sizeof *p->taken);
    p->waiting = calloc(n_local, sizeof *p->waiting);
    p->accepted = calloc(n_local, sizeof *p->accepted);
    return p->taken && p->waiting && p->accepted;
}

void parts_destroy(struct node_parts *p)
{
    free(p->taken);
    free(p->waiting);
    free(p->accepted);
}

static void ring(const struct node_parts *p)
{
    sys_futex_ring(&p->seg->h->worker_bell);
}

static void add_entry(struct node_parts *p, uint64_t first, uint64_t count)
{
    struct seg_part *entry = &p->seg->parts[p->n];

    atomic_store_explicit(&entry->first, first, memory_order_release);
    atomic_store_explicit(&entry->count, count, memory_order_release);
    p->taken[p->n++] = 0;
}

static void cut_range(struct node_parts *p, const struct msg_range *range,
                      uint64_t part)
{
    uint64_t at = 0;

    while (at < range->count && p->n < capacity(p)) {
        uint64_t left = range->count - at;
        uint64_t samples = part && part < left ? part : left;
        add_entry(p, range->first + at, samples);
        at += samples;
    }
}

/* No claim succeeds from here on, and a worker that reads an entry sees that it
 * is not its own. */
static void empty_pool(struct node_parts *p, uint64_t step)
{
    atomic_store(&p->seg->pool->claim, 0);
    p->step = step;
    p->tokens = 0;
    p->closed = false;
    p->returned = p->n_returns = p->withdrawn = 0;
    p->n = p->fixed = 0;
    p->n_waiting = 0;
}

/* First parts: of any size, and one for each worker, also of nothing. */
static void add_fixed(struct node_parts *p, const struct msg_range *range)
{
    for (uint32_t i = 0; i < p->seg->h->n_local; i++)
        add_entry(p, range[i].first, range[i].count);
    p->fixed = p->n;
}

void parts_pool(struct node_parts *p, uint64_t step, uint64_t part, bool fixed,
                const struct msg_range *range, uint32_t n_ranges,
                uint64_t tokens)
{
    struct seg_pool *pool = p->seg->pool;
    bool is_new = step > p->step;
    uint32_t i = 0;

    if (step < p->step || (!is_new && p->closed))
        return;
    if (is_new)
        empty_pool(p, step);
    if (is_new && fixed && n_ranges >= p->seg->h->n_local) {
        add_fixed(p, range);
        i = p->fixed;
    }
    for (; i < n_ranges; i++)
        cut_range(p, &range[i], part);
    atomic_store(&pool->limit, SEGMENT_POOL_WORD(step, p->n));
    if (is_new) {
        atomic_store(&pool->fixed, SEGMENT_POOL_WORD(step, p->fixed));
        atomic_store(&pool->claim, SEGMENT_POOL_WORD(step, p->fixed));
    }
    parts_tokens(p, step, tokens);
    ring(p);
}

/* The worker may make its next offer.  An offer that is told of as accepted was
 * accepted before the coordinator hears of it. */
static void accept(struct node_parts *p, const struct msg_event *offer)
{
    struct seg_worker *worker = &p->seg->workers[offer->worker];
    uint64_t word = atomic_load(&worker->accepted);
    uint32_t count =
        SEGMENT_POOL_STEP(word) == p->step ? SEGMENT_POOL_INDEX(word) : 0;

    if (offer->value >> 32 >= p->fixed)
        p->tokens -= (uint32_t)offer->value;
    p->taken[offer->value >> 32] = 1;
    atomic_store(&worker->accepted, SEGMENT_POOL_WORD(p->step, count + 1));
}

static bool may_accept(const struct node_parts *p,
                       const struct msg_event *offer)
{
    uint32_t entry = offer->value >> 32;

    return !p->taken[entry] &&
           (entry < p->fixed || (uint32_t)offer->value <= p->tokens);
}

void parts_tokens(struct node_parts *p, uint64_t step, uint64_t tokens)
{
    uint32_t left = 0;

    if (step != p->step || p->closed)
        return;
    p->tokens += tokens;
    for (uint32_t i = 0; i < p->n_waiting; i++) {
        const struct msg_event *offer = &p->waiting[i];
        if (may_accept(p, offer)) {
            accept(p, offer);
            p->accepted[p->n_accepted++] = *offer;
        } else {
            p->waiting[left++] = *offer;
        }
    }
    if (left < p->n_waiting)
        ring(p);
    p->n_waiting = left;
}

uint64_t parts_withdraw(struct node_parts *p, uint64_t step, uint32_t worker)
{
    if (step != p->step || worker >= p->fixed || p->taken[worker])
        return 0;
    uint64_t samples = atomic_exchange(&p->seg->parts[worker].count, 0);
    ring(p);
    return samples;
}

uint64_t parts_revoke(struct node_parts *p, uint64_t step, uint64_t most)
{
    if (step != p->step)
        return 0;
    uint64_t taken = most < p->tokens ? most : p->tokens;
    p->tokens -= taken;
    if (most < UINT64_MAX)
        return taken;
    p->closed = true;
    for (uint32_t i = 0; i < p->fixed; i++)
        taken += parts_withdraw(p, step, i);
    return taken;
}

bool parts_idle(const struct node_parts *p)
{
    return p->closed || p->n_waiting == p->seg->h->n_local;
}

bool parts_offer(struct node_parts *p, uint32_t entry, struct msg_event *event)
{
    if (event->step != p->step || p->closed || entry >= p->n ||
        p->taken[entry] || event->value > UINT32_MAX || event->value == 0 ||
        event->value != atomic_load(&p->seg->parts[entry].count) ||
        (entry < p->fixed && entry != event->worker))
        return false;
    event->value |= (uint64_t)entry << 32;
    if (may_accept(p, event)) {
        accept(p, event);
        ring(p);
        return true;
    }
    parts_forget(p, event->worker); /* of a process before this one */
    p->waiting[p->n_waiting++] = *event;
    event->kind = SEG_EVENT_WAITS;
    event->value = (uint32_t)event->value;
    return true;
}

bool parts_next(struct node_parts *p, struct msg_event *event)
{
    if (!p->n_accepted)
        return false;
    *event = p->accepted[0];
    p->n_accepted--;
    memmove(p->accepted, p->accepted + 1, p->n_accepted * sizeof *event);
    return true;
}

void parts_forget(struct node_parts *p, uint32_t worker)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < p->n_waiting; i++) {
        if (p->waiting[i].worker != worker)
            p->waiting[left++] = p->waiting[i];
    }
    p->n_waiting = left;
}
