#include "live.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "live_body.h"
#include "live_outlook.h"
#include "live_priv.h"
#include "log_product.h"
#include "vmath.h"

enum { LANES = LIVE_LANES, G = PRED_G, M = PRED_M };
enum { WIDE = LIVE_WIDE, BLOCKS = LIVE_BLOCKS };

/* Up to so many workers decide at each arrival too; more do at ticks and at the
 * arrival that a plan waits for. */
enum { SMALL_N = 64 };

/* Realignment: a worker that would come later than this times the planned
 * close sits out; the running close follows at this rate. */
#define REALIGN    1.1
#define CLOSE_RATE .3

/* For this part of the time to the planned close the ticks are not looked at,
 * only arrivals: what a tick costs, the workers of its node lose. */
#define QUIET .25

/* A tick so many times further off than the time in which all that are late are
 * worth waiting for is no plan.  Below carry-over the price may be a quarter. */
#define REACH       1.5
#define LOWER_PRICE .25

static bool allocate(struct live *l)
{
    size_t n = l->n, nodes = l->n_nodes;
    l->first = calloc(nodes + 1, sizeof *l->first);
    l->part = calloc(n, sizeof *l->part);
    l->start_s = calloc(n, sizeof *l->start_s);
    l->median_s = calloc(n, sizeof *l->median_s);
    l->density = calloc(nodes, LANES * sizeof *l->density);
    l->evidence = calloc(nodes, LANES * sizeof *l->evidence);
    l->posterior = calloc(nodes, LANES * sizeof *l->posterior);
    l->column = calloc(n, LANES * sizeof *l->column);
    l->late = calloc(LIVE_COLS, LANES * sizeof *l->late);
    l->sum = calloc(LIVE_COLS, LANES * sizeof *l->sum);
    return l->first && l->part && l->start_s && l->median_s && l->density &&
           l->evidence && l->posterior && l->column && l->late && l->sum;
}

/* Nodes are ascending from 0 and each has a worker. */
static bool node_table(struct live *l, const uint32_t *node)
{
    size_t next = 0;
    for (size_t j = 0; j < l->n; j++) {
        if (j > 0 && node[j] == node[j - 1])
            continue;
        if (node[j] != next || next >= l->n_nodes)
            return false;
        l->first[next++] = j;
    }
    l->first[next] = l->n;
    return next == l->n_nodes;
}

enum dsgd_err live_create(size_t n, size_t n_nodes, const uint32_t *node,
                          double min_share, size_t min_count, struct live **out,
                          struct dsgd_error *err)
{
    *out = NULL;
    if (n < 1 || n_nodes < 1 || n_nodes > n)
        return error_set(err, DSGD_E_RANGE, "live: %zu workers on %zu nodes", n,
                         n_nodes);
    if (!(min_share >= 0 && min_share <= 1))
        return error_set(err, DSGD_E_RANGE,
                         "live: the minimum share is %g; give 0 to 1",
                         min_share);
    struct live *l = calloc(1, sizeof *l);
    if (!l)
        return error_set(err, DSGD_E_NOMEM, "live: no memory");
    l->n = n;
    l->n_nodes = n_nodes;
    l->min_share = min_share;
    l->min_count = min_count;
    l->counts = LIVE_COUNTS;
    l->close_s = l->planned_s = l->expected = NAN;
    if (!allocate(l) || !live_table_init(&l->table, n, n_nodes, node)) {
        live_free(l);
        return error_set(err, DSGD_E_NOMEM, "live: no memory for %zu workers",
                         n);
    }
    if (!node_table(l, node)) {
        live_free(l);
        return error_set(err, DSGD_E_RANGE,
                         "live: the nodes of %zu workers are not ascending "
                         "from 0 to %zu",
                         n, n_nodes - 1);
    }
    *out = l;
    return DSGD_OK;
}

void live_free(struct live *l)
{
    if (!l)
        return;
    live_table_destroy(&l->table);
    free(l->first);
    free(l->part);
    free(l->start_s);
    free(l->median_s);
    free(l->density);
    free(l->evidence);
    free(l->posterior);
    free(l->column);
    free(l->late);
    free(l->sum);
    free(l);
}

static void begin(struct live *l, enum live_late late)
{
    l->mode = late;
    memset(l->part, RUNNING, l->n);
    memset(l->start_s, 0, l->n * sizeof *l->start_s);
    memset(l->density, 0, l->n_nodes * LANES * sizeof *l->density);
    l->arrived = 0;
    l->waiting = l->n;
    l->next = l->col = 0;
    l->decided = false;
    l->ask_at = SIZE_MAX;
    l->quiet_s = 0;
    l->planned_s = l->expected = l->elapsed_s = NAN;
}

void live_plan(struct live *l, const struct predictive *p, enum live_late late)
{
    begin(l, late);
    l->planned = p && live_table_take(&l->table, p);
    if (l->planned)
        live_table_fill(&l->table);
}

void live_plan_grid(struct live *l, const struct predictive *p,
                    enum live_late late, double log_low, double log_high,
                    const double *tail, size_t n_tail)
{
    begin(l, late);
    l->planned = live_table_take(&l->table, p);
    live_table_grid(&l->table, log_low, log_high, tail, n_tail);
    live_table_fill(&l->table);
}

void live_set_counts(struct live *l, size_t counts)
{
    l->counts = counts < LIVE_COUNTS ? counts : LIVE_COUNTS;
}

const struct live_table *live_table(const struct live *l)
{
    return &l->table;
}

void live_absent(struct live *l, size_t worker)
{
    if (l->part[worker] == RUNNING || l->part[worker] == LATER) {
        l->part[worker] = OUT;
        l->waiting--;
    }
}

void live_lagging(struct live *l, size_t worker, double expected_lag_s)
{
    if (l->part[worker] != RUNNING || !(expected_lag_s >= 0))
        return;
    l->part[worker] = LATER;
    l->start_s[worker] = expected_lag_s;
    if (!l->planned)
        return;
    l->median_s[worker] = live_table_median_s(&l->table, worker);
    live_table_row(&l->table, worker, expected_lag_s);
}

double live_latest_start_s(const struct live *l, size_t worker)
{
    double plan = isnan(l->planned_s) ? l->close_s : l->planned_s;
    if (l->mode != LIVE_BUSY || !l->planned || isnan(plan))
        return INFINITY;
    return REALIGN * plan - l->median_s[worker];
}

bool live_start(struct live *l, size_t worker, double at_s)
{
    if (l->part[worker] != LATER)
        return l->part[worker] == RUNNING;
    if (live_sits_out(l, worker, at_s)) {
        live_absent(l, worker);
        return false;
    }
    l->part[worker] = RUNNING;
    l->start_s[worker] = at_s;
    if (l->planned)
        live_table_row(&l->table, worker, at_s);
    return true;
}

void live_arrive(struct live *l, size_t worker, double duration_s)
{
    float density[LANES];

    if (l->part[worker] != RUNNING && l->part[worker] != LATER)
        return;
    l->part[worker] = ARRIVED;
    l->arrived++;
    l->waiting--;
    if (!l->planned || !(duration_s > 0) || !isfinite(duration_s))
        return;
    live_table_log_density(&l->table, worker, log(duration_s), density);
    double *sum = l->density + (size_t)l->table.node[worker] * LANES;
    for (size_t i = 0; i < LANES; i++)
        sum[i] += density[i];
}

/* The survivals of those running or later, at the tick last come to. */
static void copy_column(struct live *l)
{
    for (size_t j = 0; j < l->n; j++) {
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
VM_CLONES
static void node_evidence(const float *joint, float *node_p, float *log_g)
{
    for (size_t g = 0; g < G; g++) {
        const float *in = joint + g * M;
        float top = in[0], sum = 0;
        for (size_t m = 1; m < M; m++)
            top = in[m] > top ? in[m] : top;
        for (size_t m = 0; m < M; m++) {
            node_p[g * M + m] = vm_exp(in[m] - top);
            sum += node_p[g * M + m];
        }
        for (size_t m = 0; m < M; m++)
            node_p[g * M + m] /= sum;
        log_g[g] = top + vm_log(sum);
    }
}

static void condition(struct live *l)
{
    const struct predictive *p = l->table.p;
    double log_g[G], top = -INFINITY, sum = 0;

    for (size_t g = 0; g < G; g++)
        log_g[g] = p->log_p[g];
    for (size_t i = 0; i < l->n_nodes; i++) {
        struct log_product run;
        float *joint = l->evidence + i * LANES, node_g[G];

        log_product_init(&run);
        for (size_t j = l->first[i]; j < l->first[i + 1]; j++) {
            if (l->part[j] == RUNNING)
                log_product_take(&run, l->column + j * LANES);
        }
        log_product_get(&run, joint);
        for (size_t k = 0; k < LANES; k++)
            joint[k] += (float)(l->density[i * LANES + k] +
                                p->node_log_p[i * M + k % M]);
        node_evidence(joint, l->posterior + i * LANES, node_g);
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

/* One block of node i's late workers; returns their number. */
static size_t add_block(struct live *l, size_t i, size_t b, size_t later)
{
    const float *posterior = l->posterior + i * LANES + b * WIDE;
    bool read = later && live_matters(posterior);
    size_t late = 0;

    for (size_t j = l->first[i]; j < l->first[i + 1]; j++) {
        if (!live_is_late(l, j))
            continue;
        late++;
        if (read)
            live_add_late(posterior, l->column + j * LANES + b * WIDE, later,
                          live_table_at(&l->table, j, b, l->col + 1),
                          l->late + b * LIVE_COLS * WIDE);
    }
    return late;
}

/* Expected number late at each tick after the current one, in sum, of those
 * late now; returns their number. */
static size_t expect_late(struct live *l, size_t later)
{
    size_t late = 0;

    memset(l->late, 0, LIVE_COLS * LANES * sizeof *l->late);
    for (size_t i = 0; i < l->n_nodes; i++) {
        size_t of_node = 0;
        for (size_t b = 0; b < BLOCKS; b++)
            of_node = add_block(l, i, b, later);
        late += of_node;
    }
    for (size_t q = 0; q < later; q++) {
        for (size_t k = 0; k < LANES; k++)
            l->sum[q * LANES + k] =
                l->late[(k / WIDE * LIVE_COLS + q) * WIDE + k % WIDE];
    }
    return late;
}

/* The best plan as of the last look; true when it is to close. */
static bool best_is_now(struct live *l, double lambda)
{
    struct live_choice best = live_outlook_best(&l->outlook, lambda);

    l->planned_s = best.close_s;
    l->expected = best.expected;
    l->ask_at = best.count;
    return best.now;
}

/* How many of the later ticks a plan may close at, at least the next one. */
static size_t ticks_ahead(const struct live *l, double now_s, double lambda)
{
    const struct live_table *t = &l->table;
    double price = l->mode == LIVE_FRESH ? lambda : LOWER_PRICE * lambda;
    double end_s =
        l->n <= SMALL_N ? INFINITY : now_s + REACH * (double)l->waiting / price;
    size_t q = l->col + 1;

    while (q < t->cols && (t->tau_s[q] <= end_s || q == l->col + 1))
        q++;
    return q - (l->col + 1);
}

/* Condition on what is known at now_s, and expect. */
static void look(struct live *l, double now_s, double lambda)
{
    const struct live_table *t = &l->table;
    struct live_outlook *o = &l->outlook;
    bool tick = now_s <= t->tau_s[l->col] * (1 + 1e-6);
    double p[G];

    o->now_s = now_s;
    o->arrived = l->arrived;
    o->ticks = ticks_ahead(l, now_s, lambda);
    o->tau_s = t->tau_s + l->col + 1;
    if (tick)
        copy_column(l);
    else
        fill_column(l, now_s);
    condition(l);
    o->late = expect_late(l, o->ticks);
    o->counts = o->late < l->counts ? o->late : l->counts;
    for (size_t g = 0; g < G; g++) {
        p[g] = 0;
        for (size_t m = 0; m < M; m++) /* the same at each node */
            p[g] += l->posterior[g * M + m];
    }
    live_outlook_expect(o, p, l->sum);
    l->decided = true;
}

static size_t count_wanted(const struct live *l)
{
    size_t there = l->arrived + l->waiting;
    size_t wanted = (size_t)(l->min_share * (double)l->n);

    if (wanted < l->min_count)
        wanted = l->min_count;
    if (wanted < 1)
        wanted = 1;
    return wanted < there ? wanted : there;
}

/* The next tick that is to be looked at; INFINITY: none. */
static double next_tick(const struct live *l)
{
    const struct live_table *t = &l->table;

    for (size_t i = l->next; i < t->cols; i++) {
        if (t->tau_s[i] >= l->quiet_s * (1 - 1e-9))
            return t->tau_s[i];
    }
    return INFINITY;
}

bool live_close(struct live *l, double now_s, double lambda, double *next_s)
{
    const struct live_table *t = &l->table;

    *next_s = INFINITY;
    if (!l->waiting)
        return true;
    if (!l->planned || !(lambda > 0) || !isfinite(lambda) || !(now_s >= 0))
        return false;
    bool due = l->next < t->cols && now_s >= t->tau_s[l->next] * (1 - 1e-9);
    while (l->next < t->cols && now_s >= t->tau_s[l->next] * (1 - 1e-9))
        l->col = l->next++;
    due = due && now_s >= l->quiet_s * (1 - 1e-9);
    *next_s = next_tick(l);
    if (l->next == 0 ||
        (!due && l->n > SMALL_N && l->arrived < l->ask_at && l->next < t->cols))
        return false;
    bool enough = l->arrived >= count_wanted(l);
    if (l->next == t->cols && !due)
        return enough; /* beyond the grid nothing is predicted to come */
    if (!enough && l->mode != LIVE_BUSY)
        return false;
    look(l, now_s, lambda);
    bool close = best_is_now(l, lambda) && enough;
    l->quiet_s = now_s + QUIET * (l->planned_s - now_s);
    *next_s = next_tick(l);
    return close;
}

bool live_recheck(struct live *l, double lambda)
{
    return l->planned && l->decided && l->arrived >= count_wanted(l) &&
           best_is_now(l, lambda);
}

void live_end(struct live *l, double elapsed_s)
{
    l->elapsed_s = elapsed_s;
    if (!(elapsed_s > 0) || !isfinite(elapsed_s))
        return;
    if (isnan(l->close_s))
        l->close_s = elapsed_s;
    l->close_s += CLOSE_RATE * (elapsed_s - l->close_s);
}
