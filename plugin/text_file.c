#include "text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILE_BYTES = 1 << 20 };

bool text_path(char buf[PATH_BYTES], const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    int length = vsnprintf(buf, PATH_BYTES, format, ap);
    va_end(ap);
    return length >= 0 && length < PATH_BYTES;
}

static int open_below(const char *root, const char *path)
{
    char full[PATH_BYTES];

    if (!text_path(full, "%s%s", root, path))
        return -1;
    return open(full, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

static ssize_t read_some(int fd, char *buf, size_t size)
{
    ssize_t n;

    do
        n = read(fd, buf, size);
    while (n < 0 && errno == EINTR);
    return n;
}

bool text_read(const char *root, const char *path, char *buf, size_t size)
{
    int fd = open_below(root, path);
    size_t used = 0;
    ssize_t n = 0;

    if (fd < 0)
        return false;
    while (used < size - 1 &&
           (n = read_some(fd, buf + used, size - 1 - used)) > 0)
        used += (size_t)n;
    close(fd);
    buf[used] = '\0';
    return n >= 0;
}

bool text_exists(const char *root, const char *path)
{
    char full[PATH_BYTES];

    return text_path(full, "%s%s", root, path) && access(full, F_OK) == 0;
}

bool text_open(const char *root, const char *path, struct text_lines *lines)
{
    lines->fd = open_below(root, path);
    lines->begin = lines->end = 0;
    lines->budget = MAX_FILE_BYTES;
    return lines->fd >= 0;
}

/* Make room and read on.  Returns false at the end of the file. */
static bool refill(struct text_lines *lines)
{
    size_t kept = lines->end - lines->begin;
    size_t room = sizeof lines->buf - kept;

    memmove(lines->buf, lines->buf + lines->begin, kept);
    lines->begin = 0;
    lines->end = kept;
    if (room > lines->budget)
        room = lines->budget;
    ssize_t n = room ? read_some(lines->fd, lines->buf + kept, room) : 0;
    if (n <= 0)
        return false;
    lines->end += (size_t)n;
    lines->budget -= (size_t)n;
    return true;
}

/* The newline that ends the unread part's first line, or NULL. */
static char *line_end(struct text_lines *lines)
{
    return memchr(lines->buf + lines->begin, '\n', lines->end - lines->begin);
}

/* Drop the unread part up to and including the next newline.  Returns false
 * when the file ends first. */
static bool skip_line(struct text_lines *lines)
{
    char *newline;

    do {
        lines->begin = lines->end;
        if (!refill(lines))
            return false;
        newline = line_end(lines);
    } while (!newline);
    lines->begin = (size_t)(newline - lines->buf) + 1;
    return true;
}

char *text_next(struct text_lines *lines)
{
    char *newline;

    while (!(newline = line_end(lines))) {
        bool full = lines->end - lines->begin == sizeof lines->buf;
        if (full ? !skip_line(lines) : !refill(lines))
            return NULL; /* an unfinished last line is no line */
    }
    char *line = lines->buf + lines->begin;
    *newline = '\0';
    lines->begin = (size_t)(newline - lines->buf) + 1;
    return line;
}

void text_close(struct text_lines *lines)
{
    if (lines->fd >= 0)
        close(lines->fd);
    lines->fd = -1;
}
