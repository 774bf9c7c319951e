/* The command line of dsgd-train. */
#ifndef DSGD_TRAIN_OPTIONS_H
#define DSGD_TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "dsgd_error.h"
#include "progress_line.h"
#include "train_net.h"
#include "train_optim.h"

enum { TRAIN_CHECKPOINT_DIR = 256 }; /* as in struct dsgd_options */

struct train_options {
    const char *data;
    enum train_model model;
    uint64_t epochs, max_steps, batch, micro_batches, eval_batch;
    uint64_t train_samples; /* 0: all */
    uint64_t seed;
    double lr, momentum, warmup_epochs;
    enum train_schedule schedule;
    enum progress_mode progress;
    const char *summary;        /* file, "-" for standard output, NULL: none */
    const char *loss_curve;     /* file, NULL: none */
    const char *straggle;       /* RANK:FACTOR,…, NULL: nobody */
    const char *checkpoint_dir; /* NULL: as the environment says, as … */
    uint64_t checkpoint_steps, checkpoint_keep; /* … UINT64_MAX */
    double checkpoint_minutes;                  /* … and NaN */
    bool help, version; /* asked for: the rest is not to be used */
};

/* Read a command line.
 *   argc, argv  in   as of main; strings are kept, not copied
 *   opt         out  defaults where nothing is said; untouched on error
 * Local.  Errors: DSGD_E_USAGE (the text names the option and the value). */
enum dsgd_err train_options_parse(int argc, char **argv,
                                  struct train_options *opt,
                                  struct dsgd_error *err);

/* Print what --help prints: a line an option, with its default. */
void train_options_help(FILE *out);

/* The words of --model and --schedule. */
const char *train_model_name(enum train_model model);
const char *train_schedule_name(enum train_schedule schedule);

/* By how much --straggle slows a rank; 1: not at all.
 *   text  in  checked by train_options_parse; NULL: nobody */
double train_straggle_factor(const char *text, unsigned rank);

/* Does --straggle name ranks of the run only?
 *   text     in  as above
 *   workers  in  of the run
 * Errors: DSGD_E_USAGE, which names the first that is not there. */
enum dsgd_err train_straggle_check(const char *text, unsigned workers,
                                   struct dsgd_error *err);

#endif
