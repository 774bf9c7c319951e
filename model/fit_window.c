#include "fit_window.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "set_filter.h"

struct fit_batch {
    size_t node_features;
    struct set_batch batch;
    uint32_t *node, *cluster;
    float *worker, *node_in, *anchor, *log_sd, *y;
    uint8_t *status;
};

void fit_features_free(struct fit_features *f)
{
    free(f->worker);
    free(f->node_in);
    free(f->anchor);
    free(f->log_sd);
    *f = (struct fit_features){NULL, NULL, NULL, NULL};
}

/* The filter over a whole trace, as at work. */
static void run_filter(struct set_filter *filter, const struct fit_trace *t,
                       size_t node_features, struct fit_features *f)
{
    for (size_t s = 0; s < t->steps; s++) {
        const float *look = t->telemetry;
        if (look)
            look += s * t->n_nodes * t->features;
        size_t row = s * t->n;
        set_filter_features(filter, look, f->worker + row * SET_WORKER_FEATURES,
                            f->node_in + s * t->n_nodes * node_features,
                            f->anchor + row * SET_ANCHORS, f->log_sd + row);
        set_filter_update(filter, t->seen + row, t->status + row, NULL);
    }
}

enum dsgd_err fit_features_make(const struct fit_trace *t,
                                const struct set_config *config,
                                struct fit_features *f, struct dsgd_error *err)
{
    size_t rows = t->steps * t->n;
    size_t width = set_node_features(config->n_telemetry, config->flags);
    struct set_filter *filter = NULL;

    f->worker = reallocarray(NULL, rows, SET_WORKER_FEATURES * sizeof(float));
    f->node_in =
        reallocarray(NULL, t->steps * t->n_nodes, width * sizeof(float));
    f->anchor = reallocarray(NULL, rows, SET_ANCHORS * sizeof(float));
    f->log_sd = reallocarray(NULL, rows, sizeof(float));
    enum dsgd_err rc = DSGD_OK;
    if (!f->worker || !f->node_in || !f->anchor || !f->log_sd)
        rc = error_set(err, DSGD_E_NOMEM, "%s: no memory for its features",
                       t->name);
    if (rc == DSGD_OK)
        rc = set_filter_create(t->n, t->n_nodes, t->node, config->n_telemetry,
                               config->flags, &filter, err);
    if (rc == DSGD_OK)
        run_filter(filter, t, width, f);
    else
        fit_features_free(f);
    set_filter_free(filter);
    return rc;
}

enum dsgd_err fit_batch_create(const struct set_config *config,
                               const struct set_size *max,
                               struct fit_batch **out, struct dsgd_error *err)
{
    struct fit_batch *b = calloc(1, sizeof *b);
    size_t rows = max->steps * max->workers;

    *out = NULL;
    if (!b)
        return error_set(err, DSGD_E_NOMEM, "no memory for a batch");
    b->node_features = set_node_features(config->n_telemetry, config->flags);
    b->node = calloc(max->workers, sizeof *b->node);
    b->cluster = calloc(max->nodes, sizeof *b->cluster);
    b->worker = calloc(rows, SET_WORKER_FEATURES * sizeof(float));
    b->node_in =
        calloc(max->steps * max->nodes, b->node_features * sizeof(float));
    b->anchor = calloc(rows, SET_ANCHORS * sizeof(float));
    b->log_sd = calloc(rows, sizeof(float));
    b->y = calloc(rows, sizeof(float));
    b->status = malloc(rows);
    if (!b->node || !b->cluster || !b->worker || !b->node_in || !b->anchor ||
        !b->log_sd || !b->y || !b->status) {
        fit_batch_free(b);
        return error_set(err, DSGD_E_NOMEM,
                         "no memory for batches of %zu workers", max->workers);
    }
    struct set_input *in = &b->batch.in;
    in->node = b->node;
    in->cluster = b->cluster;
    in->worker = b->worker;
    in->node_in = b->node_in;
    in->anchor = b->anchor;
    in->log_sd = b->log_sd;
    b->batch.y = b->y;
    b->batch.status = b->status;
    *out = b;
    return DSGD_OK;
}

void fit_batch_free(struct fit_batch *b)
{
    if (!b)
        return;
    free(b->node);
    free(b->cluster);
    free(b->worker);
    free(b->node_in);
    free(b->anchor);
    free(b->log_sd);
    free(b->y);
    free(b->status);
    free(b);
}

/* Copy `length` rows of `bytes` to every stride-th. */
static void rows(void *out, size_t stride, const void *in, size_t bytes,
                 size_t length)
{
    for (size_t t = 0; t < length; t++)
        memcpy((char *)out + t * stride, (const char *)in + t * bytes, bytes);
}

/* The window's columns from worker w and node i on; n: the whole batch. */
static void pack_window(struct fit_batch *b, const struct set_size *n,
                        const struct fit_window *window, size_t w, size_t i)
{
    const struct fit_trace *t = window->trace;
    const struct fit_features *f = window->features;
    size_t at = window->from * t->n;
    const size_t wide = SET_WORKER_FEATURES, anchors = SET_ANCHORS,
                 width = b->node_features, size = sizeof(float);

    rows(b->worker + w * wide, n->workers * wide * size, f->worker + at * wide,
         t->n * wide * size, n->steps);
    rows(b->anchor + w * anchors, n->workers * anchors * size,
         f->anchor + at * anchors, t->n * anchors * size, n->steps);
    rows(b->log_sd + w, n->workers * size, f->log_sd + at, t->n * size,
         n->steps);
    rows(b->y + w, n->workers * size, t->target + at, t->n * size, n->steps);
    rows(b->status + w, n->workers, t->target_status + at, t->n, n->steps);
    rows(b->node_in + i * width, n->nodes * width * size,
         f->node_in + window->from * t->n_nodes * width,
         t->n_nodes * width * size, n->steps);
    for (size_t j = 0; j < t->n; j++)
        b->node[w + j] = (uint32_t)i + t->node[j];
}

const struct set_batch *fit_batch_pack(struct fit_batch *b,
                                       const struct fit_window *window,
                                       size_t count, size_t length)
{
    struct set_size *n = &b->batch.in.n;
    size_t w = 0, i = 0;

    *n = (struct set_size){.steps = length, .clusters = count};
    for (size_t c = 0; c < count; c++) {
        n->workers += window[c].trace->n;
        n->nodes += window[c].trace->n_nodes;
    }
    for (size_t c = 0; c < count; c++) {
        pack_window(b, n, &window[c], w, i);
        for (size_t k = 0; k < window[c].trace->n_nodes; k++)
            b->cluster[i + k] = (uint32_t)c;
        w += window[c].trace->n;
        i += window[c].trace->n_nodes;
    }
    return &b->batch;
}
