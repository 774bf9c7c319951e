/* Reading a record.  The file is taken for untrusted: it is opened read-only,
 * follows no symbolic link, runs nothing that its schema might contain, and
 * every number that indexes or sizes something is checked. */
#ifndef DSGD_RECORD_READ_H
#define DSGD_RECORD_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"

struct record_read;

struct record_facts {
    struct record_job job; /* as written; telemetry is never NULL */
    const char *version;   /* of the program that wrote it */
    double heard_unix_s;   /* last sign of life */
    double end_s;          /* NaN: not closed */
    bool completed;
    uint64_t dropped_rows;
    uint64_t resumed_step; /* 0 in records that do not tell */
    bool shared;           /* the run shared its work */
};

/* Open a record and read its facts.  A writer that is at work waits with its
 * next rows until record_read_release or _close; rows that come later are not
 * seen.
 *   r  out  NULL on error
 * A record that a crash left in the middle of a transaction is put in order
 * first, which takes the right to write to it.
 * Errors: DSGD_E_IO (can't be opened or read; locked; not a plain file; another
 * user's, as root), DSGD_E_FORMAT (not a record, damaged, of a newer version),
 * DSGD_E_NOMEM. */
enum dsgd_err record_read_open(const char *path, struct record_read **r,
                               struct dsgd_error *err);
void record_read_close(struct record_read *r);

/* Let the writer go on: no more rows are read, the facts stay. */
void record_read_release(struct record_read *r);

/* Valid until record_read_close. */
const struct record_facts *record_read_facts(const struct record_read *r);

/* The next row, in order of (step, worker), of each kind.
 *   step  out  its arrays are the reader's, valid until the next call
 * Durations and lags may be any float.
 * Returns DSGD_OK, or DSGD_END after the last.  Errors: DSGD_E_IO,
 * DSGD_E_FORMAT; the reader must not be used further then. */
enum dsgd_err record_read_step(struct record_read *r, struct record_step *step,
                               struct dsgd_error *err);
enum dsgd_err record_read_late(struct record_read *r, struct record_late *late,
                               struct dsgd_error *err);
enum dsgd_err record_read_event(struct record_read *r,
                                struct record_event *event,
                                struct dsgd_error *err);
/* first + samples does not overflow. */
enum dsgd_err record_read_contribution(struct record_read *r,
                                       struct record_contribution *row,
                                       struct dsgd_error *err);
enum dsgd_err record_read_checksum(struct record_read *r, uint64_t *step,
                                   uint32_t *worker, uint64_t *value,
                                   struct dsgd_error *err);

#endif
