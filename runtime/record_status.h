/* The status file beside a record, for live views: one line of JSON, replaced
 * as a whole by a rename, so that a reader never sees half of it. */
#ifndef DSGD_RECORD_STATUS_H
#define DSGD_RECORD_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct record_status {
    double unix_s; /* when this was written */
    uint64_t step; /* last published */
    uint64_t epoch;
    uint32_t contributors; /* of that step */
    uint32_t alive;
    uint32_t n_workers;
    uint64_t samples;     /* contributed so far */
    double elapsed_s;     /* of the run, at that step's publication */
    double samples_per_s; /* of late */
};

/* The status file of a record: "x.dsgd" has "x.status".  False: too long. */
bool record_status_path(const char *record, char *out, size_t size);

/* Replace the file at path.  Errors are not reported: the next one may pass. */
void record_status_write(const char *path, const struct record_status *status);

#endif
