#include "report_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

void report_escape(const char *text, const char *also, char *out, size_t size)
{
    size_t used = 0;

    while (*text) {
        char escaped[8];
        const char *piece = text;
        size_t length = text_character(text), step = length;
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
