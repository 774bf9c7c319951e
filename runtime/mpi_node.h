/* A node's aggregator among the others, over MPI. */
#ifndef DSGD_MPI_NODE_H
#define DSGD_MPI_NODE_H

#include "aggregator.h"
#include "launch.h"
#include "mpi_place.h"

/* What must not differ between ranks.  Of the cutoff and what goes with it rank
 * 0's value counts: a node without the plugin does not know the option.
 *   slot_bufs  out  launch_slot_bufs of rank 0's options
 * Collective.  Errors: DSGD_E_USAGE. */
enum dsgd_err mpi_node_check(MPI_Comm comm, const struct dsgd_options *opt,
                             struct cutoff_spec *spec, uint32_t *slot_bufs,
                             struct dsgd_error *err);

/* Make the aggregator of this node; the one of rank 0 is the coordinator.
 *   seg  in   of this node; the mapping stays the caller's
 *   agg  out  NULL where this rank is not the node's first
 * Collective: an error on one rank is an error on all, and nothing is made.
 * Errors: those of aggregator_create, launch_model and transport_mpi_create. */
enum dsgd_err mpi_node_create(const struct place *p,
                              const struct dsgd_options *opt,
                              const struct cutoff_spec *spec,
                              const struct segment *seg, MPI_Comm comm,
                              struct aggregator **agg, struct dsgd_error *err);

/* What was before this run and what will be told of it, before the aggregators
 * start: rank 0 opens the checkpoints, the record that is replayed and the
 * record to keep, and every node gets the state to go on from.
 *   node  in  this node's facts
 *   agg   in  NULL where this rank is not the node's first
 * Collective.  Errors: DSGD_E_MPI, those of checkpoint_resume_open, mpi_resume
 * and launch_replay. */
enum dsgd_err mpi_node_history(const struct place *p,
                               const struct dsgd_options *opt,
                               const struct cutoff_spec *spec,
                               const struct launch_node *node,
                               struct aggregator *agg, struct dsgd_error *err);

#endif
