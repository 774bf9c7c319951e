#include "safetensors.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "atomic_file.h"
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

static enum dsgd_err write_file(const char *path, const char *header,
                                const struct safetensor *t, size_t n,
                                struct dsgd_error *err)
{
    /* Blanks bring the data to a multiple of 8. */
    size_t length = strlen(header), pad = (8 - length % 8) % 8;
    uint64_t total = length + pad;
    struct atomic_file f;
    enum dsgd_err rc = atomic_file_begin(
        &f, path, 0666, ATOMIC_FILE_DURABLE | ATOMIC_FILE_RIVALS, err);

    if (rc != DSGD_OK)
        return rc;
    atomic_file_write(&f, &total, sizeof total);
    atomic_file_write(&f, header, length);
    atomic_file_write(&f, "        ", pad);
    for (size_t i = 0; i < n; i++)
        atomic_file_write(&f, t[i].data, elements(&t[i]) * sizeof(float));
    return atomic_file_end(&f, err);
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
