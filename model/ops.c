#include "ops.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

#include "vmath.h"

/* Below so many multiplications a call to OpenBLAS costs more than it saves. */
enum { SMALL_PRODUCT = 4096, SMALL_K = 512 };

/* Up to so many OpenBLAS uses one thread. */
enum { ONE_THREAD = 1 << 18 };

/* Rows of B are added up, so that the inner loop runs over n. */
VM_CLONES
static void small_b(bool trans_a, size_t m, size_t n, size_t k, const float *a,
                    size_t lda, const float *b, size_t ldb, float beta,
                    float *c, size_t ldc)
{
    for (size_t i = 0; i < m; i++) {
        float *out = c + i * ldc;
        for (size_t j = 0; j < n; j++)
            out[j] = beta == 0 ? 0 : beta * out[j];
        for (size_t p = 0; p < k; p++) {
            float x = trans_a ? a[p * lda + i] : a[i * lda + p];
            const float *row = b + p * ldb;
#pragma omp simd
            for (size_t j = 0; j < n; j++)
                out[j] += x * row[j];
        }
    }
}

/* A matrix of a few rows times a transposed one: dot products, eight sums at a
 * time. */
VM_CLONES
static void small_dot(size_t m, size_t n, size_t k, const float *a, size_t lda,
                      const float *b, size_t ldb, float beta, float *c,
                      size_t ldc)
{
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            const float *x = a + i * lda, *y = b + j * ldb;
            float part[8] = {0}, sum = 0;
            size_t p = 0;
            for (; p + 8 <= k; p += 8) {
                for (size_t q = 0; q < 8; q++)
                    part[q] += x[p + q] * y[p + q];
            }
            for (size_t q = 0; q < 8; q++)
                sum += part[q];
            for (; p < k; p++)
                sum += x[p] * y[p];
            float *out = c + i * ldc + j;
            *out = beta == 0 ? sum : sum + beta * *out;
        }
    }
}

struct product {
    bool trans_a, trans_b;
    size_t m, n, k, lda, ldb, ldc;
};

/* Halve the longest side until OpenBLAS stays on this thread and takes the
 * kernels that do not copy: beside workers that compute, more threads would
 * only be in the way, and the bits do not depend on how many there are. */
static void split(const struct product *p, const float *a, const float *b,
                  float beta, float *c)
{
    struct product half = *p, rest = *p;
    size_t *cut = p->m >= p->n && p->m >= p->k ? &half.m
                  : p->n >= p->k               ? &half.n
                                               : &half.k;

    if (p->m * p->n * p->k <= ONE_THREAD) {
        cblas_sgemm(CblasRowMajor, p->trans_a ? CblasTrans : CblasNoTrans,
                    p->trans_b ? CblasTrans : CblasNoTrans, (blasint)p->m,
                    (blasint)p->n, (blasint)p->k, 1, a, (blasint)p->lda, b,
                    (blasint)p->ldb, beta, c, (blasint)p->ldc);
        return;
    }
    size_t at = *cut = *cut > 32 ? (*cut / 2 + 15) / 16 * 16 : *cut / 2;
    split(&half, a, b, beta, c);
    if (cut == &half.m) {
        rest.m -= at;
        split(&rest, a + (p->trans_a ? at : at * p->lda), b, beta,
              c + at * p->ldc);
    } else if (cut == &half.n) {
        rest.n -= at;
        split(&rest, a, b + (p->trans_b ? at * p->ldb : at), beta, c + at);
    } else {
        rest.k -= at;
        split(&rest, a + (p->trans_a ? at * p->lda : at),
              b + (p->trans_b ? at : at * p->ldb), 1, c);
    }
}

void ops_gemm(bool trans_a, bool trans_b, size_t m, size_t n, size_t k,
              const float *a, size_t lda, const float *b, size_t ldb,
              float beta, float *c, size_t ldc)
{
    if (m == 0 || n == 0)
        return;
    bool small = k <= SMALL_K && m * n * k <= SMALL_PRODUCT;
    if (small && !trans_b)
        small_b(trans_a, m, n, k, a, lda, b, ldb, beta, c, ldc);
    else if (small && !trans_a)
        small_dot(m, n, k, a, lda, b, ldb, beta, c, ldc);
    else
        split(&(struct product){trans_a, trans_b, m, n, k, lda, ldb, ldc}, a, b,
              beta, c);
}

void ops_gemm_ref(bool trans_a, bool trans_b, size_t m, size_t n, size_t k,
                  const float *a, size_t lda, const float *b, size_t ldb,
                  float beta, float *c, size_t ldc)
{
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            double sum = beta == 0 ? 0 : (double)beta * c[i * ldc + j];
            for (size_t p = 0; p < k; p++)
                sum += (double)(trans_a ? a[p * lda + i] : a[i * lda + p]) *
                       (trans_b ? b[j * ldb + p] : b[p * ldb + j]);
            c[i * ldc + j] = (float)sum;
        }
    }
}

void ops_linear(size_t rows, size_t in, size_t out, const float *x,
                const float *w, const float *b, float *y)
{
    for (size_t i = 0; i < rows; i++)
        memcpy(y + i * out, b, out * sizeof *y);
    ops_gemm(false, true, rows, out, in, x, in, w, in, 1, y, out);
}

void ops_linear_back(size_t rows, size_t in, size_t out, const float *x,
                     const float *w, const float *dy, float *dx, float *dw,
                     float *db)
{
    ops_gemm(true, false, out, in, rows, dy, out, x, in, 1, dw, in);
    ops_add_rows(rows, out, dy, db);
    if (dx)
        ops_gemm(false, false, rows, in, out, dy, out, w, in, 0, dx, in);
}

VM_CLONES
void ops_add_rows(size_t rows, size_t cols, const float *x, float *out)
{
    for (size_t i = 0; i < rows; i++) {
        const float *row = x + i * cols;
#pragma omp simd
        for (size_t j = 0; j < cols; j++)
            out[j] += row[j];
    }
}

/* Elementwise maps: the fast one from vmath.h, and libm's in double. */
#define OPS_MAP(name, fast, slow)                                   \
    VM_CLONES                                                       \
    void ops_##name(size_t n, const float *x, float *out)           \
    {                                                               \
        _Pragma("omp simd") for (size_t i = 0; i < n; i++) out[i] = \
            fast(x[i]);                                             \
    }                                                               \
    void ops_##name##_ref(size_t n, const float *x, float *out)     \
    {                                                               \
        for (size_t i = 0; i < n; i++)                              \
            out[i] = (float)slow(x[i]);                             \
    }

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static double normal_sf(double z)
{
    return .5 * erfc(z * sqrt(.5));
}

OPS_MAP(exp, vm_exp, exp)
OPS_MAP(log, vm_log, log)
OPS_MAP(sigmoid, vm_sigmoid, sigmoid)
OPS_MAP(tanh, vm_tanh, tanh)
OPS_MAP(softplus, vm_softplus, softplus)
OPS_MAP(normal_sf, vm_normal_sf, normal_sf)

void ops_tanh_back(size_t n, const float *y, const float *dy, float *dx)
{
    for (size_t i = 0; i < n; i++)
        dx[i] = dy[i] * (1 - y[i] * y[i]);
}

VM_CLONES
void ops_softplus_back(size_t n, const float *x, const float *dy, float *dx)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        dx[i] = dy[i] * vm_sigmoid(x[i]);
}

void ops_log_softmax(size_t rows, size_t cols, const float *x, float *y)
{
    for (size_t i = 0; i < rows; i++) {
        const float *in = x + i * cols;
        float *out = y + i * cols, top = in[0], sum = 0;
        for (size_t j = 1; j < cols; j++)
            top = in[j] > top ? in[j] : top;
        for (size_t j = 0; j < cols; j++)
            sum += vm_exp(in[j] - top);
        float norm = top + vm_log(sum);
        for (size_t j = 0; j < cols; j++)
            out[j] = in[j] - norm;
    }
}

void ops_log_softmax_back(size_t rows, size_t cols, const float *y,
                          const float *dy, float *dx)
{
    for (size_t i = 0; i < rows; i++) {
        const float *in = y + i * cols, *d = dy + i * cols;
        float sum = 0;
        for (size_t j = 0; j < cols; j++)
            sum += d[j];
        for (size_t j = 0; j < cols; j++)
            dx[i * cols + j] = d[j] - vm_exp(in[j]) * sum;
    }
}

double ops_log_sum_exp(size_t n, const double *x)
{
    double top = -INFINITY, sum = 0;

    for (size_t i = 0; i < n; i++)
        top = x[i] > top || isnan(x[i]) ? x[i] : top;
    if (!isfinite(top))
        return top;
    for (size_t i = 0; i < n; i++)
        sum += exp(x[i] - top);
    return top + log(sum);
}

double ops_normal_hazard(double a)
{
    if (a < 5)
        return exp(-.5 * a * a) * .39894228040143267794 / normal_sf(a);
    /* Laplace's continued fraction a + 1/(a + 2/(a + ...)) */
    double f = a;
    for (int i = 60; i >= 1; i--)
        f = a + i / f;
    return f;
}

double ops_normal_beyond(double bound)
{
    double a = fmin(fmax(bound, -8), 40);

    return fmin(ops_normal_hazard(a), a + 3);
}

VM_CLONES
void ops_gru_gates(size_t rows, size_t hidden, const float *gi, const float *gh,
                   const float *h, float *cache, float *h_out)
{
    for (size_t i = 0; i < rows; i++) {
        const float *x = gi + i * 3 * hidden, *y = gh + i * 3 * hidden;
        const float *from = h + i * hidden;
        float *to = h_out + i * hidden;
        float *keep = cache ? cache + i * 4 * hidden : NULL;
#pragma omp simd
        for (size_t j = 0; j < hidden; j++) {
            float hn = y[2 * hidden + j];
            float r = vm_sigmoid(x[j] + y[j]);
            float z = vm_sigmoid(x[hidden + j] + y[hidden + j]);
            float n = vm_tanh(x[2 * hidden + j] + r * hn);
            if (keep) {
                keep[j] = r;
                keep[hidden + j] = z;
                keep[2 * hidden + j] = n;
                keep[3 * hidden + j] = hn;
            }
            to[j] = (1 - z) * n + z * from[j];
        }
    }
}

VM_CLONES
void ops_gru_gates_back(size_t rows, size_t hidden, const float *cache,
                        const float *h, const float *dh_out, float *dgi,
                        float *dgh, float *dh)
{
    for (size_t i = 0; i < rows; i++) {
        const float *keep = cache + i * 4 * hidden;
        const float *from = h + i * hidden, *d = dh_out + i * hidden;
        float *di = dgi + i * 3 * hidden, *dg = dgh + i * 3 * hidden;
        float *to = dh + i * hidden;
#pragma omp simd
        for (size_t j = 0; j < hidden; j++) {
            float r = keep[j], z = keep[hidden + j], n = keep[2 * hidden + j];
            float dz = d[j] * (from[j] - n) * z * (1 - z);
            float dn = d[j] * (1 - z) * (1 - n * n);
            float dr = dn * keep[3 * hidden + j] * r * (1 - r);
            di[j] = dg[j] = dr;
            di[hidden + j] = dg[hidden + j] = dz;
            di[2 * hidden + j] = dn;
            dg[2 * hidden + j] = dn * r;
            to[j] = d[j] * z;
        }
    }
}
