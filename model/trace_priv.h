/* Shared by the parts of the trace reader. */
#ifndef DSGD_TRACE_PRIV_H
#define DSGD_TRACE_PRIV_H

#include <stdbool.h>
#include <stddef.h>

#include "trace.h"

/* A walk over the cells of a text, line by line. */
struct cursor {
    const struct trace_text *text;
    char *at;            /* next cell, or the end of the line */
    size_t line, column; /* of the cell read last, from 1 */
    bool line_end;       /* that cell was the line's last one */
};

/* A cell in place: spaces around it are not part of it. */
struct cell {
    const char *start;
    size_t length;
};

/* At the start of a text, behind the byte order mark that some programs put
 * there. */
void cursor_start(struct cursor *c, const struct trace_text *text);
/* Go to the next line; false at the end of the text.  Empty lines at the end
 * are not lines. */
bool cursor_line(struct cursor *c);
/* The next cell of the line; false after the last one. */
bool cursor_cell(struct cursor *c, struct cell *cell);

/* A finite number and nothing else. */
bool cell_number(const struct cell *cell, double *value);
bool cell_is(const struct cell *cell, const char *word);

/* "path:line:column: message", the cell quoted as %s would, made printable. */
enum dsgd_err cursor_error(const struct cursor *c, const struct cell *cell,
                           struct dsgd_error *err, const char *what);

enum dsgd_err trace_parse_rows(const struct trace_text *csv, struct trace **out,
                               struct dsgd_error *err);
enum dsgd_err trace_parse_nodes(struct trace *t, const struct trace_text *nodes,
                                struct dsgd_error *err);
enum dsgd_err trace_parse_telemetry(struct trace *t,
                                    const struct trace_text *telemetry,
                                    const char *const *feature, size_t features,
                                    struct dsgd_error *warning,
                                    struct dsgd_error *err);
#endif
