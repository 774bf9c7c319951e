#include "train_layers.h"

#include <math.h>
#include <string.h>

#include "train_blas.h"

enum { PAD = CONV_SIDE / 2 };

size_t conv_pad_elems(const struct conv_shape *s)
{
    return (s->h + 2 * PAD) * (s->w + 2 * PAD) * s->in;
}

size_t conv_col_elems(const struct conv_shape *s)
{
    return s->h * s->w * CONV_TAPS * s->in;
}

static float *pad_row(const struct conv_shape *s, float *pad, size_t y)
{
    return pad + ((y + PAD) * (s->w + 2 * PAD) + PAD) * s->in;
}

/* A row of col is one output pixel's neighbourhood: CONV_SIDE runs of `run`
 * neighbouring floats.  Inlined, so that a short run of constant length is no
 * call; a long one is better left to memcpy. */
static inline void gather_runs(const struct conv_shape *s, const float *pad,
                               float *col, size_t run)
{
    size_t pitch = (s->w + 2 * PAD) * s->in;

    for (size_t y = 0; y < s->h; y++) {
        for (size_t x = 0; x < s->w; x++) {
            const float *from = pad + y * pitch + x * s->in;
            for (size_t ky = 0; ky < CONV_SIDE; ky++) {
                memcpy(col, from + ky * pitch, run * sizeof *col);
                col += run;
            }
        }
    }
}

/* col [h * w][CONV_TAPS * in] of x */
static void im2col(const struct conv_shape *s, const float *x, float *pad,
                   float *col)
{
    size_t row = s->w * s->in;

    for (size_t y = 0; y < s->h; y++)
        memcpy(pad_row(s, pad, y), x + y * row, row * sizeof *x);
    if (s->in == 1)
        gather_runs(s, pad, col, CONV_SIDE);
    else
        gather_runs(s, pad, col, CONV_SIDE * s->in);
}

/* The transpose of im2col for one pixel: the sum of all elements of col that
 * were taken from it. */
static inline void sum_taps(const struct conv_shape *s, const float *col,
                            size_t y, size_t x, size_t in, float *restrict sum)
{
    size_t row = CONV_TAPS * in;

    memset(sum, 0, in * sizeof *sum);
    for (size_t ky = 0; ky < CONV_SIDE; ky++) {
        size_t from_y = y + PAD - ky; /* wraps above the image */
        if (from_y >= s->h)
            continue;
        for (size_t kx = 0; kx < CONV_SIDE; kx++) {
            size_t from_x = x + PAD - kx;
            if (from_x >= s->w)
                continue;
            const float *tap = col + (from_y * s->w + from_x) * row +
                               (ky * CONV_SIDE + kx) * in;
#pragma omp simd
            for (size_t i = 0; i < in; i++)
                sum[i] += tap[i];
        }
    }
}

static void col2im(const struct conv_shape *s, const float *col, float *dx)
{
    for (size_t y = 0; y < s->h; y++) {
        for (size_t x = 0; x < s->w; x++) {
            float *sum = dx + (y * s->w + x) * s->in;
            if (s->in == 16)
                sum_taps(s, col, y, x, 16, sum);
            else
                sum_taps(s, col, y, x, s->in, sum);
        }
    }
}

void conv_forward(const struct conv_shape *s, const float *x, const float *w,
                  float *pad, float *col, float *y)
{
    im2col(s, x, pad, col);
    train_gemm(false, false, (int)(s->h * s->w), (int)s->out,
               (int)(CONV_TAPS * s->in), col, w, 0, y);
}

void conv_backward(const struct conv_shape *s, const float *x, const float *w,
                   const float *dy, float *pad, float *col, float *dw,
                   float *dx)
{
    int pixels = (int)(s->h * s->w), taps = (int)(CONV_TAPS * s->in);

    /* Expanding x again is cheaper than fetching a kept copy from memory. */
    im2col(s, x, pad, col);
    train_gemm(true, false, taps, (int)s->out, pixels, col, dy, 1, dw);
    if (!dx)
        return;
    train_gemm(false, true, pixels, taps, (int)s->out, dy, w, 0, col);
    col2im(s, col, dx);
}

void relu_pool_forward(size_t h, size_t w, size_t c, const float *x,
                       const float *bias, float *y, int32_t *which)
{
    for (size_t i = 0; i < h / 2; i++) {
        for (size_t j = 0; j < w / 2; j++) {
            const float *top = x + (2 * i * w + 2 * j) * c;
            const float *bottom = top + w * c;
            float *restrict out = y + (i * (w / 2) + j) * c;
            int32_t *restrict at = which + (i * (w / 2) + j) * c;
#pragma omp simd
            for (size_t k = 0; k < c; k++) {
                float max = top[k];
                int32_t from = 0;
                from = top[c + k] > max ? 1 : from;
                max = top[c + k] > max ? top[c + k] : max;
                from = bottom[k] > max ? 2 : from;
                max = bottom[k] > max ? bottom[k] : max;
                from = bottom[c + k] > max ? 3 : from;
                max = bottom[c + k] > max ? bottom[c + k] : max;
                max += bias[k];
                at[k] = max <= 0 ? -1 : from;
                out[k] = max <= 0 ? 0 : max;
            }
        }
    }
}

/* out = g where `from` is `which`, else 0.  One at a time: the compiler turns a
 * chain of such selects into branches, which random data mispredicts. */
static inline void select_from(size_t n, int32_t which, const int32_t *from,
                               const float *g, float *out)
{
#pragma omp simd
    for (size_t k = 0; k < n; k++) {
        float value = g[k];
        out[k] = from[k] == which ? value : 0;
    }
}

void relu_pool_backward(size_t h, size_t w, size_t c, const float *dy,
                        const int32_t *which, float *dx, float *dbias)
{
    for (size_t i = 0; i < h / 2; i++) {
        for (size_t j = 0; j < w / 2; j++) {
            const float *g = dy + (i * (w / 2) + j) * c;
            const int32_t *from = which + (i * (w / 2) + j) * c;
            float *top = dx + (2 * i * w + 2 * j) * c, *bottom = top + w * c;
            select_from(c, 0, from, g, top);
            select_from(c, 1, from, g, top + c);
            select_from(c, 2, from, g, bottom);
            select_from(c, 3, from, g, bottom + c);
#pragma omp simd
            for (size_t k = 0; k < c; k++) {
                float value = g[k];
                dbias[k] += from[k] >= 0 ? value : 0;
            }
        }
    }
}

void dense_forward(size_t batch, size_t in, size_t out, const float *x,
                   const float *w, const float *bias, float *y)
{
    train_gemm(false, false, (int)batch, (int)out, (int)in, x, w, 0, y);
    for (size_t b = 0; b < batch; b++) {
        for (size_t i = 0; i < out; i++)
            y[b * out + i] += bias[i];
    }
}

void dense_backward(size_t batch, size_t in, size_t out, const float *x,
                    const float *w, const float *dy, float *dw, float *dbias,
                    float *dx)
{
    train_gemm(true, false, (int)in, (int)out, (int)batch, x, dy, 1, dw);
    for (size_t b = 0; b < batch; b++) {
        for (size_t i = 0; i < out; i++)
            dbias[i] += dy[b * out + i];
    }
    if (dx)
        train_gemm(false, true, (int)batch, (int)in, (int)out, dy, w, 0, dx);
}

void relu_forward(size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = y[i] <= 0 ? 0 : y[i];
}

void relu_backward(size_t n, const float *y, float *dy)
{
    for (size_t i = 0; i < n; i++)
        dy[i] = y[i] <= 0 ? 0 : dy[i];
}

static size_t argmax(size_t n, const float *x)
{
    size_t best = 0;

    for (size_t i = 1; i < n; i++) {
        if (x[i] > x[best])
            best = i;
    }
    return best;
}

/* y = exp(x - shift); returns the sum. */
static float exp_all(size_t n, const float *x, float shift, float *y)
{
    float sum = 0;

    for (size_t i = 0; i < n; i++) {
        y[i] = expf(x[i] - shift);
        sum += y[i];
    }
    return sum;
}

double softmax_loss(size_t batch, size_t classes, const float *logits,
                    const uint8_t *labels, float *dlogits)
{
    double loss = 0;

    for (size_t b = 0; b < batch; b++) {
        const float *in = logits + b * classes;
        float *out = dlogits + b * classes;
        float max = in[argmax(classes, in)];
        float sum = exp_all(classes, in, max, out);
        for (size_t i = 0; i < classes; i++)
            out[i] /= sum;
        out[labels[b]] -= 1;
        loss += logf(sum) - (in[labels[b]] - max);
    }
    return loss;
}

size_t count_correct(size_t batch, size_t classes, const float *logits,
                     const uint8_t *labels)
{
    size_t correct = 0;

    for (size_t b = 0; b < batch; b++)
        correct += argmax(classes, logits + b * classes) == labels[b];
    return correct;
}
