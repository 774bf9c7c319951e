/* Transport between aggregators over MPI point-to-point messages. */
#ifndef DSGD_TRANSPORT_MPI_H
#define DSGD_TRANSPORT_MPI_H

#include <mpi.h>

#include "transport.h"

/* comm: this transport's own; node i's aggregator is its rank leader[i].
 * node 0 talks to all others in both ways, the others to each other in bulk
 * only.
 *   control_bytes  in  largest control message, body included
 *   bulk_bytes     in  largest bulk message from or to node 0, body included
 *   piece_bytes    in  largest bulk message between others, body included
 * Errors: DSGD_E_NOMEM, DSGD_E_MPI. */
enum dsgd_err transport_mpi_create(MPI_Comm comm, uint32_t node,
                                   uint32_t n_nodes, const int *leader,
                                   size_t control_bytes, size_t bulk_bytes,
                                   size_t piece_bytes, struct transport **t,
                                   struct dsgd_error *err);

#endif
