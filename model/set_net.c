#include "set_net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

static void add(struct set_net *net, enum set_param_id id, const char *name,
                size_t rows, size_t cols)
{
    net->param[id] = (struct set_param){.name = name,
                                        .n_dims = cols ? 2 : 1,
                                        .shape = {rows, cols},
                                        .offset = net->n,
                                        .n = rows * (cols ? cols : 1)};
    net->n += net->param[id].n;
}

static void make_table(struct set_net *net)
{
    size_t h = net->config.hidden, gates = 3 * h, head = net->config.head;
    const struct set_widths *w = &net->width;

    add(net, SET_GW_IH, "gw.weight_ih_l0", gates, SET_WORKER_FEATURES);
    add(net, SET_GW_HH, "gw.weight_hh_l0", gates, h);
    add(net, SET_GW_BIH, "gw.bias_ih_l0", gates, 0);
    add(net, SET_GW_BHH, "gw.bias_hh_l0", gates, 0);
    add(net, SET_GN_IH, "gn.weight_ih_l0", gates, w->gn_in);
    add(net, SET_GN_HH, "gn.weight_hh_l0", gates, h);
    add(net, SET_GN_BIH, "gn.bias_ih_l0", gates, 0);
    add(net, SET_GN_BHH, "gn.bias_hh_l0", gates, 0);
    add(net, SET_GG_IH, "gg.weight_ih_l0", gates, w->gg_in);
    add(net, SET_GG_HH, "gg.weight_hh_l0", gates, h);
    add(net, SET_GG_BIH, "gg.bias_ih_l0", gates, 0);
    add(net, SET_GG_BHH, "gg.bias_hh_l0", gates, 0);
    add(net, SET_W1, "w1.weight", head, w->w1_in);
    add(net, SET_W1_B, "w1.bias", head, 0);
    add(net, SET_W2, "w2.weight", SET_WORKER_OUT, head);
    add(net, SET_W2_B, "w2.bias", SET_WORKER_OUT, 0);
    add(net, SET_N1, "n1.weight", head, w->n1_in);
    add(net, SET_N1_B, "n1.bias", head, 0);
    add(net, SET_N2, "n2.weight", SET_NODE_OUT, head);
    add(net, SET_N2_B, "n2.bias", SET_NODE_OUT, 0);
    add(net, SET_G1, "g1.weight", head, h);
    add(net, SET_G1_B, "g1.bias", head, 0);
    add(net, SET_G2, "g2.weight", SET_CLUSTER_OUT, head);
    add(net, SET_G2_B, "g2.bias", SET_CLUSTER_OUT, 0);
}

struct set_widths set_widths(const struct set_config *config)
{
    size_t node = set_node_features(config->n_telemetry, config->flags);

    return (struct set_widths){.node_in = node,
                               .gn_in = 2 * config->hidden + node,
                               .gg_in = config->hidden + 2,
                               .w1_in =
                                   3 * config->hidden + SET_WORKER_FEATURES,
                               .n1_in = 2 * config->hidden + node};
}

enum dsgd_err set_net_create(const struct set_config *config,
                             struct set_net **out, struct dsgd_error *err)
{
    *out = NULL;
    if (config->hidden < 1 || config->hidden > SET_MAX_HIDDEN ||
        config->head < 1 || config->head > SET_MAX_HIDDEN ||
        config->n_telemetry > SET_MAX_TELEMETRY)
        return error_set(err, DSGD_E_RANGE,
                         "a set model of hidden size %zu, head %zu with %zu "
                         "telemetry features: the limits are %d, %d and %d",
                         config->hidden, config->head, config->n_telemetry,
                         SET_MAX_HIDDEN, SET_MAX_HIDDEN, SET_MAX_TELEMETRY);
    struct set_net *net = calloc(1, sizeof *net);
    if (!net)
        return error_set(err, DSGD_E_NOMEM, "no memory for a set model");
    net->config = *config;
    net->width = set_widths(config);
    make_table(net);
    net->w = calloc(net->n, sizeof *net->w);
    if (!net->w) {
        set_net_free(net);
        return error_set(err, DSGD_E_NOMEM, "no memory for a set model");
    }
    *out = net;
    return DSGD_OK;
}

void set_net_free(struct set_net *net)
{
    if (!net)
        return;
    free(net->w);
    free(net);
}

struct ops_gru set_gru(const struct set_net *net, enum set_param_id id)
{
    return (struct ops_gru){.in = net->param[id].shape[1],
                            .hidden = net->config.hidden,
                            .w_ih = set_at(net, net->w, id),
                            .w_hh = set_at(net, net->w, id + 1),
                            .b_ih = set_at(net, net->w, id + 2),
                            .b_hh = set_at(net, net->w, id + 3)};
}

/* splitmix64 */
static float uniform(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (float)(z >> 40) / 8388608.f - 1;
}

static void set_bias(struct set_net *net, enum set_param_id id, size_t at,
                     const float *value, size_t n)
{
    memcpy(net->w + net->param[id].offset + at, value, n * sizeof *value);
}

/* Where the untrained mixture starts. */
static void spread_mixture(struct set_net *net)
{
    static const float anchors[SET_ANCHORS] = {1, 1, .5f, 0};
    static const float increments[PRED_K] = {0, -3, -1};
    static const float log_sds[PRED_K] = {0, -1, -.5f};
    static const float log_ws[PRED_K] = {2, 0, -1.5f};
    static const float node_shifts[PRED_M] = {0, .35f, .8f, -.5f};
    static const float node_log_ps[PRED_M] = {2.5f, -1, -1, -1};
    static const float shifts[PRED_G] = {-.08f, -.03f, 0, .03f, .08f, 0};
    /* the last atom: many stragglers */
    static const float tails[PRED_K - 1] = {1.5f, 1.5f};
    static const float scales[PRED_G] = {.2f, -.2f, -.4f, .1f, 0, 0};
    size_t tail = 2 * PRED_G;

    set_bias(net, SET_W2_B, 0, anchors, SET_ANCHORS);
    set_bias(net, SET_W2_B, SET_ANCHORS + 1, increments, PRED_K);
    set_bias(net, SET_W2_B, SET_ANCHORS + 1 + PRED_K, log_sds, PRED_K);
    set_bias(net, SET_W2_B, SET_ANCHORS + 1 + 2 * PRED_K, log_ws, PRED_K);
    set_bias(net, SET_N2_B, 0, node_shifts, PRED_M);
    set_bias(net, SET_N2_B, PRED_M, node_log_ps, PRED_M);
    set_bias(net, SET_G2_B, 0, shifts, PRED_G);
    set_bias(net, SET_G2_B, tail + (PRED_G - 1) * (PRED_K - 1), tails,
             PRED_K - 1);
    set_bias(net, SET_G2_B, tail + PRED_G * (PRED_K - 1), scales, PRED_G);
}

void set_net_init(struct set_net *net, uint64_t seed)
{
    for (size_t id = 0; id < SET_PARAMS; id++) {
        const struct set_param *p = &net->param[id];
        /* GRUs: 1/sqrt(hidden); layers: 1/sqrt(inputs), also the biases. */
        size_t fan = id < SET_W1      ? net->config.hidden
                     : p->n_dims == 2 ? p->shape[1]
                                      : net->param[id - 1].shape[1];
        bool last = id == SET_W2 || id == SET_N2 || id == SET_G2;
        bool last_bias = id == SET_W2_B || id == SET_N2_B || id == SET_G2_B;
        float scale = (last ? .2f : last_bias ? 0 : 1) / sqrtf((float)fan);
        for (size_t i = 0; i < p->n; i++)
            net->w[p->offset + i] = scale * uniform(&seed);
    }
    spread_mixture(net);
}
