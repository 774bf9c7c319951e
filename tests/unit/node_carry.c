/* Parts that were late for their step, on one node, the test in the
 * coordinator's place: they are offered in the next step, once, if that wants
 * them; and parts that are as they were recorded. */
#include <pthread.h>
#include <string.h>

#include "../crew.h"
#include "../tap.h"
#include "sys.h"

enum { WORKERS = 2, FLOATS = 40, PART = 5 };

static struct crew c;
static uint8_t mask[WORKERS];
static uint32_t n_parts, n_carried, n_kept, n_waiting; /* heard in the step */
static uint64_t accepted;                              /* samples */

static void begin(enum dsgd_late late, const char *cutoff)
{
    struct dsgd_options opt = {.grad_elems = FLOATS,
                               .batch = 10,
                               .work = DSGD_WORK_SHARED,
                               .late = late};

    snprintf(opt.cutoff, sizeof opt.cutoff, "%s", cutoff);
    ok(crew_create(&c, WORKERS, FLOATS) && crew_join_all(&c, &opt),
       "a node with %d workers", WORKERS);
}

static void end(void)
{
    crew_destroy(&c);
}

static void hear(void)
{
    struct msg_event e;

    while (node_event(c.node, &e)) {
        n_kept += e.kind == SEG_EVENT_KEPT;
        n_waiting += e.kind == SEG_EVENT_WAITS;
        if (e.kind != SEG_EVENT_PART)
            continue;
        n_parts++;
        n_carried += (uint32_t)(e.value >> 32) >= MSG_CARRIED_PART;
        accepted += (uint32_t)e.value;
        mask[e.worker] = (uint8_t)(MSG_OWN | (e.buf ? MSG_OWN_BUF : 0));
    }
}

/* All begin a step of so many tokens, and of n ranges. */
static void start_ranges(uint64_t step, uint32_t flags, uint64_t tokens,
                         const struct msg_range *range, uint32_t n)
{
    static const struct msg_share share[WORKERS];
    struct dsgd_step s;

    node_start(c.node, step, share);
    if (n)
        crew_pool(&c, step, flags, PART, range, n, tokens);
    for (uint32_t w = 0; w < WORKERS; w++)
        dsgd_step_begin(c.d[w], &s);
    memset(mask, 0, sizeof mask);
    n_parts = n_carried = n_kept = n_waiting = 0;
    accepted = 0;
    hear();
}

/* The same with so many parts, the first of which is of sample step * 1000. */
static void start(uint64_t step, uint32_t flags, uint64_t tokens,
                  uint64_t parts)
{
    struct msg_range range = {step * 1000, parts * PART};

    start_ranges(step, flags, tokens, &range, parts != 0);
}

static void publish(uint64_t step)
{
    struct msg m = {.kind = MSG_PUBLISH, .step = step, .u.mean.samples = 1};
    double sum = 0;

    float *to = node_sum(c.node, mask, 1);
    for (uint32_t i = 0; i < FLOATS; i++)
        sum += (double)to[i];
    ok(fabs(sum - (double)accepted) < 1e-6, "the sum holds what was accepted");
    node_commit(c.node, &m);
    node_show(c.node, &m, NULL);
}

static void take(uint32_t w)
{
    struct dsgd_mean mean;

    while (dsgd_next_mean(c.d[w], &mean) == DSGD_OK)
        ;
}

static enum dsgd_err deposit(uint32_t w)
{
    return crew_deposit(&c, w);
}

/* A claim, while the aggregator does its work. */
static enum dsgd_err claimed;
static struct dsgd_part claimed_part;
static _Atomic bool is_claimed;

static void *claim_in_thread(void *argument)
{
    claimed = dsgd_claim(argument, &claimed_part);
    atomic_store(&is_claimed, true);
    return NULL;
}

static bool claims(uint32_t w, uint64_t first)
{
    pthread_t thread;

    atomic_store(&is_claimed, false);
    pthread_create(&thread, NULL, claim_in_thread, c.d[w]);
    while (!atomic_load(&is_claimed)) {
        hear();
        node_nap(c.node, node_bell(c.node), 200000);
    }
    pthread_join(thread, NULL);
    hear();
    return claimed == DSGD_OK && claimed_part.first_sample == first;
}

/* Step 1: worker 1 has given all; worker 0 has an offer that waits, and a part
 * that it deposits afterwards. */
static void be_late(void)
{
    start(1, 0, PART, 4);
    ok(claims(1, 1000) && deposit(1) == DSGD_OK, "a part is in time");
    hear();
    ok(claims(0, 1005) && deposit(0) == DSGD_OK && claims(0, 1010) &&
           n_waiting == 1,
       "another waits");
    is_int((long)accepted, PART, "the batch is full");
    publish(1);
    is_int(deposit(0), DSGD_ABANDON, "a third is too late");
    take(0);
    is_int(dsgd_claim(c.d[1], &claimed_part), DSGD_ABANDON, "the step is over");
    take(1);
}

static void offer_again(uint32_t entry)
{
    struct seg_event e = {.kind = SEG_EVENT_PART,
                          .step = 2,
                          .value = PART,
                          .entry = entry | MSG_CARRIED_PART};

    n_parts = n_waiting = 0;
    segment_post(&c.seg, 1, &e);
    hear();
}

static void test_carried(void)
{
    begin(DSGD_LATE_CARRY, "full");
    be_late();
    start(2, MSG_CARRIES, 4 * PART, 4);
    ok(claims(0, 2000), "in the next step, a part of that");
    ok(n_parts == 2 && n_carried == 2 && accepted == 2 * PART,
       "after both late parts were accepted");
    offer_again(1);
    offer_again(2);
    is_int(n_parts + n_waiting, 0, "none counts twice");
    offer_again(0);
    is_int(n_parts + n_waiting, 0, "nor what was in time");
    offer_again(4);
    is_int(n_parts + n_waiting, 0, "nor what there was not");
    ok(deposit(0) == DSGD_OK && claims(0, 2005) && deposit(0) == DSGD_OK,
       "its own parts are added");
    hear();
    is_int((long)accepted, 4 * PART, "the batch is full");
    publish(2);
    end();
}

static void test_unwanted(void)
{
    begin(DSGD_LATE_CARRY, "full");
    be_late();
    start(2, 0, 4 * PART, 4);
    ok(claims(0, 2000) && !n_parts, "no late part is offered that is unwanted");
    offer_again(1);
    is_int(n_parts + n_waiting, 0, "or accepted");
    end();

    begin(DSGD_LATE_CARRY, "full");
    be_late();
    start(2, MSG_CARRIES, PART, 0); /* its pool never comes */
    mask[1] = MSG_OWN;
    accepted = PART;
    publish(2);
    for (uint32_t w = 0; w < WORKERS; w++) {
        is_int(dsgd_claim(c.d[w], &claimed_part), DSGD_ABANDON,
               "a step passes");
        take(w);
    }
    start(3, MSG_CARRIES, 4 * PART, 4);
    ok(claims(0, 3000) && !n_parts, "nor in the step after the next");
    end();

    begin(DSGD_LATE_REQUEUE, "full");
    be_late();
    start(2, MSG_CARRIES, 4 * PART, 4);
    ok(claims(0, 2000) && !n_parts, "without carry: none");
    end();
}

static void script(uint64_t step, uint32_t flags, uint64_t tokens,
                   const struct msg_script *s, uint32_t n)
{
    struct msg m = {
        .kind = MSG_SCRIPT, .flags = flags, .count = n, .step = step};

    m.u.pool.tokens = tokens;
    node_message(c.node, &m, s, n * sizeof *s);
    start(step, 0, 0, 0);
}

/* Worker 1 computes before worker 0 what that is to compute first. */
static void test_script(void)
{
    const struct msg_script first[] = {{100, 7, 4, 0, 0},
                                       {110, 3, 3, 1, 0},
                                       {120, 6, 3, 0, 1},
                                       {130, 2, 2, 1, 0}};
    const struct msg_script second[] = {{200, 4, 4, 0, 0}};

    begin(DSGD_LATE_REQUEUE, "replay:x");
    script(1, 0, 12, first, 4);
    ok(claims(1, 110) && deposit(1) == DSGD_OK && claims(1, 130) &&
           deposit(1) == DSGD_OK,
       "a worker is given its parts");
    ok(claims(0, 100) && claimed_part.n_samples == 4 && deposit(0) == DSGD_OK &&
           claims(0, 104) && claimed_part.n_samples == 3 &&
           deposit(0) == DSGD_OK,
       "another its own, of the sizes they had");
    ok(claims(0, 120) && deposit(0) == DSGD_OK && claims(0, 123) &&
           deposit(0) == DSGD_OK,
       "also those that were carried");
    hear();
    ok(n_kept == 2 && accepted == 12 && !n_waiting && n_parts == 4,
       "which it keeps");
    publish(1);
    for (uint32_t w = 0; w < WORKERS; w++) {
        is_int(dsgd_claim(c.d[w], &claimed_part), DSGD_ABANDON,
               "it has no more");
        take(w);
    }
    script(2, MSG_CARRIES, 10, second, 1);
    ok(claims(0, 200) && deposit(0) == DSGD_OK, "its part of the next step");
    hear();
    ok(n_carried == 2 && accepted == 10, "with those that it kept");
    publish(2);
    end();
}

/* First parts of a step that has tokens for so much else, withdrawn from
 * worker 0. */
static void start_first(uint64_t step, uint64_t tokens)
{
    const struct msg_range range[] = {{2000, 9}, {2009, 7}, {2020, 20}};

    start_ranges(step, MSG_CARRIES | MSG_FIXED, tokens, range, 3);
}

/* A first part comes after what was kept, and leaves that when it is
 * withdrawn; it is not kept itself. */
static void test_first(void)
{
    begin(DSGD_LATE_CARRY, "dynamic");
    be_late();
    start_first(2, 3 * PART);
    ok(claims(0, 2000) && n_carried == 2, "a first part, after late ones");
    ok(deposit(0) == DSGD_OK, "it is offered");
    is_int((long)node_withdraw(c.node, 2, 0), 9, "and withdrawn before");
    hear();
    ok(claims(0, 2020) && deposit(0) == DSGD_OK, "another part is");
    hear();
    is_int((long)accepted, 3 * PART, "what was accepted");
    ok(claims(1, 2009), "the other's first part");
    ok(dsgd_poll(c.d[1], 1, 2) == DSGD_GO_ON, "is wanted");
    ok(claims(0, 2025) && dsgd_poll(c.d[0], 1, 2) == DSGD_GO_ON,
       "as is another");
    publish(2);
    ok(dsgd_poll(c.d[1], 1, 2) == DSGD_ABANDON, "not once the step is over");
    ok(dsgd_poll(c.d[0], 1, 2) == DSGD_GO_ON, "but what is carried");
    is_int(deposit(1), DSGD_ABANDON, "the first part is too late");
    is_int(deposit(0), DSGD_ABANDON, "so is the other");
    take(0);
    take(1);
    ok(!c.d[1]->work.carry.n && c.d[0]->work.carry.n == 1,
       "which alone is kept");
    end();
}

int main(void)
{
    test_carried();
    test_first();
    test_unwanted();
    test_script();
    return done();
}
