/* The workspace of a pass and the steps it is made of. */
#ifndef DSGD_SET_PASS_PRIV_H
#define DSGD_SET_PASS_PRIV_H

#include "set_pass.h"

/* H hidden, D head; T, W, N, B as in set_pass.h. */
struct set_pass {
    struct set_config config;
    struct set_widths width;
    float *arena;  /* what follows */
    float *hw;     /* [T+1][W][H] recurrent states, the first given */
    float *hn;     /* [T+1][N][H] */
    float *hg;     /* [T+1][B][H] */
    float *xn;     /* [T][N][2H + node features] */
    float *xg;     /* [T][B][H + 2] */
    float *gi;     /* [T][max(W, N, B)][3H] a GRU's input products */
    float *gh;     /* [max(W, N, B)][3H] */
    float *tw;     /* [T][W][D] heads' hidden layers */
    float *tn;     /* [T][N][D] */
    float *tg;     /* [T][B][D] */
    float *part_n; /* [T][N][D] a node's part of its workers' first layer */
    float *part_g; /* [2][T][B][D] a cluster's part of its workers', nodes' */
    float *ow;     /* [T][W][SET_WORKER_OUT] heads' outputs */
    float *on;     /* [T][N][SET_NODE_OUT] */
    float *og;     /* [T][B][SET_CLUSTER_OUT] */
    struct set_output out;
    float *node_share; /* [N] of its cluster's workers */
    float *cluster_n;  /* [B] workers */
    /* Only for the way back: */
    float *cache_w; /* [T][W][4H] */
    float *cache_n; /* [T][N][4H] */
    float *cache_g; /* [T][B][4H] */
    struct set_output d_out;
    float *dhw;     /* [T][W][H] */
    float *dhn;     /* [T][N][H] */
    float *dhg;     /* [T][B][H] */
    float *dxn;     /* [T][N][2H + node features] */
    float *dxg;     /* [T][B][H + 2] */
    float *dgh;     /* [T][max(W, N, B)][3H]; gi serves as dgi */
    float *dh;      /* [max(W, N, B)][H] carried from step to step */
    float *dt;      /* [T][max(W, N, B)][D] of a head's hidden layer */
    float *dpart_n; /* [T][N][D] */
    float *dpart_g; /* [T][B][D] */
};

/* From the heads' outputs o to the predictive's terms, and back: do from
 * dLoss/d of the terms.  rows: steps times workers, nodes or clusters. */
void set_decode_workers(size_t rows, const float *o, const float *anchor,
                        const float *log_sd, struct set_output *out);
void set_decode_nodes(size_t rows, const float *o, struct set_output *out);
void set_decode_clusters(size_t rows, const float *o, struct set_output *out);
void set_decode_workers_back(size_t rows, const float *o, const float *anchor,
                             const float *log_sd, const struct set_output *d,
                             float *d_o);
void set_decode_nodes_back(size_t rows, const struct set_output *out,
                           const struct set_output *d, float *d_o);
void set_decode_clusters_back(size_t rows, const float *o,
                              const struct set_output *out,
                              const struct set_output *d, float *d_o);

#endif
