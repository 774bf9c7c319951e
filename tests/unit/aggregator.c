/* An aggregator that is not the coordinator's, at the end of a run. */
#include <string.h>
#include <unistd.h>

#include "../shm_transport.h"
#include "../tap.h"
#include "aggregator.h"
#include "sys.h"

enum { FLOATS = 8, BODY = 4096 };

static struct segment seg;
static struct shm_net *net;
static struct transport *coordinator;
static struct aggregator *agg;

static void begin(void)
{
    struct aggregator_config config = {
        .seg = &seg, .node_index = 1, .n_nodes = 2};
    char name[SEGMENT_NAME];

    net = shm_net_create(2, BODY, BODY);
    coordinator = shm_transport_create(net, 0);
    config.transport = shm_transport_create(net, 1);
    ok(coordinator && config.transport &&
           segment_create(1, FLOATS, 1, 0, &seg, name, NULL) == DSGD_OK &&
           aggregator_create(&config, &agg, NULL) == DSGD_OK &&
           aggregator_start(agg, NULL) == DSGD_OK,
       "an aggregator");
    segment_unlink(name);
}

/* Nobody on its node comes to the end: they have gone. */
static void finish(void)
{
    struct msg reap = {.kind = MSG_REAP};

    atomic_store(&seg.workers[0].exit, SEG_EXIT_OWN);
    coordinator->ops->control(coordinator, 1, &reap, NULL, 0);
    aggregator_join(agg);
    aggregator_destroy(agg);
    coordinator->ops->destroy(coordinator);
    segment_detach(&seg);
    shm_net_destroy(net);
}

static bool reaches(_Atomic uint32_t *word, uint32_t value)
{
    for (int i = 0; i < 10000 && atomic_load(word) != value; i++)
        usleep(1000);
    return atomic_load(word) == value;
}

static void send_end(uint64_t sent, uint64_t last, double hard_timeout_s)
{
    struct msg m = {.kind = MSG_END, .step = sent};

    m.u.end.last = last;
    m.u.end.hard_timeout_s = hard_timeout_s;
    coordinator->ops->control(coordinator, 1, &m, NULL, 0);
}

static void send_mean(uint64_t step)
{
    struct msg m = {.kind = MSG_PUBLISH, .count = 1, .step = step};
    struct msg_share share = {0};
    float mean[FLOATS] = {0};

    coordinator->ops->bulk(coordinator, 1, &m, &share, sizeof share, mean,
                           sizeof mean);
}

/* What is bulky is overtaken: the end of the run comes before its last mean. */
static void test_overtaken(void)
{
    begin();
    send_end(1, 1, 60);
    usleep(50000);
    is_int(atomic_load(&seg.h->run), SEG_RUNNING,
           "the end waits for the mean that was sent before it");
    send_mean(1);
    ok(reaches(&seg.h->run, SEG_ENDED), "and comes after it");
    is_int((long long)atomic_load(&seg.h->published), 1, "which is shown");
    finish();
}

static void test_never_comes(void)
{
    begin();
    send_end(1, 2, .1);
    ok(reaches(&seg.h->run, SEG_ENDED),
       "a mean that does not come in time is not waited for");
    is_int((long long)atomic_load(&seg.h->last), 2,
           "and workers can see that they lack some");
    finish();
}

int main(void)
{
    test_overtaken();
    test_never_comes();
    return done();
}
