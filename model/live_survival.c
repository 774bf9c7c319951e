#include "live_survival.h"

#include <stdbool.h>

#include "vmath.h"

enum { LANES = LIVE_LANES, K = PRED_K };

/* Eight lanes at a time, in the compilers' own vectors: the loops below are
 * most of the cost of a step, and left to themselves they make 16 + 8 scalar
 * ones of the 24 lanes.  Passed by pointer: vectors in registers are no matter
 * of the ABI then. */
typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t v8i __attribute__((vector_size(32)));

enum { WIDE = LIVE_WIDE };

_Static_assert(LANES % WIDE == 0, "no lane is left over");
_Static_assert(sizeof(v8) == WIDE * sizeof(float), "a vector is a block");

/* In units of y: a tail is 1 - 6e-8 at ALIVE and 9e-17 at DEAD. */
#define ALIVE -4.5f
#define DEAD  7.f

/* out = 2^x to a relative 7e-7, |x| < 126. */
VM_INLINE void power_of_two(const v8 *x, v8 *out)
{
    const float round = 12582912.f; /* 1.5 * 2^23: its low bits are the power */
    v8 shifted = *x + round;
    v8 f = *x - (shifted - round);
    v8 e = f * .0095701f + .05591786f;
    e = e * f + .24024745f;
    e = e * f + .69312181f;
    e = e * f + .99999926f;
    *out = e * (v8)(((v8i)shifted << 23) + 0x3f800000);
}

/* tail = 1 - Phi(z) for y = LIVE_SF_SCALE z, to a relative 5e-5 for z <= 12 and
 * below 1e-30 beyond: cheaper than vm_normal_sf.  Mills' ratio is a polynomial
 * in 1 / (1 + .252 |z|), and 2^f one in f, both fitted by least relative
 * error. */
VM_INLINE void quick_sf(const v8 *y, v8 *tail)
{
    v8 a = (v8)((v8i)*y & 0x7fffffff), e;
    v8i far = a > 10.2f;
    a = (v8)(((v8i)a & ~far) | ((v8i)((v8){0} + 10.2f) & far));
    v8 u = 1.f / (1.f + .29670733f * a);
    v8 r = u * .22810754f - .08411495f;
    r = r * u + .17009460f;
    r = r * u + .08402548f;
    r = r * u + .10190317f;
    v8 x = -a * a;
    power_of_two(&x, &e);
    v8 t = r * u * e;
    *tail = t + (v8)((v8i)(1.f - 2.f * t) & (*y < 0.f));
}

/* One component in eight lanes: tail(log_s) = weight SF((log_s - at) rate). */
struct lanes {
    v8 at, rate, weight;
};

VM_INLINE void take_lanes(const struct live_mixture *m, size_t k, size_t first,
                          struct lanes *l)
{
    l->at = *(const v8 *)(m->shift + first) + m->mu[k];
    l->rate = *(const v8 *)(m->scale + first) * m->precision[k];
    l->weight = *(const v8 *)(m->weight + k * LANES + first);
}

VM_INLINE void weighted_sf(const struct lanes *l, float log_s, v8 *out)
{
    v8 y = (log_s - l->at) * l->rate;
    quick_sf(&y, out);
    *out *= l->weight;
}

VM_CLONES
void live_survival_at(const struct live_mixture *m, float log_s, float *out)
{
    for (size_t i = 0; i < LANES; i += WIDE) {
        v8 sum = (v8){0} + LIVE_MIN_SURVIVAL, part;
        for (size_t k = 0; k < K; k++) {
            struct lanes l;
            take_lanes(m, k, i, &l);
            weighted_sf(&l, log_s, &part);
            sum += part;
        }
        *(v8 *)(out + i) = sum;
    }
}

/* Which ticks of a component need what, in all lanes alike. */
struct plan {
    size_t alive; /* before this tick none has begun to die */
    size_t dead;  /* from this tick on all are dead */
    size_t even;  /* up to this tick the tails are added up */
    size_t run;   /* at most so many cells at a time */
};

/* Adding up needs cells narrow enough for their series, and a run's first and
 * last cell within the range of a float's exponent. */
#define MAX_CELL .65f
#define MAX_RUN  3.9f

enum { LONG_RUN = 16 };

static struct plan make_plan(const struct live_mixture *m,
                             const struct live_ticks *t, size_t k)
{
    float low = m->precision[k] * m->scales.low;
    float cell = m->precision[k] * m->scales.high * t->step;
    float alive_s = m->mu[k] + m->shifts.low + ALIVE / low;
    float dead_s = m->mu[k] + m->shifts.high + DEAD / low;
    struct plan p = {.dead = t->n};

    while (p.dead > 0 && t->log_s[p.dead - 1] > dead_s)
        p.dead--;
    if (t->even > 1 && cell < MAX_CELL) {
        p.even = p.dead < t->even ? p.dead : t->even;
        p.run = cell > MAX_RUN / LONG_RUN ? (size_t)(MAX_RUN / cell) : LONG_RUN;
        return p;
    }
    while (p.alive < p.dead && t->log_s[p.alive] < alive_s)
        p.alive++;
    return p;
}

/* Series of the integral of the normal density over a cell of width d around z,
 * over its value at z: d sum_i (d / 2)^2i He_2i(z) / (2i + 1)!, up to i = 3, as
 * a polynomial in y^2, weight and density's constant included.  What is left
 * out is some (d z)^8 / 9e7 of it. */
struct cell {
    v8 c0, c1, c2, c3;
};

VM_INLINE void make_cell(const struct lanes *l, float step, struct cell *c)
{
    const float s = 1.3862944f; /* z^2 = s y^2 */
    v8 width = l->rate * step;
    v8 d = width * width * s;
    v8 c1 = d * (1 / 24.f), c2 = d * d * (1 / 1920.f);
    v8 c3 = d * d * d * (1 / 322560.f);
    v8 scale = l->weight * width * .46971864f; /* 1 / sqrt(2 pi) in y */

    c->c0 = (1.f - c1 + 3.f * c2 - 15.f * c3) * scale;
    c->c1 = (c1 - 6.f * c2 + 45.f * c3) * (scale * s);
    c->c2 = (c2 - 15.f * c3) * (scale * (s * s));
    c->c3 = c3 * (scale * (s * s * s));
}

/* The first component finds nothing to be added to. */
VM_INLINE void add(bool first, const v8 *x, v8 *out)
{
    if (first)
        *out = *x + LIVE_MIN_SURVIVAL;
    else
        *out += *x;
}

VM_INLINE void none_left(bool first, size_t from, size_t to, v8 *out)
{
    for (size_t q = from; first && q < to; q++)
        out[q] = (v8){0} + LIVE_MIN_SURVIVAL;
}

/* Add the tails at ticks [from, to) to out, one by one. */
VM_INLINE void add_ticks(const struct lanes *l, const float *log_s, size_t from,
                         size_t to, bool first, v8 *out)
{
    for (size_t q = from; q < to; q++) {
        v8 tail;
        weighted_sf(l, log_s[q], &tail);
        add(first, &tail, &out[q]);
    }
}

/* Add the tails at the even ticks up to p->even.  From the last one down each
 * is the next one's plus the integral over the cell between, which is positive:
 * nothing is lost.  The density 2^-y^2 at the cells' middles goes on by
 *   -(y - d)^2 = -y^2 + (2 y d - d^2),   the bracket itself by -2 d^2,
 * for a run of cells; a lane in which it would underflow has nothing to add in
 * this run. */
VM_INLINE void add_even(const struct lanes *l, const struct plan *p,
                        const struct live_ticks *t, bool first, v8 *out)
{
    size_t last = p->even < t->even ? p->even : t->even - 1;
    v8 d = l->rate * t->step, x = -2.f * d * d, sum, bend;
    struct cell c;

    make_cell(l, t->step, &c);
    power_of_two(&x, &bend);
    weighted_sf(l, t->log_s[last], &sum);
    add(first, &sum, &out[last]);
    none_left(first, last + 1, t->even, out);
    while (last > 0) {
        size_t run = last < p->run ? last : p->run;
        v8 y = (t->log_s[last] - l->at) * l->rate - .5f * d, density, ratio;
        v8i near = (y > -6.f) & (y < 10.9f);
        x = (v8)((v8i)(-y * y) & near);
        power_of_two(&x, &density);
        density = (v8)((v8i)density & near);
        x = (v8)((v8i)(d * (2.f * y - d)) & near);
        power_of_two(&x, &ratio);
        for (size_t q = last; q-- > last - run;) {
            v8 u = y * y;
            sum += (((c.c3 * u + c.c2) * u + c.c1) * u + c.c0) * density;
            add(first, &sum, &out[q]);
            density *= ratio;
            ratio *= bend;
            y -= d;
        }
        last -= run;
    }
}

VM_INLINE void add_component(const struct lanes *l, const struct plan *p,
                             const struct live_ticks *t, bool first, v8 *out)
{
    size_t from = p->alive;

    for (size_t q = 0; q < p->alive; q++)
        add(first, &l->weight, &out[q]);
    if (p->even) {
        add_even(l, p, t, first, out);
        from = t->even;
    }
    add_ticks(l, t->log_s, from, p->dead, first, out);
    none_left(first, from > p->dead ? from : p->dead, t->n, out);
}

VM_CLONES
void live_survival_ticks(const struct live_mixture *m,
                         const struct live_ticks *t, float *out)
{
    struct plan plan[K];

    for (size_t k = 0; k < K; k++)
        plan[k] = make_plan(m, t, k);
    for (size_t i = 0; i < LANES; i += WIDE, out += LIVE_COLS * WIDE) {
        v8 *at = (v8 *)(void *)out;
        struct lanes l;
        take_lanes(m, 0, i, &l);
        add_component(&l, &plan[0], t, true, at);
        for (size_t k = 1; k < K; k++) {
            take_lanes(m, k, i, &l);
            add_component(&l, &plan[k], t, false, at);
        }
    }
}

/* Two ticks at a time, which vectors of any width divide. */
VM_CLONES
void live_add_late(const float *posterior, const float *now, size_t ticks,
                   const float *restrict survival, float *restrict sum)
{
    float w[2 * WIDE];

    for (size_t i = 0; i < WIDE; i++)
        w[i] = w[WIDE + i] = posterior[i] / now[i];
    if (ticks % 2) {
        for (size_t i = 0; i < WIDE; i++)
            sum[i] += w[i] * survival[i];
        survival += WIDE;
        sum += WIDE;
    }
    for (size_t q = 0; q < ticks / 2; q++) {
#pragma omp simd
        for (size_t i = 0; i < 2 * WIDE; i++)
            sum[i] += w[i] * survival[i];
        survival += 2 * WIDE;
        sum += 2 * WIDE;
    }
}

VM_CLONES
void live_log_density(const struct live_mixture *m, float log_s,
                      const float *log_sd, const float *log_scale, float *out)
{
    float part[K][LANES], top[LANES], sum[LANES];

    for (size_t k = 0; k < K; k++) {
        const float *w = m->weight + k * LANES;
        float d = log_s - m->mu[k];
#pragma omp simd
        for (size_t l = 0; l < LANES; l++) {
            float z = (d - m->shift[l]) * (m->precision[k] * m->scale[l]);
            part[k][l] = vm_log(w[l]) - .69314718f * z * z - log_sd[k] -
                         log_scale[l] - .91893853f;
        }
    }
    for (size_t l = 0; l < LANES; l++) {
        top[l] = part[0][l];
        sum[l] = 0;
    }
    for (size_t k = 1; k < K; k++) {
        for (size_t l = 0; l < LANES; l++)
            top[l] = part[k][l] > top[l] ? part[k][l] : top[l];
    }
    for (size_t k = 0; k < K; k++) {
#pragma omp simd
        for (size_t l = 0; l < LANES; l++)
            sum[l] += vm_exp(part[k][l] - top[l]);
    }
#pragma omp simd
    for (size_t l = 0; l < LANES; l++)
        out[l] = top[l] + vm_log(sum[l]);
}
