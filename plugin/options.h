/* The --dsgd-* options, and the arguments of the plugin's plugstack.conf line.
 * Both are checked by the same rules. */
#ifndef DSGD_PLUGIN_OPTIONS_H
#define DSGD_PLUGIN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "dsgd_names.h"

enum option_id {
    OPTION_CUTOFF,
    OPTION_MIN,
    OPTION_MODEL,
    OPTION_RECORD,
    OPTION_LATE,
    OPTION_PARTIAL,
    OPTION_LR_SCALE,
    OPTION_MAX_CUTS,
    OPTION_MAX_CUT_SHARE,
    OPTION_WORK,
    OPTION_PARTS,
    OPTION_BATCH_SLACK
};

enum {
    N_OPTIONS = OPTION_BATCH_SLACK + 1,
    OPTION_BYTES = sizeof "replay:" - 1 + DSGD_PATH_BYTES,
    RECORD_DIR_BYTES = DSGD_PATH_BYTES - 64 /* room for a user's name */
};

/* One line of explanation, without a newline. */
struct option_fault {
    char text[384];
};

struct option_value {
    bool given;
    bool bad; /* given, but fails option_check; text is empty */
    char text[OPTION_BYTES];
};

struct plugin_args {
    struct option_value value[N_OPTIONS]; /* defaults for every job */
    char record_dir[RECORD_DIR_BYTES];    /* "": none */
    long window_ms; /* between two looks at the node's counters; 0: one look */
};

/* An option's name without the dashes: "dsgd-cutoff". */
const char *option_name(enum option_id id);

/* Check an option's value.
 *   name   in   what it came from, for the message: "--dsgd-cutoff"
 *   text   in   NULL and "" are the same
 *   fault  out  the reason, printable whatever is in text
 * A cutoff gets the same verdict as from cutoff_parse in model/cutoff.h.
 * Returns true when the value is good. */
bool option_check(enum option_id id, const char *name, const char *text,
                  struct option_fault *fault);

/* Check a value and keep it; a later one replaces an earlier one.
 * Returns true when it is good, else fills fault and value->bad. */
bool option_set(enum option_id id, const char *name, const char *text,
                struct option_value *value, struct option_fault *fault);

/* Read the arguments of a plugstack.conf line: the options without dsgd- and
 * with _ for -, record_dir=, window_ms=.
 *   argv   [argc] in   NULL entries are skipped
 *   args   out         a bad argument counts as absent
 *   fault  out         the first bad argument
 * Returns true when all were good. */
bool plugin_args_read(int argc, char *const *argv, struct plugin_args *args,
                      struct option_fault *fault);

#endif
