/* safetensors files: named float32 arrays and string metadata.
 *
 *   u64 little-endian   bytes of the header
 *   header              JSON: {"__metadata__": {"key": "value"},
 *                       "name": {"dtype": "F32", "shape": [2, 3],
 *                       "data_offsets": [0, 24]}, ...}
 *   data                the arrays, without gaps, little-endian */
#ifndef DSGD_SAFETENSORS_H
#define DSGD_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>

#include "dsgd_error.h"

enum {
    SAFETENSORS_DIMS = 4,
    SAFETENSORS_MAX_META = 4096,
    SAFETENSORS_MAX_HEADER = 16 << 20 /* bytes */
};

struct safetensor {
    const char *name;
    size_t n_dims;
    size_t shape[SAFETENSORS_DIMS];
    size_t n; /* elements, the product of shape */
    const float *data;
};

struct safetensors_meta {
    const char *key, *value;
};

struct safetensors;

/* Read a file: every length in it is checked, every byte accounted for.
 *   s  out  NULL on error; safetensors_free
 * Errors: DSGD_E_IO, DSGD_E_NOMEM, DSGD_E_FORMAT (not safetensors, cut short,
 * another dtype than F32, offsets that overlap, leave gaps or lie, more
 * metadata than SAFETENSORS_MAX_META). */
enum dsgd_err safetensors_load(const char *path, struct safetensors **s,
                               struct dsgd_error *err);

/* The same from memory; name is for messages. */
enum dsgd_err safetensors_parse(const char *name, const void *bytes, size_t n,
                                struct safetensors **s, struct dsgd_error *err);
void safetensors_free(struct safetensors *s);

/* NULL: there is none.  Pointers hold until s is freed. */
const struct safetensor *safetensors_find(const struct safetensors *s,
                                          const char *name);
const char *safetensors_meta(const struct safetensors *s, const char *key);

/* All metadata, in no order: call with i = 0, 1, ... until it returns false. */
bool safetensors_meta_at(const struct safetensors *s, size_t i,
                         struct safetensors_meta *meta);

/* Write a file atomically: temporary file beside it, fsync, rename.  n of each
 * tensor is taken from its shape.  Errors: DSGD_E_IO (the file at path is as
 * before), DSGD_E_NOSPACE, DSGD_E_NOMEM, DSGD_E_RANGE (a name twice). */
enum dsgd_err safetensors_save(const char *path, const struct safetensor *t,
                               size_t n, const struct safetensors_meta *meta,
                               size_t n_meta, struct dsgd_error *err);

#endif
