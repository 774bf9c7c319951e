#include "option_refused.h"

#include <string.h>

#include "error.h"

/* For a long option with a value that it does not take, the letter is its own;
 * for any other long one 0.  The word is only right for long ones: of several
 * letters after one "-" the next may be left. */
enum dsgd_err option_refused(const char *word, int letter,
                             const struct option *known, struct dsgd_error *err)
{
    while (letter && known->name && known->val != letter)
        known++;
    if (letter && known->name)
        return error_set(err, DSGD_E_USAGE, "%.*s takes no value",
                         (int)strcspn(word, "="), word);
    if (letter)
        return error_set(err, DSGD_E_USAGE, "-%c: no such option; see --help",
                         letter);
    return error_set(err, DSGD_E_USAGE,
                     "%.60s: no such option, or short for several; see --help",
                     word);
}
