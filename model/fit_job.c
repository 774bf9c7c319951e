#include "fit_job.h"

#include <errno.h>
#include <cblas.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dmm.h"
#include "error.h"
#include "fit_dmm.h"
#include "fit_pool.h"
#include "fit_record.h"
#include "fit_run.h"
#include "fit_set.h"
#include "scenario.h"
#include "set_model.h"
#include "telemetry_names.h"
#include "text.h"
#include "timing_model.h"

enum { DEFAULT_STEPS = 3000, EVERY_SET = 100, EVERY_DMM = 50 };
#define DEFAULT_LR .002

static const char *const features[] = {MODEL_FEATURES};

struct job {
    const struct fit_options *opt;
    FILE *out;
    const volatile sig_atomic_t *stop;
    struct fit_pool pool;
    const char **names; /* of the pool's features, when the model has others */
    struct timing_model *model;
    struct fit_learner learner;
    struct progress_line progress;
    char *checkpoint;
};

/* Only a regular file is looked into: what is read of a pipe is gone. */
static bool is_record(const char *path)
{
    char magic[16] = "";
    struct stat st;
    bool file = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    FILE *f = file ? fopen(path, "rb") : NULL;
    bool record = f && fread(magic, 1, sizeof magic, f) == sizeof magic &&
                  memcmp(magic, "SQLite format 3", sizeof magic) == 0;

    if (f)
        fclose(f);
    return record;
}

static enum dsgd_err add_csv(struct job *j, const char *path,
                             struct dsgd_error *err)
{
    struct dsgd_error warning;
    struct trace *t;
    enum dsgd_err rc =
        trace_read(path, j->pool.feature, j->pool.features, &t, &warning, err);

    if (rc == DSGD_OK && warning.text[0])
        fprintf(stderr, "dsgd-fit: warning: %s\n", warning.text);
    if (rc == DSGD_OK)
        rc = fit_pool_add(&j->pool, t, err);
    trace_free(t);
    return rc;
}

/* A dmm's synthetic cluster is a trace like any other. */
static enum dsgd_err add_scenario(struct job *j, struct dsgd_error *err)
{
    struct scenario s;
    struct trace *t = NULL;
    enum dsgd_err rc = scenario_parse(j->opt->scenario, &s, err);

    if (rc == DSGD_OK)
        rc = scenario_make(&s, SCENARIO_FEATURES, &t, err);
    if (rc == DSGD_OK)
        rc = fit_pool_add(&j->pool, t, err);
    trace_free(t);
    return rc;
}

static enum dsgd_err read_data(struct job *j, struct dsgd_error *err)
{
    const struct fit_options *opt = j->opt;
    enum dsgd_err rc = DSGD_OK;

    for (size_t i = 0; rc == DSGD_OK && i < opt->files; i++)
        rc = is_record(opt->file[i])
                 ? fit_record_add(&j->pool, opt->file[i], err)
                 : add_csv(j, opt->file[i], err);
    if (rc == DSGD_OK && opt->kind == FIT_DMM && opt->scenario)
        rc = add_scenario(j, err);
    return rc;
}

static enum dsgd_err warm_start(struct job *j, struct dsgd_error *err)
{
    static const char *const kinds[] = {[FIT_SET] = "set", [FIT_DMM] = "dmm"};
    const char *path = j->opt->warm_start, *want = kinds[j->opt->kind];
    enum dsgd_err rc = timing_model_load(path, &j->model, err);

    if (rc != DSGD_OK)
        return rc;
    if (strcmp(timing_model_kind(j->model), want) != 0)
        return error_set(
            err, DSGD_E_USAGE, "--warm-start: %s is of kind %s: give --kind %s",
            path, timing_model_kind(j->model), timing_model_kind(j->model));
    size_t n = timing_model_features(j->model);
    j->names = calloc(n + 1, sizeof *j->names);
    if (!j->names)
        return error_set(err, DSGD_E_NOMEM, "%s: no memory", path);
    for (size_t i = 0; i < n; i++)
        j->names[i] = timing_model_feature(j->model, i);
    fit_pool_init(&j->pool, n, j->names);
    return DSGD_OK;
}

static enum dsgd_err new_model(struct job *j, struct dsgd_error *err)
{
    const struct set_config config = {.n_telemetry = N_FEATURES,
                                      .flags = SET_FLAGS_EACH,
                                      .hidden = 32,
                                      .head = 48};
    enum dsgd_err rc;

    if (j->opt->kind == FIT_DMM)
        return dmm_model_create(j->pool.trace[0].n, &j->model, err);
    rc = set_model_create(&config, features, &j->model, err);
    if (rc == DSGD_OK)
        set_net_init(set_model_net(j->model), j->opt->seed);
    return rc;
}

static enum dsgd_err make_learner(struct job *j, struct dsgd_error *err)
{
    const struct fit_options *opt = j->opt;
    const struct fit_set_plan set = {.seed = opt->seed,
                                     .synth = opt->synth,
                                     .scenario = opt->scenario,
                                     .validate = opt->validate};
    const struct fit_dmm_plan dmm = {.seed = opt->seed,
                                     .validate = opt->validate,
                                     .warm = opt->warm_start != NULL};

    return opt->kind == FIT_DMM
               ? fit_dmm_create(j->model, &j->pool, &dmm, &j->learner, err)
               : fit_set_create(j->model, &j->pool, &set, &j->learner, err);
}

/* What would go wrong only after the training. */
static enum dsgd_err check_output(const char *path, struct dsgd_error *err)
{
    struct stat st;

    if (path[strlen(path) - 1] == '/' ||
        (stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
        return error_set(err, DSGD_E_USAGE,
                         "--output: %.300s is a folder: name a file in it",
                         path);
    return DSGD_OK;
}

static enum dsgd_err prepare(struct job *j, struct dsgd_error *err)
{
    enum dsgd_err rc = DSGD_OK;

    fit_pool_init(&j->pool, N_FEATURES, features);
    if (j->opt->warm_start)
        rc = warm_start(j, err);
    if (rc == DSGD_OK)
        rc = read_data(j, err);
    if (rc == DSGD_OK && j->opt->kind == FIT_DMM && j->pool.count == 0)
        rc = error_set(err, DSGD_E_USAGE,
                       "a dmm is for one cluster: name its traces or records");
    if (rc == DSGD_OK && !j->model)
        rc = new_model(j, err);
    if (rc == DSGD_OK)
        rc = make_learner(j, err);
    return rc;
}

static void format_loss(char *text, size_t size, double loss)
{
    if (isfinite(loss))
        snprintf(text, size, "%.4f", loss);
    else
        snprintf(text, size, "-");
}

static void status_text(char *text, size_t size, const struct fit_status *s)
{
    char eta[32], train[32], held[32], best[32];

    progress_line_time(eta, sizeof eta, s->eta_s);
    format_loss(train, sizeof train, s->train_loss);
    format_loss(held, sizeof held, s->loss);
    format_loss(best, sizeof best, s->best_loss);
    snprintf(text, size,
             "step %" PRIu64 "  loss %s  held-out %s  best %s  ETA %s", s->step,
             train, held, best, eta);
}

static bool report(void *context, const struct fit_status *status)
{
    struct job *j = context;
    char text[256];

    if (progress_line_due(&j->progress, status->elapsed_s, status->validated)) {
        status_text(text, sizeof text, status);
        progress_line_show(&j->progress, status->elapsed_s, status->done, text);
    }
    return !*j->stop;
}

static struct fit_plan make_plan(struct job *j)
{
    const struct fit_options *opt = j->opt;
    bool dmm = opt->kind == FIT_DMM, timed = opt->minutes > 0;

    return (struct fit_plan){.seed = opt->seed,
                             .steps = timed        ? 0
                                      : opt->steps ? opt->steps
                                                   : DEFAULT_STEPS,
                             .seconds = 60 * opt->minutes,
                             .lr = opt->lr > 0 ? opt->lr : DEFAULT_LR,
                             .floor = dmm ? .1 : .02,
                             .warmup = 50,
                             .clip = dmm ? 5 : 1,
                             .every = dmm ? EVERY_DMM : EVERY_SET,
                             .patience = opt->patience,
                             .watch_from = dmm && !opt->warm_start ? .3 : 0,
                             .checkpoint = j->checkpoint,
                             .resume = opt->resume &&
                                       access(j->checkpoint, F_OK) == 0,
                             .report = report,
                             .context = j};
}

/* What it was trained on, in words. */
static void describe_sources(const struct job *j, char *text, size_t size)
{
    const struct fit_options *opt = j->opt;
    size_t steps = 0, used = 0;

    for (size_t i = 0; i < j->pool.count; i++)
        steps += j->pool.trace[i].steps;
    if (j->pool.count)
        used = (size_t)snprintf(text, size, "%zu traces of %zu steps%s",
                                j->pool.count, steps, opt->synth ? ", " : "");
    if (opt->synth && used < size)
        snprintf(text + used, size - used, "synthetic %s",
                 opt->scenario ? opt->scenario : "random clusters");
}

static enum dsgd_err save(struct job *j, const struct fit_facts *f,
                          struct dsgd_error *err)
{
    static const char *const keys[] = {
        "program",   "trained_on",    "seed",       "steps",
        "best_step", "held_out_loss", "warm_start", "unit"};
    enum { N_KEYS = sizeof keys / sizeof keys[0], TEXT_SIZE = 512 };
    char text[N_KEYS][TEXT_SIZE] = {"dsgd-fit " PACKAGE_VERSION};
    enum dsgd_err rc = DSGD_OK;

    describe_sources(j, text[1], TEXT_SIZE);
    snprintf(text[2], TEXT_SIZE, "%" PRIu64, f->seed);
    snprintf(text[3], TEXT_SIZE, "%" PRIu64, f->steps);
    snprintf(text[4], TEXT_SIZE, "%" PRIu64, f->best_step);
    snprintf(text[5], TEXT_SIZE, "%.5f", f->best_loss);
    snprintf(text[6], TEXT_SIZE, "%s",
             j->opt->warm_start ? j->opt->warm_start : "");
    text_make_printable(text[6]); /* a model file holds UTF-8 alone */
    snprintf(text[7], TEXT_SIZE, "log duration, any unit");
    for (size_t i = 0; rc == DSGD_OK && i < N_KEYS; i++)
        rc = timing_model_set_meta(j->model, keys[i],
                                   text[i][0] ? text[i] : NULL, err);
    return rc == DSGD_OK ? timing_model_save(j->model, j->opt->output, err)
                         : rc;
}

/* The model, then the checkpoint is not needed any more; an error says that it
 * is. */
static enum dsgd_err finish(struct job *j, const struct fit_facts *facts,
                            struct dsgd_error *err)
{
    struct dsgd_error why = {""};
    enum dsgd_err rc = save(j, facts, &why);

    if (rc != DSGD_OK)
        return error_set(err, rc,
                         "%.300s; nothing is lost: --resume and the same "
                         "options write it from %.100s",
                         why.text, j->checkpoint);
    unlink(j->checkpoint);
    return DSGD_OK;
}

static enum dsgd_err train(struct job *j, struct dsgd_error *err)
{
    struct fit_plan plan = make_plan(j);
    struct fit_result result;
    enum dsgd_err rc = fit_run(&j->learner, &plan, &result, err);

    progress_line_clear(&j->progress);
    if (rc != DSGD_OK)
        return rc;
    if (result.stopped)
        return error_set(err, DSGD_E_FAIL,
                         "stopped at step %" PRIu64 ": go on with --resume and "
                         "the same options, which reads %s",
                         result.facts.steps, j->checkpoint);
    rc = finish(j, &result.facts, err);
    if (rc == DSGD_OK && j->progress.mode != PROGRESS_NONE)
        fprintf(j->out,
                "%s: held-out loss %.4f nat a worker and step after %" PRIu64
                " of %" PRIu64 " steps%s\n",
                j->opt->output, result.facts.best_loss, result.facts.best_step,
                result.facts.steps,
                result.early ? ", no longer improving" : "");
    return rc;
}

static enum dsgd_err score(struct job *j, struct dsgd_error *err)
{
    const char *name;
    double loss, sum = 0;
    size_t groups = 1;

    if (j->opt->kind == FIT_SET) {
        groups = fit_set_score(j->learner.self, SIZE_MAX, NULL, NULL);
        for (size_t i = 0; i < groups; i++) {
            fit_set_score(j->learner.self, i, &name, &loss);
            fprintf(j->out, "%-10s %8.4f\n", name, loss);
            sum += loss;
        }
    } else {
        sum = j->learner.validate(j->learner.self);
    }
    fprintf(j->out, "%-10s %8.4f\n", "all", sum / (double)groups);
    if (fflush(j->out) != 0 || ferror(j->out))
        return error_set(err, DSGD_E_IO, "the scores: %s", strerror(errno));
    return DSGD_OK;
}

enum dsgd_err fit_job(const struct fit_options *opt, FILE *out,
                      const volatile sig_atomic_t *stop, struct dsgd_error *err)
{
    struct job j = {.opt = opt, .out = out, .stop = stop};
    enum dsgd_err rc = DSGD_OK;

    /* The same bits whatever the machine has; the products are small. */
    openblas_set_num_threads(1);
    progress_line_init(&j.progress, out, opt->progress, 10);
    if (opt->output &&
        asprintf(&j.checkpoint, "%s.checkpoint", opt->output) < 0) {
        j.checkpoint = NULL;
        rc = error_set(err, DSGD_E_NOMEM, "no memory");
    }
    if (rc == DSGD_OK && opt->output && !opt->score)
        rc = check_output(opt->output, err);
    if (rc == DSGD_OK)
        rc = prepare(&j, err);
    if (rc == DSGD_OK)
        rc = opt->score ? score(&j, err) : train(&j, err);
    if (j.learner.free)
        j.learner.free(j.learner.self);
    fit_pool_clear(&j.pool);
    timing_model_free(j.model);
    free(j.names);
    free(j.checkpoint);
    return rc;
}
