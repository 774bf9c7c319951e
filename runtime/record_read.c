#include "record_read.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "record_read_impl.h"
#include "record_schema.h"

enum { MAX_WORKERS = 1 << 20, BUSY_MS = 5000 };

static enum dsgd_err no_memory(const struct record_read *r,
                               struct dsgd_error *err)
{
    return error_set(err, DSGD_E_NOMEM, "%s: no memory", r->path);
}

enum dsgd_err record_damaged(const struct record_read *r, const char *what,
                             struct dsgd_error *err)
{
    return error_set(err, DSGD_E_FORMAT, "%s: damaged record: %s", r->path,
                     what);
}

/* What SQLite said, as an error. */
enum dsgd_err record_sqlite_error(const struct record_read *r, int rc,
                                  struct dsgd_error *err)
{
    int os = sqlite3_system_errno(r->sqlite);

    switch (rc & 0xff) {
    case SQLITE_NOMEM:
        return no_memory(r, err);
    case SQLITE_NOTADB:
        return error_set(err, DSGD_E_FORMAT, "%s: not a slurm-dsgd record",
                         r->path);
    case SQLITE_CORRUPT:
    case SQLITE_ERROR: /* a missing table or column */
    case SQLITE_TOOBIG:
        return record_damaged(r, sqlite3_errmsg(r->sqlite), err);
    case SQLITE_BUSY:
        return error_set(err, DSGD_E_IO,
                         "%s: locked by another process: try again", r->path);
    case SQLITE_READONLY:
        return error_set(err, DSGD_E_IO,
                         "%s: its writer died in the middle of a transaction: "
                         "its owner must open it once, which puts it in order",
                         r->path);
    default:
        return error_set(err, DSGD_E_IO, "%s: %s", r->path,
                         os ? strerror(os) : sqlite3_errmsg(r->sqlite));
    }
}

/* Run a query that gives one row of one number. */
static int get_number(sqlite3 *sqlite, const char *sql, int64_t *value)
{
    sqlite3_stmt *s;
    int rc = sqlite3_prepare_v2(sqlite, sql, -1, &s, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        *value = sqlite3_column_int64(s, 0);
        rc = SQLITE_OK;
    }
    sqlite3_finalize(s);
    return rc;
}

/* Nothing of the file's schema is run: no view, no trigger, no function. */
static void harden(sqlite3 *sqlite)
{
    sqlite3_db_config(sqlite, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(sqlite, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(sqlite, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(sqlite, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_limit(sqlite, SQLITE_LIMIT_LENGTH, 32 * MAX_WORKERS);
    sqlite3_limit(sqlite, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_busy_timeout(sqlite, BUSY_MS);
}

/* Open, and begin a transaction: the first read is what takes the lock and
 * meets a hot journal. */
static int open_with(struct record_read *r, const char *canonical, int flags,
                     int64_t *application_id)
{
    int rc;

    sqlite3_close(r->sqlite);
    rc = sqlite3_open_v2(canonical, &r->sqlite,
                         flags | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX,
                         NULL);
    if (rc != SQLITE_OK)
        return rc;
    harden(r->sqlite);
    rc = sqlite3_exec(r->sqlite,
                      "PRAGMA query_only=ON; PRAGMA cell_size_check=ON; BEGIN",
                      NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = get_number(r->sqlite, "PRAGMA application_id", application_id);
    return rc;
}

static enum dsgd_err check_file(const char *path, struct dsgd_error *err)
{
    struct stat st;

    if (lstat(path, &st) != 0)
        return error_set(err, DSGD_E_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return error_set(err, DSGD_E_IO, "%s: %s", path,
                         S_ISLNK(st.st_mode)
                             ? "a symbolic link: name the record itself"
                             : "not a plain file");
    if (geteuid() == 0 && st.st_uid != 0)
        return error_set(err, DSGD_E_IO,
                         "%s: belongs to user id %lu: root must become that "
                         "user to read it",
                         path, (unsigned long)st.st_uid);
    return DSGD_OK;
}

/* SQLite takes the missing end of a file's last page for zeros. */
static bool is_whole(struct record_read *r, const char *canonical)
{
    int64_t page_bytes = 0, pages = 0;
    struct stat st;

    return get_number(r->sqlite, "PRAGMA page_size", &page_bytes) ==
               SQLITE_OK &&
           get_number(r->sqlite, "PRAGMA page_count", &pages) == SQLITE_OK &&
           lstat(canonical, &st) == 0 && st.st_size == page_bytes * pages;
}

static enum dsgd_err open_database(struct record_read *r,
                                   struct dsgd_error *err)
{
    char canonical[PATH_MAX];
    int64_t application_id = 0, version = 0;
    enum dsgd_err rc =
        record_canonical(r->path, canonical, sizeof canonical, err);

    if (rc == DSGD_OK)
        rc = check_file(canonical, err);
    if (rc != DSGD_OK)
        return rc;
    int s = open_with(r, canonical, SQLITE_OPEN_READONLY, &application_id);
    if ((s & 0xff) == SQLITE_READONLY) { /* a hot journal */
        s = open_with(r, canonical, SQLITE_OPEN_READWRITE, &application_id);
        if ((s & 0xff) == SQLITE_CANTOPEN)
            s = SQLITE_READONLY;
    }
    if (s == SQLITE_OK)
        s = get_number(r->sqlite, "PRAGMA user_version", &version);
    if (s != SQLITE_OK)
        return record_sqlite_error(r, s, err);
    if (application_id != RECORD_APPLICATION_ID)
        return error_set(err, DSGD_E_FORMAT, "%s: not a slurm-dsgd record",
                         r->path);
    if (version != RECORD_VERSION)
        return error_set(err, DSGD_E_FORMAT,
                         "%s: a record of version %lld, this program reads "
                         "version %d",
                         r->path, (long long)version, RECORD_VERSION);
    if (!is_whole(r, canonical))
        return record_damaged(r, "it is cut short", err);
    return DSGD_OK;
}

static char *copy_text(sqlite3_stmt *s, int column, bool *failed)
{
    const unsigned char *text = sqlite3_column_text(s, column);

    if (!text)
        return NULL;
    char *copy = strdup((const char *)text);
    if (!copy)
        *failed = true;
    return copy;
}

double record_get_double(sqlite3_stmt *s, int column)
{
    return sqlite3_column_type(s, column) == SQLITE_NULL
               ? NAN
               : sqlite3_column_double(s, column);
}

static enum dsgd_err read_job(struct record_read *r, sqlite3_stmt *s,
                              struct dsgd_error *err)
{
    struct record_job *job = &r->facts.job;
    const char **const to[] = {&job->job_id, &job->step_id, &job->job_name,
                               &job->user,   &job->program, &job->description,
                               &job->cutoff, &job->late,    &r->facts.version};
    bool failed = false;
    int64_t workers = sqlite3_column_int64(s, 14);
    int64_t nodes = sqlite3_column_int64(s, 15);

    for (int i = 0; i < 9; i++)
        *to[i] = r->text[i] = copy_text(s, i, &failed);
    if (failed)
        return no_memory(r, err);
    if (!job->job_id || !job->step_id || !r->facts.version)
        return record_damaged(r, "job, step or version is missing", err);
    if (workers < 1 || workers > MAX_WORKERS || nodes < 1 ||
        nodes > MAX_WORKERS)
        return record_damaged(r, "the number of workers or nodes", err);
    job->restart = (uint32_t)sqlite3_column_int64(s, 9);
    job->min_contributors = (size_t)sqlite3_column_int64(s, 10);
    job->grad_elems = (uint64_t)sqlite3_column_int64(s, 11);
    job->n_samples = (uint64_t)sqlite3_column_int64(s, 12);
    job->batch = (uint64_t)sqlite3_column_int64(s, 13);
    job->n_workers = (uint32_t)workers;
    job->n_nodes = (uint32_t)nodes;
    job->start_unix_s = record_get_double(s, 16);
    r->facts.heard_unix_s = record_get_double(s, 17);
    r->facts.end_s = record_get_double(s, 18);
    r->facts.completed = sqlite3_column_int64(s, 19) != 0;
    r->facts.dropped_rows = (uint64_t)sqlite3_column_int64(s, 20);
    return DSGD_OK;
}

static enum dsgd_err allocate(struct record_read *r, struct dsgd_error *err)
{
    size_t n = r->facts.job.n_workers, nodes = r->facts.job.n_nodes;

    r->node_text = calloc(2 * nodes, sizeof *r->node_text);
    r->worker_node = malloc(n * sizeof *r->worker_node);
    r->telemetry = malloc(nodes * DSGD_N_TELEMETRY * sizeof *r->telemetry);
    r->mask = malloc(n * sizeof *r->mask);
    r->duration = malloc(n * sizeof *r->duration);
    r->lag = malloc(n * sizeof *r->lag);
    r->first = malloc(n * sizeof *r->first);
    r->count = malloc(n * sizeof *r->count);
    if (!r->node_text || !r->worker_node || !r->telemetry || !r->mask ||
        !r->duration || !r->lag || !r->first || !r->count)
        return no_memory(r, err);
    for (size_t i = 0; i < n; i++)
        r->worker_node[i] = UINT32_MAX;
    for (size_t i = 0; i < nodes * DSGD_N_TELEMETRY; i++)
        r->telemetry[i] = NAN;
    r->facts.job.node_name = (const char *const *)r->node_text;
    r->facts.job.node_kernel = (const char *const *)r->node_text + nodes;
    r->facts.job.worker_node = r->worker_node;
    r->facts.job.telemetry = r->telemetry;
    return DSGD_OK;
}

static enum dsgd_err read_node(struct record_read *r, sqlite3_stmt *s,
                               struct dsgd_error *err)
{
    int64_t node = sqlite3_column_int64(s, 0);
    uint32_t n = r->facts.job.n_nodes;
    bool failed = false;

    if (node < 0 || node >= n || r->node_text[node])
        return record_damaged(r, "a node's number", err);
    r->node_text[node] = copy_text(s, 1, &failed);
    r->node_text[n + node] = copy_text(s, 2, &failed);
    if (failed)
        return no_memory(r, err);
    return r->node_text[node] ? DSGD_OK
                              : record_damaged(r, "a node without a name", err);
}

static enum dsgd_err read_worker(struct record_read *r, sqlite3_stmt *s,
                                 struct dsgd_error *err)
{
    int64_t worker = sqlite3_column_int64(s, 0);
    int64_t node = sqlite3_column_int64(s, 1);

    if (worker < 0 || worker >= r->facts.job.n_workers || node < 0 ||
        node >= r->facts.job.n_nodes)
        return record_damaged(r, "the node of a worker", err);
    r->worker_node[worker] = (uint32_t)node;
    return DSGD_OK;
}

static enum dsgd_err read_telemetry(struct record_read *r, sqlite3_stmt *s,
                                    struct dsgd_error *err)
{
    int64_t node = sqlite3_column_int64(s, 0);
    const char *name = (const char *)sqlite3_column_text(s, 1);

    if (node < 0 || node >= r->facts.job.n_nodes)
        return record_damaged(r, "telemetry of a node that there is not", err);
    for (int i = 0; name && i < DSGD_N_TELEMETRY; i++)
        if (strcmp(name, record_telemetry_name[i]) == 0)
            r->telemetry[node * DSGD_N_TELEMETRY + i] =
                (float)record_get_double(s, 2);
    return DSGD_OK;
}

/* Call row for every row of a query. */
static enum dsgd_err for_each(struct record_read *r, const char *sql,
                              enum dsgd_err (*row)(struct record_read *,
                                                   sqlite3_stmt *,
                                                   struct dsgd_error *),
                              size_t *n, struct dsgd_error *err)
{
    sqlite3_stmt *s;
    enum dsgd_err rc = DSGD_OK;
    int sq = sqlite3_prepare_v2(r->sqlite, sql, -1, &s, NULL);

    *n = 0;
    while (sq == SQLITE_OK && rc == DSGD_OK) {
        sq = sqlite3_step(s);
        if (sq != SQLITE_ROW)
            break;
        sq = SQLITE_OK;
        rc = row(r, s, err);
        ++*n;
    }
    if (rc == DSGD_OK && sq != SQLITE_OK && sq != SQLITE_DONE)
        rc = record_sqlite_error(r, sq, err);
    sqlite3_finalize(s);
    return rc;
}

/* What records of earlier versions do not have: 0 in these. */
static enum dsgd_err read_later(struct record_read *r, const char *has_it,
                                const char *sql, int64_t *n,
                                struct dsgd_error *err)
{
    int64_t has = 0;
    int s = get_number(r->sqlite, has_it, &has);

    *n = 0;
    if (s == SQLITE_OK && has)
        s = get_number(r->sqlite, sql, n);
    return s == SQLITE_OK ? DSGD_OK : record_sqlite_error(r, s, err);
}

static enum dsgd_err read_resumed(struct record_read *r, struct dsgd_error *err)
{
    int64_t step;
    enum dsgd_err rc =
        read_later(r,
                   "SELECT count(*) FROM pragma_table_info('job')"
                   " WHERE name = 'resumed_step'",
                   "SELECT resumed_step FROM job", &step, err);

    r->facts.resumed_step = (uint64_t)step;
    return rc;
}

static enum dsgd_err read_work(struct record_read *r, struct dsgd_error *err)
{
    int64_t shared;
    enum dsgd_err rc =
        read_later(r,
                   "SELECT count(*) FROM pragma_table_info('setting')"
                   " WHERE name = 'value'",
                   "SELECT count(*) FROM setting"
                   " WHERE name = 'work' AND value = 'shared'",
                   &shared, err);

    r->facts.shared = shared > 0;
    return rc;
}

static enum dsgd_err read_facts(struct record_read *r, struct dsgd_error *err)
{
    size_t n;
    enum dsgd_err rc =
        for_each(r,
                 "SELECT job_id, step_id, job_name, user, program, description,"
                 " cutoff, late, version, restart, min_contributors,"
                 " grad_elems, n_samples, batch, n_workers, n_nodes,"
                 " start_unix_s, heard_unix_s, end_s, completed, dropped_rows"
                 " FROM job LIMIT 1",
                 read_job, &n, err);
    if (rc == DSGD_OK && n != 1)
        rc = record_damaged(r, "no job", err);
    if (rc == DSGD_OK)
        rc = read_resumed(r, err);
    if (rc == DSGD_OK)
        rc = read_work(r, err);
    if (rc == DSGD_OK)
        rc = allocate(r, err);
    if (rc == DSGD_OK)
        rc = for_each(r, "SELECT node, name, kernel FROM node", read_node, &n,
                      err);
    if (rc == DSGD_OK && n != r->facts.job.n_nodes)
        rc = record_damaged(r, "nodes are missing", err);
    if (rc == DSGD_OK)
        rc = for_each(r, "SELECT worker, node FROM worker", read_worker, &n,
                      err);
    for (size_t w = 0; rc == DSGD_OK && w < r->facts.job.n_workers; w++)
        if (r->worker_node[w] == UINT32_MAX)
            rc = record_damaged(r, "workers are missing", err);
    if (rc == DSGD_OK)
        rc = for_each(r, "SELECT node, name, value FROM telemetry WHERE step=0",
                      read_telemetry, &n, err);
    return rc;
}

enum dsgd_err record_read_open(const char *path, struct record_read **out,
                               struct dsgd_error *err)
{
    struct record_read *r = calloc(1, sizeof *r);
    enum dsgd_err rc;

    *out = NULL;
    if (!r)
        return error_set(err, DSGD_E_NOMEM, "%s: no memory", path);
    snprintf(r->path, sizeof r->path, "%s", path);
    rc = open_database(r, err);
    if (rc == DSGD_OK)
        rc = read_facts(r, err);
    if (rc != DSGD_OK) {
        record_read_close(r);
        return rc;
    }
    *out = r;
    return DSGD_OK;
}

const struct record_facts *record_read_facts(const struct record_read *r)
{
    return &r->facts;
}

void record_read_release(struct record_read *r)
{
    for (int i = 0; i < RECORD_N_ROWS; i++) {
        sqlite3_finalize(r->rows[i]);
        r->rows[i] = NULL;
    }
    sqlite3_close(r->sqlite);
    r->sqlite = NULL;
}

void record_read_close(struct record_read *r)
{
    if (!r)
        return;
    record_read_release(r);
    for (size_t i = 0; i < 9; i++)
        free(r->text[i]);
    for (size_t i = 0; r->node_text && i < 2 * (size_t)r->facts.job.n_nodes;
         i++)
        free(r->node_text[i]);
    free(r->node_text);
    free(r->worker_node);
    free(r->telemetry);
    free(r->mask);
    free(r->duration);
    free(r->lag);
    free(r->first);
    free(r->count);
    free(r);
}
