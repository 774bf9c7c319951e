#include "chunks.h"

#include <sched.h>
#include <string.h>

#include "message.h"
#include "sum.h"
#include "sys.h"

enum { INDEX_BITS = 24 };
#define INDEX_MASK ((UINT64_C(1) << INDEX_BITS) - 1)

/* A helper that sleeps costs a wake-up of some ten microseconds: so many floats
 * must be read for each that is called.  Those that still spin come for
 * less. */
#define HELPER_FLOATS UINT64_C(65536)

/* A helper is waited for as long as the sum took the aggregator so far, but at
 * least so long: it may be waiting for a core. */
#ifndef PATIENCE_NS
#define PATIENCE_NS UINT64_C(200000)
#endif

#define SPIN_NS UINT64_C(20000)

void chunks_init(struct chunks *c, struct segment *s)
{
    *c = (struct chunks){.s = s};
}

static uint64_t claim_word(uint64_t job, uint64_t index)
{
    return job << INDEX_BITS | index;
}

/* What seg_sum.done holds while a chunk of a job is not done, and after. */
static uint64_t open_word(uint64_t job)
{
    return job << 1;
}

static uint64_t done_word(uint64_t job)
{
    return job << 1 | 1;
}

static void sum_block(const struct segment *s, float *out, size_t at, size_t n)
{
    uint32_t n_rows =
        atomic_load_explicit(&s->sum->n_rows, memory_order_relaxed);
    struct sum sum;

    sum_begin(&sum, out,
              atomic_load_explicit(&s->sum->factor, memory_order_relaxed), n);
    for (uint32_t r = 0; r < n_rows; r++) {
        uint32_t row = atomic_load_explicit(&s->rows[r], memory_order_relaxed);
        sum_add(&sum, segment_row(s, row) + at);
    }
    sum_end(&sum);
}

static size_t chunk_floats(const struct segment *s, uint32_t index)
{
    size_t at = (size_t)index * s->h->chunk_elems;
    size_t left = s->h->grad_elems - at;
    return left < s->h->chunk_elems ? left : s->h->chunk_elems;
}

static void sum_chunk(const struct segment *s, uint32_t index, uint32_t slot)
{
    size_t first = (size_t)index * s->h->chunk_elems;
    size_t end = first + chunk_floats(s, index);
    float *out = segment_ring(s, slot);

    for (size_t at = first; at < end; at += SUM_BLOCK)
        sum_block(s, out + at, at, end - at < SUM_BLOCK ? end - at : SUM_BLOCK);
}

static bool claim(struct segment *s, uint64_t word)
{
    return atomic_compare_exchange_strong(&s->sum->claim, &word, word + 1);
}

bool chunks_claim(struct segment *s, uint32_t worker, struct chunk *chunk)
{
    struct seg_worker *w = &s->workers[worker];

    for (;;) {
        uint64_t word = atomic_load(&s->sum->claim);
        chunk->index = (uint32_t)(word & INDEX_MASK);
        chunk->job = word >> INDEX_BITS;
        if (!chunk->job || chunk->index >= s->h->n_chunks)
            return false;
        chunk->slot = atomic_load(&s->sum->slot);
        atomic_store(&w->writing, chunk->slot + 1);
        if (claim(s, word))
            return true;
        atomic_store(&w->writing, 0);
    }
}

void chunks_do(struct segment *s, uint32_t worker, const struct chunk *chunk)
{
    uint64_t open = open_word(chunk->job);

    sum_chunk(s, chunk->index, chunk->slot);
    atomic_compare_exchange_strong(&s->done[chunk->index], &open,
                                   done_word(chunk->job));
    atomic_store(&s->workers[worker].writing, 0);
    if (atomic_load(&s->h->agg_asleep))
        sys_futex_ring(&s->h->agg_bell);
}

uint32_t chunks_help(struct segment *s, uint32_t worker)
{
    struct chunk chunk;
    uint32_t count = 0;

    for (; chunks_claim(s, worker, &chunk); count++)
        chunks_do(s, worker, &chunk);
    return count;
}

/* Workers may be bound to cores of their own: all that any of them may use, but
 * no more than there are workers. */
static uint32_t threads(const struct segment *s)
{
    cpu_set_t all, one;
    uint32_t n;

    CPU_ZERO(&all);
    for (uint32_t w = 0; w < s->h->n_local; w++) {
        if (sched_getaffinity(atomic_load(&s->workers[w].pid), sizeof one,
                              &one) == 0)
            CPU_OR(&all, &all, &one);
    }
    n = (uint32_t)CPU_COUNT(&all);
    n = n < s->h->n_local ? n : s->h->n_local;
    return n ? n : 1;
}

static void wake_helpers(struct chunks *c, uint32_t n_rows)
{
    struct seg_header *h = c->s->h;
    uint64_t floats = (uint64_t)n_rows * h->grad_elems;
    uint64_t wanted = floats / HELPER_FLOATS;

    if (!c->threads) {
        c->threads = threads(c->s);
        atomic_store(&h->crowded, c->threads < h->n_local);
    }
    if (wanted > c->threads - 1)
        wanted = c->threads - 1;
    atomic_fetch_add(&h->worker_bell, 1); /* for who is not asleep */
    if (wanted && atomic_load(&h->dozing))
        sys_futex_ring_some(&h->worker_bell, (int)wanted);
}

static void add_row(struct segment *s, uint32_t *n_rows, uint32_t w, bool buf)
{
    atomic_store_explicit(&s->rows[(*n_rows)++], w * s->h->slot_bufs + buf,
                          memory_order_relaxed);
}

/* The rows that a mask asks for, in order; returns how many. */
static uint32_t set_rows(struct segment *s, const uint8_t *mask)
{
    uint32_t n_rows = 0;

    for (uint32_t w = 0; w < s->h->n_local; w++) {
        if (mask[w] & MSG_OWN)
            add_row(s, &n_rows, w, mask[w] & MSG_OWN_BUF);
        if (mask[w] & MSG_CARRIED)
            add_row(s, &n_rows, w, mask[w] & MSG_CARRIED_BUF);
    }
    return n_rows;
}

void chunks_begin(struct chunks *c, const uint8_t *mask, float factor,
                  uint32_t slot)
{
    struct segment *s = c->s;
    uint32_t n_rows;

    c->job++;
    c->slot = slot;
    c->ready = 0;
    c->until_ns = 0;
    c->start_ns = sys_now_ns();
    atomic_store(&s->sum->claim, claim_word(c->job, INDEX_MASK));
    n_rows = set_rows(s, mask);
    for (uint32_t i = 0; i < s->h->n_chunks; i++)
        atomic_store_explicit(&s->done[i], open_word(c->job),
                              memory_order_relaxed);
    atomic_store(&s->sum->n_rows, n_rows);
    atomic_store(&s->sum->factor, factor);
    atomic_store(&s->sum->slot, slot);
    atomic_store(&s->sum->claim, claim_word(c->job, 0));
    wake_helpers(c, n_rows);
}

bool chunks_work(struct chunks *c)
{
    struct segment *s = c->s;
    uint64_t word;

    do {
        word = atomic_load(&s->sum->claim);
        if ((word & INDEX_MASK) >= s->h->n_chunks)
            return false;
    } while (!claim(s, word));
    uint32_t index = (uint32_t)(word & INDEX_MASK);
    sum_chunk(s, index, c->slot);
    atomic_store_explicit(&s->done[index], done_word(c->job),
                          memory_order_release);
    return true;
}

static bool chunk_is_done(const struct chunks *c, uint32_t index)
{
    return atomic_load(&c->s->done[index]) == done_word(c->job);
}

uint32_t chunks_ready(struct chunks *c)
{
    while (c->ready < c->s->h->n_chunks && chunk_is_done(c, c->ready))
        c->ready++;
    return c->ready;
}

/* When to take over; counts from when nothing was left to claim. */
static uint64_t patience_end(struct chunks *c)
{
    uint64_t now = sys_now_ns(), patience = now - c->start_ns;

    if (!c->until_ns)
        c->until_ns = now + (patience > PATIENCE_NS ? patience : PATIENCE_NS);
    return c->until_ns;
}

/* Helpers with a CPU of their own are through before a sleeper is up again. */
static bool spin_for_helpers(struct chunks *c)
{
    uint64_t until = sys_now_ns() + SPIN_NS;
    bool all;

    do {
        all = chunks_ready(c) == c->s->h->n_chunks;
    } while (!all && sys_now_ns() < until);
    return all;
}

/* Sleep until all chunks are done; false when patience ends. */
static bool await_helpers(struct chunks *c)
{
    struct seg_header *h = c->s->h;
    uint64_t until = patience_end(c), now;
    bool all;

    if (segment_driven(h) && spin_for_helpers(c))
        return true;
    for (;;) {
        uint32_t bell = atomic_load(&h->agg_bell);
        atomic_store(&h->agg_asleep, 1);
        all = chunks_ready(c) == h->n_chunks;
        now = sys_now_ns();
        if (all || now >= until)
            break;
        sys_futex_wait(&h->agg_bell, bell, until - now);
    }
    atomic_store(&h->agg_asleep, 0);
    return all;
}

/* Every chunk has been claimed, and some are not done.  The old slot is given
 * out again only if nobody writes it any more: what is not done then was
 * claimed by a worker that has died and has a successor. */
static void take_over(struct chunks *c)
{
    struct segment *s = c->s;
    uint32_t old = c->slot, other = segment_reserve(s);

    c->slot = other;
    c->taken_over++;
    for (uint32_t i = 0; i < s->h->n_chunks; i++) {
        size_t at = (size_t)i * s->h->chunk_elems;
        if (!chunk_is_done(c, i))
            sum_chunk(s, i, other);
        else if (other != old)
            memcpy(segment_ring(s, other) + at, segment_ring(s, old) + at,
                   chunk_floats(s, i) * sizeof(float));
    }
    c->ready = s->h->n_chunks;
}

uint32_t chunks_finish(struct chunks *c)
{
    while (chunks_work(c)) {
    }
    if (chunks_ready(c) < c->s->h->n_chunks && !await_helpers(c))
        take_over(c);
    return c->slot;
}

bool chunks_tend(struct chunks *c)
{
    if (chunks_work(c))
        return true;
    if (chunks_ready(c) == c->s->h->n_chunks || sys_now_ns() < patience_end(c))
        return false;
    take_over(c);
    return true;
}

bool chunks_abandon(struct chunks *c)
{
    if (!c->job)
        return false;
    atomic_store(&c->s->sum->claim, claim_word(c->job, INDEX_MASK));
    return chunks_ready(c) < c->s->h->n_chunks;
}

uint32_t chunks_sum(struct chunks *c, const uint8_t *mask, float factor,
                    uint32_t slot)
{
    chunks_begin(c, mask, factor, slot);
    return chunks_finish(c);
}
