#include <stdlib.h>

#include "error.h"
#include "launch.h"
#include "record_schema.h"
#include "sampler_priv.h"

enum dsgd_err sampler_create(const struct dsgd_options *opt, uint32_t n_workers,
                             struct sampler **out, struct dsgd_error *err)
{
    *out = NULL;
    if (opt->sampler == DSGD_SAMPLER_RANGES && !(opt->n_samples && opt->batch))
        return error_set(err, DSGD_E_USAGE,
                         "n_samples and batch: %llu and %llu: both are at "
                         "least 1, unless the program has a data loader of its "
                         "own: sampler is DSGD_SAMPLER_NONE then",
                         (unsigned long long)opt->n_samples,
                         (unsigned long long)opt->batch);
    struct sampler *s = calloc(1, sizeof *s);
    if (s) {
        s->opt = *opt;
        s->n_workers = n_workers;
        s->capacity = 64;
        /* What came back is handed out first, and a worker that is handed one
         * range brings one back, unless it is settled in parts: then there may
         * be more and more of them, which sampler_may_split stops half-way.  A
         * worker has two ranges at most. */
        while (s->capacity < 8 * (size_t)n_workers)
            s->capacity *= 2;
        s->returned = calloc(s->capacity, sizeof *s->returned);
        if (launch_deposits(opt))
            s->lane = calloc(n_workers, sizeof *s->lane);
    }
    if (!s || !s->returned || (launch_deposits(opt) && !s->lane)) {
        sampler_destroy(s);
        return error_set(err, DSGD_E_NOMEM, "sampler: no memory");
    }
    *out = s;
    return DSGD_OK;
}

void sampler_destroy(struct sampler *s)
{
    if (!s)
        return;
    free(s->returned);
    free(s->lane);
    free(s);
}

static struct sample_range take_fresh(struct sampler *s, uint64_t limit)
{
    uint64_t left = s->opt.n_samples - s->fresh;
    struct sample_range r = {.first = s->fresh,
                             .count = left < limit ? left : limit};

    s->fresh += r.count;
    s->outstanding += r.count;
    return r;
}

/* Take at most limit samples from the queue, ranges that came back first. */
static struct sample_range take(struct sampler *s, uint64_t limit)
{
    if (s->head == s->tail)
        return take_fresh(s, limit);
    struct sample_range *front = &s->returned[s->head & (s->capacity - 1)];
    struct sample_range r = *front;
    if (r.count > limit) {
        r.count = limit;
        front->first += limit;
        front->count -= limit;
    } else {
        s->head++;
    }
    s->returned_samples -= r.count;
    s->outstanding += r.count;
    return r;
}

static bool assign_none(struct sampler *s, const bool *able,
                        struct sample_range *range)
{
    for (uint32_t w = 0; w < s->n_workers; w++) {
        range[w] = (struct sample_range){0};
        if (able[w])
            range[w].count = s->opt.batch ? s->opt.batch : 1;
    }
    return true;
}

bool sampler_assign(struct sampler *s, const bool *able, const bool *prefer,
                    struct sample_range *range)
{
    if (s->opt.sampler == DSGD_SAMPLER_NONE)
        return assign_none(s, able, range);
    if (s->lane)
        return lanes_assign(s, able, prefer, range);

    uint64_t left = sampler_left(s);
    uint64_t n_able = 0, n_prefer = 0, share = s->opt.batch;
    bool whole = true, prefer_only = false;
    for (uint32_t w = 0; w < s->n_workers; w++) {
        n_able += able[w];
        n_prefer += able[w] && prefer[w];
        range[w] = (struct sample_range){0};
    }
    /* The end of an epoch is spread over those who were in time: it would be a
     * pity to wait for a straggler with a few samples. */
    if (left < n_able * share && n_prefer) {
        prefer_only = true;
        n_able = n_prefer;
    }
    if (n_able && left / n_able < share)
        share = (left + n_able - 1) / n_able;
    bool cut_first = s->head != s->tail;
    for (int pass = 0; pass < (prefer_only ? 1 : 2); pass++) {
        for (uint32_t w = 0; w < s->n_workers; w++) {
            bool early = !(cut_first || prefer_only) || prefer[w];
            if (able[w] && early == (pass == 0)) {
                range[w] = take(s, share);
                whole = whole && range[w].count == s->opt.batch;
            }
        }
    }
    return whole;
}

void sampler_settle(struct sampler *s, const struct sample_range *range,
                    uint64_t samples)
{
    struct sample_range rest = *range;

    if (s->opt.sampler == DSGD_SAMPLER_NONE || !range->count)
        return;
    s->outstanding -= range->count;
    if (samples >= range->count || s->opt.late == DSGD_LATE_DROP)
        return;
    rest.first += samples;
    rest.count -= samples;
    if (s->lane) {
        lanes_take_back(s, &rest);
        return;
    }
    rest.cuts++;
    s->returned[s->tail++ & (s->capacity - 1)] = rest;
    s->returned_samples += rest.count;
}

static struct sample_range *at(const struct sampler *s, size_t i)
{
    return &s->returned[i & (s->capacity - 1)];
}

/* The queue moves to a ring of twice the size or more. */
static enum dsgd_err grow(struct sampler *s, size_t least,
                          struct dsgd_error *err)
{
    size_t capacity = s->capacity, n = s->tail - s->head;

    while (capacity < least)
        capacity *= 2;
    struct sample_range *ring = calloc(capacity, sizeof *ring);
    if (!ring)
        return error_set(err, DSGD_E_NOMEM, "sampler: no memory");
    for (size_t i = 0; i < n; i++)
        ring[i] = *at(s, s->head + i);
    free(s->returned);
    s->returned = ring;
    s->capacity = capacity;
    s->head = 0;
    s->tail = n;
    return DSGD_OK;
}

enum dsgd_err sampler_reserve(struct sampler *s, size_t n_ranges,
                              struct dsgd_error *err)
{
    return s->capacity < n_ranges ? grow(s, n_ranges, err) : DSGD_OK;
}

uint64_t sampler_whole(const struct sampler *s, uint64_t unit)
{
    uint64_t fresh = s->opt.n_samples - s->fresh;
    uint64_t whole = fresh - fresh % unit;

    for (size_t i = s->head; i != s->tail; i++)
        whole += at(s, i)->count - at(s, i)->count % unit;
    return whole;
}

/* What is left of a range that came back and is less than a unit waits behind
 * the others. */
size_t sampler_draw(struct sampler *s, uint64_t most, uint64_t unit,
                    struct sample_range *range, size_t most_ranges)
{
    size_t n = 0, looks = s->tail - s->head;

    while (n < most_ranges && most >= unit) {
        bool back = looks > 0;
        uint64_t there =
            back ? at(s, s->head)->count : s->opt.n_samples - s->fresh;
        uint64_t limit = there < most ? there : most;
        limit -= limit % unit;
        if (!limit && !back)
            break;
        if (!limit) {
            struct sample_range rest = *at(s, s->head++);
            *at(s, s->tail++) = rest;
            looks--;
            continue;
        }
        looks -= back && limit == there;
        range[n] = back ? take(s, limit) : take_fresh(s, limit);
        most -= range[n++].count;
    }
    return n;
}

struct sample_range sampler_draw_fresh(struct sampler *s, uint64_t count)
{
    if (s->opt.n_samples - s->fresh < count)
        return (struct sample_range){0};
    return take_fresh(s, count);
}

size_t sampler_room(const struct sampler *s)
{
    return s->capacity - (s->tail - s->head);
}

/* What was drawn last comes back first: the queue stays short. */
void sampler_take_back(struct sampler *s, uint64_t first, uint64_t count)
{
    s->outstanding -= count;
    if (s->head != s->tail && at(s, s->tail - 1)->first == first + count) {
        at(s, s->tail - 1)->first = first;
        at(s, s->tail - 1)->count += count;
    } else if (s->head != s->tail &&
               at(s, s->tail - 1)->first + at(s, s->tail - 1)->count == first) {
        at(s, s->tail - 1)->count += count;
    } else {
        *at(s, s->tail++) =
            (struct sample_range){.first = first, .count = count};
    }
    s->returned_samples += count;
    while (s->head != s->tail) {
        const struct sample_range *last = at(s, s->tail - 1);
        if (last->first + last->count != s->fresh)
            break;
        s->fresh = last->first;
        s->returned_samples -= last->count;
        s->tail--;
    }
}

void sampler_done(struct sampler *s, uint64_t samples)
{
    s->outstanding -= samples;
}

uint64_t sampler_left(const struct sampler *s)
{
    if (s->opt.sampler == DSGD_SAMPLER_NONE)
        return UINT64_MAX;
    return s->opt.n_samples - s->fresh + s->returned_samples;
}

bool sampler_may_split(const struct sampler *s)
{
    return s->tail - s->head < s->capacity / 2;
}

bool sampler_epoch_end(struct sampler *s)
{
    if (s->opt.sampler == DSGD_SAMPLER_NONE || s->outstanding ||
        s->returned_samples || s->fresh < s->opt.n_samples)
        return false;
    s->fresh = 0;
    s->epoch++;
    return true;
}

void sampler_skip(struct sampler *s, bool epoch_end)
{
    s->epoch += epoch_end;
}

uint64_t sampler_epoch(const struct sampler *s)
{
    return s->epoch;
}

/* epoch u64, fresh u64, n u64, then n of: first u64, count u64, cuts u64. */
enum { STATE_HEAD = 24, STATE_RANGE = 24 };

size_t sampler_state_most(const struct sampler *s, size_t n)
{
    return STATE_HEAD + (s->capacity + s->n_workers + n) * STATE_RANGE;
}

static unsigned char *put_range(unsigned char *to, const struct sample_range *r)
{
    record_put_u64(to, r->first);
    record_put_u64(to + 8, r->count);
    record_put_u64(to + 16, r->cuts);
    return to + STATE_RANGE;
}

size_t sampler_state_save(const struct sampler *s,
                          const struct sample_range *held, size_t n, void *out)
{
    unsigned char *start = out, *to = start + STATE_HEAD;

    for (size_t i = s->head; i != s->tail; i++)
        to = put_range(to, &s->returned[i & (s->capacity - 1)]);
    for (size_t i = 0; s->lane && i < s->n_workers; i++) {
        if (s->lane[i].count)
            to = put_range(to, &s->lane[i]);
    }
    for (size_t i = 0; i < n; i++) {
        if (held[i].count)
            to = put_range(to, &held[i]);
    }
    size_t bytes = (size_t)(to - start);
    record_put_u64(start, s->epoch);
    record_put_u64(start + 8, s->fresh);
    record_put_u64(start + 16, (bytes - STATE_HEAD) / STATE_RANGE);
    return bytes;
}

/* All that came back was once taken from the fresh part. */
static bool check_state(const struct sampler *s, const unsigned char *in,
                        size_t bytes)
{
    uint64_t fresh, total = 0;

    if (bytes < STATE_HEAD || (bytes - STATE_HEAD) % STATE_RANGE ||
        record_get_u64(in + 16) != (bytes - STATE_HEAD) / STATE_RANGE)
        return false;
    fresh = record_get_u64(in + 8);
    for (size_t i = STATE_HEAD; i < bytes; i += STATE_RANGE) {
        uint64_t first = record_get_u64(in + i);
        uint64_t count = record_get_u64(in + i + 8);
        if (!count || first > fresh || count > fresh - first)
            return false;
        total += count;
        if (total > fresh)
            return false;
    }
    return fresh <= s->opt.n_samples || s->opt.sampler == DSGD_SAMPLER_NONE;
}

enum dsgd_err sampler_state_load(struct sampler *s, const void *in,
                                 size_t bytes, struct dsgd_error *err)
{
    const unsigned char *from = in;

    if (!check_state(s, from, bytes))
        return error_set(err, DSGD_E_FORMAT,
                         "its queue of samples is not one of %llu samples",
                         (unsigned long long)s->opt.n_samples);
    size_t n = (bytes - STATE_HEAD) / STATE_RANGE;
    /* Room for what comes back as well. */
    enum dsgd_err rc = sampler_reserve(s, n + s->capacity, err);
    if (rc != DSGD_OK)
        return rc;
    s->epoch = record_get_u64(from);
    s->fresh = record_get_u64(from + 8);
    s->head = s->returned_samples = 0;
    for (size_t i = 0; s->lane && i < s->n_workers; i++)
        s->lane[i].count = 0;
    for (s->tail = 0; s->tail < n; s->tail++) {
        const unsigned char *row = from + STATE_HEAD + s->tail * STATE_RANGE;
        s->returned[s->tail] =
            (struct sample_range){.first = record_get_u64(row),
                                  .count = record_get_u64(row + 8),
                                  .cuts = (uint32_t)record_get_u64(row + 16)};
        s->returned_samples += s->returned[s->tail].count;
    }
    return DSGD_OK;
}
