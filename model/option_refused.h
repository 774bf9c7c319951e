/* What to say of options that getopt_long does not take. */
#ifndef DSGD_OPTION_REFUSED_H
#define DSGD_OPTION_REFUSED_H

#include <getopt.h>

#include "dsgd_error.h"

/* It returned '?', with opterr 0.
 *   word    in  argv[optind - 1]
 *   letter  in  optopt
 *   known   in  the long options
 * Returns DSGD_E_USAGE. */
enum dsgd_err option_refused(const char *word, int letter,
                             const struct option *known,
                             struct dsgd_error *err);

#endif
