#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint_file.h"
#include "checkpoint_format.h"
#include "error.h"
#include "record_schema.h"

enum { LARGEST_SMALL = 1 << 28 }; /* of a section that is not the state */

struct reader {
    const char *path;
    int fd;
    uint64_t size;
    uint32_t n;
    unsigned char
        table[CHECKPOINT_HEAD + CHECKPOINT_MAX_SECTIONS * CHECKPOINT_ENTRY + 4];
};

struct section {
    uint64_t offset;
    size_t bytes;
    uint32_t crc;
};

static enum dsgd_err bad(const struct reader *r, const char *what,
                         struct dsgd_error *err)
{
    return error_set(err, DSGD_E_FORMAT, "%.300s: %s", r->path, what);
}

/* All of bytes, or false with errno (0: the file ends before). */
static bool get(const struct reader *r, uint64_t offset, void *data,
                size_t bytes)
{
    unsigned char *at = data;

    while (bytes) {
        ssize_t n = pread(r->fd, at, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = 0;
        if (n <= 0)
            return false;
        at += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return true;
}

static enum dsgd_err not_read(const struct reader *r, struct dsgd_error *err)
{
    if (!errno)
        return bad(r, "cut short", err);
    return error_set(err, DSGD_E_IO, "%.300s: %s", r->path, strerror(errno));
}

static enum dsgd_err read_table(struct reader *r, struct dsgd_error *err)
{
    if (!get(r, 0, r->table, CHECKPOINT_HEAD))
        return not_read(r, err);
    uint32_t version = record_get_u32(r->table + 8);
    r->n = record_get_u32(r->table + 12);
    if (memcmp(r->table, CHECKPOINT_MAGIC, 8) != 0)
        return bad(r, "not a checkpoint", err);
    if (version != CHECKPOINT_VERSION)
        return error_set(err, DSGD_E_FORMAT,
                         "%.300s: version %u; this program reads version %d",
                         r->path, version, CHECKPOINT_VERSION);
    if (r->n > CHECKPOINT_MAX_SECTIONS)
        return bad(r, "damaged: its table", err);
    size_t bytes = checkpoint_table_bytes(r->n);
    if (!get(r, 0, r->table, bytes))
        return not_read(r, err);
    if (record_get_u32(r->table + bytes - 4) !=
        checkpoint_crc(r->table, bytes - 4))
        return bad(r, "damaged: its table", err);
    return DSGD_OK;
}

/* The sections lie one after the other and end with the file. */
static enum dsgd_err check_layout(const struct reader *r,
                                  struct dsgd_error *err)
{
    uint64_t at = checkpoint_table_bytes(r->n);

    for (uint32_t i = 0; i < r->n; i++) {
        const unsigned char *e =
            r->table + CHECKPOINT_HEAD + i * CHECKPOINT_ENTRY;
        uint64_t offset = record_get_u64(e + 16);
        uint64_t bytes = record_get_u64(e + 24);
        if (offset != at)
            return bad(r, "damaged: its table", err);
        if (at > r->size || bytes > r->size - at)
            return bad(r, "cut short", err);
        at += bytes;
    }
    if (at != r->size)
        return bad(r, "damaged: longer than its table says", err);
    return DSGD_OK;
}

static enum dsgd_err find(const struct reader *r, const char *name,
                          struct section *s, struct dsgd_error *err)
{
    for (uint32_t i = 0; i < r->n; i++) {
        const unsigned char *e =
            r->table + CHECKPOINT_HEAD + i * CHECKPOINT_ENTRY;
        if (strncmp((const char *)e, name, CHECKPOINT_NAME) != 0)
            continue;
        *s = (struct section){record_get_u64(e + 16),
                              (size_t)record_get_u64(e + 24),
                              record_get_u32(e + 32)};
        return DSGD_OK;
    }
    return error_set(err, DSGD_E_FORMAT, "%.300s: damaged: it has no \"%s\"",
                     r->path, name);
}

static enum dsgd_err read_into(const struct reader *r, const struct section *s,
                               const char *name, void *data,
                               struct dsgd_error *err)
{
    if (!get(r, s->offset, data, s->bytes))
        return not_read(r, err);
    if (checkpoint_crc(data, s->bytes) != s->crc)
        return error_set(err, DSGD_E_FORMAT,
                         "%.300s: damaged: the checksum of \"%s\" does not "
                         "match",
                         r->path, name);
    return DSGD_OK;
}

/* A section into memory of its own, with a zero behind it. */
static enum dsgd_err read_small(const struct reader *r, const char *name,
                                void **data, size_t *bytes,
                                struct dsgd_error *err)
{
    struct section s;
    enum dsgd_err rc = find(r, name, &s, err);

    if (rc != DSGD_OK)
        return rc;
    if (s.bytes > LARGEST_SMALL)
        return bad(r, "damaged: a section is too long", err);
    char *memory = calloc(1, s.bytes + 1);
    if (!memory)
        return error_set(err, DSGD_E_NOMEM, "%.300s: no memory", r->path);
    *data = memory;
    *bytes = s.bytes;
    return read_into(r, &s, name, memory, err);
}

static bool copy_text(char *to, size_t size, const char *from)
{
    return (size_t)snprintf(to, size, "%s", from) < size;
}

static bool unpack_facts(json_t *json, struct checkpoint_facts *f)
{
    const char *program, *identity, *run, *sampler;
    json_int_t grad_elems, n_samples, step, epoch, batch, n_workers, n_nodes,
        run_samples;

    if (json_unpack(json,
                    "{s:s, s:s, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, "
                    "s:F, s:s}",
                    "program", &program, "identity", &identity, "grad_elems",
                    &grad_elems, "n_samples", &n_samples, "sampler", &sampler,
                    "step", &step, "epoch", &epoch, "batch", &batch,
                    "n_workers", &n_workers, "n_nodes", &n_nodes, "run_samples",
                    &run_samples, "run_s", &f->run_s, "run", &run) != 0)
        return false;
    f->grad_elems = (uint64_t)grad_elems;
    f->n_samples = (uint64_t)n_samples;
    f->sampler =
        strcmp(sampler, "none") == 0 ? DSGD_SAMPLER_NONE : DSGD_SAMPLER_RANGES;
    f->step = (uint64_t)step;
    f->epoch = (uint64_t)epoch;
    f->batch = (uint64_t)batch;
    f->n_workers = (uint32_t)n_workers;
    f->n_nodes = (uint32_t)n_nodes;
    f->run_samples = (uint64_t)run_samples;
    return step >= 1 && epoch >= 0 && run_samples >= 0 && f->run_s >= 0 &&
           copy_text(f->program, sizeof f->program, program) &&
           copy_text(f->identity, sizeof f->identity, identity) &&
           copy_text(f->run, sizeof f->run, run);
}

static enum dsgd_err read_facts(const struct reader *r,
                                struct checkpoint_facts *f,
                                struct dsgd_error *err)
{
    void *text = NULL;
    size_t bytes;
    enum dsgd_err rc = read_small(r, "facts", &text, &bytes, err);

    if (rc == DSGD_OK) {
        json_t *json = json_loadb(text, bytes, 0, NULL);
        if (!json || !unpack_facts(json, f))
            rc = bad(r, "damaged: its facts", err);
        json_decref(json);
    }
    free(text);
    return rc;
}

static enum dsgd_err read_state(const struct reader *r, struct state_copy *copy,
                                struct dsgd_error *err)
{
    struct section s;
    enum dsgd_err rc = find(r, "state", &s, err);

    if (rc == DSGD_OK)
        rc = state_make(s.bytes, copy, err);
    if (rc == DSGD_OK)
        rc = read_into(r, &s, "state", copy->data, err);
    return rc;
}

static enum dsgd_err read_all(struct reader *r, struct checkpoint_read *c,
                              struct dsgd_error *err)
{
    enum dsgd_err rc = read_table(r, err);

    if (rc == DSGD_OK)
        rc = check_layout(r, err);
    if (rc == DSGD_OK)
        rc = read_facts(r, &c->facts, err);
    if (rc == DSGD_OK)
        rc = read_small(r, "sampler", &c->sampler, &c->sampler_bytes, err);
    if (rc == DSGD_OK)
        rc = read_small(r, "timing", &c->timing, &c->timing_bytes, err);
    if (rc == DSGD_OK)
        rc = read_state(r, &c->state, err);
    return rc;
}

enum dsgd_err checkpoint_read(const char *path, struct checkpoint_read **out,
                              struct dsgd_error *err)
{
    struct reader r = {.path = path};
    struct checkpoint_read *c = calloc(1, sizeof *c);
    struct stat st;

    *out = NULL;
    if (!c)
        return error_set(err, DSGD_E_NOMEM, "%.300s: no memory", path);
    c->state.fd = -1;
    r.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    enum dsgd_err rc = DSGD_OK;
    if (r.fd < 0 || fstat(r.fd, &st) != 0)
        rc = error_set(err, DSGD_E_IO, "%.300s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        rc = error_set(err, DSGD_E_FORMAT, "%.300s: not a file", path);
    if (rc == DSGD_OK) {
        r.size = (uint64_t)st.st_size;
        rc = read_all(&r, c, err);
    }
    if (r.fd >= 0)
        close(r.fd);
    if (rc != DSGD_OK) {
        checkpoint_free(c);
        return rc;
    }
    *out = c;
    return DSGD_OK;
}

void checkpoint_free(struct checkpoint_read *c)
{
    if (!c)
        return;
    free(c->sampler);
    free(c->timing);
    state_drop(&c->state);
    free(c);
}
