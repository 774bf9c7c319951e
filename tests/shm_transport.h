/* Messages between aggregators in different processes of one machine, through
 * memory that they share: what transport_mpi.c promises, without MPI.  A node
 * that is stopped takes nothing: control messages to it queue up, a bulk
 * message waits. */
#ifndef DSGD_TESTS_SHM_TRANSPORT_H
#define DSGD_TESTS_SHM_TRANSPORT_H

#include "transport.h"

struct shm_net;

/* Memory for n_nodes, before the processes are forked; NULL: none. */
struct shm_net *shm_net_create(uint32_t n_nodes, size_t control_bytes,
                               size_t bulk_bytes);
void shm_net_destroy(struct shm_net *net);

/* A node's end of it; NULL: no memory.  Freed by its destroy operation. */
struct transport *shm_transport_create(struct shm_net *net, uint32_t node);

#endif
