/* Bounded reading of small kernel files.  Paths are given below a root
 * directory: "" in production, a tree of recorded files in the tests. */
#ifndef DSGD_PLUGIN_TEXT_FILE_H
#define DSGD_PLUGIN_TEXT_FILE_H

#include <stdbool.h>
#include <stddef.h>

enum { PATH_BYTES = 1024 };

/* Join a printf format's path to buf.  Returns false when it does not fit. */
bool text_path(char buf[PATH_BYTES], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Read the beginning of a file: at most size - 1 bytes, zero-terminated.
 * Returns false when it can't be opened or read (a PSI file that the kernel
 * has switched off opens, and fails in read). */
bool text_read(const char *root, const char *path, char *buf, size_t size);

bool text_exists(const char *root, const char *path);

/* A file line by line.  Lines longer than the buffer are skipped, and so is
 * what comes after the first MiB. */
struct text_lines {
    int fd;
    size_t begin, end; /* unread part of buf */
    size_t budget;     /* bytes still to be read */
    char buf[4096];
};

bool text_open(const char *root, const char *path, struct text_lines *lines);
/* The next line without its newline, valid until the next call; NULL at the
 * end.  The caller may write to it. */
char *text_next(struct text_lines *lines);
void text_close(struct text_lines *lines);

#endif
