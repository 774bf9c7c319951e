/* From the heads' outputs to the terms of the predictive. */
#include <string.h>

#include "set_pass_priv.h"
#include "vmath.h"

/* Where things are in a worker's outputs. */
enum {
    OFFSET = SET_ANCHORS,
    MEAN = SET_ANCHORS + 1,
    LOG_SD = MEAN + PRED_K,
    LOG_W = LOG_SD + PRED_K
};
enum { NODE_TAILS = PRED_M * (PRED_K - 1), TAILS = PRED_G * (PRED_K - 1) };

_Static_assert(PRED_K == 3, "core, bursts, tail: limits and means below");

static const float sd_low[PRED_K] = {-5.3f, -5.3f, -3};
static const float sd_high[PRED_K] = {.5f, .7f, .8f};
static const float scale_limit = 1.5f;

/* NaN stays NaN. */
static inline float clamp(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

static inline float raw_log_sd(const float *o, float log_sd, size_t k)
{
    float base = k == 0 ? log_sd : k == 1 ? -.8f : 0;
    return o[LOG_SD + k] + base;
}

/* Returns the anchors' mean; share: how much each weighs. */
static float mean_anchor(const float *o, const float *anchor, float *share)
{
    float top = o[0], sum = 0, mean = 0;

    for (size_t i = 1; i < SET_ANCHORS; i++)
        top = o[i] > top ? o[i] : top;
    for (size_t i = 0; i < SET_ANCHORS; i++) {
        share[i] = vm_exp(o[i] - top);
        sum += share[i];
    }
    for (size_t i = 0; i < SET_ANCHORS; i++) {
        share[i] /= sum;
        mean += share[i] * anchor[i];
    }
    return mean;
}

VM_CLONES
void set_decode_workers(size_t rows, const float *o, const float *anchor,
                        const float *log_sd, struct set_output *out)
{
    for (size_t j = 0; j < rows; j++, o += SET_WORKER_OUT) {
        float share[SET_ANCHORS], *mu = out->mu + j * PRED_K;
        mu[0] = mean_anchor(o, anchor + j * SET_ANCHORS, share) +
                .3f * o[OFFSET] + .05f * o[MEAN];
        mu[1] = mu[0] + vm_softplus(o[MEAN + 1]);
        mu[2] = mu[1] + vm_softplus(o[MEAN + 2]);
        for (size_t k = 0; k < PRED_K; k++) {
            out->log_sd[j * PRED_K + k] =
                clamp(raw_log_sd(o, log_sd[j], k), sd_low[k], sd_high[k]);
            out->log_w[j * PRED_K + k] = o[LOG_W + k];
        }
    }
}

/* 0 where the clamp holds x at a limit. */
static inline float clamp_back(float x, float low, float high, float d)
{
    return x < low || x > high ? 0 : d;
}

void set_decode_workers_back(size_t rows, const float *o, const float *anchor,
                             const float *log_sd, const struct set_output *d,
                             float *d_o)
{
    for (size_t j = 0; j < rows;
         j++, o += SET_WORKER_OUT, d_o += SET_WORKER_OUT) {
        const float *dmu = d->mu + j * PRED_K, *a = anchor + j * SET_ANCHORS;
        float share[SET_ANCHORS], d0 = dmu[0] + dmu[1] + dmu[2];
        float mean = mean_anchor(o, a, share);
        for (size_t i = 0; i < SET_ANCHORS; i++)
            d_o[i] = d0 * share[i] * (a[i] - mean);
        d_o[OFFSET] = .3f * d0;
        d_o[MEAN] = .05f * d0;
        d_o[MEAN + 1] = (dmu[1] + dmu[2]) * vm_sigmoid(o[MEAN + 1]);
        d_o[MEAN + 2] = dmu[2] * vm_sigmoid(o[MEAN + 2]);
        for (size_t k = 0; k < PRED_K; k++) {
            d_o[LOG_SD + k] = clamp_back(raw_log_sd(o, log_sd[j], k), sd_low[k],
                                         sd_high[k], d->log_sd[j * PRED_K + k]);
            d_o[LOG_W + k] = d->log_w[j * PRED_K + k];
        }
    }
}

void set_decode_nodes(size_t rows, const float *o, struct set_output *out)
{
    for (size_t i = 0; i < rows; i++, o += SET_NODE_OUT) {
        memcpy(out->node_shift + i * PRED_M, o, PRED_M * sizeof *o);
        ops_log_softmax(1, PRED_M, o + PRED_M, out->node_log_p + i * PRED_M);
        memcpy(out->node_tail + i * NODE_TAILS, o + 2 * PRED_M,
               NODE_TAILS * sizeof *o);
    }
}

void set_decode_nodes_back(size_t rows, const struct set_output *out,
                           const struct set_output *d, float *d_o)
{
    for (size_t i = 0; i < rows; i++, d_o += SET_NODE_OUT) {
        memcpy(d_o, d->node_shift + i * PRED_M, PRED_M * sizeof *d_o);
        ops_log_softmax_back(1, PRED_M, out->node_log_p + i * PRED_M,
                             d->node_log_p + i * PRED_M, d_o + PRED_M);
        memcpy(d_o + 2 * PRED_M, d->node_tail + i * NODE_TAILS,
               NODE_TAILS * sizeof *d_o);
    }
}

void set_decode_clusters(size_t rows, const float *o, struct set_output *out)
{
    for (size_t b = 0; b < rows; b++, o += SET_CLUSTER_OUT) {
        memcpy(out->shift + b * PRED_G, o, PRED_G * sizeof *o);
        ops_log_softmax(1, PRED_G, o + PRED_G, out->log_p + b * PRED_G);
        memcpy(out->tail + b * TAILS, o + 2 * PRED_G, TAILS * sizeof *o);
        for (size_t g = 0; g < PRED_G; g++)
            out->scale[b * PRED_G + g] =
                clamp(o[2 * PRED_G + TAILS + g], -scale_limit, scale_limit);
    }
}

void set_decode_clusters_back(size_t rows, const float *o,
                              const struct set_output *out,
                              const struct set_output *d, float *d_o)
{
    for (size_t b = 0; b < rows;
         b++, o += SET_CLUSTER_OUT, d_o += SET_CLUSTER_OUT) {
        memcpy(d_o, d->shift + b * PRED_G, PRED_G * sizeof *d_o);
        ops_log_softmax_back(1, PRED_G, out->log_p + b * PRED_G,
                             d->log_p + b * PRED_G, d_o + PRED_G);
        memcpy(d_o + 2 * PRED_G, d->tail + b * TAILS, TAILS * sizeof *d_o);
        for (size_t g = 0; g < PRED_G; g++)
            d_o[2 * PRED_G + TAILS + g] =
                clamp_back(o[2 * PRED_G + TAILS + g], -scale_limit, scale_limit,
                           d->scale[b * PRED_G + g]);
    }
}
