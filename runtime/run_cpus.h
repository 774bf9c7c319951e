/* The processors that the workers of a dsgd-run share. */
#ifndef DSGD_RUN_CPUS_H
#define DSGD_RUN_CPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"

/* CPUs that Slurm has allocated to this step here, or else those that this
 * process may run on; at least 1. */
uint32_t run_cpus_allocated(void);

/* Threads for each of n workers, at least 1. */
size_t run_cpus_threads(uint32_t n);

/* Is this task bound to a part of what is allocated, too small for n workers?
 * Returns whether there is such a warning. */
bool run_cpus_warning(uint32_t n, struct dsgd_error *warning);

#endif
