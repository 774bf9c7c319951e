/* What live stopping tells: of its plan, and of workers cut. */
#include <math.h>

#include "live_body.h"

enum { LANES = LIVE_LANES, WIDE = LIVE_WIDE };

/* Weights of the lanes for a worker that ran at the close. */
static void lane_weights(const struct live *l, size_t worker, double *w)
{
    const float *p = (l->decided ? l->posterior : l->table.prior) +
                     (size_t)l->table.node[worker] * LANES;
    double own_s = fmax(l->elapsed_s - l->start_s[worker], 1e-30), sum = 0;
    float s[LANES];

    live_table_survival(&l->table, worker, log(own_s), s);
    for (size_t i = 0; i < LANES; i++)
        sum += p[i];
    for (size_t i = 0; i < LANES; i++)
        w[i] = p[i] / (sum * s[i]);
}

void live_residual(struct live *l, size_t worker, double points_s[LIVE_POINTS])
{
    double w[LANES], own_s = l->elapsed_s - l->start_s[worker];
    float s[LANES];

    for (size_t i = 0; i < LIVE_POINTS; i++)
        points_s[i] = NAN;
    if (!l->planned || l->part[worker] == OUT || !(own_s > 0))
        return;
    lane_weights(l, worker, w);
    double at = log(own_s), before = at, above = 1;
    size_t i = 0;
    for (int step = 0; step < 60 && i < LIVE_POINTS; step++) {
        double left = 0;
        at += .04 + .01 * step;
        live_table_survival(&l->table, worker, at, s);
        for (size_t k = 0; k < LANES; k++)
            left += w[k] * s[k];
        for (; i < LIVE_POINTS; i++) {
            double level = 1 - (2. * (double)i + 1) / (2. * LIVE_POINTS);
            if (left > level)
                break;
            double f = above > left ? (above - level) / (above - left) : 1;
            points_s[i] = exp(before + f * (at - before));
        }
        before = at;
        above = left;
    }
    for (; i < LIVE_POINTS; i++)
        points_s[i] = exp(at);
}

double live_planned_s(const struct live *l)
{
    return l->planned_s;
}

double live_expected(const struct live *l)
{
    return l->expected;
}

/* Expected number late at a tick after the last decision. */
static double left_at(const struct live *l, size_t q)
{
    float sum[LANES] = {0};
    double left = 0;

    for (size_t j = 0; j < l->n; j++) {
        size_t node = (size_t)l->table.node[j] * LANES;
        if (!live_is_late(l, j))
            continue;
        for (size_t b = 0; b < LIVE_BLOCKS; b++) {
            const float *p = l->posterior + node + b * WIDE;
            if (live_matters(p))
                live_add_late(p, l->column + j * LANES + b * WIDE, 1,
                              live_table_at(&l->table, j, b, q),
                              sum + b * WIDE);
        }
    }
    for (size_t k = 0; k < LANES; k++)
        left += sum[k];
    return left;
}

double live_all_s(const struct live *l)
{
    size_t low = l->col + 1, high = l->table.cols - 1;

    if (!l->decided)
        return NAN;
    for (size_t q = 0; q < l->outlook.ticks && low < high; q++, low++) {
        if (l->outlook.left[q] < .5)
            return l->outlook.tau_s[q];
    }
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (left_at(l, mid) < .5)
            high = mid;
        else
            low = mid + 1;
    }
    return l->table.tau_s[high];
}

struct live_state live_state(const struct live *l)
{
    return (struct live_state){l->close_s, l->table.log_low, l->table.log_high,
                               l->pace};
}

void live_set_state(struct live *l, const struct live_state *s)
{
    l->close_s = s->close_s;
    l->table.log_low = s->log_low;
    l->table.log_high = s->log_high;
    l->pace = s->pace;
}
