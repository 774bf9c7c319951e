#include "live.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "live_body.h"

enum { LANES = LIVE_LANES, SMALL_N = LIVE_SMALL_N };

/* Realignment: a worker that would come later than this times the planned
 * close sits out; the running close follows at this rate. */
#define REALIGN    1.1
#define CLOSE_RATE .3

/* For this part of the time to the planned close the ticks are not looked at,
 * only arrivals: what a tick costs, the workers of its node lose. */
#define QUIET .25

/* Near the close arrivals are at most so many times the rate at which the step
 * is closed. */
#define NEAR 2.

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
    l->listed = calloc(n, sizeof *l->listed);
    l->listed_first = calloc(nodes + 1, sizeof *l->listed_first);
    l->summed = calloc(nodes, sizeof *l->summed);
    l->late = calloc(LIVE_COLS, LANES * sizeof *l->late);
    l->sum = calloc(LIVE_COLS, LANES * sizeof *l->sum);
    return l->first && l->part && l->start_s && l->median_s && l->density &&
           l->evidence && l->posterior && l->column && l->listed &&
           l->listed_first && l->summed && l->late && l->sum;
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

static size_t counts_ahead(size_t n)
{
    size_t share = n / LIVE_COUNTS_SHARE;

    if (share < LIVE_COUNTS_MIN)
        return LIVE_COUNTS_MIN;
    return share < LIVE_COUNTS ? share : LIVE_COUNTS;
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
    l->counts = counts_ahead(n);
    l->close_s = l->planned_s = l->expected = NAN;
    if (!allocate(l) || !live_table_init(&l->table, n, n_nodes, node) ||
        !live_early_init(&l->early, n, n_nodes)) {
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
    live_early_destroy(&l->early);
    free(l->first);
    free(l->part);
    free(l->start_s);
    free(l->median_s);
    free(l->density);
    free(l->evidence);
    free(l->posterior);
    free(l->column);
    free(l->listed);
    free(l->listed_first);
    free(l->summed);
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
    l->ask_s = INFINITY;
    l->quiet_s = 0;
    l->faster = live_pace_get(&l->pace);
    l->step_pace = (struct live_paced){.open = true};
    l->planned_s = l->expected = l->elapsed_s = NAN;
}

/* Node by node, while its part of the table is at hand. */
static void fill(struct live *l)
{
    for (size_t i = 0; i < l->n_nodes; i++) {
        live_table_fill(&l->table, l->first[i], l->first[i + 1]);
        live_early_take(&l->early, &l->table, i, l->first[i], l->first[i + 1]);
    }
}

/* The worker starts at start_s, not at 0. */
static void move_row(struct live *l, size_t worker, double start_s)
{
    live_early_remove(&l->early, &l->table, worker);
    live_table_row(&l->table, worker, start_s);
}

void live_plan(struct live *l, const struct predictive *p, enum live_late late)
{
    begin(l, late);
    l->planned = p && live_table_take(&l->table, p);
    if (l->planned)
        fill(l);
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
    move_row(l, worker, expected_lag_s);
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
        move_row(l, worker, at_s);
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

/* Before another look: how many were to come since the last one?  Only near the
 * close is of interest; what is near is told when the time begins, so that when
 * it ends is no selection. */
static void take_pace(struct live *l, double now_s)
{
    const struct live_outlook *o = &l->outlook;

    if (!l->decided || !o->dense || !(now_s > o->now_s) ||
        !(live_outlook_rate(o) < NEAR * l->price))
        return;
    live_paced_add(&l->step_pace, (double)(l->arrived - o->arrived),
                   (double)o->late - live_outlook_left_at(o, now_s));
}

/* The best plan as of the last look; true when it is to close. */
static bool best_is_now(struct live *l, double lambda)
{
    struct live_choice best = live_outlook_best(&l->outlook, lambda);

    l->planned_s = best.close_s;
    l->expected = best.expected;
    l->ask_at = best.count;
    l->ask_s = best.between ? best.close_s : INFINITY;
    return best.now;
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

/* The time between ticks at which the plan closes has come. */
static bool plan_is_due(const struct live *l, double now_s)
{
    return now_s >= l->ask_s * (1 - 1e-9);
}

static double next_ask(const struct live *l, double now_s)
{
    double tick_s = next_tick(l);

    return plan_is_due(l, now_s) ? tick_s : fmin(l->ask_s, tick_s);
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
    due = (due && now_s >= l->quiet_s * (1 - 1e-9)) || plan_is_due(l, now_s);
    *next_s = next_ask(l, now_s);
    if (l->next == 0 ||
        (!due && l->n > SMALL_N && l->arrived < l->ask_at && l->next < t->cols))
        return false;
    bool enough = l->arrived >= count_wanted(l);
    if (l->next == t->cols && !due)
        return enough; /* beyond the grid nothing is predicted to come */
    if (!enough && l->mode != LIVE_BUSY)
        return false;
    lambda /= l->faster;
    take_pace(l, now_s);
    live_look(l, now_s, lambda);
    bool close = best_is_now(l, lambda) && enough;
    if (close)
        live_pace_add(&l->pace, &l->step_pace);
    l->quiet_s = now_s + QUIET * (l->planned_s - now_s);
    *next_s = next_ask(l, now_s);
    return close;
}

bool live_recheck(struct live *l, double lambda)
{
    if (!l->planned || !l->decided || l->arrived < count_wanted(l))
        return false;
    lambda /= l->faster;
    if (lambda < l->price || lambda > l->price) /* other plans matter then */
        live_look(l, l->outlook.now_s, lambda);
    return best_is_now(l, lambda);
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
