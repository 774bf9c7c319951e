/* Numbers are read and written with a point, whatever the program's locale.
 *
 * A program may have called setlocale: strtod then reads "2.5" as 2 where that
 * has a decimal comma, and printf writes "2,5", into files too. */
#ifndef DSGD_C_LOCALE_H
#define DSGD_C_LOCALE_H

#include <locale.h>

/* Give the calling thread, and no other, the C locale.
 * Returns what it had, for c_locale_leave. */
locale_t c_locale_enter(void);
void c_locale_leave(locale_t before);

#endif
