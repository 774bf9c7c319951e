/* A worker that dsgd-run has started. */
#ifndef DSGD_RUN_ATTACH_H
#define DSGD_RUN_ATTACH_H

#include "dsgd.h"

/* Open the run of the dsgd-run whose child this process is.  Blocks (asleep)
 * until all of its nodes are there.
 *   d  out  NULL on error
 * Errors: those of run_box_attach and run_box_ask, DSGD_E_USAGE (options that
 * differ from those of another worker; DSGD_RUN_RANK), DSGD_E_STATE (another
 * process is this worker), DSGD_E_NOMEM. */
enum dsgd_err run_attach(const struct dsgd_options *opt, struct dsgd **d,
                         struct dsgd_error *err);

#endif
