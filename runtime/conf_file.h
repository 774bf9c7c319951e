/* dsgd.conf, line by line: see dsgd.conf(5). */
#ifndef DSGD_CONF_FILE_H
#define DSGD_CONF_FILE_H

#include "dsgd_error.h"

/* One line that is not empty.
 *   path    in  of the file
 *   number  in  of the line, from 1
 *   name    in  without blanks around it; the whole line where there is no "="
 *   value   in  without blanks around it; NULL: there is no "="
 * What is not DSGD_OK ends the reading, and is what conf_file_read returns. */
typedef enum dsgd_err conf_file_line(void *context, const char *path,
                                     unsigned number, const char *name,
                                     const char *value, struct dsgd_error *err);

/* Read the file that DSGD_CONF names, or else the installed one, which need not
 * exist.  Errors: DSGD_E_IO (it can't be read), and what line returns. */
enum dsgd_err conf_file_read(conf_file_line *line, void *context,
                             struct dsgd_error *err);

#endif
