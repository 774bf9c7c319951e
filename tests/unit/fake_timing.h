/* A timing model that always predicts the same, `made`, after one step. */
#ifndef DSGD_TESTS_FAKE_TIMING_H
#define DSGD_TESTS_FAKE_TIMING_H

#include <stdlib.h>
#include <string.h>

#include "predictive_make.h"
#include "timing_model.h"

static struct made made;

struct fake {
    struct timing t;
    uint64_t steps;
};

static enum dsgd_err fake_create(const struct timing_model *m, size_t n,
                                 size_t n_nodes, const uint32_t *node,
                                 struct timing **t, struct dsgd_error *err)
{
    struct fake *f = calloc(1, sizeof *f);
    (void)node;
    (void)err;
    f->t = (struct timing){.model = m, .n = n, .n_nodes = n_nodes};
    *t = &f->t;
    return DSGD_OK;
}

static void fake_free(struct timing *t)
{
    free(t);
}

static const struct predictive *fake_predict(struct timing *t,
                                             const float *telemetry)
{
    (void)telemetry;
    return ((struct fake *)t)->steps ? &made.p : NULL;
}

static void fake_observe(struct timing *t, const float *log_s,
                         const uint8_t *status)
{
    (void)log_s;
    (void)status;
    ((struct fake *)t)->steps++;
}

static size_t fake_bytes(const struct timing *t)
{
    (void)t;
    return sizeof(uint64_t);
}

static void fake_save(const struct timing *t, void *out)
{
    memcpy(out, &((const struct fake *)t)->steps, sizeof(uint64_t));
}

static enum dsgd_err fake_load(struct timing *t, const void *in,
                               struct dsgd_error *err)
{
    (void)err;
    memcpy(&((struct fake *)t)->steps, in, sizeof(uint64_t));
    return DSGD_OK;
}

static const struct timing_kind kind = {
    .name = "fake",
    .create = fake_create,
    .free_state = fake_free,
    .predict = fake_predict,
    .observe = fake_observe,
    .state_bytes = fake_bytes,
    .state_save = fake_save,
    .state_load = fake_load,
};
static const struct timing_model model = {.kind = &kind};

#endif
