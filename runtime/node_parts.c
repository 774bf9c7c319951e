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
    p->open = calloc(capacity(p), sizeof *p->open);
    p->open_before = calloc(capacity(p), sizeof *p->open_before);
    p->waiting = calloc(n_local, sizeof *p->waiting);
    p->accepted = calloc(n_local, sizeof *p->accepted);
    return p->open && p->open_before && p->waiting && p->accepted;
}

void parts_destroy(struct node_parts *p)
{
    free(p->open);
    free(p->open_before);
    free(p->waiting);
    free(p->accepted);
}

static void ring(const struct node_parts *p)
{
    sys_futex_ring(&p->seg->h->worker_bell);
}

static void add_entry(struct node_parts *p, uint64_t first, uint64_t count,
                      const struct msg_script *whose)
{
    struct seg_part *entry = &p->seg->parts[p->n];
    uint32_t owner = whose ? whose->worker + 1 : 0;
    uint32_t late = whose ? whose->late : 0;

    atomic_store_explicit(&entry->first, first, memory_order_release);
    atomic_store_explicit(&entry->owner, owner, memory_order_release);
    atomic_store_explicit(&entry->late, late, memory_order_release);
    atomic_store_explicit(&entry->count, count, memory_order_release);
    p->open[p->n++] = (uint32_t)count;
}

static void cut_range(struct node_parts *p, const struct msg_range *range,
                      uint64_t part, const struct msg_script *whose)
{
    uint64_t at = 0;

    while (at < range->count && p->n < capacity(p)) {
        uint64_t left = range->count - at;
        uint64_t samples = part && part < left ? part : left;
        add_entry(p, range->first + at, samples, whose);
        at += samples;
    }
}

/* No claim succeeds from here on, and a worker that reads an entry sees that it
 * is not its own.  First parts are not carried. */
static void empty_pool(struct node_parts *p, uint64_t step, bool carries)
{
    uint32_t *before = p->open;

    atomic_store(&p->seg->pool->claim, 0);
    memset(before, 0, p->fixed * sizeof *before);
    p->open = p->open_before;
    p->open_before = before;
    p->n_before = carries && step == p->step + 1 ? p->n : 0;
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
        add_entry(p, range[i].first, range[i].count, NULL);
    p->fixed = p->n;
}

/* The first of a step: until claim is of that, nothing of it is seen. */
static void begin_pool(struct node_parts *p, const struct msg *m,
                       const void *body)
{
    struct seg_pool *pool = p->seg->pool;
    uint32_t kind = m->kind == MSG_SCRIPT ? SEG_POOL_OWNED : 0;

    empty_pool(p, m->step, (m->flags & MSG_CARRIES) != 0);
    if (p->n_before)
        kind |= SEG_POOL_CARRIES;
    atomic_store(&pool->kind, kind);
    if (m->kind == MSG_POOL && m->flags & MSG_FIXED &&
        m->count >= p->seg->h->n_local)
        add_fixed(p, body);
    atomic_store(&pool->fixed, SEGMENT_POOL_WORD(m->step, p->fixed));
}

static void cut_script(struct node_parts *p, const struct msg_script *script)
{
    struct msg_range range = {script->first, script->samples};

    cut_range(p, &range, script->part, script);
}

/* Where it stands what a part that was offered has left to give: its samples,
 * or 0 once they were accepted.  NULL: there is no such part. */
static uint32_t *find_open(const struct node_parts *p, uint32_t entry)
{
    bool carried = (entry & MSG_CARRIED_PART) != 0;
    uint32_t index = entry & ~MSG_CARRIED_PART;

    if (index >= (carried ? p->n_before : p->n))
        return NULL;
    return carried ? &p->open_before[index] : &p->open[index];
}

static uint32_t open_samples(const struct node_parts *p, uint32_t entry)
{
    const uint32_t *open = find_open(p, entry);

    return open ? *open : 0;
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
    *find_open(p, (uint32_t)(offer->value >> 32)) = 0;
    atomic_store(&worker->accepted, SEGMENT_POOL_WORD(p->step, count + 1));
}

static bool may_accept(const struct node_parts *p,
                       const struct msg_event *offer)
{
    uint32_t entry = (uint32_t)(offer->value >> 32);

    return open_samples(p, entry) &&
           (entry < p->fixed || (uint32_t)offer->value <= p->tokens);
}

static void add_tokens(struct node_parts *p, uint64_t step, uint64_t tokens)
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
    if (step != p->step || worker >= p->fixed || !p->open[worker])
        return 0;
    uint64_t samples = p->open[worker];
    p->open[worker] = 0;
    atomic_store(&p->seg->parts[worker].count, 0);
    ring(p);
    return samples;
}

/* A pool, or more of the step's; POOL or SCRIPT. */
static void take_pool(struct node_parts *p, const struct msg *m,
                      const void *body, size_t bytes)
{
    struct seg_pool *pool = p->seg->pool;
    const struct msg_range *range = body;
    const struct msg_script *script = body;
    bool is_new = m->step > p->step, scripted = m->kind == MSG_SCRIPT;

    if (bytes != m->count * (scripted ? sizeof *script : sizeof *range) ||
        m->step <= atomic_load(&p->seg->h->published) || m->step < p->step ||
        (!is_new && p->closed))
        return;
    if (is_new)
        begin_pool(p, m, body);
    for (uint32_t i = is_new ? p->fixed : 0; i < m->count; i++) {
        if (scripted)
            cut_script(p, &script[i]);
        else
            cut_range(p, &range[i], m->u.pool.part, NULL);
    }
    atomic_store(&pool->limit, SEGMENT_POOL_WORD(m->step, p->n));
    if (is_new)
        atomic_store(&pool->claim, SEGMENT_POOL_WORD(m->step, p->fixed));
    add_tokens(p, m->step, m->u.pool.tokens);
    ring(p);
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
    if (event->step != p->step || p->closed || event->value == 0 ||
        event->value != open_samples(p, entry) ||
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

/* The coordinator knows of so many deposits of each worker, [n_local], in that
 * step: no sum is asked for that has fewer.  Who does not wait is not woken,
 * nor are the others. */
static void take_known(struct node_parts *p, uint64_t step,
                       const uint32_t *deposits)
{
    bool awaited = false;

    for (uint32_t w = 0; w < p->seg->h->n_local; w++) {
        struct seg_worker *worker = &p->seg->workers[w];
        uint64_t word = SEGMENT_POOL_WORD(step, deposits[w]);
        if (!deposits[w] || word <= atomic_load(&worker->accepted))
            continue;
        atomic_store(&worker->accepted, word);
        awaited = atomic_load(&worker->waits) || awaited;
    }
    if (awaited)
        ring(p);
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

void parts_message(struct node_parts *p, const struct msg *m, const void *body,
                   size_t bytes)
{
    uint64_t tokens = m->u.pool.tokens;

    if (m->kind == MSG_POOL || m->kind == MSG_SCRIPT) {
        take_pool(p, m, body, bytes);
    } else if (m->kind == MSG_TOKENS) {
        add_tokens(p, m->step, tokens);
    } else if (m->kind == MSG_REVOKE && m->flags & MSG_FIXED) {
        uint32_t worker = (uint32_t)m->u.pool.part;
        p->withdrawn_samples = parts_withdraw(p, m->step, worker);
        p->withdrawn = m->step == p->step ? worker + 1 : 0;
    } else if (m->kind == MSG_REVOKE) {
        p->returned += parts_revoke(p, m->step, tokens);
        p->n_returns++;
    } else if (m->kind == MSG_KNOWN && m->count == p->seg->h->n_local &&
               bytes == m->count * sizeof(uint32_t)) {
        take_known(p, m->step, body);
    }
}

bool parts_return(const struct node_parts *p, struct msg *m)
{
    *m = (struct msg){.kind = MSG_RETURN, .step = p->step};
    m->u.pool.tokens = p->returned;
    if (p->withdrawn) {
        m->flags = MSG_FIXED;
        m->u.pool.part = p->withdrawn - 1;
        m->u.pool.tokens = p->withdrawn_samples;
    }
    return p->withdrawn || p->n_returns > 0;
}

void parts_returned(struct node_parts *p)
{
    if (p->withdrawn) {
        p->withdrawn = 0;
        return;
    }
    p->returned = 0;
    p->n_returns--;
}
