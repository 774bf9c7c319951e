#include "report_slow.h"

#include <math.h>
#include <stdlib.h>

#include "error.h"
#include "report_stats.h"

enum { MIN_PART = 25, MAX_PARTS = 8 };

enum compared { NOT_COMPARED, NOT_SLOWER, SLOWER };

struct work {
    size_t rows, units, parts;
    const float *duration_s;
    unsigned char *compared; /* [rows][units] */
    float *column;           /* [rows] scratch */
    float *median;           /* [units] of the range looked at */
    size_t *order;           /* [units] scratch */
    double *others;          /* [units] scratch */
};

double report_slow_tail(uint64_t n, uint64_t k)
{
    double log_half = log(.5) * (double)n, sum = 0;

    if (k == 0)
        return 1;
    for (uint64_t i = k; i <= n; i++) {
        double term = exp(lgamma((double)n + 1) - lgamma((double)i + 1) -
                          lgamma((double)(n - i) + 1) + log_half);
        sum += term;
        if (2 * i > n && term < 1e-17 * sum)
            break;
    }
    return sum < 1 ? sum : 1;
}

static int compare_value(const void *a, const void *b, void *value)
{
    float x = fabsf(((const float *)value)[*(const size_t *)a]);
    float y = fabsf(((const float *)value)[*(const size_t *)b]);
    return (x > y) - (x < y);
}

/* Sort the units whose value is known; returns how many. */
static size_t sort_known(size_t units, const float *value, size_t *order)
{
    size_t known = 0;

    for (size_t u = 0; u < units; u++)
        if (fabsf(value[u]) > 0)
            order[known++] = u;
    qsort_r(order, known, sizeof *order, compare_value, (void *)value);
    return known;
}

/* The k-th of the sorted units, from 0, when the one at skip is left out. */
static double without(const float *value, const size_t *order, size_t skip,
                      size_t k)
{
    return fabs((double)value[order[k < skip ? k : k + 1]]);
}

void report_slow_others(size_t units, const float *value, size_t *order,
                        double *others)
{
    size_t known = sort_known(units, value, order);

    for (size_t u = 0; u < units; u++)
        others[u] = NAN;
    if (known < 2)
        return;
    for (size_t i = 0; i < known; i++) {
        double low = without(value, order, i, (known - 2) / 2);
        double high = without(value, order, i, (known - 1) / 2);
        others[order[i]] = low < high ? sqrt(low * high) : low;
    }
}

static void compare_row(struct work *w, size_t row)
{
    const float *value = w->duration_s + row * w->units;
    unsigned char *to = w->compared + row * w->units;

    report_slow_others(w->units, value, w->order, w->others);
    for (size_t u = 0; u < w->units; u++) {
        if (fabs((double)value[u]) > w->others[u])
            to[u] = SLOWER;
        else
            to[u] = (double)value[u] <= w->others[u] && value[u] > 0
                        ? NOT_SLOWER
                        : NOT_COMPARED;
    }
}

/* Count a unit's rows of a range, and take the median of what it compares. */
static void count(struct work *w, size_t unit, size_t from, size_t to,
                  struct report_slow *result)
{
    size_t n = 0, slower = 0;

    for (size_t row = from; row < to; row++) {
        size_t at = row * w->units + unit;
        if (w->compared[at] == NOT_COMPARED)
            continue;
        slower += w->compared[at] == SLOWER;
        w->column[n++] = fabsf(w->duration_s[at]);
    }
    *result = (struct report_slow){
        .steps = n,
        .slower = slower,
        .median_s = report_quantile(w->column, n, .5),
        .others_s = NAN,
        .ratio = NAN,
        .first = from,
        .last = to - 1,
    };
    w->median[unit] = (float)result->median_s;
}

/* Test all units over a range of rows. */
static void test(struct work *w, size_t from, size_t to,
                 struct report_slow *result)
{
    double alpha =
        REPORT_SLOW_ALPHA / ((double)w->units * (double)(1 + w->parts));
    double least =
        to - from < w->rows ? REPORT_SLOW_PART_RATIO : REPORT_SLOW_RATIO;

    for (size_t u = 0; u < w->units; u++)
        count(w, u, from, to, &result[u]);
    size_t known = sort_known(w->units, w->median, w->order);
    for (size_t i = 0; known >= 2 && i < known; i++) {
        struct report_slow *r = &result[w->order[i]];
        r->others_s = without(w->median, w->order, i, (known - 2) / 2);
        r->ratio = r->median_s / r->others_s;
        r->enough = report_slow_tail(r->steps, r->steps) <= alpha;
        r->slow = r->ratio >= least &&
                  (double)r->slower >= REPORT_SLOW_SHARE * (double)r->steps &&
                  report_slow_tail(r->steps, r->slower) <= alpha;
    }
}

/* The longest run of parts in which unit was slow.  Returns its length. */
static size_t longest_run(const struct report_slow *part, size_t parts,
                          size_t units, size_t unit, size_t *first)
{
    size_t best = 0, run = 0;

    for (size_t p = 0; p < parts; p++) {
        run = part[p * units + unit].slow ? run + 1 : 0;
        if (run > best) {
            best = run;
            *first = p + 1 - run;
        }
    }
    return best;
}

/* For the units that are not slow over the whole run. */
static enum dsgd_err test_parts(struct work *w, struct report_slow *result,
                                struct dsgd_error *err)
{
    struct report_slow *part = calloc((w->parts + 1) * w->units, sizeof *part);
    struct report_slow *merged = part ? part + w->parts * w->units : NULL;

    if (!part)
        return error_set(err, DSGD_E_NOMEM, "no memory");
    for (size_t p = 0; p < w->parts; p++)
        test(w, p * w->rows / w->parts, (p + 1) * w->rows / w->parts,
             part + p * w->units);
    for (size_t u = 0; u < w->units; u++) {
        size_t first = 0;
        size_t length = longest_run(part, w->parts, w->units, u, &first);
        if (result[u].slow || length == 0)
            continue;
        test(w, first * w->rows / w->parts,
             (first + length) * w->rows / w->parts, merged);
        if (merged[u].slow)
            result[u] = merged[u];
    }
    free(part);
    return DSGD_OK;
}

static enum dsgd_err allocate(struct work *w, struct dsgd_error *err)
{
    if (w->units && w->rows > SIZE_MAX / w->units)
        return error_set(err, DSGD_E_NOMEM, "no memory");
    w->compared = malloc(w->rows * w->units + 1);
    w->column = malloc((w->rows + 1) * sizeof *w->column);
    w->median = malloc((w->units + 1) * sizeof *w->median);
    w->order = malloc((w->units + 1) * sizeof *w->order);
    w->others = malloc((w->units + 1) * sizeof *w->others);
    if (w->compared && w->column && w->median && w->order && w->others)
        return DSGD_OK;
    return error_set(err, DSGD_E_NOMEM, "no memory");
}

enum dsgd_err report_slow(size_t rows, size_t units, const float *duration_s,
                          struct report_slow *result, struct dsgd_error *err)
{
    struct work w = {.rows = rows, .units = units, .duration_s = duration_s};
    enum dsgd_err rc = allocate(&w, err);

    if (rows / MIN_PART >= 2)
        w.parts = rows / MIN_PART < MAX_PARTS ? rows / MIN_PART : MAX_PARTS;
    if (rc == DSGD_OK) {
        for (size_t row = 0; row < rows; row++)
            compare_row(&w, row);
        test(&w, 0, rows, result);
        if (w.parts)
            rc = test_parts(&w, result, err);
    }
    free(w.compared);
    free(w.column);
    free(w.median);
    free(w.order);
    free(w.others);
    return rc;
}
