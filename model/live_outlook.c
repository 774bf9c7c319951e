#include "live_outlook.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { LANES = LIVE_LANES, G = PRED_G, M = PRED_M };

/* Atoms less likely than this change no decision. */
#define NEGLIGIBLE 1e-5

/* The arrivals of one cluster atom, tick by tick. */
struct course {
    double log_late;            /* log probability that one is still late */
    double at_s;                /* when */
    double fewer[LIVE_COUNTS];  /* probability that fewer than k have come */
    double gain[LIVE_COUNTS];   /* expected arrivals, the first k at most */
    double wait_s[LIVE_COUNTS]; /* expected time with fewer than k */
};

/* On to a tick.  The numbers arrived are binomial.  At a constant hazard h the
 * probability p_j of exactly j falls into that of more at the rate
 * h (late - j) p_j: which gives the time spent there. */
static void advance(const struct live_outlook *o, struct course *c, double at_s,
                    double log_late)
{
    double late = (double)o->late, s = exp(log_late), odds = (1 - s) / s;
    double hazard = c->log_late - log_late, dt_s = at_s - c->at_s;
    double exactly = exp(late * log_late), fewer = 0, gain = 0, wait_s = 0;

    for (size_t k = 0; k < o->counts; k++) {
        double more = late - (double)k;
        fewer = fmin(fewer + exactly, 1);
        exactly *= more / ((double)k + 1) * odds;
        if (hazard > 1e-9)
            wait_s += dt_s / hazard * (c->fewer[k] - fewer) / more;
        else
            wait_s = dt_s * fewer;
        c->fewer[k] = fewer;
        gain += 1 - fewer;
        c->gain[k] = gain;
        c->wait_s[k] += wait_s;
    }
    c->at_s = at_s;
    c->log_late = log_late;
}

static void add_course(struct live_outlook *o, double weight, const float *sum)
{
    struct course c = {.at_s = o->now_s};

    for (size_t k = 0; k < o->counts; k++)
        c.fewer[k] = 1;
    for (size_t q = 0; q < o->ticks; q++) {
        double left = 0;
        for (size_t m = 0; m < M; m++)
            left += sum[q * LANES + m];
        double s = fmin(fmax(left / (weight * (double)o->late), 1e-12), 1);
        advance(o, &c, o->tau_s[q], fmin(log(s), c.log_late));
        for (size_t k = 0; k < o->counts; k++) {
            o->gain[k][q] += weight * c.gain[k];
            o->wait_s[k][q] += weight * c.wait_s[k];
        }
    }
}

void live_outlook_expect(struct live_outlook *o, const double *p,
                         const float *sum)
{
    for (size_t q = 0; q < o->ticks; q++) {
        o->left[q] = 0;
        for (size_t l = 0; l < LANES; l++)
            o->left[q] += sum[q * LANES + l];
    }
    for (size_t k = 0; k < o->counts; k++) {
        memset(o->gain[k], 0, o->ticks * sizeof *o->gain[k]);
        memset(o->wait_s[k], 0, o->ticks * sizeof *o->wait_s[k]);
    }
    for (size_t g = 0; g < G && o->counts; g++) {
        if (p[g] > NEGLIGIBLE)
            add_course(o, p[g], sum + g * M);
    }
}

static void take_better(struct live_choice *best, double *value, double lambda,
                        const struct live_choice *plan)
{
    double v = plan->expected - lambda * plan->close_s;

    if (v > *value) {
        *value = v;
        *best = *plan;
    }
}

struct live_choice live_outlook_best(const struct live_outlook *o,
                                     double lambda)
{
    double arrived = (double)o->arrived;
    struct live_choice best = {true, o->now_s, arrived, SIZE_MAX};
    double value = arrived - lambda * o->now_s;

    for (size_t q = 0; q < o->ticks; q++) {
        struct live_choice plan = {.close_s = o->tau_s[q], .count = SIZE_MAX};
        plan.expected = arrived + (double)o->late - o->left[q];
        take_better(&best, &value, lambda, &plan);
    }
    for (size_t k = 0; k < o->counts; k++) {
        for (size_t q = 0; q < o->ticks; q++) {
            struct live_choice plan = {.close_s = o->now_s + o->wait_s[k][q],
                                       .expected = arrived + o->gain[k][q],
                                       .count = o->arrived + k + 1};
            take_better(&best, &value, lambda, &plan);
        }
    }
    return best;
}
