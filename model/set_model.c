#include "set_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "predictive_impute.h"
#include "set_pass.h"
#include "timing_model.h"

struct set_model {
    struct timing_model base;
    struct set_net *net;
};

struct set_timing {
    struct timing base;
    const struct set_net *net;
    struct set_filter *filter;
    struct set_pass *pass;
    struct set_input in;
    uint32_t *node, *cluster; /* [n], [n_nodes] */
    float *worker, *node_in, *anchor, *log_sd;
    struct predictive out;
    double *evidence;  /* [predictive_impute_work] */
    float *mean, *var; /* [n] of the censored */
    bool predicted;    /* since the last observation */
    bool truncate;     /* set_timing_truncate */
};

static const char *const flags_name[] = {
    [SET_FLAGS_ONE] = "one", [SET_FLAGS_EACH] = "each"};

static const struct set_model *as_set(const struct timing_model *m)
{
    return (const struct set_model *)(const void *)m;
}

static struct set_timing *as_state(const struct timing *t)
{
    return (struct set_timing *)(uintptr_t)t;
}

static void set_free(struct timing_model *m)
{
    set_net_free(as_set(m)->net);
    timing_model_release(m);
    free(m);
}

static enum dsgd_err make_model(const struct set_config *config,
                                struct set_model **out, struct dsgd_error *err)
{
    struct set_model *m = calloc(1, sizeof *m);

    *out = NULL;
    if (!m)
        return error_set(err, DSGD_E_NOMEM, "no memory for a set model");
    m->base.kind = &timing_kind_set;
    enum dsgd_err rc = set_net_create(config, &m->net, err);
    if (rc == DSGD_OK)
        rc = timing_model_set_meta(&m->base, "flags", flags_name[config->flags],
                                   err);
    if (rc != DSGD_OK) {
        set_free(&m->base);
        return rc;
    }
    *out = m;
    return DSGD_OK;
}

enum dsgd_err set_model_create(const struct set_config *config,
                               const char *const *feature,
                               struct timing_model **out,
                               struct dsgd_error *err)
{
    struct set_model *m;
    enum dsgd_err rc = make_model(config, &m, err);

    *out = NULL;
    if (rc != DSGD_OK)
        return rc;
    rc = feature
             ? timing_model_set_features(&m->base, config->n_telemetry, feature,
                                         err)
             : timing_model_name_features(&m->base, config->n_telemetry, err);
    if (rc != DSGD_OK)
        set_free(&m->base);
    else
        *out = &m->base;
    return rc;
}

struct set_net *set_model_net(struct timing_model *m)
{
    return m->kind == &timing_kind_set ? as_set(m)->net : NULL;
}

static enum dsgd_err check_constant(const char *path,
                                    const struct safetensors *s,
                                    const char *key, long want,
                                    struct dsgd_error *err)
{
    const char *text = safetensors_meta(s, key);

    if (text && strtol(text, NULL, 10) != want)
        return error_set(err, DSGD_E_FORMAT,
                         "%s: made with %s = %s; this program has %ld", path,
                         key, text, want);
    return DSGD_OK;
}

/* Sizes follow from three of the shapes. */
static enum dsgd_err read_config(const char *path, const struct safetensors *s,
                                 struct set_config *c, struct dsgd_error *err)
{
    const struct safetensor *hh = safetensors_find(s, "gw.weight_hh_l0");
    const struct safetensor *ih = safetensors_find(s, "gn.weight_ih_l0");
    const struct safetensor *w1 = safetensors_find(s, "w1.weight");
    const char *flags = safetensors_meta(s, "flags");

    if (!hh || !ih || !w1 || hh->n_dims != 2 || ih->n_dims != 2 ||
        w1->n_dims != 2)
        return error_set(err, DSGD_E_FORMAT,
                         "%s: not a set model: gw.weight_hh_l0, "
                         "gn.weight_ih_l0 and w1.weight must be matrices",
                         path);
    if (flags && strcmp(flags, "one") != 0 && strcmp(flags, "each") != 0)
        return error_set(err, DSGD_E_FORMAT,
                         "%s: flags \"%s\" is none of one|each", path, flags);
    c->flags =
        flags && strcmp(flags, "each") == 0 ? SET_FLAGS_EACH : SET_FLAGS_ONE;
    c->hidden = hh->shape[1];
    c->head = w1->shape[0];
    size_t per = c->flags == SET_FLAGS_EACH ? 3 : 2;
    size_t rest = c->flags == SET_FLAGS_EACH ? 2 : 3;
    if (c->hidden > SET_MAX_HIDDEN || ih->shape[1] < 2 * c->hidden + rest ||
        (ih->shape[1] - 2 * c->hidden - rest) % per != 0)
        return error_set(err, DSGD_E_FORMAT,
                         "%s: gn.weight_ih_l0 has %zu columns, which fits no "
                         "number of features for hidden size %zu",
                         path, ih->shape[1], c->hidden);
    c->n_telemetry = (ih->shape[1] - 2 * c->hidden - rest) / per;
    enum dsgd_err rc = check_constant(path, s, "G", PRED_G, err);
    if (rc == DSGD_OK)
        rc = check_constant(path, s, "M", PRED_M, err);
    return rc == DSGD_OK ? check_constant(path, s, "K", PRED_K, err) : rc;
}

static enum dsgd_err read_param(const char *path, const struct safetensors *s,
                                const struct set_param *p, float *to,
                                struct dsgd_error *err)
{
    const struct safetensor *t = safetensors_find(s, p->name);

    if (!t)
        return error_set(err, DSGD_E_FORMAT, "%s: no tensor \"%s\"", path,
                         p->name);
    if (t->n_dims != p->n_dims || t->n != p->n || t->shape[0] != p->shape[0])
        return error_set(err, DSGD_E_FORMAT,
                         "%s: tensor \"%s\" has shape [%zu, %zu]; the others "
                         "ask for [%zu, %zu]",
                         path, p->name, t->shape[0],
                         t->n_dims > 1 ? t->shape[1] : 0, p->shape[0],
                         p->shape[1]);
    for (size_t i = 0; i < t->n; i++) {
        if (!isfinite(t->data[i]))
            return error_set(err, DSGD_E_FORMAT,
                             "%s: tensor \"%s\" holds a value that is not "
                             "finite",
                             path, p->name);
    }
    memcpy(to, t->data, t->n * sizeof *to);
    return DSGD_OK;
}

static enum dsgd_err set_load(const char *path, const struct safetensors *s,
                              struct timing_model **out, struct dsgd_error *err)
{
    struct set_config config;
    struct set_model *m;
    struct dsgd_error why = {""};
    enum dsgd_err rc = read_config(path, s, &config, err);

    if (rc != DSGD_OK)
        return rc;
    rc = make_model(&config, &m, &why);
    if (rc != DSGD_OK)
        return error_set(err, rc == DSGD_E_RANGE ? DSGD_E_FORMAT : rc, "%s: %s",
                         path, why.text);
    for (size_t id = 0; rc == DSGD_OK && id < SET_PARAMS; id++)
        rc = read_param(path, s, &m->net->param[id],
                        m->net->w + m->net->param[id].offset, err);
    if (rc == DSGD_OK)
        rc = timing_model_read_meta(&m->base, path, s, config.n_telemetry, err);
    if (rc != DSGD_OK)
        set_free(&m->base);
    else
        *out = &m->base;
    return rc;
}

static enum dsgd_err set_save(const struct timing_model *m, const char *path,
                              const struct safetensors_meta *meta,
                              size_t n_meta, struct dsgd_error *err)
{
    const struct set_net *net = as_set(m)->net;
    struct safetensor t[SET_PARAMS];

    for (size_t id = 0; id < SET_PARAMS; id++) {
        const struct set_param *p = &net->param[id];
        t[id] = (struct safetensor){.name = p->name,
                                    .n_dims = p->n_dims,
                                    .shape = {p->shape[0], p->shape[1]},
                                    .n = p->n,
                                    .data = set_at(net, net->w, id)};
    }
    return safetensors_save(path, t, SET_PARAMS, meta, n_meta, err);
}

static void set_free_state(struct timing *base)
{
    struct set_timing *t = as_state(base);

    set_filter_free(t->filter);
    set_pass_free(t->pass);
    free(t->node);
    free(t->cluster);
    free(t->worker);
    free(t->node_in);
    free(t->anchor);
    free(t->log_sd);
    free(t->evidence);
    free(t->mean);
    free(t->var);
    free(t);
}

static bool allocate_inputs(struct set_timing *t, const uint32_t *node)
{
    size_t n = t->base.n, N = t->base.n_nodes;

    t->node = calloc(n, sizeof *t->node);
    t->cluster = calloc(N, sizeof *t->cluster);
    t->worker = calloc(n, SET_WORKER_FEATURES * sizeof *t->worker);
    t->node_in = calloc(N, t->net->width.node_in * sizeof *t->node_in);
    t->anchor = calloc(n, SET_ANCHORS * sizeof *t->anchor);
    t->log_sd = calloc(n, sizeof *t->log_sd);
    t->evidence = calloc(predictive_impute_work(N), sizeof *t->evidence);
    t->mean = calloc(n, sizeof *t->mean);
    t->var = calloc(n, sizeof *t->var);
    if (!t->node || !t->cluster || !t->worker || !t->node_in || !t->anchor ||
        !t->log_sd || !t->evidence || !t->mean || !t->var)
        return false;
    memcpy(t->node, node, n * sizeof *node);
    t->in = (struct set_input){.n = {1, n, N, 1},
                               .node = t->node,
                               .cluster = t->cluster,
                               .worker = t->worker,
                               .node_in = t->node_in,
                               .anchor = t->anchor,
                               .log_sd = t->log_sd};
    return true;
}

static uint64_t fingerprint(const struct set_net *net, size_t n,
                            const uint32_t *node)
{
    uint64_t h = timing_hash(0, net->w, net->n * sizeof *net->w);

    return timing_hash(h, node, n * sizeof *node);
}

static enum dsgd_err set_create(const struct timing_model *m, size_t n,
                                size_t n_nodes, const uint32_t *node,
                                struct timing **out, struct dsgd_error *err)
{
    const struct set_net *net = as_set(m)->net;
    struct set_timing *t = calloc(1, sizeof *t);

    if (!t)
        return error_set(err, DSGD_E_NOMEM, "no memory for %zu workers", n);
    t->base = (struct timing){m, n, n_nodes, fingerprint(net, n, node)};
    t->net = net;
    enum dsgd_err rc = DSGD_OK;
    if (!allocate_inputs(t, node))
        rc = error_set(err, DSGD_E_NOMEM, "no memory for %zu workers", n);
    if (rc == DSGD_OK)
        rc = set_filter_create(n, n_nodes, node, net->config.n_telemetry,
                               net->config.flags, &t->filter, err);
    if (rc == DSGD_OK)
        rc = set_pass_create(&net->config, &t->in.n, false, &t->pass, err);
    if (rc != DSGD_OK) {
        set_free_state(&t->base);
        return rc;
    }
    *out = &t->base;
    return DSGD_OK;
}

static const struct predictive *set_predict(struct timing *base,
                                            const float *telemetry)
{
    struct set_timing *t = as_state(base);

    set_filter_features(t->filter, telemetry, t->worker, t->node_in, t->anchor,
                        t->log_sd);
    const struct set_output *o = set_pass_forward(t->pass, t->net, &t->in);
    t->predicted = true;
    t->out = (struct predictive){.n = base->n,
                                 .n_nodes = base->n_nodes,
                                 .node = t->node,
                                 .mu = o->mu,
                                 .log_sd = o->log_sd,
                                 .log_w = o->log_w,
                                 .node_shift = o->node_shift,
                                 .node_log_p = o->node_log_p,
                                 .node_tail = o->node_tail,
                                 .shift = o->shift,
                                 .log_p = o->log_p,
                                 .tail = o->tail,
                                 .scale = o->scale};
    return set_filter_steps(t->filter) ? &t->out : NULL;
}

void set_timing_truncate(struct timing *t)
{
    as_state(t)->truncate = true;
}

static bool any_censored(size_t n, const uint8_t *status)
{
    return memchr(status, TIMING_CENSORED, n) != NULL;
}

/* The recurrence takes part in every step, also in one that nobody asked for a
 * prediction of. */
static void set_observe(struct timing *base, const float *log_s,
                        const uint8_t *status)
{
    struct set_timing *t = as_state(base);

    struct set_imputed imputed = {t->mean, t->var}, *some = NULL;

    if (!t->predicted)
        set_predict(base, NULL);
    if (!t->truncate && set_filter_steps(t->filter) &&
        any_censored(base->n, status)) {
        predictive_impute(&t->out, log_s, status, t->evidence, t->mean, t->var);
        some = &imputed;
    }
    set_pass_carry(t->pass, &t->in.n);
    set_filter_update(t->filter, log_s, status, some);
    t->predicted = false;
}

/* Floats of the recurrent state. */
static size_t recurrent(const struct set_timing *t, size_t *worker,
                        size_t *node, size_t *cluster)
{
    size_t h = t->net->config.hidden;

    *worker = t->base.n * h;
    *node = t->base.n_nodes * h;
    *cluster = h;
    return *worker + *node + *cluster;
}

static size_t set_state_bytes(const struct timing *base)
{
    struct set_timing *t = as_state(base);
    size_t doubles, w, n, c;

    set_filter_state(t->filter, &doubles);
    return doubles * sizeof(double) + recurrent(t, &w, &n, &c) * sizeof(float);
}

/* A prediction that was not yet followed by its observation is not part of the
 * state: the recurrence moves on with the observation. */
static void set_state_save(const struct timing *base, void *out)
{
    struct set_timing *t = as_state(base);
    struct set_state h = set_pass_state(t->pass);
    size_t doubles, w, n, c;
    const double *filter = set_filter_state(t->filter, &doubles);
    char *at = out;

    recurrent(t, &w, &n, &c);
    memcpy(at, filter, doubles * sizeof *filter);
    at += doubles * sizeof *filter;
    memcpy(at, h.worker, w * sizeof(float));
    memcpy(at + w * sizeof(float), h.node, n * sizeof(float));
    memcpy(at + (w + n) * sizeof(float), h.cluster, c * sizeof(float));
}

static bool all_finite(const char *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float x;
        memcpy(&x, in + i * sizeof x, sizeof x);
        if (!isfinite(x))
            return false;
    }
    return true;
}

static enum dsgd_err set_state_load(struct timing *base, const void *in,
                                    struct dsgd_error *err)
{
    struct set_timing *t = as_state(base);
    struct set_state h = set_pass_state(t->pass);
    size_t doubles, w, n, c, total = recurrent(t, &w, &n, &c);
    double *filter = set_filter_state(t->filter, &doubles);
    const char *at = in, *state = at + doubles * sizeof *filter;

    if (!all_finite(state, total) || !set_filter_valid(t->filter, at))
        return error_set(err, DSGD_E_FORMAT,
                         "timing state: values out of range: damaged");
    memcpy(filter, at, doubles * sizeof *filter);
    memcpy(h.worker, state, w * sizeof(float));
    memcpy(h.node, state + w * sizeof(float), n * sizeof(float));
    memcpy(h.cluster, state + (w + n) * sizeof(float), c * sizeof(float));
    t->predicted = false;
    return DSGD_OK;
}

const struct timing_kind timing_kind_set = {
    .name = "set",
    .load = set_load,
    .save = set_save,
    .free = set_free,
    .create = set_create,
    .free_state = set_free_state,
    .predict = set_predict,
    .observe = set_observe,
    .state_bytes = set_state_bytes,
    .state_save = set_state_save,
    .state_load = set_state_load,
};
