/* A worker that carries its node's aggregator does the aggregator's work while
 * it waits: here no thread ever does. */
#include <string.h>

#include "aggregator.h"
#include "client.h"
#include "launch.h"
#include "tap.h"

enum { ELEMS = 3000, STEPS = 5 };

static bool create(uint32_t n, struct dsgd_options *opt, struct segment *seg,
                   struct aggregator **agg)
{
    static const uint32_t worker_node[2] = {0, 0};
    char name[SEGMENT_NAME];
    struct cutoff_spec spec;
    struct coordinator_config coord = {.opt = opt,
                                       .cutoff = &spec,
                                       .n_workers = n,
                                       .n_nodes = 1,
                                       .worker_node = worker_node};
    struct aggregator_config config = {
        .seg = seg, .n_nodes = 1, .coord = &coord};

    opt->grad_elems = ELEMS;
    opt->sampler = DSGD_SAMPLER_NONE;
    opt->max_steps = STEPS;
    if (launch_check(opt, &spec, NULL) != DSGD_OK ||
        segment_create(n, ELEMS, 1, 0, seg, name, NULL) != DSGD_OK)
        return false;
    segment_unlink(name);
    return aggregator_create(&config, agg, NULL) == DSGD_OK;
}

static bool open_alone(struct segment *seg, struct dsgd **d)
{
    struct dsgd_options opt;
    struct aggregator *agg;

    dsgd_options_init(&opt, NULL);
    return create(1, &opt, seg, &agg) &&
           client_create(&opt, seg, 0, agg, d, NULL) == DSGD_OK;
}

enum { TALK = 10000 };
static int said;

/* Another worker has something to say whenever it was heard. */
static void talk(void *context, const char *text)
{
    struct seg_event e = {.kind = SEG_EVENT_CHECKSUM, .value = 1};

    (void)text;
    if (said++ < TALK)
        segment_post(context, 1, &e);
}

static void test_talker(void)
{
    struct segment seg;
    struct dsgd_options opt;
    struct aggregator *agg;

    dsgd_options_init(&opt, NULL);
    opt.warn = talk;
    opt.warn_context = &seg;
    if (!ok(create(2, &opt, &seg, &agg), "an aggregator of two"))
        return;
    aggregator_let_drive(agg);
    talk(&seg, NULL);
    uint32_t bell = atomic_load(&seg.h->agg_bell);
    ok(aggregator_enter(agg), "a worker drives");
    aggregator_leave(agg, false);
    ok(said > 1 && said < TALK, "and not for ever: %d times", said);
    ok(atomic_load(&seg.h->agg_bell) != bell, "the rest is the thread's");
    aggregator_destroy(agg);
    segment_detach(&seg);
}

static void test_alone(void)
{
    struct segment seg;
    struct dsgd *d;
    struct dsgd_step step;
    struct dsgd_mean mean;
    int means = 0;

    if (!ok(open_alone(&seg, &d), "a worker and an aggregator, not started"))
        return;
    while (dsgd_step_begin(d, &step) == DSGD_OK) {
        float *grad = dsgd_grad_buffer(d);
        for (size_t i = 0; i < ELEMS; i++)
            grad[i] = (float)(2 * step.index);
        dsgd_reduce(d, grad, ELEMS, 2);
        while (dsgd_next_mean(d, &mean) == DSGD_OK)
            means += mean.grad[ELEMS - 1] == (float)mean.step;
    }
    is_int(means, STEPS, "every step has its mean");
    is_int(atomic_load(&seg.h->run), SEG_ENDED, "and the run its end");
    is_int(dsgd_close(d), DSGD_OK, "closed");
}

static uint32_t rings(struct segment *seg, enum seg_sleep sleep,
                      enum seg_event_kind kind)
{
    struct seg_event e = {.kind = kind, .step = 1};
    uint32_t bell = atomic_load(&seg->h->agg_bell);

    atomic_store(&seg->h->agg_asleep, sleep);
    segment_post(seg, 0, &e);
    return atomic_load(&seg->h->agg_bell) - bell;
}

static void test_bell(void)
{
    struct segment seg;
    char name[SEGMENT_NAME];

    ok(segment_create(1, ELEMS, 1, 0, &seg, name, NULL) == DSGD_OK,
       "a segment");
    segment_unlink(name);
    is_int(rings(&seg, SEG_AWAKE, SEG_EVENT_COMMIT), 0, "awake: no ring");
    is_int(rings(&seg, SEG_ASLEEP, SEG_EVENT_BEGIN), 1, "asleep: any event");
    is_int(rings(&seg, SEG_ASLEEP_LIGHTLY, SEG_EVENT_BEGIN), 0,
           "lightly: not a BEGIN");
    is_int(rings(&seg, SEG_ASLEEP_LIGHTLY, SEG_EVENT_COMMIT), 1,
           "lightly: a COMMIT");
    segment_detach(&seg);
}

int main(void)
{
    setenv("DSGD_CONF", "/dev/null", 1);
    test_bell();
    test_alone();
    test_talker();
    return done();
}
