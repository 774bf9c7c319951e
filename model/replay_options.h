/* The command line of dsgd-replay. */
#ifndef DSGD_REPLAY_OPTIONS_H
#define DSGD_REPLAY_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "dsgd_error.h"
#include "policy.h"
#include "simulate.h"

enum { REPLAY_MODELS = 2 };

struct replay_options {
    const char *model[REPLAY_MODELS]; /* --model, NULL: not given */
    size_t n_models;
    const char **synth; /* [n_synth] as in scenario_parse; free() */
    size_t n_synth;
    const char *write, *plot; /* files, NULL: none */
    char **trace;             /* [n_traces] paths */
    size_t n_traces;
    enum policy_kind kind[N_POLICIES];
    size_t n_kinds; /* 0: all for which there is a model */
    struct simulate_spec simulate;
    bool observe_given; /* else by --late */
    double overhead_percent, part_cost_percent, part_noise_percent;
    enum rule rule;
    bool json, parsable, help, version;
};

/* Read a command line.
 *   argc, argv  in   as of main; strings are kept, not copied
 *   opt         out  replay_options_free; untouched on error
 * Errors: DSGD_E_USAGE (the text names the option and the value),
 * DSGD_E_NOMEM. */
enum dsgd_err replay_options_parse(int argc, char **argv,
                                   struct replay_options *opt,
                                   struct dsgd_error *err);
void replay_options_free(struct replay_options *opt);

void replay_options_help(FILE *out);

/* "fresh", "busy", "poll:8" */
void replay_late_text(const struct simulate_spec *spec, char *text,
                      size_t size);

#endif
