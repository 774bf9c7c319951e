#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint_file.h"
#include "checkpoint_format.h"
#include "error.h"
#include "record_schema.h"

struct section {
    const char *name;
    const void *data;
    size_t bytes;
};
enum { N_SECTIONS = 4, LARGEST_WRITE = 1 << 30 };

static char *facts_text(const struct checkpoint_facts *f)
{
    json_t *json = json_pack(
        "{s:s, s:s, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:s}",
        "program", f->program, "identity", f->identity, "grad_elems",
        (json_int_t)f->grad_elems, "n_samples", (json_int_t)f->n_samples,
        "sampler", f->sampler == DSGD_SAMPLER_NONE ? "none" : "ranges", "step",
        (json_int_t)f->step, "epoch", (json_int_t)f->epoch, "batch",
        (json_int_t)f->batch, "n_workers", (json_int_t)f->n_workers, "n_nodes",
        (json_int_t)f->n_nodes, "run_samples", (json_int_t)f->run_samples,
        "run_s", f->run_s, "run", f->run);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

    json_decref(json);
    return text;
}

static void make_table(const struct section *s, unsigned char *table)
{
    uint64_t at = checkpoint_table_bytes(N_SECTIONS);
    unsigned char *to = table + CHECKPOINT_HEAD;

    memset(table, 0, checkpoint_table_bytes(N_SECTIONS));
    memcpy(table, CHECKPOINT_MAGIC, 8);
    record_put_u32(table + 8, CHECKPOINT_VERSION);
    record_put_u32(table + 12, N_SECTIONS);
    for (size_t i = 0; i < N_SECTIONS; i++, to += CHECKPOINT_ENTRY) {
        memcpy(to, s[i].name, strlen(s[i].name));
        record_put_u64(to + 16, at);
        record_put_u64(to + 24, s[i].bytes);
        record_put_u32(to + 32, checkpoint_crc(s[i].data, s[i].bytes));
        at += s[i].bytes;
    }
    record_put_u32(to, checkpoint_crc(table, (size_t)(to - table)));
}

static bool put(int fd, const void *data, size_t bytes)
{
    const unsigned char *at = data;

    while (bytes) {
        ssize_t n =
            write(fd, at, bytes < LARGEST_WRITE ? bytes : LARGEST_WRITE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

static bool put_all(int fd, const struct section *s)
{
    unsigned char table[CHECKPOINT_HEAD + N_SECTIONS * CHECKPOINT_ENTRY + 4];

    make_table(s, table);
    bool good = put(fd, table, sizeof table);
    for (size_t i = 0; i < N_SECTIONS && good; i++)
        good = put(fd, s[i].data, s[i].bytes);
    return good && fsync(fd) == 0;
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

static enum dsgd_err io_error(const char *path, struct dsgd_error *err)
{
    enum dsgd_err code =
        errno == ENOSPC || errno == EDQUOT ? DSGD_E_NOSPACE : DSGD_E_IO;

    return error_set(err, code, "%.300s: %s", path, strerror(errno));
}

static enum dsgd_err write_file(const char *path, const struct section *s,
                                struct dsgd_error *err)
{
    char temp[PATH_MAX];
    int length = snprintf(temp, sizeof temp, "%s.tmp", path);

    if (length < 0 || (size_t)length >= sizeof temp)
        return error_set(err, DSGD_E_IO, "%.300s…: %s", path,
                         strerror(ENAMETOOLONG));
    unlink(temp); /* of a run that was killed */
    int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return io_error(temp, err);
    bool good = put_all(fd, s);
    int why = errno;
    if (close(fd) != 0 && good) {
        good = false;
        why = errno;
    }
    if (good && rename(temp, path) == 0) {
        sync_directory(path);
        return DSGD_OK;
    }
    errno = good ? errno : why;
    enum dsgd_err rc = io_error(path, err);
    unlink(temp);
    return rc;
}

enum dsgd_err checkpoint_write(const char *path, const struct checkpoint *c,
                               struct dsgd_error *err)
{
    char *facts = facts_text(&c->facts);

    if (!facts)
        return error_set(err, DSGD_E_NOMEM,
                         "%.300s: no memory, or a text that is not UTF-8",
                         path);
    const struct section sections[N_SECTIONS] = {
        {"facts", facts, strlen(facts)},
        {"sampler", c->sampler, c->sampler_bytes},
        {"timing", c->timing, c->timing_bytes},
        {"state", c->state, c->state_bytes},
    };
    enum dsgd_err rc = write_file(path, sections, err);
    free(facts);
    return rc;
}
