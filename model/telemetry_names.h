/* The telemetry features of a node, in the project's own order.  runtime/
 * dsgd_names.h has the same list for what runs in a job; a test compares
 * them. */
#ifndef DSGD_TELEMETRY_NAMES_H
#define DSGD_TELEMETRY_NAMES_H

enum feature {
    FEATURE_OTHER_CPU, /* share of the node's CPU time used by others since the
                          last look */
    FEATURE_LOAD1,     /* runnable tasks per CPU, one-minute average */
    FEATURE_PSI_CPU,   /* pressure stall, some avg10 / 100 */
    FEATURE_PSI_IO,
    FEATURE_PSI_MEM,
    FEATURE_THROTTLE, /* share of CFS periods throttled */
    FEATURE_STEAL,    /* share of CPU time taken by the hypervisor */
    FEATURE_CO_JOBS,  /* log(1 + other jobs on the node) */
    N_FEATURES
};

#define MODEL_FEATURES                                                         \
    "other_cpu", "load1", "psi_cpu", "psi_io", "psi_mem", "throttle", "steal", \
        "co_jobs"

#endif
