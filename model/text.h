/* Text from elsewhere (file names, headers) that is to be shown. */
#ifndef DSGD_TEXT_H
#define DSGD_TEXT_H

#include <stddef.h>

/* Bytes of the UTF-8 character at s that may be shown as it is, 0 for none: RFC
 * 3629, without control characters. */
size_t text_character(const char *s);

/* The same text in UTF-8: what is none is taken for Latin-1, byte by byte.
 *   to  out  [2 * strlen(from) + 1] */
void text_to_utf8(char *to, const char *from);

/* Put a '?' in place of each byte that may not be shown. */
void text_make_printable(char *text);

#endif
