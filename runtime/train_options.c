#include "train_options.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "option_table.h"

#define DEFAULT_DATA "/usr/share/datasets/fashion-mnist"

static const char *const model_names[] = {[TRAIN_SOFTMAX] = "softmax",
                                          [TRAIN_MLP] = "mlp",
                                          [TRAIN_CNN] = "cnn",
                                          NULL};
static const char *const schedule_names[] = {[TRAIN_CONSTANT] = "constant",
                                             [TRAIN_STEP] = "step",
                                             [TRAIN_COSINE] = "cosine",
                                             NULL};
#define AT(field) offsetof(struct train_options, field)

static const struct option_row table[] = {
    {"data", "DIR", OPTION_TEXT, AT(data), 0, 0, NULL, DEFAULT_DATA,
     "folder of the data set, IDX files, plain or .gz"},
    {"model", "NAME", OPTION_CHOICE, AT(model), 0, 0, model_names, "cnn",
     "softmax, mlp or cnn"},
    {"epochs", "N", OPTION_COUNT, AT(epochs), 1, 1e6, NULL, "5",
     "passes over the training set"},
    {"max-steps", "N", OPTION_COUNT, AT(max_steps), 0, 1e12, NULL, "0",
     "end after so many steps; 0: no limit"},
    {"batch", "N", OPTION_COUNT, AT(batch), 1, 65536, NULL, "32",
     "samples of one worker's share of a step"},
    {"micro-batches", "M", OPTION_COUNT, AT(micro_batches), 1, 65536, NULL, "4",
     "parts of a batch, to stop after when cut"},
    {"lr", "RATE", OPTION_REAL, AT(lr), 0, 1e6, NULL, "0.05",
     "peak learning rate"},
    {"momentum", "M", OPTION_REAL, AT(momentum), 0, 0.9999, NULL, "0.9",
     "of stochastic gradient descent"},
    {"schedule", "NAME", OPTION_CHOICE, AT(schedule), 0, 0, schedule_names,
     "cosine", "constant, step or cosine"},
    {"warmup", "EPOCHS", OPTION_REAL, AT(warmup_epochs), 0, 1e6, NULL, "0.2",
     "over which the learning rate rises"},
    {"seed", "N", OPTION_COUNT, AT(seed), 0, 9e15, NULL, "1",
     "of parameters and the order of samples"},
    {"train-samples", "N", OPTION_COUNT, AT(train_samples), 0, 1e9, NULL, "0",
     "use the first N training images; 0: all"},
    {"eval-batch", "N", OPTION_COUNT, AT(eval_batch), 1, 65536, NULL, "50",
     "images of a step of the evaluation"},
    {"progress", "HOW", OPTION_CHOICE, AT(progress), 0, 0, progress_mode_names,
     "auto", "auto, bar, plain or none"},
    {"summary", "FILE", OPTION_TEXT, AT(summary), 0, 0, NULL, NULL,
     "write a JSON summary; -: to standard output"},
    {"loss-curve", "FILE", OPTION_TEXT, AT(loss_curve), 0, 0, NULL, NULL,
     "write a CSV line a step"},
    {"checkpoint-dir", "DIR", OPTION_TEXT, AT(checkpoint_dir), 0, 0, NULL, NULL,
     "keep checkpoints there, and go on from them"},
    {"checkpoint-steps", "N", OPTION_COUNT, AT(checkpoint_steps), 0, 1e12, NULL,
     NULL, "one every N steps; 0: not by steps"},
    {"checkpoint-minutes", "M", OPTION_REAL, AT(checkpoint_minutes), 0, 1e6,
     NULL, NULL, "one every M minutes; 0: not by time"},
    {"checkpoint-keep", "K", OPTION_COUNT, AT(checkpoint_keep), 1, 1e6, NULL,
     NULL, "keep the last K"},
    {"straggle", "RANK:FACTOR,...", OPTION_TEXT, AT(straggle), 0, 0, NULL, NULL,
     "testing aid: take FACTOR times as long"},
    {"help", NULL, OPTION_FLAG, AT(help), 0, 0, NULL, NULL,
     "print this and exit"},
    {"version", NULL, OPTION_FLAG, AT(version), 0, 0, NULL, NULL,
     "print the version and exit"},
};
static const struct option_table options = {
    "dsgd-train", table, sizeof table / sizeof table[0], NULL};

_Static_assert(sizeof(enum train_model) == sizeof(int) &&
                   sizeof(enum train_schedule) == sizeof(int) &&
                   sizeof(enum progress_mode) == sizeof(int),
               "a choice is stored as an int");

/* Read one RANK:FACTOR at *text and step over it and its comma. */
static bool next_straggler(const char **text, unsigned long *rank,
                           double *factor)
{
    char *end;

    *rank = strtoul(*text, &end, 10);
    if (end == *text || *end != ':')
        return false;
    const char *number = end + 1;
    *factor = strtod(number, &end);
    if (end == number || (*end == ',' ? !end[1] : *end) ||
        !(*factor >= 1 && *factor <= 1000))
        return false;
    *text = *end ? end + 1 : end;
    return true;
}

static enum dsgd_err check_straggle(const char *text, struct dsgd_error *err)
{
    const char *rest = text;
    unsigned long rank;
    double factor;

    do {
        if (!next_straggler(&rest, &rank, &factor))
            return error_set(err, DSGD_E_USAGE,
                             "--straggle: \"%.60s\": give RANK:FACTOR with a "
                             "factor from 1 to 1000, such as 3:2.5,7:4",
                             text);
    } while (*rest);
    return DSGD_OK;
}

static enum dsgd_err check_checkpoint_dir(const char *text,
                                          struct dsgd_error *err)
{
    if (strlen(text) < TRAIN_CHECKPOINT_DIR)
        return DSGD_OK;
    return error_set(err, DSGD_E_USAGE,
                     "--checkpoint-dir: \"%.60s…\" is longer than %d bytes",
                     text, TRAIN_CHECKPOINT_DIR - 1);
}

enum dsgd_err train_options_parse(int argc, char **argv,
                                  struct train_options *out,
                                  struct dsgd_error *err)
{
    struct train_options opt = {.checkpoint_steps = UINT64_MAX,
                                .checkpoint_keep = UINT64_MAX,
                                .checkpoint_minutes = NAN};
    enum dsgd_err rc = option_table_defaults(&options, &opt, err);

    for (int at = 1; at < argc && rc == DSGD_OK;)
        rc = option_table_read(&options, argc, argv, &at, &opt, err);
    if (rc == DSGD_OK && opt.straggle)
        rc = check_straggle(opt.straggle, err);
    if (rc == DSGD_OK && opt.checkpoint_dir)
        rc = check_checkpoint_dir(opt.checkpoint_dir, err);
    if (rc == DSGD_OK)
        *out = opt;
    return rc;
}

void train_options_help(FILE *out)
{
    fprintf(out,
            "usage: dsgd-train [options]\n\n"
            "Train a network on an MNIST-like data set, under srun or mpirun,\n"
            "without waiting for stragglers (srun --dsgd-cutoff, DSGD_CUTOFF)."
            "\n\n");
    option_table_help(&options, out);
}

const char *train_model_name(enum train_model model)
{
    return model_names[model];
}

const char *train_schedule_name(enum train_schedule schedule)
{
    return schedule_names[schedule];
}

double train_straggle_factor(const char *text, unsigned rank)
{
    unsigned long at;
    double factor, found = 1;

    while (text && *text && next_straggler(&text, &at, &factor)) {
        if (at == rank)
            found = factor;
    }
    return found;
}

enum dsgd_err train_straggle_check(const char *text, unsigned workers,
                                   struct dsgd_error *err)
{
    unsigned long at;
    double factor;

    while (text && *text && next_straggler(&text, &at, &factor)) {
        if (at >= workers)
            return error_set(err, DSGD_E_USAGE,
                             "--straggle: there is no rank %lu among %u "
                             "workers, 0 to %u",
                             at, workers, workers - 1);
    }
    return DSGD_OK;
}
