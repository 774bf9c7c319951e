#include "live_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "vmath.h"

enum { LANES = LIVE_LANES, M = PRED_M, K = PRED_K };

/* Workers that the quantiles of the grid are taken from, evenly spread. */
enum { POOL_MAX = 64 };

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
    t->shifts = allocate(n_nodes, 1, sizeof *t->shifts);
    t->prior = allocate(n_nodes, LANES, sizeof *t->prior);
    if (!t->node || !t->survival || !t->weight || !t->precision || !t->shift ||
        !t->shifts || !t->prior) {
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
    free(t->shifts);
    free(t->prior);
    *t = (struct live_table){0};
}

static struct live_mixture mixture(const struct live_table *t, size_t worker)
{
    size_t node = t->node[worker];

    return (struct live_mixture){
        .mu = t->p->mu + worker * K,
        .precision = t->precision + worker * K,
        .weight = t->weight + worker * K * LANES,
        .shift = t->shift + node * LANES,
        .scale = t->precision_scale,
        .shifts = t->shifts[node],
        .scales = t->scales,
    };
}

void live_table_survival(const struct live_table *t, size_t worker,
                         double log_s, float *out)
{
    struct live_mixture m = mixture(t, worker);

    live_survival_at(&m, (float)log_s, out);
}

void live_table_fill(struct live_table *t, size_t first, size_t end)
{
    struct live_ticks ticks = {t->cols, t->even, t->step, t->log_tau};

    for (size_t j = first; j < end; j++) {
        struct live_mixture m = mixture(t, j);
        live_survival_ticks(&m, &ticks, t->survival + j * LIVE_COLS * LANES);
    }
}

void live_table_row(struct live_table *t, size_t worker, double start_s)
{
    struct live_mixture m = mixture(t, worker);
    float own[LIVE_COLS];

    for (size_t q = 0; q < t->cols; q++)
        own[q] = (float)log(fmax(t->tau_s[q] - start_s, 1e-30));
    live_survival_ticks(&m, &(struct live_ticks){.n = t->cols, .log_s = own},
                        t->survival + worker * LIVE_COLS * LANES);
}

void live_table_log_density(const struct live_table *t, size_t worker,
                            double log_s, float *out)
{
    struct live_mixture m = mixture(t, worker);
    float log_scale[LANES];

    for (size_t l = 0; l < LANES; l++)
        log_scale[l] = t->p->scale[l / M];
    live_log_density(&m, (float)log_s, t->p->log_sd + worker * K, log_scale,
                     out);
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
    t->step = (float)step;
    while (q < LIVE_STEPS + 2 &&
           log_low + (double)q * step < log_high + step * (1 - 1e-9)) {
        t->log_tau[q] = (float)(log_low + (double)q * step);
        q++;
    }
    t->even = q;
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

static struct live_span span(const float x[LANES])
{
    struct live_span s = {x[0], x[0]};

    for (size_t l = 1; l < LANES; l++) {
        s.low = fminf(s.low, x[l]);
        s.high = fmaxf(s.high, x[l]);
    }
    return s;
}

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
    t->shifts[i] = span(t->shift + i * LANES);
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
    t->scales = span(t->precision_scale);
    for (size_t j = 0; j < t->n; j++) {
        if (j == 0 || t->node[j] != t->node[j - 1])
            take_node(t, t->node[j], tail);
        weigh(p->log_w + j * K, tail, t->weight + j * K * LANES);
        for (size_t k = 0; k < K; k++)
            t->precision[j * K + k] =
                LIVE_SF_SCALE * expf(-p->log_sd[j * K + k]);
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
