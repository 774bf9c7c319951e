#include "guard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

/* Two horizons: a change is seen by the short one first. */
enum { HORIZONS = 2 };
static const double keep[HORIZONS] = {.95, .985};

/* An expert takes over when its advantage is Z_ON standard errors and a share
 * ADVANTAGE of a step, and gives back below Z_OFF.  A cut must gain MIN_GAIN.
 * At first, when the favourite itself has seen few steps and is the less to be
 * trusted, Z_FIRST are enough.
 *
 * What a second is worth decides who is ahead.  At the favourite's throughput
 * of late an error in the run's lambda is found out; but where most workers are
 * slow for a while, waiting for them looks good at it, and is not over the run.
 * So once there are steps enough for the run's lambda to mean something, an
 * expert has to be ahead at both. */
#define Z_FIRST   1.5
#define Z_ON      2.2
#define Z_OFF     1.
#define ADVANTAGE .001
#define MIN_GAIN  .003
#define STEADY    1.3 /* to replace another non-favourite */

enum {
    FIRST_STEPS = 8,   /* scored before anything is decided */
    SETTLED_STEPS = 60 /* until Z_ON holds, and the run's lambda counts */
};

#define RATE_KEEP .98

struct score {
    double mean[HORIZONS], square[HORIZONS]; /* discounted sums */
    double run[HORIZONS];                    /* the same at the run's lambda */
    double count, time_s;                    /* discounted by RATE_KEEP */
};

struct guard {
    size_t n, favourite, full, current;
    size_t steps;
    double weight[HORIZONS]; /* discounted number of steps */
    double rate_weight;
    struct score *score; /* [n] of the advantage over the favourite */
};

enum dsgd_err guard_create(size_t n_experts, size_t favourite, size_t full,
                           struct guard **out, struct dsgd_error *err)
{
    *out = NULL;
    if (favourite >= n_experts || full >= n_experts)
        return error_set(err, DSGD_E_RANGE,
                         "guard: favourite %zu and full %zu of %zu experts",
                         favourite, full, n_experts);
    struct guard *g = calloc(1, sizeof *g);
    if (g)
        g->score = calloc(n_experts, sizeof *g->score);
    if (!g || !g->score) {
        guard_free(g);
        return error_set(err, DSGD_E_NOMEM, "guard: no memory");
    }
    g->n = n_experts;
    g->current = g->favourite = favourite;
    g->full = full;
    *out = g;
    return DSGD_OK;
}

void guard_free(struct guard *g)
{
    if (!g)
        return;
    free(g->score);
    free(g);
}

static double advantage(const struct guard *g, size_t e, size_t h)
{
    double sum = g->score[e].mean[h];

    if (g->steps >= SETTLED_STEPS)
        sum = fmin(sum, g->score[e].run[h]);
    return sum / g->weight[h];
}

/* The advantage in standard errors. */
static double z_value(const struct guard *g, size_t e, size_t h)
{
    double mean = g->score[e].mean[h] / g->weight[h];
    double var =
        fmax(g->score[e].square[h] / g->weight[h] - mean * mean, 1e-12);
    double n = fmin((1 + keep[h]) / (1 - keep[h]), (double)g->steps);
    return advantage(g, e, h) / sqrt(var / n);
}

static double z_on(const struct guard *g)
{
    double part = (double)g->steps / SETTLED_STEPS;

    return Z_FIRST + (Z_ON - Z_FIRST) * fmin(part, 1);
}

/* The expert with the largest significant advantage, or the favourite. */
static size_t challenger(const struct guard *g, double scale, double *gain)
{
    size_t best = g->favourite;

    *gain = 0;
    for (size_t e = 0; e < g->n; e++) {
        for (size_t h = 0; h < HORIZONS; h++) {
            double a = advantage(g, e, h);
            if (e != g->favourite && a > *gain && a > ADVANTAGE * scale &&
                z_value(g, e, h) > z_on(g)) {
                *gain = a;
                best = e;
            }
        }
    }
    return best;
}

size_t guard_pick(struct guard *g)
{
    const size_t h = HORIZONS - 1;
    double gain;

    if (g->steps < FIRST_STEPS)
        return g->favourite;
    double scale = g->score[g->favourite].count / g->rate_weight;
    if (g->current != g->favourite && (!(z_value(g, g->current, h) >= Z_OFF) ||
                                       !(advantage(g, g->current, h) >= 0)))
        g->current = g->favourite;
    size_t best = challenger(g, scale, &gain);
    if (best != g->favourite && (g->current == g->favourite ||
                                 gain > STEADY * advantage(g, g->current, h)))
        g->current = best;
    /* advantage of the favourite over itself is 0 */
    if (advantage(g, g->current, h) - advantage(g, g->full, h) <
        MIN_GAIN * scale)
        return g->full;
    return g->current;
}

static void add_advantages(struct guard *g, const double *count,
                           const double *time_s, double recent, double lambda)
{
    size_t f = g->favourite;

    for (size_t h = 0; h < HORIZONS; h++)
        g->weight[h] = keep[h] * g->weight[h] + 1;
    for (size_t e = 0; e < g->n; e++) {
        double more = count[e] - count[f], longer_s = time_s[e] - time_s[f];
        double late = more - recent * longer_s, run = more - lambda * longer_s;
        struct score *s = &g->score[e];
        for (size_t h = 0; h < HORIZONS; h++) {
            s->mean[h] = keep[h] * s->mean[h] + late;
            s->square[h] = keep[h] * s->square[h] + late * late;
            s->run[h] = keep[h] * s->run[h] + run;
        }
    }
}

void guard_score(struct guard *g, const double *count, const double *time_s,
                 double lambda)
{
    for (size_t e = 0; e < g->n; e++) {
        if (!(count[e] > 0) || !(time_s[e] > 0) || !isfinite(count[e]) ||
            !isfinite(time_s[e]))
            return;
    }
    g->rate_weight = RATE_KEEP * g->rate_weight + 1;
    for (size_t e = 0; e < g->n; e++) {
        g->score[e].count = RATE_KEEP * g->score[e].count + count[e];
        g->score[e].time_s = RATE_KEEP * g->score[e].time_s + time_s[e];
    }
    double recent = guard_throughput(g, g->favourite);
    if (!(lambda > 0) || !isfinite(lambda))
        lambda = recent;
    add_advantages(g, count, time_s, recent, lambda);
    g->steps++;
}

double guard_throughput(const struct guard *g, size_t expert)
{
    const struct score *s = &g->score[expert];
    return s->time_s > 0 ? s->count / s->time_s : NAN;
}

/* Caution is left for waiting when it loses as much as a cut has to gain. */
bool guard_caution_pays(const struct guard_caution *g)
{
    return g->steps < FIRST_STEPS || g->sum >= -MIN_GAIN * g->weight;
}

void guard_caution_score(struct guard_caution *g, double more, double longer_s,
                         double lambda, double all)
{
    double gain = (more - lambda * longer_s) / all;

    if (!isfinite(gain))
        return;
    g->sum = keep[HORIZONS - 1] * g->sum + gain;
    g->weight = keep[HORIZONS - 1] * g->weight + 1;
    g->steps++;
}

/* The fallback under carry-over (its constants were chosen by simulation). */
#define CARRY_KEEP 0.97
#define CARRY_LEAD 1.001
enum { CARRY_STAY = 12, CARRY_SOON = 60, CARRY_PRIOR = 15 };

void guard_carry_init(struct guard_carry *g)
{
    *g = (struct guard_carry){.margin = .01};
}

/* A byte that is no bool may not be read as one. */
bool guard_carry_valid(const struct guard_carry *g)
{
    unsigned char cautious;

    memcpy(&cautious, &g->cautious, 1);
    return cautious <= 1 && g->got >= 0 && g->got_s >= 0 && g->full >= 0 &&
           g->full_s >= 0 && g->margin > 0 &&
           isfinite(g->got + g->got_s + g->full + g->full_s + g->margin);
}

void guard_carry_score(struct guard_carry *g, double count, double time_s,
                       double n, double full_s)
{
    if (!(count >= 0) || !(time_s > 0) || !(n > 0) || !(full_s > 0) ||
        !isfinite(count + time_s + n + full_s))
        return;
    if (!(g->full_s > 0)) {
        g->got = g->full = CARRY_PRIOR * n;
        g->got_s = g->full_s = CARRY_PRIOR * full_s;
    }
    g->got = CARRY_KEEP * g->got + count;
    g->got_s = CARRY_KEEP * g->got_s + time_s;
    g->full = CARRY_KEEP * g->full + n;
    g->full_s = CARRY_KEEP * g->full_s + full_s;
    double policy = g->got / g->got_s, full = g->full / g->full_s;
    if (++g->since <= CARRY_STAY)
        return;
    if (!g->cautious && policy < full * CARRY_LEAD) {
        /* fell back again soon: ask for more before coming back */
        if (g->since < CARRY_SOON)
            g->margin = fmin(.3, 2 * g->margin);
        g->cautious = true;
        g->since = 0;
    } else if (g->cautious && policy > full * (1 + g->margin)) {
        g->cautious = false;
        g->since = 0;
        g->got = g->full = CARRY_PRIOR * n;
        g->got_s = g->full_s = CARRY_PRIOR * n / full;
    }
}
