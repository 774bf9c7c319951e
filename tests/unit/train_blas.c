/* The check of matrix products finds what is wrong, and OpenBLAS is right. */
#include "train_blas.h"

#include "tap.h"

static int calls, wrong_call;

/* Right, but for one call that adds 1 to its last element. */
static void sometimes_wrong(bool trans_a, bool trans_b, int m, int n, int k,
                            const float *a, const float *b, float beta,
                            float *c)
{
    train_gemm_ref(trans_a, trans_b, m, n, k, a, b, beta, c);
    if (calls++ == wrong_call)
        c[m * n - 1] += 1;
}

/* Reads c when beta is 0, where it may be uninitialised. */
static void reads_c(bool trans_a, bool trans_b, int m, int n, int k,
                    const float *a, const float *b, float beta, float *c)
{
    for (int i = 0; i < m * n; i++)
        c[i] *= beta;
    train_gemm_ref(trans_a, trans_b, m, n, k, a, b, 1, c);
}

static void ignores_transpose(bool trans_a, bool trans_b, int m, int n, int k,
                              const float *a, const float *b, float beta,
                              float *c)
{
    (void)trans_b;
    train_gemm_ref(trans_a, false, m, n, k, a, b, beta, c);
}

static void test_ref(void)
{
    const float a[] = {1, 2, 3, 4, 5, 6};  /* 2 x 3 */
    const float at[] = {1, 4, 2, 5, 3, 6}; /* 3 x 2 */
    const float b[] = {1, 0, 2, 1, 0, 3};  /* 3 x 2 */
    const float bt[] = {1, 2, 0, 0, 1, 3}; /* 2 x 3 */
    const float want[] = {5, 11, 14, 23};
    float c[4];

    for (int i = 0; i < 4; i++) {
        memset(c, 0xff, sizeof c);
        train_gemm_ref(i & 1, i & 2, 2, 2, 3, i & 1 ? at : a, i & 2 ? bt : b, 0,
                       c);
        ok(memcmp(c, want, sizeof c) == 0, "the plain loop, transposes %d", i);
    }
    train_gemm_ref(false, false, 2, 2, 3, a, b, 1, c);
    ok(c[0] == 10 && c[3] == 46, "the plain loop adds");
}

int main(void)
{
    struct dsgd_error err = {""};

    test_ref();
    if (!ok(train_blas_check(train_gemm, &err) == DSGD_OK,
            "OpenBLAS is right on this processor"))
        printf("#   %s\n", err.text);
    wrong_call = -1;
    is_int(train_blas_check(sometimes_wrong, &err), DSGD_OK, "never wrong");
    int all = calls;
    for (int i = 0; i < 3; i++) {
        static const char *const when[] = {"first", "middle", "last"};
        calls = 0;
        wrong_call = i * (all - 1) / 2;
        ok(train_blas_check(sometimes_wrong, &err) == DSGD_E_NUMERIC,
           "wrong in the %s product", when[i]);
    }
    has_str(err.text, "OPENBLAS_CORETYPE", "names the remedy");
    has_str(err.text, "65 x 63 x 129, TT, beta 1", "names the shape");
    is_int(train_blas_check(reads_c, NULL), DSGD_E_NUMERIC,
           "reads what it should overwrite");
    is_int(train_blas_check(ignores_transpose, NULL), DSGD_E_NUMERIC,
           "forgets to transpose");
    return done();
}
