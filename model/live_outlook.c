#include "live_outlook.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "vmath.h"

enum { LANES = LIVE_LANES, G = PRED_G, M = PRED_M };

/* All cluster atoms side by side, in the compilers' own vectors; the lanes
 * beyond have weight 0. */
enum { WIDE = 8 };
typedef double v8 __attribute__((vector_size(64)));
typedef int64_t v8i __attribute__((vector_size(64)));

_Static_assert((int)G <= (int)WIDE, "a lane for each cluster atom");

/* The arrivals given each cluster atom, tick by tick. */
struct course {
    v8 weight;                    /* of the atoms */
    v8 late;                      /* probability that one is still late */
    double at_s;                  /* when */
    v8 fewer[LIVE_COUNTS];        /* probability that fewer than k have come */
    v8 wait_s[LIVE_COUNTS];       /* expected time with fewer than k */
    double ratio[LIVE_COUNTS];    /* (late - k) / (k + 1) */
    double per_more[LIVE_COUNTS]; /* 1 / (late - k) */
};

/* log x, x in [1e-300, 1], to 1e-11: x = 2^n m, log m = 2 atanh((m-1)/(m+1)).
 * By pointer: vectors in registers are no matter of the ABI then. */
VM_INLINE void log_v8(const v8 *x, v8 *out)
{
    const int64_t low = 0x3fe6a09e667f3bcd; /* sqrt 1/2 */
    v8i shifted = (v8i)*x + (0x3ff0000000000000 - low);
    v8 n = (v8)((shifted >> 52) | 0x4330000000000000) - (0x1p52 + 1023);
    v8 m = (v8)((shifted & 0xfffffffffffff) + low);
    v8 f = (m - 1.) / (m + 1.), z = f * f;
    v8 p = z * (1. / 13) + 1. / 11;
    p = p * z + 1. / 9;
    p = p * z + 1. / 7;
    p = p * z + 1. / 5;
    p = p * z + 1. / 3;
    *out = n * .69314718055994531 + 2. * f * (p * z + 1.);
}

VM_INLINE void power_v8(const v8 *x, size_t n, v8 *out)
{
    v8 base = *x, y = (v8){0} + 1.;

    for (; n; n >>= 1, base *= base) {
        if (n & 1)
            y *= base;
    }
    *out = y;
}

VM_INLINE void min_v8(v8 *x, const v8 *y)
{
    v8i less = *y < *x;
    *x = (v8)(((v8i)*y & less) | ((v8i)*x & ~less));
}

VM_INLINE double weighted(const v8 *weight, const v8 *x)
{
    v8 y = *weight * *x;

    y += __builtin_shufflevector(y, y, 4, 5, 6, 7, 0, 1, 2, 3);
    y += __builtin_shufflevector(y, y, 2, 3, 0, 1, 6, 7, 4, 5);
    return y[0] + y[1];
}

/* On to a tick by which one is late yet with probability s.  The numbers arrived
 * are binomial.  At a constant hazard h the probability p_j of exactly j falls
 * into that of more at the rate h (late - j) p_j: which gives the time spent
 * there. */
VM_INLINE void advance(struct live_outlook *o, struct course *c, size_t q,
                       const v8 *s)
{
    const v8 one = (v8){0} + 1.;
    v8 kept = *s / c->late, odds = (1. - *s) / *s;
    v8 exactly, fewer = {0}, gain = {0}, flowed = {0}, hazard;
    double dt_s = o->tau_s[q] - c->at_s;

    power_v8(s, o->late, &exactly);
    log_v8(&kept, &hazard);
    hazard = -hazard;
    v8i some = hazard > 1e-9;
    v8 time_s = dt_s / (v8)(((v8i)hazard & some) | ((v8i)one & ~some));
    for (size_t k = 0; k < o->counts; k++) {
        fewer += exactly;
        min_v8(&fewer, &one);
        exactly *= c->ratio[k] * odds;
        flowed += time_s * (c->fewer[k] - fewer) * c->per_more[k];
        v8 spent_s = dt_s * fewer;
        spent_s = (v8)(((v8i)flowed & some) | ((v8i)spent_s & ~some));
        c->fewer[k] = fewer;
        gain += 1. - fewer;
        c->wait_s[k] += spent_s;
        o->gain[k][q] = weighted(&c->weight, &gain);
        o->wait_s[k][q] = weighted(&c->weight, &c->wait_s[k]);
    }
    c->at_s = o->tau_s[q];
    c->late = *s;
}

VM_CLONES
static void add_courses(struct live_outlook *o, const double *p,
                        const float *sum)
{
    const v8 one = (v8){0} + 1.;
    struct course c = {.at_s = o->now_s, .late = one};
    v8 per_late = {0};

    for (size_t g = 0; g < G; g++) {
        c.weight[g] = p[g];
        per_late[g] = 1 / (fmax(p[g], 1e-30) * (double)o->late);
    }
    for (size_t k = 0; k < o->counts; k++) {
        double more = (double)(o->late - k);
        c.fewer[k] = one;
        c.wait_s[k] = (v8){0};
        c.ratio[k] = more / ((double)k + 1);
        c.per_more[k] = 1 / more;
    }
    for (size_t q = 0; q < o->ticks; q++) {
        double left[WIDE] = {0};
        v8 s, least = (v8){0} + 1e-12;
        for (size_t l = 0; l < LANES; l++)
            left[l / M] += sum[q * LANES + l];
        memcpy(&s, left, sizeof s);
        s *= per_late;
        min_v8(&s, &c.late);
        v8i low = s < least;
        s = (v8)(((v8i)least & low) | ((v8i)s & ~low));
        advance(o, &c, q, &s);
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
    if (o->counts)
        add_courses(o, p, sum);
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
