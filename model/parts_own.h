/* The policy parts-own, for simulate_parts.c. */
#ifndef DSGD_PARTS_OWN_H
#define DSGD_PARTS_OWN_H

#include "simulate.h"

/* As simulate_parts. */
enum dsgd_err parts_own_run(const struct simulate_spec *spec,
                            const struct policy_setup *setup,
                            struct simulate_result *result,
                            struct dsgd_error *err);

#endif
