#include "run_oom.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cgroup.h"

/* The number after "oom_kill " in a file of a cgroup. */
static uint64_t read_count(const char *root, const char *own, const char *file)
{
    char path[PATH_MAX], line[128];
    unsigned long long count = 0;

    if (snprintf(path, sizeof path, "%s%s/%s", root, own, file) >=
        (int)sizeof path)
        return 0;
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "oom_kill %llu", &count) == 1)
            break;
    }
    if (f)
        fclose(f);
    return count;
}

uint64_t run_oom_count(const char *membership, const char *root)
{
    struct cgroup_line line;
    char mount[PATH_MAX];
    uint64_t count = 0;
    FILE *f = fopen(membership, "re");

    while (cgroup_next(f, &line)) {
        if (!*line.controllers)
            count += read_count(root, line.path, "memory.events");
        else if (strcmp(line.controllers, "memory") == 0 &&
                 snprintf(mount, sizeof mount, "%s/memory", root) <
                     (int)sizeof mount)
            count += read_count(mount, line.path, "memory.oom_control");
    }
    if (f)
        fclose(f);
    return count;
}
