#include "fit_set.h"

#include <math.h>
#include <stdlib.h>

#include "error.h"
#include "fit_window.h"
#include "rng.h"
#include "scenario.h"
#include "set_model.h"
#include "set_train.h"
#include "timing.h"

enum {
    RING = 64,         /* synthetic traces at a time */
    FRESH = 2,         /* replaced at each step */
    SYNTH_STEPS = 170, /* of a synthetic trace */
    CHECK_STEPS = 120, /* of one to validate on, the first 20 without loss */
    CHECK_BURN_IN = 20,
    CHECK_ROUNDS = 3, /* of each named scenario */
    CHECK_OF_ONE = 8, /* of the one that is given */
    CHECK_SEED = 9999 /* the same whatever the training's seed */
};
/* Streams of random numbers. */
enum { STREAM_SYNTH = 1, STREAM_CHECK, STREAM_BATCH };

struct fit_set {
    struct timing_model *model;
    struct set_net *net; /* its own */
    struct fit_set_plan plan;
    const struct fit_pool *files;
    struct fit_features *file_features; /* [files->count] */
    size_t *file_from;                  /* [files->count] first step held out */
    struct fit_pool ring[RING];
    struct fit_features ring_features[RING];
    bool lab3;     /* a model with the prototype's telemetry */
    uint64_t made; /* synthetic traces so far */
    struct fit_pool check;
    struct fit_features *check_features;
    /* Batches to train on, and single long windows to validate. */
    struct fit_batch *batch, *check_batch;
    struct set_train *train, *check_train;
    enum dsgd_err rc; /* of the last synthetic traces, and why */
    struct dsgd_error why;
};

static void free_set(void *self)
{
    struct fit_set *s = self;

    if (!s)
        return;
    for (size_t i = 0; s->file_features && i < s->files->count; i++)
        fit_features_free(&s->file_features[i]);
    for (size_t i = 0; s->check_features && i < s->check.count; i++)
        fit_features_free(&s->check_features[i]);
    for (size_t i = 0; i < RING; i++) {
        fit_features_free(&s->ring_features[i]);
        fit_pool_clear(&s->ring[i]);
    }
    fit_pool_clear(&s->check);
    free(s->file_features);
    free(s->file_from);
    free(s->check_features);
    fit_batch_free(s->batch);
    fit_batch_free(s->check_batch);
    set_train_free(s->train);
    set_train_free(s->check_train);
    free(s);
}

/* Synthetic trace number i into its place in the ring. */
static enum dsgd_err make_synthetic(struct fit_set *s, uint64_t i,
                                    struct dsgd_error *err)
{
    struct fit_pool *pool = &s->ring[i % RING];
    struct fit_features *features = &s->ring_features[i % RING];
    struct fit_synth synth = {.count = 1,
                              .first = i,
                              .steps = SYNTH_STEPS,
                              .seed = s->plan.seed,
                              .stream = STREAM_SYNTH,
                              .scenario = s->plan.scenario,
                              .lab3 = s->lab3};

    fit_features_free(features);
    fit_pool_clear(pool);
    enum dsgd_err rc = fit_pool_synth(pool, &synth, err);
    if (rc == DSGD_OK)
        rc = fit_features_make(pool->trace, &s->net->config, features, err);
    return rc;
}

/* At each step the ring holds the traces from FRESH * step on. */
static enum dsgd_err turn_ring(struct fit_set *s, uint64_t step,
                               struct dsgd_error *err)
{
    uint64_t first = step * FRESH;
    enum dsgd_err rc = DSGD_OK;

    if (s->made < first)
        s->made = first;
    while (rc == DSGD_OK && s->made < first + RING)
        rc = make_synthetic(s, s->made++, err);
    return rc;
}

/* A fourth of the windows start where their trace does, as a run's do. */
static size_t choose_start(struct rng *r, size_t last)
{
    return rng_uniform(r) < .25 ? 0 : (size_t)rng_below(r, last + 1);
}

static bool has_window(const struct fit_set *s, size_t file)
{
    return s->file_from[file] >= FIT_SET_WINDOW;
}

static struct fit_window choose_file(struct fit_set *s, struct rng *r)
{
    size_t i;

    do
        i = (size_t)rng_below(r, s->files->count);
    while (!has_window(s, i));
    return (struct fit_window){
        .trace = &s->files->trace[i],
        .features = &s->file_features[i],
        .from = choose_start(r, s->file_from[i] - FIT_SET_WINDOW)};
}

static struct fit_window choose_synthetic(struct fit_set *s, struct rng *r)
{
    size_t i = (size_t)rng_below(r, RING);

    return (struct fit_window){
        .trace = &s->ring[i].trace[0],
        .features = &s->ring_features[i],
        .from = choose_start(r, SYNTH_STEPS - FIT_SET_WINDOW)};
}

/* Choose the windows of a batch, as many as have room.  Returns how many. */
static size_t choose(struct fit_set *s, uint64_t step,
                     struct fit_window window[FIT_SET_BATCH])
{
    size_t count = 0, workers = 0;
    struct rng r;

    rng_seed(&r, s->plan.seed, ((uint64_t)STREAM_BATCH << 48) + step);
    for (size_t i = 0; i < FIT_SET_BATCH; i++) {
        bool file = s->files->count && (!s->plan.synth || rng_below(&r, 2));
        struct fit_window w =
            file ? choose_file(s, &r) : choose_synthetic(s, &r);
        if (count && workers + w.trace->n > FIT_SET_WORKERS)
            continue;
        workers += w.trace->n;
        window[count++] = w;
    }
    return count;
}

static double loss(void *self, uint64_t step, double done, float *grad)
{
    struct fit_set *s = self;
    struct fit_window window[FIT_SET_BATCH];

    (void)done;
    if (s->plan.synth)
        s->rc = turn_ring(s, step, &s->why);
    if (s->rc != DSGD_OK)
        return NAN;
    size_t count = choose(s, step, window);
    const struct set_batch *b =
        fit_batch_pack(s->batch, window, count, FIT_SET_WINDOW);
    return set_train_window(s->train, s->net, b, FIT_SET_BURN_IN, grad, NULL);
}

static enum dsgd_err failed(void *self, struct dsgd_error *err)
{
    const struct fit_set *s = self;

    return s->rc == DSGD_OK ? DSGD_OK
                            : error_set(err, s->rc, "%s", s->why.text);
}

static double window_loss(struct fit_set *s, const struct fit_trace *trace,
                          const struct fit_features *features, size_t from,
                          size_t length, size_t burn_in)
{
    struct fit_window window = {trace, features, from};

    return set_train_window(s->check_train, s->net,
                            fit_batch_pack(s->check_batch, &window, 1, length),
                            burn_in, NULL, NULL);
}

/* The held-out steps of a file, window by window. */
static void file_loss(struct fit_set *s, size_t i, double *sum, double *steps)
{
    const struct fit_trace *t = &s->files->trace[i];

    for (size_t at = s->file_from[i]; at < t->steps;) {
        size_t from = at > FIT_SET_BURN_IN ? at - FIT_SET_BURN_IN : 0;
        size_t length =
            t->steps - from < FIT_SET_WINDOW ? t->steps - from : FIT_SET_WINDOW;
        size_t counted = from + length - at;
        *sum += (double)counted * window_loss(s, t, &s->file_features[i], from,
                                              length, at - from);
        *steps += (double)counted;
        at = from + length;
    }
}

static double files_loss(struct fit_set *s)
{
    double sum = 0, steps = 0;

    for (size_t i = 0; i < s->files->count; i++)
        file_loss(s, i, &sum, &steps);
    return sum / steps;
}

/* Mean over the clusters of group i of `groups`, which come in turn. */
static double check_loss(struct fit_set *s, size_t i, size_t groups)
{
    double sum = 0, count = 0;

    for (; i < s->check.count; i += groups) {
        sum += window_loss(s, &s->check.trace[i], &s->check_features[i], 0,
                           CHECK_STEPS, CHECK_BURN_IN);
        count++;
    }
    return sum / count;
}

size_t fit_set_score(void *self, size_t i, const char **name, double *value)
{
    struct fit_set *s = self;
    bool one = s->files->count || s->plan.scenario;
    size_t groups = one ? 1 : scenario_names();

    if (i >= groups)
        return groups;
    *name = s->files->count    ? "files"
            : s->plan.scenario ? "synthetic"
                               : scenario_name(i);
    *value = s->files->count ? files_loss(s) : check_loss(s, i, groups);
    return groups;
}

static double validate(void *self)
{
    const char *name;
    double value, sum = 0;
    size_t count = fit_set_score(self, SIZE_MAX, NULL, NULL);

    for (size_t i = 0; i < count; i++) {
        fit_set_score(self, i, &name, &value);
        sum += value;
    }
    return sum / (double)count;
}

static enum dsgd_err prepare_files(struct fit_set *s, struct dsgd_error *err)
{
    const struct fit_pool *p = s->files;
    size_t usable = 0, known = 0;

    s->file_features = calloc(p->count + 1, sizeof *s->file_features);
    s->file_from = calloc(p->count + 1, sizeof *s->file_from);
    if (!s->file_features || !s->file_from)
        return error_set(err, DSGD_E_NOMEM, "no memory for the files");
    enum dsgd_err rc = DSGD_OK;
    for (size_t i = 0; rc == DSGD_OK && i < p->count; i++) {
        size_t steps = p->trace[i].steps;
        s->file_from[i] =
            steps - (size_t)ceil(s->plan.validate * (double)steps);
        usable += has_window(s, i);
        known += fit_trace_known(&p->trace[i], s->file_from[i]);
        rc = fit_features_make(&p->trace[i], &s->net->config,
                               &s->file_features[i], err);
    }
    if (rc == DSGD_OK && p->count && !usable)
        rc = error_set(err, DSGD_E_RANGE,
                       "too few data: %zu steps in %zu files, the longest of "
                       "which must have %d to train on besides the %g %% to "
                       "validate: give longer runs",
                       fit_pool_steps(p), p->count, FIT_SET_WINDOW,
                       100 * s->plan.validate);
    if (rc == DSGD_OK && p->count && !known)
        rc = error_set(err, DSGD_E_RANGE,
                       "%s: no run-time is known in the last %g %% of its "
                       "steps, to validate: give another run, or more",
                       p->trace[0].name, 100 * s->plan.validate);
    return rc;
}

static enum dsgd_err prepare_check(struct fit_set *s, struct dsgd_error *err)
{
    const char *one = s->plan.scenario;
    struct fit_synth synth = {.count = one ? CHECK_OF_ONE
                                           : CHECK_ROUNDS * scenario_names(),
                              .scenario = one,
                              .steps = CHECK_STEPS,
                              .seed = CHECK_SEED,
                              .stream = STREAM_CHECK,
                              .named = true,
                              .lab3 = s->lab3};
    enum dsgd_err rc = fit_pool_synth(&s->check, &synth, err);

    if (rc != DSGD_OK)
        return rc;
    s->check_features = calloc(s->check.count, sizeof *s->check_features);
    if (!s->check_features)
        return error_set(err, DSGD_E_NOMEM, "no memory to validate");
    for (size_t i = 0; rc == DSGD_OK && i < s->check.count; i++)
        rc = fit_features_make(&s->check.trace[i], &s->net->config,
                               &s->check_features[i], err);
    return rc;
}

static void widen(struct set_size *max, const struct fit_pool *pool)
{
    for (size_t i = 0; i < pool->count; i++) {
        if (max->workers < pool->trace[i].n)
            max->workers = max->nodes = pool->trace[i].n;
    }
}

static enum dsgd_err prepare_work(struct fit_set *s, struct dsgd_error *err)
{
    const struct set_config *config = &s->net->config;
    struct set_size max = {.steps = FIT_SET_WINDOW,
                           .workers = FIT_SET_WORKERS,
                           .nodes = FIT_SET_WORKERS,
                           .clusters = FIT_SET_BATCH};
    struct set_size check = {.steps = CHECK_STEPS, .clusters = 1};

    widen(&max, s->files);
    widen(&max, &s->check); /* one scenario's clusters all have its size */
    widen(&check, s->files);
    widen(&check, &s->check);
    enum dsgd_err rc = fit_batch_create(config, &max, &s->batch, err);
    if (rc == DSGD_OK)
        rc = set_train_create(config, &max, true, &s->train, err);
    if (rc == DSGD_OK)
        rc = fit_batch_create(config, &check, &s->check_batch, err);
    if (rc == DSGD_OK)
        rc = set_train_create(config, &check, false, &s->check_train, err);
    return rc;
}

static enum dsgd_err prepare(struct fit_set *s, struct dsgd_error *err)
{
    enum dsgd_err rc = prepare_files(s, err);

    if (rc == DSGD_OK && s->plan.synth)
        rc = turn_ring(s, 0, err);
    if (rc == DSGD_OK && s->files->count == 0)
        rc = prepare_check(s, err);
    if (rc == DSGD_OK)
        rc = prepare_work(s, err);
    return rc;
}

enum dsgd_err fit_set_create(struct timing_model *model,
                             const struct fit_pool *files,
                             const struct fit_set_plan *plan,
                             struct fit_learner *learner,
                             struct dsgd_error *err)
{
    struct fit_set *s = calloc(1, sizeof *s);

    if (!s)
        return error_set(err, DSGD_E_NOMEM, "no memory to train");
    s->model = model;
    s->net = set_model_net(model);
    s->plan = *plan;
    s->files = files;
    s->lab3 = s->net->config.n_telemetry == 3;
    fit_pool_init(&s->check, files->features, files->feature);
    for (size_t i = 0; i < RING; i++)
        fit_pool_init(&s->ring[i], files->features, files->feature);
    enum dsgd_err rc = prepare(s, err);
    if (rc != DSGD_OK) {
        free_set(s);
        return rc;
    }
    *learner = (struct fit_learner){.self = s,
                                    .kind = "set",
                                    .n = s->net->n,
                                    .params = s->net->w,
                                    .loss = loss,
                                    .validate = validate,
                                    .failed = failed,
                                    .free = free_set};
    return DSGD_OK;
}
