#include "record_db.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "record_schema.h"

enum statement {
    BEGIN,
    COMMIT,
    PUT_STEP,
    PUT_LATE,
    PUT_EVENT,
    PUT_CHECKSUM,
    PUT_DECISION,
    PUT_TELEMETRY,
    PUT_CONTRIBUTION,
    PUT_HEARD,
    PUT_END,
    N_STATEMENTS
};

#define PUT_STEP_SQL                     \
    "INSERT OR REPLACE INTO step VALUES" \
    "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"

/* REPLACE: a row that comes twice must not stop the record. */
static const char *const sql[N_STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [PUT_STEP] = PUT_STEP_SQL,
    [PUT_LATE] = "INSERT OR REPLACE INTO late VALUES(?,?,?,?,?)",
    [PUT_EVENT] = "INSERT INTO event VALUES(NULL,?,?,?,?,?,?)",
    [PUT_CHECKSUM] = "INSERT OR REPLACE INTO checksum VALUES(?,?,?)",
    [PUT_DECISION] =
        "INSERT OR REPLACE INTO decision VALUES(?,?,?,?,?,?,?,?,?,?,?)",
    [PUT_TELEMETRY] = "INSERT OR REPLACE INTO telemetry VALUES(?,?,?,?)",
    [PUT_CONTRIBUTION] =
        "INSERT OR REPLACE INTO contribution VALUES(?,?,?,?,?,?,?)",
    [PUT_HEARD] = "UPDATE job SET heard_unix_s=?",
    [PUT_END] = "UPDATE job SET completed=?, end_s=?, dropped_rows=?",
};

struct record_db {
    sqlite3 *sqlite;
    sqlite3_stmt *stmt[N_STATEMENTS];
    size_t n_workers;
    char reason[256];
};

size_t record_row_step_bytes(size_t n)
{
    return sizeof(struct record_step) + record_mask_bytes(n) +
           2 * record_float_bytes(n) + record_range_bytes(n);
}

void record_row_step(void *row, const struct record_step *step, size_t n)
{
    struct record_step *fixed = row;
    unsigned char *mask = (unsigned char *)(fixed + 1);
    unsigned char *duration = mask + record_mask_bytes(n);
    unsigned char *lag = duration + record_float_bytes(n);
    unsigned char *range = lag + record_float_bytes(n);

    *fixed = *step;
    memset(mask, 0, record_mask_bytes(n));
    for (size_t w = 0; w < n; w++) {
        if (step->mask[w])
            mask[w / 8] |= (unsigned char)(1u << w % 8);
        record_put_f32(duration + 4 * w, step->duration_s[w]);
        record_put_f32(lag + 4 * w, step->lag_s[w]);
        record_put_u64(range + 12 * w, step->first[w]);
        record_put_u32(range + 12 * w + 8, step->count[w]);
    }
}

/* Keep why a call failed, before the next one forgets it. */
static void keep_reason(struct record_db *db)
{
    int rc = sqlite3_errcode(db->sqlite);
    int os = sqlite3_system_errno(db->sqlite);

    if (!os) /* it is not set by a COMMIT that fails */
        sqlite3_file_control(db->sqlite, "main", SQLITE_FCNTL_LAST_ERRNO, &os);
    if ((rc & 0xff) == SQLITE_FULL)
        os = ENOSPC;
    if ((rc & 0xff) == SQLITE_READONLY)
        snprintf(db->reason, sizeof db->reason,
                 "the file was moved, removed or made read-only");
    else if (os && ((rc & 0xff) == SQLITE_IOERR || os == ENOSPC))
        snprintf(db->reason, sizeof db->reason, "%s", strerror(os));
    else
        snprintf(db->reason, sizeof db->reason, "%s",
                 sqlite3_errmsg(db->sqlite));
}

const char *record_db_reason(const struct record_db *db)
{
    return db->reason;
}

static enum record_db_result result(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return RECORD_DB_OK;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return RECORD_DB_BUSY;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_NOMEM:
    case SQLITE_CANTOPEN: /* of the journal */
        return RECORD_DB_DISK;
    default:
        return RECORD_DB_DEAD;
    }
}

static enum record_db_result run(struct record_db *db, enum statement which)
{
    int rc = sqlite3_step(db->stmt[which]);

    if (result(rc) != RECORD_DB_OK)
        keep_reason(db);
    sqlite3_reset(db->stmt[which]);
    return result(rc);
}

/* The bytes stay where they are until the statement has run. */
static void bind_blob(sqlite3_stmt *s, int at, const unsigned char *p, size_t n)
{
    sqlite3_bind_blob64(s, at, p, n, SQLITE_STATIC);
}

static void bind_int(sqlite3_stmt *s, int at, uint64_t value)
{
    sqlite3_bind_int64(s, at, (sqlite3_int64)value);
}

static void bind_text(sqlite3_stmt *s, int at, const char *text)
{
    sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC);
}

static void bind_index(sqlite3_stmt *s, int at, int32_t index)
{
    if (index < 0)
        sqlite3_bind_null(s, at);
    else
        sqlite3_bind_int64(s, at, index);
}

static enum record_db_result put_step(struct record_db *db,
                                      const struct record_step *step)
{
    sqlite3_stmt *s = db->stmt[PUT_STEP];
    size_t n = db->n_workers;
    const unsigned char *mask = (const unsigned char *)(step + 1);
    const unsigned char *duration = mask + record_mask_bytes(n);
    const unsigned char *lag = duration + record_float_bytes(n);

    bind_int(s, 1, step->step);
    bind_int(s, 2, step->epoch);
    bind_int(s, 3, step->attempt);
    bind_int(s, 4, step->target);
    bind_int(s, 5, step->contributors);
    bind_int(s, 6, step->alive);
    bind_int(s, 7, step->epoch_end);
    bind_int(s, 8, step->samples);
    sqlite3_bind_double(s, 9, step->start_s);
    sqlite3_bind_double(s, 10, step->close_s);
    sqlite3_bind_double(s, 11, step->publish_s);
    sqlite3_bind_double(s, 12, step->lr_scale);
    bind_blob(s, 13, mask, record_mask_bytes(n));
    bind_blob(s, 14, duration, record_float_bytes(n));
    bind_blob(s, 15, lag, record_float_bytes(n));
    bind_blob(s, 16, lag + record_float_bytes(n), record_range_bytes(n));
    return run(db, PUT_STEP);
}

static enum record_db_result put_late(struct record_db *db,
                                      const struct record_late *late)
{
    sqlite3_stmt *s = db->stmt[PUT_LATE];

    bind_int(s, 1, late->step);
    bind_int(s, 2, late->worker);
    sqlite3_bind_double(s, 3, late->duration_s);
    sqlite3_bind_double(s, 4, late->lag_s);
    sqlite3_bind_double(s, 5, late->fraction);
    return run(db, PUT_LATE);
}

static enum record_db_result put_event(struct record_db *db,
                                       const struct record_event *event)
{
    sqlite3_stmt *s = db->stmt[PUT_EVENT];

    bind_text(s, 1, record_event_word(event->kind));
    bind_int(s, 2, event->step);
    bind_index(s, 3, event->worker);
    bind_index(s, 4, event->node);
    sqlite3_bind_double(s, 5, event->at_s);
    bind_text(s, 6, event->text);
    return run(db, PUT_EVENT);
}

static enum record_db_result put_checksum(struct record_db *db,
                                          const struct record_checksum *sum)
{
    sqlite3_stmt *s = db->stmt[PUT_CHECKSUM];

    bind_int(s, 1, sum->step);
    bind_int(s, 2, sum->worker);
    bind_int(s, 3, sum->value);
    return run(db, PUT_CHECKSUM);
}

static enum record_db_result put_decision(struct record_db *db,
                                          const struct record_decision *d)
{
    sqlite3_stmt *s = db->stmt[PUT_DECISION];

    bind_int(s, 1, d->step);
    bind_text(s, 2, d->policy);
    sqlite3_bind_double(s, 3, d->planned_s);
    sqlite3_bind_double(s, 4, d->expected);
    sqlite3_bind_double(s, 5, d->would_s);
    bind_int(s, 6, d->would);
    sqlite3_bind_double(s, 7, d->predicted_gain);
    sqlite3_bind_double(s, 8, d->realised_gain);
    sqlite3_bind_double(s, 9, d->lambda);
    sqlite3_bind_double(s, 10, d->hidden_us);
    sqlite3_bind_double(s, 11, d->tick_us);
    return run(db, PUT_DECISION);
}

static enum record_db_result put_telemetry(struct record_db *db,
                                           const struct record_telemetry *t)
{
    sqlite3_stmt *s = db->stmt[PUT_TELEMETRY];

    for (size_t i = 0; i < DSGD_N_TELEMETRY; i++) {
        bind_int(s, 1, t->step);
        bind_int(s, 2, t->node);
        bind_text(s, 3, record_telemetry_name[i]);
        sqlite3_bind_double(s, 4, t->value[i]); /* NaN is stored as NULL */
        enum record_db_result rc = run(db, PUT_TELEMETRY);
        if (rc != RECORD_DB_OK)
            return rc;
    }
    return RECORD_DB_OK;
}

static enum record_db_result
put_contribution(struct record_db *db, const struct record_contribution *row)
{
    sqlite3_stmt *s = db->stmt[PUT_CONTRIBUTION];

    bind_int(s, 1, row->step);
    bind_int(s, 2, row->worker);
    bind_int(s, 3, row->from);
    bind_int(s, 4, row->first);
    bind_int(s, 5, row->samples);
    bind_int(s, 6, row->nth);
    bind_int(s, 7, row->part);
    return run(db, PUT_CONTRIBUTION);
}

enum record_db_result record_db_put(struct record_db *db, enum record_row kind,
                                    const void *row)
{
    switch (kind) {
    case RECORD_ROW_STEP:
        return put_step(db, row);
    case RECORD_ROW_LATE:
        return put_late(db, row);
    case RECORD_ROW_EVENT:
        return put_event(db, row);
    case RECORD_ROW_CHECKSUM:
        return put_checksum(db, row);
    case RECORD_ROW_DECISION:
        return put_decision(db, row);
    case RECORD_ROW_TELEMETRY:
        return put_telemetry(db, row);
    case RECORD_ROW_CONTRIBUTION:
        return put_contribution(db, row);
    }
    return RECORD_DB_OK;
}

enum record_db_result record_db_begin(struct record_db *db)
{
    return run(db, BEGIN);
}

enum record_db_result record_db_commit(struct record_db *db)
{
    return run(db, COMMIT);
}

void record_db_rollback(struct record_db *db)
{
    if (!sqlite3_get_autocommit(db->sqlite))
        sqlite3_exec(db->sqlite, "ROLLBACK", NULL, NULL, NULL);
}

enum record_db_result record_db_heard(struct record_db *db, double unix_s)
{
    sqlite3_bind_double(db->stmt[PUT_HEARD], 1, unix_s);
    return run(db, PUT_HEARD);
}

enum record_db_result record_db_end(struct record_db *db, bool completed,
                                    double end_s, uint64_t dropped_rows)
{
    sqlite3_stmt *s = db->stmt[PUT_END];

    bind_int(s, 1, completed);
    sqlite3_bind_double(s, 2, end_s);
    bind_int(s, 3, dropped_rows);
    return run(db, PUT_END);
}

/* Run text once for each of n rows; bind sets the parameters of row i. */
static int put_rows(struct record_db *db, const char *text,
                    const struct record_job *job, size_t n,
                    void (*bind)(sqlite3_stmt *, const struct record_job *,
                                 size_t i))
{
    sqlite3_stmt *s;
    int rc = sqlite3_prepare_v2(db->sqlite, text, -1, &s, NULL);

    for (size_t i = 0; rc == SQLITE_OK && i < n; i++) {
        bind(s, job, i);
        if (sqlite3_step(s) != SQLITE_DONE)
            rc = sqlite3_errcode(db->sqlite);
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    return rc;
}

static void bind_job(sqlite3_stmt *s, const struct record_job *job, size_t i)
{
    const char *const texts[] = {job->job_name,    job->user,   job->program,
                                 job->description, job->cutoff, job->late};

    (void)i;
    bind_text(s, 1, job->job_id ? job->job_id : "");
    bind_text(s, 2, job->step_id ? job->step_id : "");
    bind_int(s, 3, job->restart);
    for (int k = 0; k < 6; k++)
        bind_text(s, 4 + k, texts[k]);
    bind_int(s, 10, job->min_contributors);
    bind_int(s, 11, job->grad_elems);
    bind_int(s, 12, job->n_samples);
    bind_int(s, 13, job->batch);
    bind_int(s, 14, job->n_workers);
    bind_int(s, 15, job->n_nodes);
    bind_text(s, 16, PACKAGE_VERSION);
    sqlite3_bind_double(s, 17, job->start_unix_s);
    sqlite3_bind_double(s, 18, job->start_unix_s);
    bind_int(s, 19, job->resumed_step);
    bind_text(s, 20, job->resumed_from);
}

static void bind_node(sqlite3_stmt *s, const struct record_job *job, size_t i)
{
    bind_int(s, 1, i);
    bind_text(s, 2, job->node_name[i]);
    bind_text(s, 3, job->node_kernel ? job->node_kernel[i] : NULL);
}

static void bind_worker(sqlite3_stmt *s, const struct record_job *job, size_t i)
{
    bind_int(s, 1, i);
    bind_int(s, 2, job->worker_node[i]);
}

static void bind_telemetry(sqlite3_stmt *s, const struct record_job *job,
                           size_t i)
{
    bind_int(s, 1, i / DSGD_N_TELEMETRY);
    bind_text(s, 2, record_telemetry_name[i % DSGD_N_TELEMETRY]);
    sqlite3_bind_double(s, 3, job->telemetry[i]); /* NaN becomes NULL */
}

static void bind_setting(sqlite3_stmt *s, const struct record_job *job,
                         size_t i)
{
    bind_text(s, 1, job->setting[i].name);
    bind_text(s, 2, job->setting[i].value);
}

static int put_facts(struct record_db *db, const struct record_job *job)
{
    int rc = put_rows(db,
                      "INSERT INTO job VALUES"
                      "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,NULL,0,0,?,?)",
                      job, 1, bind_job);
    if (rc == SQLITE_OK)
        rc = put_rows(db, "INSERT INTO node VALUES(?,?,?)", job, job->n_nodes,
                      bind_node);
    if (rc == SQLITE_OK)
        rc = put_rows(db, "INSERT INTO worker VALUES(?,?)", job, job->n_workers,
                      bind_worker);
    if (rc == SQLITE_OK && job->telemetry)
        rc = put_rows(db, "INSERT INTO telemetry VALUES(0,?,?,?)", job,
                      (size_t)job->n_nodes * DSGD_N_TELEMETRY, bind_telemetry);
    if (rc == SQLITE_OK)
        rc = put_rows(db, "INSERT INTO setting VALUES(?,?)", job,
                      job->n_settings, bind_setting);
    return rc;
}

/* A rollback journal, not a write-ahead log: it works on NFS, a reader needs
 * no right to write while the run is alive, and a finished record is one file.
 * cache_spill: no lock is taken before COMMIT. */
static int set_up(struct record_db *db, const struct record_job *job)
{
    char pragmas[160];
    int rc;

    snprintf(pragmas, sizeof pragmas,
             "PRAGMA journal_mode=DELETE; PRAGMA synchronous=NORMAL;"
             "PRAGMA cache_spill=OFF; BEGIN IMMEDIATE;"
             "PRAGMA application_id=%d; PRAGMA user_version=%d;",
             RECORD_APPLICATION_ID, RECORD_VERSION);
    rc = sqlite3_exec(db->sqlite, pragmas, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db->sqlite, record_schema_sql, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = put_facts(db, job);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db->sqlite, "COMMIT", NULL, NULL, NULL);
    for (int i = 0; rc == SQLITE_OK && i < N_STATEMENTS; i++)
        rc = sqlite3_prepare_v3(db->sqlite, sql[i], -1,
                                SQLITE_PREPARE_PERSISTENT, &db->stmt[i], NULL);
    return rc;
}

static enum dsgd_err create_file(const char *path, struct dsgd_error *err)
{
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC,
                  S_IRUSR | S_IWUSR);

    if (fd >= 0) {
        close(fd);
        return DSGD_OK;
    }
    if (errno == EEXIST)
        return error_set(err, DSGD_E_IO,
                         "%s: exists already, and a record replaces nothing: "
                         "remove it or choose another with --dsgd-record",
                         path);
    return error_set(err, DSGD_E_IO,
                     "%s: %s: choose a directory that can be written to with "
                     "--dsgd-record",
                     path, strerror(errno));
}

static enum dsgd_err open_database(struct record_db *db, const char *path,
                                   const struct record_job *job,
                                   int (*keep_waiting)(void *, int), void *arg,
                                   struct dsgd_error *err)
{
    int rc = sqlite3_open_v2(path, &db->sqlite,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                                 SQLITE_OPEN_NOFOLLOW,
                             NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_busy_handler(db->sqlite, keep_waiting, arg);
    if (rc == SQLITE_OK)
        rc = set_up(db, job);
    if (rc == SQLITE_OK)
        return DSGD_OK;
    if (!db->sqlite || rc == SQLITE_NOMEM)
        return error_set(err, DSGD_E_NOMEM, "%s: no memory", path);
    keep_reason(db);
    return error_set(err, DSGD_E_IO, "%s: %s", path, db->reason);
}

enum dsgd_err record_db_create(const char *path, const struct record_job *job,
                               int (*keep_waiting)(void *arg, int calls),
                               void *arg, struct record_db **out,
                               struct dsgd_error *err)
{
    enum dsgd_err rc = create_file(path, err);

    *out = NULL;
    if (rc != DSGD_OK)
        return rc;
    struct record_db *db = calloc(1, sizeof *db);
    if (!db) {
        unlink(path);
        return error_set(err, DSGD_E_NOMEM, "%s: no memory", path);
    }
    db->n_workers = job->n_workers;
    rc = open_database(db, path, job, keep_waiting, arg, err);
    if (rc != DSGD_OK) {
        record_db_destroy(db);
        unlink(path);
        return rc;
    }
    *out = db;
    return DSGD_OK;
}

void record_db_destroy(struct record_db *db)
{
    if (!db)
        return;
    for (int i = 0; i < N_STATEMENTS; i++)
        sqlite3_finalize(db->stmt[i]);
    sqlite3_close(db->sqlite);
    free(db);
}
