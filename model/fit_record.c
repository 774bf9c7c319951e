#include "fit_record.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "timing.h"

enum { APPLICATION = 0x44534744, SCHEMA = 1, MOST_WORKERS = 1000000 };
static const double largest = 1e30; /* telemetry, as in a trace */

struct reader {
    sqlite3 *db;
    const char *path;
    size_t n, n_nodes;
    size_t capacity, steps; /* counted, and read so far */
    uint32_t *node;         /* [n] of each rank, as recorded */
    uint32_t *slot;         /* [n] a rank's place in the trace */
    uint32_t *used;         /* [n_nodes] a node's number in the trace */
    size_t used_nodes;      /* that have workers */
    size_t *filled;         /* [n_nodes] steps from here on have the feature */
    int64_t *step;          /* [steps] numbers, ascending */
    struct fit_trace *t;
    struct dsgd_error *err;
};

static enum dsgd_err foreign(const struct reader *r, const char *what)
{
    return error_set(r->err, DSGD_E_FORMAT, "%s: %s", r->path, what);
}

static enum dsgd_err failed(const struct reader *r)
{
    int code = sqlite3_errcode(r->db);
    bool bad =
        code == SQLITE_NOTADB || code == SQLITE_CORRUPT || code == SQLITE_ERROR;

    return error_set(r->err, bad ? DSGD_E_FORMAT : DSGD_E_IO, "%s: %s", r->path,
                     bad && code == SQLITE_NOTADB ? "not a record"
                                                  : sqlite3_errmsg(r->db));
}

/* Call row for each row of a query. */
static enum dsgd_err query(struct reader *r, const char *sql,
                           enum dsgd_err (*row)(struct reader *r,
                                                sqlite3_stmt *s))
{
    sqlite3_stmt *s;
    enum dsgd_err rc = DSGD_OK;
    int got = sqlite3_prepare_v2(r->db, sql, -1, &s, NULL);

    if (got != SQLITE_OK)
        return failed(r);
    while (rc == DSGD_OK && (got = sqlite3_step(s)) == SQLITE_ROW)
        rc = row(r, s);
    if (rc == DSGD_OK && got != SQLITE_DONE)
        rc = failed(r);
    sqlite3_finalize(s);
    return rc;
}

static enum dsgd_err row_application(struct reader *r, sqlite3_stmt *s)
{
    return sqlite3_column_int64(s, 0) == APPLICATION
               ? DSGD_OK
               : foreign(r, "an SQLite database, but not a record");
}

static enum dsgd_err row_version(struct reader *r, sqlite3_stmt *s)
{
    return sqlite3_column_int64(s, 0) == SCHEMA
               ? DSGD_OK
               : foreign(r, "a record of another version");
}

static enum dsgd_err row_job(struct reader *r, sqlite3_stmt *s)
{
    int64_t n = sqlite3_column_int64(s, 0), nodes = sqlite3_column_int64(s, 1);
    int64_t steps = sqlite3_column_int64(s, 2);
    int64_t broken = sqlite3_column_int64(s, 3);

    if (n < 1 || n > MOST_WORKERS || nodes < 1 || nodes > n)
        return foreign(r, "broken: its number of workers or nodes");
    if (steps < 1)
        return foreign(r, "has no steps");
    if (broken) /* so that what is allocated is no larger than the file */
        return foreign(r, "broken: a step's durations or lags are cut short");
    r->n = (size_t)n;
    r->n_nodes = (size_t)nodes;
    r->capacity = (size_t)steps;
    r->node = calloc(r->n, sizeof *r->node);
    r->slot = calloc(r->n, sizeof *r->slot);
    r->used = calloc(r->n_nodes, sizeof *r->used);
    r->filled = calloc(r->n_nodes, sizeof *r->filled);
    r->step = calloc(r->capacity, sizeof *r->step);
    if (!r->node || !r->slot || !r->used || !r->filled || !r->step)
        return error_set(r->err, DSGD_E_NOMEM, "%s: no memory", r->path);
    return DSGD_OK;
}

static enum dsgd_err row_worker(struct reader *r, sqlite3_stmt *s)
{
    int64_t worker = sqlite3_column_int64(s, 0);
    int64_t node = sqlite3_column_int64(s, 1);

    if (worker < 0 || worker >= (int64_t)r->n || node < 0 ||
        node >= (int64_t)r->n_nodes)
        return foreign(r, "broken: a worker or node out of range");
    r->node[worker] = (uint32_t)node;
    return DSGD_OK;
}

/* Workers by node, ranks ascending within a node; nodes without workers are
 * left out. */
static void order_workers(struct reader *r)
{
    uint32_t *next = r->used; /* first the workers of each node, then a place */
    uint32_t place = 0;

    for (size_t w = 0; w < r->n; w++)
        next[r->node[w]]++;
    for (size_t i = 0; i < r->n_nodes; i++) {
        uint32_t workers = next[i];
        next[i] = place;
        place += workers;
    }
    for (size_t w = 0; w < r->n; w++)
        r->slot[w] = next[r->node[w]]++;
    place = 0;
    for (size_t i = 0; i < r->n_nodes; i++) {
        uint32_t end = r->used[i];
        r->used[i] = end > place ? (uint32_t)r->used_nodes++ : UINT32_MAX;
        place = end;
    }
}

static enum dsgd_err make_trace(struct reader *r, struct fit_pool *pool)
{
    struct fit_trace *t;
    enum dsgd_err rc;

    order_workers(r);
    rc = fit_pool_new(pool, r->path, r->capacity, r->n, r->used_nodes, true, &t,
                      r->err);
    if (rc != DSGD_OK)
        return rc;
    r->t = t;
    for (size_t w = 0; w < r->n; w++)
        t->node[r->slot[w]] = r->used[r->node[w]];
    memset(t->status, TIMING_NONE, t->steps * t->n);
    memset(t->target_status, TIMING_NONE, t->steps * t->n);
    return DSGD_OK;
}

static const float *floats(const struct reader *r, sqlite3_stmt *s, int column)
{
    return (size_t)sqlite3_column_bytes(s, column) == r->n * sizeof(float)
               ? sqlite3_column_blob(s, column)
               : NULL;
}

static float float_at(const float *blob, size_t i)
{
    float x;

    memcpy(&x, (const char *)blob + i * sizeof x, sizeof x);
    return x;
}

static void know(float *y, uint8_t *status, double duration_s, int what)
{
    if (!(duration_s > 0) || !isfinite(duration_s))
        return;
    *y = (float)log(duration_s);
    *status = (uint8_t)what;
}

/* Exact where published, else a bound: how long it ran until the close. */
static enum dsgd_err row_step(struct reader *r, sqlite3_stmt *s)
{
    double close_s = sqlite3_column_double(s, 1);
    const float *duration = floats(r, s, 2), *lag = floats(r, s, 3);
    struct fit_trace *t = r->t;

    if (!duration || !lag)
        return foreign(r, "broken: a step's durations or lags are cut short");
    if (r->steps == r->capacity)
        return foreign(r, "changed while it was read");
    for (size_t w = 0; w < r->n; w++) {
        size_t i = r->steps * r->n + r->slot[w];
        double d = float_at(duration, w);
        bool known = isfinite(d);
        know(&t->seen[i], &t->status[i], known ? d : close_s - float_at(lag, w),
             known ? TIMING_EXACT : TIMING_CENSORED);
        t->target[i] = t->seen[i];
        t->target_status[i] = t->status[i];
    }
    r->step[r->steps++] = sqlite3_column_int64(s, 0);
    return DSGD_OK;
}

/* Index of the last step <= number, or r->steps: there is none. */
static size_t step_at(const struct reader *r, int64_t number)
{
    size_t low = 0, high = r->steps;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->step[middle] <= number)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? low - 1 : r->steps;
}

static enum dsgd_err row_late(struct reader *r, sqlite3_stmt *s)
{
    int64_t worker = sqlite3_column_int64(s, 1);
    size_t step = step_at(r, sqlite3_column_int64(s, 0));
    bool whole = !(sqlite3_column_double(s, 3) < 1);

    if (worker < 0 || worker >= (int64_t)r->n)
        return foreign(r, "broken: a late worker out of range");
    if (step == r->steps || r->step[step] != sqlite3_column_int64(s, 0))
        return DSGD_OK;
    size_t i = step * r->n + r->slot[worker];
    double duration_s = sqlite3_column_double(s, 2);
    know(&r->t->target[i], &r->t->target_status[i], duration_s,
         whole ? TIMING_EXACT : TIMING_PROGRESS);
    if (!whole) /* told at its next micro-batch: in time for the next step */
        know(&r->t->seen[i], &r->t->status[i], duration_s, TIMING_PROGRESS);
    return DSGD_OK;
}

/* Rows come by step, the last first: a value holds until the next look. */
static enum dsgd_err row_telemetry(struct reader *r, sqlite3_stmt *s)
{
    struct fit_trace *t = r->t;
    int64_t number = sqlite3_column_int64(s, 0);
    int64_t node = sqlite3_column_int64(s, 1);
    size_t feature = (size_t)sqlite3_column_int64(s, 3);
    double value = sqlite3_column_type(s, 2) == SQLITE_NULL
                       ? NAN
                       : sqlite3_column_double(s, 2);

    if (node < 0 || node >= (int64_t)r->n_nodes)
        return foreign(r, "broken: telemetry of a node out of range");
    if (r->used[node] == UINT32_MAX)
        return DSGD_OK;
    size_t before = number > INT64_MIN ? step_at(r, number - 1) : r->steps;
    size_t from = before == r->steps ? 0 : before + 1;
    for (size_t k = from; k < r->filled[node]; k++)
        t->telemetry[(k * t->n_nodes + r->used[node]) * t->features + feature] =
            fabs(value) <= largest ? (float)value : NAN;
    if (from < r->filled[node])
        r->filled[node] = from;
    return DSGD_OK;
}

static enum dsgd_err read_telemetry(struct reader *r,
                                    const struct fit_pool *pool)
{
    enum dsgd_err rc = DSGD_OK;

    for (size_t f = 0; rc == DSGD_OK && r->t->telemetry && f < pool->features;
         f++) {
        char *sql = sqlite3_mprintf("SELECT step, node, value, %d FROM "
                                    "telemetry WHERE name=%Q "
                                    "ORDER BY step DESC",
                                    (int)f, pool->feature[f]);
        for (size_t i = 0; i < r->n_nodes; i++)
            r->filled[i] = r->t->steps;
        rc = sql ? query(r, sql, row_telemetry)
                 : error_set(r->err, DSGD_E_NOMEM, "%s: no memory", r->path);
        sqlite3_free(sql);
    }
    return rc;
}

static enum dsgd_err open_record(struct reader *r)
{
    if (sqlite3_open_v2(r->path, &r->db, SQLITE_OPEN_READONLY, NULL) !=
        SQLITE_OK)
        return failed(r);
    sqlite3_busy_timeout(r->db, 5000);
    sqlite3_db_config(r->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    enum dsgd_err rc = query(r, "PRAGMA application_id", row_application);
    if (rc == DSGD_OK)
        rc = query(r, "PRAGMA user_version", row_version);
    if (rc == DSGD_OK)
        rc = query(r, "BEGIN", NULL);
    return rc;
}

static enum dsgd_err read_shape(struct reader *r)
{
    enum dsgd_err rc =
        query(r,
              "SELECT n_workers, n_nodes, (SELECT count(*) FROM step), "
              "(SELECT count(*) FROM step WHERE length(duration) IS NOT "
              "4 * n_workers OR length(lag) IS NOT 4 * n_workers) "
              "FROM job LIMIT 1",
              row_job);

    if (rc == DSGD_OK && r->n == 0)
        rc = foreign(r, "broken: no row in the table job");
    if (rc == DSGD_OK)
        rc = query(r, "SELECT worker, node FROM worker", row_worker);
    return rc;
}

static enum dsgd_err read_steps(struct reader *r, const struct fit_pool *pool)
{
    enum dsgd_err rc =
        query(r, "SELECT step, close_s, duration, lag FROM step ORDER BY step",
              row_step);

    if (rc == DSGD_OK)
        rc = query(r, "SELECT step, worker, duration_s, fraction FROM late",
                   row_late);
    if (rc == DSGD_OK)
        rc = read_telemetry(r, pool);
    return rc;
}

enum dsgd_err fit_record_add(struct fit_pool *pool, const char *path,
                             struct dsgd_error *err)
{
    struct reader r = {.path = path, .err = err};
    enum dsgd_err rc = open_record(&r);

    if (rc == DSGD_OK)
        rc = read_shape(&r);
    if (rc == DSGD_OK)
        rc = make_trace(&r, pool);
    if (rc == DSGD_OK) {
        rc = read_steps(&r, pool);
        if (rc != DSGD_OK)
            fit_pool_drop(pool);
    }
    sqlite3_close(r.db);
    free(r.node);
    free(r.slot);
    free(r.used);
    free(r.filled);
    free(r.step);
    return rc;
}
