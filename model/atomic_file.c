#include "atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "error.h"

enum { LARGEST_WRITE = 1 << 30 };

static enum dsgd_err io_error(const char *path, int why, struct dsgd_error *err)
{
    enum dsgd_err code =
        why == ENOSPC || why == EDQUOT ? DSGD_E_NOSPACE : DSGD_E_IO;

    return error_set(err, code, "%.300s: %s", path, strerror(why));
}

static int name_temporary(struct atomic_file *f)
{
    const size_t size = sizeof f->temporary;

    if (f->flags & ATOMIC_FILE_RIVALS)
        return snprintf(f->temporary, size, "%s.%ld.tmp", f->path,
                        (long)getpid());
    return snprintf(f->temporary, size, "%s.tmp", f->path);
}

enum dsgd_err atomic_file_begin(struct atomic_file *f, const char *path,
                                mode_t mode, unsigned flags,
                                struct dsgd_error *err)
{
    f->path = path;
    f->flags = flags;
    f->failed = 0;
    int length = name_temporary(f);
    if (length < 0 || (size_t)length >= sizeof f->temporary)
        return io_error(path, ENAMETOOLONG, err);
    unlink(f->temporary); /* of a process that was killed */
    f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    return f->fd < 0 ? io_error(path, errno, err) : DSGD_OK;
}

void atomic_file_write(struct atomic_file *f, const void *data, size_t bytes)
{
    const unsigned char *at = data;

    while (bytes && !f->failed) {
        ssize_t n =
            write(f->fd, at, bytes < LARGEST_WRITE ? bytes : LARGEST_WRITE);
        if (n < 0 && errno != EINTR)
            f->failed = errno;
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        }
    }
}

/* So that the new name survives a power cut; a file system that cannot do it
 * is not an error. */
static void sync_directory(const char *path)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int n = slash ? (int)(slash - path) : 1;

    snprintf(dir, sizeof dir, "%.*s/", n, slash ? path : ".");
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

enum dsgd_err atomic_file_end(struct atomic_file *f, struct dsgd_error *err)
{
    const bool durable = f->flags & ATOMIC_FILE_DURABLE;

    if (!f->failed && durable && fsync(f->fd) != 0)
        f->failed = errno;
    if (close(f->fd) != 0 && !f->failed)
        f->failed = errno;
    if (!f->failed && rename(f->temporary, f->path) != 0)
        f->failed = errno;
    if (f->failed) {
        unlink(f->temporary);
        return io_error(f->path, f->failed, err);
    }
    if (durable)
        sync_directory(f->path);
    return DSGD_OK;
}
