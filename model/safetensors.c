#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the files are little-endian and read as they are");

struct placed {
    struct safetensor tensor;
    size_t begin; /* in the data, bytes */
};

struct safetensors {
    json_t *header;
    struct placed *placed; /* [n], by begin */
    size_t n;
    float *data;
};

void safetensors_free(struct safetensors *s)
{
    if (!s)
        return;
    json_decref(s->header);
    free(s->placed);
    free(s->data);
    free(s);
}

static enum dsgd_err foreign(struct dsgd_error *err, const char *name,
                             const char *why)
{
    return error_set(err, DSGD_E_FORMAT, "%s: not a safetensors file: %s", name,
                     why);
}

static bool get_size(const json_t *value, size_t *out)
{
    json_int_t i = json_integer_value(value);

    if (!json_is_integer(value) || i < 0)
        return false;
    *out = (size_t)i;
    return true;
}

/* dtype, shape and offsets of one tensor, whose name is there. */
static enum dsgd_err parse_tensor(const char *file, const json_t *entry,
                                  struct placed *p, struct dsgd_error *err)
{
    struct safetensor *t = &p->tensor;
    size_t end;
    const json_t *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));

    if (!dtype || !json_is_array(shape) || json_array_size(offsets) != 2 ||
        !get_size(json_array_get(offsets, 0), &p->begin) ||
        !get_size(json_array_get(offsets, 1), &end))
        return error_set(err, DSGD_E_FORMAT,
                         "%s: tensor \"%s\" lacks dtype, shape or "
                         "data_offsets",
                         file, t->name);
    if (strcmp(dtype, "F32") != 0)
        return error_set(err, DSGD_E_FORMAT,
                         "%s: tensor \"%s\" is %s; only F32 is read", file,
                         t->name, dtype);
    t->n_dims = json_array_size(shape);
    if (t->n_dims > SAFETENSORS_DIMS)
        return error_set(err, DSGD_E_FORMAT,
                         "%s: tensor \"%s\" has %zu dimensions, more than %d",
                         file, t->name, t->n_dims, SAFETENSORS_DIMS);
    t->n = 1;
    for (size_t i = 0; i < t->n_dims; i++) {
        if (!get_size(json_array_get(shape, i), &t->shape[i]) ||
            __builtin_mul_overflow(t->n, t->shape[i], &t->n))
            return error_set(err, DSGD_E_FORMAT,
                             "%s: tensor \"%s\" has an impossible shape", file,
                             t->name);
    }
    if (end < p->begin || t->n > SIZE_MAX / sizeof(float) ||
        end - p->begin != t->n * sizeof(float))
        return error_set(err, DSGD_E_FORMAT,
                         "%s: the shape of tensor \"%s\" and its data_offsets "
                         "%zu..%zu do not fit",
                         file, t->name, p->begin, end);
    return DSGD_OK;
}

/* An empty one goes in front of the one that begins where it does. */
static int compare_placed(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->tensor.n > y->tensor.n) - (x->tensor.n < y->tensor.n);
}

static enum dsgd_err check_metadata(const char *file, const json_t *meta,
                                    struct dsgd_error *err)
{
    const char *key;
    json_t *value;

    if (!json_is_object(meta))
        return foreign(err, file, "__metadata__ is no object");
    if (json_object_size(meta) > SAFETENSORS_MAX_META)
        return error_set(err, DSGD_E_FORMAT,
                         "%s: %zu metadata; at most %d are read", file,
                         json_object_size(meta), SAFETENSORS_MAX_META);
    json_object_foreach((json_t *)(uintptr_t)meta, key, value)
    {
        if (!json_is_string(value))
            return error_set(err, DSGD_E_FORMAT,
                             "%s: metadata \"%s\" is not a string", file, key);
    }
    return DSGD_OK;
}

static enum dsgd_err parse_header(struct safetensors *s, const char *file,
                                  struct dsgd_error *err)
{
    size_t n = json_object_size(s->header);
    const char *key;
    json_t *entry;

    s->placed = calloc(n + 1, sizeof *s->placed);
    if (!s->placed)
        return error_set(err, DSGD_E_NOMEM, "%s: no memory for %zu tensors",
                         file, n);
    json_object_foreach(s->header, key, entry)
    {
        struct placed *p = &s->placed[s->n];
        enum dsgd_err rc;
        if (strcmp(key, "__metadata__") == 0) {
            rc = check_metadata(file, entry, err);
        } else {
            p->tensor.name = key;
            rc = parse_tensor(file, entry, p, err);
            s->n++;
        }
        if (rc != DSGD_OK)
            return rc;
    }
    qsort(s->placed, s->n, sizeof *s->placed, compare_placed);
    return DSGD_OK;
}

/* The tensors must lie end to end and fill the data exactly. */
static enum dsgd_err place_tensors(struct safetensors *s, const char *file,
                                   size_t bytes, struct dsgd_error *err)
{
    size_t at = 0;

    for (size_t i = 0; i < s->n; i++) {
        struct safetensor *t = &s->placed[i].tensor;
        size_t begin = s->placed[i].begin, size = t->n * sizeof(float);
        if (begin != at)
            return error_set(err, DSGD_E_FORMAT,
                             "%s: tensor \"%s\" begins at byte %zu, %s at %zu",
                             file, t->name, begin,
                             begin < at ? "inside the one before, which ends"
                                        : "after a gap that begins",
                             at);
        if (size > bytes - at)
            return error_set(err, DSGD_E_FORMAT,
                             "%s: cut short: tensor \"%s\" ends at byte %zu of "
                             "the data, which has %zu",
                             file, t->name, at + size, bytes);
        t->data = s->data + at / sizeof(float);
        at += size;
    }
    if (at != bytes)
        return error_set(err, DSGD_E_FORMAT,
                         "%s: %zu bytes behind the last tensor", file,
                         bytes - at);
    return DSGD_OK;
}

static enum dsgd_err parse(struct safetensors *s, const char *file,
                           const unsigned char *bytes, size_t n,
                           struct dsgd_error *err)
{
    uint64_t header;
    json_error_t json;
    enum dsgd_err rc;

    if (n < sizeof header)
        return foreign(err, file, "shorter than 8 bytes");
    memcpy(&header, bytes, sizeof header);
    if (header < 2 || header > SAFETENSORS_MAX_HEADER)
        return foreign(err, file, "it does not begin with a header's length");
    n -= sizeof header;
    bytes += sizeof header;
    if (header > n)
        return error_set(err, DSGD_E_FORMAT,
                         "%s: cut short: the header has %llu bytes, the file "
                         "%zu",
                         file, (unsigned long long)header, n);
    if (bytes[0] != '{')
        return foreign(err, file, "its header is no JSON object");
    s->header = json_loadb((const char *)bytes, (size_t)header,
                           JSON_REJECT_DUPLICATES, &json);
    if (!json_is_object(s->header))
        return foreign(err, file, json.text);
    rc = parse_header(s, file, err);
    if (rc != DSGD_OK)
        return rc;
    n -= (size_t)header;
    s->data = malloc(n + 1);
    if (!s->data)
        return error_set(err, DSGD_E_NOMEM, "%s: no memory for %zu bytes", file,
                         n);
    memcpy(s->data, bytes + header, n);
    return place_tensors(s, file, n, err);
}

enum dsgd_err safetensors_parse(const char *name, const void *bytes, size_t n,
                                struct safetensors **out,
                                struct dsgd_error *err)
{
    struct safetensors *s = calloc(1, sizeof *s);
    enum dsgd_err rc = s ? parse(s, name, bytes, n, err)
                         : error_set(err, DSGD_E_NOMEM, "%s: no memory", name);

    if (rc != DSGD_OK) {
        safetensors_free(s);
        s = NULL;
    }
    *out = s;
    return rc;
}

/* Exactly n bytes; a shorter file is an error, too. */
static enum dsgd_err read_all(const char *path, int fd, unsigned char *to,
                              size_t n, struct dsgd_error *err)
{
    while (n) {
        ssize_t got = read(fd, to, n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return error_set(err, DSGD_E_IO, "%s: %s", path,
                             got ? strerror(errno) : "shrank while read");
        to += got;
        n -= (size_t)got;
    }
    return DSGD_OK;
}

static enum dsgd_err load(const char *path, int fd, struct safetensors **out,
                          struct dsgd_error *err)
{
    struct stat st;
    unsigned char *bytes;

    if (fstat(fd, &st) != 0)
        return error_set(err, DSGD_E_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return error_set(err, DSGD_E_IO, "%s: not a regular file", path);
    bytes = malloc((size_t)st.st_size + 1);
    if (!bytes)
        return error_set(err, DSGD_E_NOMEM, "%s: no memory for %lld bytes",
                         path, (long long)st.st_size);
    enum dsgd_err rc = read_all(path, fd, bytes, (size_t)st.st_size, err);
    if (rc == DSGD_OK)
        rc = safetensors_parse(path, bytes, (size_t)st.st_size, out, err);
    free(bytes);
    return rc;
}

enum dsgd_err safetensors_load(const char *path, struct safetensors **out,
                               struct dsgd_error *err)
{
    /* O_NONBLOCK: do not hang on a FIFO. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    *out = NULL;
    if (fd < 0)
        return error_set(err, DSGD_E_IO, "%s: %s", path, strerror(errno));
    enum dsgd_err rc = load(path, fd, out, err);
    close(fd);
    return rc;
}

const struct safetensor *safetensors_find(const struct safetensors *s,
                                          const char *name)
{
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(s->placed[i].tensor.name, name) == 0)
            return &s->placed[i].tensor;
    }
    return NULL;
}

const char *safetensors_meta(const struct safetensors *s, const char *key)
{
    const json_t *meta = json_object_get(s->header, "__metadata__");

    return json_string_value(json_object_get(meta, key));
}

bool safetensors_meta_at(const struct safetensors *s, size_t i,
                         struct safetensors_meta *out)
{
    json_t *meta = json_object_get(s->header, "__metadata__");
    void *it = json_object_iter(meta);

    while (it && i--)
        it = json_object_iter_next(meta, it);
    if (!it)
        return false;
    out->key = json_object_iter_key(it);
    out->value = json_string_value(json_object_iter_value(it));
    return true;
}
