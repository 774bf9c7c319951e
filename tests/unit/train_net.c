/* Whole models against the same models in double, gradients by central
 * differences of those. */
#include "train_net.h"

#include <stdlib.h>

#include "tap.h"
#include "train_layers.h"

enum { SIDE = 12, PIXELS = SIDE * SIDE, N = 3 };

static uint32_t random_state = 7;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

static const double *param(const struct train_net *net, const double *params,
                           const char *layer, const char *what, size_t *out)
{
    size_t count;
    const struct train_tensor *t = train_net_tensors(net, &count);
    char name[32];

    snprintf(name, sizeof name, "%s.%s", layer, what);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(t[i].name, name) == 0) {
            *out = t[i].shape[1];
            return params + t[i].offset;
        }
    }
    return NULL;
}

/* x [side][side][in] becomes [side / 2][side / 2][out]. */
static void ref_conv(const struct train_net *net, const double *params,
                     const char *layer, size_t side, size_t in, double *x)
{
    size_t out;
    const double *w = param(net, params, layer, "weight", &out);
    const double *b = param(net, params, layer, "bias", &out);
    double *y = calloc(side / 2 * (side / 2) * out, sizeof *y);

    for (size_t at = 0; at < side * side * out; at++) {
        size_t o = at % out, ox = at / out % side, oy = at / out / side;
        double sum = b[o];
        for (size_t k = 0; k < CONV_TAPS; k++) {
            size_t iy = oy + k / CONV_SIDE - 2, ix = ox + k % CONV_SIDE - 2;
            for (size_t c = 0; c < in && iy < side && ix < side; c++)
                sum += x[(iy * side + ix) * in + c] * w[(k * in + c) * out + o];
        }
        double *to = &y[(oy / 2 * (side / 2) + ox / 2) * out + o];
        *to = sum > *to ? sum : *to; /* from 0: the ReLU */
    }
    memcpy(x, y, side / 2 * (side / 2) * out * sizeof *y);
    free(y);
}

/* x [in] becomes [out]. */
static void ref_dense(const struct train_net *net, const double *params,
                      const char *layer, size_t in, bool relu, double *x)
{
    size_t out;
    const double *w = param(net, params, layer, "weight", &out);
    const double *b = param(net, params, layer, "bias", &out);
    double *y = calloc(out, sizeof *y);

    for (size_t o = 0; o < out; o++) {
        y[o] = b[o];
        for (size_t i = 0; i < in; i++)
            y[o] += x[i] * w[i * out + o];
        if (relu && y[o] < 0)
            y[o] = 0;
    }
    memcpy(x, y, out * sizeof *y);
    free(y);
}

static double ref_loss(enum train_model model, const struct train_net *net,
                       const double *params, const float *input,
                       const uint8_t *labels, size_t n)
{
    double *x = calloc(SIDE * SIDE * 32, sizeof *x), loss = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < PIXELS; k++)
            x[k] = input[i * PIXELS + k];
        if (model == TRAIN_CNN) {
            ref_conv(net, params, "conv1", SIDE, 1, x);
            ref_conv(net, params, "conv2", SIDE / 2, 16, x);
            ref_dense(net, params, "hidden", PIXELS / 16 * 32, true, x);
        } else if (model == TRAIN_MLP) {
            ref_dense(net, params, "hidden", PIXELS, true, x);
        }
        ref_dense(net, params, "out", model == TRAIN_SOFTMAX ? PIXELS : 128,
                  false, x);
        double sum = 0;
        for (size_t c = 0; c < TRAIN_CLASSES; c++)
            sum += exp(x[c]);
        loss += log(sum) - x[labels[i]];
    }
    free(x);
    return loss;
}

/* Gradient elements of every tensor, some of the large ones, against central
 * differences.  A step of 1e-6 in double makes them good to 1e-8 or so; what is
 * left is the float of the fast side. */
static double worst_gradient(enum train_model model, struct train_net *net,
                             double *params, const float *grad,
                             const uint8_t *labels)
{
    size_t count;
    const struct train_tensor *t = train_net_tensors(net, &count);
    const float *x = train_net_input(net);
    const double h = 1e-6;
    double worst = 0;

    for (size_t i = 0; i < count; i++) {
        size_t elems = t[i].shape[0] * t[i].shape[1];
        for (size_t k = 0; k < (elems < 20 ? elems : 20); k++) {
            size_t at = t[i].offset + (elems <= 20 ? k : draw((uint32_t)elems));
            double keep = params[at];
            params[at] = keep + h;
            double high = ref_loss(model, net, params, x, labels, N);
            params[at] = keep - h;
            double low = ref_loss(model, net, params, x, labels, N);
            params[at] = keep;
            double num = (high - low) / (2 * h);
            double d = fabs(grad[at] - num) / (1 + fabs(num));
            if (!(d <= worst))
                worst = isnan(d) ? INFINITY : d;
        }
    }
    return worst;
}

static void test_model(enum train_model model, const char *name)
{
    struct train_net *net;
    struct dsgd_error err;
    uint8_t labels[N] = {3, 0, 9};

    if (!ok(train_net_create(model, SIDE, SIDE, N, &net, &err) == DSGD_OK,
            "%s: create", name))
        return;
    size_t n = train_net_params(net);
    float *params = malloc(n * sizeof *params), *grad = calloc(n, sizeof *grad);
    double *wide = malloc(n * sizeof *wide), loss2 = 0;

    train_net_init(net, 5, params);
    for (size_t i = 0; i < n; i++)
        wide[i] = params[i] += (float)draw(100) * 1e-4f; /* biases not 0 */
    for (size_t i = 0; i < N * PIXELS; i++)
        train_net_input(net)[i] = (float)draw(2000) * 1e-3f - 1;
    double loss = train_net_gradient(net, params, labels, N, grad);
    near(loss, ref_loss(model, net, wide, train_net_input(net), labels, N),
         1e-4, "loss");
    double worst = worst_gradient(model, net, wide, grad, labels);
    if (!ok(worst < 1e-4, "%s: gradient by central differences", name))
        printf("#   off by %g\n", worst);

    float *twice = calloc(n, sizeof *twice);
    train_net_gradient(net, params, labels, N, twice);
    ok(memcmp(twice, grad, n * sizeof *grad) == 0, "%s: same bits again", name);
    train_net_gradient(net, params, labels, N, twice);
    bool doubled = true;
    for (size_t i = 0; i < n; i++)
        doubled = doubled &&
                  fabsf(twice[i] - 2 * grad[i]) <= 1e-4f * (1 + fabsf(grad[i]));
    ok(doubled, "%s: gradients are added", name);

    size_t right = train_net_classify(net, params, labels, N, &loss2);
    ok(right <= N && loss2 == loss, "%s: classify has the same loss", name);
    free(params), free(grad), free(wide), free(twice);
    train_net_destroy(net);
}

static void test_tables(void)
{
    struct train_net *net;
    struct dsgd_error err;
    size_t count;
    static const size_t params[] = {7850, 101770, 215370};

    for (int m = TRAIN_SOFTMAX; m <= TRAIN_CNN; m++) {
        train_net_create((enum train_model)m, 28, 28, 1, &net, &err);
        is_int((long long)train_net_params(net), (long long)params[m],
               "parameters on 28 x 28 pixels");
        const struct train_tensor *t = train_net_tensors(net, &count);
        bool tight = true;
        size_t end = 0;
        for (size_t i = 0; i < count; i++) {
            tight = tight && t[i].offset == end;
            end += t[i].shape[0] * t[i].shape[1];
        }
        ok(tight && end == train_net_params(net), "the table has no gaps");
        train_net_destroy(net);
    }
}

static void test_init(void)
{
    struct train_net *net;
    struct dsgd_error err;
    double squares = 0;

    train_net_create(TRAIN_MLP, 28, 28, 1, &net, &err);
    size_t n = train_net_params(net);
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    train_net_init(net, 1, a);
    train_net_init(net, 1, b);
    ok(memcmp(a, b, n * sizeof *a) == 0, "init: the same seed, the same bits");
    train_net_init(net, 2, b);
    ok(memcmp(a, b, n * sizeof *a) != 0, "init: another seed, other bits");
    for (size_t i = 0; i < 784 * 128; i++)
        squares += (double)a[i] * a[i];
    /* Standard error of the variance of 100,352 uniform draws: 0.3 %. */
    near(squares / (784 * 128) * 784 / 2, 1, 0.015, "init: variance 2 / 784");
    ok(a[784 * 128] == 0, "init: biases are 0");
    free(a), free(b);
    train_net_destroy(net);
}

static void test_errors(void)
{
    struct train_net *net;
    struct dsgd_error err;

    is_int(train_net_create(TRAIN_CNN, 28, 30, 1, &net, &err), DSGD_E_USAGE,
           "cnn on 28 x 30 pixels");
    is_str(err.text,
           "--model: cnn halves an image twice, and 28 x 30 pixels are not "
           "multiples of 4: use mlp",
           "its text");
    ok(net == NULL, "no model on error");
    is_int(train_net_create(TRAIN_MLP, 0, 28, 1, &net, &err), DSGD_E_RANGE,
           "no rows");
    is_int(train_net_create(TRAIN_MLP, 28, 28, 0, &net, &err), DSGD_E_RANGE,
           "no capacity");
    is_int(train_net_create(TRAIN_MLP, 28, 28, SIZE_MAX, &net, &err),
           DSGD_E_RANGE, "a capacity that would overflow");
    is_int(train_net_create(TRAIN_MLP, 28, 1 << 20, 1, &net, NULL),
           DSGD_E_RANGE, "too wide, and nobody wants the text");
    train_net_destroy(NULL);
}

int main(void)
{
    test_model(TRAIN_SOFTMAX, "softmax");
    test_model(TRAIN_MLP, "mlp");
    test_model(TRAIN_CNN, "cnn");
    test_tables();
    test_init();
    test_errors();
    return done();
}
