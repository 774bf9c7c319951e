/* A report as JSON. */
#ifndef DSGD_REPORT_JSON_H
#define DSGD_REPORT_JSON_H

#include <stdio.h>

#include "report.h"

enum { REPORT_JSON_SCHEMA = 1 };

/* What comes before the first and after the last job. */
void report_json_begin(FILE *out);
void report_json_end(FILE *out);

/* One job step, with its nodes, workers and advice.
 *   first  in  not preceded by another
 * Errors: DSGD_E_NOMEM. */
enum dsgd_err report_json(FILE *out, const struct report *report, bool first,
                          struct dsgd_error *err);

#endif
