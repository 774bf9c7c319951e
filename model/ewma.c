#include "ewma.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "ops.h"
#include "timing.h"

enum { RATES = 4 };
static const double rate[RATES] = {.05, .2, .5, .9};

struct ewma {
    size_t n, steps, rows, next; /* next: row that is overwritten next */
    double *mean;                /* [RATES][n] log duration */
    double *var;                 /* [n] of the best rate's residuals */
    double *y;                   /* [n] scratch: the observed row */
    float *residual;             /* [EWMA_ROWS][RATES][n] */
    double miss[RATES];          /* running mean absolute residual, bounded */
};

enum dsgd_err ewma_create(size_t n, struct ewma **out, struct dsgd_error *err)
{
    struct ewma *e = calloc(1, sizeof *e);

    *out = NULL;
    if (!n || n > SIZE_MAX / (RATES * EWMA_ROWS * sizeof(double))) {
        free(e);
        return error_set(err, DSGD_E_RANGE, "ewma: %zu workers", n);
    }
    if (e) {
        e->n = n;
        e->mean = calloc(RATES * n, sizeof *e->mean);
        e->var = calloc(n, sizeof *e->var);
        e->y = calloc(n, sizeof *e->y);
        e->residual = calloc(EWMA_ROWS * RATES * n, sizeof *e->residual);
    }
    if (!e || !e->mean || !e->var || !e->y || !e->residual) {
        ewma_free(e);
        return error_set(err, DSGD_E_NOMEM, "ewma: no memory for %zu workers",
                         n);
    }
    *out = e;
    return DSGD_OK;
}

void ewma_free(struct ewma *e)
{
    if (!e)
        return;
    free(e->mean);
    free(e->var);
    free(e->y);
    free(e->residual);
    free(e);
}

static size_t best_rate(const struct ewma *e)
{
    size_t best = 0;

    for (size_t k = 1; k < RATES; k++) {
        if (e->miss[k] < e->miss[best])
            best = k;
    }
    return best;
}

size_t ewma_predict(const struct ewma *e, double *x_s)
{
    size_t k = best_rate(e), n = e->n;

    if (e->steps < 3)
        return 0;
    for (size_t r = 0; r < e->rows; r++) {
        const float *residual = e->residual + (r * RATES + k) * n;
        for (size_t j = 0; j < n; j++)
            x_s[r * n + j] = exp(e->mean[k * n + j] + residual[j]);
    }
    return e->rows;
}

size_t ewma_predict_lanes(const struct ewma *e, size_t most, float *y)
{
    enum { LANES = SORT_LANES };
    size_t k = best_rate(e), n = e->n, rows = e->rows < most ? e->rows : most;

    if (e->steps < 3)
        return 0;
    for (size_t r = 0; r < (rows + LANES - 1) / LANES * LANES; r++) {
        const float *residual =
            e->residual + ((r < rows ? r : 0) * RATES + k) * n;
        float *out = y + r / LANES * n * LANES + r % LANES;
        for (size_t j = 0; j < n; j++)
            out[j * LANES] = (float)(e->mean[k * n + j] + residual[j]);
    }
    return rows;
}

static double beyond(double mean, double var, double bound)
{
    double sd = sqrt(var);

    return mean + sd * ops_normal_beyond((bound - mean) / sd);
}

static void first_row(struct ewma *e)
{
    for (size_t k = 0; k < RATES; k++)
        memcpy(e->mean + k * e->n, e->y, e->n * sizeof *e->y);
    for (size_t j = 0; j < e->n; j++)
        e->var[j] = .01;
}

static void keep_residuals(struct ewma *e)
{
    float *row = e->residual + e->next * RATES * e->n;

    for (size_t i = 0; i < RATES * e->n; i++)
        row[i] = (float)(e->y[i % e->n] - e->mean[i]);
    e->next = (e->next + 1) % EWMA_ROWS;
    e->rows += e->rows < EWMA_ROWS;
}

static void score_rates(struct ewma *e)
{
    for (size_t k = 0; k < RATES; k++) {
        double sum = 0;
        for (size_t j = 0; j < e->n; j++)
            sum += fmin(fabs(e->y[j] - e->mean[k * e->n + j]), .5);
        e->miss[k] = .97 * e->miss[k] + sum / (double)e->n;
    }
}

static void move_var(struct ewma *e, size_t k, const uint8_t *status)
{
    for (size_t j = 0; j < e->n; j++) {
        double d = e->y[j] - e->mean[k * e->n + j], v = e->var[j];
        if (status[j] == TIMING_EXACT || status[j] == TIMING_PROGRESS)
            v += .07 * (fmin(d * d, 9 * v + .02) - v);
        e->var[j] = v > 1e-5 ? v : 1e-5;
    }
}

static void move_mean(struct ewma *e)
{
    for (size_t k = 0; k < RATES; k++) {
        double r = fmax(rate[k], 1 / (double)(e->steps + 1));
        double *mean = e->mean + k * e->n;
        for (size_t j = 0; j < e->n; j++)
            mean[j] += r * (e->y[j] - mean[j]);
    }
}

void ewma_observe(struct ewma *e, const float *log_s, const uint8_t *status)
{
    size_t k = best_rate(e);
    bool whole = true;

    for (size_t j = 0; j < e->n; j++) {
        double mean = e->mean[k * e->n + j];
        e->y[j] = log_s[j];
        if (e->steps && status[j] == TIMING_CENSORED)
            e->y[j] = beyond(mean, e->var[j], log_s[j]);
        else if (e->steps && status[j] == TIMING_NONE)
            e->y[j] = mean;
        whole &= status[j] != TIMING_CENSORED && status[j] != TIMING_NONE;
    }
    if (!e->steps) {
        first_row(e);
    } else {
        if (whole || e->steps > 5)
            keep_residuals(e);
        score_rates(e);
        move_var(e, k, status);
        move_mean(e);
    }
    e->steps++;
}
