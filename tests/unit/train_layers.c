/* Every layer against a plain loop in double, its backward pass against central
 * differences of that loop. */
#include "train_layers.h"

#include <stdlib.h>

#include "tap.h"

static uint32_t random_state = 1;

/* Uniform in -1..1. */
static float draw(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(random_state >> 8) / (float)(1 << 23) - 1;
}

static float *drawn(size_t n)
{
    float *x = malloc(n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = draw();
    return x;
}

static float *zeros(size_t n)
{
    return calloc(n, sizeof(float));
}

/* Largest |a - b| / (1 + |b|); NaN counts as infinite. */
static double distance(size_t n, const float *a, const double *b)
{
    double most = 0;

    for (size_t i = 0; i < n; i++) {
        double d = fabs(a[i] - b[i]) / (1 + fabs(b[i]));
        if (!(d <= most))
            most = isnan(d) ? INFINITY : d;
    }
    return most;
}

/* A function of one float array, in double. */
struct problem {
    double (*value)(const struct problem *p); /* sum of weight * output */
    float *x;                                 /* what is varied */
    size_t n;
    const float *a, *b, *weight; /* the rest */
    const uint8_t *labels;
    struct conv_shape conv;
    size_t batch, in, out;
};

/* The derivative by every element of x, by central differences.  In double, and
 * with a step that a float represents exactly. */
static double *differences(struct problem *p)
{
    const float h = 0x1p-10f;
    double *d = malloc(p->n * sizeof *d);

    for (size_t i = 0; i < p->n; i++) {
        float keep = p->x[i], up = keep + h, down = keep - h;
        p->x[i] = up;
        double high = p->value(p);
        p->x[i] = down;
        double low = p->value(p);
        p->x[i] = keep;
        d[i] = (high - low) / ((double)up - (double)down);
    }
    return d;
}

/* y of one convolution in double; x, w from a and b. */
static double conv_ref(const struct conv_shape *s, const float *x,
                       const float *w, size_t oy, size_t ox, size_t o)
{
    double sum = 0;

    for (size_t ky = 0; ky < CONV_SIDE; ky++) {
        for (size_t kx = 0; kx < CONV_SIDE; kx++) {
            size_t y = oy + ky - CONV_SIDE / 2, xx = ox + kx - CONV_SIDE / 2;
            if (y >= s->h || xx >= s->w)
                continue;
            for (size_t c = 0; c < s->in; c++)
                sum += (double)x[(y * s->w + xx) * s->in + c] *
                       w[((ky * CONV_SIDE + kx) * s->in + c) * s->out + o];
        }
    }
    return sum;
}

static double conv_value(const struct problem *p)
{
    const struct conv_shape *s = &p->conv;
    double sum = 0;

    for (size_t y = 0; y < s->h; y++) {
        for (size_t x = 0; x < s->w; x++) {
            for (size_t o = 0; o < s->out; o++)
                sum += p->weight[(y * s->w + x) * s->out + o] *
                       conv_ref(s, p->a, p->b, y, x, o);
        }
    }
    return sum;
}

static void test_conv(struct conv_shape s)
{
    size_t n_x = s.h * s.w * s.in, n_w = CONV_TAPS * s.in * s.out;
    size_t n_y = s.h * s.w * s.out;
    float *x = drawn(n_x), *w = drawn(n_w), *dy = drawn(n_y);
    float *pad = zeros(conv_pad_elems(&s)), *col = zeros(conv_col_elems(&s));
    float *y = zeros(n_y), *dw = zeros(n_w), *dx = drawn(n_x);
    double *want = malloc(n_y * sizeof *want);

    conv_forward(&s, x, w, pad, col, y);
    for (size_t i = 0; i < n_y; i++)
        want[i] =
            conv_ref(&s, x, w, i / s.out / s.w, i / s.out % s.w, i % s.out);
    ok(distance(n_y, y, want) < 1e-5, "conv %zux%zu %zu-%zu: forward", s.h, s.w,
       s.in, s.out);

    struct problem p = {
        .value = conv_value, .a = x, .b = w, .weight = dy, .conv = s};
    p.x = w;
    p.n = n_w;
    double *num_w = differences(&p);
    p.x = x;
    p.n = n_x;
    double *num_x = differences(&p);
    conv_backward(&s, x, w, dy, pad, col, dw, dx);
    ok(distance(n_w, dw, num_w) < 1e-5, "conv: gradient of the weights");
    ok(distance(n_x, dx, num_x) < 1e-5, "conv: gradient of the input");

    conv_backward(&s, x, w, dy, pad, col, dw, NULL);
    for (size_t i = 0; i < n_w; i++)
        num_w[i] *= 2;
    ok(distance(n_w, dw, num_w) < 1e-5,
       "conv: gradients are added, the input's is optional");
    free(x), free(w), free(dy), free(pad), free(col), free(y), free(dw),
        free(dx), free(want), free(num_w), free(num_x);
}

/* relu(max of 2 x 2 + bias); x, bias from a and b. */
static double pool_value(const struct problem *p)
{
    const struct conv_shape *s = &p->conv;
    double sum = 0;

    for (size_t i = 0; i < s->h / 2 * (s->w / 2) * s->out; i++) {
        size_t c = i % s->out, x = i / s->out % (s->w / 2) * 2;
        size_t y = i / s->out / (s->w / 2) * 2;
        double max = -INFINITY;
        for (int q = 0; q < 4; q++) {
            double v = p->a[((y + q / 2) * s->w + x + q % 2) * s->out + c];
            max = v > max ? v : max;
        }
        max += p->b[c];
        sum += p->weight[i] * (max > 0 ? max : 0);
    }
    return sum;
}

/* Values that are far apart, so that a step crosses neither a tie nor zero. */
static void spread(size_t n, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] =
            (float)((long)((i * 7919 + 13) % n) - (long)n / 2) * 0.01f + 0.005f;
}

static void test_pool(size_t h, size_t w, size_t c)
{
    size_t n = h * w * c;
    float *x = drawn(n), *bias = zeros(c), *dy = drawn(n / 4);
    float *y = zeros(n / 4), *dx = drawn(n), *dbias = zeros(c);
    int32_t *which = calloc(n / 4, sizeof *which);

    spread(n, x);
    for (size_t i = 0; i < c; i++)
        bias[i] = (float)i * 0.02f - 0.04f;
    struct problem p = {.value = pool_value,
                        .x = x,
                        .n = n,
                        .a = x,
                        .b = bias,
                        .weight = dy,
                        .conv = {h, w, c, c}};
    double *num_x = differences(&p), sum = 0;
    p.x = bias;
    p.n = c;
    double *num_bias = differences(&p);

    relu_pool_forward(h, w, c, x, bias, y, which);
    for (size_t i = 0; i < n / 4; i++)
        sum += (double)y[i] * dy[i];
    near(sum, pool_value(&p), 1e-4, "relu and pool: forward");
    relu_pool_backward(h, w, c, dy, which, dx, dbias);
    ok(distance(n, dx, num_x) < 1e-6, "relu and pool: gradient of the input");
    ok(distance(c, dbias, num_bias) < 1e-4,
       "relu and pool: gradient of the bias");
    free(x), free(bias), free(dy), free(y), free(dx), free(dbias), free(which),
        free(num_x), free(num_bias);
}

static void test_pool_nan(void)
{
    float x[4] = {NAN, NAN, NAN, NAN}, bias[1] = {0}, y[1] = {0};
    int32_t which[1];

    relu_pool_forward(2, 2, 1, x, bias, y, which);
    ok(isnan(y[0]), "relu and pool: a NaN is passed on");
    relu_forward(4, x);
    ok(isnan(x[0]), "relu: a NaN is passed on");
}

/* x, w from a and b */
static double dense_ref(const struct problem *p, size_t b, size_t o)
{
    double sum = 0;

    for (size_t i = 0; i < p->in; i++)
        sum += (double)p->a[b * p->in + i] * p->b[i * p->out + o];
    return sum;
}

static double dense_value(const struct problem *p)
{
    double sum = 0;

    for (size_t i = 0; i < p->batch * p->out; i++)
        sum += p->weight[i] * dense_ref(p, i / p->out, i % p->out);
    return sum;
}

static void test_dense(size_t batch, size_t in, size_t out)
{
    float *x = drawn(batch * in), *w = drawn(in * out), *bias = drawn(out);
    float *dy = drawn(batch * out), *y = zeros(batch * out);
    float *dw = zeros(in * out), *dbias = zeros(out), *dx = drawn(batch * in);
    double *want = malloc(batch * out * sizeof *want);
    struct problem p = {.value = dense_value,
                        .a = x,
                        .b = w,
                        .weight = dy,
                        .batch = batch,
                        .in = in,
                        .out = out};

    for (size_t i = 0; i < batch * out; i++)
        want[i] = dense_ref(&p, i / out, i % out) + bias[i % out];
    dense_forward(batch, in, out, x, w, bias, y);
    ok(distance(batch * out, y, want) < 1e-5, "dense %zu-%zu: forward", in,
       out);
    p.x = w;
    p.n = in * out;
    double *num_w = differences(&p);
    p.x = x;
    p.n = batch * in;
    double *num_x = differences(&p);
    dense_backward(batch, in, out, x, w, dy, dw, dbias, dx);
    ok(distance(in * out, dw, num_w) < 1e-5, "dense: gradient of the weights");
    ok(distance(batch * in, dx, num_x) < 1e-5, "dense: gradient of the input");
    for (size_t o = 0; o < out; o++) {
        want[o] = 0;
        for (size_t b = 0; b < batch; b++)
            want[o] += dy[b * out + o];
    }
    ok(distance(out, dbias, want) < 1e-5, "dense: gradient of the bias");
    free(x), free(w), free(bias), free(dy), free(y), free(dw), free(dbias),
        free(dx), free(want), free(num_w), free(num_x);
}

static void test_relu(void)
{
    float y[4] = {-1, 0, 2, 3}, dy[4] = {5, 6, 7, 8};

    relu_forward(4, y);
    ok(y[0] == 0 && y[1] == 0 && y[2] == 2 && y[3] == 3, "relu: forward");
    relu_backward(4, y, dy);
    ok(dy[0] == 0 && dy[1] == 0 && dy[2] == 7 && dy[3] == 8, "relu: backward");
}

static double sum_exp(size_t n, const float *x)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += exp(x[i]);
    return sum;
}

/* Sum of the losses of the logits x. */
static double softmax_value(const struct problem *p)
{
    double loss = 0;

    for (size_t b = 0; b < p->batch; b++) {
        const float *row = p->x + b * p->out;
        loss += log(sum_exp(p->out, row)) - row[p->labels[b]];
    }
    return loss;
}

static void test_softmax(void)
{
    enum { BATCH = 7, CLASSES = 10 };
    float *logits = drawn(BATCH * CLASSES), *d = drawn(BATCH * CLASSES);
    uint8_t labels[BATCH] = {0, 9, 3, 3, 5, 8, 1};
    struct problem p = {.value = softmax_value,
                        .x = logits,
                        .n = BATCH * CLASSES,
                        .labels = labels,
                        .batch = BATCH,
                        .out = CLASSES};

    for (size_t i = 0; i < p.n; i++)
        logits[i] *= 4;
    double *num = differences(&p);
    double loss = softmax_loss(BATCH, CLASSES, logits, labels, d);
    near(loss, softmax_value(&p), 1e-5, "softmax: loss");
    /* The differences are off by h^2 / 6 times a third derivative < 1. */
    ok(distance(p.n, d, num) < 2e-6, "softmax: gradient");

    for (size_t i = 0; i < CLASSES; i++)
        logits[i] = i == 4 ? 1e30f : -1e30f;
    loss = softmax_loss(1, CLASSES, logits, labels, d);
    ok(isfinite(d[0]) && isfinite(d[4]), "softmax: no overflow");
    near(loss, 2e30, 1e24, "softmax: a large loss");
    logits[2] = NAN;
    loss = softmax_loss(1, CLASSES, logits, labels, d);
    ok(isnan(loss), "softmax: a NaN is passed on");
    free(logits), free(d), free(num);
}

static void test_correct(void)
{
    float logits[] = {0, 1, 0, 5, 2, 3, 1, 1, 1};
    uint8_t labels[] = {1, 0, 2};

    is_int((long long)count_correct(3, 3, logits, labels), 2,
           "count_correct: the first of equals wins");
}

int main(void)
{
    test_conv((struct conv_shape){7, 6, 3, 4});
    test_conv((struct conv_shape){8, 8, 1, 16});
    test_conv((struct conv_shape){4, 5, 16, 8});
    test_conv((struct conv_shape){1, 2, 2, 1});
    test_pool(6, 8, 5);
    test_pool(4, 4, 16);
    test_pool_nan();
    test_dense(5, 13, 7);
    test_dense(1, 40, 10);
    test_relu();
    test_softmax();
    test_correct();
    return done();
}
