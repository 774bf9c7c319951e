#include "cluster_sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cluster_sim_own.h"
#include "launch.h"

static const double tick_s = 0.0005;

static struct cluster *running; /* whose clock is asked for */

double __wrap_own_clock_s(struct own_clock *clock);
double __wrap_own_clock_s(struct own_clock *clock)
{
    (void)clock;
    return running->now_s;
}

/* --- faults and checks --- */

static bool happens(struct cluster *s, double every_s)
{
    return every_s > 0 && rng_uniform(&s->rng) < tick_s / every_s;
}

static void die(struct cluster *s)
{
    uint32_t i = (uint32_t)rng_below(&s->rng, s->spec->n_nodes);
    struct node_sim *n = &s->nodes[i];
    uint32_t w = (uint32_t)rng_below(&s->rng, n->n);
    struct seg_event e = {.kind = SEG_EVENT_DIED, .value = SEG_DIED_FINAL | 9};

    if ((!i && !w) || n->worker[w].doing == DEAD)
        return;
    n->worker[w].doing = DEAD;
    segment_post(n->seg, w, &e);
}

static void faults(struct cluster *s)
{
    const struct cluster_spec *spec = s->spec;

    if (happens(s, spec->die_s))
        die(s);
    if (happens(s, spec->stop_s)) {
        struct node_sim *n = &s->nodes[rng_below(&s->rng, spec->n_nodes)];
        n->worker[rng_below(&s->rng, n->n)].stopped_until =
            s->now_s + rng_log_range(&s->rng, .01, 1);
    }
    if (spec->n_nodes > 1 && happens(s, spec->freeze_s))
        s->nodes[1 + rng_below(&s->rng, spec->n_nodes - 1)].frozen_until =
            s->now_s + rng_log_range(&s->rng, .01, .8);
}

static void end_epoch(struct cluster *s)
{
    size_t n = (size_t)s->spec->opt.n_samples;

    for (size_t i = 0; i < n; i++)
        s->r->missing += !s->seen[i];
    memset(s->seen, 0, n);
    s->left = n;
    s->r->epochs++;
}

static void hash(struct cluster *s, const void *data, size_t bytes)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < bytes; i++)
        s->r->hash = (s->r->hash ^ p[i]) * UINT64_C(0x100000001b3);
}

static void hash_mean(struct cluster *s, const float *mean,
                      const struct seg_mean *about)
{
    hash(s, mean, s->elems * sizeof *mean);
    hash(s, &about->samples, sizeof about->samples);
    hash(s, &about->contributors, sizeof about->contributors);
    hash(s, &about->epoch_end, sizeof about->epoch_end);
    hash(s, &about->lr_scale, sizeof about->lr_scale);
}

/* What a mean contains, from the mean alone. */
static void check_mean(struct cluster *s, uint64_t step)
{
    struct seg_mean about;
    const float *mean = node_mean(s->first.node, step, &about);

    s->r->steps++;
    hash_mean(s, mean, &about);
    uint64_t sum = 0;
    for (size_t i = 0; i < s->spec->opt.n_samples; i++) {
        long times = lround((double)mean[i] * (double)about.samples);
        sum += (uint64_t)times;
        s->r->doubled += (uint64_t)(times > 1 || (times && s->seen[i]));
        s->seen[i] = s->seen[i] || times > 0;
    }
    s->r->wrong += sum != about.samples;
    s->r->samples += about.samples;
    s->r->empty += !about.samples;
    uint64_t nominal =
        s->spec->n_nodes * s->spec->per_node * s->spec->opt.batch;
    s->r->over += about.samples > nominal;
    s->r->under += about.samples < nominal && s->left >= nominal;
    if (s->left >= nominal && about.samples < s->r->least)
        s->r->least = about.samples;
    s->left -= about.samples < s->left ? about.samples : s->left;
    uint64_t most = about.contributors * s->spec->opt.batch;
    if (about.samples > most)
        s->r->carried += about.samples - most;
    else
        s->r->lacking += most - about.samples;
    if (about.epoch_end)
        end_epoch(s);
}

/* Node 0 may be shown more than one mean at a time. */
static void check_means(struct cluster *s)
{
    while (s->checked < node_published(s->first.node))
        check_mean(s, ++s->checked);
}

/* As the aggregator does, once all messages are in. */
static bool coordinate(struct cluster *s)
{
    bool did = coordinator_tick(s->first.c, s->now_s);

    check_means(s);
    return exchange_pump(s->first.x) || did;
}

static void run(struct cluster *s)
{
    const struct cluster_spec *spec = s->spec;
    double start_s = s->now_s;

    while (s->now_s < spec->limit_s &&
           atomic_load(&s->first.seg.h->run) == SEG_RUNNING) {
        s->now_s += tick_s;
        faults(s);
        for (uint32_t i = 0; i < spec->n_nodes; i++)
            sim_node_advance(s, i);
        for (int i = 0; i < 4 && coordinate(s); i++)
            ;
    }
    s->r->ended = atomic_load(&s->first.seg.h->run) != SEG_RUNNING;
    s->r->time_s = s->now_s - start_s;
    double rate = 0;
    for (uint32_t i = 0; i < spec->n_nodes; i++) {
        for (uint32_t w = 0; w < s->nodes[i].n; w++)
            rate += 1 / s->nodes[i].worker[w].sample_s;
    }
    s->r->ideal_s = (double)s->r->samples / rate;
}

bool cluster_run(const struct cluster_spec *spec, struct cluster_result *r)
{
    struct cluster s = {
        .first.t.ops = &sim_transport_ops, .spec = spec, .r = r, .now_s = 1};

    *r = (struct cluster_result){.least = UINT64_MAX};
    s.elems = (size_t)spec->opt.n_samples + 1;
    s.left = spec->opt.n_samples;
    s.bufs = launch_slot_bufs(&spec->opt);
    s.deposits = launch_deposits(&spec->opt);
    s.part = launch_part(&spec->opt);
    rng_seed(&s.rng, spec->seed, 0);
    s.nodes = calloc(spec->n_nodes, sizeof *s.nodes);
    s.seen = calloc(s.elems, 1);
    running = &s;
    bool good = s.nodes && s.seen && sim_set_up(&s);
    if (good)
        run(&s);
    sim_clean_up(&s);
    return good;
}
