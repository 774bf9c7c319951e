/* What the kinds of timing models have in common; for those who make and fit
 * them. */
#ifndef DSGD_TIMING_MODEL_H
#define DSGD_TIMING_MODEL_H

#include "safetensors.h"
#include "timing.h"

enum { TIMING_NAME = 64 };

/* A kind's functions; see timing.h for what they do. */
struct timing_kind {
    const char *name;
    /* From a file of that kind; s is the caller's. */
    enum dsgd_err (*load)(const char *path, const struct safetensors *s,
                          struct timing_model **m, struct dsgd_error *err);
    /* The metadata that the kind writes itself go into the model by
     * timing_model_set_meta before. */
    enum dsgd_err (*save)(const struct timing_model *m, const char *path,
                          const struct safetensors_meta *meta, size_t n_meta,
                          struct dsgd_error *err);
    void (*free)(struct timing_model *m);
    enum dsgd_err (*create)(const struct timing_model *m, size_t n,
                            size_t n_nodes, const uint32_t *node,
                            struct timing **t, struct dsgd_error *err);
    void (*free_state)(struct timing *t);
    const struct predictive *(*predict)(struct timing *t,
                                        const float *telemetry);
    void (*observe)(struct timing *t, const float *log_s,
                    const uint8_t *status);
    /* The state without its header. */
    size_t (*state_bytes)(const struct timing *t);
    void (*state_save)(const struct timing *t, void *out);
    enum dsgd_err (*state_load)(struct timing *t, const void *in,
                                struct dsgd_error *err);
};

/* First member of each kind's model. */
struct timing_model {
    const struct timing_kind *kind;
    size_t n_features;
    char (*feature)[TIMING_NAME]; /* [n_features] */
    size_t n_meta;
    struct timing_meta {
        char *key, *value;
    } * meta;
};

/* First member of each kind's state. */
struct timing {
    const struct timing_model *model;
    size_t n, n_nodes;
    uint64_t fingerprint; /* of what a saved state must agree with */
};

extern const struct timing_kind timing_kind_set, timing_kind_dmm;

/* Names of the features, copied.  Errors: DSGD_E_NOMEM, DSGD_E_FORMAT (empty,
 * or longer than TIMING_NAME - 1). */
enum dsgd_err timing_model_set_features(struct timing_model *m, size_t n,
                                        const char *const *name,
                                        struct dsgd_error *err);

/* u0, u1, ... */
enum dsgd_err timing_model_name_features(struct timing_model *m, size_t n,
                                         struct dsgd_error *err);

/* The same from the metadata of a file: "features", names with commas between;
 * without, u0, u1, ...  n is how many the weights are for.  Also takes over all
 * metadata. */
enum dsgd_err timing_model_read_meta(struct timing_model *m, const char *path,
                                     const struct safetensors *s, size_t n,
                                     struct dsgd_error *err);

/* Metadata that are written with the model (training facts, units); value NULL
 * removes.  "model", "version" and "features" are written by themselves. */
enum dsgd_err timing_model_set_meta(struct timing_model *m, const char *key,
                                    const char *value, struct dsgd_error *err);

/* A hash to make fingerprints of, FNV-1a; start with seed 0. */
uint64_t timing_hash(uint64_t seed, const void *bytes, size_t n);

/* What a kind's free calls for the part that it shares. */
void timing_model_release(struct timing_model *m);

#endif
