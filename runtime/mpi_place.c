#include "mpi_place.h"

#include <limits.h>
#include <stdlib.h>

#include "error.h"

enum dsgd_err place_agree(MPI_Comm comm, enum dsgd_err code,
                          struct dsgd_error *err)
{
    struct dsgd_error text = {""};
    int rank, first, own;

    MPI_Comm_rank(comm, &rank);
    own = code == DSGD_OK ? INT_MAX : rank;
    MPI_Allreduce(&own, &first, 1, MPI_INT, MPI_MIN, comm);
    if (first == INT_MAX)
        return DSGD_OK;
    int value = (int)code;
    if (err && rank == first)
        text = *err;
    MPI_Bcast(&value, 1, MPI_INT, first, comm);
    MPI_Bcast(text.text, sizeof text.text, MPI_CHAR, first, comm);
    if (err)
        *err = text;
    return (enum dsgd_err)value;
}

void place_free(struct place *p)
{
    if (p->local != MPI_COMM_NULL)
        MPI_Comm_free(&p->local);
    free(p->worker_node);
    free(p->leader);
}

static enum dsgd_err no_memory(struct dsgd_error *err)
{
    return error_set(err, DSGD_E_NOMEM, "no memory");
}

/* lead_of: [size] the first rank of each rank's node */
static enum dsgd_err find_nodes(struct place *p, int *lead_of,
                                struct dsgd_error *err)
{
    int lead = p->rank;

    MPI_Bcast(&lead, 1, MPI_INT, 0, p->local);
    p->leader = calloc((size_t)p->size, sizeof *p->leader);
    enum dsgd_err rc = place_agree(
        p->world, lead_of && p->leader ? DSGD_OK : no_memory(err), err);
    if (rc != DSGD_OK)
        return rc;
    MPI_Allgather(&lead, 1, MPI_INT, lead_of, 1, MPI_INT, p->world);
    for (int r = 0; r < p->size; r++) {
        if (r == lead)
            p->node = p->n_nodes;
        if (lead_of[r] == r)
            p->leader[p->n_nodes++] = r;
    }
    return DSGD_OK;
}

enum dsgd_err place_make(MPI_Comm comm, struct place *p, struct dsgd_error *err)
{
    *p = (struct place){.world = comm, .local = MPI_COMM_NULL};
    MPI_Comm_rank(comm, &p->rank);
    MPI_Comm_size(comm, &p->size);
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, p->rank, MPI_INFO_NULL,
                        &p->local);
    MPI_Comm_rank(p->local, &p->local_rank);
    MPI_Comm_size(p->local, &p->local_size);
    int *lead_of = calloc((size_t)p->size, sizeof *lead_of);
    enum dsgd_err rc = find_nodes(p, lead_of, err);
    free(lead_of);
    return rc;
}

/* Every rank has `count` workers; their nodes, in rank order. */
static enum dsgd_err number_workers(struct place *p, uint32_t count,
                                    struct dsgd_error *err)
{
    uint32_t *counts = calloc((size_t)p->size, sizeof *counts);
    uint32_t *nodes = calloc((size_t)p->size, sizeof *nodes);
    enum dsgd_err rc =
        place_agree(p->world, counts && nodes ? DSGD_OK : no_memory(err), err);

    if (rc == DSGD_OK) {
        MPI_Allgather(&count, 1, MPI_UINT32_T, counts, 1, MPI_UINT32_T,
                      p->world);
        MPI_Allgather(&p->node, 1, MPI_UINT32_T, nodes, 1, MPI_UINT32_T,
                      p->world);
        for (int r = 0; r < p->size; r++) {
            if (r == p->rank)
                p->first_worker = p->n_workers;
            p->n_workers += counts[r];
        }
        p->worker_node = calloc(p->n_workers, sizeof *p->worker_node);
        rc = place_agree(p->world, p->worker_node ? DSGD_OK : no_memory(err),
                         err);
    }
    uint32_t w = 0;
    for (int r = 0; rc == DSGD_OK && r < p->size; r++) {
        for (uint32_t i = 0; i < counts[r]; i++)
            p->worker_node[w++] = nodes[r];
    }
    free(counts);
    free(nodes);
    return rc;
}

static enum dsgd_err place_all(struct place *p, uint32_t count,
                               struct dsgd_error *err)
{
    enum dsgd_err rc = number_workers(p, count, err);

    if (rc != DSGD_OK)
        return rc;
    MPI_Allreduce(&count, &p->n_local, 1, MPI_UINT32_T, MPI_SUM, p->local);
    MPI_Allreduce(&p->n_local, &p->most_local, 1, MPI_UINT32_T, MPI_MAX,
                  p->world);
    return DSGD_OK;
}

/* A node gives one rank for its aggregator, and needs another to work. */
static enum dsgd_err check_spare(const struct place *p, struct dsgd_error *err)
{
    char host[MPI_MAX_PROCESSOR_NAME] = "";
    int length;

    if (p->local_size > 1)
        return DSGD_OK;
    MPI_Get_processor_name(host, &length);
    return error_set(err, DSGD_E_LAUNCH,
                     "%.60s has one rank, and a dedicated aggregator takes the "
                     "first of each node: start two or more a node, or set "
                     "DSGD_AGGREGATOR=thread",
                     host);
}

enum dsgd_err place_ranks(struct place *p, enum dsgd_aggregator aggregator,
                          struct dsgd_error *err)
{
    if (aggregator != DSGD_AGGREGATOR_DEDICATED)
        return place_all(p, 1, err);
    enum dsgd_err rc = place_agree(p->world, check_spare(p, err), err);
    return rc == DSGD_OK ? place_all(p, p->local_rank != 0, err) : rc;
}

enum dsgd_err place_workers(struct place *p, uint32_t n_local,
                            struct dsgd_error *err)
{
    return place_all(p, n_local, err);
}
