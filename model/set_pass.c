#include "set_pass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "set_pass_priv.h"
#include "vmath.h"

/* Mean and mean square of the worker states on each node, then its features. */
static void pool_workers(const struct set_net *net, const struct set_input *in,
                         const float *hw, const float *feature, float *xn)
{
    size_t h = net->config.hidden, width = net->width.gn_in;
    size_t n_feature = net->width.node_in;

    for (size_t j = 0, i = 0; i < in->n.nodes; i++) {
        float *mean = xn + i * width, *square = mean + h;
        size_t first = j;
        memset(mean, 0, 2 * h * sizeof *mean);
        for (; j < in->n.workers && in->node[j] == i; j++) {
            const float *row = hw + j * h;
            for (size_t c = 0; c < h; c++) {
                mean[c] += row[c];
                square[c] += row[c] * row[c];
            }
        }
        float share = 1 / (float)(j - first);
        for (size_t c = 0; c < 2 * h; c++)
            mean[c] *= share;
        memcpy(mean + 2 * h, feature + i * n_feature, n_feature * sizeof *mean);
    }
}

/* Mean of the node states of a cluster, weighted by their workers; log of the
 * cluster's size; mean of the nodes' residuals. */
static void pool_nodes(const struct set_pass *p, const struct set_net *net,
                       const struct set_input *in, const float *hn,
                       const float *feature, float *xg)
{
    size_t h = net->config.hidden, width = net->width.gg_in;
    size_t n_feature = net->width.node_in;

    memset(xg, 0, in->n.clusters * width * sizeof *xg);
    for (size_t i = 0; i < in->n.nodes; i++) {
        float *row = xg + in->cluster[i] * width, w = p->node_share[i];
        const float *state = hn + i * h;
        for (size_t c = 0; c < h; c++)
            row[c] += w * state[c];
        row[h + 1] += w * feature[i * n_feature + n_feature - 2];
    }
    for (size_t b = 0; b < in->n.clusters; b++)
        xg[b * width + h] = logf(p->cluster_n[b]) / 4;
}

/* Each node's share of its cluster's workers, each cluster's size. */
static void count(struct set_pass *p, const struct set_input *in)
{
    memset(p->node_share, 0, in->n.nodes * sizeof *p->node_share);
    memset(p->cluster_n, 0, in->n.clusters * sizeof *p->cluster_n);
    for (size_t j = 0; j < in->n.workers; j++) {
        p->node_share[in->node[j]]++;
        p->cluster_n[in->cluster[in->node[j]]]++;
    }
    for (size_t i = 0; i < in->n.nodes; i++)
        p->node_share[i] /= p->cluster_n[in->cluster[i]];
}

/* All steps of one GRU; its input is known for all of them.
 *   x  [T][rows][in]   h  [T+1][rows][hidden], the first given */
static void run_gru(const struct ops_gru *g, size_t steps, size_t rows,
                    const float *x, float *gi, float *gh, float *cache,
                    float *h)
{
    size_t gates = 3 * g->hidden, state = rows * g->hidden;

    ops_linear(steps * rows, g->in, gates, x, g->w_ih, g->b_ih, gi);
    for (size_t t = 0; t < steps; t++) {
        const float *from = h + t * state;
        ops_linear(rows, g->hidden, gates, from, g->w_hh, g->b_hh, gh);
        ops_gru_gates(rows, g->hidden, gi + t * rows * gates, gh, from,
                      cache ? cache + t * rows * 4 * g->hidden : NULL,
                      h + (t + 1) * state);
    }
}

static void trunk(struct set_pass *p, const struct set_net *net,
                  const struct set_input *in)
{
    const struct set_size *n = &in->n;
    size_t h = net->config.hidden, node_in = net->width.node_in;
    struct ops_gru gw = set_gru(net, SET_GW_IH), gn = set_gru(net, SET_GN_IH);
    struct ops_gru gg = set_gru(net, SET_GG_IH);

    count(p, in);
    run_gru(&gw, n->steps, n->workers, in->worker, p->gi, p->gh, p->cache_w,
            p->hw);
    for (size_t t = 0; t < n->steps; t++)
        pool_workers(net, in, p->hw + (t + 1) * n->workers * h,
                     in->node_in + t * n->nodes * node_in,
                     p->xn + t * n->nodes * gn.in);
    run_gru(&gn, n->steps, n->nodes, p->xn, p->gi, p->gh, p->cache_n, p->hn);
    for (size_t t = 0; t < n->steps; t++)
        pool_nodes(p, net, in, p->hn + (t + 1) * n->nodes * h,
                   in->node_in + t * n->nodes * node_in,
                   p->xg + t * n->clusters * gg.in);
    run_gru(&gg, n->steps, n->clusters, p->xg, p->gi, p->gh, p->cache_g, p->hg);
}

/* out = tanh(out + a[index]), row by row */
VM_CLONES
static void add_tanh(size_t rows, size_t cols, const float *a,
                     const uint32_t *index, float *out)
{
    for (size_t i = 0; i < rows; i++) {
        const float *row = a + index[i] * cols;
        float *to = out + i * cols;
#pragma omp simd
        for (size_t c = 0; c < cols; c++)
            to[c] = vm_tanh(to[c] + row[c]);
    }
}

/* The first layers.  Their input is a concatenation; its parts are multiplied
 * one by one, so that what workers share is computed once:
 *   worker   W1 [hw, hn, hg, f]    node   N1 [hn, hg, fn]   cluster   G1 hg */
static void first_layers(struct set_pass *p, const struct set_net *net,
                         const struct set_input *in)
{
    const struct set_size *n = &in->n;
    size_t h = net->config.hidden, hd = net->config.head, steps = n->steps;
    size_t W = steps * n->workers, N = steps * n->nodes;
    size_t B = steps * n->clusters;
    size_t w1 = net->width.w1_in, n1 = net->width.n1_in;
    const float *w1_w = set_at(net, net->w, SET_W1);
    const float *n1_w = set_at(net, net->w, SET_N1);
    const float *hw = p->hw + n->workers * h, *hn = p->hn + n->nodes * h;
    const float *hg = p->hg + n->clusters * h;
    float *wg = p->part_g, *ng = wg + B * hd, *wn = p->part_n;

    for (size_t b = 0; b < B; b++) {
        memcpy(wg + b * hd, set_at(net, net->w, SET_W1_B), hd * sizeof *wg);
        memcpy(ng + b * hd, set_at(net, net->w, SET_N1_B), hd * sizeof *ng);
    }
    ops_gemm(false, true, B, hd, h, hg, h, w1_w + 2 * h, w1, 1, wg, hd);
    ops_gemm(false, true, B, hd, h, hg, h, n1_w + h, n1, 1, ng, hd);
    ops_gemm(false, true, N, hd, h, hn, h, n1_w, n1, 0, p->tn, hd);
    ops_gemm(false, true, N, hd, net->width.node_in, in->node_in,
             net->width.node_in, n1_w + 2 * h, n1, 1, p->tn, hd);
    ops_gemm(false, true, N, hd, h, hn, h, w1_w + h, w1, 0, wn, hd);
    ops_gemm(false, true, W, hd, h, hw, h, w1_w, w1, 0, p->tw, hd);
    ops_gemm(false, true, W, hd, SET_WORKER_FEATURES, in->worker,
             SET_WORKER_FEATURES, w1_w + 3 * h, w1, 1, p->tw, hd);
    for (size_t i = 0; i < N; i++) {
        const float *from =
            wg + (i / n->nodes * n->clusters + in->cluster[i % n->nodes]) * hd;
        for (size_t c = 0; c < hd; c++)
            wn[i * hd + c] += from[c];
    }
    for (size_t t = 0; t < steps; t++) {
        add_tanh(n->nodes, hd, ng + t * n->clusters * hd, in->cluster,
                 p->tn + t * n->nodes * hd);
        add_tanh(n->workers, hd, wn + t * n->nodes * hd, in->node,
                 p->tw + t * n->workers * hd);
    }
    ops_linear(B, h, hd, hg, set_at(net, net->w, SET_G1),
               set_at(net, net->w, SET_G1_B), p->tg);
    ops_tanh(B * hd, p->tg, p->tg);
}

static void second_layers(struct set_pass *p, const struct set_net *net,
                          const struct set_size *n)
{
    size_t hd = net->config.head;
    const float *w = net->w;

    ops_linear(n->steps * n->workers, hd, SET_WORKER_OUT, p->tw,
               set_at(net, w, SET_W2), set_at(net, w, SET_W2_B), p->ow);
    ops_linear(n->steps * n->nodes, hd, SET_NODE_OUT, p->tn,
               set_at(net, w, SET_N2), set_at(net, w, SET_N2_B), p->on);
    ops_linear(n->steps * n->clusters, hd, SET_CLUSTER_OUT, p->tg,
               set_at(net, w, SET_G2), set_at(net, w, SET_G2_B), p->og);
}

const struct set_output *set_pass_forward(struct set_pass *p,
                                          const struct set_net *net,
                                          const struct set_input *in)
{
    const struct set_size *n = &in->n;

    trunk(p, net, in);
    first_layers(p, net, in);
    second_layers(p, net, n);
    set_decode_workers(n->steps * n->workers, p->ow, in->anchor, in->log_sd,
                       &p->out);
    set_decode_nodes(n->steps * n->nodes, p->on, &p->out);
    set_decode_clusters(n->steps * n->clusters, p->og, &p->out);
    return &p->out;
}

struct set_state set_pass_state(struct set_pass *p)
{
    return (struct set_state){p->hw, p->hn, p->hg};
}

void set_pass_reset(struct set_pass *p, const struct set_size *n)
{
    size_t row = p->config.hidden * sizeof(float);

    memset(p->hw, 0, n->workers * row);
    memset(p->hn, 0, n->nodes * row);
    memset(p->hg, 0, n->clusters * row);
}

void set_pass_carry(struct set_pass *p, const struct set_size *n)
{
    size_t h = p->config.hidden, at = n->steps * h;

    memmove(p->hw, p->hw + at * n->workers, n->workers * h * sizeof *p->hw);
    memmove(p->hn, p->hn + at * n->nodes, n->nodes * h * sizeof *p->hn);
    memmove(p->hg, p->hg + at * n->clusters, n->clusters * h * sizeof *p->hg);
}

/* Addresses of arena pieces and their sizes in floats. */
struct piece {
    float **at;
    size_t n;
};

enum { MAX_PIECES = 64 };

static size_t output_pieces(struct set_output *o, const struct set_size *n,
                            struct piece *piece)
{
    size_t W = n->steps * n->workers, N = n->steps * n->nodes;
    size_t B = n->steps * n->clusters, i = 0;

    piece[i++] = (struct piece){&o->mu, W * PRED_K};
    piece[i++] = (struct piece){&o->log_sd, W * PRED_K};
    piece[i++] = (struct piece){&o->log_w, W * PRED_K};
    piece[i++] = (struct piece){&o->node_shift, N * PRED_M};
    piece[i++] = (struct piece){&o->node_log_p, N * PRED_M};
    piece[i++] = (struct piece){&o->node_tail, N * PRED_M * (PRED_K - 1)};
    piece[i++] = (struct piece){&o->shift, B * PRED_G};
    piece[i++] = (struct piece){&o->log_p, B * PRED_G};
    piece[i++] = (struct piece){&o->tail, B * PRED_G * (PRED_K - 1)};
    piece[i++] = (struct piece){&o->scale, B * PRED_G};
    return i;
}

static size_t forward_pieces(struct set_pass *p, const struct set_size *n,
                             size_t most, struct piece *piece)
{
    size_t h = p->config.hidden, hd = p->config.head, i = 0;
    size_t W = n->steps * n->workers, N = n->steps * n->nodes;
    size_t B = n->steps * n->clusters;

    piece[i++] = (struct piece){&p->hw, (W + n->workers) * h};
    piece[i++] = (struct piece){&p->hn, (N + n->nodes) * h};
    piece[i++] = (struct piece){&p->hg, (B + n->clusters) * h};
    piece[i++] = (struct piece){&p->xn, N * p->width.gn_in};
    piece[i++] = (struct piece){&p->xg, B * p->width.gg_in};
    piece[i++] = (struct piece){&p->gi, n->steps * most * 3 * h};
    piece[i++] = (struct piece){&p->gh, most * 3 * h};
    piece[i++] = (struct piece){&p->tw, W * hd};
    piece[i++] = (struct piece){&p->tn, N * hd};
    piece[i++] = (struct piece){&p->tg, B * hd};
    piece[i++] = (struct piece){&p->part_n, N * hd};
    piece[i++] = (struct piece){&p->part_g, 2 * B * hd};
    piece[i++] = (struct piece){&p->ow, W * SET_WORKER_OUT};
    piece[i++] = (struct piece){&p->on, N * SET_NODE_OUT};
    piece[i++] = (struct piece){&p->og, B * SET_CLUSTER_OUT};
    piece[i++] = (struct piece){&p->node_share, n->nodes};
    piece[i++] = (struct piece){&p->cluster_n, n->clusters};
    return i + output_pieces(&p->out, n, piece + i);
}

static size_t backward_pieces(struct set_pass *p, const struct set_size *n,
                              size_t most, struct piece *piece)
{
    size_t h = p->config.hidden, hd = p->config.head, i = 0;
    size_t W = n->steps * n->workers, N = n->steps * n->nodes;
    size_t B = n->steps * n->clusters;

    piece[i++] = (struct piece){&p->cache_w, W * 4 * h};
    piece[i++] = (struct piece){&p->cache_n, N * 4 * h};
    piece[i++] = (struct piece){&p->cache_g, B * 4 * h};
    piece[i++] = (struct piece){&p->dhw, W * h};
    piece[i++] = (struct piece){&p->dhn, N * h};
    piece[i++] = (struct piece){&p->dhg, B * h};
    piece[i++] = (struct piece){&p->dxn, N * p->width.gn_in};
    piece[i++] = (struct piece){&p->dxg, B * p->width.gg_in};
    piece[i++] = (struct piece){&p->dgh, n->steps * most * 3 * h};
    piece[i++] = (struct piece){&p->dh, most * h};
    piece[i++] = (struct piece){&p->dt, n->steps * most * hd};
    piece[i++] = (struct piece){&p->dpart_n, N * hd};
    piece[i++] = (struct piece){&p->dpart_g, B * hd};
    return i + output_pieces(&p->d_out, n, piece + i);
}

/* Every piece begins on a cache line. */
static bool allocate(struct set_pass *p, const struct piece *piece, size_t n)
{
    enum { LINE = 64 / sizeof(float) };
    size_t floats = 0;

    for (size_t i = 0; i < n; i++) {
        if (__builtin_add_overflow(
                floats, (piece[i].n + LINE - 1) / LINE * LINE, &floats) ||
            floats > SIZE_MAX / sizeof(float) / 2)
            return false;
    }
    p->arena = aligned_alloc(64, (floats + LINE) * sizeof(float));
    if (!p->arena)
        return false;
    memset(p->arena, 0, floats * sizeof(float));
    float *at = p->arena;
    for (size_t i = 0; i < n; i++) {
        *piece[i].at = at;
        at += (piece[i].n + LINE - 1) / LINE * LINE;
    }
    return true;
}

enum dsgd_err set_pass_create(const struct set_config *config,
                              const struct set_size *n, bool backward,
                              struct set_pass **out, struct dsgd_error *err)
{
    struct set_pass *p = calloc(1, sizeof *p);
    struct piece piece[MAX_PIECES];
    size_t most = n->workers; /* as many as nodes, clusters at least */

    *out = NULL;
    if (p) {
        p->config = *config;
        p->width = set_widths(config);
        size_t i = forward_pieces(p, n, most, piece);
        if (backward)
            i += backward_pieces(p, n, most, piece + i);
        if (allocate(p, piece, i)) {
            *out = p;
            return DSGD_OK;
        }
    }
    free(p);
    return error_set(err, DSGD_E_NOMEM,
                     "no memory for %zu steps of %zu workers", n->steps,
                     n->workers);
}

void set_pass_free(struct set_pass *p)
{
    if (!p)
        return;
    free(p->arena);
    free(p);
}

struct set_output *set_pass_output_grad(struct set_pass *p)
{
    return &p->d_out;
}
