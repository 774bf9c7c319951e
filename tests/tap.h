/* Test Anything Protocol for the unit tests: ok(), is_int(), is_str(), near(),
 * and done() as the last statement of main. */
#ifndef DSGD_TESTS_TAP_H
#define DSGD_TESTS_TAP_H

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int tap_run, tap_failed;

__attribute__((format(printf, 2, 3), unused)) static bool
ok(bool good, const char *name, ...)
{
    va_list ap;
    tap_run++;
    if (!good)
        tap_failed++;
    printf("%s %d - ", good ? "ok" : "not ok", tap_run);
    va_start(ap, name);
    vprintf(name, ap);
    va_end(ap);
    printf("\n");
    fflush(stdout);
    return good;
}

__attribute__((unused)) static bool is_int(long long got, long long want,
                                           const char *name)
{
    bool good = ok(got == want, "%s", name);
    if (!good)
        printf("#   got %lld, want %lld\n", got, want);
    return good;
}

__attribute__((unused)) static bool is_str(const char *got, const char *want,
                                           const char *name)
{
    bool good = ok(got && want && strcmp(got, want) == 0, "%s", name);
    if (!good)
        printf("#   got  \"%s\"\n#   want \"%s\"\n", got ? got : "(null)",
               want ? want : "(null)");
    return good;
}

/* text contains part */
__attribute__((unused)) static bool has_str(const char *text, const char *part,
                                            const char *name)
{
    bool good = ok(text && strstr(text, part), "%s", name);
    if (!good)
        printf("#   \"%s\" lacks \"%s\"\n", text ? text : "(null)", part);
    return good;
}

/* |got - want| <= tol; NaN fails */
__attribute__((unused)) static bool near(double got, double want, double tol,
                                         const char *name)
{
    bool good = ok(fabs(got - want) <= tol, "%s", name);
    if (!good)
        printf("#   got %.17g, want %.17g +- %g\n", got, want, tol);
    return good;
}

__attribute__((unused)) static int done(void)
{
    printf("1..%d\n", tap_run);
    return tap_failed ? 1 : 0;
}

#endif
