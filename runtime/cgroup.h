/* Which cgroups a process is in. */
#ifndef DSGD_CGROUP_H
#define DSGD_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

/* A line of /proc/PID/cgroup: "4:cpu,cpuacct:/path" in v1, "0::/path" in v2. */
struct cgroup_line {
    char text[PATH_MAX];
    const char *controllers; /* with commas; "": v2 */
    const char *path;        /* from the root, "/" itself is "" */
};

/* The next line that is one; f == NULL: there is none. */
bool cgroup_next(FILE *f, struct cgroup_line *line);

#endif
