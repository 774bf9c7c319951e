/* Text from elsewhere (file names, headers) that is to be shown, and
 * showing. */
#ifndef DSGD_TEXT_H
#define DSGD_TEXT_H

#include <stddef.h>

#include "dsgd_error.h"

/* Bytes of the UTF-8 character at s that may be shown as it is, 0 for none: RFC
 * 3629, without control characters. */
size_t text_character(const char *s);

/* The same text in UTF-8: what is none is taken for Latin-1, byte by byte.
 *   to  out  [2 * strlen(from) + 1] */
void text_to_utf8(char *to, const char *from);

/* Put a '?' in place of each byte that may not be shown. */
void text_make_printable(char *text);

/* All that was written to standard output is to be there.  Errors:
 * DSGD_E_IO. */
enum dsgd_err text_flush(struct dsgd_error *err);

#endif
