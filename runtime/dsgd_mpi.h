/* Opening a slurm-dsgd run in an MPI program.
 *
 * When dsgd-run(1) has started the process there is no MPI: dsgd_mpi_init and
 * dsgd_mpi_finalize do nothing, dsgd_mpi_open is dsgd_open, and nothing else of
 * MPI may be called.  A program that is to run both ways asks dsgd_mpi_rank, or
 * dsgd_rank and dsgd_size once the run is open, in place of MPI_Comm_rank and
 * MPI_Comm_size, and ends with an exit code in place of MPI_Abort. */
#ifndef DSGD_MPI_H
#define DSGD_MPI_H

#include <mpi.h>

#include "dsgd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Start MPI with the thread level that dsgd_mpi_open needs, and check that the
 * processes were started as one MPI job.
 *   argc, argv  in out  as for MPI_Init; may be NULL
 * Collective.  Errors: DSGD_E_MPI (MPI_THREAD_MULTIPLE is not granted),
 * DSGD_E_LAUNCH (Slurm started several tasks, MPI knows of one: the text names
 * --mpi=pmix; MPI is finalized again then). */
enum dsgd_err dsgd_mpi_init(int *argc, char ***argv, struct dsgd_error *err);

/* What dsgd_rank and dsgd_size will return in a run that is opened with comm
 * and opt: for what a program does before it opens the run, such as opening the
 * files that worker 0 writes.  Under dsgd-run as dsgd_launched.
 *   opt         in   rank 0's aggregator counts
 *   rank, size  out  may be NULL; rank may be DSGD_NO_RANK
 * Collective.  Errors: DSGD_E_LAUNCH (a node has one rank, and its aggregator
 * is to be dedicated), DSGD_E_NOMEM. */
enum dsgd_err dsgd_mpi_rank(MPI_Comm comm, const struct dsgd_options *opt,
                            uint32_t *rank, uint32_t *size,
                            struct dsgd_error *err);

/* Open a run whose workers are the ranks of comm.  The first rank of each node
 * also carries the node's aggregator, in a thread; the one of rank 0 is the
 * coordinator.
 *
 * With DSGD_AGGREGATOR_DEDICATED these ranks do nothing else, and are no
 * workers: the others are, numbered in the order of their ranks.  The program
 * may be the same everywhere: where a rank is no worker, the first
 * dsgd_step_begin (or dsgd_allreduce) returns once the run is over.  The
 * registered state stays as it was there, so that results are for worker 0 to
 * print or save, which is not rank 0: ask dsgd_rank.
 *   comm  in   duplicated; every rank of it must call
 *   opt   in   the same sizes on every rank; rank 0's cutoff, limits and record
 *              count
 *   d     out  NULL on error; ends with dsgd_close, before MPI_Finalize
 * Collective and blocking: an error on one rank is an error on all, and the
 * text is that of the first rank that failed.  Errors: DSGD_E_USAGE (a bad
 * option, K larger than the ranks, options that differ between ranks),
 * DSGD_E_NOMEM, DSGD_E_NOSPACE (/dev/shm of a node is full), DSGD_E_MPI,
 * DSGD_E_NOMODEL, DSGD_E_LAUNCH (see dsgd_mpi_rank). */
enum dsgd_err dsgd_mpi_open(MPI_Comm comm, const struct dsgd_options *opt,
                            struct dsgd **d, struct dsgd_error *err);

/* End MPI as dsgd-train does: a run may have left a stuck rank behind, whose
 * own call never comes; nothing here waits for it.  After dsgd_close. */
enum dsgd_err dsgd_mpi_finalize(struct dsgd_error *err);

#ifdef __cplusplus
}
#endif

#endif
