/* The aggregator's hands on a segment: who is asked for its state, what a step
 * begins with, and what counts as a sign of life. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../tap.h"
#include "client.h"
#include "node.h"
#include "sys.h"

enum { WORKERS = 3, FLOATS = 8 };

static struct segment seg;
static struct node *node;

static void begin(void)
{
    char name[SEGMENT_NAME];

    ok(segment_create(WORKERS, FLOATS, 1, 0, &seg, name, NULL) == DSGD_OK &&
           node_create(&seg, &node, NULL) == DSGD_OK,
       "a segment");
    segment_unlink(name);
}

static void end(void)
{
    node_destroy(node);
    segment_detach(&seg);
}

static void publish(uint64_t step)
{
    struct msg m = {.kind = MSG_PUBLISH, .step = step};

    memset(node_reserve(node), 0, FLOATS * sizeof(float));
    node_commit(node, &m);
    node_show(node, &m, NULL);
}

static void applied(uint32_t worker, uint64_t step)
{
    atomic_store(&seg.workers[worker].applied, step);
}

static bool asked(uint32_t worker)
{
    return atomic_load(&seg.workers[worker].give_state) != 0;
}

static void test_ask(void)
{
    begin();
    for (uint64_t step = 1; step <= 5; step++)
        publish(step);
    applied(0, 3);
    applied(1, 4);
    applied(2, 2);
    ok(!node_ask_state(node, 5), "nobody has a state so recent");
    ok(node_ask_state(node, 1) && asked(1) && !asked(0) && !asked(2),
       "the worker with the most recent state is asked");
    ok(node_ask_state(node, 1) && asked(0),
       "then, as it may be stuck, the next one");
    atomic_store(&seg.workers[1].give_state, 0);
    atomic_store(&seg.workers[1].exit, SEG_EXIT_OWN);
    ok(node_ask_state(node, 1) && asked(2) && !asked(1),
       "not one that has come to the end");
    ok(!node_ask_state(node, 1), "and none twice");
    end();
}

/* Old means are still in the ring when a state is taken that is far ahead. */
static void test_hole(void)
{
    begin();
    for (uint64_t step = 1; step <= 3; step++)
        publish(step);
    node_jump(node, 9);
    publish(10);
    applied(0, 3);
    ok(node_state_serves(node, 1) && !node_state_serves(node, 3),
       "a state serves whose next mean is in the ring");
    ok(!node_ask_state(node, 1), "a state before the gap is of no use");
    applied(1, 9);
    ok(node_ask_state(node, 1) && asked(1), "one behind it is");
    applied(2, 10);
    ok(node_ask_state(node, 10) && asked(2), "and one of the last mean");
    end();
}

/* A worker that stops while it reads keeps an old mean in the ring. */
static void test_pinned(void)
{
    begin();
    publish(1);
    segment_pin(&seg, 0, 1);
    for (uint64_t step = 2; step <= 9; step++)
        publish(step);
    ok(segment_find(&seg, 1) >= 0 && segment_find(&seg, 2) < 0,
       "a mean that is read stays, those after it do not");
    applied(0, 1);
    applied(1, 1);
    ok(!node_ask_state(node, 1), "nor is a state of use because of it");
    segment_unpin(&seg, 0);
    end();
}

/* A node's one worker, which has applied mean 5. */
static struct dsgd *begin_worker(void)
{
    struct dsgd_options opt = {.grad_elems = FLOATS};
    static struct segment own;
    struct dsgd *d = NULL;
    char name[SEGMENT_NAME];

    ok(segment_create(1, FLOATS, 1, 0, &own, name, NULL) == DSGD_OK &&
           segment_attach(name, &seg, NULL) == DSGD_OK &&
           node_create(&seg, &node, NULL) == DSGD_OK &&
           client_create(&opt, &own, 0, NULL, &d, NULL) == DSGD_OK,
       "a worker");
    segment_unlink(name);
    node_jump(node, 5);
    d->applied = 5;
    return d;
}

static void *begin_step(void *argument)
{
    struct dsgd_step step;

    return (void *)(intptr_t)(dsgd_step_begin(argument, &step) != DSGD_OK ||
                              step.n_samples);
}

/* A worker has taken a state and waits for the next step, which has long begun
 * elsewhere and ends an epoch: what comes next is its mean, and no step may
 * begin after it before that worker has come to the boundary. */
static void test_over(void)
{
    pthread_t thread;
    void *failed = NULL;
    struct dsgd *d = begin_worker();
    pthread_create(&thread, NULL, begin_step, d);
    struct msg_event e;
    for (int i = 0; i < 10000 && !node_event(node, &e); i++)
        usleep(1000);
    ok(e.kind == SEG_EVENT_READY && e.step == 6, "waits for step 6");
    publish(6);
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 10;
    bool came = pthread_timedjoin_np(thread, &failed, &limit) == 0;
    ok(came && !failed, "and sits it out when it is over before it began");
    if (!came) {
        node_end(node, 0);
        pthread_join(thread, NULL);
    }
    client_destroy(d);
    end();
}

/* Mean 6 has not come when the run ends with step 7: whoever waits for it has
 * no replica, and is named and ended like one that is stuck, at once. */
static void test_left_behind(void)
{
    uint8_t stuck = 0;
    struct dsgd *d = begin_worker();
    pid_t child = fork();
    if (child == 0) {
        begin_step(d);
        _exit(1);
    }
    struct msg_event e;
    for (int i = 0; i < 10000 && !node_event(node, &e); i++)
        usleep(1000);
    is_int(node_stuck(node, &stuck), 1, "is waited for at the end");
    node_end(node, 7);
    for (int i = 0; i < 10000 && node_stuck(node, &stuck); i++)
        usleep(1000);
    is_int(node_stuck(node, &stuck), 0,
           "but not when it lacks means that do not come");
    is_int(stuck, 1, "it is stuck all the same");
    ok(waitpid(child, NULL, WNOHANG) == 0, "and does not go on");
    node_reap(node, 0);
    is_int(atomic_load(&seg.workers[0].exit), SEG_EXIT_REAPED,
           "its helper ends it");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    client_destroy(d);
    end();
}

/* The share of a step that has begun is being read. */
static void test_start(void)
{
    struct msg_share first[WORKERS] = {
        {.count = 1}, {.count = 2}, {.count = 3}};
    struct msg_share again[WORKERS] = {
        {.count = 7}, {.count = 7}, {.count = 7}};
    struct msg m = {.kind = MSG_PUBLISH, .flags = MSG_STARTS, .step = 1};

    begin();
    node_start(node, 2, again);
    is_int((long long)atomic_load(&seg.h->started), 0,
           "a step waits for the mean before it");
    memset(node_reserve(node), 0, FLOATS * sizeof(float));
    node_commit(node, &m);
    node_show(node, &m, first);
    is_int((long long)atomic_load(&seg.h->started), 2, "and begins with it");
    is_int((long long)atomic_load(&seg.workers[1].assign_count), 2,
           "once: what it was begun with stays");
    node_start(node, 2, again);
    is_int((long long)atomic_load(&seg.workers[1].assign_count), 2,
           "also when it is told again later");
    node_jump(node, 5);
    node_start(node, 6, again);
    is_int((long long)atomic_load(&seg.workers[1].assign_count), 7,
           "the step after a state begins");
    end();
}

/* What of `total` is done when dsgd_poll says to stop; total: never. */
static int stops_at(uint64_t count, uint64_t limit, uint64_t total)
{
    struct msg_share share = {.count = count, .limit = limit};
    struct dsgd_options opt = {.grad_elems = FLOATS};
    struct dsgd_step step;
    struct segment own;
    struct dsgd *d = NULL;
    char name[SEGMENT_NAME];
    uint64_t done = 0;

    if (segment_create(1, FLOATS, 1, 0, &own, name, NULL) != DSGD_OK ||
        segment_attach(name, &seg, NULL) != DSGD_OK ||
        node_create(&seg, &node, NULL) != DSGD_OK ||
        client_create(&opt, &own, 0, NULL, &d, NULL) != DSGD_OK)
        return -1;
    segment_unlink(name);
    node_start(node, 1, &share);
    if (dsgd_step_begin(d, &step) != DSGD_OK || step.n_samples != count)
        return -1;
    while (done < total && dsgd_poll(d, ++done, total) == DSGD_GO_ON)
        ;
    client_destroy(d);
    end();
    return (int)done;
}

/* A replay tells workers how much of their share they processed. */
static void test_stop(void)
{
    is_int(stops_at(32, 0, 8), 8, "no limit");
    is_int(stops_at(32, 12, 8), 3,
           "stop after 12 samples of 32: micro-batch "
           "3 of 8");
    is_int(stops_at(32, 12, 32), 12, "sample 12");
    is_int(stops_at(33, 32, 5), 4, "the last micro-batch is smaller");
    is_int(stops_at(33, 19, 5), 3, "micro-batches of 6 and 7 samples");
    is_int(stops_at(3, 1, 8), 3, "more pieces than samples");
    is_int(stops_at(0, 0, 4), 4, "no share");
}

static void burn(double seconds)
{
    double until_s = sys_thread_cpu_s() + seconds;

    while (sys_thread_cpu_s() < until_s)
        ;
}

/* Worker 0 is of this process, in which only this thread works, once those of
 * the BLAS have gone to sleep. */
static void test_life(void)
{
    float silent_s[WORKERS] = {0};
    uint64_t long_ago = sys_now_ns() - UINT64_C(5000000000);

    begin();
    for (uint32_t w = 0; w < WORKERS; w++)
        atomic_store(&seg.workers[w].life_ns, long_ago);
    atomic_store(&seg.workers[0].pid, (int32_t)getpid());
    for (int i = 0; i < 20 && !(silent_s[0] >= 5); i++) {
        atomic_store(&seg.workers[0].life_ns, long_ago);
        burn(.1);
        node_life(node, silent_s);
    }
    ok(silent_s[0] >= 5, "what the aggregator's thread does is no sign of life "
                         "of the worker in its process");
    end();
}

static void test_announce(void)
{
    struct seg_state box = {0};
    struct state_copy a, b;

    ok(state_make(8, &a, NULL) == DSGD_OK && state_make(8, &b, NULL) == DSGD_OK,
       "two states");
    ok(state_announce(&box, &a, 5), "a state is announced");
    ok(!state_announce(&box, &b, 4) && atomic_load(&box.fd) == a.fd,
       "an earlier one does not take its place");
    ok(state_announce(&box, &b, 6) && atomic_load(&box.fd) == b.fd,
       "a later one does");
    state_drop(&a);
    state_drop(&b);
}

/* Whoever reads the box may be late: the file's number is another's by then. */
static void test_stale_box(void)
{
    struct seg_state box = {0};
    struct state_copy copy;
    char dir[] = "/tmp/dsgd-node-XXXXXX", path[64];
    uint64_t step;

    ok(mkdtemp(dir) != NULL, "a directory");
    snprintf(path, sizeof path, "%s/fifo", dir);
    mkfifo(path, 0600);
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    unlink(path);
    rmdir(dir);
    atomic_store(&box.pid, (int32_t)getpid());
    atomic_store(&box.fd, fd);
    alarm(20); /* ends the test where the open waits for a writer */
    is_int(state_open(&box, SIZE_MAX, &copy, &step, NULL), DSGD_E_FORMAT,
           "a pipe in place of a state");
    alarm(0);
    close(fd);
}

int main(void)
{
    test_ask();
    test_hole();
    test_pinned();
    test_over();
    test_left_behind();
    test_start();
    test_stop();
    test_life();
    test_announce();
    test_stale_box();
    return done();
}
