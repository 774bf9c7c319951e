#include "parts_sim.h"

#include <string.h>

/* The worker's first part, or else the next of all. */
static bool choose(struct segment *seg, uint32_t w, struct parts_worker *k)
{
    uint64_t word = atomic_load(&seg->pool->claim);
    uint64_t limit = atomic_load(&seg->pool->limit);

    if (SEGMENT_POOL_STEP(word) != k->step ||
        SEGMENT_POOL_STEP(limit) != k->step)
        return false;
    k->is_first = !k->first_had &&
                  w < SEGMENT_POOL_INDEX(atomic_load(&seg->pool->fixed)) &&
                  atomic_load(&seg->parts[w].count);
    k->first_had = true;
    k->entry = k->is_first ? w : SEGMENT_POOL_INDEX(word);
    if (k->entry >= SEGMENT_POOL_INDEX(limit))
        return false;
    if (!k->is_first)
        atomic_store(&seg->pool->claim, word + 1);
    return true;
}

static bool claim(struct segment *seg, uint32_t w, struct parts_worker *k,
                  double now_s, double sample_s)
{
    if (!choose(seg, w, k))
        return false;
    k->first = atomic_load(&seg->parts[k->entry].first);
    k->count = atomic_load(&seg->parts[k->entry].count);
    k->claim_s = now_s;
    k->end_s = now_s + sample_s * (double)k->count;
    return true;
}

static void offer(struct segment *seg, uint32_t w, struct parts_worker *k)
{
    uint32_t buf = k->offers ? !k->buf : 0;
    float *to = segment_slot(seg, w, buf);
    size_t bytes = (size_t)seg->h->grad_elems * sizeof *to;
    struct seg_event e = {.kind = SEG_EVENT_PART,
                          .fraction = (float)(k->end_s - k->claim_s),
                          .step = k->step,
                          .value = k->count,
                          .buf = buf,
                          .entry = k->entry};

    if (k->offers)
        memcpy(to, segment_slot(seg, w, k->buf), bytes);
    else
        memset(to, 0, bytes);
    for (uint64_t i = 0; i < k->count; i++)
        to[k->first + i] += 1;
    k->buf = buf;
    k->offers++;
    k->first_offered = k->is_first;
    k->count = 0;
    segment_post(seg, w, &e);
}

static bool is_withdrawn(const struct segment *seg, uint32_t w,
                         const struct parts_worker *k)
{
    return SEGMENT_POOL_STEP(atomic_load(&seg->pool->claim)) == k->step &&
           !atomic_load(&seg->parts[w].count);
}

void parts_work(struct segment *seg, uint32_t w, struct parts_worker *k,
                uint64_t step, double now_s, double sample_s)
{
    uint64_t accepted = atomic_load(&seg->workers[w].accepted);

    if (k->step != step)
        *k = (struct parts_worker){.step = step, .polls = k->polls};
    if (k->offers && k->first_offered && is_withdrawn(seg, w, k))
        k->offers = 0;
    if (k->count && k->is_first && is_withdrawn(seg, w, k) &&
        (k->polls || now_s >= k->end_s))
        k->count = 0;
    if (k->count && now_s >= k->end_s &&
        (!k->offers || accepted == SEGMENT_POOL_WORD(step, k->offers)))
        offer(seg, w, k);
    if (!k->count)
        claim(seg, w, k, now_s, sample_s);
}
