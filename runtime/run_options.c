#include "run_options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "run_box.h"

enum { MOST_WORKERS = RUN_BOX_WORKERS, MOST_RESTARTS = 1000000 };

/* A row an option: what getopt_long is given and what --help shows. */
struct row {
    const char *name, *arg, *help;
    int letter; /* or a number past those of letters */
};
enum { OPT_RESTARTS = 256, OPT_VERSION };

static const struct row table[] = {
    {"workers", "N[,N...]", "workers a node, or of each node [its CPUs]", 'w'},
    {"restarts", "N", "start a worker that died again N times [3]",
     OPT_RESTARTS},
    {"label", NULL, "put the worker's rank before each line of output", 'l'},
    {"help", NULL, "show this and exit", 'h'},
    {"version", NULL, "show the version and exit", OPT_VERSION},
};
enum { N_ROWS = sizeof table / sizeof table[0] };

static bool read_count(const char *text, char **end, unsigned long most,
                       uint32_t *n)
{
    errno = 0;
    unsigned long number = strtoul(text, end, 10);
    if (!isdigit((unsigned char)*text) || errno || number > most)
        return false;
    *n = (uint32_t)number;
    return true;
}

/* Numbers from 1 on, with commas between.
 *   at, n  out  the number at that index; may be NULL
 * Returns how many, 0: not such a list. */
static uint32_t read_list(const char *text, uint32_t at, uint32_t *n)
{
    uint32_t count = 0, number;
    char *end;

    for (;; text = end + 1) {
        if (!read_count(text, &end, MOST_WORKERS, &number) || number < 1)
            return 0;
        if (n && count == at)
            *n = number;
        count++;
        if (!*end)
            return count;
        if (*end != ',')
            return 0;
    }
}

static enum dsgd_err bad_list(const char *text, struct dsgd_error *err)
{
    return error_set(err, DSGD_E_USAGE,
                     "--workers: \"%.40s\" is not a number from 1 to %d, nor a "
                     "list of them with commas, one for each node",
                     text, MOST_WORKERS);
}

enum dsgd_err run_options_workers(const char *text, uint32_t node,
                                  uint32_t n_nodes, uint32_t cpus, uint32_t *n,
                                  struct dsgd_error *err)
{
    uint32_t number = cpus ? cpus : 1;

    if (text) {
        uint32_t count = read_list(text, 0, &number);
        if (count == 0)
            return bad_list(text, err);
        if (count != 1 && count != n_nodes)
            return error_set(err, DSGD_E_USAGE,
                             "--workers: \"%.40s\" has %u numbers and the run "
                             "has %u nodes; give one for all, or one for each",
                             text, count, n_nodes);
        if (count > 1)
            read_list(text, node, &number);
    }
    *n = number;
    return DSGD_OK;
}

static enum dsgd_err set(struct run_options *opt, int letter, const char *value,
                         struct dsgd_error *err)
{
    char *end;

    switch (letter) {
    case 'w':
        opt->workers = value;
        return read_list(value, 0, NULL) ? DSGD_OK : bad_list(value, err);
    case OPT_RESTARTS:
        if (!read_count(value, &end, MOST_RESTARTS, &opt->restarts) || *end)
            return error_set(err, DSGD_E_USAGE,
                             "--restarts: \"%.40s\" is not a number from 0 to "
                             "%d",
                             value, MOST_RESTARTS);
        return DSGD_OK;
    case 'l':
        opt->label = true;
        return DSGD_OK;
    case 'h':
        opt->help = true;
        return DSGD_OK;
    default:
        opt->version = true;
        return DSGD_OK;
    }
}

/* What getopt_long did not take. */
static enum dsgd_err refuse(int letter, const char *argument,
                            struct dsgd_error *err)
{
    if (letter == ':')
        return error_set(err, DSGD_E_USAGE, "%.40s: needs a value; see --help",
                         argument);
    return error_set(err, DSGD_E_USAGE,
                     "%.40s: no such option of dsgd-run; its own come before "
                     "the program, see --help",
                     argument);
}

enum dsgd_err run_options_parse(int argc, char **argv, struct run_options *out,
                                struct dsgd_error *err)
{
    struct run_options opt = {.restarts = 3};
    struct option longs[N_ROWS + 1] = {{0}};
    enum dsgd_err rc = DSGD_OK;
    int letter;

    for (size_t i = 0; i < N_ROWS; i++)
        longs[i] = (struct option){table[i].name, table[i].arg != NULL, NULL,
                                   table[i].letter};
    optind = 0; /* from the start, also the second time */
    opterr = 0;
    while (rc == DSGD_OK &&
           (letter = getopt_long(argc, argv, "+:w:lh", longs, NULL)) != -1) {
        if (letter == '?' || letter == ':')
            rc = refuse(letter, argv[optind - 1], err);
        else
            rc = set(&opt, letter, optarg, err);
    }
    if (rc == DSGD_OK && !opt.help && !opt.version && optind >= argc)
        rc = error_set(err, DSGD_E_USAGE,
                       "no program to run; usage: dsgd-run [options] PROGRAM "
                       "[argument ...]");
    opt.command = argv + optind;
    if (rc == DSGD_OK)
        *out = opt;
    return rc;
}

void run_options_help(FILE *out)
{
    fprintf(out, "usage: dsgd-run [options] PROGRAM [argument ...]\n\n"
                 "Start the workers of a node, and others in the place of "
                 "those that die.\nOne dsgd-run a node: srun "
                 "--ntasks-per-node=1 dsgd-run -w 40 ./train\n\n");
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct row *r = &table[i];
        char left[64], letter[8] = "   ";
        if (r->letter < 256)
            snprintf(letter, sizeof letter, "-%c,", r->letter);
        snprintf(left, sizeof left, "%s --%s%s%s", letter, r->name,
                 r->arg ? " " : "", r->arg ? r->arg : "");
        fprintf(out, "  %-28s %s\n", left, r->help);
    }
}
