/* Where a node's own cgroups are.
 *
 * A node may be a whole machine or a container.  Its CPU usage and throttling
 * are those of the topmost cgroup that its processes can see: the root of the
 * hierarchy on a machine, the root of the cgroup namespace (or of what is
 * mounted) in a container.  In a container the root of a hierarchy that was not
 * divided is the host's, and says nothing of the node. */
#ifndef DSGD_PLUGIN_NODE_CGROUP_H
#define DSGD_PLUGIN_NODE_CGROUP_H

#include <stdbool.h>

#include "text_file.h"

enum cgroup_controller {
    CGROUP_CPU,
    CGROUP_CPUACCT,
    CGROUP_FREEZER,
    CGROUP_MEMORY,
    CGROUP_UNIFIED, /* version 2 */
    N_CGROUPS
};

struct cgroup_place {
    char top[PATH_BYTES];  /* directory of the topmost cgroup; "": none */
    char self[PATH_BYTES]; /* this process below top: "", "/job_7/step_0" */
    bool hierarchy_root;   /* top is the root of its hierarchy */
};

struct node_cgroups {
    bool machine; /* the node is the whole machine: /proc tells of it */
    struct cgroup_place place[N_CGROUPS];
};

/* Look around.  Local, no allocation; what is not found stays empty. */
void node_cgroups_find(const char *root, struct node_cgroups *node);

/* The directory of a controller's topmost cgroup when that tells of this node
 * and no other, else NULL. */
const char *node_cgroups_top(const struct node_cgroups *node,
                             enum cgroup_controller controller);

#endif
