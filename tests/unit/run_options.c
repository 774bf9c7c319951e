/* The command line of dsgd-run. */
#include "run_options.h"
#include "tap.h"

static enum dsgd_err parse(struct run_options *opt, struct dsgd_error *err,
                           const char *a, const char *b, const char *c,
                           const char *d)
{
    static char *argv[6];
    const char *given[] = {"dsgd-run", a, b, c, d};
    int argc = 0;

    for (; argc < 5 && given[argc]; argc++)
        argv[argc] = (char *)(uintptr_t)given[argc];
    argv[argc] = NULL;
    return run_options_parse(argc, argv, opt, err);
}

static void good(void)
{
    struct run_options opt;
    struct dsgd_error err;

    is_int(parse(&opt, &err, "train", "-l", NULL, NULL), DSGD_OK, "a program");
    ok(!opt.label && strcmp(opt.command[1], "-l") == 0,
       "what follows it is its own");
    ok(!opt.workers && opt.restarts == 3, "defaults");
    is_int(parse(&opt, &err, "-w", "39,40", "-l", "train"), DSGD_OK, "a list");
    is_str(opt.workers, "39,40", "is kept");
    ok(opt.label, "with labels");
    is_int(parse(&opt, &err, "--restarts=0", "train", NULL, NULL), DSGD_OK,
           "no restarts");
    is_int((long long)opt.restarts, 0, "none");
    is_int(parse(&opt, &err, "--help", NULL, NULL, NULL), DSGD_OK, "help");
    ok(opt.help, "needs no program");
}

static void bad(void)
{
    static const struct {
        const char *a, *b, *text;
    } cases[] = {
        {NULL, NULL, "no program to run"},
        {"--restarts", "x", "--restarts: \"x\" is not a whole number from 0"},
        {"--restarts", "2x", "\"2x\""},
        {"-w", "0", "--workers: \"0\" is not a number from 1"},
        {"-w", "3,", "\"3,\""},
        {"-w", "", "--workers: give a N"},
        {"-w", "-1", "\"-1\""},
        {"-w", "5000", "from 1 to 4096"},
        {"-w", NULL, "--workers needs a value"},
        {"-w3", "true", "\"-w3\" is not an option"},
        {"--frob", "true", "--frob: there is no such option; see dsgd-run"},
    };
    struct run_options opt = {.restarts = 77};
    struct dsgd_error err;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        is_int(parse(&opt, &err, cases[i].a, cases[i].b,
                     cases[i].b ? "true" : NULL, NULL),
               DSGD_E_USAGE, cases[i].text);
        has_str(err.text, cases[i].text, "says so");
    }
    is_int((long long)opt.restarts, 77, "options are untouched on error");
}

static void workers(void)
{
    struct dsgd_error err;
    uint32_t n = 9;

    is_int(run_options_workers("4", 2, 3, 8, &n, &err), DSGD_OK, "one number");
    is_int(n, 4, "for all");
    is_int(run_options_workers("4,5,6", 2, 3, 8, &n, &err), DSGD_OK, "a list");
    is_int(n, 6, "by node");
    is_int(run_options_workers(NULL, 2, 3, 8, &n, &err), DSGD_OK, "nothing");
    is_int(n, 8, "the CPUs");
    is_int(run_options_workers(NULL, 0, 1, 0, &n, &err), DSGD_OK, "no CPUs");
    is_int(n, 1, "still one");
    is_int(run_options_workers("4,5", 0, 3, 8, &n, &err), DSGD_E_USAGE,
           "a list of another length");
    has_str(err.text, "has 2 numbers and the run has 3 nodes", "says so");
    is_int(n, 1, "untouched on error");
}

int main(void)
{
    good();
    bad();
    workers();
    return done();
}
