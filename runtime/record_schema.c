#include "record_schema.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "error.h"

/* Plain tables, without STRICT: an older SQLite can read them, too. */
const char record_schema_sql[] =
    "CREATE TABLE job("
    " job_id TEXT NOT NULL, step_id TEXT NOT NULL, restart INTEGER NOT NULL,"
    " job_name TEXT, user TEXT, program TEXT, description TEXT,"
    " cutoff TEXT, late TEXT, min_contributors INTEGER NOT NULL,"
    " grad_elems INTEGER NOT NULL, n_samples INTEGER NOT NULL,"
    " batch INTEGER NOT NULL,"
    " n_workers INTEGER NOT NULL, n_nodes INTEGER NOT NULL,"
    " version TEXT NOT NULL, start_unix_s REAL NOT NULL,"
    " heard_unix_s REAL NOT NULL, end_s REAL,"
    " completed INTEGER NOT NULL DEFAULT 0,"
    " dropped_rows INTEGER NOT NULL DEFAULT 0,"
    " resumed_step INTEGER NOT NULL DEFAULT 0, resumed_from TEXT);"
    "CREATE TABLE node("
    " node INTEGER PRIMARY KEY, name TEXT NOT NULL, kernel TEXT);"
    "CREATE TABLE worker("
    " worker INTEGER PRIMARY KEY,"
    " node INTEGER NOT NULL REFERENCES node(node));"
    "CREATE TABLE telemetry("
    " step INTEGER NOT NULL, node INTEGER NOT NULL, name TEXT NOT NULL,"
    " value REAL, PRIMARY KEY(step, node, name));"
    "CREATE TABLE step("
    " step INTEGER PRIMARY KEY, epoch INTEGER NOT NULL,"
    " attempt INTEGER NOT NULL, target INTEGER NOT NULL,"
    " contributors INTEGER NOT NULL, alive INTEGER NOT NULL,"
    " epoch_end INTEGER NOT NULL, samples INTEGER NOT NULL,"
    " start_s REAL, close_s REAL, publish_s REAL, lr_scale REAL,"
    " mask BLOB NOT NULL, duration BLOB NOT NULL, lag BLOB NOT NULL,"
    " ranges BLOB NOT NULL);"
    "CREATE TABLE late("
    " step INTEGER NOT NULL, worker INTEGER NOT NULL, duration_s REAL,"
    " lag_s REAL, fraction REAL, PRIMARY KEY(step, worker));"
    "CREATE TABLE contribution("
    " step INTEGER NOT NULL, worker INTEGER NOT NULL,"
    " from_step INTEGER NOT NULL, first INTEGER NOT NULL,"
    " samples INTEGER NOT NULL, nth INTEGER NOT NULL, part INTEGER NOT NULL,"
    " PRIMARY KEY(step, worker, from_step, first));"
    "CREATE TABLE setting(name TEXT PRIMARY KEY, value TEXT NOT NULL);"
    "CREATE TABLE event("
    " event INTEGER PRIMARY KEY, kind TEXT NOT NULL, step INTEGER NOT NULL,"
    " worker INTEGER, node INTEGER, at_s REAL, text TEXT NOT NULL);"
    "CREATE TABLE checksum("
    " step INTEGER NOT NULL, worker INTEGER NOT NULL, value INTEGER NOT NULL,"
    " PRIMARY KEY(step, worker));"
    "CREATE TABLE decision("
    " step INTEGER PRIMARY KEY, policy TEXT NOT NULL, planned_s REAL,"
    " expected REAL, would_s REAL, would INTEGER, predicted_gain REAL,"
    " realised_gain REAL, lambda REAL, hidden_us REAL, tick_us REAL);";

const char *const record_telemetry_name[DSGD_N_TELEMETRY] = {
    DSGD_TELEMETRY_FEATURES};

static const char *const event_word[] = {
    [RECORD_EVENT_NOTE] = "note",
    [RECORD_EVENT_LOST] = "lost",
    [RECORD_EVENT_BACK] = "back",
    [RECORD_EVENT_RESYNC] = "resync",
    [RECORD_EVENT_CHECKSUM] = "checksum",
    [RECORD_EVENT_LEFT] = "left",
    [RECORD_EVENT_NODE_LOST] = "node lost",
    [RECORD_EVENT_NODE_BACK] = "node back",
    [RECORD_EVENT_SAVED] = "saved",
    [RECORD_EVENT_PREEMPTED] = "preempted",
};
enum { N_EVENT_WORDS = sizeof event_word / sizeof event_word[0] };

const char *record_event_word(enum record_event_kind kind)
{
    if ((size_t)kind >= N_EVENT_WORDS)
        kind = RECORD_EVENT_NOTE;
    return event_word[kind];
}

enum record_event_kind record_event_kind(const char *word)
{
    for (size_t i = 0; word && i < N_EVENT_WORDS; i++)
        if (strcmp(word, event_word[i]) == 0)
            return (enum record_event_kind)i;
    return RECORD_EVENT_NOTE;
}

enum dsgd_err record_canonical(const char *path, char *out, size_t size,
                               struct dsgd_error *err)
{
    char dir[PATH_MAX], real[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t length = slash ? (size_t)(slash - path) : 1;

    if (length >= sizeof dir)
        return error_set(err, DSGD_E_IO, "%.200s…: %s", path,
                         strerror(ENAMETOOLONG));
    memcpy(dir, slash ? path : ".", length);
    dir[length] = '\0';
    if (!realpath(length ? dir : "/", real))
        return error_set(err, DSGD_E_IO, "%s: directory %s: %s", path,
                         length ? dir : "/", strerror(errno));
    int n = snprintf(out, size, "%s/%s", strcmp(real, "/") ? real : "", name);
    if (n < 0 || (size_t)n >= size)
        return error_set(err, DSGD_E_IO, "%.200s…: %s", path,
                         strerror(ENAMETOOLONG));
    return DSGD_OK;
}
