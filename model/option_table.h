/* The long options of a program, described by one table: their parsing, their
 * defaults and their help. */
#ifndef DSGD_OPTION_TABLE_H
#define DSGD_OPTION_TABLE_H

#include <stddef.h>
#include <stdio.h>

#include "dsgd_error.h"

/* What an option's value is, and the type of the field that it goes to. */
enum option_type {
    OPTION_FLAG,     /* bool; takes no value */
    OPTION_TEXT,     /* const char *; not empty */
    OPTION_OPTIONAL, /* const char *; "" when only the name is given */
    OPTION_COUNT,    /* uint64_t, a whole number from low to high */
    OPTION_REAL,     /* double from low to high */
    OPTION_CHOICE    /* an enum as wide as int, the index of one of the words */
};

struct option_row {
    const char *name, *arg; /* arg NULL for a flag */
    enum option_type type;
    size_t offset;            /* of the field */
    double low, high;         /* of a count or real number */
    const char *const *words; /* of a choice, NULL at the end */
    const char *initial;      /* default as a user would write it, or NULL */
    const char *help;
};

struct option_table {
    const char *program;
    const struct option_row *row; /* [n] */
    size_t n;
    const char *output; /* the option that -o stands for, or NULL */
};

/* Give the fields of all options with a default their value.
 *   options  inout  the program's structure of fields
 * Errors: DSGD_E_USAGE (a default that the table itself refuses). */
enum dsgd_err option_table_defaults(const struct option_table *t, void *options,
                                    struct dsgd_error *err);

/* Read the option at argv[*at] and, where it has one, its value.
 *   at       inout  moves past what was read
 *   options  inout  strings are kept, not copied
 * Errors: DSGD_E_USAGE (the text names the option and the value). */
enum dsgd_err option_table_read(const struct option_table *t, int argc,
                                char **argv, int *at, void *options,
                                struct dsgd_error *err);

/* Print an option a line, with its default. */
void option_table_help(const struct option_table *t, FILE *out);

#endif
