/* Text from a record, made fit for a terminal or a file. */
#ifndef DSGD_REPORT_TEXT_H
#define DSGD_REPORT_TEXT_H

#include <stddef.h>

/* Copy text, with control characters, bytes that are not UTF-8, backslashes,
 * and any of the (ASCII) characters in also, written as \xHH.
 *   out   [size] out  cut at a whole character
 *   also  in          may be "" */
void report_escape(const char *text, const char *also, char *out, size_t size);

/* Characters, not bytes, of UTF-8. */
size_t report_length(const char *text);

/* Where character n begins. */
char *report_nth(char *text, size_t n);

#endif
