#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "c_locale.h"
#include "conf_file.h"
#include "cutoff.h"
#include "dsgd.h"
#include "dsgd_names.h"
#include "error.h"
#include "rules.h"

#define DEFAULT_RING_BYTES   (64u << 20)
#define DEFAULT_SPREAD_BYTES (256u << 10)
#define MAX_TIME             1e6 /* of any unit */

_Static_assert(sizeof((struct dsgd_options *)0)->model == DSGD_PATH_BYTES &&
                   sizeof((struct dsgd_options *)0)->record ==
                       DSGD_PATH_BYTES &&
                   sizeof((struct cutoff_spec *)0)->file == DSGD_PATH_BYTES,
               "the plugin checks paths for this size");

/* A setting is a row: how it is read, and what it is called in each of the
 * places it may come from; NULL: not to be set there. */
struct setting {
    const char *conf, *plugstack, *user, *option;
    enum dsgd_err (*read)(const char *name, const char *value,
                          struct dsgd_options *opt, struct dsgd_error *err);
};

static enum dsgd_err read_text(const char *name, const char *value, char *out,
                               size_t size, struct dsgd_error *err)
{
    size_t length = strlen(value);
    if (length >= size)
        return error_set(err, DSGD_E_USAGE,
                         "%s: \"%.40s…\" is longer than %zu bytes", name, value,
                         size - 1);
    memcpy(out, value, length + 1);
    return DSGD_OK;
}

static enum dsgd_err read_cutoff(const char *name, const char *value,
                                 struct dsgd_options *opt,
                                 struct dsgd_error *err)
{
    struct cutoff_spec spec;
    enum dsgd_err rc = cutoff_parse(name, value, &spec, err);
    if (rc != DSGD_OK)
        return rc;
    return read_text(name, value, opt->cutoff, sizeof opt->cutoff, err);
}

static enum dsgd_err read_whole(const char *name, const char *value,
                                unsigned long long least,
                                unsigned long long most, size_t *out,
                                struct dsgd_error *err)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (!isdigit((unsigned char)*value) || *end || errno || number < least ||
        number > most)
        return error_set(err, DSGD_E_USAGE,
                         "%s: \"%.40s\" is not a whole number from %llu to "
                         "%llu",
                         name, value, least, most);
    *out = (size_t)number;
    return DSGD_OK;
}

/* value is a number and its unit, nothing else. */
static bool is_number(const char *value, const char *unit, double *out)
{
    char *end;

    *out = strtod(value, &end);
    return end != value && strcmp(end, unit) == 0;
}

/* A percentage; not 0%, or, where `whole` is false, not 100%. */
static enum dsgd_err read_share(const char *name, const char *value, bool whole,
                                double *out, struct dsgd_error *err)
{
    double percent;

    if (is_number(value, "%", &percent) &&
        (whole ? percent > 0 && percent <= 100
               : percent >= 0 && percent < 100)) {
        *out = percent / 100;
        return DSGD_OK;
    }
    return error_set(
        err, DSGD_E_USAGE, "%s: \"%.40s\" is not a percentage %s", name, value,
        whole ? "above 0% and at most 100%" : "from 0% to below 100%");
}

static enum dsgd_err read_min(const char *name, const char *value,
                              struct dsgd_options *opt, struct dsgd_error *err)
{
    return read_whole(name, value, 0, UINT32_MAX, &opt->min_contributors, err);
}

static enum dsgd_err read_model(const char *name, const char *value,
                                struct dsgd_options *opt,
                                struct dsgd_error *err)
{
    return read_text(name, value, opt->model, sizeof opt->model, err);
}

static enum dsgd_err read_rule(const char *name, const char *value,
                               struct dsgd_options *opt, struct dsgd_error *err)
{
    enum rule rule;
    enum dsgd_err rc = rule_parse(name, value, &rule, err);
    if (rc != DSGD_OK)
        return rc;
    return read_text(name, value, opt->rule, sizeof opt->rule, err);
}

static enum dsgd_err read_record(const char *name, const char *value,
                                 struct dsgd_options *opt,
                                 struct dsgd_error *err)
{
    return read_text(name, value, opt->record, sizeof opt->record, err);
}

/* RecordDir of dsgd.conf holds a directory for each user. */
static enum dsgd_err read_record_dir(const char *name, const char *value,
                                     struct dsgd_options *opt,
                                     struct dsgd_error *err)
{
    const char *user = getenv("USER");
    char path[sizeof opt->record];
    int length = snprintf(path, sizeof path, "%s/%s", value, user ? user : "");
    if (length < 0 || (size_t)length >= sizeof path)
        return error_set(err, DSGD_E_USAGE, "%s: \"%.40s…\" is too long", name,
                         value);
    return user ? read_text(name, path, opt->record, sizeof path, err)
                : DSGD_OK;
}

/* The number of value among words, "a|b|c".
 *   first  in   the number of the first
 *   out    out  an enum as wide as int */
static enum dsgd_err read_word(const char *name, const char *value,
                               const char *words, int first, void *out,
                               struct dsgd_error *err)
{
    size_t length = strlen(value);
    int number = first;

    for (const char *at = words; *at; number++) {
        size_t word = strcspn(at, "|");
        if (word == length && memcmp(at, value, word) == 0) {
            memcpy(out, &number, sizeof number);
            return DSGD_OK;
        }
        at += word + (at[word] == '|');
    }
    return error_set(err, DSGD_E_USAGE, "%s: \"%.40s\" is none of %s", name,
                     value, words);
}

static enum dsgd_err read_late(const char *name, const char *value,
                               struct dsgd_options *opt, struct dsgd_error *err)
{
    return read_word(name, value, "requeue|drop|carry", 0, &opt->late, err);
}

static enum dsgd_err read_partial(const char *name, const char *value,
                                  struct dsgd_options *opt,
                                  struct dsgd_error *err)
{
    return read_word(name, value, "discard|contribute", DSGD_PARTIAL_DISCARD,
                     &opt->partial, err);
}

static enum dsgd_err read_lr_scale(const char *name, const char *value,
                                   struct dsgd_options *opt,
                                   struct dsgd_error *err)
{
    return read_word(name, value, "none|linear|sqrt", 0, &opt->lr_scale, err);
}

static enum dsgd_err read_max_cuts(const char *name, const char *value,
                                   struct dsgd_options *opt,
                                   struct dsgd_error *err)
{
    return read_whole(name, value, 0, UINT32_MAX, &opt->max_cuts, err);
}

static enum dsgd_err read_max_cut_share(const char *name, const char *value,
                                        struct dsgd_options *opt,
                                        struct dsgd_error *err)
{
    return read_share(name, value, true, &opt->max_cut_share, err);
}

static enum dsgd_err read_work(const char *name, const char *value,
                               struct dsgd_options *opt, struct dsgd_error *err)
{
    return read_word(name, value, "own|shared", 0, &opt->work, err);
}

static enum dsgd_err read_parts(const char *name, const char *value,
                                struct dsgd_options *opt,
                                struct dsgd_error *err)
{
    return read_whole(name, value, 1, DSGD_MAX_PARTS, &opt->parts, err);
}

static enum dsgd_err read_batch_slack(const char *name, const char *value,
                                      struct dsgd_options *opt,
                                      struct dsgd_error *err)
{
    return read_share(name, value, false, &opt->batch_slack, err);
}

static enum dsgd_err read_ring(const char *name, const char *value,
                               struct dsgd_options *opt, struct dsgd_error *err)
{
    return read_whole(name, value, 0, SIZE_MAX, &opt->ring_bytes, err);
}

static enum dsgd_err read_spread(const char *name, const char *value,
                                 struct dsgd_options *opt,
                                 struct dsgd_error *err)
{
    return read_whole(name, value, 0, SIZE_MAX, &opt->spread_bytes, err);
}

static enum dsgd_err read_time(const char *name, const char *value,
                               const char *unit_and_zero, double *out,
                               struct dsgd_error *err)
{
    double number;

    if (!is_number(value, "", &number) || !(number >= 0 && number <= MAX_TIME))
        return error_set(err, DSGD_E_USAGE,
                         "%s: \"%.40s\" is not a number of %s", name, value,
                         unit_and_zero);
    *out = number;
    return DSGD_OK;
}

static enum dsgd_err read_timeout(const char *name, const char *value,
                                  struct dsgd_options *opt,
                                  struct dsgd_error *err)
{
    return read_time(name, value, "seconds (0: from the observed run-times)",
                     &opt->hard_timeout_s, err);
}

static enum dsgd_err read_aggregator(const char *name, const char *value,
                                     struct dsgd_options *opt,
                                     struct dsgd_error *err)
{
    return read_word(name, value, "thread|dedicated", 0, &opt->aggregator, err);
}

static enum dsgd_err read_checkpoint_dir(const char *name, const char *value,
                                         struct dsgd_options *opt,
                                         struct dsgd_error *err)
{
    return read_text(name, value, opt->checkpoint_dir,
                     sizeof opt->checkpoint_dir, err);
}

static enum dsgd_err read_checkpoint_steps(const char *name, const char *value,
                                           struct dsgd_options *opt,
                                           struct dsgd_error *err)
{
    size_t steps = 0;
    enum dsgd_err rc = read_whole(name, value, 0, SIZE_MAX, &steps, err);
    if (rc == DSGD_OK)
        opt->checkpoint_steps = steps;
    return rc;
}

static enum dsgd_err read_checkpoint_minutes(const char *name,
                                             const char *value,
                                             struct dsgd_options *opt,
                                             struct dsgd_error *err)
{
    return read_time(name, value, "minutes (0: no checkpoints by time)",
                     &opt->checkpoint_minutes, err);
}

static enum dsgd_err read_checkpoint_keep(const char *name, const char *value,
                                          struct dsgd_options *opt,
                                          struct dsgd_error *err)
{
    size_t keep = 0;
    enum dsgd_err rc = read_whole(name, value, 1, UINT32_MAX, &keep, err);
    if (rc == DSGD_OK)
        opt->checkpoint_keep = keep;
    return rc;
}

static const struct setting settings[] = {
    {"Cutoff", DSGD_LAUNCH_DEFAULT_CUTOFF, DSGD_CUTOFF, DSGD_LAUNCH_CUTOFF,
     read_cutoff},
    {"Min", DSGD_LAUNCH_DEFAULT_MIN, DSGD_MIN, DSGD_LAUNCH_MIN, read_min},
    {"Model", DSGD_LAUNCH_DEFAULT_MODEL, DSGD_MODEL, DSGD_LAUNCH_MODEL,
     read_model},
    {"Rule", NULL, DSGD_RULE, NULL, read_rule},
    {"RecordDir", NULL, NULL, NULL, read_record_dir},
    {"Record", DSGD_LAUNCH_DEFAULT_RECORD, DSGD_RECORD, DSGD_LAUNCH_RECORD,
     read_record},
    {"Late", DSGD_LAUNCH_DEFAULT_LATE, DSGD_LATE, DSGD_LAUNCH_LATE, read_late},
    {"Partial", DSGD_LAUNCH_DEFAULT_PARTIAL, DSGD_PARTIAL, DSGD_LAUNCH_PARTIAL,
     read_partial},
    {"LrScale", DSGD_LAUNCH_DEFAULT_LR_SCALE, DSGD_LR_SCALE,
     DSGD_LAUNCH_LR_SCALE, read_lr_scale},
    {"MaxCuts", DSGD_LAUNCH_DEFAULT_MAX_CUTS, DSGD_MAX_CUTS,
     DSGD_LAUNCH_MAX_CUTS, read_max_cuts},
    {"MaxCutShare", DSGD_LAUNCH_DEFAULT_MAX_CUT_SHARE, DSGD_MAX_CUT_SHARE,
     DSGD_LAUNCH_MAX_CUT_SHARE, read_max_cut_share},
    {"Work", DSGD_LAUNCH_DEFAULT_WORK, DSGD_WORK, DSGD_LAUNCH_WORK, read_work},
    {"Parts", DSGD_LAUNCH_DEFAULT_PARTS, DSGD_PARTS, DSGD_LAUNCH_PARTS,
     read_parts},
    {"BatchSlack", DSGD_LAUNCH_DEFAULT_BATCH_SLACK, DSGD_BATCH_SLACK,
     DSGD_LAUNCH_BATCH_SLACK, read_batch_slack},
    {"RingBytes", NULL, DSGD_RING_BYTES, NULL, read_ring},
    {"SpreadBytes", NULL, DSGD_SPREAD_BYTES, NULL, read_spread},
    {"HardTimeout", NULL, DSGD_HARD_TIMEOUT, NULL, read_timeout},
    {"CheckpointDir", NULL, DSGD_CHECKPOINT_DIR, NULL, read_checkpoint_dir},
    {"CheckpointSteps", NULL, DSGD_CHECKPOINT_STEPS, NULL,
     read_checkpoint_steps},
    {"CheckpointMinutes", NULL, DSGD_CHECKPOINT_MINUTES, NULL,
     read_checkpoint_minutes},
    {"CheckpointKeep", NULL, DSGD_CHECKPOINT_KEEP, NULL, read_checkpoint_keep},
    {"Aggregator", NULL, DSGD_AGGREGATOR, NULL, read_aggregator},
};
enum { N_SETTINGS = sizeof settings / sizeof settings[0] };

static enum dsgd_err conf_line(void *context, const char *path, unsigned number,
                               const char *name, const char *value,
                               struct dsgd_error *err)
{
    char shown[320];

    snprintf(shown, sizeof shown, "%.200s:%u: %.60s", path, number, name);
    for (size_t i = 0; value && i < N_SETTINGS; i++) {
        if (strcmp(name, settings[i].conf) == 0)
            return settings[i].read(shown, value, context, err);
    }
    return error_set(err, DSGD_E_USAGE,
                     "%s:%u: \"%.60s\" is not a setting; they are written "
                     "Name=value, see dsgd.conf(5)",
                     path, number, name);
}

/* What messages call a variable: users know DSGD_LAUNCH_MAX_CUTS by the name of
 * its option, --dsgd-max-cuts, and DSGD_LAUNCH_DEFAULT_MAX_CUTS as what it is
 * in plugstack.conf, max_cuts. */
static const char *shown_name(const char *variable, char *out, size_t size)
{
    static const char launch[] = DSGD_LAUNCH_PREFIX, defaults[] = "DEFAULT_";

    if (strncmp(variable, launch, strlen(launch)) != 0)
        return variable;
    variable += strlen(launch);
    bool option = strncmp(variable, defaults, strlen(defaults)) != 0;
    int used =
        snprintf(out, size, "%s", option ? "--dsgd-" : "plugstack.conf: ");
    variable += option ? 0 : strlen(defaults);
    snprintf(out + used, size - (size_t)used, "%s", variable);
    for (char *c = out + used; *c; c++)
        *c = *c == '_' && option ? '-' : (char)tolower((unsigned char)*c);
    return out;
}

static enum dsgd_err read_variable(const struct setting *s,
                                   const char *variable,
                                   struct dsgd_options *opt,
                                   struct dsgd_error *err)
{
    const char *value = variable ? getenv(variable) : NULL;
    char name[64];

    if (!value || !*value)
        return DSGD_OK;
    return s->read(shown_name(variable, name, sizeof name), value, opt, err);
}

static enum dsgd_err read_all(struct dsgd_options *opt, struct dsgd_error *err)
{
    enum dsgd_err rc = conf_file_read(conf_line, opt, err);

    for (size_t i = 0; rc == DSGD_OK && i < N_SETTINGS; i++)
        rc = read_variable(&settings[i], settings[i].plugstack, opt, err);
    for (size_t i = 0; rc == DSGD_OK && i < N_SETTINGS; i++)
        rc = read_variable(&settings[i], settings[i].user, opt, err);
    for (size_t i = 0; rc == DSGD_OK && i < N_SETTINGS; i++)
        rc = read_variable(&settings[i], settings[i].option, opt, err);
    return rc;
}

enum dsgd_err dsgd_options_init(struct dsgd_options *opt,
                                struct dsgd_error *err)
{
    memset(opt, 0, sizeof *opt);
    opt->ring_bytes = DEFAULT_RING_BYTES;
    opt->spread_bytes = DEFAULT_SPREAD_BYTES;
    strcpy(opt->cutoff, "full");
    opt->checkpoint_minutes = 10;
    opt->checkpoint_keep = 3;
    opt->checkpoint_signals = true;
    locale_t before = c_locale_enter();
    enum dsgd_err rc = read_all(opt, err);
    c_locale_leave(before);
    return rc;
}
