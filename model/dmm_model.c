/* The dmm's model file, and its entry in the table of kinds. */
#include <math.h>
#include <stdlib.h>

#include "dmm_state.h"
#include "error.h"

struct dmm_model {
    struct timing_model base;
    struct dmm_net *net;
};

/* The tensors of the network, then what it is standardised by. */
enum { MEAN = DMM_TENSORS, SCALE, N_TENSORS };

static struct dmm_model *of(const struct timing_model *m)
{
    return (struct dmm_model *)(uintptr_t)m;
}

const struct dmm_net *dmm_net_of(const struct timing_model *m)
{
    return of(m)->net;
}

struct dmm_net *dmm_model_net(struct timing_model *m)
{
    return m->kind == &timing_kind_dmm ? of(m)->net : NULL;
}

static void free_model(struct timing_model *m)
{
    if (!m)
        return;
    dmm_net_free(of(m)->net);
    timing_model_release(m);
    free(m);
}

enum dsgd_err dmm_model_create(size_t n, struct timing_model **out,
                               struct dsgd_error *err)
{
    struct dmm_model *m = calloc(1, sizeof *m);

    *out = NULL;
    if (!m)
        return error_set(err, DSGD_E_NOMEM, "no memory for a dmm");
    m->base.kind = &timing_kind_dmm;
    enum dsgd_err rc = dmm_net_create(n, &m->net, err);
    if (rc != DSGD_OK) {
        free_model(&m->base);
        return rc;
    }
    *out = &m->base;
    return DSGD_OK;
}

/* The tensors of a file, pointing into net. */
static void describe(struct dmm_net *net, struct safetensor tensor[N_TENSORS])
{
    for (int i = 0; i < DMM_TENSORS; i++) {
        struct dmm_shape shape = dmm_tensor(i, net->n);
        tensor[i] = (struct safetensor){.name = shape.name,
                                        .n_dims = shape.cols ? 2 : 1,
                                        .shape = {shape.rows, shape.cols},
                                        .n = net->at[i + 1] - net->at[i],
                                        .data = net->params + net->at[i]};
    }
    tensor[MEAN] = (struct safetensor){.name = "mean",
                                       .n_dims = 1,
                                       .shape = {net->n},
                                       .n = net->n,
                                       .data = net->mean};
    tensor[SCALE] = (struct safetensor){.name = "scale",
                                        .n_dims = 1,
                                        .shape = {1},
                                        .n = 1,
                                        .data = &net->scale};
}

static enum dsgd_err save(const struct timing_model *m, const char *path,
                          const struct safetensors_meta *meta, size_t n_meta,
                          struct dsgd_error *err)
{
    struct safetensor tensor[N_TENSORS];

    describe(of(m)->net, tensor);
    return safetensors_save(path, tensor, N_TENSORS, meta, n_meta, err);
}

/* Copy a tensor of the file to where want points. */
static enum dsgd_err read_tensor(const char *path, const struct safetensors *s,
                                 const struct safetensor *want,
                                 struct dsgd_error *err)
{
    const struct safetensor *got = safetensors_find(s, want->name);
    float *to = (float *)(uintptr_t)want->data;

    if (!got)
        return error_set(err, DSGD_E_FORMAT, "%s: a dmm without its tensor %s",
                         path, want->name);
    if (got->n_dims != want->n_dims || got->shape[0] != want->shape[0] ||
        (want->n_dims == 2 && got->shape[1] != want->shape[1]))
        return error_set(err, DSGD_E_FORMAT,
                         "%s: its tensor %s has a shape that does not fit the "
                         "others",
                         path, want->name);
    for (size_t i = 0; i < got->n; i++) {
        if (!isfinite(got->data[i]))
            return error_set(err, DSGD_E_FORMAT,
                             "%s: its tensor %s has a value that is not a "
                             "number",
                             path, want->name);
        to[i] = got->data[i];
    }
    return DSGD_OK;
}

static enum dsgd_err load(const char *path, const struct safetensors *s,
                          struct timing_model **out, struct dsgd_error *err)
{
    const struct safetensor *mean = safetensors_find(s, "mean");
    struct safetensor tensor[N_TENSORS];

    *out = NULL;
    if (!mean || mean->n_dims != 1 || mean->n < 1)
        return error_set(err, DSGD_E_FORMAT,
                         "%s: a dmm without its tensor mean", path);
    enum dsgd_err rc = dmm_model_create(mean->n, out, err);
    if (rc != DSGD_OK)
        return rc;
    describe(of(*out)->net, tensor);
    for (size_t i = 0; rc == DSGD_OK && i < N_TENSORS; i++)
        rc = read_tensor(path, s, &tensor[i], err);
    if (rc == DSGD_OK && !(of(*out)->net->scale > 0))
        rc =
            error_set(err, DSGD_E_FORMAT, "%s: its scale is not above 0", path);
    if (rc == DSGD_OK)
        rc = timing_model_read_meta(*out, path, s, 0, err);
    if (rc != DSGD_OK) {
        free_model(*out);
        *out = NULL;
    }
    return rc;
}

const struct timing_kind timing_kind_dmm = {
    .name = "dmm",
    .load = load,
    .save = save,
    .free = free_model,
    .create = dmm_create,
    .free_state = dmm_free,
    .predict = dmm_predict,
    .observe = dmm_observe,
    .state_bytes = dmm_state_bytes,
    .state_save = dmm_state_save,
    .state_load = dmm_state_load,
};
