#include "parts_sim.h"

#include <string.h>

#include "message.h"

/* Where every part is somebody's. */
static bool find_own(const struct segment *seg, uint32_t w,
                     struct parts_worker *k, uint64_t limit, uint32_t *entry)
{
    while (k->next < SEGMENT_POOL_INDEX(limit)) {
        *entry = k->next++;
        if (atomic_load(&seg->parts[*entry].owner) == w + 1)
            return true;
    }
    return false;
}

/* The worker's first part, or else the next of all, or of its own. */
static bool choose(struct segment *seg, uint32_t w, struct parts_worker *k,
                   uint32_t *entry)
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
    *entry = k->is_first ? w : SEGMENT_POOL_INDEX(word);
    if (k->is_first)
        return true;
    if (atomic_load(&seg->pool->kind) & SEG_POOL_OWNED)
        return find_own(seg, w, k, limit, entry);
    if (*entry >= SEGMENT_POOL_INDEX(limit))
        return false;
    atomic_store(&seg->pool->claim, word + 1);
    return true;
}

static void claim(struct segment *seg, uint32_t w, struct parts_worker *k,
                  double now_s, double sample_s)
{
    uint32_t entry;

    if (!choose(seg, w, k, &entry))
        return;
    const struct seg_part *part = &seg->parts[entry];
    k->part = (struct parts_held){.entry = entry,
                                  .first = atomic_load(&part->first),
                                  .count = atomic_load(&part->count)};
    k->part.spent_s = sample_s * (double)k->part.count;
    k->late = atomic_load(&part->late);
    k->end_s = now_s + k->part.spent_s;
}

static void post(struct segment *seg, uint32_t w, struct parts_worker *k,
                 enum seg_event_kind kind, const struct parts_held *part)
{
    struct seg_event e = {.kind = kind,
                          .fraction = (float)part->spent_s,
                          .step = k->step,
                          .value = part->count,
                          .buf = k->buf,
                          .entry = part->entry};

    if (kind == SEG_EVENT_KEPT)
        e.value |= (uint64_t)part->entry << 32;
    segment_post(seg, w, &e);
}

static void offer(struct segment *seg, uint32_t w, struct parts_worker *k,
                  const struct parts_held *part)
{
    uint32_t buf = k->offers ? !k->buf : 0;
    float *to = segment_slot(seg, w, buf);
    size_t n = (size_t)seg->h->grad_elems;

    if (k->offers)
        memcpy(to, segment_slot(seg, w, k->buf), n * sizeof *to);
    else
        memset(to, 0, n * sizeof *to);
    for (uint64_t i = 0; i < part->count; i++)
        to[part->first + i] += 1;
    to[n - 1] += .1f * (float)((part->first * 31 + part->count * 7) % 1013);
    k->buf = buf;
    k->offers++;
    post(seg, w, k, SEG_EVENT_PART, part);
}

static bool decided(const struct segment *seg, uint32_t w,
                    const struct parts_worker *k)
{
    return !k->offers || atomic_load(&seg->workers[w].accepted) ==
                             SEGMENT_POOL_WORD(k->step, k->offers);
}

static bool is_withdrawn(const struct segment *seg, uint32_t w,
                         const struct parts_worker *k)
{
    return SEGMENT_POOL_STEP(atomic_load(&seg->pool->claim)) == k->step &&
           !atomic_load(&seg->parts[w].count);
}

/* A first part that was offered and then withdrawn was not offered. */
static void see_withdrawn(const struct segment *seg, uint32_t w,
                          struct parts_worker *k, double now_s)
{
    if (!is_withdrawn(seg, w, k))
        return;
    if (k->first_offered) {
        k->first_offered = false;
        k->offers--;
        k->buf = !k->buf;
    }
    if (k->is_first && (k->polls || now_s >= k->end_s))
        k->part.count = 0;
}

/* Returns whether nothing is left of what was kept. */
static bool offer_kept(struct segment *seg, uint32_t w, struct parts_worker *k)
{
    if (!k->n_kept || k->kept_step == k->step)
        return true;
    if (SEGMENT_POOL_STEP(atomic_load(&seg->pool->claim)) != k->step)
        return false;
    if (!(atomic_load(&seg->pool->kind) & SEG_POOL_CARRIES))
        k->n_kept = 0;
    while (k->n_kept && decided(seg, w, k)) {
        k->kept[0].entry |= MSG_CARRIED_PART;
        offer(seg, w, k, &k->kept[0]);
        k->kept[0] = k->kept[1];
        k->n_kept--;
    }
    return !k->n_kept;
}

static void keep(struct parts_worker *k, const struct parts_held *part)
{
    if (k->n_kept < 2)
        k->kept[k->n_kept++] = *part;
    k->kept_step = k->step;
    k->offered.count = 0;
}

static void begin(struct parts_worker *k, uint64_t step)
{
    struct parts_worker was = *k;

    *k = (struct parts_worker){
        .step = step, .carries = was.carries, .polls = was.polls};
    if (was.kept_step + 1 != step)
        return;
    memcpy(k->kept, was.kept, sizeof k->kept);
    k->n_kept = was.n_kept;
    k->kept_step = was.kept_step;
}

/* Returns whether the part in hand is no more. */
static bool deposit(struct segment *seg, uint32_t w, struct parts_worker *k,
                    double now_s)
{
    if (now_s < k->end_s || (!k->late && !decided(seg, w, k)))
        return false;
    if (k->late) {
        keep(k, &k->part);
        post(seg, w, k, SEG_EVENT_KEPT, &k->part);
    } else {
        offer(seg, w, k, &k->part);
        k->first_offered = k->is_first;
        if (!k->is_first)
            k->offered = k->part;
    }
    k->part.count = 0;
    return true;
}

void parts_work(struct segment *seg, uint32_t w, struct parts_worker *k,
                uint64_t step, double now_s, double sample_s)
{
    if (k->step != step)
        begin(k, step);
    see_withdrawn(seg, w, k, now_s);
    if (k->part.count && !deposit(seg, w, k, now_s))
        return;
    if (offer_kept(seg, w, k))
        claim(seg, w, k, now_s, sample_s);
}

bool parts_over(struct segment *seg, uint32_t w, struct parts_worker *k,
                double now_s)
{
    if (!k->carries)
        return true;
    if (k->part.count && now_s < k->end_s && !(k->is_first && k->polls))
        return false;
    if (k->is_first)
        k->part.count = 0;
    if (k->offered.count || k->part.count)
        k->n_kept = 0;
    if (k->offered.count && !decided(seg, w, k))
        keep(k, &k->offered);
    if (k->part.count)
        keep(k, &k->part);
    k->part.count = k->offered.count = 0;
    return true;
}
