/* dsgd-run as the aggregator of its node: finds the other nodes, waits for what
 * its workers want, carries the run. */
#ifndef DSGD_RUN_NODE_H
#define DSGD_RUN_NODE_H

#include "run_options.h"

/* Run the program that opt names on this node.
 *   speaks  out  an error is this rank's to print
 * Collective over MPI_COMM_WORLD, blocking.  Returns an exit code; with an
 * error text where there is one to show. */
int run_node(const struct run_options *opt, bool *speaks,
             struct dsgd_error *err);

#endif
