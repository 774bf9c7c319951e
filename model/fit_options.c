#include "fit_options.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

static const char *const kind_names[] = {
    [FIT_SET] = "set", [FIT_DMM] = "dmm", NULL};
static const char *const progress_names[] = {[FIT_PROGRESS_AUTO] = "auto",
                                             [FIT_PROGRESS_BAR] = "bar",
                                             [FIT_PROGRESS_PLAIN] = "plain",
                                             [FIT_PROGRESS_NONE] = "none",
                                             NULL};

enum type { FLAG, OPTIONAL, TEXT, COUNT, REAL, CHOICE };

struct row {
    const char *name, *arg; /* arg NULL for a FLAG */
    enum type type;
    size_t offset;            /* in struct fit_options */
    double low, high;         /* of a COUNT or REAL */
    const char *const *words; /* of a CHOICE */
    const char *initial;      /* default as a user would write it, or NULL */
    const char *help;
};

#define AT(field) offsetof(struct fit_options, field)

static const struct row table[] = {
    {"output", "FILE", TEXT, AT(output), 0, 0, NULL, NULL,
     "write the model to FILE; also -o FILE"},
    {"kind", "KIND", CHOICE, AT(kind), 0, 0, kind_names, "set",
     "set: any cluster; dmm: the one that the files are of"},
    {"synth", "SCENARIO", OPTIONAL, AT(scenario), 0, 0, NULL, NULL,
     "learn from random synthetic clusters, or from one"},
    {"steps", "N", COUNT, AT(steps), 0, 1e9, NULL, "0",
     "updates; 0: 3000, or as many as --minutes allows"},
    {"minutes", "M", REAL, AT(minutes), 0, 1e6, NULL, "0",
     "train so long instead of a number of updates"},
    {"seed", "N", COUNT, AT(seed), 0, 9e15, NULL, "1",
     "the same seed and --steps give the same bits"},
    {"warm-start", "MODEL", TEXT, AT(warm_start), 0, 0, NULL, NULL,
     "start from this model"},
    {"resume", NULL, FLAG, AT(resume), 0, 0, NULL, NULL,
     "go on from FILE.checkpoint, if it is there"},
    {"validate", "SHARE", REAL, AT(validate), .01, .9, NULL, "0.15",
     "share of each file's steps held out, its last"},
    {"patience", "N", COUNT, AT(patience), 0, 1e6, NULL, "20",
     "end after N looks without improvement; 0: never"},
    {"lr", "RATE", REAL, AT(lr), 0, 10, NULL, "0",
     "peak learning rate; 0: 0.002"},
    {"score", NULL, FLAG, AT(score), 0, 0, NULL, NULL,
     "train nothing, print the held-out loss of --warm-start"},
    {"progress", "HOW", CHOICE, AT(progress), 0, 0, progress_names, "auto",
     "auto, bar, plain or none"},
    {"help", NULL, FLAG, AT(help), 0, 0, NULL, NULL, "print this and exit"},
    {"version", NULL, FLAG, AT(version), 0, 0, NULL, NULL,
     "print the version and exit"},
};
enum { N_ROWS = sizeof table / sizeof table[0] };

static const struct row *find(const char *name, size_t length)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        if (strlen(table[i].name) == length &&
            memcmp(table[i].name, name, length) == 0)
            return &table[i];
    }
    return NULL;
}

static enum dsgd_err parse_number(const struct row *r, const char *text,
                                  double *value, struct dsgd_error *err)
{
    char *end;
    double x = strtod(text, &end);

    if (end == text || *end || !(x >= r->low && x <= r->high) ||
        (r->type == COUNT && x != floor(x)))
        return error_set(err, DSGD_E_USAGE,
                         "--%s: \"%.60s\" is not a %s from %g to %g", r->name,
                         text, r->type == COUNT ? "whole number" : "number",
                         r->low, r->high);
    *value = x;
    return DSGD_OK;
}

static enum dsgd_err parse_choice(const struct row *r, const char *text,
                                  int *value, struct dsgd_error *err)
{
    char list[128] = "";

    for (int i = 0; r->words[i]; i++) {
        if (strcmp(r->words[i], text) == 0) {
            *value = i;
            return DSGD_OK;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? "|" : "",
                 r->words[i]);
    }
    return error_set(err, DSGD_E_USAGE, "--%s: \"%.60s\" is none of %s",
                     r->name, text, list);
}

static enum dsgd_err assign(const struct row *r, const char *text,
                            struct fit_options *opt, struct dsgd_error *err)
{
    void *field = (char *)opt + r->offset;
    enum dsgd_err rc = DSGD_OK;
    double number = 0;
    int word = 0;

    switch (r->type) {
    case FLAG:
        *(bool *)field = true;
        break;
    case OPTIONAL: /* the only one: --synth */
        opt->synth = true;
        /* fall through */
    case TEXT:
        if (text && !*text)
            return error_set(err, DSGD_E_USAGE, "--%s: give a %s", r->name,
                             r->arg);
        *(const char **)field = text;
        break;
    case COUNT:
        rc = parse_number(r, text, &number, err);
        *(uint64_t *)field = (uint64_t)number;
        break;
    case REAL:
        rc = parse_number(r, text, field, err);
        break;
    case CHOICE: /* the enums of the choices are all ints */
        rc = parse_choice(r, text, &word, err);
        memcpy(field, &word, sizeof word);
        break;
    }
    return rc;
}

_Static_assert(sizeof(enum fit_kind) == sizeof(int) &&
                   sizeof(enum fit_progress_mode) == sizeof(int),
               "a choice is stored as an int");

/* Read an option at argv[*at] and, where it has one, its value. */
static enum dsgd_err parse_one(int argc, char **argv, int *at,
                               struct fit_options *opt, struct dsgd_error *err)
{
    const char *word = argv[(*at)++];
    bool brief = strncmp(word, "-o", 2) == 0;
    const char *name = brief ? "output" : word + 2;
    const char *value = brief ? (word[2] ? word + 1 : NULL) : strchr(name, '=');
    size_t length = !brief && value ? (size_t)(value - name) : strlen(name);
    const struct row *r =
        brief || strncmp(word, "--", 2) == 0 ? find(name, length) : NULL;

    if (!r)
        return error_set(err, DSGD_E_USAGE,
                         "%.60s: there is no such option; see dsgd-fit --help",
                         word);
    if (value && r->type == FLAG)
        return error_set(err, DSGD_E_USAGE, "--%s takes no value", r->name);
    if (value)
        return assign(r, value + 1, opt, err);
    if (r->type == FLAG || r->type == OPTIONAL)
        return assign(r, NULL, opt, err);
    if (*at >= argc)
        return error_set(err, DSGD_E_USAGE, "--%s needs a value: %s", r->name,
                         r->arg);
    return assign(r, argv[(*at)++], opt, err);
}

/* What belongs together. */
static enum dsgd_err check(const struct fit_options *opt,
                           struct dsgd_error *err)
{
    if (opt->help || opt->version)
        return DSGD_OK;
    if (opt->score && !opt->warm_start)
        return error_set(err, DSGD_E_USAGE,
                         "--score: say which model with --warm-start");
    if (!opt->output && !opt->score)
        return error_set(err, DSGD_E_USAGE,
                         "say where the model goes with -o FILE");
    if (!opt->synth && !opt->files && !opt->score)
        return error_set(err, DSGD_E_USAGE,
                         "nothing to learn from: name traces or records, or "
                         "give --synth");
    if (opt->steps && opt->minutes > 0)
        return error_set(err, DSGD_E_USAGE,
                         "--steps %llu and --minutes %g: give one of them",
                         (unsigned long long)opt->steps, opt->minutes);
    if (opt->kind == FIT_DMM && opt->synth && !opt->scenario)
        return error_set(err, DSGD_E_USAGE,
                         "--synth: a dmm is for one cluster: say which, such "
                         "as --synth=mix:n=16,T=1000");
    return DSGD_OK;
}

enum dsgd_err fit_options_parse(int argc, char **argv, struct fit_options *out,
                                struct dsgd_error *err)
{
    struct fit_options opt = {.files = 0};
    enum dsgd_err rc = DSGD_OK;
    bool operands = false; /* after "--" */

    for (size_t i = 0; i < N_ROWS && rc == DSGD_OK; i++) {
        if (table[i].initial)
            rc = assign(&table[i], table[i].initial, &opt, err);
    }
    /* Operands move to the front, to argv[1..files]. */
    for (int at = 1; at < argc && rc == DSGD_OK;) {
        if (!operands && strcmp(argv[at], "--") == 0) {
            operands = true;
            at++;
        } else if (operands || argv[at][0] != '-') {
            argv[++opt.files] = argv[at++];
        } else {
            rc = parse_one(argc, argv, &at, &opt, err);
        }
    }
    opt.file = (const char *const *)(argv + 1);
    if (rc == DSGD_OK)
        rc = check(&opt, err);
    if (rc == DSGD_OK)
        *out = opt;
    return rc;
}

void fit_options_help(FILE *out)
{
    fprintf(out, "usage: dsgd-fit [options] -o MODEL.safetensors "
                 "[TRACE.csv | RECORD.dsgd]...\n\n"
                 "Learn a timing model from records, traces and synthetic "
                 "clusters.\n\n");
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct row *r = &table[i];
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s%s", r->name,
                 r->type == OPTIONAL ? "[="
                 : r->arg            ? " "
                                     : "",
                 r->arg ? r->arg : "", r->type == OPTIONAL ? "]" : "");
        fprintf(out, "  %-22s %s", left, r->help);
        if (r->initial)
            fprintf(out, " [%s]", r->initial);
        fprintf(out, "\n");
    }
}
