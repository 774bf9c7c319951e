/* A step in parts on one node, the test in the coordinator's place: what
 * workers claim, what of it is accepted, and that sums hold just that. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "../crew.h"
#include "../tap.h"
#include "sys.h"

enum { WORKERS = 4, FLOATS = 40, MOST = 64 };

static struct crew c;

static struct { /* as the coordinator hears of the open step */
    uint8_t mask[WORKERS];
    struct msg_event event[MOST];
    uint32_t n_events;
    uint64_t accepted; /* samples */
    uint64_t waiting;  /* … of offers that wait */
} heard;

static void begin(enum dsgd_work work)
{
    const struct dsgd_options opt = {
        .grad_elems = FLOATS, .batch = 10, .parts = 3, .work = work};

    memset(&heard, 0, sizeof heard);
    ok(crew_create(&c, WORKERS, FLOATS) && crew_join_all(&c, &opt),
       "a node with %d workers", WORKERS);
}

static void end(void)
{
    crew_destroy(&c);
}

/* Hear what the node says; returns how many events were of this kind. */
static uint32_t hear(enum seg_event_kind kind)
{
    uint32_t n = 0;

    heard.n_events = 0;
    while (heard.n_events < MOST &&
           node_event(c.node, &heard.event[heard.n_events])) {
        const struct msg_event *e = &heard.event[heard.n_events++];
        n += e->kind == kind;
        if (e->kind == SEG_EVENT_PART) {
            heard.mask[e->worker] =
                (uint8_t)(MSG_OWN | (e->buf ? MSG_OWN_BUF : 0));
            heard.accepted += (uint32_t)e->value;
        } else if (e->kind == SEG_EVENT_WAITS) {
            heard.waiting += e->value;
        }
    }
    return n;
}

static void start(uint64_t step, uint64_t count)
{
    struct msg_share share[WORKERS];

    for (uint32_t w = 0; w < WORKERS; w++)
        share[w] =
            (struct msg_share){.epoch = 2, .first = w * count, .count = count};
    node_start(c.node, step, share);
    memset(heard.mask, 0, sizeof heard.mask);
    heard.accepted = heard.waiting = 0;
}

static bool all_begin(uint64_t step)
{
    struct dsgd_step s;
    bool good = true;

    for (uint32_t w = 0; w < WORKERS; w++)
        good = good && dsgd_step_begin(c.d[w], &s) == DSGD_OK &&
               s.index == step && s.epoch == 2;
    return good && hear(SEG_EVENT_BEGIN) == WORKERS;
}

/* Close a step; what was accepted of it is in the sum of all floats. */
static double publish(uint64_t step)
{
    struct msg m = {.kind = MSG_PUBLISH, .step = step, .u.mean.samples = 1};
    double sum = 0;
    bool any = false;

    for (uint32_t w = 0; w < WORKERS; w++)
        any = any || heard.mask[w];
    float *mean = any ? node_sum(c.node, heard.mask, 1)
                      : memset(node_reserve(c.node), 0, sizeof(float[FLOATS]));
    for (uint32_t i = 0; i < FLOATS; i++)
        sum += (double)mean[i];
    node_commit(c.node, &m);
    node_show(c.node, &m, NULL);
    return sum;
}

static bool all_take(uint64_t step)
{
    struct dsgd_mean mean;
    bool good = true;

    for (uint32_t w = 0; w < WORKERS; w++)
        good = good && dsgd_next_mean(c.d[w], &mean) == DSGD_OK &&
               mean.step == step &&
               dsgd_next_mean(c.d[w], &mean) == DSGD_UP_TO_DATE;
    return good;
}

static bool claims(uint32_t w, uint64_t first, uint64_t samples)
{
    struct dsgd_part part = {0};

    return dsgd_claim(c.d[w], &part) == DSGD_OK && part.first_sample == first &&
           part.n_samples == samples;
}

static enum dsgd_err deposit(uint32_t w)
{
    return crew_deposit(&c, w);
}

static enum dsgd_err claim(uint32_t w)
{
    struct dsgd_part part;

    return dsgd_claim(c.d[w], &part);
}

static void test_step(void)
{
    const struct msg_range range[] = {{10, 10}, {100, 5}};

    begin(DSGD_WORK_SHARED);
    crew_pool(&c, 1, 0, 4, range, 2, 15);
    start(1, 0);
    ok(all_begin(1), "a step begins");
    ok(claims(0, 10, 4) && claims(1, 14, 4) && claims(2, 18, 2) &&
           claims(3, 100, 4),
       "the ranges are claimed part by part");
    ok(deposit(0) == DSGD_OK && hear(SEG_EVENT_PART) == 1 &&
           heard.event[0].worker == 0 && heard.event[0].value == 4 &&
           heard.event[0].step == 1 && heard.event[0].duration_s >= 0,
       "the first is accepted");
    ok(claims(0, 104, 1) && deposit(3) == DSGD_OK && deposit(0) == DSGD_OK &&
           deposit(1) == DSGD_OK && deposit(2) == DSGD_OK &&
           hear(SEG_EVENT_PART) == 4 && heard.accepted == 15,
       "and the others");
    ok(heard.event[0].worker != 0 ||
           heard.event[0].value == ((uint64_t)4 << 32 | 1),
       "by their number");
    ok(publish(1) == 15, "the sum holds all of them");
    ok(claim(0) == DSGD_ABANDON && claim(1) == DSGD_ABANDON &&
           claim(2) == DSGD_ABANDON && claim(3) == DSGD_ABANDON && all_take(1),
       "the step is over");
    crew_pool(&c, 2, 0, 4, range, 1, 10);
    start(2, 0);
    ok(all_begin(2) && claims(3, 10, 4) && deposit(3) == DSGD_OK &&
           hear(SEG_EVENT_PART) == 1 && publish(2) == 4,
       "the next one starts from nothing");
    end();
}

static _Atomic int rc_of_0; /* -1: not back yet */

static void *deposit_of_0(void *argument)
{
    rc_of_0 = (int)deposit(0);
    return argument;
}

static void test_tokens(void)
{
    const struct msg_range range = {0, 20}, more = {50, 4};
    pthread_t thread;

    begin(DSGD_WORK_SHARED);
    crew_pool(&c, 1, 0, 4, &range, 1, 6);
    start(1, 0);
    ok(all_begin(1) && claims(0, 0, 4) && claims(1, 4, 4) && claims(2, 8, 4) &&
           claims(3, 12, 4),
       "four claims");
    ok(deposit(1) == DSGD_OK && hear(SEG_EVENT_PART) == 1 &&
           deposit(0) == DSGD_OK && hear(SEG_EVENT_WAITS) == 1 &&
           heard.waiting == 4,
       "tokens for one of two: the other waits");
    ok(claims(0, 16, 4), "it has claimed another meanwhile");
    rc_of_0 = -1;
    pthread_create(&thread, NULL, deposit_of_0, NULL);
    usleep(20000);
    ok(hear(SEG_EVENT_PART) == 0 && rc_of_0 == -1,
       "but offers it only when the first is decided on");
    crew_tokens(&c, 1, 1);
    ok(hear(SEG_EVENT_PART) == 0, "3 samples are no part of 4");
    crew_tokens(&c, 1, 1);
    ok(node_event(c.node, &heard.event[0]) &&
           heard.event[0].kind == SEG_EVENT_PART &&
           heard.event[0].worker == 0 && heard.event[0].value == 4,
       "4 are");
    heard.accepted += 4;
    pthread_join(thread, NULL);
    is_int(rc_of_0, DSGD_OK, "then the next is offered");
    crew_tokens(&c, 7, 100);
    ok(hear(SEG_EVENT_WAITS) == 1, "and waits, whatever other steps have");
    crew_tokens(&c, 1, 4);
    ok(hear(SEG_EVENT_PART) == 1 && heard.accepted == 12,
       "until it is accepted");
    crew_pool(&c, 1, 0, 4, &more, 1, 9);
    ok(claims(0, 50, 4) && deposit(0) == DSGD_OK && hear(SEG_EVENT_PART) == 1,
       "a step gets more to do");
    is_int((long long)node_revoke(c.node, 1, 3), 3, "some is taken back");
    is_int((long long)node_revoke(c.node, 2, 3), 0, "not of another step");
    is_int((long long)node_revoke(c.node, 1, UINT64_MAX), 2, "… or all");
    crew_tokens(&c, 1, 4);
    ok(deposit(2) == DSGD_OK && hear(SEG_EVENT_PART) == 0,
       "then nothing is accepted any more");
    is_int((long long)publish(1), 16, "the sum holds what was");
    ok(deposit(3) == DSGD_ABANDON && claim(0) == DSGD_ABANDON &&
           claim(1) == DSGD_ABANDON && claim(2) == DSGD_ABANDON && all_take(1),
       "the others go on");
    end();
}

static void test_messages(void)
{
    const struct msg_range range[] = {{0, 3}, {5, 2}, {9, 1}, {20, 4}};
    struct msg m = {.kind = MSG_POOL, .count = 4, .step = 1};

    begin(DSGD_WORK_SHARED);
    m.u.pool.part = 2;
    m.u.pool.tokens = 7;
    node_message(c.node, &m, range, sizeof range);
    start(1, 0);
    ok(all_begin(1) && claims(0, 0, 2) && claims(3, 2, 1) && claims(2, 5, 2),
       "ranges are cut in parts, what is left of one is the last");
    ok(claims(1, 9, 1), "in order");
    ok(deposit(0) == DSGD_OK && claims(0, 20, 2), "one after the other");
    ok(!node_return(c.node, &m), "nothing was revoked");
    m = (struct msg){.kind = MSG_REVOKE, .step = 1};
    m.u.pool.tokens = 1;
    hear(SEG_EVENT_PART);
    node_message(c.node, &m, NULL, 0);
    m.u.pool.tokens = 2;
    node_message(c.node, &m, NULL, 0);
    ok(node_return(c.node, &m) && m.kind == MSG_RETURN && m.step == 1 &&
           m.u.pool.tokens == 3,
       "what was revoked is answered");
    node_returned(c.node);
    ok(node_return(c.node, &m) && m.u.pool.tokens == 0, "as often as asked");
    node_returned(c.node);
    ok(!node_return(c.node, &m), "and no more");
    m = (struct msg){.kind = MSG_TOKENS, .step = 1};
    m.u.pool.tokens = 9;
    node_message(c.node, &m, NULL, 0);
    ok(deposit(2) == DSGD_OK && deposit(1) == DSGD_OK &&
           deposit(0) == DSGD_OK && hear(SEG_EVENT_PART) == 3 &&
           heard.accepted == 7,
       "tokens come in messages");
    end();
}

/* First parts have tokens of their own; one that was withdrawn is not accepted,
 * whether it was offered or not, and its worker goes on as if it had had
 * none. */
static void test_first(void)
{
    const struct msg_range range[] = {
        {0, 9}, {10, 7}, {20, 8}, {30, 0}, {40, 6}};
    const uint64_t back[] = {0, 7, 8};
    struct msg m = {
        .kind = MSG_POOL, .flags = MSG_FIXED, .count = 5, .step = 1};

    begin(DSGD_WORK_SHARED);
    m.u.pool.part = 2;
    node_message(c.node, &m, range, sizeof range);
    start(1, 0);
    ok(all_begin(1) && claims(0, 0, 9) && claims(2, 20, 8) && claims(1, 10, 7),
       "each worker's first part is whole");
    ok(claims(3, 40, 2), "who has none claims of what is for all");
    ok(deposit(0) == DSGD_OK && hear(SEG_EVENT_PART) == 1 &&
           heard.accepted == 9,
       "it needs no other tokens");
    ok(dsgd_poll(c.d[1], 1, 7) == DSGD_GO_ON, "it is wanted");
    ok(deposit(2) == DSGD_OK, "another is offered");
    m = (struct msg){.kind = MSG_REVOKE, .flags = MSG_FIXED, .step = 1};
    for (uint32_t w = 0; w < 3; w++) {
        m.u.pool.part = w;
        node_message(c.node, &m, NULL, 0);
        ok(node_return(c.node, &m) && m.flags == MSG_FIXED &&
               m.u.pool.part == w && m.u.pool.tokens == back[w],
           "worker %u's is withdrawn: %u samples", w,
           (unsigned)m.u.pool.tokens);
        node_returned(c.node);
        m = (struct msg){.kind = MSG_REVOKE, .flags = MSG_FIXED, .step = 1};
    }
    ok(!node_return(c.node, &m), "each is answered once");
    ok(hear(SEG_EVENT_PART) == 0, "the offer is refused");
    ok(dsgd_poll(c.d[1], 1, 7) == DSGD_ABANDON && claims(1, 42, 2) &&
           dsgd_poll(c.d[1], 1, 2) == DSGD_GO_ON,
       "a worker that looks goes on with another part");
    ok(claims(2, 44, 2), "as does the one that was refused");
    crew_tokens(&c, 1, 6);
    ok(deposit(1) == DSGD_OK && deposit(2) == DSGD_OK &&
           deposit(3) == DSGD_OK && hear(SEG_EVENT_PART) == 3 &&
           heard.accepted == 15,
       "what they offer then is accepted");
    near(publish(1), 15, 1e-6, "the sum holds that alone");
    ok(claim(0) == DSGD_ABANDON, "the step is over");
    end();
}

/* The next step's pool comes before this step's mean. */
static void test_early(void)
{
    const struct msg_range range = {0, 30};

    begin(DSGD_WORK_SHARED);
    crew_pool(&c, 1, 0, 5, &range, 1, 5);
    start(1, 0);
    ok(all_begin(1) && claims(0, 0, 5) && claims(1, 5, 5) && claims(2, 10, 5) &&
           deposit(0) == DSGD_OK && deposit(1) == DSGD_OK &&
           hear(SEG_EVENT_PART) == 1,
       "a step with an offer that waits");
    crew_pool(&c, 2, 0, 6, &range, 1, 30);
    ok(hear(SEG_EVENT_PART) == 0, "which the next step's tokens are not for");
    ok(deposit(2) == DSGD_ABANDON && claim(0) == DSGD_ABANDON &&
           claim(1) == DSGD_ABANDON && claim(3) == DSGD_ABANDON,
       "workers see that it is over");
    crew_pool(&c, 1, 0, 5, &range, 1, 30);
    crew_tokens(&c, 1, 30);
    ok(publish(1) == 5 && all_take(1), "nothing joins it");
    start(2, 0);
    ok(all_begin(2) && claims(2, 0, 6) && deposit(2) == DSGD_OK &&
           hear(SEG_EVENT_PART) == 1 && publish(2) == 6,
       "the next begins with its own");
    end();
}

/* A part counts once, and what a worker gave outlives it. */
static void test_died(void)
{
    const struct msg_range range = {0, 20};

    begin(DSGD_WORK_SHARED);
    crew_pool(&c, 1, 0, 5, &range, 1, 5);
    start(1, 0);
    ok(all_begin(1) && claims(0, 0, 5) && deposit(0) == DSGD_OK &&
           hear(SEG_EVENT_PART) == 1 && claims(0, 5, 5) &&
           deposit(0) == DSGD_OK && hear(SEG_EVENT_WAITS) == 1,
       "one part is accepted, one waits");
    segment_bury(&c.seg, 0, 9);
    ok(hear(SEG_EVENT_DIED) == 1, "the worker dies");
    crew_tokens(&c, 1, 5);
    ok(hear(SEG_EVENT_PART) == 0 && node_revoke(c.node, 1, 5) == 5,
       "what waited is no more");
    struct seg_event again = {.kind = SEG_EVENT_PART, .step = 1, .value = 5};
    crew_tokens(&c, 1, 5);
    segment_post(&c.seg, 1, &again);
    again.entry = 3;
    again.value = 6;
    segment_post(&c.seg, 1, &again);
    again.entry = 4;
    segment_post(&c.seg, 1, &again);
    ok(hear(SEG_EVENT_PART) == 0 && heard.n_events == 0,
       "no part twice, of other samples, or of none");
    is_int((long long)atomic_load(&c.seg.workers[0].hold_step), 1,
           "another process waits for the step's end");
    ok(publish(1) == 5, "its sum holds what was accepted");
    ok(claim(1) == DSGD_ABANDON && claim(2) == DSGD_ABANDON &&
           claim(3) == DSGD_ABANDON,
       "the others go on");
    end();
}

static void test_errors(void)
{
    const struct msg_range range = {0, 20};
    struct dsgd_part part;
    float grad[FLOATS] = {0};

    begin(DSGD_WORK_SHARED);
    is_int(dsgd_claim(c.d[0], &part), DSGD_E_STATE, "no step, no part");
    has_str(dsgd_error_text(c.d[0]), "no step was begun", "and why");
    crew_pool(&c, 1, 0, 5, &range, 1, 5);
    start(1, 0);
    ok(all_begin(1), "a step");
    is_int(dsgd_deposit(c.d[0], grad, FLOATS, 5), DSGD_E_STATE, "not claimed");
    is_int(dsgd_reduce(c.d[0], grad, FLOATS, 0), DSGD_E_STATE,
           "dsgd_reduce with shared work");
    has_str(dsgd_error_text(c.d[0]), "--dsgd-work=own", "names the remedy");
    is_int(dsgd_claim(c.d[0], &part), DSGD_OK, "claimed");
    is_int(dsgd_claim(c.d[0], &part), DSGD_E_STATE, "twice");
    is_int(dsgd_deposit(c.d[0], grad, FLOATS - 1, 5), DSGD_E_RANGE, "floats");
    is_int(dsgd_deposit(c.d[0], grad, FLOATS, 4), DSGD_E_RANGE, "samples");
    has_str(dsgd_error_text(c.d[0]), "4 samples, and the part has 5", "both");
    is_int(dsgd_deposit(c.d[0], grad, FLOATS, 5), DSGD_OK, "then it is right");
    end();
}

/* Each worker its own share. */
static void test_own(void)
{
    begin(DSGD_WORK_OWN);
    start(1, 10);
    ok(all_begin(1) && claims(1, 10, 4) && deposit(1) == DSGD_OK &&
           claims(1, 14, 4) && deposit(1) == DSGD_OK && claims(1, 18, 2),
       "a share in parts");
    ok(hear(SEG_EVENT_COMMIT) == 0 && deposit(1) == DSGD_OK &&
           hear(SEG_EVENT_COMMIT) == 1 && heard.event[0].value == 10,
       "the last one hands it over");
    heard.mask[1] = MSG_OWN;
    ok(claim(1) == DSGD_ABANDON, "nothing more");
    ok(claims(2, 20, 4) && deposit(2) == DSGD_OK && claims(2, 24, 4),
       "another");
    is_int((long long)publish(1), 10, "the first is in the sum");
    ok(deposit(2) == DSGD_OK && claim(2) == DSGD_ABANDON &&
           hear(SEG_EVENT_COMMIT) == 1 && heard.event[0].value == 8 &&
           fabsf(heard.event[0].fraction - .8f) < 1e-6f,
       "what the other had of its share is told");
    ok(claim(0) == DSGD_ABANDON && claim(3) == DSGD_ABANDON && all_take(1),
       "the step is over for all");
    end();
}

/* Workers of their own accord, tokens in small gifts, parts without: the sum is
 * that of what was accepted, sample by sample. */
struct storm {
    uint32_t worker;
    uint64_t steps;
    unsigned seed;
    bool good;
};

static unsigned draw(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16 & 0x7fff;
}

static void *work(void *argument)
{
    struct storm *s = argument;
    struct dsgd *d = c.d[s->worker];
    struct dsgd_step step;
    struct dsgd_mean mean;
    struct dsgd_part part;
    enum dsgd_err rc = DSGD_OK;

    while (rc == DSGD_OK && d->applied < s->steps) {
        rc = dsgd_step_begin(d, &step);
        while (rc == DSGD_OK && dsgd_claim(d, &part) == DSGD_OK) {
            if (draw(&s->seed) % 8 == 0)
                usleep(draw(&s->seed) % 500);
            if (deposit(s->worker) != DSGD_OK)
                break;
        }
        while (rc == DSGD_OK)
            rc = dsgd_next_mean(d, &mean);
        rc = rc == DSGD_UP_TO_DATE ? DSGD_OK : rc;
    }
    s->good = rc == DSGD_OK;
    return NULL;
}

/* Give tokens until the batch is full; returns whether the events agree. */
static bool fill(uint64_t step, uint64_t part, uint64_t batch, double *want,
                 unsigned *seed)
{
    uint64_t granted = 0;
    bool used[MOST] = {false}, good = true;

    memset(want, 0, FLOATS * sizeof *want);
    while (heard.accepted < batch) {
        if (granted < batch) {
            crew_tokens(&c, step, part);
            granted += part;
        }
        if (draw(seed) % 4 == 0)
            granted -= node_revoke(c.node, step, part);
        hear(SEG_EVENT_PART);
        for (uint32_t i = 0; i < heard.n_events; i++) {
            uint64_t entry = heard.event[i].value >> 32;
            if (heard.event[i].kind != SEG_EVENT_PART)
                continue;
            good = good && heard.event[i].step == step && entry < MOST &&
                   !used[entry];
            used[entry % MOST] = true;
            for (uint64_t k = 0; k < part; k++)
                want[(step * 7 + entry * part + k) % FLOATS] += 1;
        }
        if (!heard.n_events)
            node_nap(c.node, node_bell(c.node), 200000);
    }
    node_revoke(c.node, step, UINT64_MAX);
    return good && heard.accepted == batch;
}

static void test_storm(void)
{
    enum { STEPS = 200, /* the ring holds them all */ PART = 3, BATCH = 60 };
    struct storm storm[WORKERS];
    pthread_t thread[WORKERS];
    double want[FLOATS];
    unsigned seed = 5;
    bool good = true, sums = true;

    begin(DSGD_WORK_SHARED);
    for (uint32_t w = 0; w < WORKERS; w++) {
        storm[w] = (struct storm){w, STEPS, w + 1, false};
        pthread_create(&thread[w], NULL, work, &storm[w]);
    }
    for (uint64_t step = 1; step <= STEPS; step++) {
        struct msg_range range = {step * 7, BATCH + WORKERS * PART};
        start(step, 0);
        crew_pool(&c, step, 0, PART, &range, 1, 0);
        good = fill(step, PART, BATCH, want, &seed) && good;
        float *sum = node_sum(c.node, heard.mask, 1);
        for (uint32_t i = 0; i < FLOATS; i++)
            sums = sums && fabs((double)sum[i] - want[i]) < 1e-6;
        struct msg m = {.step = step, .u.mean.samples = BATCH};
        node_commit(c.node, &m);
        node_show(c.node, &m, NULL);
    }
    for (uint32_t w = 0; w < WORKERS; w++) {
        pthread_join(thread[w], NULL);
        good = good && storm[w].good;
    }
    ok(good, "%d steps: every batch full, no part twice", STEPS);
    ok(sums, "sums hold what was accepted and nothing else");
    end();
}

int main(void)
{
    test_step();
    test_tokens();
    test_messages();
    test_first();
    test_early();
    test_died();
    test_errors();
    test_own();
    test_storm();
    return done();
}
