/* How dsgd-replay shows its scores. */
#ifndef DSGD_REPLAY_PRINT_H
#define DSGD_REPLAY_PRINT_H

#include <stdio.h>

#include "dsgd_error.h"
#include "replay_score.h"

/* A line a policy and trace; parsable: "|" between fields, no padding. */
void replay_print_table(FILE *out, const struct score *score, size_t count,
                        bool parsable);

/* Schema 1, described in dsgd-replay(1).  Errors: DSGD_E_NOMEM, DSGD_E_IO. */
enum dsgd_err replay_print_json(FILE *out, const struct score *score,
                                size_t count, const struct simulate_spec *spec,
                                struct dsgd_error *err);

/* Bars of each policy's fraction of the oracle, a group a trace.
 * Errors: DSGD_E_IO. */
enum dsgd_err replay_plot(const char *path, const struct score *score,
                          size_t count, struct dsgd_error *err);

#endif
