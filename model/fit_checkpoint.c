#include "fit_checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "safetensors.h"

enum { N_TENSORS = 4, N_COUNTS = 4, N_NUMBERS = 8 };

static const double largest_count = 0x1p53;
static const char *const tensor_names[N_TENSORS] = {"params", "m", "v", "best"};
static const char *const number_names[N_NUMBERS] = {/* counts first */
                                                    "step",       "adam_steps",
                                                    "best_step",  "looks",
                                                    "best_loss",  "last_loss",
                                                    "train_loss", "elapsed_s"};

void fit_state_fingerprint(struct fit_state *s, const struct fit_learner *l,
                           const struct fit_plan *plan)
{
    snprintf(s->fingerprint, sizeof s->fingerprint,
             "%s of %zu parameters, seed %" PRIu64 ", %" PRIu64
             " steps or %g s, learning rate %g, looks every %" PRIu64,
             l->kind, l->n, plan->seed, plan->steps, plan->seconds, plan->lr,
             plan->every);
}

static void arrays(const struct fit_state *s, float *at[N_TENSORS])
{
    at[0] = s->params;
    at[1] = s->adam.m;
    at[2] = s->adam.v;
    at[3] = s->best;
}

enum dsgd_err fit_checkpoint_save(const char *path, const struct fit_state *s,
                                  struct dsgd_error *err)
{
    const double number[N_NUMBERS] = {
        (double)s->step,  (double)s->adam.steps, (double)s->best_step,
        (double)s->looks, s->best_loss,          s->last_loss,
        s->train_loss,    s->elapsed_s};
    char text[N_NUMBERS][32];
    struct safetensor tensor[N_TENSORS];
    struct safetensors_meta meta[N_NUMBERS + 2];
    float *at[N_TENSORS];

    arrays(s, at);
    for (size_t i = 0; i < N_TENSORS; i++)
        tensor[i] = (struct safetensor){.name = tensor_names[i],
                                        .n_dims = 1,
                                        .shape = {s->adam.n},
                                        .n = s->adam.n,
                                        .data = at[i]};
    for (size_t i = 0; i < N_NUMBERS; i++) {
        snprintf(text[i], sizeof text[i], "%.17g", number[i]);
        meta[i] = (struct safetensors_meta){number_names[i], text[i]};
    }
    meta[N_NUMBERS] = (struct safetensors_meta){"kind", "checkpoint"};
    meta[N_NUMBERS + 1] = (struct safetensors_meta){"training", s->fingerprint};
    return safetensors_save(path, tensor, N_TENSORS, meta, N_NUMBERS + 2, err);
}

static enum dsgd_err read_numbers(const char *path,
                                  const struct safetensors *file,
                                  struct fit_state *s, struct dsgd_error *err)
{
    double number[N_NUMBERS];

    for (size_t i = 0; i < N_NUMBERS; i++) {
        const char *text = safetensors_meta(file, number_names[i]);
        char *end;
        number[i] = text ? strtod(text, &end) : 0;
        if (!text || end == text || *end ||
            (i < N_COUNTS && !(number[i] >= 0 && number[i] <= largest_count)))
            return error_set(err, DSGD_E_FORMAT,
                             "%s: not a checkpoint of dsgd-fit: its %s is "
                             "\"%.40s\"",
                             path, number_names[i], text ? text : "");
    }
    s->step = (uint64_t)number[0];
    s->adam.steps = (uint64_t)number[1];
    s->best_step = (uint64_t)number[2];
    s->looks = (uint64_t)number[3];
    s->best_loss = number[4];
    s->last_loss = number[5];
    s->train_loss = number[6];
    s->elapsed_s = number[7];
    return DSGD_OK;
}

static enum dsgd_err restore(const char *path, const struct safetensors *file,
                             struct fit_state *s, struct dsgd_error *err)
{
    const char *training = safetensors_meta(file, "training");
    float *at[N_TENSORS];

    if (!training)
        return error_set(err, DSGD_E_FORMAT, "%s: not a checkpoint of dsgd-fit",
                         path);
    if (strcmp(training, s->fingerprint) != 0)
        return error_set(err, DSGD_E_STATE,
                         "%s: a checkpoint of another training (%.150s; this "
                         "is %.150s): give the same options, or remove it",
                         path, training, s->fingerprint);
    arrays(s, at);
    for (size_t i = 0; i < N_TENSORS; i++) {
        const struct safetensor *t = safetensors_find(file, tensor_names[i]);
        if (!t || t->n != s->adam.n)
            return error_set(err, DSGD_E_FORMAT,
                             "%s: its tensor %s is missing or of another size",
                             path, tensor_names[i]);
        memcpy(at[i], t->data, t->n * sizeof *t->data);
    }
    return read_numbers(path, file, s, err);
}

enum dsgd_err fit_checkpoint_load(const char *path, struct fit_state *s,
                                  struct dsgd_error *err)
{
    struct safetensors *file;
    enum dsgd_err rc = safetensors_load(path, &file, err);

    if (rc == DSGD_OK)
        rc = restore(path, file, s, err);
    safetensors_free(file);
    return rc;
}
