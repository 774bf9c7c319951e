/* A run of dsgd-fit: data, model, training, file. */
#ifndef DSGD_FIT_JOB_H
#define DSGD_FIT_JOB_H

#include <signal.h>
#include <stdio.h>

#include "dsgd_error.h"
#include "fit_options.h"

/* Do what opt says: train and write the model, or score one.
 *   out   in  where results and progress go
 *   stop  in  set by a signal's handler: end with a checkpoint
 * Errors: all of the parts'; DSGD_E_FAIL when stopped. */
enum dsgd_err fit_job(const struct fit_options *opt, FILE *out,
                      const volatile sig_atomic_t *stop,
                      struct dsgd_error *err);

#endif
