/* A file that is there as a whole or not at all: written under another name
 * beside its own, then renamed.
 *
 *     struct atomic_file f;
 *     rc = atomic_file_begin(&f, path, 0666, ATOMIC_FILE_DURABLE, err);
 *     if (rc == DSGD_OK) {
 *         atomic_file_write(&f, data, bytes);
 *         rc = atomic_file_end(&f, err);
 *     }
 *
 * What was at the path stays as it was until the end, and after an error. */
#ifndef DSGD_ATOMIC_FILE_H
#define DSGD_ATOMIC_FILE_H

#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

#include "dsgd_error.h"

enum atomic_file_flag {
    ATOMIC_FILE_DURABLE = 1, /* survives a power cut: waits for the disk */
    ATOMIC_FILE_RIVALS = 2   /* other processes may write it at the same time:
                                the last one wins.  Without it the other name is
                                always PATH.tmp, and what a process that was
                                killed left there goes away with the next */
};

struct atomic_file {
    const char *path; /* the caller's */
    char temporary[PATH_MAX];
    unsigned flags;
    int fd;
    int failed; /* errno of the first write that failed; 0: none */
};

/*   path   in  must outlive f
 *   mode   in  as for open(2)
 *   flags  in  enum atomic_file_flag
 * Errors: DSGD_E_IO, DSGD_E_NOSPACE (no room for a name); then there is nothing
 * to end. */
enum dsgd_err atomic_file_begin(struct atomic_file *f, const char *path,
                                mode_t mode, unsigned flags,
                                struct dsgd_error *err);

/* Append.  What goes wrong is told at the end, and makes the rest do
 * nothing. */
void atomic_file_write(struct atomic_file *f, const void *data, size_t bytes);

/* Give it its name, or remove what was written.  Errors: DSGD_E_NOSPACE (the
 * disk or a quota is full), DSGD_E_IO. */
enum dsgd_err atomic_file_end(struct atomic_file *f, struct dsgd_error *err);

#endif
