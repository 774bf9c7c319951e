/* dsgd-replay: scores cutoff policies on traces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "replay_options.h"
#include "replay_print.h"
#include "scenario.h"
#include "text.h"

#define DEFAULT_MODEL DSGD_DATADIR "/default.safetensors"

struct replay {
    struct replay_options opt;
    struct timing_model *set, *dmm;
    const char **feature; /* telemetry that the set model reads */
    struct trace **trace;
    struct score *score;
    size_t count;
};

static enum dsgd_err load_model(struct replay *r, const char *path,
                                struct dsgd_error *err)
{
    struct timing_model *m;
    enum dsgd_err rc = timing_model_load(path, &m, err);

    if (rc != DSGD_OK)
        return rc;
    bool is_dmm = strcmp(timing_model_kind(m), "dmm") == 0;
    struct timing_model **slot = is_dmm ? &r->dmm : &r->set;
    if (*slot) {
        rc = error_set(err, DSGD_E_USAGE,
                       "--model: %.200s is a second model of kind %s", path,
                       timing_model_kind(m));
        timing_model_free(m);
        return rc;
    }
    *slot = m;
    return DSGD_OK;
}

/* The models named, else that of the environment, else the installed one. */
static enum dsgd_err load_models(struct replay *r, struct dsgd_error *err)
{
    const char *user = getenv("DSGD_MODEL");
    enum dsgd_err rc = DSGD_OK;

    for (size_t i = 0; rc == DSGD_OK && i < r->opt.n_models; i++)
        rc = load_model(r, r->opt.model[i], err);
    if (rc != DSGD_OK || r->opt.n_models)
        return rc;
    if (user && *user)
        return load_model(r, user, err);
    if (access(DEFAULT_MODEL, R_OK) == 0)
        return load_model(r, DEFAULT_MODEL, err);
    return DSGD_OK;
}

static bool has_model(const struct replay *r, enum policy_kind kind)
{
    enum policy_model need = policy_model(kind);

    return need == POLICY_NEEDS_NONE ||
           (need == POLICY_NEEDS_DMM ? r->dmm : r->set);
}

/* The policies asked for, or all of whole batches for which there is a
 * model. */
static enum dsgd_err choose(const struct replay *r, struct score_spec *spec,
                            struct dsgd_error *err)
{
    for (size_t i = 0; i < r->opt.n_kinds; i++) {
        enum policy_kind kind = r->opt.kind[i];
        if (!has_model(r, kind))
            return error_set(
                err, DSGD_E_NOMODEL,
                "--policies: %s needs a timing model; give one of kind %s "
                "with --model FILE",
                policy_name(kind),
                policy_model(kind) == POLICY_NEEDS_DMM ? "dmm" : "set");
        spec->kind[spec->n_kinds++] = kind;
    }
    for (int i = 0; !r->opt.n_kinds && i <= POLICY_DYNAMIC; i++) {
        if (has_model(r, (enum policy_kind)i))
            spec->kind[spec->n_kinds++] = (enum policy_kind)i;
    }
    return DSGD_OK;
}

/* A model that reads the prototype's telemetry gets it from synthetic
 * clusters. */
static enum scenario_telemetry telemetry_of(const struct timing_model *m)
{
    bool lab = m && timing_model_features(m) == 3 &&
               strcmp(timing_model_feature(m, 0), "u0") == 0;
    return lab ? SCENARIO_LAB3 : SCENARIO_FEATURES;
}

static enum dsgd_err make_trace(struct replay *r, const char *text,
                                struct dsgd_error *err)
{
    struct scenario s;
    enum dsgd_err rc = scenario_parse(text, &s, err);

    if (rc == DSGD_OK)
        rc = scenario_make(&s, telemetry_of(r->set), &r->trace[r->count], err);
    if (rc != DSGD_OK)
        return rc;
    free(r->trace[r->count]->name);
    r->trace[r->count]->name = strdup(text);
    if (!r->trace[r->count++]->name)
        return error_set(err, DSGD_E_NOMEM, "no memory");
    return DSGD_OK;
}

static enum dsgd_err read_trace(struct replay *r, const char *path,
                                struct dsgd_error *err)
{
    struct dsgd_error warning;
    enum dsgd_err rc =
        trace_read(path, r->feature, r->set ? timing_model_features(r->set) : 0,
                   &r->trace[r->count], &warning, err);

    if (rc != DSGD_OK)
        return rc;
    if (warning.text[0])
        fprintf(stderr, "dsgd-replay: warning: %s\n", warning.text);
    r->count++;
    return DSGD_OK;
}

/* What a trace's telemetry is looked for; without a model the usual names. */
static bool list_features(struct replay *r)
{
    size_t count = r->set ? timing_model_features(r->set) : 0;

    if (!count)
        return true;
    r->feature = calloc(count, sizeof *r->feature);
    for (size_t f = 0; r->feature && f < count; f++)
        r->feature[f] = timing_model_feature(r->set, f);
    return r->feature;
}

static enum dsgd_err get_traces(struct replay *r, struct dsgd_error *err)
{
    size_t most = r->opt.n_synth + r->opt.n_traces;
    enum dsgd_err rc = DSGD_OK;

    r->trace = calloc(most, sizeof *r->trace);
    r->score = calloc(most, sizeof *r->score);
    if (!r->trace || !r->score || !list_features(r))
        return error_set(err, DSGD_E_NOMEM, "no memory");
    for (size_t i = 0; rc == DSGD_OK && i < r->opt.n_synth; i++)
        rc = make_trace(r, r->opt.synth[i], err);
    for (size_t i = 0; rc == DSGD_OK && i < r->opt.n_traces; i++)
        rc = read_trace(r, r->opt.trace[i], err);
    return rc;
}

static enum dsgd_err print(const struct replay *r, struct dsgd_error *err)
{
    enum dsgd_err rc = DSGD_OK;

    if (r->opt.json)
        rc = replay_print_json(stdout, r->score, r->count, &r->opt.simulate,
                               err);
    else
        replay_print_table(stdout, r->score, r->count, r->opt.parsable);
    if (rc == DSGD_OK && r->opt.plot)
        rc = replay_plot(r->opt.plot, r->score, r->count, err);
    if (rc == DSGD_OK)
        rc = text_flush(err);
    return rc;
}

static enum dsgd_err score_all(struct replay *r, struct dsgd_error *err)
{
    struct score_spec spec = {.simulate = r->opt.simulate,
                              .overhead_percent = r->opt.overhead_percent,
                              .part_cost_percent = r->opt.part_cost_percent,
                              .set = r->set,
                              .dmm = r->dmm,
                              .rule = r->opt.rule};
    enum dsgd_err rc = choose(r, &spec, err);

    for (size_t i = 0; rc == DSGD_OK && i < r->count; i++)
        rc = score_trace(r->trace[i], &spec, &r->score[i], err);
    return rc == DSGD_OK ? print(r, err) : rc;
}

static enum dsgd_err run(struct replay *r, struct dsgd_error *err)
{
    enum dsgd_err rc = load_models(r, err);

    if (rc == DSGD_OK)
        rc = get_traces(r, err);
    if (rc != DSGD_OK)
        return rc;
    if (r->opt.write)
        return trace_write(r->trace[0], r->opt.write, err);
    return score_all(r, err);
}

int main(int argc, char **argv)
{
    struct replay r = {0};
    struct dsgd_error err = {""};
    enum dsgd_err rc = replay_options_parse(argc, argv, &r.opt, &err);

    if (rc == DSGD_OK && r.opt.help) {
        replay_options_help(stdout);
        rc = text_flush(&err);
    } else if (rc == DSGD_OK && r.opt.version) {
        printf("dsgd-replay (slurm-dsgd) %s\n", PACKAGE_VERSION);
        rc = text_flush(&err);
    } else if (rc == DSGD_OK) {
        rc = run(&r, &err);
    }
    if (rc != DSGD_OK)
        fprintf(stderr, "dsgd-replay: %s\n", err.text);
    for (size_t i = 0; i < r.count; i++)
        trace_free(r.trace[i]);
    free(r.trace);
    free(r.feature);
    free(r.score);
    timing_model_free(r.set);
    timing_model_free(r.dmm);
    replay_options_free(&r.opt);
    return (int)rc;
}
