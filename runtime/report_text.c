#include "report_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the UTF-8 character at s that may be shown, 0 for none: RFC 3629,
 * without control characters. */
static size_t printable(const unsigned char *s)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = s[0] < 0x80   ? 1
                    : s[0] < 0xc0 ? 0
                    : s[0] < 0xe0 ? 2
                    : s[0] < 0xf0 ? 3
                    : s[0] < 0xf8 ? 4
                                  : 0;
    uint32_t code = s[0];

    if (length > 1)
        code = s[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3f);
    }
    if (length == 0 || code < least[length] || code > 0x10ffff ||
        (code >= 0xd800 && code < 0xe000) || code < 0x20 ||
        (code >= 0x7f && code < 0xa0))
        return 0;
    return length;
}

void report_escape(const char *text, const char *also, char *out, size_t size)
{
    size_t used = 0;

    while (*text) {
        char escaped[8];
        const char *piece = text;
        size_t length = printable((const unsigned char *)text), step = length;
        if (length == 0 || *text == '\\' || strchr(also, *text)) {
            snprintf(escaped, sizeof escaped, "\\x%02x",
                     (unsigned)(unsigned char)*text);
            piece = escaped;
            length = 4;
            step = 1;
        }
        if (used + length >= size)
            break;
        memcpy(out + used, piece, length);
        used += length;
        text += step;
    }
    out[used] = '\0';
}

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

size_t report_length(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += begins_character(*text);
    return n;
}

char *report_nth(char *text, size_t n)
{
    for (; *text; text++)
        if (begins_character(*text) && n-- == 0)
            break;
    return text;
}
