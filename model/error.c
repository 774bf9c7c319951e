#include "error.h"

#include <ctype.h>
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
        for (char *c = err->text; *c; c++)
            *c = iscntrl((unsigned char)*c) ? '?' : *c;
    }
    return code;
}
