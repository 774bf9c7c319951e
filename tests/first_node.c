#include "first_node.h"

#include "launch.h"

static enum dsgd_err make_node(struct first_node *f,
                               const struct dsgd_options *opt,
                               size_t ring_bytes, uint32_t n_local,
                               uint32_t n_nodes, struct dsgd_error *err)
{
    char name[SEGMENT_NAME];
    enum dsgd_err rc =
        segment_create(n_local, opt->grad_elems, launch_slot_bufs(opt),
                       ring_bytes, &f->seg, name, err);

    if (rc != DSGD_OK)
        return rc;
    segment_unlink(name);
    rc = node_create(&f->seg, &f->node, err);
    if (rc != DSGD_OK)
        return rc;
    return exchange_create(f->node, &f->t, 0, n_nodes, &f->x, err);
}

enum dsgd_err first_node_create(struct first_node *f,
                                const struct dsgd_options *opt,
                                size_t ring_bytes, uint32_t n_workers,
                                uint32_t n_nodes, const uint32_t *worker_node,
                                const struct timing_model *model,
                                struct dsgd_error *err)
{
    uint32_t n_local = 0;
    enum dsgd_err rc = launch_check(opt, &f->cutoff, err);

    while (n_local < n_workers && worker_node[n_local] == 0)
        n_local++;
    if (rc == DSGD_OK)
        rc = make_node(f, opt, ring_bytes, n_local, n_nodes, err);
    if (rc != DSGD_OK)
        return rc;
    struct coordinator_config config = {.opt = opt,
                                        .cutoff = &f->cutoff,
                                        .n_workers = n_workers,
                                        .n_nodes = n_nodes,
                                        .worker_node = worker_node,
                                        .model = model,
                                        .node = f->node,
                                        .exchange = f->x,
                                        .transport = &f->t,
                                        .clock = &f->clock};
    return coordinator_create(&config, &f->c, err);
}

void first_node_destroy(struct first_node *f)
{
    coordinator_destroy(f->c);
    exchange_destroy(f->x);
    node_destroy(f->node);
    segment_detach(&f->seg);
}

bool first_node_idle(struct transport *t, uint32_t node)
{
    (void)t;
    (void)node;
    return true;
}

void first_node_bulk(struct transport *t, uint32_t node, const struct msg *m,
                     const void *body, size_t bytes, const void *tail,
                     size_t tail_bytes)
{
    (void)t;
    (void)node;
    (void)m;
    (void)body;
    (void)bytes;
    (void)tail;
    (void)tail_bytes;
}

void first_node_release(struct transport *t, uint32_t node)
{
    (void)t;
    (void)node;
}
