#include "train_net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "train_layers.h"

enum layer_kind { CONV_POOL, DENSE_RELU, DENSE };

struct layer_spec {
    enum layer_kind kind;
    const char *name;
    size_t out; /* channels or units */
};

struct layer {
    enum layer_kind kind;
    struct conv_shape conv;    /* CONV_POOL */
    size_t in, out;            /* floats an image */
    size_t w_offset, b_offset; /* in the arena */
    float *y;                  /* [capacity][out] */
    int32_t *which;            /* [capacity][out], CONV_POOL */
    float *pad;                /* one padded image, CONV_POOL */
};

enum {
    MAX_LAYERS = 4,
    /* Together they keep every size below 2^63 and every BLAS dimension in an
     * int. */
    MAX_SIDE = 1024,
    MAX_CAPACITY = 1 << 16
};

static const struct layer_spec softmax_spec[] = {{DENSE, "out", TRAIN_CLASSES}};
static const struct layer_spec mlp_spec[] = {{DENSE_RELU, "hidden", 128},
                                             {DENSE, "out", TRAIN_CLASSES}};
static const struct layer_spec cnn_spec[] = {{CONV_POOL, "conv1", 16},
                                             {CONV_POOL, "conv2", 32},
                                             {DENSE_RELU, "hidden", 128},
                                             {DENSE, "out", TRAIN_CLASSES}};

static const struct {
    const struct layer_spec *spec;
    size_t count;
} models[] = {
    [TRAIN_SOFTMAX] = {softmax_spec, 1},
    [TRAIN_MLP] = {mlp_spec, 2},
    [TRAIN_CNN] = {cnn_spec, 4},
};

struct train_net {
    size_t n_layers, n_tensors, n_params, capacity, pixels;
    struct layer layer[MAX_LAYERS];
    struct train_tensor tensor[2 * MAX_LAYERS];
    void *work;     /* what all pointers below and in the layers point into */
    float *input;   /* [capacity][pixels] */
    float *grad[2]; /* [capacity][widest layer]: gradients of activations */
    float *map;     /* one image before its pool, and its gradient */
    float *col;     /* scratch of a convolution */
};

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void add_tensor(struct train_net *net, const char *layer,
                       const char *what, size_t in, size_t out)
{
    struct train_tensor *t = &net->tensor[net->n_tensors++];

    snprintf(t->name, sizeof t->name, "%s.%s", layer, what);
    t->shape[0] = in;
    t->shape[1] = out;
    t->offset = net->n_params;
    net->n_params += in * out;
}

/* Chain the layers and lay out the arena. */
static void chain(struct train_net *net, enum train_model model, size_t rows,
                  size_t cols)
{
    size_t h = rows, w = cols, channels = 1;

    net->pixels = rows * cols;
    net->n_layers = models[model].count;
    for (size_t i = 0; i < net->n_layers; i++) {
        const struct layer_spec *spec = &models[model].spec[i];
        struct layer *l = &net->layer[i];
        size_t fan_in = h * w * channels;
        l->kind = spec->kind;
        l->in = fan_in;
        l->out = spec->out;
        if (l->kind == CONV_POOL) {
            l->conv = (struct conv_shape){h, w, channels, spec->out};
            l->out = h / 2 * (w / 2) * spec->out;
            fan_in = CONV_TAPS * channels;
            h /= 2;
            w /= 2;
        } else {
            h = w = 1;
        }
        channels = spec->out;
        l->w_offset = net->n_params;
        add_tensor(net, spec->name, "weight", fan_in, spec->out);
        l->b_offset = net->n_params;
        add_tensor(net, spec->name, "bias", 1, spec->out);
    }
}

/* The next n floats after base, on a cache line of their own; NULL while only
 * counting. */
static void *take(float *base, size_t *used, size_t n)
{
    void *taken = base ? base + *used : NULL;

    *used += (n + 15) / 16 * 16;
    return taken;
}

/* Give every buffer its place after base, which may be NULL, to count.
 * Returns the floats needed. */
static size_t place(struct train_net *net, float *base)
{
    size_t used = 0, widest = 0, map = 0, col = 0;

    net->input = take(base, &used, net->capacity * net->pixels);
    for (size_t i = 0; i < net->n_layers; i++) {
        struct layer *l = &net->layer[i];
        widest = max_size(widest, l->out);
        l->y = take(base, &used, net->capacity * l->out);
        if (l->kind != CONV_POOL)
            continue;
        l->which = take(base, &used, net->capacity * l->out);
        l->pad = take(base, &used, conv_pad_elems(&l->conv));
        map = max_size(map, l->conv.h * l->conv.w * l->conv.out);
        col = max_size(col, conv_col_elems(&l->conv));
    }
    net->grad[0] = take(base, &used, net->capacity * widest);
    net->grad[1] = take(base, &used, net->capacity * widest);
    net->map = take(base, &used, map);
    net->col = take(base, &used, col);
    return used;
}

static enum dsgd_err check_sizes(enum train_model model, size_t rows,
                                 size_t cols, size_t capacity,
                                 struct dsgd_error *err)
{
    if (rows < 1 || cols < 1 || rows > MAX_SIDE || cols > MAX_SIDE)
        return error_set(err, DSGD_E_RANGE,
                         "images of %zu x %zu pixels: a side must be 1 to %d",
                         rows, cols, MAX_SIDE);
    if (capacity < 1 || capacity > MAX_CAPACITY)
        return error_set(err, DSGD_E_RANGE,
                         "%zu images at a time: give 1 to %d", capacity,
                         MAX_CAPACITY);
    if (model == TRAIN_CNN && (rows % 4 || cols % 4))
        return error_set(err, DSGD_E_USAGE,
                         "--model: cnn halves an image twice, and %zu x %zu "
                         "pixels are not multiples of 4: use mlp",
                         rows, cols);
    return DSGD_OK;
}

enum dsgd_err train_net_create(enum train_model model, size_t rows, size_t cols,
                               size_t capacity, struct train_net **out,
                               struct dsgd_error *err)
{
    *out = NULL;
    enum dsgd_err rc = check_sizes(model, rows, cols, capacity, err);
    if (rc != DSGD_OK)
        return rc;
    struct train_net *net = calloc(1, sizeof *net);
    if (!net)
        return error_set(err, DSGD_E_NOMEM, "model: no memory");
    net->capacity = capacity;
    chain(net, model, rows, cols);
    size_t bytes = place(net, NULL) * sizeof(float);
    net->work = aligned_alloc(64, bytes);
    if (!net->work) {
        free(net);
        return error_set(err, DSGD_E_NOMEM,
                         "model: no memory for %zu bytes: use a smaller "
                         "--batch, or more --micro-batches",
                         bytes);
    }
    memset(net->work, 0, bytes);
    place(net, net->work);
    *out = net;
    return DSGD_OK;
}

void train_net_destroy(struct train_net *net)
{
    if (!net)
        return;
    free(net->work);
    free(net);
}

size_t train_net_params(const struct train_net *net)
{
    return net->n_params;
}

size_t train_net_capacity(const struct train_net *net)
{
    return net->capacity;
}

const struct train_tensor *train_net_tensors(const struct train_net *net,
                                             size_t *count)
{
    *count = net->n_tensors;
    return net->tensor;
}

float *train_net_input(struct train_net *net)
{
    return net->input;
}

/* The generator SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void train_net_init(const struct train_net *net, uint64_t seed, float *params)
{
    uint64_t state = seed;

    memset(params, 0, net->n_params * sizeof *params);
    for (size_t i = 0; i < net->n_layers; i++) {
        const struct layer *l = &net->layer[i];
        const struct train_tensor *t = &net->tensor[2 * i];
        double variance = (l->kind == DENSE ? 1. : 2.) / (double)t->shape[0];
        /* Uniform: log and cos of a normal draw differ between machines. */
        float bound = (float)sqrt(3 * variance);
        for (size_t k = 0; k < t->shape[0] * t->shape[1]; k++) {
            float u = (float)(next_random(&state) >> 40) * 0x1p-23f - 1;
            params[t->offset + k] = u * bound;
        }
    }
}

static void conv_pool_forward(struct train_net *net, struct layer *l,
                              const float *params, const float *x, size_t n)
{
    const struct conv_shape *s = &l->conv;

    for (size_t i = 0; i < n; i++) {
        conv_forward(s, x + i * l->in, params + l->w_offset, l->pad, net->col,
                     net->map);
        relu_pool_forward(s->h, s->w, s->out, net->map, params + l->b_offset,
                          l->y + i * l->out, l->which + i * l->out);
    }
}

static void conv_pool_backward(struct train_net *net, struct layer *l,
                               const float *params, const float *x,
                               const float *dy, size_t n, float *grad,
                               float *dx)
{
    const struct conv_shape *s = &l->conv;

    for (size_t i = 0; i < n; i++) {
        relu_pool_backward(s->h, s->w, s->out, dy + i * l->out,
                           l->which + i * l->out, net->map, grad + l->b_offset);
        conv_backward(s, x + i * l->in, params + l->w_offset, net->map, l->pad,
                      net->col, grad + l->w_offset, dx ? dx + i * l->in : NULL);
    }
}

/* Returns the logits. */
static const float *forward(struct train_net *net, const float *params,
                            size_t n)
{
    const float *x = net->input;

    for (size_t i = 0; i < net->n_layers; i++) {
        struct layer *l = &net->layer[i];
        if (l->kind == CONV_POOL) {
            conv_pool_forward(net, l, params, x, n);
        } else {
            dense_forward(n, l->in, l->out, x, params + l->w_offset,
                          params + l->b_offset, l->y);
            if (l->kind == DENSE_RELU)
                relu_forward(n * l->out, l->y);
        }
        x = l->y;
    }
    return x;
}

static void backward(struct train_net *net, const float *params, size_t n,
                     float *grad)
{
    float *dy = net->grad[0], *dx = net->grad[1];

    for (size_t i = net->n_layers; i-- > 0;) {
        struct layer *l = &net->layer[i];
        const float *x = i ? net->layer[i - 1].y : net->input;
        float *down = i ? dx : NULL;
        if (l->kind == CONV_POOL) {
            conv_pool_backward(net, l, params, x, dy, n, grad, down);
        } else {
            if (l->kind == DENSE_RELU)
                relu_backward(n * l->out, l->y, dy);
            dense_backward(n, l->in, l->out, x, params + l->w_offset, dy,
                           grad + l->w_offset, grad + l->b_offset, down);
        }
        dx = dy;
        dy = down;
    }
}

double train_net_gradient(struct train_net *net, const float *params,
                          const uint8_t *labels, size_t n, float *grad)
{
    const float *logits = forward(net, params, n);
    double loss = softmax_loss(n, TRAIN_CLASSES, logits, labels, net->grad[0]);

    backward(net, params, n, grad);
    return loss;
}

size_t train_net_classify(struct train_net *net, const float *params,
                          const uint8_t *labels, size_t n, double *loss)
{
    const float *logits = forward(net, params, n);

    *loss += softmax_loss(n, TRAIN_CLASSES, logits, labels, net->grad[0]);
    return count_correct(n, TRAIN_CLASSES, logits, labels);
}
