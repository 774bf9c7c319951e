/* Finding records by job: RecordDir/<user>/<job>.<step>.<restart>.dsgd. */
#ifndef DSGD_REPORT_FIND_H
#define DSGD_REPORT_FIND_H

#include <stdbool.h>
#include <stddef.h>

#include "dsgd_error.h"

struct report_paths {
    char **path;
    size_t n;
};
void report_paths_free(struct report_paths *paths);
enum dsgd_err report_paths_add(struct report_paths *paths, const char *path,
                               struct dsgd_error *err);

/* Where records are: the option, or $DSGD_RECORD_DIR, or RecordDir of dsgd.conf
 * ($DSGD_CONF, or the installed one, which need not exist).
 *   option  in   NULL: not given
 *   dir     out  [size] "" when none says
 * Errors: DSGD_E_IO ($DSGD_CONF names a file that can't be read), DSGD_E_USAGE
 * (too long). */
enum dsgd_err report_record_dir(const char *option, char *dir, size_t size,
                                struct dsgd_error *err);

/* Does a record's file name belong to a job as sacct's -j has it?
 *   name  in  "123.0.0.dsgd", without directory
 *   job   in  "123", "123.0", "123_4", "123+1"; "123" has all its steps, array
 *             tasks and components */
bool report_is_job(const char *name, const char *job);

/* Append the records of dir itself and of its folders, as they are wanted,
 * sorted by job, step and restart.
 *   jobs    in  comma list, NULL: all
 *   itself  in  the records that lie in dir
 *   users   in  look into folders: of this name, or all for ""; NULL: none
 * A folder that can't be read is passed over.  Errors: DSGD_E_IO (dir itself),
 * DSGD_E_NOMEM. */
enum dsgd_err report_find(const char *dir, const char *jobs, bool itself,
                          const char *users, struct report_paths *paths,
                          struct dsgd_error *err);

#endif
