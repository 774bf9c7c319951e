#include "timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "timing_model.h"

static const struct timing_kind *const kinds[] = {&timing_kind_set,
                                                  &timing_kind_dmm};
static const char kind_names[] = "set, dmm";

static const struct timing_kind *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    }
    return NULL;
}

static enum dsgd_err load(const char *path, const struct safetensors *s,
                          struct timing_model **m, struct dsgd_error *err)
{
    const char *name = safetensors_meta(s, "model");
    const char *version = safetensors_meta(s, "version");
    const struct timing_kind *kind = name ? find_kind(name) : NULL;

    if (!name)
        return error_set(err, DSGD_E_FORMAT,
                         "%s: not a timing model: it has no metadata \"model\"",
                         path);
    if (!kind)
        return error_set(err, DSGD_E_FORMAT,
                         "%s: a model of kind \"%s\"; known are: %s", path,
                         name, kind_names);
    if (version && strcmp(version, "1") != 0)
        return error_set(err, DSGD_E_FORMAT,
                         "%s: version \"%s\" of the model file; this program "
                         "reads 1: fit it again or upgrade",
                         path, version);
    return kind->load(path, s, m, err);
}

enum dsgd_err timing_model_load(const char *path, struct timing_model **m,
                                struct dsgd_error *err)
{
    struct safetensors *s;
    enum dsgd_err rc = safetensors_load(path, &s, err);

    *m = NULL;
    if (rc == DSGD_OK)
        rc = load(path, s, m, err);
    safetensors_free(s);
    return rc;
}

/* Names with commas between; NULL: no memory. */
static char *join_features(const struct timing_model *m)
{
    char *text = calloc(m->n_features + 1, TIMING_NAME + 1), *at = text;

    for (size_t i = 0; text && i < m->n_features; i++)
        at += sprintf(at, "%s%s", i ? "," : "", m->feature[i]);
    return text;
}

enum dsgd_err timing_model_save(const struct timing_model *m, const char *path,
                                struct dsgd_error *err)
{
    struct safetensors_meta *meta = calloc(m->n_meta + 3, sizeof *meta);
    char *features = join_features(m);
    enum dsgd_err rc;

    if (meta && features) {
        meta[0] = (struct safetensors_meta){"model", m->kind->name};
        meta[1] = (struct safetensors_meta){"version", "1"};
        meta[2] = (struct safetensors_meta){"features", features};
        for (size_t i = 0; i < m->n_meta; i++)
            meta[3 + i] =
                (struct safetensors_meta){m->meta[i].key, m->meta[i].value};
        rc = m->kind->save(m, path, meta, m->n_meta + 3, err);
    } else {
        rc = error_set(err, DSGD_E_NOMEM, "%s: no memory", path);
    }
    free(features);
    free(meta);
    return rc;
}

void timing_model_free(struct timing_model *m)
{
    if (m)
        m->kind->free(m);
}

const char *timing_model_kind(const struct timing_model *m)
{
    return m->kind->name;
}

size_t timing_model_features(const struct timing_model *m)
{
    return m->n_features;
}

const char *timing_model_feature(const struct timing_model *m, size_t i)
{
    return m->feature[i];
}

static enum dsgd_err check_nodes(size_t n, size_t n_nodes, const uint32_t *node,
                                 struct dsgd_error *err)
{
    if (n < 1 || n > UINT32_MAX || n_nodes < 1 || n_nodes > n)
        return error_set(err, DSGD_E_RANGE, "%zu workers on %zu nodes", n,
                         n_nodes);
    for (size_t j = 0; j < n; j++) {
        uint32_t before = j ? node[j - 1] : 0;
        if (node[j] != before && (j == 0 || node[j] != before + 1))
            return error_set(err, DSGD_E_RANGE,
                             "worker %zu is on node %u after one on %u: nodes "
                             "must ascend from 0 by 1",
                             j, node[j], before);
    }
    if (node[n - 1] != n_nodes - 1)
        return error_set(err, DSGD_E_RANGE,
                         "the last of %zu nodes is %u: each must have a worker",
                         n_nodes, node[n - 1]);
    return DSGD_OK;
}

enum dsgd_err timing_create(const struct timing_model *m, size_t n,
                            size_t n_nodes, const uint32_t *node,
                            struct timing **t, struct dsgd_error *err)
{
    enum dsgd_err rc = check_nodes(n, n_nodes, node, err);

    *t = NULL;
    return rc == DSGD_OK ? m->kind->create(m, n, n_nodes, node, t, err) : rc;
}

void timing_free(struct timing *t)
{
    if (t)
        t->model->kind->free_state(t);
}

const struct predictive *timing_predict(struct timing *t,
                                        const float *telemetry)
{
    return t->model->kind->predict(t, telemetry);
}

void timing_observe(struct timing *t, const float *log_s, const uint8_t *status)
{
    t->model->kind->observe(t, log_s, status);
}

/* In front of a saved state. */
struct state_header {
    char magic[8];
    char kind[8];
    uint64_t bytes, n, n_nodes, fingerprint;
};

static struct state_header make_header(const struct timing *t)
{
    struct state_header h = {.magic = "dsgdTM1",
                             .bytes = timing_state_bytes(t),
                             .n = t->n,
                             .n_nodes = t->n_nodes,
                             .fingerprint = t->fingerprint};

    snprintf(h.kind, sizeof h.kind, "%s", t->model->kind->name);
    return h;
}

size_t timing_state_bytes(const struct timing *t)
{
    return sizeof(struct state_header) + t->model->kind->state_bytes(t);
}

void timing_state_save(const struct timing *t, void *out)
{
    struct state_header h = make_header(t);

    memcpy(out, &h, sizeof h);
    t->model->kind->state_save(t, (char *)out + sizeof h);
}

enum dsgd_err timing_state_load(struct timing *t, const void *in, size_t bytes,
                                struct dsgd_error *err)
{
    struct state_header want = make_header(t), got;

    if (bytes < sizeof got)
        return error_set(err, DSGD_E_FORMAT,
                         "timing state: cut short after %zu bytes", bytes);
    memcpy(&got, in, sizeof got);
    if (memcmp(got.magic, want.magic, sizeof got.magic) != 0)
        return error_set(err, DSGD_E_FORMAT,
                         "timing state: not a timing model's state");
    if (memcmp(got.kind, want.kind, sizeof got.kind) != 0 || got.n != want.n ||
        got.n_nodes != want.n_nodes)
        return error_set(err, DSGD_E_FORMAT,
                         "timing state: of kind %.8s, %llu workers on %llu "
                         "nodes; here it is %s, %zu on %zu",
                         got.kind, (unsigned long long)got.n,
                         (unsigned long long)got.n_nodes, t->model->kind->name,
                         t->n, t->n_nodes);
    if (got.fingerprint != want.fingerprint)
        return error_set(err, DSGD_E_FORMAT,
                         "timing state: of other weights or another placement "
                         "of the workers");
    if (got.bytes != want.bytes || bytes != want.bytes)
        return error_set(err, DSGD_E_FORMAT,
                         "timing state: %zu bytes instead of %llu", bytes,
                         (unsigned long long)want.bytes);
    return t->model->kind->state_load(t, (const char *)in + sizeof got, err);
}

uint64_t timing_hash(uint64_t seed, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint64_t h = seed ^ 0xcbf29ce484222325u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}
