#include "train_options.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

#define DEFAULT_DATA "/usr/share/datasets/fashion-mnist"

static const char *const model_names[] = {[TRAIN_SOFTMAX] = "softmax",
                                          [TRAIN_MLP] = "mlp",
                                          [TRAIN_CNN] = "cnn",
                                          NULL};
static const char *const schedule_names[] = {[TRAIN_CONSTANT] = "constant",
                                             [TRAIN_STEP] = "step",
                                             [TRAIN_COSINE] = "cosine",
                                             NULL};
static const char *const progress_names[] = {[TRAIN_PROGRESS_AUTO] = "auto",
                                             [TRAIN_PROGRESS_BAR] = "bar",
                                             [TRAIN_PROGRESS_PLAIN] = "plain",
                                             [TRAIN_PROGRESS_NONE] = "none",
                                             NULL};

enum kind { FLAG, TEXT, COUNT, REAL, CHOICE, STRAGGLE };

struct row {
    const char *name, *arg; /* arg NULL for a FLAG */
    enum kind kind;
    size_t offset;            /* in struct train_options */
    double low, high;         /* of a COUNT or REAL */
    const char *const *words; /* of a CHOICE */
    const char *initial;      /* default as a user would write it, or NULL */
    const char *help;
};

#define AT(field) offsetof(struct train_options, field)

static const struct row table[] = {
    {"data", "DIR", TEXT, AT(data), 0, 0, NULL, DEFAULT_DATA,
     "folder of the data set, IDX files, plain or .gz"},
    {"model", "NAME", CHOICE, AT(model), 0, 0, model_names, "cnn",
     "softmax, mlp or cnn"},
    {"epochs", "N", COUNT, AT(epochs), 1, 1e6, NULL, "5",
     "passes over the training set"},
    {"max-steps", "N", COUNT, AT(max_steps), 0, 1e12, NULL, "0",
     "end after so many steps; 0: no limit"},
    {"batch", "N", COUNT, AT(batch), 1, 65536, NULL, "32",
     "samples of one worker's share of a step"},
    {"micro-batches", "M", COUNT, AT(micro_batches), 1, 65536, NULL, "4",
     "parts of a batch, to stop after when cut"},
    {"lr", "RATE", REAL, AT(lr), 0, 1e6, NULL, "0.05", "peak learning rate"},
    {"momentum", "M", REAL, AT(momentum), 0, 0.9999, NULL, "0.9",
     "of stochastic gradient descent"},
    {"schedule", "NAME", CHOICE, AT(schedule), 0, 0, schedule_names, "cosine",
     "constant, step or cosine"},
    {"warmup", "EPOCHS", REAL, AT(warmup_epochs), 0, 1e6, NULL, "0.2",
     "over which the learning rate rises"},
    {"seed", "N", COUNT, AT(seed), 0, 9e15, NULL, "1",
     "of parameters and the order of samples"},
    {"train-samples", "N", COUNT, AT(train_samples), 0, 1e9, NULL, "0",
     "use the first N training images; 0: all"},
    {"eval-batch", "N", COUNT, AT(eval_batch), 1, 65536, NULL, "50",
     "images of a step of the evaluation"},
    {"progress", "HOW", CHOICE, AT(progress), 0, 0, progress_names, "auto",
     "auto, bar, plain or none"},
    {"summary", "FILE", TEXT, AT(summary), 0, 0, NULL, NULL,
     "write a JSON summary; -: to standard output"},
    {"loss-curve", "FILE", TEXT, AT(loss_curve), 0, 0, NULL, NULL,
     "write a CSV line a step"},
    {"straggle", "RANK:FACTOR,...", STRAGGLE, AT(straggle), 0, 0, NULL, NULL,
     "testing aid: take FACTOR times as long"},
    {"help", NULL, FLAG, AT(help), 0, 0, NULL, NULL, "print this and exit"},
    {"version", NULL, FLAG, AT(version), 0, 0, NULL, NULL,
     "print the version and exit"},
};
enum {
    N_ROWS = sizeof table / sizeof table[0],
    HELP_WIDTH = 45 /* columns of a help text and its default */
};

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
        (r->kind == COUNT && x != floor(x)))
        return error_set(err, DSGD_E_USAGE,
                         "--%s: \"%.60s\" is not a %s from %g to %g", r->name,
                         text, r->kind == COUNT ? "whole number" : "number",
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

static enum dsgd_err assign(const struct row *r, const char *text,
                            struct train_options *opt, struct dsgd_error *err)
{
    void *field = (char *)opt + r->offset;
    enum dsgd_err rc = DSGD_OK;
    double number = 0;
    int word = 0;

    switch (r->kind) {
    case FLAG:
        *(bool *)field = true;
        return DSGD_OK;
    case STRAGGLE:
        rc = check_straggle(text, err);
        /* fall through */
    case TEXT:
        if (!*text)
            return error_set(err, DSGD_E_USAGE, "--%s: give a %s", r->name,
                             r->arg);
        *(const char **)field = text;
        return rc;
    case COUNT:
        rc = parse_number(r, text, &number, err);
        *(uint64_t *)field = (uint64_t)number;
        return rc;
    case REAL:
        return parse_number(r, text, field, err);
    case CHOICE:
        /* The enums of the choices are all ints. */
        rc = parse_choice(r, text, &word, err);
        memcpy(field, &word, sizeof word);
        return rc;
    }
    return DSGD_E_FAIL;
}

_Static_assert(sizeof(enum train_model) == sizeof(int) &&
                   sizeof(enum train_schedule) == sizeof(int) &&
                   sizeof(enum train_progress_mode) == sizeof(int),
               "a choice is stored as an int");

/* Read argv[*at] and, where it has one, its value.  Moves *at on. */
static enum dsgd_err parse_one(int argc, char **argv, int *at,
                               struct train_options *opt,
                               struct dsgd_error *err)
{
    const char *word = argv[(*at)++];

    if (strncmp(word, "--", 2) != 0 || !word[2])
        return error_set(err, DSGD_E_USAGE,
                         "\"%.60s\" is not an option; see dsgd-train --help",
                         word);
    const char *name = word + 2, *value = strchr(name, '=');
    size_t length = value ? (size_t)(value - name) : strlen(name);
    const struct row *r = find(name, length);
    if (!r)
        return error_set(err, DSGD_E_USAGE,
                         "--%.*s: there is no such option; see dsgd-train "
                         "--help",
                         length < 60 ? (int)length : 60, name);
    if (r->kind == FLAG)
        return value ? error_set(err, DSGD_E_USAGE, "--%s takes no value",
                                 r->name)
                     : assign(r, NULL, opt, err);
    if (value)
        value++;
    else if (*at < argc)
        value = argv[(*at)++];
    else
        return error_set(err, DSGD_E_USAGE, "--%s needs a value: %s", r->name,
                         r->arg);
    return assign(r, value, opt, err);
}

enum dsgd_err train_options_parse(int argc, char **argv,
                                  struct train_options *out,
                                  struct dsgd_error *err)
{
    struct train_options opt = {0};
    enum dsgd_err rc = DSGD_OK;

    for (size_t i = 0; i < N_ROWS && rc == DSGD_OK; i++) {
        if (table[i].initial)
            rc = assign(&table[i], table[i].initial, &opt, err);
    }
    for (int at = 1; at < argc && rc == DSGD_OK;)
        rc = parse_one(argc, argv, &at, &opt, err);
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
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct row *r = &table[i];
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", r->name, r->arg ? " " : "",
                 r->arg ? r->arg : "");
        fprintf(out, "  %-28s %s", left, r->help);
        if (r->initial && strlen(r->help) + strlen(r->initial) > HELP_WIDTH)
            fprintf(out, "\n%31s", "");
        if (r->initial)
            fprintf(out, " [%s]", r->initial);
        fprintf(out, "\n");
    }
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
