/* Lanes: how shares that are contributed from their front on are handed out
 * without breaking the epoch into pieces. */
#include "sampler_priv.h"

/* What nobody was given is cut in as many lanes as there are workers without
 * one, of whole batches. */
static void cut_fresh(struct sampler *s, const bool *able)
{
    uint64_t left = s->opt.n_samples - s->fresh, n = 0;

    for (uint32_t w = 0; w < s->n_workers; w++)
        n += able[w] && !s->lane[w].count;
    if (!left || !n)
        return;
    uint64_t batches = (left + s->opt.batch - 1) / s->opt.batch;
    uint64_t each = (batches + n - 1) / n * s->opt.batch;
    for (uint32_t w = 0; w < s->n_workers; w++) {
        left = s->opt.n_samples - s->fresh;
        if (!able[w] || s->lane[w].count || !left)
            continue;
        s->lane[w] = (struct sample_range){.first = s->fresh,
                                           .count = left < each ? left : each};
        s->fresh += s->lane[w].count;
        s->returned_samples += s->lane[w].count;
    }
}

static struct sample_range *longest(struct sampler *s)
{
    struct sample_range *best = &s->lane[0];

    for (uint32_t w = 1; w < s->n_workers; w++) {
        if (s->lane[w].count > best->count)
            best = &s->lane[w];
    }
    return best;
}

/* A worker that has come to the end of its lane gets a range that came back
 * before there were lanes, or the back half of the longest lane; in the last
 * step one share of it. */
static void refill(struct sampler *s, uint32_t w, uint64_t share, bool last)
{
    struct sample_range *own = &s->lane[w];

    if (s->head != s->tail) {
        *own = s->returned[s->head++ & (s->capacity - 1)];
        return;
    }
    struct sample_range *from = longest(s);
    uint64_t half = from->count / 2;
    uint64_t count = half - half % s->opt.batch;
    if (last || count < share)
        count = from->count < share ? from->count : share;
    from->count -= count;
    *own = (struct sample_range){.first = from->first + from->count,
                                 .count = count};
}

static struct sample_range take(struct sampler *s, uint32_t w, uint64_t share,
                                bool last)
{
    struct sample_range *lane = &s->lane[w];

    if (!lane->count)
        refill(s, w, share, last);
    struct sample_range r = {.first = lane->first, .lane = w};
    r.count = lane->count < share ? lane->count : share;
    lane->first += r.count;
    lane->count -= r.count;
    s->returned_samples -= r.count;
    s->outstanding += r.count;
    return r;
}

/* So many workers it takes for all that is left. */
static uint64_t takers(const struct sampler *s, uint64_t share)
{
    uint64_t n = 0;

    for (uint32_t w = 0; w < s->n_workers; w++)
        n += (s->lane[w].count + share - 1) / share;
    for (size_t i = s->head; i != s->tail; i++)
        n += (s->returned[i & (s->capacity - 1)].count + share - 1) / share;
    return n;
}

/* What is left of an epoch, spread over n workers.  It is in pieces, and a
 * worker takes of one only: with the smallest share that leaves nothing, or an
 * even one when that would be more than a batch. */
static uint64_t last_share(const struct sampler *s, uint64_t n)
{
    uint64_t most = s->opt.batch, share = (sampler_left(s) + n - 1) / n;

    if (share >= most || takers(s, most) > n)
        return share < most ? share : most;
    while (share < most) {
        uint64_t middle = share + (most - share) / 2;
        if (takers(s, middle) <= n)
            most = middle;
        else
            share = middle + 1;
    }
    return share;
}

bool lanes_assign(struct sampler *s, const bool *able, const bool *prefer,
                  struct sample_range *range)
{
    uint64_t left = sampler_left(s), n_able = 0, n_prefer = 0;
    uint64_t share = s->opt.batch;

    for (uint32_t w = 0; w < s->n_workers; w++) {
        n_able += able[w];
        n_prefer += able[w] && prefer[w];
        range[w] = (struct sample_range){0};
    }
    bool whole = left >= n_able * share;
    bool prefer_only = !whole && n_prefer; /* as without lanes */
    if (prefer_only)
        n_able = n_prefer;
    cut_fresh(s, able);
    if (!whole && left && n_able)
        share = last_share(s, n_able);
    for (uint32_t w = 0; w < s->n_workers; w++) {
        if (able[w] && (!prefer_only || prefer[w]))
            range[w] = take(s, w, share, !whole);
    }
    return whole;
}

/* It was in front of what its lane has now, unless that was given away. */
void lanes_take_back(struct sampler *s, const struct sample_range *rest)
{
    struct sample_range *lane = &s->lane[rest->lane];

    lane->first = rest->first;
    lane->count += rest->count;
    s->returned_samples += rest->count;
}
