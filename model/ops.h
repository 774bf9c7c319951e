/* The operations that the timing models are made of, forward and backward, in
 * float32 over row-major matrices.
 *
 * Backward functions take d<name> = dLoss/d<name>.  Those of inputs are
 * overwritten, those of parameters are added to.  Nothing allocates; all are
 * local; no two arguments may overlap unless it says so.  `_ref` is the same
 * by plain loops and libm: slow, for tests. */
#ifndef DSGD_OPS_H
#define DSGD_OPS_H

#include <stdbool.h>
#include <stddef.h>

/* C = op(A) op(B) + beta C.
 *   trans_a, trans_b  op is the transpose
 *   a     in      [m][k], or [k][m] when trans_a; rows lda apart
 *   b     in      [k][n], or [n][k] when trans_b; rows ldb apart
 *   beta          0: c is not read
 *   c     in out  [m][n], rows ldc apart
 * Small products by a loop of our own, others by OpenBLAS, on this thread only,
 * however many it may use. */
typedef void ops_gemm_fn(bool trans_a, bool trans_b, size_t m, size_t n,
                         size_t k, const float *a, size_t lda, const float *b,
                         size_t ldb, float beta, float *c, size_t ldc);
ops_gemm_fn ops_gemm, ops_gemm_ref;

/* y = x W^T + b, as PyTorch's Linear.
 *   x  [rows][in]   w  [out][in]   b  [out]   y  [rows][out] */
void ops_linear(size_t rows, size_t in, size_t out, const float *x,
                const float *w, const float *b, float *y);
/* dx NULL: not wanted.  dw, db are added to. */
void ops_linear_back(size_t rows, size_t in, size_t out, const float *x,
                     const float *w, const float *dy, float *dx, float *dw,
                     float *db);

/* out [cols] += the sum over the rows of x [rows][cols] */
void ops_add_rows(size_t rows, size_t cols, const float *x, float *out);

/* Elementwise; out may be x. */
typedef void ops_map_fn(size_t n, const float *x, float *out);
ops_map_fn ops_exp, ops_log, ops_sigmoid, ops_tanh, ops_softplus;
/* 1 - Phi(x), the standard normal's upper tail */
ops_map_fn ops_normal_sf;
ops_map_fn ops_exp_ref, ops_log_ref, ops_sigmoid_ref, ops_tanh_ref,
    ops_softplus_ref, ops_normal_sf_ref;

/* dx from the output y (tanh) or the input x (softplus); dx may be dy. */
void ops_tanh_back(size_t n, const float *y, const float *dy, float *dx);
void ops_softplus_back(size_t n, const float *x, const float *dy, float *dx);

/* y = x - log sum exp x in each row; y may be x. */
void ops_log_softmax(size_t rows, size_t cols, const float *x, float *y);
/* dx may be dy. */
void ops_log_softmax_back(size_t rows, size_t cols, const float *y,
                          const float *dy, float *dx);

/* log sum exp of n values; of none, or of -inf only: -inf. */
double ops_log_sum_exp(size_t n, const double *x);

/* phi(a) / (1 - Phi(a)), the mean of a standard normal beyond a, for any a;
 * relative 1e-12. */
double ops_normal_hazard(double a);

/* What stands for a bound that was observed, both in standard deviations from
 * the mean: the mean beyond it, of a bound within -8..40 and by at most 3. */
double ops_normal_beyond(double bound);

/* A GRU cell, PyTorch convention, gates r, z, n:
 *   r = sigmoid(W_ir x + b_ir + W_hr h + b_hr),  z alike
 *   n = tanh(W_in x + b_in + r (W_hn h + b_hn)),  h' = (1 - z) n + z h */
struct ops_gru {
    size_t in, hidden;
    const float *w_ih; /* [3 hidden][in] */
    const float *w_hh; /* [3 hidden][hidden] */
    const float *b_ih; /* [3 hidden] */
    const float *b_hh; /* [3 hidden] */
};

/* The cell without its products, which are made over many steps at once.
 *   gi, gh  in   [rows][3 hidden]  W_i x + b_i and W_h h + b_h
 *   h       in   [rows][hidden]
 *   cache   out  [rows][4 hidden] for the way back; NULL: not wanted
 *   h_out   out  [rows][hidden]; may be h */
void ops_gru_gates(size_t rows, size_t hidden, const float *gi, const float *gh,
                   const float *h, float *cache, float *h_out);
/*   dh_out    in   [rows][hidden]
 *   dgi, dgh  out  [rows][3 hidden]
 *   dh        out  the part of dLoss/dh that does not go through gh; may be
 *                  dh_out */
void ops_gru_gates_back(size_t rows, size_t hidden, const float *cache,
                        const float *h, const float *dh_out, float *dgi,
                        float *dgh, float *dh);

#endif
