#include "text.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "error.h"

size_t text_character(const char *text)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)text;
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

void text_to_utf8(char *to, const char *from)
{
    while (*from) {
        unsigned char byte = (unsigned char)*from;
        size_t length = byte < 0x80 ? 1 : text_character(from);
        if (length) {
            memcpy(to, from, length);
            to += length;
        } else {
            *to++ = (char)(0xc0 | byte >> 6);
            *to++ = (char)(0x80 | (byte & 0x3f));
        }
        from += length ? length : 1;
    }
    *to = '\0';
}

void text_make_printable(char *text)
{
    while (*text) {
        size_t length = text_character(text);
        if (!length)
            *text = '?';
        text += length ? length : 1;
    }
}

enum dsgd_err text_flush(struct dsgd_error *err)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return DSGD_OK;
    return error_set(err, DSGD_E_IO, "standard output: %s", strerror(errno));
}
