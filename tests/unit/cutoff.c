#include "cutoff.h"
#include "rng.h"
#include "tap.h"

static void parse_bad(const char *text, const char *part)
{
    struct cutoff_spec spec = {.k = 77};
    struct dsgd_error err = {""};

    ok(cutoff_parse("--dsgd-cutoff", text, &spec, &err) == DSGD_E_USAGE &&
           spec.k == 77 && strstr(err.text, part) &&
           strncmp(err.text, "--dsgd-cutoff: ", 15) == 0,
       "\"%s\" is refused: %s", text, err.text);
}

static void parse(void)
{
    struct cutoff_spec spec;

    ok(cutoff_parse("x", NULL, &spec, NULL) == DSGD_OK &&
           spec.mode == CUTOFF_FULL,
       "NULL means full");
    ok(cutoff_parse("x", "order", &spec, NULL) == DSGD_OK &&
           spec.mode == CUTOFF_ORDER,
       "order");
    ok(cutoff_parse("x", "static:12", &spec, NULL) == DSGD_OK && spec.k == 12,
       "static:12");
    ok(cutoff_parse("x", "static:90%", &spec, NULL) == DSGD_OK &&
           spec.percent == 90 && !spec.k,
       "static:90%%");
    is_int((long long)cutoff_static_k(&spec, 16), 15,
           "90 %% of 16, rounded up");
    cutoff_parse("x", "static:50%", &spec, NULL);
    is_int((long long)cutoff_static_k(&spec, 16), 8, "50 %% of 16 is 8");
    ok(cutoff_parse("x", "replay:a/b", &spec, NULL) == DSGD_OK &&
           strcmp(spec.file, "a/b") == 0,
       "replay:FILE");
    parse_bad("dynmic", "\"dynmic\" is none of " CUTOFF_MODES);
    parse_bad("static", "is none of");
    parse_bad("static:", "give a number of workers or a percentage");
    parse_bad("static:0", "at least 1");
    parse_bad("static:-3", "at least 1");
    parse_bad("static:1.5", "whole number");
    parse_bad("static:12x", "whole number");
    parse_bad("static:nan", "give a number");
    parse_bad("static:0%", "above 0 and at most 100");
    parse_bad("static:200%", "above 0 and at most 100");
    parse_bad("replay:", "give the record");
}

static enum dsgd_err make(const char *text, size_t n, size_t min,
                          struct cutoff **c, struct dsgd_error *err)
{
    struct cutoff_spec spec;
    cutoff_parse("x", text, &spec, NULL);
    return cutoff_create(&spec, n, min, 0, c, err);
}

static void create_bad(const char *text, size_t min, enum dsgd_err code,
                       const char *part)
{
    struct dsgd_error err = {""};
    struct cutoff *c = (struct cutoff *)&err;

    enum dsgd_err rc = make(text, 4, min, &c, &err);
    ok(rc == code && !c && strstr(err.text, part), "%s of 4: %s", text,
       err.text);
}

static void targets(void)
{
    bool working[4] = {true, true, true, true};
    struct cutoff *c;

    make("full", 4, 0, &c, NULL);
    is_int((long long)cutoff_begin(c, working, 0), 4, "full waits for all");
    working[2] = false;
    is_int((long long)cutoff_begin(c, working, 0), 3, "who can contribute");
    cutoff_destroy(c);
    make("static:3", 4, 0, &c, NULL);
    is_int((long long)cutoff_begin(c, working, 0), 3, "static:3 of 3");
    working[0] = false;
    is_int((long long)cutoff_begin(c, working, 0), 2, "min(K, alive)");
    working[1] = working[3] = false;
    is_int((long long)cutoff_begin(c, working, 0), 0, "nobody");
    cutoff_destroy(c);
    make("static:25%", 4, 2, &c, NULL);
    working[0] = working[1] = working[3] = true;
    is_int((long long)cutoff_begin(c, working, 0), 2, "never below min");
    cutoff_destroy(c);
    cutoff_destroy(NULL);
}

static void steps(struct cutoff *c, const double *duration_s, int count)
{
    for (int t = 0; t < count; t++) {
        for (size_t w = 0; w < 16; w++)
            cutoff_observe(c, w, duration_s[w] * (1 + 0.01 * ((t + w) % 3)));
        cutoff_end(c);
    }
}

/* One node of four is three times slower: its workers are cut; when it gets
 * well again, the window forgets. */
static void order(void)
{
    bool working[16];
    double duration_s[16];
    struct cutoff *c;

    for (int w = 0; w < 16; w++) {
        working[w] = true;
        duration_s[w] = w >= 8 && w < 12 ? 3 : 1;
    }
    make("order", 16, 0, &c, NULL);
    is_int((long long)cutoff_begin(c, working, 0), 16, "order starts with all");
    ok(isnan(cutoff_median_s(c)), "no median yet");
    steps(c, duration_s, 10);
    size_t k = cutoff_begin(c, working, 0);
    ok(k >= 8 && k <= 13, "four slow ones of 16 are cut (k = %zu)", k);
    near(cutoff_median_s(c), 1.01, 0.02, "median duration");
    for (int w = 8; w < 12; w++)
        duration_s[w] = 1;
    steps(c, duration_s, 10);
    is_int((long long)cutoff_begin(c, working, 0), 16, "and come back");
    cutoff_observe(c, 3, NAN);
    cutoff_observe(c, 3, -1);
    cutoff_observe(c, 99, 1);
    cutoff_end(c);
    near(cutoff_median_s(c), 1.01, 0.02, "nonsense is ignored");
    is_int((long long)cutoff_steps(c), 21, "steps are counted");
    cutoff_destroy(c);
}

static int ascending(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* The median without sorting is that of sorting: with ties, in any order. */
static void median(void)
{
    double seen[10 * 60];
    struct rng rng;
    int wrong = 0;

    rng_seed(&rng, 5, 0);
    for (size_t n = 1; n <= 60; n++) {
        struct cutoff *c;
        size_t count = 0;
        make("full", n, 0, &c, NULL);
        for (size_t row = 0; row < 1 + n % 10; row++) {
            for (size_t w = 0; w < n; w++) {
                seen[count] = 1 + (double)rng_below(&rng, n % 7 * 3 + 1);
                cutoff_observe(c, w, seen[count++]);
            }
            cutoff_end(c);
        }
        qsort(seen, count, sizeof *seen, ascending);
        wrong += !(fabs(cutoff_median_s(c) - seen[count / 2]) < 1e-4);
        cutoff_destroy(c);
    }
    is_int(wrong, 0, "medians of windows of all sizes");
}

int main(void)
{
    parse();
    create_bad("static:5", 0, DSGD_E_USAGE, "more workers than the 4");
    create_bad("full", 5, DSGD_E_USAGE, "--dsgd-min: 5 is more than the 4");
    targets();
    order();
    median();
    return done();
}
