/* How many threads a worker gets: its share of what is allocated. */
#ifndef DSGD_TRAIN_THREADS_H
#define DSGD_TRAIN_THREADS_H

#include <stdbool.h>
#include <stddef.h>

/* What a task can know of its processors; 0 where it does not. */
struct train_cpus {
    size_t online;        /* of the machine */
    size_t affinity;      /* that this process may run on */
    size_t on_node;       /* allocated to the job step here */
    size_t per_task;      /* asked for with srun -c */
    size_t tasks_on_node; /* of this job step here */
    double quota;         /* of its cgroups, in CPUs */
};

/* Threads for a task: its own CPUs when it asked for a number, else an equal
 * share of the node's; never more than its affinity mask or its share of a
 * quota allows; at least 1. */
size_t train_threads_share(const struct train_cpus *cpus);

/* Tasks of this job step on a node, from Slurm's compressed list.
 *   list  in  SLURM_STEP_TASKS_PER_NODE: "4(x2),3"
 *   node  in  index in the list
 * Returns 0 when it can't be read. */
size_t train_threads_tasks(const char *list, size_t node);

/* CPUs that the cgroup of this process and those above it allow by quota.
 *   membership  in  path of /proc/self/cgroup
 *   root        in  where cgroups are mounted, /sys/fs/cgroup; v1 (cpu) and v2
 * Returns 0: no quota. */
double train_threads_quota(const char *membership, const char *root);

/* Look around: what this process can know.
 *   cpus  out */
void train_threads_look(struct train_cpus *cpus);

#endif
