#include "run_options.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "option_table.h"
#include "run_box.h"

enum { MOST_WORKERS = RUN_BOX_WORKERS };

#define AT(field) offsetof(struct run_options, field)

static const struct option_row table[] = {
    {"workers", "N[,N...]", OPTION_TEXT, AT(workers), 0, 0, NULL, NULL,
     "-w: workers a node, or of each node; else its CPUs"},
    {"restarts", "N", OPTION_COUNT, AT(restarts), 0, 1000, NULL, "3",
     "start a worker that died again so often"},
    {"label", NULL, OPTION_FLAG, AT(label), 0, 0, NULL, NULL,
     "-l: put its rank before a worker's lines"},
    {"help", NULL, OPTION_FLAG, AT(help), 0, 0, NULL, NULL,
     "print this and exit"},
    {"version", NULL, OPTION_FLAG, AT(version), 0, 0, NULL, NULL,
     "print the version and exit"},
};
static const struct option_table options = {
    "dsgd-run", table, sizeof table / sizeof table[0], NULL};

/* As srun writes them. */
static const char *const letters[][2] = {
    {"-w", "--workers"}, {"-l", "--label"}, {"-h", "--help"}};

/* Numbers from 1 on, with commas between.
 *   at, n  out  the number at that index; may be NULL
 * Returns how many, 0: not such a list. */
static uint32_t read_list(const char *text, uint32_t at, uint32_t *n)
{
    uint32_t count = 0;
    char *end;

    for (;; text = end + 1) {
        errno = 0;
        unsigned long number = strtoul(text, &end, 10);
        if (!isdigit((unsigned char)*text) || errno || number < 1 ||
            number > MOST_WORKERS)
            return 0;
        if (n && count == at)
            *n = (uint32_t)number;
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

/* Read one option of the table, by its name or letter. */
static enum dsgd_err parse_one(int argc, char **argv, int *at,
                               struct run_options *opt, struct dsgd_error *err)
{
    char *word = argv[*at];
    int here = *at;

    for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++) {
        if (strcmp(word, letters[i][0]) == 0)
            argv[here] = (char *)(uintptr_t)letters[i][1];
    }
    enum dsgd_err rc = option_table_read(&options, argc, argv, at, opt, err);
    argv[here] = word;
    return rc;
}

enum dsgd_err run_options_parse(int argc, char **argv, struct run_options *out,
                                struct dsgd_error *err)
{
    struct run_options opt = {0};
    enum dsgd_err rc = option_table_defaults(&options, &opt, err);
    int at = 1;

    while (rc == DSGD_OK && at < argc && *argv[at] == '-') {
        if (strcmp(argv[at], "--") == 0) {
            at++;
            break;
        }
        rc = parse_one(argc, argv, &at, &opt, err);
    }
    if (rc == DSGD_OK && opt.workers && read_list(opt.workers, 0, NULL) == 0)
        rc = bad_list(opt.workers, err);
    if (rc == DSGD_OK && !opt.help && !opt.version && at >= argc)
        rc = error_set(err, DSGD_E_USAGE,
                       "no program to run; usage: dsgd-run [options] PROGRAM "
                       "[argument ...]");
    opt.command = argv + at;
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
    option_table_help(&options, out);
}
