/* One error of many ranks: before a run is open, an error on one rank must end
 * all of them, with one line that says what it is and where. */
#ifndef DSGD_TRAIN_AGREE_H
#define DSGD_TRAIN_AGREE_H

#include "dsgd_mpi.h"

/* Exchange the outcome of what every rank did on its own.
 *   mine  in      this rank's code; DSGD_OK: it has none
 *   err   in out  its text; on return that of the first rank that failed, with
 *                 the rank and its host in front unless all failed
 * Collective and blocking.  Returns the code of the first rank that failed. */
enum dsgd_err train_agree(MPI_Comm comm, enum dsgd_err mine,
                          struct dsgd_error *err);

#endif
