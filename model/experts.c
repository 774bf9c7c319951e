#include "experts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "ewma.h"
#include "order_stats.h"
#include "rules.h"

enum { WINDOW = 20, STATICS = EXPERTS - EXPERT_STATIC };

/* Sorting the samples of `ewma` is the costly part: at most so many numbers,
 * but no fewer rows than that. */
enum { SORT_MAX = 4096, SORT_ROWS = 8 };

static const double share[STATICS] = {.5,  .6, .7,  .75, .8,
                                      .85, .9, .94, .97, .99};

struct experts {
    size_t n, steps;
    struct ewma *ewma;
    double *sample;         /* [EWMA_ROWS][n] */
    double *row;            /* [WINDOW][n] sorted arrivals */
    double *mean;           /* [n] scratch: mean order statistics */
    double log_sum[WINDOW]; /* of each row's log arrivals */
    double log_square[WINDOW];
};

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
    e->sample = calloc(EWMA_ROWS * n, sizeof *e->sample);
    e->row = calloc(WINDOW * n, sizeof *e->row);
    e->mean = calloc(n, sizeof *e->mean);
    enum dsgd_err rc = ewma_create(n, &e->ewma, err);
    if (rc == DSGD_OK && (!e->sample || !e->row || !e->mean))
        rc = error_set(err, DSGD_E_NOMEM, "experts: no memory for %zu workers",
                       n);
    if (rc != DSGD_OK) {
        experts_free(e);
        return rc;
    }
    *out = e;
    return DSGD_OK;
}

void experts_free(struct experts *e)
{
    if (!e)
        return;
    ewma_free(e->ewma);
    free(e->sample);
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
        e->mean[i] = exp(mean + sd * elfving(i + 1, e->n));
    cutoff_pick(e->n, e->mean, overhead_s, &c, NULL);
    return c;
}

static void ewma_cuts(struct experts *e, double overhead_s, double lambda,
                      size_t *cut)
{
    size_t rows = ewma_predict(e->ewma, e->sample), most = SORT_MAX / e->n;

    if (most < SORT_ROWS)
        most = SORT_ROWS;
    if (rows > most)
        rows = most;
    if (!rows || !rule_sort(e->n, rows, e->sample))
        return;
    rule_pick(RULE_RENEWAL, e->n, rows, e->sample, overhead_s, lambda,
              &cut[EXPERT_EWMA], NULL);
    rule_pick(RULE_PAPER, e->n, rows, e->sample, overhead_s, lambda,
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
