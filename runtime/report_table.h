/* Rows as sacct(1) prints them. */
#ifndef DSGD_REPORT_TABLE_H
#define DSGD_REPORT_TABLE_H

#include <stdio.h>
#include <stdbool.h>
#include <stddef.h>

#include "report_fields.h"

struct report_style {
    bool parsable;         /* fields end with the delimiter, not padded */
    bool last_delimiter;   /* also the last */
    const char *delimiter; /* never empty */
};

/* The names of the columns, and, unless parsable, a line of dashes. */
void report_header(FILE *out, const struct report_style *style,
                   const struct report_column *columns, size_t n);

void report_row(FILE *out, const struct report_style *style,
                const struct report_column *columns, size_t n,
                const struct report *report, const struct report_unit *unit);

/* A value as it is printed, control characters and the like escaped; "" when it
 * is not known.
 *   also  in  more characters to escape */
void report_format(const struct report_value *value, const char *also,
                   char *out, size_t size);

#endif
