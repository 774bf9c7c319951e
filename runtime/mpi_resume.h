/* Giving every node the state that a run goes on from. */
#ifndef DSGD_MPI_RESUME_H
#define DSGD_MPI_RESUME_H

#include "checkpoint_open.h"
#include "dsgd_mpi.h"

struct aggregator;

/*   leader  in   this is the first rank of its node
 *   agg     in   of this node, on its leader
 *   from    in   on rank 0: the checkpoint, whose state is taken; NULL: none
 * Collective.  Errors: DSGD_E_NOMEM, on ranks that found it. */
enum dsgd_err mpi_resume(MPI_Comm comm, bool leader, struct aggregator *agg,
                         struct checkpoint_read *from, struct dsgd_error *err);

#endif
