#include "set_train.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "predictive_grad.h"

struct set_train {
    struct set_pass *pass;
    uint32_t *node; /* [W] counted from the first of its cluster */
    float *work;    /* of predictive_loglik_grad; NULL: only losses */
};

enum dsgd_err set_train_create(const struct set_config *config,
                               const struct set_size *max, bool backward,
                               struct set_train **out, struct dsgd_error *err)
{
    struct set_train *t = calloc(1, sizeof *t);
    size_t work = predictive_grad_work(max->workers, max->nodes);

    *out = NULL;
    if (!t)
        return error_set(err, DSGD_E_NOMEM, "no memory for training");
    enum dsgd_err rc = set_pass_create(config, max, backward, &t->pass, err);
    t->node = calloc(max->workers, sizeof *t->node);
    t->work = backward ? aligned_alloc(64, (work / 16 + 1) * 64) : NULL;
    if (rc == DSGD_OK && (!t->node || (backward && !t->work)))
        rc = error_set(err, DSGD_E_NOMEM, "no memory for training");
    if (rc != DSGD_OK) {
        set_train_free(t);
        return rc;
    }
    *out = t;
    return DSGD_OK;
}

void set_train_free(struct set_train *t)
{
    if (!t)
        return;
    set_pass_free(t->pass);
    free(t->node);
    free(t->work);
    free(t);
}

/* A step of one cluster in the batch's arrays: its first worker and node in the
 * batch, those in the arrays, which hold all steps. */
struct place {
    size_t worker, node, cluster, n, n_nodes;
    size_t row_w, row_n, row_b;
};

static struct predictive view(const struct set_output *o,
                              const struct place *at, const uint32_t *node)
{
    size_t tails = PRED_K - 1;

    return (struct predictive){.n = at->n,
                               .n_nodes = at->n_nodes,
                               .node = node + at->worker,
                               .mu = o->mu + at->row_w * PRED_K,
                               .log_sd = o->log_sd + at->row_w * PRED_K,
                               .log_w = o->log_w + at->row_w * PRED_K,
                               .node_shift = o->node_shift + at->row_n * PRED_M,
                               .node_log_p = o->node_log_p + at->row_n * PRED_M,
                               .node_tail =
                                   o->node_tail + at->row_n * PRED_M * tails,
                               .shift = o->shift + at->row_b * PRED_G,
                               .log_p = o->log_p + at->row_b * PRED_G,
                               .tail = o->tail + at->row_b * PRED_G * tails,
                               .scale = o->scale + at->row_b * PRED_G};
}

static struct predictive_grad grad_view(const struct set_output *d,
                                        const struct place *at)
{
    size_t tails = PRED_K - 1;

    return (struct predictive_grad){
        .mu = d->mu + at->row_w * PRED_K,
        .log_sd = d->log_sd + at->row_w * PRED_K,
        .log_w = d->log_w + at->row_w * PRED_K,
        .node_shift = d->node_shift + at->row_n * PRED_M,
        .node_log_p = d->node_log_p + at->row_n * PRED_M,
        .node_tail = d->node_tail + at->row_n * PRED_M * tails,
        .shift = d->shift + at->row_b * PRED_G,
        .log_p = d->log_p + at->row_b * PRED_G,
        .tail = d->tail + at->row_b * PRED_G * tails,
        .scale = d->scale + at->row_b * PRED_G};
}

/* The cluster that begins at worker and node of the batch. */
static struct place find_cluster(const struct set_input *in, size_t cluster,
                                 size_t worker, size_t node)
{
    struct place at = {.worker = worker, .node = node, .cluster = cluster};

    while (node + at.n_nodes < in->n.nodes &&
           in->cluster[node + at.n_nodes] == cluster)
        at.n_nodes++;
    while (worker + at.n < in->n.workers &&
           in->node[worker + at.n] < node + at.n_nodes)
        at.n++;
    return at;
}

static void zero_burn_in(const struct set_size *n, size_t burn_in,
                         const struct set_output *d)
{
    size_t w = burn_in * n->workers * PRED_K * sizeof(float);
    size_t m = burn_in * n->nodes * PRED_M * sizeof(float);
    size_t g = burn_in * n->clusters * PRED_G * sizeof(float);

    memset(d->mu, 0, w);
    memset(d->log_sd, 0, w);
    memset(d->log_w, 0, w);
    memset(d->node_shift, 0, m);
    memset(d->node_log_p, 0, m);
    memset(d->node_tail, 0, m * (PRED_K - 1));
    memset(d->shift, 0, g);
    memset(d->log_p, 0, g);
    memset(d->tail, 0, g * (PRED_K - 1));
    memset(d->scale, 0, g);
}

/* Mean loss of one cluster over the steps that count; its gradient, for the
 * mean over all clusters, into d. */
static double cluster_loss_of(struct set_train *t, const struct set_batch *b,
                              struct place at, size_t burn_in,
                              const struct set_output *out,
                              const struct set_output *d)
{
    const struct set_size *n = &b->in.n;
    double loss = 0, steps = (double)(n->steps - burn_in);
    double share = -1 / ((double)at.n * steps);

    for (size_t i = burn_in; i < n->steps; i++) {
        at.row_w = i * n->workers + at.worker;
        at.row_n = i * n->nodes + at.node;
        at.row_b = i * n->clusters + at.cluster;
        struct predictive p = view(out, &at, t->node);
        struct predictive_grad grad;
        if (d)
            grad = grad_view(d, &at);
        loss += share *
                predictive_loglik_grad(&p, b->y + at.row_w,
                                       b->status ? b->status + at.row_w : NULL,
                                       (float)(share / (double)n->clusters),
                                       d ? &grad : NULL, t->work);
    }
    return loss;
}

double set_train_window(struct set_train *t, const struct set_net *net,
                        const struct set_batch *b, size_t burn_in, float *grad,
                        double *cluster_loss)
{
    const struct set_size *n = &b->in.n;
    double loss = 0;

    set_pass_reset(t->pass, n);
    const struct set_output *out = set_pass_forward(t->pass, net, &b->in);
    struct set_output *d = grad ? set_pass_output_grad(t->pass) : NULL;
    if (d)
        zero_burn_in(n, burn_in, d);
    for (size_t c = 0, worker = 0, node = 0; c < n->clusters; c++) {
        struct place at = find_cluster(&b->in, c, worker, node);
        for (size_t j = 0; j < at.n; j++)
            t->node[worker + j] = b->in.node[worker + j] - (uint32_t)node;
        double own = cluster_loss_of(t, b, at, burn_in, out, d);
        loss += own / (double)n->clusters;
        if (cluster_loss)
            cluster_loss[c] = own;
        worker += at.n;
        node += at.n_nodes;
    }
    if (grad) {
        memset(grad, 0, net->n * sizeof *grad);
        set_pass_backward(t->pass, net, &b->in, grad);
    }
    return loss;
}
