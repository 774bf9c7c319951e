/* Other jobs on this node, counted without asking Slurm. */
#ifndef DSGD_PLUGIN_CO_JOBS_H
#define DSGD_PLUGIN_CO_JOBS_H

#include <stdint.h>

#include "node_cgroup.h"

/* Count the jobs of this node other than job_id, from the job_* directories
 * beside this process's cgroup, or else from the sockets that slurmstepd
 * processes listen at.  At most CO_JOBS_MAX are told apart.
 * Local.  Returns -1 when neither source knows job_id. */
enum { CO_JOBS_MAX = 512 };
int co_jobs_count(const char *root, const struct node_cgroups *node,
                  uint32_t job_id);

#endif
