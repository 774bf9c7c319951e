/* A trace: the run-times of a cluster's workers, step by step.
 *
 * On disk it is a CSV file, a row a step, a column a worker, durations in one
 * unit; beside it, both optional,
 *     TRACE.nodes          a node name a line, a line a column
 *     TRACE.telemetry.csv  "step,node,<feature>,…" and rows of it: what was
 *                          readable on that node when that step began; an empty
 *                          cell or a missing row is not valid; steps from 0
 * where TRACE is the CSV's name without ".csv". */
#ifndef DSGD_TRACE_H
#define DSGD_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"

/* Durations are between these, so that sums of any number of steps are finite.
 */
#define TRACE_SHORTEST 1e-30
#define TRACE_LONGEST  1e30

struct trace {
    char *name; /* without folder and ".csv", printable */
    size_t steps, n, n_nodes;
    size_t features;            /* per node, 0: no telemetry */
    const char *const *feature; /* [features] names, not owned */
    double *duration_s;         /* [steps][n] */
    uint32_t *node;             /* [n] ascending, 0..n_nodes-1, each used */
    uint32_t *column;           /* [n] the file's column of each worker */
    char **node_name;           /* [n_nodes] or NULL */
    float *telemetry;           /* [steps][n_nodes][features], NaN: not valid */
};

/* An empty trace with its arrays: durations 0, one node a worker if n_nodes is
 * n, telemetry NaN.  Errors: DSGD_E_RANGE (a size is 0, n_nodes > n, sizes that
 * overflow), DSGD_E_NOMEM. */
enum dsgd_err trace_create(size_t steps, size_t n, size_t n_nodes,
                           size_t features, struct trace **out,
                           struct dsgd_error *err);
void trace_free(struct trace *t);

/* A file's content, for messages its path. */
struct trace_text {
    const char *path;
    char *data; /* [size + 1], ends with a NUL of its own */
    size_t size;
};

/* Read a trace and what lies beside it.
 *   path      in   "x.csv", with or without its ".csv"
 *   feature   in   [features] telemetry columns to keep; other columns are
 *                  ignored; NULL: those of telemetry_names.h.  Must outlive
 *                  *out
 *   warning   out  "" when there is none; may be NULL
 *   out       out  trace_free; columns are reordered so that a node's workers
 *                  are adjacent; NULL on error
 * Errors, naming file, line and column: DSGD_E_IO, DSGD_E_FORMAT (a cell that
 * is missing or no number above 0; ragged rows; no rows; node names that do not
 * match the columns; telemetry of an unknown node or step), DSGD_E_NOMEM. */
enum dsgd_err trace_read(const char *path, const char *const *feature,
                         size_t features, struct trace **out,
                         struct dsgd_error *warning, struct dsgd_error *err);

/* The same from memory; nodes and telemetry may be NULL. */
enum dsgd_err trace_parse(const struct trace_text *csv,
                          const struct trace_text *nodes,
                          const struct trace_text *telemetry,
                          const char *const *feature, size_t features,
                          struct trace **out, struct dsgd_error *warning,
                          struct dsgd_error *err);

/* Write a trace: path, and beside it the nodes and, if there is any, the
 * telemetry; else what is there of another trace is removed.  Durations are
 * written so that reading gives the same bits.  Errors: DSGD_E_IO,
 * DSGD_E_NOSPACE, DSGD_E_NOMEM. */
enum dsgd_err trace_write(const struct trace *t, const char *path,
                          struct dsgd_error *err);

#endif
