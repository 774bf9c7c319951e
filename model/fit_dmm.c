#include "fit_dmm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dmm.h"
#include "dmm_elbo.h"
#include "error.h"
#include "ops.h"
#include "rng.h"

enum {
    W = DMM_WINDOW,
    B = FIT_DMM_BATCH,
    CHECK_STRIDE = 3, /* steps between windows to validate on */
    STREAM_DMM_BATCH = 11,
    STREAM_DMM_CHECK
};
#define LOG_SQRT_2PI 0.91893853320467274

struct fit_dmm {
    struct dmm_net *net;
    struct fit_dmm_plan plan;
    const struct fit_pool *data;
    size_t *held;  /* [data->count] first step held out */
    size_t starts; /* windows to train on, over all traces */
    float **x;     /* [data->count][steps][n] what the guide sees */
    float **y;     /* the same, what is to be explained */
    uint8_t **known;
    struct dmm_elbo *elbo;
    float *batch_x, *batch_y, *noise; /* [W][B][n], [n], [Z] */
    uint8_t *batch_known;             /* [W][B][n] */
};

static void free_dmm(void *self)
{
    struct fit_dmm *d = self;

    if (!d)
        return;
    for (size_t i = 0; i < d->data->count; i++) {
        free(d->x ? d->x[i] : NULL);
        free(d->y ? d->y[i] : NULL);
        free(d->known ? d->known[i] : NULL);
    }
    free(d->held);
    free(d->x);
    free(d->y);
    free(d->known);
    dmm_elbo_free(d->elbo);
    free(d->batch_x);
    free(d->batch_y);
    free(d->batch_known);
    free(d->noise);
    free(d);
}

/* Window starting at step `from` of a trace, as column b of the batch. */
static void place(struct fit_dmm *d, size_t b, size_t trace, size_t from)
{
    size_t n = d->net->n;

    for (size_t t = 0; t < W; t++) {
        size_t to = (t * B + b) * n, at = (from + t) * n;
        memcpy(d->batch_x + to, d->x[trace] + at, n * sizeof(float));
        memcpy(d->batch_y + to, d->y[trace] + at, n * sizeof(float));
        memcpy(d->batch_known + to, d->known[trace] + at, n);
    }
}

static void draw(struct fit_dmm *d, struct rng *r)
{
    for (size_t i = 0; i < (size_t)W * B * DMM_Z; i++)
        d->noise[i] = (float)rng_normal(r);
}

static struct dmm_terms forward(struct fit_dmm *d)
{
    return dmm_elbo_forward(d->elbo, d->batch_y, d->batch_x, d->batch_known,
                            d->noise);
}

/* Nats a worker and step, of log durations. */
static double to_loss(const struct fit_dmm *d, struct dmm_terms t, double beta)
{
    return -(t.log_lik - beta * t.kl) / ((double)W * (double)d->net->n) +
           LOG_SQRT_2PI + log(d->net->scale);
}

static double loss(void *self, uint64_t step, double done, float *grad)
{
    struct fit_dmm *d = self;
    double beta = fmin(1, .2 + 4 * done);
    struct rng r;

    rng_seed(&r, d->plan.seed, ((uint64_t)STREAM_DMM_BATCH << 48) + step);
    for (size_t b = 0; b < B; b++) {
        size_t start = (size_t)rng_below(&r, d->starts), trace = 0;
        while (start > d->held[trace] - W)
            start -= d->held[trace++] - W + 1;
        place(d, b, trace, start);
    }
    draw(d, &r);
    struct dmm_terms t = forward(d);
    dmm_elbo_backward(d->elbo, beta, grad);
    return to_loss(d, t, beta);
}

/* Put the i-th held-out window, counted over all traces and going round, into
 * column b.  Returns how many there are. */
static size_t place_held(struct fit_dmm *d, size_t b, size_t i)
{
    size_t all = 0;

    for (size_t k = 0; k < d->data->count; k++)
        all += (d->data->trace[k].steps - W - d->held[k]) / CHECK_STRIDE + 1;
    i %= all ? all : 1;
    for (size_t k = 0; k < d->data->count; k++) {
        size_t here =
            (d->data->trace[k].steps - W - d->held[k]) / CHECK_STRIDE + 1;
        if (i < here) {
            place(d, b, k, d->held[k] + i * CHECK_STRIDE);
            break;
        }
        i -= here;
    }
    return all;
}

/* All held-out windows; the last batch is filled up by going round. */
static double validate(void *self)
{
    struct fit_dmm *d = self;
    double sum = 0, batches = 0;
    size_t next = 0, all;
    struct rng r;

    rng_seed(&r, 1, STREAM_DMM_CHECK);
    do {
        for (size_t b = 0; b < B; b++)
            all = place_held(d, b, next++);
        draw(d, &r);
        sum += to_loss(d, forward(d), 1);
        batches++;
    } while (next < all);
    return sum / batches;
}

/* Means of the workers over the steps to train on, where known. */
static void find_means(struct fit_dmm *d)
{
    size_t n = d->net->n;

    for (size_t j = 0; j < n; j++) {
        double sum = 0, count = 0;
        for (size_t i = 0; i < d->data->count; i++) {
            const struct fit_trace *t = &d->data->trace[i];
            for (size_t k = j; k < d->held[i] * n; k += n) {
                if (t->target_status[k] == TIMING_NONE)
                    continue;
                sum += t->target[k];
                count++;
            }
        }
        d->net->mean[j] = count > 0 ? (float)(sum / count) : 0;
    }
}

static void find_scale(struct fit_dmm *d)
{
    size_t n = d->net->n;
    double sum = 0, count = 0;

    for (size_t i = 0; i < d->data->count; i++) {
        const struct fit_trace *t = &d->data->trace[i];
        for (size_t k = 0; k < d->held[i] * n; k++) {
            if (t->target_status[k] == TIMING_NONE)
                continue;
            double off = (double)t->target[k] - d->net->mean[k % n];
            sum += off * off;
            count++;
        }
    }
    d->net->scale = count > 0 ? (float)fmax(sqrt(sum / count), 1e-3) : 1;
}

/* A bound stands for the mean beyond it, nothing for the worker's mean. */
static float guess(float y, int status)
{
    if (status == TIMING_NONE)
        return 0;
    return status == TIMING_CENSORED ? (float)ops_normal_beyond(y) : y;
}

static uint8_t known_as(int status)
{
    return status == TIMING_NONE ? 2 : status == TIMING_CENSORED ? 0 : 1;
}

static enum dsgd_err standardise(struct fit_dmm *d, size_t i,
                                 struct dsgd_error *err)
{
    const struct fit_trace *t = &d->data->trace[i];
    size_t n = d->net->n, cells = t->steps * n;

    d->x[i] = malloc(cells * sizeof(float));
    d->y[i] = malloc(cells * sizeof(float));
    d->known[i] = malloc(cells);
    if (!d->x[i] || !d->y[i] || !d->known[i])
        return error_set(err, DSGD_E_NOMEM, "%s: no memory", t->name);
    for (size_t k = 0; k < cells; k++) {
        float mean = d->net->mean[k % n], scale = d->net->scale;
        d->x[i][k] = guess((t->seen[k] - mean) / scale, t->status[k]);
        d->y[i][k] = (t->target[k] - mean) / scale;
        d->known[i][k] = known_as(t->target_status[k]);
        if (d->known[i][k] == 2)
            d->y[i][k] = 0;
    }
    return DSGD_OK;
}

/* Where each trace's held-out part begins.  Too short ones are an error: what
 * they lack is said. */
static enum dsgd_err split(struct fit_dmm *d, struct dsgd_error *err)
{
    for (size_t i = 0; i < d->data->count; i++) {
        const struct fit_trace *t = &d->data->trace[i];
        size_t held = (size_t)ceil(d->plan.validate * (double)t->steps);
        if (t->n != d->net->n)
            return error_set(err, DSGD_E_RANGE,
                             "%s: has %zu workers where the others or the "
                             "model have %zu: a dmm is for one cluster",
                             t->name, t->n, d->net->n);
        held = held < FIT_DMM_HELD ? FIT_DMM_HELD : held;
        if (t->steps < held + FIT_DMM_LEAST)
            return error_set(err, DSGD_E_RANGE,
                             "%s: too few data: it has %zu steps, and %zu are "
                             "needed, of which %zu to validate: give a longer "
                             "run",
                             t->name, t->steps, held + FIT_DMM_LEAST, held);
        d->held[i] = t->steps - held;
        if (fit_trace_known(t, d->held[i]) == 0)
            return error_set(err, DSGD_E_RANGE,
                             "%s: no run-time is known in its last %zu steps, "
                             "to validate: give another run",
                             t->name, held);
        d->starts += d->held[i] - W + 1;
    }
    return DSGD_OK;
}

static enum dsgd_err prepare(struct fit_dmm *d, struct dsgd_error *err)
{
    size_t count = d->data->count, cells = (size_t)W * B * d->net->n;

    d->held = calloc(count, sizeof *d->held);
    d->x = calloc(count, sizeof *d->x);
    d->y = calloc(count, sizeof *d->y);
    d->known = calloc(count, sizeof *d->known);
    d->batch_x = malloc(cells * sizeof(float));
    d->batch_y = malloc(cells * sizeof(float));
    d->batch_known = malloc(cells);
    d->noise = malloc((size_t)W * B * DMM_Z * sizeof(float));
    if (!d->held || !d->x || !d->y || !d->known || !d->batch_x || !d->batch_y ||
        !d->batch_known || !d->noise)
        return error_set(err, DSGD_E_NOMEM, "no memory to train a dmm");
    enum dsgd_err rc = split(d, err);
    if (rc == DSGD_OK && !d->plan.warm) {
        dmm_net_init(d->net, d->plan.seed);
        find_means(d);
        find_scale(d);
    }
    for (size_t i = 0; rc == DSGD_OK && i < count; i++)
        rc = standardise(d, i, err);
    if (rc == DSGD_OK)
        rc = dmm_elbo_create(d->net, W, B, &d->elbo, err);
    return rc;
}

enum dsgd_err fit_dmm_create(struct timing_model *model,
                             const struct fit_pool *data,
                             const struct fit_dmm_plan *plan,
                             struct fit_learner *learner,
                             struct dsgd_error *err)
{
    struct fit_dmm *d = calloc(1, sizeof *d);

    if (!d)
        return error_set(err, DSGD_E_NOMEM, "no memory to train a dmm");
    d->net = dmm_model_net(model);
    d->plan = *plan;
    d->data = data;
    enum dsgd_err rc = prepare(d, err);
    if (rc != DSGD_OK) {
        free_dmm(d);
        return rc;
    }
    *learner = (struct fit_learner){.self = d,
                                    .kind = "dmm",
                                    .n = d->net->n_params,
                                    .params = d->net->params,
                                    .loss = loss,
                                    .validate = validate,
                                    .free = free_dmm};
    return DSGD_OK;
}
