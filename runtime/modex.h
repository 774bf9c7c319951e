/* Every node's facts to the coordinator: through PMIx where there is a server
 * for it, else through MPI. */
#ifndef DSGD_MODEX_H
#define DSGD_MODEX_H

#include <mpi.h>

#include "launch.h"

/* Collective over comm.
 *   leads   in   this rank speaks for its node
 *   node    in   its facts, when it leads
 *   n_nodes, leader  in   [n_nodes] ranks that lead
 *   nodes   out  [n_nodes], on rank 0
 * Errors: DSGD_E_MPI, DSGD_E_USAGE (rank 0's DSGD_MODEX, which counts, is not
 * auto|pmix|mpi). */
enum dsgd_err modex(MPI_Comm comm, bool leads, const struct launch_node *node,
                    uint32_t n_nodes, const int *leader,
                    struct launch_node *nodes, struct dsgd_error *err);

#endif
