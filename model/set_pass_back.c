/* The way back through a pass. */
#include <string.h>

#include "set_pass_priv.h"

static float *at(const struct set_net *net, float *grad, enum set_param_id id)
{
    return grad + net->param[id].offset;
}

/* A block of cols columns, first on, of a layer's weights, whose input was x:
 *   dw += dy^T x,  dx = dy w + beta dx */
struct block {
    size_t rows, out, first, cols, width;
    const float *dy, *x, *w;
    float *dw, *dx;
    float beta;
};

static void block_back(const struct block *b)
{
    ops_gemm(true, false, b->out, b->cols, b->rows, b->dy, b->out, b->x,
             b->cols, 1, b->dw + b->first, b->width);
    if (b->dx)
        ops_gemm(false, false, b->rows, b->cols, b->out, b->dy, b->out,
                 b->w + b->first, b->width, b->beta, b->dx, b->cols);
}

/* out [groups] = sums over adjacent rows of x of the same group. */
static void sum_groups(size_t rows, size_t groups, size_t cols,
                       const uint32_t *group, const float *x, float *out)
{
    memset(out, 0, groups * cols * sizeof *out);
    for (size_t i = 0; i < rows; i++) {
        float *to = out + group[i] * cols;
#pragma omp simd
        for (size_t c = 0; c < cols; c++)
            to[c] += x[i * cols + c];
    }
}

/* Second layer of a head; dt becomes dLoss/d of what went into its tanh. */
static void second_back(const struct set_net *net, enum set_param_id id,
                        size_t rows, const float *hidden, const float *d_o,
                        float *dt, float *grad)
{
    size_t head = net->config.head, out = net->param[id].shape[0];

    ops_linear_back(rows, head, out, hidden, set_at(net, net->w, id), d_o, dt,
                    at(net, grad, id), at(net, grad, id + 1));
    ops_tanh_back(rows * head, hidden, dt, dt);
}

static void cluster_head_back(struct set_pass *p, const struct set_net *net,
                              const struct set_input *in, float *grad)
{
    size_t B = in->n.steps * in->n.clusters, h = net->config.hidden;
    const float *hg = p->hg + in->n.clusters * h;

    set_decode_clusters_back(B, p->og, &p->out, &p->d_out, p->og);
    second_back(net, SET_G2, B, p->tg, p->og, p->dt, grad);
    ops_linear_back(B, h, net->config.head, hg, set_at(net, net->w, SET_G1),
                    p->dt, p->dhg, at(net, grad, SET_G1),
                    at(net, grad, SET_G1_B));
}

/* The part of a first layer that a cluster's state goes through. */
static void cluster_part_back(struct set_pass *p, const struct set_net *net,
                              const struct set_input *in, enum set_param_id id,
                              size_t first, const float *dn, float *grad)
{
    const struct set_size *n = &in->n;
    size_t hd = net->config.head, h = net->config.hidden;
    size_t B = n->steps * n->clusters;

    for (size_t t = 0; t < n->steps; t++)
        sum_groups(n->nodes, n->clusters, hd, in->cluster,
                   dn + t * n->nodes * hd, p->dpart_g + t * n->clusters * hd);
    ops_add_rows(B, hd, p->dpart_g, at(net, grad, id + 1));
    block_back(&(struct block){.rows = B,
                               .out = hd,
                               .first = first,
                               .cols = h,
                               .width = net->param[id].shape[1],
                               .dy = p->dpart_g,
                               .x = p->hg + n->clusters * h,
                               .w = set_at(net, net->w, id),
                               .dw = at(net, grad, id),
                               .dx = p->dhg,
                               .beta = 1});
}

static void node_head_back(struct set_pass *p, const struct set_net *net,
                           const struct set_input *in, float *grad)
{
    size_t N = in->n.steps * in->n.nodes, h = net->config.hidden;
    struct block b = {.rows = N,
                      .out = net->config.head,
                      .cols = h,
                      .width = net->width.n1_in,
                      .dy = p->dt,
                      .x = p->hn + in->n.nodes * h,
                      .w = set_at(net, net->w, SET_N1),
                      .dw = at(net, grad, SET_N1),
                      .dx = p->dhn};

    set_decode_nodes_back(N, &p->out, &p->d_out, p->on);
    second_back(net, SET_N2, N, p->tn, p->on, p->dt, grad);
    block_back(&b);
    b.first = 2 * h;
    b.cols = net->width.node_in;
    b.x = in->node_in;
    b.dx = NULL;
    block_back(&b);
    cluster_part_back(p, net, in, SET_N1, h, p->dt, grad);
}

static void worker_head_back(struct set_pass *p, const struct set_net *net,
                             const struct set_input *in, float *grad)
{
    const struct set_size *n = &in->n;
    size_t W = n->steps * n->workers, h = net->config.hidden;
    size_t hd = net->config.head;
    struct block b = {.rows = W,
                      .out = hd,
                      .cols = h,
                      .width = net->width.w1_in,
                      .dy = p->dt,
                      .x = p->hw + n->workers * h,
                      .w = set_at(net, net->w, SET_W1),
                      .dw = at(net, grad, SET_W1),
                      .dx = p->dhw};

    set_decode_workers_back(W, p->ow, in->anchor, in->log_sd, &p->d_out, p->ow);
    second_back(net, SET_W2, W, p->tw, p->ow, p->dt, grad);
    block_back(&b);
    b.first = 3 * h;
    b.cols = SET_WORKER_FEATURES;
    b.x = in->worker;
    b.dx = NULL;
    block_back(&b);
    for (size_t t = 0; t < n->steps; t++)
        sum_groups(n->workers, n->nodes, hd, in->node,
                   p->dt + t * n->workers * hd, p->dpart_n + t * n->nodes * hd);
    b.rows = n->steps * n->nodes;
    b.first = b.cols = h;
    b.dy = p->dpart_n;
    b.x = p->hn + n->nodes * h;
    b.dx = p->dhn;
    b.beta = 1;
    block_back(&b);
    cluster_part_back(p, net, in, SET_W1, 2 * h, p->dpart_n, grad);
}

/* Through all steps of a GRU.
 *   dh  [T][rows][hidden] from above, becomes dLoss/dh in whole
 *   dx  [T][rows][in]; NULL: not wanted */
static void gru_back(struct set_pass *p, const struct set_net *net,
                     enum set_param_id id, size_t steps, size_t rows,
                     const float *x, const float *h, const float *cache,
                     float *dh, float *dx, float *grad)
{
    struct ops_gru g = set_gru(net, id);
    size_t gates = 3 * g.hidden, state = rows * g.hidden;

    for (size_t t = steps; t-- > 0;) {
        float *dgi = p->gi + t * rows * gates, *dgh = p->dgh + t * rows * gates;
        float *own = dh + t * state;
        if (t + 1 < steps) {
#pragma omp simd
            for (size_t i = 0; i < state; i++)
                own[i] += p->dh[i];
        }
        ops_gru_gates_back(rows, g.hidden, cache + t * rows * 4 * g.hidden,
                           h + t * state, own, dgi, dgh, p->dh);
        ops_gemm(false, false, rows, g.hidden, gates, dgh, gates, g.w_hh,
                 g.hidden, 1, p->dh, g.hidden);
    }
    ops_linear_back(steps * rows, g.in, gates, x, g.w_ih, p->gi, dx,
                    at(net, grad, id), at(net, grad, id + 2));
    ops_linear_back(steps * rows, g.hidden, gates, h, g.w_hh, p->dgh, NULL,
                    at(net, grad, id + 1), at(net, grad, id + 3));
}

static void pool_nodes_back(struct set_pass *p, const struct set_net *net,
                            const struct set_input *in)
{
    size_t h = net->config.hidden, N = in->n.nodes;

    for (size_t i = 0; i < in->n.steps * N; i++) {
        size_t b = i / N * in->n.clusters + in->cluster[i % N];
        const float *from = p->dxg + b * net->width.gg_in;
        float *to = p->dhn + i * h, share = p->node_share[i % N];
        for (size_t c = 0; c < h; c++)
            to[c] += share * from[c];
    }
}

static void pool_workers_back(struct set_pass *p, const struct set_net *net,
                              const struct set_input *in)
{
    size_t h = net->config.hidden, W = in->n.workers, N = in->n.nodes;

    for (size_t j = 0; j < in->n.steps * W; j++) {
        size_t i = in->node[j % W];
        const float *mean = p->dxn + (j / W * N + i) * net->width.gn_in;
        const float *square = mean + h, *hw = p->hw + (W + j) * h;
        float *to = p->dhw + j * h;
        float share = 1 / (p->node_share[i] * p->cluster_n[in->cluster[i]]);
        for (size_t c = 0; c < h; c++)
            to[c] += share * (mean[c] + 2 * hw[c] * square[c]);
    }
}

void set_pass_backward(struct set_pass *p, const struct set_net *net,
                       const struct set_input *in, float *grad)
{
    const struct set_size *n = &in->n;

    cluster_head_back(p, net, in, grad);
    node_head_back(p, net, in, grad);
    worker_head_back(p, net, in, grad);
    gru_back(p, net, SET_GG_IH, n->steps, n->clusters, p->xg, p->hg, p->cache_g,
             p->dhg, p->dxg, grad);
    pool_nodes_back(p, net, in);
    gru_back(p, net, SET_GN_IH, n->steps, n->nodes, p->xn, p->hn, p->cache_n,
             p->dhn, p->dxn, grad);
    pool_workers_back(p, net, in);
    gru_back(p, net, SET_GW_IH, n->steps, n->workers, in->worker, p->hw,
             p->cache_w, p->dhw, NULL, grad);
}
