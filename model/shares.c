#include "shares.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "live_table.h"
#include "order_stats.h"

enum {
    POINTS = 16, /* quantiles of a duration */
    ALL = 64     /* up to so many workers the plan is made anew at each event */
};

/* Of a worker's expected units, what a first claim that runs late may cost. */
#define MAY_LOSE .02

/* Known rates change: a claim leaves so many of their standard deviations, and
 * these are learnt at such a pace. */
#define MARGIN 2.
#define PACE   (1 / 64.)

/* No duration is predicted shorter: speeds stay finite. */
#define LEAST_S 1e-100

/* The plan's accuracy, relative, and how often the idle look again. */
#define ACCURACY 1e-3
#define WAKE     .01

enum state {
    GONE,
    LAGGING, /* with an older claim, expected to be free at start_s */
    FREE,
    RUNNING /* k units since start_s */
};

struct share {
    enum state state;
    double start_s;
    double unit_s; /* known in this step, NaN: not */
    double work_s; /* that units took in this step */
    size_t units;
    size_t k;
    size_t first; /* of the points, those not outrun */
    bool counts;  /* its claim is expected by the close */
};

struct shares {
    struct shares_spec spec;
    struct share *share; /* [n] */
    double *point_s;     /* [n][POINTS] ascending */
    double *speed; /* [n][POINTS + 1] sums of the first so many 1 / point_s */
    double level[POINTS]; /* the points' quantiles, as those of a normal */
    struct live_table table;
    bool has_table, predicted;
    double take;    /* share of what fits */
    double close_s; /* planned */
    double now_s;
    double variance; /* of the log of a rate, from claim to claim */
    size_t nominal, deposited, reserved;
    size_t events; /* since the plan was made */
};

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
    s->share = calloc(spec->n, sizeof *s->share);
    s->point_s = calloc(spec->n, POINTS * sizeof *s->point_s);
    s->speed = calloc(spec->n, (POINTS + 1) * sizeof *s->speed);
    s->has_table =
        live_table_init(&s->table, spec->n, spec->n_nodes, spec->node);
    if (!s->share || !s->point_s || !s->speed || !s->has_table) {
        shares_free(s);
        return error_set(err, DSGD_E_NOMEM, "shares: no memory for %zu workers",
                         spec->n);
    }
    s->spec.node = s->table.node;
    s->take = spec->parts < 2 ? 1
                              : 1 - pow((double)spec->units,
                                        -1 / (double)(spec->parts - 1));
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

/* Probability that a worker still runs at log_s. */
static double survival(const struct shares *s, size_t j, double log_s)
{
    const float *prior = s->table.prior + (size_t)s->table.node[j] * LIVE_LANES;
    float lane[LIVE_LANES], sum = 0;

    live_table_survival(&s->table, j, log_s, lane);
    for (size_t l = 0; l < LIVE_LANES; l++)
        sum += prior[l] * lane[l];
    return sum;
}

/* As the quantile of a normal: of a log-normal this is a straight line. */
static double as_normal(double left)
{
    const double least = 1e-6; /* what single precision tells from nothing */
    return normal_quantile(fmin(fmax(1 - left, least), 1 - least));
}

/* A log duration before the first of the points, near the usual duration unless
 * the first component of the predictive is far from those that count. */
static double find_start(const struct shares *s, size_t j, double *left)
{
    const double first = 1 - 1 / (2. * POINTS), wide = .1;
    double at = (double)s->table.p->mu[j * PRED_K] - 2 * wide, next;

    *left = survival(s, j, at);
    for (int i = 0; i < 80 && !(*left > first); i++) {
        at -= 2 * wide;
        *left = survival(s, j, at);
    }
    for (int i = 0; i < 640; i++) {
        next = survival(s, j, at + wide);
        if (!(next > first))
            break;
        at += wide;
        *left = next;
    }
    return at;
}

/* The points within a cell of log durations, from those quantiles to these. */
static size_t fill_cell(const struct shares *s, size_t i, double at,
                        double width, double from, double to, double *out)
{
    for (; i < POINTS && s->level[i] <= to; i++) {
        double f = to > from ? (s->level[i] - from) / (to - from) : 1;
        out[i] = exp(at + fmax(f, 0) * width);
    }
    return i;
}

/* Walk up the log durations, in steps that grow where they are not too long. */
static void find_points(struct shares *s, size_t j)
{
    const double most = 2, least = 1e-3, longest = .12;
    double *out = s->point_s + j * POINTS, left, width = .06;
    double *speed = s->speed + j * (POINTS + 1);
    double at = find_start(s, j, &left), from = as_normal(left);
    size_t i = 0;

    for (int step = 0; step < 80 && i < POINTS; step++) {
        double to = as_normal(survival(s, j, at + width));
        if (to - from > most && to >= s->level[i] && width > least) {
            width /= 4;
            continue;
        }
        i = fill_cell(s, i, at, width, from, to, out);
        at += width;
        from = to;
        width = fmin(1.4 * width, longest);
    }
    for (; i < POINTS; i++)
        out[i] = exp(at);
    for (i = 0; i < POINTS; i++) {
        out[i] = fmax(out[i], LEAST_S);
        speed[i + 1] = speed[i] + 1 / out[i];
    }
}

void shares_batch(struct shares *s, size_t units)
{
    s->nominal = units;
}

void shares_begin(struct shares *s, const struct predictive *p,
                  const double *lag_s)
{
    s->predicted = p && live_table_take(&s->table, p);
    s->deposited = s->reserved = 0;
    s->events = SIZE_MAX / 2; /* plan at once */
    s->close_s = NAN;
    s->now_s = 0;
    for (size_t j = 0; j < s->spec.n; j++) {
        s->share[j] = (struct share){.state = lag_s[j] > 0 ? LAGGING : FREE,
                                     .start_s = lag_s[j],
                                     .unit_s = NAN};
        if (s->predicted)
            find_points(s, j);
    }
}

/* Its claim no longer counts: it was computed, or is given up. */
static void release(struct shares *s, struct share *w)
{
    if (w->state == RUNNING && w->counts)
        s->reserved -= w->k;
    w->counts = false;
}

void shares_leave(struct shares *s, size_t worker)
{
    release(s, &s->share[worker]);
    s->share[worker].state = GONE;
    s->events++;
}

static double end_s(const struct shares *s, const struct share *w,
                    double unit_s)
{
    return w->start_s + s->spec.cost_s + (double)w->k * unit_s;
}

/* The same with the known rate: overdue, a claim is expected to take as long
 * again as it is overdue. */
static double known_end_s(const struct shares *s, const struct share *w)
{
    double end = end_s(s, w, w->unit_s);
    return end < s->now_s ? 2 * s->now_s - end : end;
}

static double whole_units(double seconds, double unit_s)
{
    double fit = seconds / unit_s * (1 + 1e-9);
    return fit >= 1 ? floor(fit) : 0;
}

/* Expected units of a worker with a known rate. */
static double known_by(const struct shares *s, const struct share *w,
                       double by_s)
{
    double cost_s = s->spec.cost_s;

    if (w->state == FREE)
        return whole_units(by_s - s->now_s - cost_s, w->unit_s);
    double end = known_end_s(s, w);
    if (!(end <= by_s))
        return 0;
    return (double)w->k + whole_units(by_s - end - cost_s, w->unit_s);
}

/* Expected units of a worker whose rate is only predicted. */
static double predicted_by(const struct shares *s, size_t j, double by_s)
{
    const struct share *w = &s->share[j];
    const double *x = s->point_s + j * POINTS;
    const double *speed = s->speed + j * (POINTS + 1);
    double from_s =
        w->state == RUNNING ? w->start_s : fmax(w->start_s, s->now_s);
    double span_s = by_s - from_s - s->spec.cost_s;
    double units = (double)s->spec.units;
    size_t end = w->state == RUNNING ? w->first : POINTS;

    if (!(span_s > 0) || w->first == POINTS)
        return 0;
    while (end < POINTS && (double)w->k * x[end] <= span_s * units)
        end++;
    return span_s * units * (speed[end] - speed[w->first]) /
           (double)(POINTS - w->first);
}

static double expected_by(const struct shares *s, double by_s)
{
    double sum = (double)s->deposited;

    for (size_t j = 0; j < s->spec.n; j++) {
        const struct share *w = &s->share[j];
        if (w->state == GONE)
            continue;
        if (!isnan(w->unit_s))
            sum += known_by(s, w, by_s);
        else
            sum += predicted_by(s, j, by_s);
    }
    return sum;
}

static bool is_full_by(const struct shares *s, double by_s)
{
    return expected_by(s, by_s) >= (double)s->nominal;
}

/* The earliest time by which the batch is expected to be full, sought around
 * the last plan; INFINITY: never. */
static double find_close(const struct shares *s)
{
    bool warm = isfinite(s->close_s) && s->close_s > s->now_s;
    double step = warm ? .01 * s->close_s : fmax(.01 * s->now_s, 1e-9);
    double low = s->now_s, high = warm ? s->close_s : s->now_s + step;

    if (is_full_by(s, high)) {
        for (; high - step > low && is_full_by(s, high - step); step *= 2)
            high -= step;
        low = fmax(low, high - step);
    } else {
        for (int i = 0; !is_full_by(s, high); i++, step *= 2) {
            if (i == 120)
                return INFINITY;
            low = high;
            high += step;
        }
    }
    while (high - low > ACCURACY * high) {
        double mid = (low + high) / 2;
        if (is_full_by(s, mid))
            high = mid;
        else
            low = mid;
    }
    return high;
}

/* Of the durations predicted for a running claim, those that it has outrun. */
static void outrun(const struct shares *s, size_t j)
{
    struct share *w = &s->share[j];
    const double *x = s->point_s + j * POINTS;
    double unit_s = 1 / (double)s->spec.units;

    while (w->first < POINTS && end_s(s, w, x[w->first] * unit_s) <= s->now_s)
        w->first++;
}

/* Is a running claim more likely than not to be in by the close? */
static bool makes_it(const struct shares *s, size_t j)
{
    const struct share *w = &s->share[j];
    double by_s = s->close_s * (1 + ACCURACY);

    if (!isnan(w->unit_s))
        return known_end_s(s, w) <= by_s;
    if (w->first == POINTS)
        return false;
    double middle = s->point_s[j * POINTS + (w->first + POINTS - 1) / 2];
    return end_s(s, w, middle / (double)s->spec.units) <= by_s;
}

static void plan(struct shares *s)
{
    for (size_t j = 0; j < s->spec.n; j++) {
        if (s->share[j].state == RUNNING)
            outrun(s, j);
    }
    s->close_s = find_close(s);
    s->reserved = 0;
    for (size_t j = 0; j < s->spec.n; j++) {
        struct share *w = &s->share[j];
        w->counts = w->state == RUNNING && makes_it(s, j);
        s->reserved += w->counts ? w->k : 0;
    }
    s->events = 0;
}

static bool is_stale(const struct shares *s)
{
    return s->events > s->spec.n / ALL || !(s->close_s >= s->now_s);
}

/* Units that nobody is expected to bring. */
static size_t spare(const struct shares *s)
{
    size_t taken = s->deposited + s->reserved;
    return taken < s->nominal ? s->nominal - taken : 0;
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
        most = whole_units(span_s + ACCURACY * s->close_s, w->unit_s);
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
    if (is_stale(s))
        plan(s);
    size_t k = wanted(s, j), left = spare(s);
    if (k == 0 && !s->reserved)
        k = 1; /* somebody must */
    return k < left ? k : left;
}

/* Who is late is not known then, and nobody waited for: claims go on while
 * anything is missing. */
static size_t equal_part(const struct shares *s)
{
    size_t part = s->spec.units / s->spec.parts, left = shares_missing(s);
    return part < left ? part : left;
}

static void run(struct shares *s, struct share *w, size_t k)
{
    w->state = RUNNING;
    w->k = k;
    w->first = 0;
    w->counts = true;
    s->reserved += k;
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
    size_t k = s->predicted ? planned_claim(s, worker) : equal_part(s);
    if (k)
        run(s, w, k);
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
    run(s, w, units);
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

/* A rate against the one before: twice the variance, as both vary. */
static void learn(struct shares *s, double change)
{
    s->variance += PACE * (fmin(change * change, 1) / 2 - s->variance);
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
        learn(s, log(took_s / (double)k / w->unit_s));
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
        plan(s);
}

double shares_left_s(struct shares *s, size_t worker, double now_s)
{
    struct share *w = &s->share[worker];
    const double *x = s->point_s + worker * POINTS;
    double sum = 0;

    if (w->state != RUNNING || !s->predicted)
        return 0;
    s->now_s = fmax(s->now_s, now_s);
    if (!isnan(w->unit_s))
        return known_end_s(s, w) - s->now_s;
    outrun(s, worker);
    for (size_t i = w->first; i < POINTS; i++)
        sum += end_s(s, w, x[i] / (double)s->spec.units) - s->now_s;
    if (w->first < POINTS)
        return sum / (double)(POINTS - w->first);
    return s->now_s - end_s(s, w, x[POINTS - 1] / (double)s->spec.units);
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
        double by = fmin(expected_by(s, now_s + wait_s), all);
        if (!(by - lambda * wait_s <= have))
            return false;
    }
    return true;
}
