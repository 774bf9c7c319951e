#include "train_blas.h"

#include <cblas.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "error.h"
#include "train_threads.h"

void train_gemm(bool trans_a, bool trans_b, int m, int n, int k, const float *a,
                const float *b, float beta, float *c)
{
    cblas_sgemm(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans,
                trans_b ? CblasTrans : CblasNoTrans, m, n, k, 1, a,
                trans_a ? m : k, b, trans_b ? k : n, beta, c, n);
}

void train_gemm_ref(bool trans_a, bool trans_b, int m, int n, int k,
                    const float *a, const float *b, float beta, float *c)
{
    /* Strides of a step along m, n and k. */
    size_t a_m = trans_a ? 1 : (size_t)k, a_k = trans_a ? (size_t)m : 1;
    size_t b_n = trans_b ? (size_t)k : 1, b_k = trans_b ? 1 : (size_t)n;

    for (size_t i = 0; i < (size_t)m; i++) {
        for (size_t j = 0; j < (size_t)n; j++) {
            float sum = 0, *out = c + i * (size_t)n + j;
            for (size_t p = 0; p < (size_t)k; p++)
                sum += a[i * a_m + p * a_k] * b[j * b_n + p * b_k];
            *out = beta == 0 ? sum : sum + beta * *out;
        }
    }
}

/* Shapes m, n, k: the models' own, cut to a few rows where the check would
 * take long, and sizes beside multiples of vector and tile lengths. */
static const int shapes[][3] = {
    {98, 16, 25}, {25, 16, 784}, {98, 32, 400}, {98, 400, 32}, {4, 128, 784},
    {98, 128, 8}, {8, 98, 128},  {8, 10, 128},  {128, 10, 8},  {8, 10, 98},
    {1, 1, 1},    {1, 10, 128},  {2, 3, 5},     {7, 9, 11},    {15, 17, 31},
    {16, 16, 16}, {17, 15, 33},  {31, 33, 7},   {33, 31, 65},  {48, 48, 48},
    {64, 64, 64}, {1, 128, 98},  {65, 63, 129},
};
enum {
    N_SHAPES = sizeof shapes / sizeof shapes[0],
    MAX_ELEMS = 128 * 784 /* of any one matrix above */
};

/* Integers of -4..4: a sum of 784 products stays far below 2^24. */
static void fill(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)((int)(seed >> 16) % 9 - 4);
    }
}

static bool agrees(train_gemm_fn *gemm, const int *shape, bool trans_a,
                   bool trans_b, bool add, float *work)
{
    size_t n_c = (size_t)shape[0] * (size_t)shape[1];
    float *a = work, *b = a + MAX_ELEMS, *got = b + MAX_ELEMS;
    float *want = got + MAX_ELEMS;

    fill(want, n_c, 3);
    for (size_t i = 0; i < n_c; i++)
        got[i] = add ? want[i] : NAN; /* beta 0 must not read c */
    gemm(trans_a, trans_b, shape[0], shape[1], shape[2], a, b, add, got);
    train_gemm_ref(trans_a, trans_b, shape[0], shape[1], shape[2], a, b, add,
                   want);
    for (size_t i = 0; i < n_c; i++) {
        if (!(got[i] == want[i]))
            return false;
    }
    return true;
}

enum dsgd_err train_blas_check(train_gemm_fn *gemm, struct dsgd_error *err)
{
    float *work = malloc(sizeof(float) * 4 * MAX_ELEMS);
    enum dsgd_err rc = DSGD_OK;

    if (!work)
        return error_set(err, DSGD_E_NOMEM, "matrix check: no memory");
    fill(work, MAX_ELEMS, 1);
    fill(work + MAX_ELEMS, MAX_ELEMS, 2);
    for (unsigned i = 0; i < N_SHAPES * 8 && rc == DSGD_OK; i++) {
        const int *s = shapes[i / 8];
        bool trans_a = i & 1, trans_b = i & 2, add = i & 4;
        if (!agrees(gemm, s, trans_a, trans_b, add, work))
            rc = error_set(
                err, DSGD_E_NUMERIC,
                "OpenBLAS computes a wrong matrix product on this processor "
                "(kernel %s, %d x %d x %d, %c%c, beta %d): choose another "
                "kernel, e.g. export OPENBLAS_CORETYPE=HASWELL, or upgrade "
                "OpenBLAS",
                openblas_get_corename(), s[0], s[1], s[2], trans_a ? 'T' : 'N',
                trans_b ? 'T' : 'N', add);
    }
    free(work);
    return rc;
}

static bool is_set(const char *name)
{
    const char *text = getenv(name);

    return text && strtol(text, NULL, 10) > 0;
}

size_t train_blas_threads(void)
{
    struct train_cpus cpus;

    train_threads_look(&cpus);
    if (!is_set("OPENBLAS_NUM_THREADS") && !is_set("OMP_NUM_THREADS"))
        openblas_set_num_threads((int)train_threads_share(&cpus));
    return (size_t)openblas_get_num_threads();
}
