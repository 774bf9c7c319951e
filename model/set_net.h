/* The parameters of the `set` model: three GRUs (worker, node, cluster) and
 * three two-layer heads, in one arena described by one table. */
#ifndef DSGD_SET_NET_H
#define DSGD_SET_NET_H

#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "ops.h"
#include "predictive.h"
#include "set_filter.h"

enum { SET_MAX_HIDDEN = 1024, SET_MAX_TELEMETRY = 256 };

/* Outputs of the heads, in their order. */
enum {
    /* worker: softmax of anchors, offset, mean, 2 increments, log sd, log w */
    SET_WORKER_OUT = SET_ANCHORS + 1 + 3 * PRED_K,
    /* node: shift, log p, tails */
    SET_NODE_OUT = 2 * PRED_M + PRED_M * (PRED_K - 1),
    /* cluster: shift, log p, tails, scale */
    SET_CLUSTER_OUT = 3 * PRED_G + PRED_G * (PRED_K - 1)
};

struct set_config {
    size_t n_telemetry; /* features a node */
    enum set_flags flags;
    size_t hidden; /* of the GRUs, 32 */
    size_t head;   /* of the heads, 48 */
};

/* GRUs gw (worker), gn (node), gg (cluster), then the heads' two layers. */
enum set_param_id {
    SET_GW_IH,
    SET_GW_HH,
    SET_GW_BIH,
    SET_GW_BHH,
    SET_GN_IH,
    SET_GN_HH,
    SET_GN_BIH,
    SET_GN_BHH,
    SET_GG_IH,
    SET_GG_HH,
    SET_GG_BIH,
    SET_GG_BHH,
    SET_W1,
    SET_W1_B,
    SET_W2,
    SET_W2_B,
    SET_N1,
    SET_N1_B,
    SET_N2,
    SET_N2_B,
    SET_G1,
    SET_G1_B,
    SET_G2,
    SET_G2_B,
    SET_PARAMS
};

struct set_param {
    const char *name; /* PyTorch's, as in model files */
    size_t n_dims, shape[2];
    size_t offset, n; /* in the arena, floats */
};

/* Widths that follow from the configuration. */
struct set_widths {
    size_t node_in; /* node features */
    size_t gn_in;   /* 2 hidden + node features */
    size_t gg_in;   /* hidden + 2 */
    size_t w1_in;   /* 3 hidden + worker features */
    size_t n1_in;   /* 2 hidden + node features */
};

struct set_widths set_widths(const struct set_config *config);

struct set_net {
    struct set_config config;
    struct set_widths width;
    struct set_param param[SET_PARAMS];
    size_t n; /* parameters, floats */
    float *w; /* [n] the arena */
};

/* All parameters 0.  Errors: DSGD_E_NOMEM, DSGD_E_RANGE. */
enum dsgd_err set_net_create(const struct set_config *config,
                             struct set_net **net, struct dsgd_error *err);
void set_net_free(struct set_net *net);

/* Random start: PyTorch's uniform ranges, last layers times .2 with biases that
 * spread the mixture.  Same seed, same bits. */
void set_net_init(struct set_net *net, uint64_t seed);

/* A parameter in an arena w (the weights, or gradients in the same layout). */
static inline const float *set_at(const struct set_net *net, const float *w,
                                  enum set_param_id id)
{
    return w + net->param[id].offset;
}

/* The GRU whose first parameter is id. */
struct ops_gru set_gru(const struct set_net *net, enum set_param_id id);

#endif
