#include "mpi_node.h"

#include <assert.h>
#include <stdlib.h>

#include "error.h"
#include "exchange.h"
#include "modex.h"
#include "mpi_resume.h"
#include "transport_mpi.h"

enum dsgd_err mpi_node_check(MPI_Comm comm, const struct dsgd_options *opt,
                             struct cutoff_spec *spec, uint32_t *slot_bufs,
                             struct dsgd_error *err)
{
    struct dsgd_options first = *opt;
    enum dsgd_err rc = place_agree(comm, launch_check(opt, spec, err), err);

    if (rc != DSGD_OK)
        return rc;
    MPI_Bcast(&first, (int)sizeof first, MPI_BYTE, 0, comm);
    *slot_bufs = launch_slot_bufs(&first);
    return place_agree(comm, launch_same_sizes(opt, &first, "rank 0", err),
                       err);
}

static enum dsgd_err make_transport(const struct place *p,
                                    const struct dsgd_options *opt,
                                    MPI_Comm comm, struct transport **t,
                                    struct dsgd_error *err)
{
    size_t n = p->most_local;
    size_t control = sizeof(struct msg) + 256 * sizeof(struct msg_event);
    size_t shares = sizeof(struct msg) + n * sizeof(struct msg_share);
    size_t bulk = shares + opt->grad_elems * sizeof(float);
    size_t close = sizeof(struct msg) + n + p->n_nodes;
    size_t pool =
        sizeof(struct msg) + (MSG_RANGES + n) * sizeof(struct msg_range);
    static_assert(MSG_SCRIPTS * sizeof(struct msg_script) <=
                      MSG_RANGES * sizeof(struct msg_range),
                  "SCRIPT fits where POOL does");
    size_t piece =
        sizeof(struct msg) +
        exchange_piece_elems(opt->grad_elems, p->n_nodes) * sizeof(float);

    *t = NULL;
    if (p->n_nodes == 1)
        return DSGD_OK;
    control = control > shares ? control : shares;
    control = control > close ? control : close;
    control = control > pool ? control : pool;
    return transport_mpi_create(comm, p->node, p->n_nodes, p->leader, control,
                                bulk, piece, t, err);
}

static enum dsgd_err
make_aggregator(const struct place *p, const struct dsgd_options *opt,
                const struct cutoff_spec *spec, const struct segment *seg,
                MPI_Comm comm, struct aggregator **agg, struct dsgd_error *err)
{
    struct coordinator_config coord = {.opt = opt,
                                       .cutoff = spec,
                                       .n_workers = p->n_workers,
                                       .n_nodes = p->n_nodes,
                                       .worker_node = p->worker_node};
    struct aggregator_config config = {
        .seg = seg, .node_index = p->node, .n_nodes = p->n_nodes};

    *agg = NULL;
    if (p->local_rank != 0)
        return DSGD_OK;
    enum dsgd_err rc = DSGD_OK;
    if (p->rank == 0) {
        config.coord = &coord;
        rc = launch_model(opt, spec, &config.model, err);
        coord.model = config.model;
    }
    if (rc == DSGD_OK)
        rc = make_transport(p, opt, comm, &config.transport, err);
    if (rc == DSGD_OK)
        rc = aggregator_create(&config, agg, err);
    if (rc != DSGD_OK && config.transport)
        config.transport->ops->destroy(config.transport);
    if (rc != DSGD_OK)
        timing_model_free(config.model);
    return rc;
}

enum dsgd_err mpi_node_create(const struct place *p,
                              const struct dsgd_options *opt,
                              const struct cutoff_spec *spec,
                              const struct segment *seg, MPI_Comm comm,
                              struct aggregator **agg, struct dsgd_error *err)
{
    enum dsgd_err rc = place_agree(
        comm, make_aggregator(p, opt, spec, seg, comm, agg, err), err);

    if (rc != DSGD_OK) {
        aggregator_destroy(*agg);
        *agg = NULL;
    }
    return rc;
}

/* Rank 0 opens the checkpoints; where there is one to go on from, every node
 * gets its state.
 *   from  out  on rank 0, NULL elsewhere and when there is none */
static enum dsgd_err open_checkpoints(const struct place *p,
                                      const struct dsgd_options *opt,
                                      struct aggregator *agg,
                                      struct checkpoint_read **from,
                                      struct dsgd_error *err)
{
    struct checkpoint_resume r = {NULL, NULL};
    enum dsgd_err rc = DSGD_OK;

    if (p->rank == 0)
        rc = checkpoint_resume_open(opt, p->n_workers, &r, err);
    *from = r.from;
    if (rc == DSGD_OK && r.store)
        rc = aggregator_checkpoints(agg, r.store, r.from, err);
    rc = place_agree(p->world, rc, err);
    if (rc == DSGD_OK)
        rc = place_agree(
            p->world,
            mpi_resume(p->world, p->local_rank == 0, agg, r.from, err), err);
    return rc;
}

/* Every node's facts to rank 0, which opens the record and what is replayed. */
static enum dsgd_err
tell_nodes(const struct place *p, const struct dsgd_options *opt,
           const struct cutoff_spec *spec, const struct launch_node *node,
           struct aggregator *agg, const struct checkpoint_read *from,
           struct dsgd_error *err)
{
    struct launch_node *nodes = NULL;
    struct record_replay *replay = NULL;
    enum dsgd_err rc = DSGD_OK;

    if (p->rank == 0) {
        nodes = calloc(p->n_nodes, sizeof *nodes);
        if (!nodes)
            rc = error_set(err, DSGD_E_NOMEM, "no memory");
    }
    rc = place_agree(p->world, rc, err);
    if (rc == DSGD_OK)
        rc = place_agree(p->world,
                         modex(p->world, p->local_rank == 0, node, p->n_nodes,
                               p->leader, nodes, err),
                         err);
    if (rc == DSGD_OK && p->rank == 0)
        rc = launch_replay(opt, spec, p->n_workers, p->n_nodes, p->worker_node,
                           nodes, &replay, err);
    rc = place_agree(p->world, rc, err);
    if (rc == DSGD_OK && p->rank == 0) {
        aggregator_replay(agg, replay);
        launch_compare_kernels(opt, p->n_nodes, nodes);
        aggregator_record(agg, launch_record(opt, p->n_workers, p->n_nodes,
                                             p->worker_node, nodes,
                                             from ? &from->facts : NULL));
    }
    free(nodes);
    return rc;
}

enum dsgd_err mpi_node_history(const struct place *p,
                               const struct dsgd_options *opt,
                               const struct cutoff_spec *spec,
                               const struct launch_node *node,
                               struct aggregator *agg, struct dsgd_error *err)
{
    struct checkpoint_read *from;
    enum dsgd_err rc = open_checkpoints(p, opt, agg, &from, err);

    if (rc == DSGD_OK)
        rc = tell_nodes(p, opt, spec, node, agg, from, err);
    checkpoint_free(from);
    return rc;
}
