/* An epoch's samples are handed out and come back exactly once. */
#include <stdlib.h>

#include "sampler.h"
#include "tap.h"

enum { WORKERS = 7 };

static uint32_t random_state = 1;
static uint32_t random_next(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

/* A step in which each worker contributes with probability 1 - cut/256, some of
 * them a part only.  Marks what was contributed. */
static void step(struct sampler *s, const bool *able, uint32_t cut,
                 uint8_t *used, bool *contributed)
{
    struct sample_range range[WORKERS];

    sampler_assign(s, able, contributed, range);
    for (int w = 0; w < WORKERS; w++) {
        uint64_t give = range[w].count;
        if (random_next() % 256 < cut)
            give = random_next() % 4 == 0 ? range[w].count / 2 : 0;
        contributed[w] = give > 0;
        for (uint64_t i = 0; i < give; i++)
            used[range[w].first + i]++;
        sampler_settle(s, &range[w], give);
    }
}

static void exactly_once(uint64_t n, uint64_t batch, uint32_t cut, bool lanes)
{
    struct dsgd_options opt = {
        .n_samples = n, .batch = batch, .deposits = lanes};
    bool able[WORKERS], contributed[WORKERS] = {false};
    uint8_t *used = calloc(n, 1);
    struct sampler *s;
    int steps = 0, wrong = 0;

    sampler_create(&opt, WORKERS, &s, NULL);
    for (int epoch = 0; epoch < 3; epoch++) {
        do {
            for (int w = 0; w < WORKERS; w++)
                able[w] = w == 0 || random_next() % 8 != 0;
            step(s, able, cut, used, contributed);
        } while (!sampler_epoch_end(s) && ++steps < 100000);
        for (uint64_t i = 0; i < n; i++)
            wrong += used[i] != epoch + 1;
    }
    ok(wrong == 0 && steps < 100000 && sampler_epoch(s) == 3,
       "%llu samples, batch %llu, cut %u/256%s: each once an epoch",
       (unsigned long long)n, (unsigned long long)batch, cut,
       lanes ? ", lanes" : "");
    sampler_destroy(s);
    free(used);
}

/* Two runs, the second with other workers, from the queue that the first left;
 * what one worker holds is handed out again. */
static void go_on(bool lanes)
{
    struct dsgd_options opt = {.n_samples = 500, .batch = 8, .deposits = lanes};
    struct sample_range range[WORKERS], held[WORKERS] = {{0}};
    bool able[WORKERS] = {true, true, true, true, true, true, true};
    bool contributed[WORKERS] = {false};
    unsigned char state[4096];
    uint8_t *used = calloc(500, 1);
    struct sampler *s, *t;
    int wrong = 0;

    sampler_create(&opt, WORKERS, &s, NULL);
    for (int i = 0; i < 4; i++)
        step(s, able, 128, used, contributed);
    sampler_assign(s, able, contributed, range);
    for (int w = 0; w < WORKERS; w++) {
        if (w == 3) {
            held[w] = range[w];
            continue;
        }
        for (uint64_t i = 0; i < range[w].count; i++)
            used[range[w].first + i]++;
        sampler_settle(s, &range[w], range[w].count);
    }
    ok(sampler_state_most(s, WORKERS) <= sizeof state, "room for the queue");
    size_t bytes = sampler_state_save(s, held, WORKERS, state);
    opt.batch = 5;
    sampler_create(&opt, 2, &t, NULL);
    is_int(sampler_state_load(t, state, bytes, NULL), DSGD_OK, "load a queue");
    do {
        sampler_assign(t, able, contributed, range);
        for (int w = 0; w < 2; w++) {
            for (uint64_t i = 0; i < range[w].count; i++)
                used[range[w].first + i]++;
            sampler_settle(t, &range[w], range[w].count);
        }
    } while (!sampler_epoch_end(t));
    for (int i = 0; i < 500; i++)
        wrong += used[i] != 1;
    is_int(wrong, 0, "saved and loaded: each sample once");
    is_int((long long)sampler_epoch(t), 1, "and the next epoch is 1");
    is_int(sampler_state_load(t, state, bytes - 1, NULL), DSGD_E_FORMAT,
           "a queue cut short");
    opt.n_samples = 20;
    sampler_destroy(t);
    sampler_create(&opt, 2, &t, NULL);
    is_int(sampler_state_load(t, state, bytes, NULL), DSGD_E_FORMAT,
           "a queue of another data set");
    sampler_destroy(s);
    sampler_destroy(t);
    free(used);
}

static void drop(void)
{
    struct dsgd_options opt = {
        .n_samples = 100, .batch = 10, .late = DSGD_LATE_DROP};
    bool able[2] = {true, true}, prefer[2] = {false, false};
    struct sample_range range[2];
    struct sampler *s;
    int steps = 0;

    sampler_create(&opt, 2, &s, NULL);
    do {
        sampler_assign(s, able, prefer, range);
        sampler_settle(s, &range[0], range[0].count);
        sampler_settle(s, &range[1], 0);
    } while (!sampler_epoch_end(s) && ++steps < 50);
    is_int(steps, 4, "dropped ranges do not come back");
    sampler_destroy(s);
}

/* A range that was cut goes first to somebody who was in time, and is waited
 * for once it was cut three times. */
static void cut_ranges(void)
{
    struct dsgd_options opt = {.n_samples = 1000, .batch = 10};
    bool able[3] = {true, true, true}, prefer[3] = {false, true, true};
    struct sample_range range[3];
    struct sampler *s;

    sampler_create(&opt, 3, &s, NULL);
    ok(sampler_assign(s, able, prefer, range), "whole batches");
    is_int((long long)range[2].first, 20, "in rank order");
    for (int i = 1; i <= SAMPLER_MAX_CUTS; i++) {
        sampler_settle(s, &range[0], 0);
        sampler_settle(s, &range[1], i == 1 ? 10 : 0);
        sampler_settle(s, &range[2], 10);
        able[0] = i > 1;
        sampler_assign(s, able, prefer, range);
        if (i == 1) {
            is_int((long long)range[1].first, 0, "a cut range goes to rank 1");
            is_int(range[1].cuts, 1, "with its count of cuts");
            is_int((long long)range[0].count, 0, "who is not able gets none");
        }
    }
    is_int(range[2].cuts, 3, "cuts add up");
    sampler_destroy(s);
}

/* A range in parts: one contributes later, the rest goes back at once. */
static void parts(void)
{
    struct dsgd_options opt = {.n_samples = 20, .batch = 10};
    const bool able[2] = {true, true};
    struct sample_range range[2], rest;
    struct sampler *s;

    sampler_create(&opt, 2, &s, NULL);
    is_int((long long)sampler_left(s), 20, "all are left");
    sampler_assign(s, able, able, range);
    is_int((long long)sampler_left(s), 0, "none is left");
    sampler_settle(s, &range[0], 10);
    rest = range[1];
    rest.first += 4;
    rest.count -= 4;
    sampler_settle(s, &rest, 0);
    is_int((long long)sampler_left(s), 6, "the rest is back");
    ok(!sampler_epoch_end(s), "the epoch goes on");
    range[1].count = 4;
    struct sample_range kept = range[1];
    sampler_assign(s, able, able, range);
    is_int((long long)(range[0].count + range[1].count), 6, "the rest again");
    is_int((long long)range[0].first, 14, "of the right samples");
    sampler_settle(s, &range[0], range[0].count);
    sampler_settle(s, &range[1], range[1].count);
    ok(!sampler_epoch_end(s), "the epoch waits for the part");
    sampler_settle(s, &kept, 4);
    ok(sampler_epoch_end(s), "and ends with it");
    sampler_destroy(s);
}

/* Worst case: of every range half goes back, then the other half. */
static void may_split(void)
{
    enum { N = 3 };
    struct dsgd_options opt = {.n_samples = 1 << 20, .batch = 1 << 16};
    const bool able[N] = {true, true, true};
    struct sample_range range[N];
    struct sampler *s;
    uint64_t samples = 0;
    bool split = true;

    sampler_create(&opt, N, &s, NULL);
    for (int step = 0; step < 1000; step++) {
        sampler_assign(s, able, able, range);
        for (int w = 0; w < N; w++) {
            struct sample_range rest = range[w];
            if (sampler_may_split(s) && rest.count > 1) {
                rest.first += rest.count / 2;
                rest.count -= rest.count / 2;
                range[w].count /= 2;
                sampler_settle(s, &rest, 0);
            }
            split = split && sampler_may_split(s);
            sampler_settle(s, &range[w], 0);
        }
    }
    ok(!split, "ranges are not split without end");
    while (!sampler_epoch_end(s)) {
        sampler_assign(s, able, able, range);
        for (int w = 0; w < N; w++) {
            samples += range[w].count;
            sampler_settle(s, &range[w], range[w].count);
        }
    }
    is_int((long long)samples, 1 << 20, "and none is lost for it");
    sampler_destroy(s);
}

/* A step's samples drawn bit by bit, some of which come back in pieces of a
 * part, in any order. */
static void drawn(uint64_t n, uint64_t unit, uint32_t cut)
{
    enum { MOST = 16 };
    struct dsgd_options opt = {.n_samples = n, .batch = 8};
    struct sample_range range[MOST];
    uint8_t *used = calloc(n, 1);
    struct sampler *s;
    uint64_t steps = 0, bad_count = 0, longest = 0;

    sampler_create(&opt, WORKERS, &s, NULL);
    is_int(sampler_reserve(s, 4000, NULL), DSGD_OK, "room for what comes back");
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        do {
            uint64_t whole = sampler_whole(s, unit), most = 20 * unit + 3;
            uint64_t each = whole ? unit : 1, drew = 0;
            size_t k = sampler_draw(s, most, each, range, MOST);
            longest = k > longest ? k : longest;
            for (size_t i = k; i-- > 0;) {
                drew += range[i].count;
                bad_count += range[i].count % each != 0;
                for (uint64_t at = 0; at < range[i].count; at += each) {
                    if (random_next() % 256 < cut) {
                        sampler_take_back(s, range[i].first + at, each);
                        continue;
                    }
                    for (uint64_t j = 0; j < each; j++)
                        used[range[i].first + at + j]++;
                    sampler_done(s, each);
                }
            }
            bad_count += drew > most || (whole && !drew);
        } while (!sampler_epoch_end(s) && ++steps < 100000);
        for (uint64_t i = 0; i < n; i++)
            bad_count += used[i] != epoch + 1;
    }
    ok(!bad_count && steps < 100000,
       "%llu samples drawn by %llu, %u/256 come back: each once an epoch",
       (unsigned long long)n, (unsigned long long)unit, cut);
    if (!cut)
        ok(longest == 1, "in one range each, as none come back");
    sampler_destroy(s);
    free(used);
}

/* What was drawn and is not used is as if it had not been. */
static void undrawn(void)
{
    struct dsgd_options opt = {.n_samples = 100, .batch = 8};
    struct sample_range r[8];
    struct sampler *s;

    sampler_create(&opt, WORKERS, &s, NULL);
    sampler_draw(s, 40, 1, r, 8);
    sampler_take_back(s, 30, 10);
    sampler_take_back(s, 10, 5);
    sampler_take_back(s, 15, 15);
    sampler_done(s, 10);
    is_int((long long)sampler_left(s), 90, "90 of 100 left");
    is_int((long long)sampler_draw(s, 100, 1, r, 8), 1, "in one range");
    ok(r[0].first == 10 && r[0].count == 90,
       "from the first that was not used");
    sampler_take_back(s, 50, 7);
    is_int((long long)sampler_whole(s, 4), 4, "four of seven in parts of four");
    is_int((long long)sampler_draw(s, 100, 4, r, 8), 1, "which can be drawn");
    is_int((long long)r[0].count, 4, "are");
    is_int((long long)sampler_draw(s, 100, 4, r, 8), 0, "and no more");
    is_int((long long)sampler_draw_fresh(s, 100).count, 0,
           "nor as many in one range that nobody had");
    is_int((long long)sampler_draw(s, 100, 1, r, 8), 1, "but one by one");
    ok(r[0].first == 54 && r[0].count == 3, "the rest");
    sampler_destroy(s);
}

static void bad(void)
{
    struct dsgd_options opt = {.batch = 10};
    struct dsgd_error err;
    struct sampler *s;

    is_int(sampler_create(&opt, 3, &s, &err), DSGD_E_USAGE, "no samples");
    has_str(err.text, "n_samples and batch: 0 and 10: ", "says so");
    opt.sampler = DSGD_SAMPLER_NONE;
    is_int(sampler_create(&opt, 3, &s, &err), DSGD_OK, "unless NONE");
    sampler_destroy(s);
    sampler_destroy(NULL);
}

static void shuffle(void)
{
    const uint64_t sizes[] = {1, 2, 3, 10, 64, 1000, 60000};
    uint8_t *hit = calloc(60000, 1);

    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        uint64_t n = sizes[k], same = 0, bad_count = 0;
        memset(hit, 0, n);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t j = dsgd_shuffle(7, 3, n, i);
            if (j >= n || hit[j]++)
                bad_count++;
            same += j == dsgd_shuffle(7, 4, n, i);
        }
        ok(bad_count == 0, "a permutation of %llu", (unsigned long long)n);
        if (n >= 1000)
            ok(same < 20, "another one in another epoch (%llu alike)",
               (unsigned long long)same);
    }
    free(hit);
}

/* Shares that are contributed in part, all the time: the next one goes on from
 * there, and hardly any is less than a batch.  Who is faster takes over from
 * others at the end. */
static void lanes(void)
{
    struct dsgd_options opt = {.n_samples = 7000, .batch = 8, .deposits = true};
    bool able[WORKERS] = {true, true, true, true, true, true, true};
    struct sample_range range[WORKERS], last[WORKERS] = {{0}};
    uint64_t gave[WORKERS] = {0}, small = 0, jumps = 0, steps = 0;
    struct sampler *s;

    sampler_create(&opt, WORKERS, &s, NULL);
    do {
        bool whole = sampler_assign(s, able, able, range);
        for (uint64_t w = 0; w < WORKERS; w++) {
            uint64_t give = w == 0 ? range[w].count : (range[w].count + 1) / 2;
            small += whole && range[w].count < 8;
            jumps += last[w].count && range[w].first != last[w].first + gave[w];
            last[w] = range[w];
            gave[w] = give;
            sampler_settle(s, &range[w], give);
        }
    } while (!sampler_epoch_end(s) && ++steps < 10000);
    ok(steps > 200 && steps < 260,
       "lanes: an epoch of 218 steps' samples takes %llu",
       (unsigned long long)steps);
    ok(jumps < 40, "shares follow each other, but for %llu",
       (unsigned long long)jumps);
    ok(small < 40, "and are batches, but for %llu", (unsigned long long)small);
    sampler_destroy(s);
}

/* With everybody contributing all, no step more than there are batches for: the
 * last one takes what is left, in however many lanes it is. */
static void last_step(void)
{
    struct dsgd_options opt = {.batch = 32, .deposits = true};
    bool able[WORKERS] = {true, true, true, true, true, true, true};
    struct sample_range range[WORKERS];
    uint64_t more = 0;

    for (opt.n_samples = 1; opt.n_samples < 3000; opt.n_samples += 13) {
        uint64_t steps = 0, all = (uint64_t)WORKERS * opt.batch;
        struct sampler *s;
        sampler_create(&opt, WORKERS, &s, NULL);
        do {
            sampler_assign(s, able, able, range);
            for (int w = 0; w < WORKERS; w++)
                sampler_settle(s, &range[w], range[w].count);
        } while (!sampler_epoch_end(s) && ++steps < 1000);
        more += steps + 1 - (opt.n_samples + all - 1) / all;
        sampler_destroy(s);
    }
    is_int((long long)more, 0,
           "lanes: an epoch has no step with next to no samples");
}

int main(void)
{
    for (int lanes = 0; lanes < 2; lanes++) {
        exactly_once(1000, 8, 0, lanes);
        exactly_once(1000, 8, 64, lanes);
        exactly_once(999, 16, 200, lanes);
        exactly_once(5, 16, 128, lanes);
        exactly_once(60000, 32, 100, lanes);
        go_on(lanes);
    }
    lanes();
    last_step();
    drop();
    cut_ranges();
    parts();
    drawn(1000, 4, 0);
    drawn(1000, 4, 64);
    drawn(1003, 5, 200);
    undrawn();
    may_split();
    bad();
    shuffle();
    return done();
}
