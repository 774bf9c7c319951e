#include <math.h>

#include "order_stats.h"
#include "shares_priv.h"

/* No duration is predicted shorter: speeds stay finite. */
#define LEAST_S 1e-100

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
void shares_find_points(struct shares *s, size_t j)
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
