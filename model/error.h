/* Filling in a struct dsgd_error. */
#ifndef DSGD_MODEL_ERROR_H
#define DSGD_MODEL_ERROR_H

#include "dsgd_error.h"

/* Write a message (printf format, cut at the buffer's end; a '?' for each
 * control character, of a file's name say) into err, unless err is NULL, and
 * return code, so that a failing line reads
 *     return error_set(err, DSGD_E_IO, "%s: %s", path, strerror(errno)); */
enum dsgd_err error_set(struct dsgd_error *err, enum dsgd_err code,
                        const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
