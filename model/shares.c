
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "order_stats.h"
#include "shares_priv.h"

/* With more workers a plan that is not anew will do for what is far from the
 * close. */
enum { FEW = 64 };

/* Of a worker's expected units, what a first claim that runs late may cost. */
#define MAY_LOSE .02

/* Known rates change: a claim leaves so many of their standard deviations, and
 * these are learnt at such a pace. */
#define MARGIN 2.
#define PACE   (1 / 64.)

/* How often the idle look again, of the plan. */
#define WAKE .01

/* What is predicted: not for by_last. */
static bool make_room(struct shares *s)
{
    const struct shares_spec *spec = &s->spec;

    s->share = calloc(spec->n, sizeof *s->share);
    if (spec->by_last)
        return s->share;
    s->point_s = calloc(spec->n, POINTS * sizeof *s->point_s);
    s->speed = calloc(spec->n, (POINTS + 1) * sizeof *s->speed);
    s->has_table =
        live_table_init(&s->table, spec->n, spec->n_nodes, spec->node);
    s->spec.node = s->table.node;
    return s->share && s->point_s && s->speed && s->has_table;
}

enum dsgd_err shares_create(const struct shares_spec *spec, struct shares **out,
                            struct dsgd_error *err)
{
    struct shares *s;

    *out = NULL;
    if (spec->n < 1 || spec->parts < 1 || spec->units < spec->parts ||
        !(spec->cost_s >= 0) || spec->n > SIZE_MAX / 4096 ||
        spec->units > SIZE_MAX / 4 / spec->n)
        return error_set(err, DSGD_E_RANGE,
                         "shares: %zu workers, %zu parts of %zu units, "
                         "%g s a part",
                         spec->n, spec->parts, spec->units, spec->cost_s);
    s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, DSGD_E_NOMEM, "shares: no memory");
    s->spec = *spec;
    if (!make_room(s)) {
        shares_free(s);
        return error_set(err, DSGD_E_NOMEM, "shares: no memory for %zu workers",
                         spec->n);
    }
    s->take = spec->parts < 2 ? 1
                              : 1 - pow((double)spec->units,
                                        -1 / (double)(spec->parts - 1));
    for (size_t j = 0; j < spec->n; j++)
        s->share[j].unit_s = NAN;
    for (size_t i = 0; i < POINTS; i++)
        s->level[i] = normal_quantile((2. * (double)i + 1) / (2. * POINTS));
    s->nominal = spec->n * spec->units;
    *out = s;
    return DSGD_OK;
}

void shares_free(struct shares *s)
{
    if (!s)
        return;
    free(s->share);
    free(s->point_s);
    free(s->speed);
    if (s->has_table)
        live_table_destroy(&s->table);
    free(s);
}

void shares_batch(struct shares *s, size_t units)
{
    s->nominal = units;
}

void shares_begin(struct shares *s, const struct predictive *p,
                  const double *lag_s)
{
    s->predicted = p && !s->spec.by_last && live_table_take(&s->table, p);
    s->deposited = 0;
    s->reserved = 0;
    s->margin = s->spec.by_last ? fmin(MARGIN * sqrt(s->variance), .5) : 0;
    s->events = SIZE_MAX / 2; /* plan at once */
    s->close_s = NAN;
    s->now_s = 0;
    for (size_t j = 0; j < s->spec.n; j++) {
        s->share[j] = (struct share){
            .state = lag_s[j] > 0 ? LAGGING : FREE,
            .start_s = lag_s[j],
            .unit_s = s->spec.by_last ? s->share[j].unit_s : NAN};
        if (s->predicted)
            shares_find_points(s, j);
    }
}

/* Its claim no longer counts: it was computed, or is given up. */
static void release(struct shares *s, struct share *w)
{
    if (w->state == RUNNING)
        s->reserved -= w->chance * (double)w->k;
    w->chance = 0;
}

void shares_leave(struct shares *s, size_t worker)
{
    release(s, &s->share[worker]);
    s->share[worker].state = GONE;
    s->events++;
}

/* Units that nobody is expected to bring. */
static size_t spare(const struct shares *s)
{
    double left = (double)shares_missing(s) - s->reserved;
    return left >= .5 ? (size_t)(left + .5) : 0;
}

/* The most that fits into span_s and costs little when it runs late. */
static double cautious(const struct shares *s, size_t j, double span_s)
{
    const double *x = s->point_s + j * POINTS;
    double all = 0, lost = 0;
    size_t i = POINTS - 1;

    if (!(x[(POINTS - 1) / 2] <= span_s * (double)s->spec.units))
        return 0; /* not even a unit */
    for (size_t k = 0; k < POINTS; k++)
        all += 1 / x[k];
    while (i > 0 && lost + 1 / x[i] <= MAY_LOSE * all)
        lost += 1 / x[i--];
    return fmax(1, floor(span_s / x[i] * (double)s->spec.units));
}

static size_t wanted(const struct shares *s, size_t j)
{
    const struct share *w = &s->share[j];
    double span_s = s->close_s - w->start_s - s->spec.cost_s, most, share;

    if (isinf(span_s))
        return 1;
    if (!isnan(w->unit_s)) {
        most = shares_whole_units(span_s + ACCURACY * s->close_s, w->unit_s);
        share = ceil(s->take * most / (1 + MARGIN * sqrt(s->variance)));
    } else {
        double middle = s->point_s[j * POINTS + POINTS / 2];
        share = ceil(s->take * span_s / middle * (double)s->spec.units);
        most = cautious(s, j, span_s);
    }
    if (s->spec.most)
        most = fmin(most, (double)s->spec.most);
    return (size_t)fmax(fmin(fmin(share, most), (double)s->nominal), 0);
}

static size_t planned_claim(struct shares *s, size_t j)
{
    if (shares_is_stale(s))
        shares_make_plan(s);
    size_t k = wanted(s, j), left = spare(s);
    if (k == 0 && !(s->reserved > 0))
        k = 1; /* somebody must */
    return k < left ? k : left;
}

/* With many workers the plan need not be made anew for what is far from its
 * close. */
static bool is_sure(const struct shares *s, double end_s)
{
    const double near = .2;

    return s->spec.n > FEW && end_s < (1 - near) * s->close_s &&
           (double)shares_missing(s) > near * (double)s->nominal;
}

/* One by known rates.  The first of a step is always begun, so that nobody is
 * thought slow for ever. */
static size_t single_part(struct shares *s, size_t j)
{
    const struct share *w = &s->share[j];
    double end = w->start_s + s->spec.cost_s + w->unit_s;

    if (shares_is_stale(s) && !is_sure(s, end))
        shares_make_plan(s);
    if (!w->given || isnan(w->unit_s))
        return 1;
    double most_s = s->close_s * (1 + ACCURACY) + s->margin * w->unit_s;
    if (!(end <= most_s) && s->reserved >= .5) /* else somebody must */
        return 0;
    return spare(s) > 0;
}

/* Who is late is not known then, and nobody waited for: claims go on while
 * anything is missing. */
static size_t equal_part(const struct shares *s)
{
    size_t part = s->spec.units / s->spec.parts, left = shares_missing(s);
    return part < left ? part : left;
}

/* Of those with a plan only by_last begin what is not expected to be in. */
static void run(struct shares *s, size_t j, size_t k)
{
    struct share *w = &s->share[j];

    w->state = RUNNING;
    w->k = k;
    w->first = 0;
    w->given = true;
    w->chance = s->spec.by_last ? shares_chance(s, j) : 1;
    s->reserved += w->chance * (double)k;
}

static size_t next_claim(struct shares *s, size_t j)
{
    if (s->predicted)
        return planned_claim(s, j);
    return s->spec.by_last ? single_part(s, j) : equal_part(s);
}

size_t shares_claim(struct shares *s, size_t worker, double now_s)
{
    struct share *w = &s->share[worker];

    if (w->state == GONE || w->state == RUNNING || !shares_missing(s))
        return 0;
    s->now_s = fmax(s->now_s, now_s);
    bool late = w->state == LAGGING && !(s->now_s > 0);
    w->state = FREE;
    w->start_s = late ? w->start_s : s->now_s;
    size_t k = next_claim(s, worker);
    if (k)
        run(s, worker, k);
    return k;
}

void shares_take(struct shares *s, size_t worker, size_t units, double now_s)
{
    struct share *w = &s->share[worker];

    if (w->state == GONE)
        return;
    s->now_s = fmax(s->now_s, now_s);
    release(s, w);
    w->start_s = s->now_s;
    run(s, worker, units);
}

void shares_began(struct shares *s, size_t worker, double at_s)
{
    struct share *w = &s->share[worker];

    if (w->state == RUNNING)
        w->start_s = at_s;
}

double shares_wake_s(const struct shares *s, double now_s)
{
    double step = isfinite(s->close_s) ? WAKE * s->close_s : INFINITY;
    return now_s + step;
}

/* A rate against the mean of so many before, that vary as much. */
static void learn(struct shares *s, double change, double before)
{
    double square = fmin(change * change, 1) / (1 + 1 / before);
    s->variance += PACE * (square - s->variance);
}

size_t shares_deposit(struct shares *s, size_t worker, double now_s)
{
    struct share *w = &s->share[worker];
    size_t k = w->k;

    if (w->state != RUNNING)
        return 0;
    s->now_s = fmax(s->now_s, now_s);
    release(s, w);
    double took_s = fmax(s->now_s - w->start_s - s->spec.cost_s, 1e-12);
    if (w->units)
        learn(s, log(took_s / (double)k / w->unit_s),
              s->spec.by_last ? (double)w->units : 1);
    w->work_s += took_s;
    w->units += k;
    w->unit_s = w->work_s / (double)w->units;
    w->state = FREE;
    w->start_s = s->now_s;
    s->events++;
    if (k > shares_missing(s))
        return 0;
    s->deposited += k;
    return k;
}

void shares_add(struct shares *s, size_t units)
{
    size_t missing = shares_missing(s);

    s->deposited += units < missing ? units : missing;
    s->events++;
}

size_t shares_missing(const struct shares *s)
{
    return s->nominal - s->deposited;
}

double shares_close_s(const struct shares *s)
{
    return s->close_s;
}

void shares_plan(struct shares *s, double now_s)
{
    s->now_s = fmax(s->now_s, now_s);
    if (s->predicted)
        shares_make_plan(s);
}

double shares_left_s(struct shares *s, size_t worker, double now_s)
{
    struct share *w = &s->share[worker];
    double sum = 0;

    if (w->state != RUNNING || !s->predicted)
        return 0;
    s->now_s = fmax(s->now_s, now_s);
    if (!isnan(w->unit_s))
        return shares_known_end_s(s, w) - s->now_s;
    const double *x = s->point_s + worker * POINTS;
    shares_outrun(s, worker);
    for (size_t i = w->first; i < POINTS; i++)
        sum += shares_end_s(s, w, x[i] / (double)s->spec.units) - s->now_s;
    if (w->first < POINTS)
        return sum / (double)(POINTS - w->first);
    return s->now_s - shares_end_s(s, w, x[POINTS - 1] / (double)s->spec.units);
}

double shares_rate(const struct shares *s, size_t but)
{
    double rate = 0;

    for (size_t j = 0; s->predicted && j < s->spec.n; j++) {
        const struct share *w = &s->share[j];
        double batch_s = s->point_s[j * POINTS + POINTS / 2];
        if (j == but || w->state == GONE)
            continue;
        rate +=
            isnan(w->unit_s) ? (double)s->spec.units / batch_s : 1 / w->unit_s;
    }
    return rate;
}

bool shares_stop(const struct shares *s, double now_s, double lambda)
{
    const int looks = 8;
    double have = (double)s->deposited, all = (double)s->nominal;
    double span_s = s->close_s - now_s;

    if (!(lambda > 0) || !(span_s > 0) || !isfinite(span_s))
        return false;
    for (int i = 1; i <= looks; i++) {
        double wait_s = span_s * i / looks;
        double by = fmin(shares_expected_by(s, now_s + wait_s), all);
        if (!(by - lambda * wait_s <= have))
            return false;
    }
    return true;
}
