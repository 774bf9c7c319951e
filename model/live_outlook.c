#include "live_outlook.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "vmath.h"

/* Of the time between two ticks at which a plan closes. */
enum { BISECTIONS = 10 };

/* Workers that a plan is to gain, where it could be made anew all the time.
 * With .05 steps of 2175 iid workers close one worker later, to no gain. */
#define LEAST_GAIN .1

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

/* On to a tick by which one is late yet with probability s.  The numbers
 * arrived are binomial.  At a constant hazard h the probability p_j of exactly
 * j falls into that of more at the rate h (late - j) p_j: which gives the time
 * spent there. */
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

void live_outlook_left(struct live_outlook *o, const float *sum, size_t from,
                       size_t to)
{
    for (size_t q = from; q < to; q++) {
        o->left[q] = 0;
        for (size_t l = 0; l < LANES; l++)
            o->left[q] += sum[q * LANES + l];
    }
}

bool live_outlook_is_dense(const struct live_outlook *o)
{
    return o->ticks > 1 &&
           ((double)o->late - o->left[0]) * (o->tau_s[1] - o->tau_s[0]) >=
               LIVE_COUNTS_MIN * (o->tau_s[0] - o->now_s);
}

void live_outlook_expect(struct live_outlook *o, const double *p,
                         const float *sum)
{
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

/* Knots, the moments at which the number late is known: now, later ticks. */
static double knot_s(const struct live_outlook *o, size_t i)
{
    return i ? o->tau_s[i - 1] : o->now_s;
}

static double late_at(const struct live_outlook *o, size_t i)
{
    return i ? fmax(o->left[i - 1], 1e-9) : (double)o->late;
}

/* The hazard of one that is late, between knots i and i + 1. */
static double hazard_between(const struct live_outlook *o, size_t i)
{
    return log(late_at(o, i) / late_at(o, i + 1)) /
           (knot_s(o, i + 1) - knot_s(o, i));
}

/* That at knot i, on a line from the middle of one interval to that of the
 * next, and low enough that the cubics between knots do not turn. */
static double hazard_at(const struct live_outlook *o, size_t i)
{
    size_t mid = i < 1 ? 1 : i < o->ticks ? i : o->ticks - 1;
    double a = hazard_between(o, mid - 1), b = hazard_between(o, mid);
    double first_s = (knot_s(o, mid - 1) + knot_s(o, mid)) / 2;
    double last_s = (knot_s(o, mid) + knot_s(o, mid + 1)) / 2;
    double f = (knot_s(o, i) - first_s) / (last_s - first_s);
    double least = i < mid ? a : i > mid ? b : fmin(a, b);

    return fmax(0, fmin(a + f * (b - a), 3 * least));
}

/* The sum of hazard from knot i on, a cubic in the share u of the time to the
 * next one: u (h0 + u (c2 + u c3)). */
struct stretch {
    double width_s, h0, h1, c2, c3;
};

static struct stretch stretch_at(const struct live_outlook *o, size_t i)
{
    struct stretch s = {.width_s = knot_s(o, i + 1) - knot_s(o, i)};
    double h = hazard_between(o, i) * s.width_s;

    s.h0 = hazard_at(o, i) * s.width_s;
    s.h1 = hazard_at(o, i + 1) * s.width_s;
    s.c2 = 3 * h - 2 * s.h0 - s.h1;
    s.c3 = s.h0 + s.h1 - 2 * h;
    return s;
}

static double left_between(const struct live_outlook *o, size_t i,
                           const struct stretch *s, double u)
{
    return late_at(o, i) * exp(-u * (s->h0 + u * (s->c2 + u * s->c3)));
}

double live_outlook_rate(const struct live_outlook *o)
{
    return o->ticks < 2 ? NAN : (double)o->late * hazard_at(o, 0);
}

double live_outlook_left_at(const struct live_outlook *o, double at_s)
{
    size_t i = 0;

    while (i < o->ticks && knot_s(o, i + 1) < at_s)
        i++;
    if (o->ticks < 2 || i == o->ticks || !(at_s >= o->now_s))
        return NAN;
    struct stretch s = stretch_at(o, i);
    return left_between(o, i, &s, (at_s - knot_s(o, i)) / s.width_s);
}

/* The time between knots i and i + 1 at which the rate of arrivals falls to
 * lambda, if there is one. */
static void take_between(const struct live_outlook *o, size_t i, double lambda,
                         struct live_choice *best, double *value)
{
    struct stretch s = stretch_at(o, i);
    double low = 0, high = 1, u = .5, left = late_at(o, i);

    if (!(left * s.h0 > lambda * s.width_s) ||
        !(late_at(o, i + 1) * s.h1 < lambda * s.width_s))
        return;
    for (int step = 0; step < BISECTIONS; step++) {
        u = (low + high) / 2;
        left = left_between(o, i, &s, u);
        if (left * (s.h0 + u * (2 * s.c2 + u * 3 * s.c3)) > lambda * s.width_s)
            low = u;
        else
            high = u;
    }
    struct live_choice plan = {.close_s = knot_s(o, i) + u * s.width_s,
                               .expected =
                                   (double)(o->arrived + o->late) - left,
                               .count = SIZE_MAX,
                               .between = true};
    take_better(best, value, lambda, &plan);
}

struct live_choice live_outlook_best(const struct live_outlook *o,
                                     double lambda)
{
    double arrived = (double)o->arrived, now = arrived - lambda * o->now_s;
    const struct live_choice close = {true, o->now_s, arrived, SIZE_MAX, false};
    struct live_choice best = close;
    double value = now;
    size_t knot = 0;

    for (size_t q = 0; q < o->ticks; q++) {
        struct live_choice plan = {.close_s = o->tau_s[q], .count = SIZE_MAX};
        plan.expected = arrived + (double)o->late - o->left[q];
        take_better(&best, &value, lambda, &plan);
        if (best.close_s == o->tau_s[q])
            knot = q + 1;
    }
    if (o->dense && knot > 0)
        take_between(o, knot - 1, lambda, &best, &value);
    if (o->dense && knot < o->ticks)
        take_between(o, knot, lambda, &best, &value);
    for (size_t k = 0; k < o->counts; k++) {
        for (size_t q = 0; q < o->ticks; q++) {
            struct live_choice plan = {.close_s = o->now_s + o->wait_s[k][q],
                                       .expected = arrived + o->gain[k][q],
                                       .count = o->arrived + k + 1};
            take_better(&best, &value, lambda, &plan);
        }
    }
    if (o->dense && value - now < LEAST_GAIN)
        return close;
    return best;
}
