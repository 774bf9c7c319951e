/* Forward and backward passes of the layers, on OpenBLAS.
 *
 * Images are channels-last, [h][w][channels]; weights are [inputs][outputs].
 * Convolutions and pools work on one image at a time, so that what they expand
 * stays in the cache; dense layers work on a batch.  Gradients of weights and
 * biases are added to, gradients of inputs are written.  A NaN is passed on,
 * not hidden by a ReLU.  Nothing here allocates. */
#ifndef DSGD_TRAIN_LAYERS_H
#define DSGD_TRAIN_LAYERS_H

#include <stddef.h>
#include <stdint.h>

/* A convolution of 5 x 5, zero-padded to keep the image's size. */
enum { CONV_SIDE = 5, CONV_TAPS = CONV_SIDE * CONV_SIDE };
struct conv_shape {
    size_t h, w;    /* of the image */
    size_t in, out; /* channels */
};

/* Floats of the work space of one image. */
size_t conv_pad_elems(const struct conv_shape *s);
size_t conv_col_elems(const struct conv_shape *s);

/* y = x * weights, without bias.
 *   x    [h][w][in]            in
 *   w    [CONV_TAPS][in][out]  in
 *   pad  [conv_pad_elems]      scratch; zeroed once by the caller, its border
 *                              then stays zero
 *   col  [conv_col_elems]      scratch
 *   y    [h][w][out]           out */
void conv_forward(const struct conv_shape *s, const float *x, const float *w,
                  float *pad, float *col, float *y);

/*   dy   [h][w][out]  in
 *   pad, col          scratch, as for conv_forward
 *   dw                added to
 *   dx   [h][w][in]   out, or NULL: not wanted */
void conv_backward(const struct conv_shape *s, const float *x, const float *w,
                   const float *dy, float *pad, float *col, float *dw,
                   float *dx);

/* y = relu(max of 2 x 2 of (x + bias)), which is relu, then pool.  The bias of
 * the convolution before is added here, to a quarter of the values.
 *   h, w          in   of x, even
 *   x      [h][w][c]          in
 *   bias   [c]                in
 *   y      [h / 2][w / 2][c]  out
 *   which  [h / 2][w / 2][c]  out  0..3: the largest of the four, row by row,
 *                                  the first of equals; -1: y is zero */
void relu_pool_forward(size_t h, size_t w, size_t c, const float *x,
                       const float *bias, float *y, int32_t *which);
/*   dx  [h][w][c]  out;  dbias  [c]  added to */
void relu_pool_backward(size_t h, size_t w, size_t c, const float *dy,
                        const int32_t *which, float *dx, float *dbias);

/* y = x w + bias.
 *   x  [batch][in] in,  w  [in][out] in,  bias  [out] in
 *   y  [batch][out] out */
void dense_forward(size_t batch, size_t in, size_t out, const float *x,
                   const float *w, const float *bias, float *y);
/*   dw, dbias  added to;  dx  [batch][in]  out, or NULL: not wanted */
void dense_backward(size_t batch, size_t in, size_t out, const float *x,
                    const float *w, const float *dy, float *dw, float *dbias,
                    float *dx);

/* y = max(y, 0), in place, and its backward pass: dy = 0 where y is. */
void relu_forward(size_t n, float *y);
void relu_backward(size_t n, const float *y, float *dy);

/* Cross-entropy of softmax(logits).
 *   logits   [batch][classes]  in
 *   labels   [batch]           in, < classes
 *   dlogits  [batch][classes]  out, gradient of the SUM of the losses
 * Returns the sum of the losses. */
double softmax_loss(size_t batch, size_t classes, const float *logits,
                    const uint8_t *labels, float *dlogits);

/* How many rows of logits have their largest value at the label. */
size_t count_correct(size_t batch, size_t classes, const float *logits,
                     const uint8_t *labels);

#endif
