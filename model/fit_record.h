/* Records of runs (dsgd-formats(5)) as training data. */
#ifndef DSGD_FIT_RECORD_H
#define DSGD_FIT_RECORD_H

#include "dsgd_error.h"
#include "fit_pool.h"

/* Add a record as one trace.  What the runtime saw of a worker that was cut is
 * the time it had been running at the close, or its progress; the target is
 * what became known later, or the bound.  Workers are put in order of their
 * nodes.  Telemetry holds until the next look.
 * Errors: DSGD_E_IO, DSGD_E_FORMAT (not a record; lengths that do not fit; no
 * steps), DSGD_E_NOMEM. */
enum dsgd_err fit_record_add(struct fit_pool *pool, const char *path,
                             struct dsgd_error *err);

#endif
