#include <math.h>

#include "shares_priv.h"

enum {
    ALL = 64, /* up to so many workers the plan is made anew at each event */
    ALL_KNOWN = 16 /* … by_last */
};

double shares_end_s(const struct shares *s, const struct share *w,
                    double unit_s)
{
    return w->start_s + s->spec.cost_s + (double)w->k * unit_s;
}

/* The same with the known rate: overdue, a claim is expected to take as long
 * again as it is overdue. */
double shares_known_end_s(const struct shares *s, const struct share *w)
{
    double end = shares_end_s(s, w, w->unit_s);
    return end < s->now_s ? 2 * s->now_s - end : end;
}

double shares_whole_units(double seconds, double unit_s)
{
    double fit = seconds / unit_s * (1 + 1e-9);
    return fit >= 1 ? floor(fit) : 0;
}

/* The chance that a single unit is in which ends so many of its durations
 * before then. */
static double chance_of(const struct shares *s, double left)
{
    if (!(s->margin > 0))
        return left >= -1e-9;
    return fmin(fmax(.5 + left / (2 * s->margin), 0), 1);
}

/* Units that are expected to be done in that time. */
static double fitting(const struct shares *s, double seconds, double unit_s)
{
    if (!s->spec.by_last)
        return shares_whole_units(seconds, unit_s);
    double fit = seconds / unit_s, last = floor(fit + .5);
    return last >= 1 ? last - 1 + chance_of(s, fit - last) : 0;
}

/* Expected units of a worker with a known rate. */
static double known_by(const struct shares *s, const struct share *w,
                       double by_s)
{
    double cost_s = s->spec.cost_s;

    if (w->state != RUNNING)
        return fitting(s, by_s - fmax(w->start_s, s->now_s) - cost_s,
                       w->unit_s);
    double end = shares_known_end_s(s, w);
    if (s->spec.by_last)
        return (double)w->k * chance_of(s, (by_s - end) / w->unit_s) +
               fitting(s, by_s - end - cost_s, w->unit_s);
    if (!(end <= by_s))
        return 0;
    return (double)w->k + fitting(s, by_s - end - cost_s, w->unit_s);
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

double shares_expected_by(const struct shares *s, double by_s)
{
    double sum = (double)s->deposited;

    for (size_t j = 0; j < s->spec.n; j++) {
        const struct share *w = &s->share[j];
        if (w->state == GONE)
            continue;
        if (!isnan(w->unit_s))
            sum += known_by(s, w, by_s);
        else if (s->predicted)
            sum += predicted_by(s, j, by_s);
    }
    return sum;
}

static bool is_full_by(const struct shares *s, double by_s)
{
    return shares_expected_by(s, by_s) >= (double)s->nominal;
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

void shares_outrun(const struct shares *s, size_t j)
{
    struct share *w = &s->share[j];
    const double *x = s->point_s + j * POINTS;
    double unit_s = 1 / (double)s->spec.units;

    while (w->first < POINTS &&
           shares_end_s(s, w, x[w->first] * unit_s) <= s->now_s)
        w->first++;
}

double shares_chance(const struct shares *s, size_t j)
{
    const struct share *w = &s->share[j];
    double by_s = s->close_s * (1 + ACCURACY);

    if (!isnan(w->unit_s) && s->spec.by_last)
        return chance_of(s, (by_s - shares_known_end_s(s, w)) / w->unit_s);
    if (!isnan(w->unit_s))
        return shares_known_end_s(s, w) <= by_s;
    if (!s->predicted || w->first == POINTS)
        return 0;
    double middle = s->point_s[j * POINTS + (w->first + POINTS - 1) / 2];
    return shares_end_s(s, w, middle / (double)s->spec.units) <= by_s;
}

void shares_make_plan(struct shares *s)
{
    for (size_t j = 0; j < s->spec.n; j++) {
        if (s->predicted && s->share[j].state == RUNNING)
            shares_outrun(s, j);
    }
    s->close_s = find_close(s);
    s->reserved = 0;
    for (size_t j = 0; j < s->spec.n; j++) {
        struct share *w = &s->share[j];
        w->chance = w->state == RUNNING ? shares_chance(s, j) : 0;
        s->reserved += w->chance * (double)w->k;
    }
    s->events = 0;
}

bool shares_is_stale(const struct shares *s)
{
    size_t all = s->spec.by_last ? ALL_KNOWN : ALL;
    return s->events > s->spec.n / all || !(s->close_s >= s->now_s);
}
