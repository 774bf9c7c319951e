/* Feature names and metadata of a timing model. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "timing_model.h"

static enum dsgd_err no_memory(struct dsgd_error *err)
{
    return error_set(err, DSGD_E_NOMEM, "no memory for a timing model");
}

enum dsgd_err timing_model_set_features(struct timing_model *m, size_t n,
                                        const char *const *name,
                                        struct dsgd_error *err)
{
    char(*feature)[TIMING_NAME] = calloc(n + 1, sizeof *feature);

    if (!feature)
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(name[i]);
        if (length < 1 || length >= TIMING_NAME || strchr(name[i], ',')) {
            free(feature);
            return error_set(err, DSGD_E_FORMAT,
                             "feature name \"%s\": 1 to %d characters, no "
                             "comma",
                             name[i], TIMING_NAME - 1);
        }
        memcpy(feature[i], name[i], length + 1);
    }
    free(m->feature);
    m->feature = feature;
    m->n_features = n;
    return DSGD_OK;
}

/* Cut text at its commas into n names. */
static enum dsgd_err split_features(struct timing_model *m, const char *path,
                                    char *text, const char **name, size_t n,
                                    struct dsgd_error *err)
{
    size_t found = 0;

    for (char *at = text; at && *text; found++) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma++ = '\0';
        if (found < n)
            name[found] = at;
        at = comma;
    }
    if (found != n)
        return error_set(err, DSGD_E_FORMAT,
                         "%s: names %zu features, the weights are for %zu",
                         path, found, n);
    struct dsgd_error why = {""};
    enum dsgd_err rc = timing_model_set_features(m, n, name, &why);
    return rc == DSGD_OK ? rc : error_set(err, rc, "%s: %s", path, why.text);
}

static enum dsgd_err read_features(struct timing_model *m, const char *path,
                                   const char *names, size_t n,
                                   struct dsgd_error *err)
{
    char *text = names ? strdup(names) : calloc(n + 1, 32), *at = text;
    const char **name = calloc(n + 1, sizeof *name);
    enum dsgd_err rc = DSGD_OK;

    for (size_t i = 0; !names && text && i < n; i++)
        at += sprintf(at, "%su%zu", i ? "," : "", i);
    if (!text || !name)
        rc = no_memory(err);
    else
        rc = split_features(m, path, text, name, n, err);
    free(name);
    free(text);
    return rc;
}

enum dsgd_err timing_model_name_features(struct timing_model *m, size_t n,
                                         struct dsgd_error *err)
{
    return read_features(m, "", NULL, n, err);
}

static bool is_own(const char *key)
{
    return strcmp(key, "model") == 0 || strcmp(key, "version") == 0 ||
           strcmp(key, "features") == 0;
}

enum dsgd_err timing_model_read_meta(struct timing_model *m, const char *path,
                                     const struct safetensors *s, size_t n,
                                     struct dsgd_error *err)
{
    enum dsgd_err rc =
        read_features(m, path, safetensors_meta(s, "features"), n, err);
    struct safetensors_meta meta;

    for (size_t i = 0; rc == DSGD_OK && safetensors_meta_at(s, i, &meta); i++) {
        if (!is_own(meta.key))
            rc = timing_model_set_meta(m, meta.key, meta.value, err);
    }
    return rc;
}

static struct timing_meta *find(const struct timing_model *m, const char *key)
{
    for (size_t i = 0; i < m->n_meta; i++) {
        if (strcmp(m->meta[i].key, key) == 0)
            return &m->meta[i];
    }
    return NULL;
}

static void drop(struct timing_model *m, struct timing_meta *at)
{
    free(at->key);
    free(at->value);
    *at = m->meta[--m->n_meta];
}

enum dsgd_err timing_model_set_meta(struct timing_model *m, const char *key,
                                    const char *value, struct dsgd_error *err)
{
    struct timing_meta *at = find(m, key);

    if (at && !value) {
        drop(m, at);
        return DSGD_OK;
    }
    if (!value)
        return DSGD_OK;
    struct timing_meta fresh = {at ? NULL : strdup(key), strdup(value)};
    struct timing_meta *grown =
        at ? m->meta : realloc(m->meta, (m->n_meta + 1) * sizeof *grown);
    if (grown)
        m->meta = grown;
    if (!grown || !fresh.value || (!at && !fresh.key)) {
        free(fresh.key);
        free(fresh.value);
        return no_memory(err);
    }
    if (at) {
        free(at->value);
        at->value = fresh.value;
    } else {
        m->meta[m->n_meta++] = fresh;
    }
    return DSGD_OK;
}

void timing_model_release(struct timing_model *m)
{
    while (m->n_meta)
        drop(m, &m->meta[m->n_meta - 1]);
    free(m->meta);
    free(m->feature);
}
