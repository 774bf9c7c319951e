#include "fit_options.h"

#include <stddef.h>
#include <string.h>

#include "error.h"
#include "option_table.h"

static const char *const kind_names[] = {
    [FIT_SET] = "set", [FIT_DMM] = "dmm", NULL};

#define AT(field) offsetof(struct fit_options, field)

static const struct option_row table[] = {
    {"output", "FILE", OPTION_TEXT, AT(output), 0, 0, NULL, NULL,
     "write the model to FILE; also -o FILE"},
    {"kind", "KIND", OPTION_CHOICE, AT(kind), 0, 0, kind_names, "set",
     "set: any cluster; dmm: the one that the files are of"},
    {"synth", "SCENARIO", OPTION_OPTIONAL, AT(scenario), 0, 0, NULL, NULL,
     "learn from random synthetic clusters, or from one"},
    {"steps", "N", OPTION_COUNT, AT(steps), 0, 1e9, NULL, "0",
     "updates; 0: 3000, or as many as --minutes allows"},
    {"minutes", "M", OPTION_REAL, AT(minutes), 0, 1e6, NULL, "0",
     "train so long instead of a number of updates"},
    {"seed", "N", OPTION_COUNT, AT(seed), 0, 9e15, NULL, "1",
     "the same seed and --steps give the same bits"},
    {"warm-start", "MODEL", OPTION_TEXT, AT(warm_start), 0, 0, NULL, NULL,
     "start from this model"},
    {"resume", NULL, OPTION_FLAG, AT(resume), 0, 0, NULL, NULL,
     "go on from FILE.checkpoint, if it is there"},
    {"validate", "SHARE", OPTION_REAL, AT(validate), .01, .9, NULL, "0.15",
     "share of each file's steps held out, its last"},
    {"patience", "N", OPTION_COUNT, AT(patience), 0, 1e6, NULL, "20",
     "end after N looks without improvement; 0: never"},
    {"lr", "RATE", OPTION_REAL, AT(lr), 0, 10, NULL, "0",
     "peak learning rate; 0: 0.002"},
    {"score", NULL, OPTION_FLAG, AT(score), 0, 0, NULL, NULL,
     "train nothing, print the held-out loss of --warm-start"},
    {"progress", "HOW", OPTION_CHOICE, AT(progress), 0, 0, progress_mode_names,
     "auto", "auto, bar, plain or none"},
    {"help", NULL, OPTION_FLAG, AT(help), 0, 0, NULL, NULL,
     "print this and exit"},
    {"version", NULL, OPTION_FLAG, AT(version), 0, 0, NULL, NULL,
     "print the version and exit"},
};
static const struct option_table options = {
    "dsgd-fit", table, sizeof table / sizeof table[0], "output"};

_Static_assert(sizeof(enum fit_kind) == sizeof(int) &&
                   sizeof(enum progress_mode) == sizeof(int),
               "a choice is stored as an int");

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
    enum dsgd_err rc = option_table_defaults(&options, &opt, err);
    bool operands = false; /* after "--" */

    /* Operands move to the front, to argv[1..files]. */
    for (int at = 1; at < argc && rc == DSGD_OK;) {
        if (!operands && strcmp(argv[at], "--") == 0) {
            operands = true;
            at++;
        } else if (operands || argv[at][0] != '-') {
            argv[++opt.files] = argv[at++];
        } else {
            rc = option_table_read(&options, argc, argv, &at, &opt, err);
        }
    }
    opt.file = (const char *const *)(argv + 1);
    opt.synth = opt.scenario;
    if (opt.synth && !*opt.scenario)
        opt.scenario = NULL;
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
    option_table_help(&options, out);
}
