#include "live_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "vmath.h"

enum { LANES = LIVE_LANES, M = PRED_M, K = PRED_K };

/* Workers that the quantiles of the grid are taken from, evenly spread. */
enum { POOL_MAX = 64 };

#define MIN_SURVIVAL 1e-12f

/* Where the ticks begin: few enough must be left out that a cluster most of
 * which is slow can be closed with its fast ones. */
#define LOWEST .1

/* Ticks above the 99 % quantile, in the log: close at first, for the last ones
 * of many workers. */
static const double beyond[LIVE_TAIL] = {.02, .04, .06, .09, .12, .15,
                                         .2,  .3,  .5,  .8,  1.2, 2};

static void *allocate(size_t count, size_t each, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, each, &bytes) ||
        __builtin_mul_overflow(bytes, size, &bytes) || bytes > SIZE_MAX - 64)
        return NULL;
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (p)
        memset(p, 0, bytes);
    return p;
}

bool live_table_init(struct live_table *t, size_t n, size_t n_nodes,
                     const uint32_t *node)
{
    *t = (struct live_table){
        .n = n, .n_nodes = n_nodes, .log_low = NAN, .log_high = NAN};
    t->node = allocate(n, 1, sizeof *t->node);
    t->survival = allocate(n, LIVE_COLS * LANES, sizeof *t->survival);
    t->weight = allocate(n, K * LANES, sizeof *t->weight);
    t->precision = allocate(n, K, sizeof *t->precision);
    t->shift = allocate(n_nodes, LANES, sizeof *t->shift);
    t->prior = allocate(n_nodes, LANES, sizeof *t->prior);
    if (!t->node || !t->survival || !t->weight || !t->precision || !t->shift ||
        !t->prior) {
        live_table_destroy(t);
        return false;
    }
    memcpy(t->node, node, n * sizeof *node);
    return true;
}

void live_table_destroy(struct live_table *t)
{
    free(t->node);
    free(t->survival);
    free(t->weight);
    free(t->precision);
    free(t->shift);
    free(t->prior);
    *t = (struct live_table){0};
}

/* Sixteen lanes at a time, in the compilers' own vectors: the loop below is most
 * of the cost of a step, and left to themselves they make 16 + 8 scalar ones of
 * the 24 lanes.  Two ticks together are 48 lanes, three whole vectors. */
typedef float v16 __attribute__((vector_size(64), aligned(4)));
typedef int32_t v16i __attribute__((vector_size(64)));

enum { WIDE = 16, PAIR = 2 * LANES };

_Static_assert(PAIR % WIDE == 0 && LIVE_COLS % 2 == 0, "no lane is left over");

/* Precisions carry sqrt(log2(e) / 2), so that exp(-z^2 / 2) = 2^-y^2. */
#define SF_SCALE .84932180f

/* tail = 1 - Phi(z) for y = SF_SCALE z, to a relative 5e-5 for z <= 12 and below
 * 1e-30 beyond: cheaper than vm_normal_sf.  Mills' ratio is a polynomial in
 * 1 / (1 + .252 |z|), and 2^f one in f, both fitted by least relative error.
 * By pointer: vectors in registers are no matter of the ABI then. */
VM_INLINE void quick_sf(const v16 *y, v16 *tail)
{
    const float round = 12582912.f; /* 1.5 * 2^23: its low bits are the power */
    v16 a = (v16)((v16i)*y & 0x7fffffff);
    v16i far = a > 10.2f;
    a = (v16)(((v16i)a & ~far) | ((v16i)((v16){0} + 10.2f) & far));
    v16 u = 1.f / (1.f + .29670733f * a);
    v16 r = u * .22810754f - .08411495f;
    r = r * u + .17009460f;
    r = r * u + .08402548f;
    r = r * u + .10190317f;
    v16 x = -a * a, shifted = x + round;
    v16 f = x - (shifted - round);
    v16 e = f * .0095701f + .05591786f;
    e = e * f + .24024745f;
    e = e * f + .69312181f;
    e = e * f + .99999926f;
    v16 power = (v16)(((v16i)shifted << 23) + 0x3f800000);
    v16 t = (r * u) * (e * power);
    *tail = t + (v16)((v16i)(1.f - 2.f * t) & (*y < 0.f));
}

/* The K components of one worker, ready for the inner loop; the lanes twice. */
struct row {
    const float *mu; /* [K] */
    float shift[PAIR];
    float weight[K][PAIR];
    float precision[K][PAIR]; /* SF_SCALE / sd */
};

static void row_of(const struct live_table *t, size_t j, struct row *r)
{
    const float *shift = t->shift + (size_t)t->node[j] * LANES;

    r->mu = t->p->mu + j * K;
    memcpy(r->shift, shift, LANES * sizeof *shift);
    memcpy(r->shift + LANES, shift, LANES * sizeof *shift);
    for (size_t k = 0; k < K; k++) {
        const float *w = t->weight + (j * K + k) * LANES;
        memcpy(r->weight[k], w, LANES * sizeof *w);
        memcpy(r->weight[k] + LANES, w, LANES * sizeof *w);
        for (size_t l = 0; l < LANES; l++) {
            r->precision[k][l] = r->precision[k][LANES + l] =
                t->precision[j * K + k] * t->precision_scale[l];
        }
    }
}

/* Survival of the first `lanes` lanes (16, 32 or 48) at pairs of log times.
 *   log_s  [pairs][PAIR] each lane's own
 *   out    [pairs][lanes] */
VM_CLONES
static void survive(const struct row *r, size_t pairs, size_t lanes,
                    const float *log_s, float *out)
{
    for (size_t i = 0; i < lanes; i += WIDE) {
        v16 shift = *(const v16 *)(r->shift + i);
        for (size_t q = 0; q < pairs; q++) {
            v16 sum = (v16){0} + MIN_SURVIVAL;
            v16 at = *(const v16 *)(log_s + q * PAIR + i) - shift;
            for (size_t k = 0; k < K; k++) {
                v16 tail, y = at - r->mu[k];
                y *= *(const v16 *)(r->precision[k] + i);
                quick_sf(&y, &tail);
                sum += *(const v16 *)(r->weight[k] + i) * tail;
            }
            *(v16 *)(out + q * lanes + i) = sum;
        }
    }
}

/* The log times of cols ticks, in pairs; an odd last one twice. */
static size_t pair_up(size_t cols, const float *log_s, float *pair)
{
    for (size_t q = 0; q < (cols + 1) / 2 * 2; q++) {
        for (size_t l = 0; l < LANES; l++)
            pair[q * LANES + l] = log_s[q < cols ? q : cols - 1];
    }
    return (cols + 1) / 2;
}

void live_table_survival(const struct live_table *t, size_t worker,
                         double log_s, float *out)
{
    enum { SOME = 2 * WIDE };
    struct row r;
    float at[PAIR], some[SOME];

    for (size_t l = 0; l < SOME; l++)
        at[l] = (float)log_s;
    row_of(t, worker, &r);
    survive(&r, 1, SOME, at, some);
    memcpy(out, some, LANES * sizeof *out);
}

void live_table_fill(struct live_table *t)
{
    float pair[LIVE_COLS * LANES];
    size_t pairs = pair_up(t->cols, t->log_tau, pair);

    for (size_t j = 0; j < t->n; j++) {
        struct row r;
        row_of(t, j, &r);
        survive(&r, pairs, PAIR, pair, t->survival + j * LIVE_COLS * LANES);
    }
}

void live_table_row(struct live_table *t, size_t worker, double start_s)
{
    struct row r;
    float own[LIVE_COLS], pair[LIVE_COLS * LANES];

    for (size_t q = 0; q < t->cols; q++)
        own[q] = (float)log(fmax(t->tau_s[q] - start_s, 1e-30));
    size_t pairs = pair_up(t->cols, own, pair);
    row_of(t, worker, &r);
    survive(&r, pairs, PAIR, pair, t->survival + worker * LIVE_COLS * LANES);
}

VM_CLONES
static void density(const struct row *r, float log_s, const float *log_prec,
                    const float *log_scale, float *out)
{
    float part[K][LANES], top[LANES], sum[LANES];

    for (size_t k = 0; k < K; k++) {
        const float *w = r->weight[k], *h = r->precision[k];
        float d = log_s - r->mu[k];
#pragma omp simd
        for (size_t l = 0; l < LANES; l++) {
            float z = (d - r->shift[l]) * h[l];
            part[k][l] = vm_log(w[l]) - .69314718f * z * z + log_prec[k] -
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

void live_table_log_density(const struct live_table *t, size_t worker,
                            double log_s, float *out)
{
    struct row r;
    float log_prec[K], log_scale[LANES];

    row_of(t, worker, &r);
    for (size_t k = 0; k < K; k++)
        log_prec[k] = -t->p->log_sd[worker * K + k];
    for (size_t l = 0; l < LANES; l++)
        log_scale[l] = t->p->scale[l / M];
    density(&r, (float)log_s, log_prec, log_scale, out);
}

/* Probability that the worker still runs at log_s, all atoms averaged. */
static double prior_survival(const struct live_table *t, size_t worker,
                             double log_s)
{
    const float *prior = t->prior + (size_t)t->node[worker] * LANES;
    float s[LANES], sum = 0;

    live_table_survival(t, worker, log_s, s);
    for (size_t l = 0; l < LANES; l++)
        sum += prior[l] * s[l];
    return sum;
}

double live_table_median_s(const struct live_table *t, size_t worker)
{
    double low = t->p->mu[worker * K] - 4, high = low + 12;

    for (int i = 0; i < 18; i++) {
        double mid = (low + high) / 2;
        if (prior_survival(t, worker, mid) > .5)
            low = mid;
        else
            high = mid;
    }
    return exp((low + high) / 2);
}

/* Share of the pool that is done by log_s, less p. */
static double pool_excess(const struct live_table *t, double log_s, double p)
{
    size_t pool = t->n < POOL_MAX ? t->n : POOL_MAX;
    double sum = 0;

    for (size_t i = 0; i < pool; i++)
        sum += prior_survival(t, (2 * i + 1) * t->n / (2 * pool), log_s);
    return 1 - sum / (double)pool - p;
}

/* Quantile of the pooled durations to about .002 in the log: bracketed from a
 * guess, then the Illinois variant of false position.  NaN if there is none. */
static double pool_quantile(const struct live_table *t, double p, double guess)
{
    double step = .05, a = guess, b = guess, fa, fb;

    fa = fb = pool_excess(t, guess, p);
    for (int i = 0; i < 12 && fa > 0; i++, step *= 2) {
        b = a;
        fb = fa;
        a -= step;
        fa = pool_excess(t, a, p);
    }
    for (int i = 0; i < 12 && fb < 0; i++, step *= 2) {
        a = b;
        fa = fb;
        b += step;
        fb = pool_excess(t, b, p);
    }
    if (!(fa <= 0 && fb >= 0))
        return NAN;
    for (int i = 0, side = 0; i < 20 && b - a > .002; i++) {
        double c = fb > fa ? (a * fb - b * fa) / (fb - fa) : (a + b) / 2;
        double fc = pool_excess(t, c, p);
        if (fabs(fc) < 2e-4)
            return c;
        if (fc > 0) {
            b = c;
            fb = fc;
            fa *= side == 1 ? .5 : 1;
            side = 1;
        } else {
            a = c;
            fa = fc;
            fb *= side == -1 ? .5 : 1;
            side = -1;
        }
    }
    return (a + b) / 2;
}

void live_table_grid(struct live_table *t, double log_low, double log_high,
                     const double *tail, size_t n_tail)
{
    double step = fmax(.02, (log_high - log_low) / LIVE_STEPS);
    size_t q = 0;

    t->log_low = log_low;
    t->log_high = log_high;
    while (q < LIVE_STEPS + 2 &&
           log_low + (double)q * step < log_high + step * (1 - 1e-9)) {
        t->log_tau[q] = (float)(log_low + (double)q * step);
        q++;
    }
    for (size_t i = 0; i < n_tail; i++) {
        /* the last even tick may lie beyond the quantile by up to a step */
        if ((float)(log_high + tail[i]) > t->log_tau[q - 1])
            t->log_tau[q++] = (float)(log_high + tail[i]);
    }
    t->cols = q;
    for (q = 0; q < t->cols; q++)
        t->tau_s[q] = exp((double)t->log_tau[q]);
}

/* Softmax over k of log_w + tail_g + tail_m; the tails of k = 0 are 0. */
VM_CLONES
static void weigh(const float *log_w, const float *tail, float *restrict w)
{
    float top[LANES], sum[LANES];

#pragma omp simd
    for (size_t l = 0; l < LANES; l++) {
        float a = log_w[0], b = log_w[1] + tail[l],
              c = log_w[2] + tail[LANES + l];
        float m = a > b ? a : b;
        top[l] = m > c ? m : c;
    }
#pragma omp simd
    for (size_t l = 0; l < LANES; l++) {
        w[l] = vm_exp(log_w[0] - top[l]);
        w[LANES + l] = vm_exp(log_w[1] + tail[l] - top[l]);
        w[2 * LANES + l] = vm_exp(log_w[2] + tail[LANES + l] - top[l]);
        sum[l] = 1.f / (w[l] + w[LANES + l] + w[2 * LANES + l]);
    }
    for (size_t k = 0; k < K; k++) {
#pragma omp simd
        for (size_t l = 0; l < LANES; l++)
            w[k * LANES + l] *= sum[l];
    }
}

_Static_assert(PRED_K == 3, "weigh() is written out for three components");

static void take_node(struct live_table *t, size_t i,
                      float tail[(K - 1) * LANES])
{
    const struct predictive *p = t->p;

    for (size_t l = 0; l < LANES; l++) {
        size_t g = l / M, m = l % M;
        t->shift[i * LANES + l] = p->shift[g] + p->node_shift[i * M + m];
        t->prior[i * LANES + l] = expf(p->log_p[g] + p->node_log_p[i * M + m]);
        for (size_t k = 0; k < K - 1; k++)
            tail[k * LANES + l] = p->tail[g * (K - 1) + k] +
                                  p->node_tail[(i * M + m) * (K - 1) + k];
    }
}

bool live_table_take(struct live_table *t, const struct predictive *p)
{
    float tail[(K - 1) * LANES];
    double low, high, sum = 0;

    if (p->n != t->n || p->n_nodes != t->n_nodes)
        return false;
    t->p = p;
    for (size_t l = 0; l < LANES; l++)
        t->precision_scale[l] = expf(-p->scale[l / M]);
    for (size_t j = 0; j < t->n; j++) {
        if (j == 0 || t->node[j] != t->node[j - 1])
            take_node(t, t->node[j], tail);
        weigh(p->log_w + j * K, tail, t->weight + j * K * LANES);
        for (size_t k = 0; k < K; k++)
            t->precision[j * K + k] = SF_SCALE * expf(-p->log_sd[j * K + k]);
        sum += p->mu[j * K];
    }
    if (!isfinite(sum))
        return false;
    bool warm = isfinite(t->log_low) && isfinite(t->log_high);
    low = pool_quantile(t, LOWEST, warm ? t->log_low : sum / (double)t->n);
    high = pool_quantile(t, .99, warm ? t->log_high : low + .3);
    if (!(low <= high) || !isfinite(low) || !isfinite(high)) {
        t->log_low = t->log_high = NAN;
        return false;
    }
    live_table_grid(t, low, high, beyond, LIVE_TAIL);
    return true;
}
