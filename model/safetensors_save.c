#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"

static size_t elements(const struct safetensor *t)
{
    size_t n = 1;

    for (size_t i = 0; i < t->n_dims; i++)
        n *= t->shape[i];
    return n;
}

static json_t *describe(const struct safetensor *t, size_t begin)
{
    json_t *shape = json_array();
    size_t bytes = elements(t) * sizeof(float);

    for (size_t i = 0; i < t->n_dims; i++)
        json_array_append_new(shape, json_integer((json_int_t)t->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape,
                     "data_offsets", (json_int_t)begin,
                     (json_int_t)(begin + bytes));
}

/* The header as text; NULL: no memory, or a text that is not UTF-8. */
static char *make_header(const struct safetensor *t, size_t n,
                         const struct safetensors_meta *meta, size_t n_meta)
{
    json_t *header = json_object(), *about = json_object();
    size_t at = 0;
    int bad = 0;

    for (size_t i = 0; i < n_meta; i++)
        bad |=
            json_object_set_new(about, meta[i].key, json_string(meta[i].value));
    bad |= json_object_set_new(header, "__metadata__", about);
    for (size_t i = 0; i < n; i++) {
        bad |= json_object_set_new(header, t[i].name, describe(&t[i], at));
        at += elements(&t[i]) * sizeof(float);
    }
    char *text = bad ? NULL : json_dumps(header, JSON_COMPACT);
    json_decref(header);
    return text;
}

static bool put(FILE *f, const void *bytes, size_t n)
{
    return fwrite(bytes, 1, n, f) == n;
}

static bool put_all(FILE *f, const char *header, const struct safetensor *t,
                    size_t n)
{
    /* Blanks bring the data to a multiple of 8. */
    size_t length = strlen(header), pad = (8 - length % 8) % 8;
    uint64_t total = length + pad;
    bool good = put(f, &total, sizeof total) && put(f, header, length) &&
                put(f, "        ", pad);

    for (size_t i = 0; i < n && good; i++)
        good = put(f, t[i].data, elements(&t[i]) * sizeof(float));
    return good && fflush(f) == 0 && fsync(fileno(f)) == 0;
}

/* So that the new name survives a power cut; a file system that cannot do it
 * is not an error. */
static void sync_directory(const char *path)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + 1 : 0;

    if (n >= sizeof dir)
        return;
    memcpy(dir, path, n);
    strcpy(dir + n, ".");
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

static enum dsgd_err io_error(struct dsgd_error *err, const char *path)
{
    enum dsgd_err code =
        errno == ENOSPC || errno == EDQUOT ? DSGD_E_NOSPACE : DSGD_E_IO;

    return error_set(err, code, "%s: %s", path, strerror(errno));
}

static enum dsgd_err write_file(const char *path, const char *header,
                                const struct safetensor *t, size_t n,
                                struct dsgd_error *err)
{
    char temp[PATH_MAX];
    int length =
        snprintf(temp, sizeof temp, "%s.%ld.tmp", path, (long)getpid());

    if (length < 0 || (size_t)length >= sizeof temp)
        return error_set(err, DSGD_E_IO, "%s: the name is too long", path);
    int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f)
        return io_error(err, temp);
    bool good = put_all(f, header, t, n);
    int why = errno;
    if (fclose(f) != 0 && good) {
        good = false;
        why = errno;
    }
    if (good && rename(temp, path) == 0) {
        sync_directory(path);
        return DSGD_OK;
    }
    errno = good ? errno : why;
    enum dsgd_err rc = io_error(err, path);
    unlink(temp);
    return rc;
}

enum dsgd_err safetensors_save(const char *path, const struct safetensor *t,
                               size_t n, const struct safetensors_meta *meta,
                               size_t n_meta, struct dsgd_error *err)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(t[i].name, t[j].name) == 0)
                return error_set(err, DSGD_E_RANGE, "%s: tensor \"%s\" twice",
                                 path, t[i].name);
        }
    }
    char *header = make_header(t, n, meta, n_meta);
    if (!header)
        return error_set(err, DSGD_E_NOMEM,
                         "%s: no memory, or a text that is not UTF-8", path);
    enum dsgd_err rc = write_file(path, header, t, n, err);
    free(header);
    return rc;
}
