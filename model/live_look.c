/* A look at a step under way: what is known of it, and what is to be expected.
 *
 * A look early in a step of thousands of workers would read most of the
 * survival table, which lies beyond the caches.  So it takes the later ticks a
 * stretch at a time, and stops where none beyond can change the choice. */
#include <math.h>
#include <string.h>

#include "live_body.h"
#include "log_product.h"
#include "vmath.h"

enum { LANES = LIVE_LANES, G = PRED_G, M = PRED_M };
enum { WIDE = LIVE_WIDE, BLOCKS = LIVE_BLOCKS };

/* Ticks that are read at once: at first as far as will do where the last plan
 * still is about right. */
enum { STRETCH = 6, BEYOND_PLAN = 5 };

/* Workers whose part of the table is fetched ahead: a row is too short for the
 * hardware to see where the next one is. */
enum { FETCH_AHEAD = 3 };

/* With so many times the arrivals expected by a tick that plans are made for,
 * those plans are over by then: the probability that they are not is 2e-8 with
 * 16 of them. */
enum { PLENTY = 4 };

/* Probability of a cluster atom that is taken for none. */
#define UNLIKELY 1e-9

/* A tick so many times further off than the time in which all that are late are
 * worth waiting for is no plan. */
#define REACH 1.5

static inline void fetch(const float *row, size_t ticks)
{
    for (size_t i = 0; i < ticks * WIDE; i += 64 / sizeof *row)
        __builtin_prefetch(row + i);
}

/* The survivals of those running or later, at the tick last come to. */
static void copy_column(struct live *l)
{
    for (size_t j = 0; j < l->n; j++) {
        for (size_t b = 0; j + FETCH_AHEAD < l->n && b < BLOCKS; b++)
            fetch(live_table_at(&l->table, j + FETCH_AHEAD, b, l->col), 1);
        if (l->part[j] != RUNNING && l->part[j] != LATER)
            continue;
        for (size_t b = 0; b < BLOCKS; b++)
            memcpy(l->column + j * LANES + b * WIDE,
                   live_table_at(&l->table, j, b, l->col),
                   WIDE * sizeof *l->column);
    }
}

/* The same between ticks. */
static void fill_column(struct live *l, double now_s)
{
    for (size_t j = 0; j < l->n; j++) {
        if (l->part[j] != RUNNING && l->part[j] != LATER)
            continue;
        double own_s = fmax(now_s - l->start_s[j], 1e-30);
        live_table_survival(&l->table, j, log(own_s), l->column + j * LANES);
    }
}

/* Log joint of one node's observations with each lane's atoms; node_p gets the
 * normalised p(m | g), and log_g[g] the node's log evidence for g. */
VM_INLINE void node_evidence(const float *joint, float *node_p, float *log_g)
{
    float e[LANES], top[G], sum[G];

    for (size_t g = 0; g < G; g++) {
        const float *in = joint + g * M;
        top[g] = in[0];
        for (size_t m = 1; m < M; m++)
            top[g] = in[m] > top[g] ? in[m] : top[g];
    }
#pragma omp simd
    for (size_t k = 0; k < LANES; k++)
        e[k] = vm_exp(joint[k] - top[k / M]);
    for (size_t g = 0; g < G; g++) {
        sum[g] = 0;
        for (size_t m = 0; m < M; m++)
            sum[g] += e[g * M + m];
        for (size_t m = 0; m < M; m++)
            node_p[g * M + m] = e[g * M + m] / sum[g];
    }
    for (size_t g = 0; g < G; g++)
        log_g[g] = top[g] + vm_log(sum[g]);
}

/* What node i says: its log joint with each lane's atoms, p(m | g) and the log
 * evidence for each g. */
VM_CLONES
static void condition_node(struct live *l, size_t i, float *log_g)
{
    const float *log_p = l->table.p->node_log_p + i * M;
    const double *density = l->density + i * LANES;
    float *joint = l->evidence + i * LANES;
    struct log_product run;

    log_product_init(&run);
    for (size_t j = l->first[i]; j < l->first[i + 1]; j++) {
        if (l->part[j] == RUNNING)
            log_product_take(&run, l->column + j * LANES);
    }
    log_product_get(&run, joint);
    for (size_t k = 0; k < LANES; k++)
        joint[k] += (float)(density[k] + log_p[k % M]);
    node_evidence(joint, l->posterior + i * LANES, log_g);
}

static void condition(struct live *l)
{
    const struct predictive *p = l->table.p;
    double log_g[G], top = -INFINITY, sum = 0;

    for (size_t g = 0; g < G; g++)
        log_g[g] = p->log_p[g];
    for (size_t i = 0; i < l->n_nodes; i++) {
        float node_g[G];
        condition_node(l, i, node_g);
        for (size_t g = 0; g < G; g++)
            log_g[g] += node_g[g];
    }
    for (size_t g = 0; g < G; g++)
        top = fmax(top, log_g[g]);
    for (size_t g = 0; g < G; g++)
        sum += log_g[g] = exp(log_g[g] - top);
    for (size_t i = 0; i < l->n_nodes; i++) {
        for (size_t k = 0; k < LANES; k++)
            l->posterior[i * LANES + k] *= (float)(log_g[k / M] / sum);
    }
}

/* The sums made for this tick are nearer than a sum of those expected yet. */
static bool sums_are_near(const struct live *l, size_t changes, size_t late)
{
    return l->early.sum && l->now_is_tick && l->col < LIVE_EARLY &&
           changes < late;
}

/* List node i's workers that are expected to come yet, or, where the sums made
 * for this tick are taken, those in which they differ; returns how many
 * come. */
static size_t list_node(struct live *l, size_t i, size_t *count)
{
    size_t late = 0, changes = 0, first = *count;
    const uint8_t *in = l->early.in;

    for (size_t j = l->first[i]; j < l->first[i + 1]; j++) {
        bool is_late = live_is_late(l, j);
        late += is_late;
        changes += in && is_late != in[j];
        if (is_late)
            l->listed[(*count)++] = (uint32_t)j;
    }
    l->summed[i] = sums_are_near(l, changes, late);
    if (!l->summed[i])
        return late;
    *count = first;
    for (size_t j = l->first[i]; j < l->first[i + 1]; j++) {
        if (live_is_late(l, j) != in[j])
            l->listed[(*count)++] = (uint32_t)j;
    }
    return late;
}

/* Those of all nodes. */
static size_t list_late(struct live *l)
{
    size_t late = 0, count = 0;

    for (size_t i = 0; i < l->n_nodes; i++) {
        l->listed_first[i] = count;
        late += list_node(l, i, &count);
    }
    l->listed_first[l->n_nodes] = count;
    return late;
}

/* Add what is expected of node i at later ticks [from, to) in a block. */
static void add_block(struct live *l, size_t i, size_t b, size_t from,
                      size_t to)
{
    const float *posterior = l->posterior + i * LANES + b * WIDE;
    float *sum = l->late + (b * LIVE_COLS + from) * WIDE;
    size_t col = l->col + 1 + from;
    float one[WIDE], minus[WIDE];

    if (!live_matters(posterior))
        return;
    for (size_t k = 0; k < WIDE; k++) {
        one[k] = 1;
        minus[k] = -posterior[k];
    }
    if (l->summed[i])
        live_add_late(posterior, one, to - from,
                      live_early_at(&l->early, l->col, i, b, col), sum);
    for (size_t c = l->listed_first[i]; c < l->listed_first[i + 1]; c++) {
        size_t j = l->listed[c];
        if (c + FETCH_AHEAD < l->listed_first[l->n_nodes])
            fetch(live_table_at(&l->table, l->listed[c + FETCH_AHEAD], b, col),
                  to - from);
        bool is_late = !l->summed[i] || live_is_late(l, j);
        live_add_late(is_late ? posterior : minus,
                      is_late ? l->column + j * LANES + b * WIDE
                              : live_table_at(&l->table, j, b, l->col),
                      to - from, live_table_at(&l->table, j, b, col), sum);
    }
}

/* Expected number late at later ticks [from, to), in sum. */
static void expect_late(struct live *l, size_t from, size_t to)
{
    for (size_t b = 0; b < BLOCKS; b++)
        memset(l->late + (b * LIVE_COLS + from) * WIDE, 0,
               (to - from) * WIDE * sizeof *l->late);
    for (size_t i = 0; i < l->n_nodes; i++) {
        for (size_t b = 0; b < BLOCKS; b++)
            add_block(l, i, b, from, to);
    }
    for (size_t q = from; q < to; q++) {
        for (size_t k = 0; k < LANES; k++)
            l->sum[q * LANES + k] =
                l->late[(k / WIDE * LIVE_COLS + q) * WIDE + k % WIDE];
    }
    live_outlook_left(&l->outlook, l->sum, from, to);
}

/* How many of the later ticks a plan may close at, at least the next one. */
static size_t ticks_ahead(const struct live *l, double now_s, double lambda)
{
    const struct live_table *t = &l->table;
    double end_s = l->n <= LIVE_SMALL_N
                       ? INFINITY
                       : now_s + REACH * (double)l->waiting / lambda;
    size_t q = l->col + 1;

    while (q < t->cols && (t->tau_s[q] <= end_s || q == l->col + 1))
        q++;
    return q - (l->col + 1);
}

/* Later ticks up to the close last planned, or in the step's first look up to
 * where steps close. */
static size_t ticks_to_plan(const struct live *l)
{
    const struct live_table *t = &l->table;
    double close_s = isnan(l->planned_s) ? l->close_s : l->planned_s;
    size_t q = l->col + 1;

    while (q < t->cols && t->tau_s[q] < close_s)
        q++;
    return q - (l->col + 1);
}

/* Plenty of arrivals for the plans for counts are expected by the tick before
 * q, whichever the cluster atom. */
static bool is_plenty(const struct live *l, const double *p, size_t q)
{
    const float *sum = l->sum + (q - 1) * LANES;

    for (size_t g = 0; g < G; g++) {
        double left = 0;
        for (size_t m = 0; m < M; m++)
            left += sum[g * M + m];
        if (p[g] > UNLIKELY && !((double)l->outlook.late - left / p[g] >=
                                 (double)(PLENTY * l->outlook.counts)))
            return false;
    }
    return true;
}

/* What the best of the first so many later ticks gains over closing now.  A
 * plan for a count gains less than that count. */
static double tick_gain(const struct live_outlook *o, size_t ticks,
                        double lambda)
{
    double best = 0, late = (double)o->late;

    for (size_t q = 0; q < ticks; q++)
        best =
            fmax(best, late - o->left[q] - lambda * (o->tau_s[q] - o->now_s));
    return best;
}

/* No plan that closes at later tick q or beyond is better than all before: not
 * even if everybody came by then.  Nor is one between ticks, where a choice
 * takes knowing two further ones. */
static bool is_settled(const struct live *l, const double *p, size_t q,
                       double lambda)
{
    const struct live_outlook *o = &l->outlook;
    double gain = tick_gain(o, q, lambda);
    double end_s = o->tau_s[o->dense ? q - 2 : q];

    if (gain < (double)o->counts && !is_plenty(l, p, q))
        return false;
    return (double)o->late - lambda * (end_s - o->now_s) < gain;
}

/* The same at each node. */
static void cluster_posterior(const struct live *l, double *p)
{
    for (size_t g = 0; g < G; g++) {
        p[g] = 0;
        for (size_t m = 0; m < M; m++)
            p[g] += l->posterior[g * M + m];
    }
}

void live_look(struct live *l, double now_s, double lambda)
{
    const struct live_table *t = &l->table;
    struct live_outlook *o = &l->outlook;
    size_t ahead = ticks_ahead(l, now_s, lambda);
    double p[G];

    o->now_s = now_s;
    o->arrived = l->arrived;
    o->ticks = 0;
    o->tau_s = t->tau_s + l->col + 1;
    l->now_is_tick = now_s <= t->tau_s[l->col] * (1 + 1e-6);
    if (l->now_is_tick)
        copy_column(l);
    else
        fill_column(l, now_s);
    condition(l);
    cluster_posterior(l, p);
    o->late = list_late(l);
    o->counts = o->late < l->counts ? o->late : l->counts;
    size_t stretch =
        o->late < PLENTY * l->counts ? ahead : ticks_to_plan(l) + BEYOND_PLAN;
    do {
        size_t from = o->ticks;
        o->ticks = ahead - from < stretch ? ahead : from + stretch;
        expect_late(l, from, o->ticks);
        o->dense = l->counts > 0 && live_outlook_is_dense(o);
        stretch = STRETCH;
    } while (o->ticks < ahead && !is_settled(l, p, o->ticks, lambda));
    if (!(tick_gain(o, o->ticks, lambda) < (double)o->counts))
        o->counts = 0;
    live_outlook_expect(o, p, l->sum);
    l->price = lambda;
    l->decided = true;
}
