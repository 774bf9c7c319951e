/* The inside of a record's reader, shared by record_read.c (opening, facts) and
 * record_rows.c. */
#ifndef DSGD_RECORD_READ_IMPL_H
#define DSGD_RECORD_READ_IMPL_H

#include <limits.h>
#include <sqlite3.h>

#include "record_read.h"

enum record_rows {
    RECORD_STEPS,
    RECORD_LATES,
    RECORD_EVENTS,
    RECORD_CHECKSUMS,
    RECORD_CONTRIBUTIONS,
    RECORD_N_ROWS
};

struct record_read {
    char path[PATH_MAX];
    sqlite3 *sqlite;
    sqlite3_stmt *rows[RECORD_N_ROWS]; /* prepared when first asked for */
    struct record_facts facts;
    char *text[9];    /* what the strings of facts point to */
    char **node_text; /* [2 * n_nodes] names, then kernels */
    uint32_t *worker_node;
    float *telemetry;
    uint8_t *mask; /* [n_workers], and the other arrays of a step */
    float *duration, *lag;
    uint64_t *first;
    uint32_t *count;
};

/* Errors for the caller. */
enum dsgd_err record_damaged(const struct record_read *r, const char *what,
                             struct dsgd_error *err);
enum dsgd_err record_sqlite_error(const struct record_read *r, int rc,
                                  struct dsgd_error *err);

/* A REAL column; NULL is NaN. */
double record_get_double(sqlite3_stmt *s, int column);

#endif
