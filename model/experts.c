#include "experts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "ewma.h"
#include "order_stats.h"
#include "rules.h"
#include "sort.h"
#include "vmath.h"

enum { WINDOW = 20, STATICS = EXPERTS - EXPERT_STATIC };

/* Sorting the samples of `ewma` is the costly part: at most so many numbers,
 * but no fewer rows than that. */
enum { SORT_MAX = 4096, SORT_ROWS = 8 };

/* The logs of a duration that is taken for one. */
#define LOG_LIMIT 80.f

static const double share[STATICS] = {.5,  .6, .7,  .75, .8,
                                      .85, .9, .94, .97, .99};

struct experts {
    size_t n, steps;
    struct ewma *ewma;
    float *sample;          /* [groups][n][SORT_LANES] log durations */
    double *score;          /* [n] Elfving's expected order statistics */
    double *row;            /* [WINDOW][n] sorted arrivals */
    double *mean;           /* [n] scratch: mean order statistics */
    double log_sum[WINDOW]; /* of each row's log arrivals */
    double log_square[WINDOW];
};

/* Rows of samples that are sorted. */
static size_t sample_rows(size_t n)
{
    size_t rows = SORT_MAX / n;

    rows = rows < SORT_ROWS ? SORT_ROWS : rows;
    return rows < EWMA_ROWS ? rows : EWMA_ROWS;
}

static bool allocate(struct experts *e)
{
    size_t n = e->n;
    size_t groups = (sample_rows(n) + SORT_LANES - 1) / SORT_LANES;

    e->sample = calloc(groups * n, SORT_LANES * sizeof *e->sample);
    e->score = calloc(n, sizeof *e->score);
    e->row = calloc(WINDOW * n, sizeof *e->row);
    e->mean = calloc(n, sizeof *e->mean);
    return e->sample && e->score && e->row && e->mean;
}

enum dsgd_err experts_create(size_t n, struct experts **out,
                             struct dsgd_error *err)
{
    *out = NULL;
    if (n < 1 || n > SIZE_MAX / (EWMA_ROWS * sizeof(double)))
        return error_set(err, DSGD_E_RANGE, "experts: %zu workers", n);
    struct experts *e = calloc(1, sizeof *e);
    if (!e)
        return error_set(err, DSGD_E_NOMEM, "experts: no memory");
    e->n = n;
    enum dsgd_err rc = ewma_create(n, &e->ewma, err);
    if (rc == DSGD_OK && !allocate(e))
        rc = error_set(err, DSGD_E_NOMEM, "experts: no memory for %zu workers",
                       n);
    if (rc != DSGD_OK) {
        experts_free(e);
        return rc;
    }
    for (size_t i = 0; i < n; i++)
        e->score[i] = elfving(i + 1, n);
    *out = e;
    return DSGD_OK;
}

void experts_free(struct experts *e)
{
    if (!e)
        return;
    ewma_free(e->ewma);
    free(e->sample);
    free(e->score);
    free(e->row);
    free(e->mean);
    free(e);
}

const char *experts_name(size_t expert)
{
    static const char *const name[EXPERTS] = {
        "full",  "last", "roll10", "roll20", "ewma", "ewma-ratio",
        "order", "50%",  "60%",    "70%",    "75%",  "80%",
        "85%",   "90%",  "94%",    "97%",    "99%",
    };
    return expert < EXPERTS ? name[expert] : "none";
}

static size_t rolling(struct experts *e, size_t rows, double overhead_s)
{
    size_t n = e->n, c = n;

    if (rows > e->steps)
        rows = e->steps;
    memset(e->mean, 0, n * sizeof *e->mean);
    for (size_t r = 0; r < rows; r++) {
        const double *row = e->row + ((e->steps - 1 - r) % WINDOW) * n;
        for (size_t i = 0; i < n; i++)
            e->mean[i] += row[i] / (double)rows;
    }
    cutoff_pick(n, e->mean, overhead_s, &c, NULL);
    return c;
}

static size_t elfving_cut(struct experts *e, double overhead_s)
{
    size_t rows = e->steps < WINDOW ? e->steps : WINDOW, c = e->n;
    double sum = 0, square = 0, count = (double)(rows * e->n);

    for (size_t r = 0; r < rows; r++) {
        sum += e->log_sum[r];
        square += e->log_square[r];
    }
    double mean = sum / count;
    double sd = sqrt(fmax(square / count - mean * mean, 0));
    for (size_t i = 0; i < e->n; i++)
        e->mean[i] = exp(mean + sd * e->score[i]);
    cutoff_pick(e->n, e->mean, overhead_s, &c, NULL);
    return c;
}

/* All finite and none too large for vm_exp. */
VM_CLONES
static bool usable(size_t n, const float *y)
{
    int bad = 0;

#pragma omp simd reduction(| : bad)
    for (size_t i = 0; i < n; i++)
        bad |= !(vm_abs(y[i]) < LOG_LIMIT);
    return !bad;
}

/* Adds weight * exp(y) of the first so many lanes to mean [n]. */
VM_CLONES
static void add_lanes(size_t n, size_t lanes, double weight, const float *y,
                      double *mean)
{
    for (size_t i = 0; i < n; i++, y += SORT_LANES) {
        float x[SORT_LANES], sum = 0;
#pragma omp simd
        for (size_t l = 0; l < SORT_LANES; l++)
            x[l] = vm_exp(y[l]);
        for (size_t l = 0; l < lanes; l++)
            sum += x[l];
        mean[i] += weight * sum;
    }
}

static void ewma_cuts(struct experts *e, double overhead_s, double lambda,
                      size_t *cut)
{
    enum { LANES = SORT_LANES };
    size_t n = e->n;
    size_t rows = ewma_predict_lanes(e->ewma, sample_rows(n), e->sample);

    if (!rows)
        return;
    memset(e->mean, 0, n * sizeof *e->mean);
    for (size_t r = 0; r < rows; r += LANES) {
        float *y = e->sample + r * n;
        if (!usable(n * LANES, y))
            return;
        sort_lanes(n, y);
        add_lanes(n, rows - r < LANES ? rows - r : LANES, 1 / (double)rows, y,
                  e->mean);
    }
    rule_pick(RULE_RENEWAL, n, 1, e->mean, overhead_s, lambda,
              &cut[EXPERT_EWMA], NULL);
    rule_pick(RULE_PAPER, n, 1, e->mean, overhead_s, lambda,
              &cut[EXPERT_EWMA_RATIO], NULL);
}

void experts_begin(struct experts *e, double overhead_s, double lambda,
                   size_t *cut)
{
    for (size_t i = 0; i < EXPERTS; i++)
        cut[i] = e->n;
    for (size_t i = 0; i < STATICS; i++) {
        double c = floor(share[i] * (double)e->n + .5);
        cut[EXPERT_STATIC + i] = c < 1 ? 1 : (size_t)c;
    }
    if (!e->steps)
        return;
    cut[EXPERT_LAST] = rolling(e, 1, overhead_s);
    cut[EXPERT_ROLL10] = rolling(e, 10, overhead_s);
    cut[EXPERT_ROLL20] = rolling(e, 20, overhead_s);
    cut[EXPERT_ORDER] = elfving_cut(e, overhead_s);
    ewma_cuts(e, overhead_s, lambda, cut);
}

void experts_end(struct experts *e, const double *sorted_s, const float *log_s,
                 const uint8_t *status)
{
    size_t r = e->steps % WINDOW;
    double sum = 0, square = 0;

    memcpy(e->row + r * e->n, sorted_s, e->n * sizeof *sorted_s);
    for (size_t i = 0; i < e->n; i++) {
        double y = log(sorted_s[i]);
        sum += y;
        square += y * y;
    }
    e->log_sum[r] = sum;
    e->log_square[r] = square;
    e->steps++;
    ewma_observe(e->ewma, log_s, status);
}
