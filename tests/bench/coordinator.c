/* What a coordinator can take: arrivals a second, the time to close a step, and
 * memory, with thousands of simulated workers whose gradients are one number.
 *
 *     coordinator [-m MODEL] [WORKERS]...
 *
 * single: a message for each arrival, and a decision after each; node: all
 * arrivals of a node of 40 in one message.  close: from the message that makes
 * it close the step until the mean is complete, with all nodes' sums taken in.
 * shared: with shared work, of 8 parts a worker, arrivals are those of parts.
 * sized: the same with first parts sized by the model; close includes sizing
 * those of the next step. */
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../first_node.h"
#include "launch.h"
#include "rng.h"
#include "timing.h"

enum { PER_NODE = 40, STEPS = 60, WARM_UP = 15 };

struct bench {
    struct first_node first; /* first */
    struct timing_model *model;
    uint32_t n, n_nodes;
    uint64_t step;
    bool *asked; /* [n_nodes] for a sum */
    uint32_t *attempt;
    double now_s;
    uint32_t *order; /* [n] of arrival */
    float *duration; /* [n] */
    float one;
    bool shared, sized;
    struct pool { /* [n_nodes] in parts of one sample */
        uint64_t step, n, next, tokens, revoked;
        uint64_t first[PER_NODE];
        bool asked, withdraws;
        uint32_t whose; /* first part is withdrawn */
    } * pool;
    bool had[PER_NODE]; /* on node 0: its first part of the step */
};

static struct bench *running;

double __wrap_own_clock_s(struct own_clock *clock);
double __wrap_own_clock_s(struct own_clock *clock)
{
    (void)clock;
    return running->now_s;
}

static uint32_t node_of(uint32_t worker)
{
    return worker / PER_NODE;
}

static uint32_t on_node(const struct bench *b, uint32_t node)
{
    uint32_t left = b->n - node * PER_NODE;
    return left < PER_NODE ? left : PER_NODE;
}

static void take_pool(struct pool *p, const struct msg *m,
                      const struct msg_range *range, uint32_t n_local)
{
    uint64_t tokens = m->u.pool.tokens;
    uint32_t i = 0;

    if (m->step != p->step)
        *p = (struct pool){.step = m->step};
    if (m->kind == MSG_REVOKE && m->flags & MSG_FIXED) {
        p->whose = (uint32_t)m->u.pool.part;
        p->withdraws = true;
        return;
    }
    if (m->kind == MSG_REVOKE) {
        p->revoked = tokens < p->tokens ? tokens : p->tokens;
        p->tokens -= p->revoked;
        p->asked = true;
        return;
    }
    p->tokens += tokens;
    if (m->flags & MSG_FIXED) {
        for (; i < n_local; i++)
            p->first[i] = range[i].count;
        p->n = p->next = n_local;
    }
    for (; i < m->count; i++)
        p->n += range[i].count;
}

static bool control(struct transport *t, uint32_t node, const struct msg *m,
                    const void *body, size_t bytes)
{
    struct bench *b = (struct bench *)t;

    (void)bytes;
    if (m->kind == MSG_POOL || m->kind == MSG_TOKENS || m->kind == MSG_REVOKE)
        take_pool(&b->pool[node], m, body, on_node(b, node));
    if (m->kind == MSG_CLOSE) {
        b->asked[node] = true;
        b->attempt[node] = m->attempt;
    }
    return true;
}

static const struct transport_ops ops = {.control = control,
                                         .bulk_idle = first_node_idle,
                                         .bulk = first_node_bulk,
                                         .release = first_node_release,
                                         .drained = first_node_idle};

/* Node 0's sum reads the segment; the others' are there at once. */
static void answer_sums(struct bench *b)
{
    for (uint32_t i = 1; i < b->n_nodes; i++) {
        struct msg m = {.kind = MSG_SUM,
                        .count = 1,
                        .step = b->step,
                        .attempt = b->attempt[i]};
        if (!b->asked[i])
            continue;
        b->asked[i] = false;
        exchange_message(b->first.x, i, &m, &b->one, sizeof b->one);
    }
}

static bool coordinate(struct bench *b)
{
    bool did = coordinator_tick(b->first.c, b->now_s);

    answer_sums(b);
    return exchange_pump(b->first.x) || did;
}

static void send(struct bench *b, const uint32_t *worker, uint32_t count,
                 enum seg_event_kind kind)
{
    struct msg_event e[PER_NODE];

    for (uint32_t i = 0; i < count; i++)
        e[i] = (struct msg_event){.worker = worker[i] % PER_NODE,
                                  .kind = kind,
                                  .step = b->step,
                                  .value = 1,
                                  .fraction = 1,
                                  .duration_s = b->duration[worker[i]]};
    coordinator_events(b->first.c, node_of(worker[0]), e, count, b->now_s);
}

static int by_duration(const void *x, const void *y)
{
    double a = running->duration[*(const uint32_t *)x];
    double b = running->duration[*(const uint32_t *)y];
    return (a > b) - (a < b);
}

static void draw(struct bench *b, struct rng *rng, bool single)
{
    for (uint32_t w = 0; w < b->n; w++) {
        b->order[w] = w;
        b->duration[w] = (float)(.5 * exp(.1 * rng_normal(rng)));
    }
    if (single)
        qsort(b->order, b->n, sizeof *b->order, by_duration);
}

/* Time in the coordinator for one step.  Returns the arrivals it took in. */
static uint32_t step_own(struct bench *b, struct rng *rng, bool single,
                         double *arrive_s, double *close_s)
{
    uint32_t arrived = 0;
    double start_s = b->now_s;

    b->step = node_published(b->first.node) + 1;
    draw(b, rng, single);
    while (arrived < b->n && node_published(b->first.node) < b->step) {
        uint32_t first = b->order[arrived];
        uint32_t count = single ? 1 : on_node(b, node_of(first));
        b->now_s = start_s + (double)b->duration[first];
        uint64_t began = sys_now_ns();
        send(b, &b->order[arrived], count, SEG_EVENT_COMMIT);
        arrived += count;
        while (coordinate(b))
            ;
        double took_s = (double)(sys_now_ns() - began) * 1e-9;
        if (node_published(b->first.node) < b->step)
            *arrive_s += took_s;
        else
            *close_s = took_s;
    }
    return arrived;
}

/* Parts that node 0's workers offer and that are accepted. */
static uint32_t parts_here(struct bench *b, struct msg_event *e, uint32_t most)
{
    struct seg_pool *pool = b->first.seg.pool;
    uint32_t n = 0;

    for (uint32_t l = 0; l < most; l++) {
        uint64_t word = atomic_load(&pool->claim);
        bool fixed = SEGMENT_POOL_INDEX(atomic_load(&pool->fixed)) > l;
        uint64_t first = fixed ? atomic_load(&b->first.seg.parts[l].count) : 0;
        bool own = !b->had[l] && first;
        struct seg_event offer = {.kind = SEG_EVENT_PART,
                                  .fraction = .06f,
                                  .step = b->step,
                                  .value = own ? first : 1,
                                  .entry = own ? l : SEGMENT_POOL_INDEX(word)};
        if (SEGMENT_POOL_STEP(word) != b->step ||
            (!own && word >= atomic_load(&pool->limit)))
            break;
        b->had[l] = true;
        if (!own)
            atomic_store(&pool->claim, word + 1);
        segment_post(&b->first.seg, l, &offer);
    }
    while (n < most && node_event(b->first.node, &e[n]))
        n++;
    return n;
}

/* The same on another node. */
static uint32_t parts_there(struct bench *b, uint32_t node, struct msg_event *e,
                            uint32_t most)
{
    struct pool *p = &b->pool[node];
    uint32_t n = 0;

    for (uint32_t l = 0; l < on_node(b, node) && n < most; l++) {
        if (!p->first[l])
            continue;
        e[n++] = (struct msg_event){.worker = l,
                                    .kind = SEG_EVENT_PART,
                                    .step = b->step,
                                    .value = (uint64_t)l << 32 | p->first[l],
                                    .duration_s = .4f};
        p->first[l] = 0;
    }
    for (; n < most && p->next < p->n && p->tokens; n++) {
        e[n] = (struct msg_event){.worker = n,
                                  .kind = SEG_EVENT_PART,
                                  .step = b->step,
                                  .value = p->next++ << 32 | 1,
                                  .duration_s = .06f};
        p->tokens--;
    }
    return n;
}

static void answer_revokes(struct bench *b)
{
    for (uint32_t i = 1; i < b->n_nodes; i++) {
        struct pool *p = &b->pool[i];
        struct msg m = {.kind = MSG_RETURN, .step = b->step};
        if (p->withdraws) {
            p->withdraws = false;
            m.flags = MSG_FIXED;
            m.u.pool.part = p->whose;
            m.u.pool.tokens = p->first[p->whose];
            p->first[p->whose] = 0;
            coordinator_returned(b->first.c, i, &m, b->now_s);
        }
        if (!p->asked)
            continue;
        p->asked = false;
        m.flags = 0;
        m.u.pool.tokens = p->revoked;
        coordinator_returned(b->first.c, i, &m, b->now_s);
    }
}

/* All nodes' workers give a part each, again and again. */
static uint32_t step_shared(struct bench *b, bool single, double *arrive_s,
                            double *close_s)
{
    struct msg_event e[PER_NODE];
    uint32_t arrived = 0;

    b->step = node_published(b->first.node) + 1;
    memset(b->had, 0, sizeof b->had);
    for (uint32_t i = 0; node_published(b->first.node) < b->step;
         i = (i + 1) % b->n_nodes) {
        uint32_t most = single ? 1 : on_node(b, i);
        uint32_t n = i ? parts_there(b, i, e, most) : parts_here(b, e, most);
        b->now_s += .06 / b->n_nodes;
        uint64_t began = sys_now_ns();
        if (n)
            coordinator_events(b->first.c, i, e, n, b->now_s);
        answer_revokes(b);
        while (coordinate(b))
            ;
        double took_s = (double)(sys_now_ns() - began) * 1e-9;
        arrived += n;
        if (node_published(b->first.node) < b->step)
            *arrive_s += took_s;
        else
            *close_s = took_s;
    }
    return arrived;
}

static uint32_t step(struct bench *b, struct rng *rng, bool single,
                     double *arrive_s, double *close_s)
{
    if (b->shared)
        return step_shared(b, single, arrive_s, close_s);
    return step_own(b, rng, single, arrive_s, close_s);
}

/* Everybody is ready for the first step. */
static void begin(struct bench *b)
{
    uint32_t all[PER_NODE];

    b->step = 1;
    for (uint32_t i = 0; i < b->n_nodes; i++) {
        for (uint32_t l = 0; l < on_node(b, i); l++)
            all[l] = i * PER_NODE + l;
        send(b, all, on_node(b, i), SEG_EVENT_READY);
    }
    while (coordinate(b))
        ;
}

static bool make(struct bench *b, const char *cutoff, const char *model)
{
    struct dsgd_options opt = {.grad_elems = 1,
                               .sampler = DSGD_SAMPLER_RANGES,
                               .n_samples = (uint64_t)1 << 40,
                               .batch = b->shared ? 8 : 1,
                               .parts = 8,
                               .work = b->shared ? DSGD_WORK_SHARED
                                                 : DSGD_WORK_OWN};
    struct cutoff_spec spec;
    uint32_t *worker_node = calloc(b->n, sizeof *worker_node);
    struct dsgd_error err = {""};
    size_t before = 0;

    snprintf(opt.cutoff, sizeof opt.cutoff, "%s",
             b->sized    ? "dynamic"
             : b->shared ? "full"
                         : cutoff);
    snprintf(opt.model, sizeof opt.model, "%s", model ? model : "");
    for (uint32_t w = 0; worker_node && w < b->n; w++)
        worker_node[w] = node_of(w);
    enum dsgd_err rc =
        worker_node ? launch_check(&opt, &spec, &err) : DSGD_E_NOMEM;
    if (rc == DSGD_OK)
        rc = launch_model(&opt, &spec, &b->model, &err);
    if (rc == DSGD_OK) {
        before = mallinfo2().uordblks + mallinfo2().hblkhd;
        rc = first_node_create(&b->first, &opt, 0, b->n, b->n_nodes,
                               worker_node, b->model, &err);
    }
    if (rc != DSGD_OK)
        fprintf(stderr, "coordinator: %s\n", err.text);
    else
        printf("| %6u | %5u | %-10s | %7.1f ", b->n, b->n_nodes, cutoff,
               (double)(mallinfo2().uordblks + mallinfo2().hblkhd - before) /
                   1e6);
    free(worker_node);
    return rc == DSGD_OK;
}

static int ascending(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static void measure(struct bench *b)
{
    struct rng rng;

    rng_seed(&rng, 1, 0);
    begin(b);
    for (int single = 0; single < 2; single++) {
        double arrive_s = 0, close_s[STEPS] = {0}, ignored = 0;
        uint64_t arrivals = 0;
        for (int i = 0; i < WARM_UP; i++)
            step(b, &rng, single, &ignored, &ignored);
        for (int i = 0; i < STEPS; i++)
            arrivals += step(b, &rng, single, &arrive_s, &close_s[i]);
        qsort(close_s, STEPS, sizeof *close_s, ascending);
        printf("| %9.0f | %7.2f | %7.2f ", (double)arrivals / arrive_s,
               1e3 * close_s[STEPS / 2], 1e3 * close_s[STEPS - 1]);
    }
    printf("|\n");
    fflush(stdout);
}

static bool bench(uint32_t n, const char *cutoff, const char *model)
{
    struct bench b = {.first.t.ops = &ops, .n = n, .now_s = 1, .one = 1};

    running = &b;
    b.n_nodes = (n + PER_NODE - 1) / PER_NODE;
    b.sized = strcmp(cutoff, "sized") == 0;
    b.shared = b.sized || strcmp(cutoff, "shared") == 0;
    b.pool = calloc(b.n_nodes, sizeof *b.pool);
    b.asked = calloc(b.n_nodes, sizeof *b.asked);
    b.attempt = calloc(b.n_nodes, sizeof *b.attempt);
    b.order = calloc(n, sizeof *b.order);
    b.duration = calloc(n, sizeof *b.duration);
    bool good = b.pool && b.asked && b.attempt && b.order && b.duration &&
                make(&b, cutoff, model);
    if (good)
        measure(&b);
    first_node_destroy(&b.first);
    timing_model_free(b.model);
    free(b.pool);
    free(b.asked);
    free(b.attempt);
    free(b.order);
    free(b.duration);
    return good;
}

int main(int argc, char **argv)
{
    static const char *const cutoff[] = {"full",  "shared",  "static:90%",
                                         "order", "dynamic", "sized"};
    static char first[] = "2175", second[] = "10000";
    char *usual[] = {first, second, NULL}, **n = usual;
    const char *model = NULL;
    int c;

    while ((c = getopt(argc, argv, "m:")) != -1) {
        if (c != 'm')
            return 2;
        model = optarg;
    }
    if (optind < argc)
        n = argv + optind;
    printf("| workers | nodes | cutoff     | memory, MB | node: arrivals/s "
           "| close, ms | worst | single: arrivals/s | close, ms | worst |\n"
           "| --: | --: | --- | --: | --: | --: | --: | --: | --: | --: |\n");
    for (; *n; n++) {
        for (int i = 0; i < (model ? 6 : 4); i++) {
            if (!bench((uint32_t)strtoul(*n, NULL, 10), cutoff[i], model))
                return 1;
        }
    }
    return 0;
}
