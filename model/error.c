#include "error.h"

#include <stdarg.h>
#include <stdio.h>

enum dsgd_err error_set(struct dsgd_error *err, enum dsgd_err code,
                        const char *format, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, format);
        vsnprintf(err->text, sizeof err->text, format, ap);
        va_end(ap);
    }
    return code;
}
