#include "dmm_net.h"

#include <math.h>
#include <stdlib.h>

#include "error.h"
#include "ops.h"
#include "rng.h"

enum { MOST_WORKERS = 1000000 };

/* cols 0: a vector; rows or cols -1: n. */
static const struct {
    const char *name;
    int rows, cols;
} tensors[DMM_TENSORS] = {
    [DMM_RNN_WI] = {"rnn.weight_ih_l0", 3 * DMM_R, -1},
    [DMM_RNN_WH] = {"rnn.weight_hh_l0", 3 * DMM_R, DMM_R},
    [DMM_RNN_BI] = {"rnn.bias_ih_l0", 3 * DMM_R, 0},
    [DMM_RNN_BH] = {"rnn.bias_hh_l0", 3 * DMM_R, 0},
    [DMM_CZ_W] = {"cz.weight", DMM_R, DMM_Z},
    [DMM_CZ_B] = {"cz.bias", DMM_R, 0},
    [DMM_QM_W] = {"qm.weight", DMM_Z, DMM_R},
    [DMM_QM_B] = {"qm.bias", DMM_Z, 0},
    [DMM_QS_W] = {"qs.weight", DMM_Z, DMM_R},
    [DMM_QS_B] = {"qs.bias", DMM_Z, 0},
    [DMM_ZQ0] = {"zq0", DMM_Z, 0},
    [DMM_Z0] = {"z0", DMM_Z, 0},
    [DMM_G1_W] = {"g1.weight", DMM_HT, DMM_Z},
    [DMM_G1_B] = {"g1.bias", DMM_HT, 0},
    [DMM_G2_W] = {"g2.weight", DMM_Z, DMM_HT},
    [DMM_G2_B] = {"g2.bias", DMM_Z, 0},
    [DMM_H1_W] = {"h1.weight", DMM_HT, DMM_Z},
    [DMM_H1_B] = {"h1.bias", DMM_HT, 0},
    [DMM_H2_W] = {"h2.weight", DMM_Z, DMM_HT},
    [DMM_H2_B] = {"h2.bias", DMM_Z, 0},
    [DMM_LIN_W] = {"lin.weight", DMM_Z, DMM_Z},
    [DMM_LIN_B] = {"lin.bias", DMM_Z, 0},
    [DMM_TS_W] = {"ts.weight", DMM_Z, DMM_Z},
    [DMM_TS_B] = {"ts.bias", DMM_Z, 0},
    [DMM_E1_W] = {"e1.weight", DMM_HE, DMM_Z},
    [DMM_E1_B] = {"e1.bias", DMM_HE, 0},
    [DMM_EM_W] = {"em.weight", -1, DMM_HE},
    [DMM_EM_B] = {"em.bias", -1, 0},
    [DMM_ES_W] = {"es.weight", -1, DMM_HE},
    [DMM_ES_B] = {"es.bias", -1, 0},
};

struct dmm_shape dmm_tensor(enum dmm_tensor tensor, size_t n)
{
    int rows = tensors[tensor].rows, cols = tensors[tensor].cols;

    return (struct dmm_shape){.name = tensors[tensor].name,
                              .rows = rows < 0 ? n : (size_t)rows,
                              .cols = cols < 0 ? n : (size_t)cols};
}

static size_t elements(struct dmm_shape shape)
{
    return shape.rows * (shape.cols ? shape.cols : 1);
}

enum dsgd_err dmm_net_create(size_t n, struct dmm_net **out,
                             struct dsgd_error *err)
{
    *out = NULL;
    if (n < 1 || n > MOST_WORKERS)
        return error_set(err, DSGD_E_RANGE,
                         "a dmm for %zu workers: give 1 to %d", n,
                         MOST_WORKERS);
    struct dmm_net *net = calloc(1, sizeof *net);
    if (!net)
        return error_set(err, DSGD_E_NOMEM, "no memory for a dmm");
    net->n = n;
    net->scale = 1;
    for (int i = 0; i < DMM_TENSORS; i++)
        net->at[i + 1] = net->at[i] + elements(dmm_tensor(i, n));
    net->n_params = net->at[DMM_TENSORS];
    net->params = calloc(net->n_params, sizeof *net->params);
    net->mean = calloc(n, sizeof *net->mean);
    if (!net->params || !net->mean) {
        dmm_net_free(net);
        return error_set(err, DSGD_E_NOMEM,
                         "no memory for a dmm of %zu workers", n);
    }
    *out = net;
    return DSGD_OK;
}

void dmm_net_free(struct dmm_net *net)
{
    if (!net)
        return;
    free(net->params);
    free(net->mean);
    free(net);
}

/* Inputs of the layer that a tensor belongs to: what its bound depends on.  A
 * bias follows its weight; the GRU's are bounded by its units. */
static size_t fan_in(int tensor, size_t n)
{
    if (tensor <= DMM_RNN_BH)
        return DMM_R;
    while (dmm_tensor(tensor, n).cols == 0)
        tensor--;
    return dmm_tensor(tensor, n).cols;
}

void dmm_net_init(struct dmm_net *net, uint64_t seed)
{
    struct rng rng;

    rng_seed(&rng, seed, 0x646d6d);
    for (int i = 0; i < DMM_TENSORS; i++) {
        double bound = 1 / sqrt((double)fan_in(i, net->n));
        if (i == DMM_ZQ0 || i == DMM_Z0 || i == DMM_LIN_W || i == DMM_LIN_B)
            bound = 0;
        for (size_t k = net->at[i]; k < net->at[i + 1]; k++)
            net->params[k] =
                bound > 0 ? (float)rng_range(&rng, -bound, bound) : 0;
    }
    for (size_t k = 0; k < DMM_Z; k++)
        net->params[net->at[DMM_LIN_W] + k * (DMM_Z + 1)] = 1;
}

void dmm_layer(const struct dmm_net *net, enum dmm_tensor w, size_t rows,
               const float *x, float *y)
{
    struct dmm_shape shape = dmm_tensor(w, net->n);

    ops_linear(rows, shape.cols, shape.rows, x, net->params + net->at[w],
               net->params + net->at[w + 1], y);
}

void dmm_spread(size_t n, const float *x, float least, float *s)
{
    ops_softplus(n, x, s);
    for (size_t i = 0; i < n; i++)
        s[i] += least;
}

void dmm_relu(size_t n, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] > 0 ? x[i] : 0;
}
