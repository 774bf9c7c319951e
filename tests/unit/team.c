/* A node's whole run in one process, its workers as threads of one mapping:
 * what the thread sanitizer can look at (check-tsan).  One worker is slow, one
 * stops looking for a while and falls out of the ring.  The aggregator goes
 * with worker 0, or with a handle that has no worker. */
#include <pthread.h>
#include <unistd.h>

#include "aggregator.h"
#include "client.h"
#include "launch.h"
#include "rng.h"
#include "tap.h"

enum {
    WORKERS = 5,
    ELEMS = 3000,
    SAMPLES = 480,
    EPOCHS = 3,
    BATCH = 4,
    PARTS = 4,
    SLOW = 3,
    AWAY = 4,
    AWAY_AT = 5 /* its steps */
};

struct team {
    struct dsgd_options opt;
    struct dsgd *d[WORKERS];
    struct dsgd *dedicated; /* NULL: worker 0 carries the aggregator */
    float state[WORKERS][ELEMS];
    enum dsgd_err rc[WORKERS];
    bool resynced[WORKERS];
};

struct member {
    struct team *team;
    uint32_t index;
};

void __real_segment_detach(struct segment *s);
void __wrap_segment_detach(struct segment *s);

/* The handles share the mapping: it is the test's. */
void __wrap_segment_detach(struct segment *s)
{
    s->h = NULL;
}

static uint64_t compute(struct dsgd *d, const struct dsgd_step *step,
                        struct rng *r, uint32_t index)
{
    float *grad = dsgd_grad_buffer(d);
    uint64_t done = 0;
    useconds_t nap_us = index == SLOW ? 2000 : 200;

    for (uint64_t part = 0; part < PARTS && done < step->n_samples; part++) {
        usleep(nap_us + (useconds_t)(rng_uniform(r) * 100));
        done = step->n_samples * (part + 1) / PARTS;
        if (dsgd_poll(d, part + 1, PARTS) == DSGD_ABANDON)
            break;
    }
    for (size_t i = 0; i < ELEMS; i++)
        grad[i] = (float)done;
    return done;
}

static enum dsgd_err take_means(struct team *t, uint32_t index)
{
    struct dsgd_mean m;
    enum dsgd_err rc;

    while ((rc = dsgd_next_mean(t->d[index], &m)) == DSGD_OK ||
           rc == DSGD_RESYNCED) {
        t->resynced[index] = t->resynced[index] || rc == DSGD_RESYNCED;
        for (size_t i = 0; rc == DSGD_OK && i < ELEMS; i++)
            t->state[index][i] += m.grad[i] * (float)m.samples;
    }
    return rc;
}

static void *work(void *argument)
{
    struct member *who = argument;
    struct team *t = who->team;
    struct dsgd *d = t->d[who->index];
    struct dsgd_step step;
    struct rng r;
    enum dsgd_err rc;

    rng_seed(&r, who->index, 7);
    for (int i = 0; (rc = dsgd_step_begin(d, &step)) == DSGD_OK; i++) {
        if (who->index == AWAY && i == AWAY_AT)
            usleep(300000);
        uint64_t done = compute(d, &step, &r, who->index);
        rc = dsgd_reduce(d, dsgd_grad_buffer(d), ELEMS, done);
        if (rc == DSGD_OK)
            rc = take_means(t, who->index);
        if (rc != DSGD_UP_TO_DATE && rc != DSGD_EPOCH_END)
            break;
    }
    t->rc[who->index] = rc;
    return NULL;
}

static bool open_worker(struct team *t, struct segment *seg, uint32_t w,
                        struct aggregator *agg)
{
    if (client_create(&t->opt, seg, w, agg, &t->d[w], NULL) != DSGD_OK)
        return false;
    t->d[w]->rank = w;
    t->d[w]->size = WORKERS;
    return dsgd_register(t->d[w], t->state[w], sizeof t->state[w], NULL) ==
           DSGD_OK;
}

static bool open_dedicated(struct team *t, struct segment *seg,
                           struct aggregator *agg)
{
    static float state[ELEMS];

    return client_create(&t->opt, seg, CLIENT_NO_WORKER, agg, &t->dedicated,
                         NULL) == DSGD_OK &&
           dsgd_register(t->dedicated, state, sizeof state, NULL) == DSGD_OK &&
           client_start(t->dedicated, NULL, NULL) == DSGD_OK;
}

static bool open_team(struct team *t, struct segment *seg, bool dedicated)
{
    static const uint32_t worker_node[WORKERS] = {0};
    char name[SEGMENT_NAME];
    struct cutoff_spec spec;
    struct aggregator *agg;
    struct coordinator_config coord = {.opt = &t->opt,
                                       .cutoff = &spec,
                                       .n_workers = WORKERS,
                                       .n_nodes = 1,
                                       .worker_node = worker_node};
    struct aggregator_config config = {
        .seg = seg, .n_nodes = 1, .coord = &coord};

    if (launch_check(&t->opt, &spec, NULL) != DSGD_OK ||
        segment_create(WORKERS, ELEMS, launch_slot_bufs(&t->opt),
                       t->opt.ring_bytes, seg, name, NULL) != DSGD_OK)
        return false;
    segment_unlink(name);
    if (aggregator_create(&config, &agg, NULL) != DSGD_OK)
        return false;
    if (dedicated && !open_dedicated(t, seg, agg))
        return false;
    for (uint32_t w = 0; w < WORKERS; w++) {
        if (!open_worker(t, seg, w, w || dedicated ? NULL : agg))
            return false;
    }
    for (uint32_t w = 0; w < WORKERS; w++) {
        if (client_start(t->d[w], NULL, NULL) != DSGD_OK)
            return false;
    }
    return true;
}

static void *leave(void *argument)
{
    dsgd_close(argument);
    return NULL;
}

/* What a handle without a worker says, before the run and after it. */
static void call_early(struct dsgd *d)
{
    struct dsgd_mean mean;
    float grad[ELEMS] = {0};

    ok(!dsgd_grad_buffer(d), "no worker: no memory for a gradient");
    is_int(dsgd_poll(d, 0, 1), DSGD_ABANDON, "nothing to compute");
    is_int(dsgd_reduce(d, grad, ELEMS, 1), DSGD_E_STATE, "nothing to give");
    is_int(dsgd_next_mean(d, &mean), DSGD_UP_TO_DATE, "nothing to apply");
}

static void carry(struct dsgd *d)
{
    struct dsgd_step step;
    struct dsgd_mean mean;

    is_int(dsgd_step_begin(d, &step), DSGD_END, "the end");
    is_int(dsgd_next_mean(d, &mean), DSGD_END, "which stays");
    is_int(dsgd_close(d), DSGD_OK, "closed");
}

static void set_options(struct dsgd_options *opt, const char *cutoff,
                        enum dsgd_late late)
{
    dsgd_options_init(opt, NULL);
    snprintf(opt->cutoff, sizeof opt->cutoff, "%s", cutoff);
    opt->grad_elems = ELEMS;
    opt->n_samples = SAMPLES;
    opt->batch = BATCH;
    opt->epochs = EPOCHS;
    opt->ring_bytes = 0;
    opt->polls = true;
    opt->late = late;
    opt->warn = NULL;
}

static void train(struct team *t)
{
    pthread_t thread[WORKERS];
    struct member member[WORKERS];

    if (t->dedicated)
        call_early(t->dedicated);
    for (uint32_t w = 0; w < WORKERS; w++) {
        member[w] = (struct member){t, w};
        pthread_create(&thread[w], NULL, work, &member[w]);
    }
    for (uint32_t w = 0; w < WORKERS; w++)
        pthread_join(thread[w], NULL);
    for (uint32_t w = 0; w < WORKERS; w++)
        pthread_create(&thread[w], NULL, leave, t->d[w]);
    if (t->dedicated)
        carry(t->dedicated);
    for (uint32_t w = 0; w < WORKERS; w++)
        pthread_join(thread[w], NULL);
}

static void run(const char *name, const char *cutoff, enum dsgd_late late,
                bool dedicated)
{
    static struct team t;
    struct segment seg;
    bool ended = true, alike = true;

    t = (struct team){0};
    set_options(&t.opt, cutoff, late);
    if (!ok(open_team(&t, &seg, dedicated), "%s: opens", name))
        return;
    train(&t);
    for (uint32_t w = 0; w < WORKERS; w++) {
        ended = ended && t.rc[w] == DSGD_END;
        alike = alike && memcmp(t.state[w], t.state[0], sizeof t.state[0]) == 0;
    }
    ok(ended, "%s: all come to the end", name);
    ok(alike, "%s: with the same state", name);
    if (late != DSGD_LATE_DROP)
        ok(t.state[0][0] == SAMPLES * EPOCHS,
           "%s: every sample once an epoch: %g", name, (double)t.state[0][0]);
    if (strncmp(cutoff, "static", 6) == 0 && late == DSGD_LATE_REQUEUE)
        ok(t.resynced[AWAY], "%s: who was away took a state", name);
    __real_segment_detach(&seg);
}

int main(void)
{
    setenv("DSGD_CONF", "/dev/null", 1);
    run("full", "full", DSGD_LATE_REQUEUE, false);
    run("static", "static:3", DSGD_LATE_REQUEUE, false);
    run("drop", "static:3", DSGD_LATE_DROP, false);
    run("carry", "static:3", DSGD_LATE_CARRY, false);
    run("dedicated", "static:3", DSGD_LATE_REQUEUE, true);
    return done();
}
