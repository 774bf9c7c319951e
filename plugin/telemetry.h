/* What a node was doing just before a job step started on it.
 *
 * Gauges are read once.  Counters are read twice, some milliseconds apart, so
 * that a share tells of the moment and not of the time since the node booted.
 * A source that is missing, or that tells of the host and not of the node,
 * gives no value. */
#ifndef DSGD_PLUGIN_TELEMETRY_H
#define DSGD_PLUGIN_TELEMETRY_H

#include <stdint.h>

#include "dsgd_names.h"
#include "node_cgroup.h"

/* In the order of DSGD_TELEMETRY_FEATURES. */
enum telemetry_feature {
    TELEMETRY_OTHER_CPU, /* share of the node's CPU time used by others */
    TELEMETRY_LOAD1,     /* load average of a minute, per CPU */
    TELEMETRY_PSI_CPU,   /* "some" of the last 10 s, 0..1 */
    TELEMETRY_PSI_IO,
    TELEMETRY_PSI_MEM,
    TELEMETRY_THROTTLE, /* share of CFS periods in which it was throttled */
    TELEMETRY_STEAL,    /* share of CPU time taken by the hypervisor */
    TELEMETRY_CO_JOBS   /* log(1 + other jobs on the node) */
};

enum { TELEMETRY_BYTES = 384 };

struct telemetry_now {
    double mono_s; /* monotonic clock */
    double cpu_s;  /* CPU time that this process has used */
};

/* One look at the counters; NaN: not readable. */
struct telemetry_look {
    struct telemetry_now at;
    double used_s; /* CPU time used on the node */
    double periods, throttled;
    double ticks, steal; /* of all CPUs */
};

struct telemetry {
    const char *root;
    int64_t taken_s; /* Unix time */
    struct node_cgroups node;
    double cpus;     /* of its quota, if it has one, else online */
    double period_s; /* of its quota; NaN: no quota */
    struct telemetry_look first;
    double value[DSGD_N_TELEMETRY]; /* NaN: not valid on this node */
};

/* The clocks, now. */
struct telemetry_now telemetry_clock(void);

/* Read the gauges and take the first look.
 *   t         out
 *   root      in   "", or a tree of recorded files; must outlive t
 *   job_id    in   the job that does not count as another
 *   budget_s  in   CPU time after which no further source is opened: not time
 *                  on the clock, of which a throttled node has little
 * Local, a few short reads. */
void telemetry_begin(struct telemetry *t, const char *root, uint32_t job_id,
                     struct telemetry_now now, double budget_s);

/* Take the second look, and fill in the shares. */
void telemetry_end(struct telemetry *t, struct telemetry_now now);

/* Write the line of DSGD_LAUNCH_TELEMETRY. */
void telemetry_format(const struct telemetry *t, char line[TELEMETRY_BYTES]);

#endif
