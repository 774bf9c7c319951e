/* Shares given in parts on one node, the test in the coordinator's place: what
 * a worker has deposited is in a sum, exactly, when the worker is asleep, goes
 * on with the next part, or was stopped in the middle of adding one. */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../crew.h"
#include "../tap.h"
#include "sys.h"

enum { WORKERS = 3, BATCH = 10, PART = 4, LARGE = 300000 };

static struct crew c;

static struct { /* as the coordinator hears of the open step */
    size_t floats;
    struct msg_event last[WORKERS]; /* DEPOSIT or COMMIT of the open step */
    uint32_t known[WORKERS];        /* deposits */
    uint64_t given[WORKERS];        /* samples */
    uint8_t mask[WORKERS];
    uint64_t step;
} heard;

static struct dsgd_options options(size_t floats)
{
    return (struct dsgd_options){.grad_elems = floats,
                                 .batch = BATCH,
                                 .parts = 3,
                                 .n_samples = 1000,
                                 .deposits = true};
}

static void begin(size_t floats)
{
    memset(&heard, 0, sizeof heard);
    heard.floats = floats;
    ok(crew_create(&c, WORKERS, floats), "a node with %d workers", WORKERS);
}

static void begin_here(void)
{
    const struct dsgd_options opt = options(40);

    begin(40);
    ok(crew_join_all(&c, &opt), "all are here");
}

static void end(void)
{
    crew_destroy(&c);
}

static void start(uint64_t step, uint64_t count)
{
    struct msg_share share[WORKERS];

    for (uint32_t w = 0; w < WORKERS; w++)
        share[w] = (struct msg_share){.first = w * BATCH, .count = count};
    memset(heard.mask, 0, sizeof heard.mask);
    memset(heard.known, 0, sizeof heard.known);
    memset(heard.given, 0, sizeof heard.given);
    heard.step = step;
    node_start(c.node, step, share);
}

/* Hear what the node says.  Returns how many events were of this kind. */
static uint32_t hear(enum seg_event_kind kind)
{
    struct msg_event e;
    uint32_t n = 0;

    while (node_event(c.node, &e)) {
        n += e.kind == kind;
        bool deposit = e.kind == SEG_EVENT_DEPOSIT;
        if (!deposit && e.kind != SEG_EVENT_COMMIT)
            continue;
        heard.last[e.worker] = e;
        if (e.step != heard.step || !e.value)
            continue;
        heard.mask[e.worker] = (uint8_t)(MSG_OWN | (e.buf ? MSG_OWN_BUF : 0));
        heard.given[e.worker] = deposit ? (uint32_t)e.value : e.value;
        if (deposit)
            heard.known[e.worker] = (uint32_t)(e.value >> 32);
    }
    return n;
}

static void know(void)
{
    struct msg m = {.kind = MSG_KNOWN, .count = WORKERS, .step = heard.step};

    node_message(c.node, &m, heard.known, sizeof heard.known);
}

/* Close the step with what was heard of.  Each float of the sum is its samples.
 */
static bool publish(void)
{
    struct msg m = {.kind = MSG_PUBLISH, .step = heard.step};
    bool any = false, good = true;

    for (uint32_t w = 0; w < WORKERS; w++) {
        any = any || heard.mask[w];
        m.u.mean.samples += heard.given[w];
    }
    float *mean =
        any ? node_sum(c.node, heard.mask, 1)
            : memset(node_reserve(c.node), 0, heard.floats * sizeof *mean);
    for (size_t i = 0; i < heard.floats; i++)
        good = good && mean[i] == (float)m.u.mean.samples;
    node_commit(c.node, &m);
    node_show(c.node, &m, NULL);
    return good;
}

static bool begins(uint32_t w)
{
    struct dsgd_step step;

    return dsgd_step_begin(c.d[w], &step) == DSGD_OK &&
           step.index == heard.step;
}

static enum dsgd_err claim(uint32_t w)
{
    struct dsgd_part part;

    return dsgd_claim(c.d[w], &part);
}

static enum dsgd_err deposit(uint32_t w)
{
    uint64_t samples = c.d[w]->work.part.n_samples;
    float *grad = malloc(heard.floats * sizeof *grad);

    for (size_t i = 0; i < heard.floats; i++)
        grad[i] = (float)samples;
    enum dsgd_err rc = dsgd_deposit(c.d[w], grad, heard.floats, samples);
    free(grad);
    return rc;
}

static bool gives(uint32_t w)
{
    return claim(w) == DSGD_OK && deposit(w) == DSGD_OK;
}

static bool takes(uint32_t w)
{
    struct dsgd_mean mean;

    return dsgd_next_mean(c.d[w], &mean) == DSGD_OK &&
           dsgd_next_mean(c.d[w], &mean) == DSGD_UP_TO_DATE;
}

static void test_step(void)
{
    begin_here();
    start(1, BATCH);
    ok(begins(0) && begins(1) && begins(2) && gives(0), "the first part");
    ok(hear(SEG_EVENT_DEPOSIT) == 1 &&
           heard.last[0].value == (UINT64_C(1) << 32 | 4) &&
           !heard.last[0].buf && heard.last[0].duration_s >= 0,
       "is told of");
    know();
    ok(gives(0) && hear(SEG_EVENT_DEPOSIT) == 1 &&
           heard.last[0].value == (UINT64_C(2) << 32 | 8) &&
           heard.last[0].buf == 1,
       "the next, in the other buffer, says how many there are");
    know();
    ok(gives(0) && hear(SEG_EVENT_COMMIT) == 1 && heard.last[0].value == 10 &&
           !heard.last[0].buf && !(heard.last[0].fraction < 1),
       "the last is the commit of all");
    is_int(claim(0), DSGD_ABANDON, "and nothing is left");
    ok(gives(1) && hear(SEG_EVENT_DEPOSIT) == 1 && claim(1) == DSGD_OK,
       "another worker gives a part, and computes its next");
    ok(claim(2) == DSGD_OK && dsgd_poll(c.d[2], 1, 2) == DSGD_GO_ON,
       "a third computes its first");
    ok(publish(), "14 samples are in the mean");
    ok(deposit(1) == DSGD_ABANDON && hear(SEG_EVENT_COMMIT) == 1 &&
           heard.last[1].value == 0 &&
           fabsf(heard.last[1].fraction - .8f) < 1e-6f,
       "it learns that the step is over, and tells of 8 samples' time");
    ok(dsgd_poll(c.d[2], 1, 2) == DSGD_ABANDON && claim(2) == DSGD_ABANDON &&
           hear(SEG_EVENT_COMMIT) == 1 && heard.last[2].value == 0 &&
           heard.last[2].fraction == 0,
       "and so does who has given nothing");
    ok(takes(0) && takes(1) && takes(2), "all go on");
    start(2, 0);
    ok(begins(0) && claim(0) == DSGD_ABANDON && hear(SEG_EVENT_COMMIT) == 1,
       "no share, nothing to do");
    end();
}

struct waiter {
    pthread_t thread;
    enum dsgd_err rc;
};

static void *deposit_of_0(void *argument)
{
    struct waiter *waiter = argument;

    waiter->rc = deposit(0);
    return NULL;
}

static bool sleeps(struct waiter *w)
{
    bool waits = false;

    pthread_create(&w->thread, NULL, deposit_of_0, w);
    for (int i = 0; i < 20000 && !waits; i++) {
        usleep(100);
        waits = atomic_load(&c.seg.workers[0].waits);
    }
    return waits;
}

static void test_waits(void)
{
    struct waiter waiter;

    begin_here();
    start(1, BATCH);
    ok(begins(0) && gives(0) && claim(0) == DSGD_OK &&
           hear(SEG_EVENT_DEPOSIT) == 1,
       "a part is not known of yet");
    ok(sleeps(&waiter) && hear(SEG_EVENT_DEPOSIT) == 0, "the next one waits");
    heard.known[0] = 0;
    know();
    ok(hear(SEG_EVENT_DEPOSIT) == 0, "also when others' are known");
    heard.known[0] = 1;
    know();
    pthread_join(waiter.thread, NULL);
    ok(waiter.rc == DSGD_OK && hear(SEG_EVENT_DEPOSIT) == 1, "until it is");
    ok(claim(0) == DSGD_OK, "the third");
    ok(sleeps(&waiter) && publish(), "a step closes with two of them");
    pthread_join(waiter.thread, NULL);
    ok(waiter.rc == DSGD_ABANDON && takes(0), "which ends the wait");
    end();
}

/* A program without deposits, or that gives them all at once. */
static void test_errors(void)
{
    float grad[40] = {0};

    begin_here();
    start(1, BATCH);
    ok(begins(0), "a step");
    is_int(dsgd_reduce(c.d[0], grad, 40, 10), DSGD_E_STATE, "dsgd_reduce");
    has_str(dsgd_error_text(c.d[0]), "opt.deposits", "says why not");
    ok(gives(0), "dsgd_deposit");
    end();
}

/* Another process in a dead worker's place does not write to what it gave. */
static void test_died(void)
{
    begin_here();
    start(1, BATCH);
    ok(begins(0) && gives(0) && hear(SEG_EVENT_DEPOSIT) == 1, "a part");
    segment_bury(&c.seg, 0, 9);
    ok(hear(SEG_EVENT_DIED) == 1, "its worker dies");
    is_int((long long)atomic_load(&c.seg.workers[0].hold_step), 1,
           "another waits for the step's end");
    ok(publish(), "what it gave is in the mean");
    end();
}

/* Workers at work while the coordinator hears of it late, and closes steps when
 * it likes. */
struct storm {
    uint32_t worker;
    uint64_t steps;
    bool good;
};

static void *work(void *argument)
{
    struct storm *s = argument;
    struct dsgd *d = c.d[s->worker];
    struct dsgd_step step;
    struct dsgd_mean mean;
    enum dsgd_err rc = DSGD_OK;

    while (rc == DSGD_OK && d->applied < s->steps) {
        rc = dsgd_step_begin(d, &step);
        while (rc == DSGD_OK && gives(s->worker))
            ;
        while (rc == DSGD_OK)
            rc = dsgd_next_mean(d, &mean);
        rc = rc == DSGD_UP_TO_DATE ? DSGD_OK : rc;
    }
    s->good = rc == DSGD_OK;
    return NULL;
}

static unsigned draw(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16 & 0x7fff;
}

/* Hear of parts, and say so, or later. */
static void listen_some(unsigned *seed)
{
    unsigned looks = draw(seed) % 40;

    for (unsigned i = 0; i < looks; i++) {
        hear(SEG_EVENT_DEPOSIT);
        if (draw(seed) % 3)
            know();
        if (draw(seed) % 2)
            node_nap(c.node, node_bell(c.node), 20000);
    }
}

static void test_storm(void)
{
    enum { STEPS = 400 };
    struct storm storm[WORKERS];
    pthread_t thread[WORKERS];
    unsigned seed = 7;
    bool sums = true, good = true;
    uint64_t parts = 0;

    begin_here();
    for (uint32_t w = 0; w < WORKERS; w++) {
        storm[w] = (struct storm){w, STEPS, false};
        pthread_create(&thread[w], NULL, work, &storm[w]);
    }
    for (uint64_t step = 1; step <= STEPS; step++) {
        start(step, BATCH);
        listen_some(&seed);
        sums = publish() && sums;
        for (uint32_t w = 0; w < WORKERS; w++)
            parts += heard.given[w] > 0 && heard.given[w] < BATCH;
    }
    for (uint32_t w = 0; w < WORKERS; w++) {
        pthread_join(thread[w], NULL);
        good = good && storm[w].good;
    }
    ok(good && parts > 0, "%d steps, %llu shares cut short", STEPS,
       (unsigned long long)parts);
    ok(sums, "means hold what was heard of and nothing else");
    end();
}

static void child(uint32_t w, uint64_t steps)
{
    const struct dsgd_options opt = options(heard.floats);
    struct storm s = {w, steps, false};

    if (!crew_join(&c, w, &opt))
        _exit(1);
    work(&s);
    _exit(s.good ? 0 : 1);
}

/* All have the mean of that step. */
static void await_all(uint64_t step)
{
    for (uint32_t w = 0; w < WORKERS; w++) {
        while (atomic_load(&c.seg.workers[w].applied) < step) {
            hear(SEG_EVENT_COMMIT);
            node_nap(c.node, node_bell(c.node), 100000);
        }
    }
}

/* Processes that are stopped anywhere, mostly in the middle of an addition,
 * while steps close without them. */
static void test_stopped(void)
{
    enum { STEPS = 150 };
    pid_t pid[WORKERS];
    unsigned seed = 11;
    bool sums = true, good = true;
    uint64_t stopped = 0;

    begin(LARGE);
    for (uint32_t w = 0; w < WORKERS; w++) {
        pid[w] = fork();
        if (pid[w] == 0)
            child(w, STEPS);
    }
    for (uint64_t step = 1; step <= STEPS; step++) {
        uint32_t victim = draw(&seed) % WORKERS;
        start(step, BATCH);
        do
            listen_some(&seed);
        while (!heard.given[victim]);
        kill(pid[victim], SIGSTOP);
        listen_some(&seed);
        stopped += heard.given[victim] > 0 && heard.given[victim] < BATCH;
        sums = publish() && sums;
        kill(pid[victim], SIGCONT);
        if (step < STEPS)
            await_all(step);
        if (step == 1)
            segment_unlink(c.name);
    }
    for (uint32_t w = 0; w < WORKERS; w++) {
        int status = 0;
        waitpid(pid[w], &status, 0);
        good = good && status == 0;
    }
    ok(good && stopped > 0, "%d steps, a stopped worker gave parts in %llu",
       STEPS, (unsigned long long)stopped);
    ok(sums, "means hold what was heard of and nothing else");
    end();
}

int main(void)
{
    test_step();
    test_waits();
    test_errors();
    test_died();
    test_storm();
    test_stopped();
    return done();
}
