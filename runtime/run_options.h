/* The command line of dsgd-run. */
#ifndef DSGD_RUN_OPTIONS_H
#define DSGD_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "dsgd_error.h"

struct run_options {
    const char *workers; /* "40" or "39,39,40,40", NULL: not said */
    uint64_t restarts;   /* of each worker */
    bool label;          /* lines of output start with the worker's rank */
    char **command;      /* the program and its arguments, NULL-terminated */
    bool help, version;  /* asked for: the rest is not to be used */
};

/* Read a command line.
 *   argc, argv  in   as of main; strings are kept, not copied
 *   opt         out  untouched on error
 * Local.  Errors: DSGD_E_USAGE (the text names the option and the value). */
enum dsgd_err run_options_parse(int argc, char **argv, struct run_options *opt,
                                struct dsgd_error *err);

/* How many workers a node has.
 *   text           in   of --workers; NULL: cpus
 *   node, n_nodes  in   a list must have one number, or one for each node
 *   cpus           in   of this node's allocation
 *   n              out  >= 1; untouched on error
 * Errors: DSGD_E_USAGE. */
enum dsgd_err run_options_workers(const char *text, uint32_t node,
                                  uint32_t n_nodes, uint32_t cpus, uint32_t *n,
                                  struct dsgd_error *err);

/* Print what --help prints. */
void run_options_help(FILE *out);

#endif
