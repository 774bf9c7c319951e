/* The fields of a report's rows, by name, as in sacct(1). */
#ifndef DSGD_REPORT_FIELDS_H
#define DSGD_REPORT_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report.h"

enum report_kind {
    REPORT_TEXT,
    REPORT_COUNT,
    REPORT_SECONDS, /* shown as SS.mmm or finer; has a twin <name>Raw in
                       microseconds */
    REPORT_NUMBER,
    REPORT_TIME,   /* unix time, shown as 2026-01-31T12:00:00 */
    REPORT_ELAPSED /* shown as [D-]HH:MM:SS; has a twin in seconds */
};

struct report_field;

struct report_column {
    const struct report_field *field;
    bool raw;  /* the twin */
    int width; /* negative: left-justified */
};

/* One cell.  known is false for a value that there is not. */
struct report_value {
    enum report_kind kind;
    bool known, raw;
    int digits; /* after the point, of a number */
    const char *text;
    uint64_t count;
    double number;
};

enum { REPORT_MAX_COLUMNS = 64 };

/* Read "Field,Field%width,…", upper or lower case.
 *   columns  out  [REPORT_MAX_COLUMNS]
 *   level    out  the deepest that a field needs; only raised
 * Errors: DSGD_E_USAGE. */
enum dsgd_err report_columns(const char *text, struct report_column *columns,
                             size_t *n, enum report_level *level,
                             struct dsgd_error *err);

/* The columns shown without --format. */
const char *report_default_format(enum report_level level);

struct report_value report_value(const struct report_column *column,
                                 const struct report *report,
                                 const struct report_unit *unit);

/* A column's name: "StepMean", "StepMeanRaw". */
void report_column_name(const struct report_column *column, char *out,
                        size_t size);

/* Every field that a level has, without twins, for --json and --helpformat:
 * the i-th, or false after the last. */
bool report_column_at(enum report_level level, size_t i,
                      struct report_column *column);

#endif
