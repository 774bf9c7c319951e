#include "cutoff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "order_stats.h"
#include "sort.h"

enum { DEFAULT_WINDOW = 10 };

struct cutoff {
    struct cutoff_spec spec;
    size_t n, min, window;
    uint64_t steps;  /* ended */
    float *log_s;    /* [window][n] log durations, NaN: never seen */
    float *last_s;   /* [n] log of the last known duration, NaN */
    double *order_s; /* [n] scratch: expected arrivals */
    float *sort_s;   /* [window * n] scratch of the median */
    double median_s; /* after median_steps, see cutoff_median_s */
    uint64_t median_steps;
};

static enum dsgd_err parse_static(const char *name, const char *text,
                                  struct cutoff_spec *spec,
                                  struct dsgd_error *err)
{
    const char *value = text + strlen("static:");
    char *end;
    double number = strtod(value, &end);

    if (end == value || !isfinite(number))
        return error_set(err, DSGD_E_USAGE,
                         "%s: \"%.60s\": give a number of workers or a "
                         "percentage, such as static:12 or static:90%%",
                         name, text);
    if (strcmp(end, "%") == 0) {
        if (!(number > 0 && number <= 100))
            return error_set(err, DSGD_E_USAGE,
                             "%s: \"%.60s\": the percentage must be above 0 "
                             "and at most 100",
                             name, text);
        spec->percent = number;
        return DSGD_OK;
    }
    if (*end || number != floor(number) || number < 1 || number > 1e9)
        return error_set(err, DSGD_E_USAGE,
                         "%s: \"%.60s\": the number of workers must be a "
                         "whole number, at least 1",
                         name, text);
    spec->k = (size_t)number;
    return DSGD_OK;
}

enum dsgd_err cutoff_parse(const char *name, const char *text,
                           struct cutoff_spec *spec, struct dsgd_error *err)
{
    static const struct {
        const char *word;
        enum cutoff_mode mode;
    } plain[] = {
        {"", CUTOFF_FULL},       {"full", CUTOFF_FULL},
        {"order", CUTOFF_ORDER}, {"dynamic", CUTOFF_DYNAMIC},
        {"dry", CUTOFF_DRY},
    };
    struct cutoff_spec s = {.mode = CUTOFF_FULL};

    if (!text)
        text = "";
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (strcmp(text, plain[i].word) == 0) {
            s.mode = plain[i].mode;
            *spec = s;
            return DSGD_OK;
        }
    }
    if (strncmp(text, "static:", 7) == 0) {
        s.mode = CUTOFF_STATIC;
        enum dsgd_err rc = parse_static(name, text, &s, err);
        if (rc == DSGD_OK)
            *spec = s;
        return rc;
    }
    if (strncmp(text, "replay:", 7) == 0) {
        s.mode = CUTOFF_REPLAY;
        size_t len = strlen(text + 7);
        if (len < 1 || len >= sizeof s.file)
            return error_set(err, DSGD_E_USAGE,
                             "%s: \"%.60s\": give the record to replay, "
                             "replay:FILE, in fewer than %zu bytes",
                             name, text, sizeof s.file);
        memcpy(s.file, text + 7, len + 1);
        *spec = s;
        return DSGD_OK;
    }
    return error_set(err, DSGD_E_USAGE, "%s: \"%.60s\" is none of %s", name,
                     text, CUTOFF_MODES);
}

size_t cutoff_static_k(const struct cutoff_spec *spec, size_t n_workers)
{
    if (spec->k)
        return spec->k;
    size_t k = (size_t)ceil(spec->percent / 100 * (double)n_workers - 1e-9);
    return k < 1 ? 1 : k;
}

static enum dsgd_err check_spec(const struct cutoff_spec *spec,
                                size_t n_workers, size_t min,
                                struct dsgd_error *err)
{
    if (n_workers < 1)
        return error_set(err, DSGD_E_RANGE, "cutoff: no workers");
    if (spec->mode == CUTOFF_STATIC && spec->k > n_workers)
        return error_set(err, DSGD_E_USAGE,
                         "--dsgd-cutoff: static:%zu waits for more workers "
                         "than the %zu that there are; use static:%zu or "
                         "less, or full",
                         spec->k, n_workers, n_workers);
    if (min > n_workers)
        return error_set(err, DSGD_E_USAGE,
                         "--dsgd-min: %zu is more than the %zu workers that "
                         "there are",
                         min, n_workers);
    return DSGD_OK;
}

enum dsgd_err cutoff_create(const struct cutoff_spec *spec, size_t n_workers,
                            size_t min, size_t window, struct cutoff **out,
                            struct dsgd_error *err)
{
    *out = NULL;
    enum dsgd_err rc = check_spec(spec, n_workers, min, err);
    if (rc != DSGD_OK)
        return rc;
    if (!window)
        window = DEFAULT_WINDOW;
    struct cutoff *c = calloc(1, sizeof *c);
    size_t cells;
    if (!c || __builtin_mul_overflow(window, n_workers, &cells)) {
        free(c);
        return error_set(err, DSGD_E_NOMEM, "cutoff: no memory");
    }
    c->spec = *spec;
    c->n = n_workers;
    c->min = min;
    c->window = window;
    c->median_s = NAN;
    c->log_s = calloc(cells, sizeof *c->log_s);
    c->last_s = calloc(n_workers, sizeof *c->last_s);
    c->order_s = calloc(n_workers, sizeof *c->order_s);
    c->sort_s = calloc(cells, sizeof *c->sort_s);
    if (!c->log_s || !c->last_s || !c->order_s || !c->sort_s) {
        cutoff_destroy(c);
        return error_set(err, DSGD_E_NOMEM, "cutoff: no memory for %zu workers",
                         n_workers);
    }
    for (size_t i = 0; i < cells; i++)
        c->log_s[i] = NAN;
    for (size_t i = 0; i < n_workers; i++)
        c->last_s[i] = NAN;
    *out = c;
    return DSGD_OK;
}

void cutoff_destroy(struct cutoff *c)
{
    if (!c)
        return;
    free(c->log_s);
    free(c->last_s);
    free(c->order_s);
    free(c->sort_s);
    free(c);
}

/* Mean and standard deviation of the working workers' log durations. */
static size_t window_moments(const struct cutoff *c, const bool *working,
                             double *mean, double *sd)
{
    size_t rows = c->steps < c->window ? (size_t)c->steps : c->window;
    size_t count = 0;
    double sum = 0, squares = 0;

    for (size_t r = 0; r < rows; r++) {
        for (size_t w = 0; w < c->n; w++) {
            double x = c->log_s[r * c->n + w];
            if (!working[w] || isnan(x))
                continue;
            count++;
            double delta = x - sum;
            sum += delta / (double)count;
            squares += delta * (x - sum);
        }
    }
    *mean = sum;
    *sd = count > 1 ? sqrt(squares / (double)(count - 1)) : 0;
    return count;
}

/* Elfving's formula is applied to log durations: run-times are positive and
 * skewed, and the plain formula expects times below zero when they spread. */
static size_t order_target(struct cutoff *c, const bool *working,
                           size_t n_working, double overhead_s)
{
    double mean, sd;
    size_t k = n_working;

    if (c->steps < 2 || window_moments(c, working, &mean, &sd) < 2)
        return n_working;
    for (size_t i = 0; i < n_working; i++)
        c->order_s[i] = exp(mean + sd * elfving(i + 1, n_working));
    cutoff_pick(n_working, c->order_s, overhead_s, &k, NULL);
    return k;
}

size_t cutoff_begin(struct cutoff *c, const bool *working, double overhead_s)
{
    size_t n_working = 0, k;

    for (size_t w = 0; w < c->n; w++)
        n_working += working[w];
    if (!n_working)
        return 0;
    k = n_working;
    if (c->spec.mode == CUTOFF_STATIC)
        k = cutoff_static_k(&c->spec, c->n);
    else if (c->spec.mode == CUTOFF_ORDER)
        k = order_target(c, working, n_working, overhead_s);
    if (k < c->min)
        k = c->min;
    return k < n_working ? k : n_working;
}

void cutoff_observe(struct cutoff *c, size_t worker, double duration_s)
{
    if (worker < c->n && duration_s > 0 && isfinite(duration_s))
        c->last_s[worker] = (float)log(duration_s);
}

void cutoff_end(struct cutoff *c)
{
    size_t row = (size_t)(c->steps % c->window);

    memcpy(c->log_s + row * c->n, c->last_s, c->n * sizeof *c->log_s);
    c->steps++;
}

/* The mean of a step does not wait for it: it is found when it is asked for. */
static double find_median_s(struct cutoff *c)
{
    size_t rows = c->steps < c->window ? (size_t)c->steps : c->window;
    size_t count = 0;

    for (size_t i = 0; i < rows * c->n; i++) {
        if (!isnan(c->log_s[i]))
            c->sort_s[count++] = c->log_s[i];
    }
    return count ? exp(sort_nth(count, c->sort_s, count / 2)) : NAN;
}

double cutoff_median_s(struct cutoff *c)
{
    if (c->median_steps != c->steps)
        c->median_s = find_median_s(c);
    c->median_steps = c->steps;
    return c->median_s;
}

uint64_t cutoff_steps(const struct cutoff *c)
{
    return c->steps;
}
