/* The `set` model over T steps of W workers on N nodes of B clusters, forward
 * and back.  Workers of a node, and nodes of a cluster, are adjacent.  At work,
 * T = B = 1. */
#ifndef DSGD_SET_PASS_H
#define DSGD_SET_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "set_net.h"

struct set_size {
    size_t steps, workers, nodes, clusters;
};

struct set_input {
    struct set_size n;
    const uint32_t *node;    /* [W] 0..N-1, ascending, each used */
    const uint32_t *cluster; /* [N] 0..B-1, ascending, each used */
    const float *worker;     /* [T][W][12] */
    const float *node_in;    /* [T][N][node features] */
    const float *anchor;     /* [T][W][4] */
    const float *log_sd;     /* [T][W] */
};

/* What the heads say, and in backward passes dLoss/d of it; struct predictive's
 * arrays with [T] in front and [N], [B] for one node, one cluster. */
struct set_output {
    float *mu, *log_sd, *log_w; /* [T][W][K] */
    float *node_shift;          /* [T][N][M] */
    float *node_log_p;          /* [T][N][M] */
    float *node_tail;           /* [T][N][M][K-1] */
    float *shift;               /* [T][B][G] */
    float *log_p;               /* [T][B][G] */
    float *tail;                /* [T][B][G][K-1] */
    float *scale;               /* [T][B][G] */
};

struct set_pass;

/* Workspace for passes up to these sizes; backward: gradients will be wanted.
 * Errors: DSGD_E_NOMEM. */
enum dsgd_err set_pass_create(const struct set_config *config,
                              const struct set_size *max, bool backward,
                              struct set_pass **pass, struct dsgd_error *err);
void set_pass_free(struct set_pass *pass);

/* The recurrent state before the first step; set_pass_reset zeroes it.
 *   worker [W][H], node [N][H], cluster [B][H] */
struct set_state {
    float *worker, *node, *cluster;
};
struct set_state set_pass_state(struct set_pass *pass);
void set_pass_reset(struct set_pass *pass, const struct set_size *n);
/* Let the state after the last step be the one before the next first. */
void set_pass_carry(struct set_pass *pass, const struct set_size *n);

/* The output holds until the next pass. */
const struct set_output *set_pass_forward(struct set_pass *pass,
                                          const struct set_net *net,
                                          const struct set_input *in);

/* dLoss/d output, to be filled in after a forward pass. */
struct set_output *set_pass_output_grad(struct set_pass *pass);

/* grad [net->n] is added to; the input is that of the forward pass. */
void set_pass_backward(struct set_pass *pass, const struct set_net *net,
                       const struct set_input *in, float *grad);

#endif
