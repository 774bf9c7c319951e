/* The deep Markov model of a cluster's run-times (Krishnan et al. 2017; Teng &
 * Wood 2018): one latent z_t of Z numbers for all n workers,
 *
 *   z_t | z_{t-1} ~ N((1 - g) * lin(z) + g * h, softplus(ts(relu h)) + 1e-3)
 *       g = sigmoid(g2 relu(g1 z)),  h = h2 relu(h1 z)          (transition)
 *   y_t | z_t ~ N(em(e), softplus(es(e)) + 1e-2),  e = relu(e1 z)  (emission)
 *   q(z_t | z_{t-1}, y) = N(qm(c), softplus(qs(c)) + 1e-3),        (guide)
 *       c = .5 (tanh(cz z_{t-1}) + b_t),  b a GRU from the window's end to t
 *
 * y are log durations, standardised by a mean a worker and one scale. */
#ifndef DSGD_DMM_NET_H
#define DSGD_DMM_NET_H

#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"

enum {
    DMM_Z = 16,     /* of the latent */
    DMM_R = 64,     /* of the guide's GRU and combiner */
    DMM_HT = 32,    /* hidden units of the transition */
    DMM_HE = 64,    /* hidden units of the emission */
    DMM_WINDOW = 20 /* steps that the guide looks at */
};

/* One parameter arena; names and shapes are in dmm_tensor(). */
enum dmm_tensor {
    DMM_RNN_WI, /* [3R][n], gates r, z, n as in PyTorch */
    DMM_RNN_WH, /* [3R][R] */
    DMM_RNN_BI, /* [3R] */
    DMM_RNN_BH, /* [3R] */
    DMM_CZ_W,   /* [R][Z] */
    DMM_CZ_B,
    DMM_QM_W, /* [Z][R] */
    DMM_QM_B,
    DMM_QS_W, /* [Z][R] */
    DMM_QS_B,
    DMM_ZQ0,  /* [Z] the guide's z before the window */
    DMM_Z0,   /* [Z] the transition's */
    DMM_G1_W, /* [HT][Z] */
    DMM_G1_B,
    DMM_G2_W, /* [Z][HT] */
    DMM_G2_B,
    DMM_H1_W, /* [HT][Z] */
    DMM_H1_B,
    DMM_H2_W, /* [Z][HT] */
    DMM_H2_B,
    DMM_LIN_W, /* [Z][Z] */
    DMM_LIN_B,
    DMM_TS_W, /* [Z][Z] */
    DMM_TS_B,
    DMM_E1_W, /* [HE][Z] */
    DMM_E1_B,
    DMM_EM_W, /* [n][HE] */
    DMM_EM_B,
    DMM_ES_W, /* [n][HE] */
    DMM_ES_B,
    DMM_TENSORS
};

struct dmm_shape {
    const char *name;  /* as in the model file */
    size_t rows, cols; /* cols 0: a vector of rows */
};
struct dmm_shape dmm_tensor(enum dmm_tensor tensor, size_t n);

/* A model: its configuration and parameters. */
struct dmm_net {
    size_t n;                   /* workers */
    size_t n_params;            /* floats in params */
    float *params;              /* all tensors, one after the other */
    float *mean;                /* [n] of the log durations */
    float scale;                /* their standard deviation, one for all */
    size_t at[DMM_TENSORS + 1]; /* offset of each tensor */
};

/* Allocate, parameters 0.  Errors: DSGD_E_RANGE (n < 1 or absurd),
 * DSGD_E_NOMEM. */
enum dsgd_err dmm_net_create(size_t n, struct dmm_net **net,
                             struct dsgd_error *err);
void dmm_net_free(struct dmm_net *net);

/* PyTorch's default initialisation from a seed; lin is the identity. */
void dmm_net_init(struct dmm_net *net, uint64_t seed);

/* Smallest standard deviations of z and of y, the latter in units of scale. */
#define DMM_LEAST_Z 1e-3f
#define DMM_LEAST_Y 1e-2f

/* A linear layer over rows: the tensor w and the bias after it. */
void dmm_layer(const struct dmm_net *net, enum dmm_tensor w, size_t rows,
               const float *x, float *y);
/* s = softplus(x) + least; s may be x. */
void dmm_spread(size_t n, const float *x, float least, float *s);
void dmm_relu(size_t n, float *x);

#endif
