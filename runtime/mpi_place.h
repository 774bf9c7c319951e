/* How the ranks of a run, and its workers, lie on the nodes. */
#ifndef DSGD_MPI_PLACE_H
#define DSGD_MPI_PLACE_H

#include <stdint.h>

#include "dsgd_mpi.h"

struct place {
    MPI_Comm world, local; /* local: the ranks of this node, in rank order */
    int rank, size, local_rank, local_size;
    uint32_t node, n_nodes;
    int *leader;           /* [n_nodes] a node's first rank */
    uint32_t n_workers;    /* of the run */
    uint32_t *worker_node; /* [n_workers] */
    uint32_t n_local;      /* of this node */
    uint32_t most_local;   /* of the node that has most */
    uint32_t first_worker; /* of this rank, if it has any */
};

/* Look where the ranks are.  Nodes are numbered by their lowest rank.
 *   p  out  ends with place_free, also after an error
 * Collective.  Errors: DSGD_E_NOMEM. */
enum dsgd_err place_make(MPI_Comm comm, struct place *p,
                         struct dsgd_error *err);
void place_free(struct place *p);

/* Every rank is a worker; with dedicated aggregators, every rank that is not
 * the first of its node.
 *   aggregator  in  of rank 0
 * Collective.  Errors: DSGD_E_LAUNCH (no rank of a node would be left),
 * DSGD_E_NOMEM. */
enum dsgd_err place_ranks(struct place *p, enum dsgd_aggregator aggregator,
                          struct dsgd_error *err);

/* Every rank is a node, and has n_local workers: those of the first node are
 * numbered first.  Collective. */
enum dsgd_err place_workers(struct place *p, uint32_t n_local,
                            struct dsgd_error *err);

/* One verdict for all: the first rank that failed gives code and text.
 * Collective. */
enum dsgd_err place_agree(MPI_Comm comm, enum dsgd_err code,
                          struct dsgd_error *err);

#endif
