/* Which processes the kernel killed for want of memory. */
#ifndef DSGD_RUN_OOM_H
#define DSGD_RUN_OOM_H

#include <stdint.h>

/* Processes of this process's memory cgroup, and those below it, that were
 * killed so far because it was full.
 *   membership  in  path of /proc/self/cgroup
 *   root        in  where cgroups are mounted, /sys/fs/cgroup; v1 and v2
 * Returns 0 where the kernel does not say. */
uint64_t run_oom_count(const char *membership, const char *root);

#endif
