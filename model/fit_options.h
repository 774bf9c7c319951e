/* The command line of dsgd-fit. */
#ifndef DSGD_FIT_OPTIONS_H
#define DSGD_FIT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "dsgd_error.h"
#include "progress_line.h"

enum fit_kind { FIT_SET, FIT_DMM };

struct fit_options {
    enum fit_kind kind;
    bool synth;
    const char *scenario; /* of --synth=SCENARIO, NULL: random clusters */
    uint64_t steps;       /* 0: the kind's default, unless minutes */
    double minutes;       /* 0: steps decide */
    uint64_t seed;
    const char *warm_start;
    bool resume, score;
    double validate;   /* share */
    uint64_t patience; /* 0: no early end */
    double lr;         /* 0: the kind's default */
    enum progress_mode progress;
    const char *output;
    const char *const *file; /* [files] */
    size_t files;
    bool help, version; /* asked for: the rest is not to be used */
};

/* Read a command line.  argv's operands are moved to its front, its strings
 * are kept.  Errors: DSGD_E_USAGE (the text names the option and the value;
 * nothing to learn from; no output). */
enum dsgd_err fit_options_parse(int argc, char **argv, struct fit_options *opt,
                                struct dsgd_error *err);

/* Print what --help prints. */
void fit_options_help(FILE *out);

#endif
