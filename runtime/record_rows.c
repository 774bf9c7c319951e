/* The rows of a record, one after the other. */
#include "record_read.h"

#include <stdio.h>
#include <string.h>

#include "record_read_impl.h"
#include "record_schema.h"

static const char *const query[RECORD_N_ROWS] = {
    [RECORD_STEPS] =
        "SELECT step, epoch, attempt, target, contributors, alive,"
        " epoch_end, samples, start_s, close_s, publish_s, lr_scale,"
        " mask, duration, lag, ranges FROM step ORDER BY step",
    [RECORD_LATES] =
        "SELECT step, worker, duration_s, lag_s, fraction FROM late"
        " ORDER BY step, worker",
    [RECORD_EVENTS] = "SELECT step, worker, node, kind, at_s, text FROM event"
                      " ORDER BY step, event",
    [RECORD_CHECKSUMS] = "SELECT step, worker, value FROM checksum"
                         " ORDER BY step, worker",
    [RECORD_CONTRIBUTIONS] =
        "SELECT step, worker, from_step, first, samples, nth, part"
        " FROM contribution ORDER BY step, worker, nth, from_step, first",
};

/* In records from before it was told how shared work was added up. */
static const char old_contributions[] =
    "SELECT step, worker, from_step, first, samples, 0, 0 FROM contribution"
    " ORDER BY step, worker, from_step, first";

/* Step to the next row of a kind. */
static enum dsgd_err next_row(struct record_read *r, enum record_rows kind,
                              struct dsgd_error *err)
{
    int rc = SQLITE_OK;

    if (!r->rows[kind])
        rc = sqlite3_prepare_v2(r->sqlite, query[kind], -1, &r->rows[kind],
                                NULL);
    if (rc == SQLITE_ERROR && kind == RECORD_CONTRIBUTIONS)
        rc = sqlite3_prepare_v2(r->sqlite, old_contributions, -1,
                                &r->rows[kind], NULL);
    if (rc == SQLITE_ERROR && kind == RECORD_CONTRIBUTIONS)
        return DSGD_END; /* a record from before there was this table */
    if (rc == SQLITE_OK)
        rc = sqlite3_step(r->rows[kind]);
    if (rc == SQLITE_ROW)
        return DSGD_OK;
    return rc == SQLITE_DONE ? DSGD_END : record_sqlite_error(r, rc, err);
}

static uint32_t get_u32(sqlite3_stmt *s, int column)
{
    int64_t value = sqlite3_column_int64(s, column);
    return value < 0 ? 0 : value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static uint64_t get_u64(sqlite3_stmt *s, int column)
{
    return (uint64_t)sqlite3_column_int64(s, column);
}

/* A blob of exactly bytes, or NULL. */
static const unsigned char *get_blob(sqlite3_stmt *s, int column, size_t bytes)
{
    const unsigned char *blob = sqlite3_column_blob(s, column);
    int have = sqlite3_column_bytes(s, column);
    return have >= 0 && (size_t)have == bytes ? blob : NULL;
}

/* Fill the arrays of a step.  False: a blob has the wrong size, or the mask
 * does not have the bits that the row says. */
static bool read_blobs(struct record_read *r, sqlite3_stmt *s,
                       uint32_t contributors)
{
    size_t n = r->facts.job.n_workers;
    const unsigned char *mask = get_blob(s, 12, record_mask_bytes(n));
    const unsigned char *duration = get_blob(s, 13, record_float_bytes(n));
    const unsigned char *lag = get_blob(s, 14, record_float_bytes(n));
    const unsigned char *range = get_blob(s, 15, record_range_bytes(n));
    uint32_t bits = 0;

    if (!mask || !duration || !lag || !range)
        return false;
    for (size_t w = 0; w < n; w++) {
        r->mask[w] = mask[w / 8] >> w % 8 & 1;
        bits += r->mask[w];
        r->duration[w] = record_get_f32(duration + 4 * w);
        r->lag[w] = record_get_f32(lag + 4 * w);
        r->first[w] = record_get_u64(range + 12 * w);
        r->count[w] = record_get_u32(range + 12 * w + 8);
    }
    return bits == contributors;
}

enum dsgd_err record_read_step(struct record_read *r, struct record_step *step,
                               struct dsgd_error *err)
{
    enum dsgd_err rc = next_row(r, RECORD_STEPS, err);
    sqlite3_stmt *s = r->rows[RECORD_STEPS];

    if (rc != DSGD_OK)
        return rc;
    *step = (struct record_step){
        .step = get_u64(s, 0),
        .epoch = get_u64(s, 1),
        .attempt = get_u32(s, 2),
        .target = get_u32(s, 3),
        .contributors = get_u32(s, 4),
        .alive = get_u32(s, 5),
        .epoch_end = get_u32(s, 6) != 0,
        .samples = get_u64(s, 7),
        .start_s = record_get_double(s, 8),
        .close_s = record_get_double(s, 9),
        .publish_s = record_get_double(s, 10),
        .lr_scale = record_get_double(s, 11),
        .mask = r->mask,
        .duration_s = r->duration,
        .lag_s = r->lag,
        .first = r->first,
        .count = r->count,
    };
    if (sqlite3_column_int64(s, 0) < 1 ||
        !read_blobs(r, s, step->contributors)) {
        char what[64];
        snprintf(what, sizeof what, "the arrays of step %llu",
                 (unsigned long long)step->step);
        return record_damaged(r, what, err);
    }
    return DSGD_OK;
}

enum dsgd_err record_read_late(struct record_read *r, struct record_late *late,
                               struct dsgd_error *err)
{
    enum dsgd_err rc = next_row(r, RECORD_LATES, err);
    sqlite3_stmt *s = r->rows[RECORD_LATES];

    if (rc != DSGD_OK)
        return rc;
    *late = (struct record_late){
        .step = get_u64(s, 0),
        .worker = get_u32(s, 1),
        .duration_s = (float)record_get_double(s, 2),
        .lag_s = (float)record_get_double(s, 3),
        .fraction = (float)record_get_double(s, 4),
    };
    if (late->worker >= r->facts.job.n_workers)
        return record_damaged(r, "a late row's worker", err);
    return DSGD_OK;
}

/* A worker or node, -1 for none.  False: there is none of that number. */
static bool get_index(sqlite3_stmt *s, int column, uint32_t n, int32_t *index)
{
    int64_t value = sqlite3_column_int64(s, column);

    *index = -1;
    if (sqlite3_column_type(s, column) == SQLITE_NULL)
        return true;
    if (value < 0 || value >= n)
        return false;
    *index = (int32_t)value;
    return true;
}

enum dsgd_err record_read_event(struct record_read *r,
                                struct record_event *event,
                                struct dsgd_error *err)
{
    enum dsgd_err rc = next_row(r, RECORD_EVENTS, err);
    sqlite3_stmt *s = r->rows[RECORD_EVENTS];

    if (rc != DSGD_OK)
        return rc;
    memset(event, 0, sizeof *event);
    event->step = get_u64(s, 0);
    if (!get_index(s, 1, r->facts.job.n_workers, &event->worker) ||
        !get_index(s, 2, r->facts.job.n_nodes, &event->node))
        return record_damaged(r, "an event's worker or node", err);
    event->kind = record_event_kind((const char *)sqlite3_column_text(s, 3));
    event->at_s = record_get_double(s, 4);
    const unsigned char *text = sqlite3_column_text(s, 5);
    snprintf(event->text, sizeof event->text, "%s",
             text ? (const char *)text : "");
    return DSGD_OK;
}

enum dsgd_err record_read_contribution(struct record_read *r,
                                       struct record_contribution *row,
                                       struct dsgd_error *err)
{
    enum dsgd_err rc = next_row(r, RECORD_CONTRIBUTIONS, err);
    sqlite3_stmt *s = r->rows[RECORD_CONTRIBUTIONS];

    if (rc != DSGD_OK)
        return rc;
    *row = (struct record_contribution){
        .step = get_u64(s, 0),
        .worker = get_u32(s, 1),
        .from = get_u64(s, 2),
        .first = get_u64(s, 3),
        .samples = get_u64(s, 4),
        .nth = get_u32(s, 5),
        .part = get_u32(s, 6),
    };
    if (row->worker >= r->facts.job.n_workers || row->from > row->step ||
        row->samples > UINT64_MAX - row->first)
        return record_damaged(r, "a contribution", err);
    return DSGD_OK;
}

enum dsgd_err record_read_checksum(struct record_read *r, uint64_t *step,
                                   uint32_t *worker, uint64_t *value,
                                   struct dsgd_error *err)
{
    enum dsgd_err rc = next_row(r, RECORD_CHECKSUMS, err);
    sqlite3_stmt *s = r->rows[RECORD_CHECKSUMS];

    if (rc != DSGD_OK)
        return rc;
    *step = get_u64(s, 0);
    *worker = get_u32(s, 1);
    *value = get_u64(s, 2);
    if (*worker >= r->facts.job.n_workers)
        return record_damaged(r, "a checksum's worker", err);
    return DSGD_OK;
}
