/* The database of a record, as its writer sees it: rows go in between begin and
 * commit.  One thread at a time. */
#ifndef DSGD_RECORD_DB_H
#define DSGD_RECORD_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record.h"

struct record_db;

/* Rows as they lie in the queue. */
enum record_row {
    RECORD_ROW_STEP = 1,    /* see record_row_step */
    RECORD_ROW_LATE,        /* struct record_late */
    RECORD_ROW_EVENT,       /* struct record_event */
    RECORD_ROW_CHECKSUM,    /* struct record_checksum */
    RECORD_ROW_DECISION,    /* struct record_decision */
    RECORD_ROW_TELEMETRY,   /* struct record_telemetry */
    RECORD_ROW_CONTRIBUTION /* struct record_contribution */
};
struct record_checksum {
    uint64_t step, value;
    uint32_t worker;
};

/* Bytes of a queued step of n workers, and filling them: the fixed part, then
 * the arrays as the blobs that are stored. */
size_t record_row_step_bytes(size_t n);
void record_row_step(void *row, const struct record_step *step, size_t n);

enum record_db_result {
    RECORD_DB_OK,
    RECORD_DB_BUSY, /* somebody holds a lock: the transaction stays open */
    RECORD_DB_DISK, /* disk full, I/O error: rolled back, may pass */
    RECORD_DB_DEAD  /* the file is gone or broken: give up */
};

/* Create the file and its schema and store the facts.  Nothing is left behind
 * on error.
 *   path          in  canonical, see record_canonical
 *   keep_waiting  in  called while a lock is held, with arg and the number of
 *                     calls before; sleeps a little, false: give up
 * Errors: DSGD_E_IO, DSGD_E_NOMEM. */
enum dsgd_err record_db_create(const char *path, const struct record_job *job,
                               int (*keep_waiting)(void *arg, int calls),
                               void *arg, struct record_db **db,
                               struct dsgd_error *err);
void record_db_destroy(struct record_db *db);

enum record_db_result record_db_begin(struct record_db *db);
enum record_db_result record_db_put(struct record_db *db, enum record_row kind,
                                    const void *row);
/* The run was alive now. */
enum record_db_result record_db_heard(struct record_db *db, double unix_s);
enum record_db_result record_db_end(struct record_db *db, bool completed,
                                    double end_s, uint64_t dropped_rows);
enum record_db_result record_db_commit(struct record_db *db);
void record_db_rollback(struct record_db *db);

/* Why the last call that failed did, for a message. */
const char *record_db_reason(const struct record_db *db);

#endif
