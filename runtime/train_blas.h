/* Matrix products for dsgd-train, and the check that they are right. */
#ifndef DSGD_TRAIN_BLAS_H
#define DSGD_TRAIN_BLAS_H

#include <stdbool.h>
#include <stddef.h>

#include "dsgd_error.h"

/* C = op(A) op(B) + beta C, row-major, no gaps between rows.
 *   trans_a, trans_b  in      op is the transpose
 *   a                 in      [m][k], or [k][m] when trans_a
 *   b                 in      [k][n], or [n][k] when trans_b
 *   beta              in      0: c is not read
 *   c                 in out  [m][n] */
typedef void train_gemm_fn(bool trans_a, bool trans_b, int m, int n, int k,
                           const float *a, const float *b, float beta,
                           float *c);

/* The product by OpenBLAS. */
train_gemm_fn train_gemm;

/* The same by a plain loop. */
train_gemm_fn train_gemm_ref;

/* Compare a product with the plain loop on small matrices of the shapes that
 * the models use, and on odd ones.  The values are small integers, so that
 * every order of summation gives the same bits: a difference is a fault.
 * Local, about ten milliseconds.  Errors: DSGD_E_NUMERIC (the text names the
 * shape, OpenBLAS's kernel and OPENBLAS_CORETYPE), DSGD_E_NOMEM. */
enum dsgd_err train_blas_check(train_gemm_fn *gemm, struct dsgd_error *err);

/* Look around and set the threads of OpenBLAS, unless OPENBLAS_NUM_THREADS or
 * OMP_NUM_THREADS is set.  Returns the number in use. */
size_t train_blas_threads(void);

#endif
