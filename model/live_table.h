/* The survival table behind live.h: for every worker, cluster atom g, node atom
 * m and time of a grid, the probability that the worker is still running.
 *
 * A lane is a pair (g, m), lane = g * PRED_M + m.  A worker's lanes lie in
 * blocks, each with all of its ticks: what has become improbable is not
 * read. */
#ifndef DSGD_LIVE_TABLE_H
#define DSGD_LIVE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "live_survival.h"
#include "predictive.h"

struct live_table {
    size_t n, n_nodes;
    uint32_t *node;             /* [n] */
    const struct predictive *p; /* of this step */
    size_t cols;                /* ticks in use */
    size_t even;                /* the first so many a step apart in the log */
    float step;
    double tau_s[LIVE_COLS];  /* the ticks */
    float log_tau[LIVE_COLS]; /* and their logs */
    double log_low, log_high; /* the two quantiles, NaN before the first */
    float *survival;          /* [n][BLOCKS][COLS][WIDE], >= 1e-12 */
    float *weight;            /* [n][K][LANES] normalised over k */
    float *precision;         /* [n][K] in proportion to exp(-log_sd) */
    float *shift;             /* [n_nodes][LANES] shift_g + node_shift_im */
    float *prior;             /* [n_nodes][LANES] pi_g pi_im */
    struct live_span *shifts; /* [n_nodes] of the shifts */
    struct live_span scales;  /* of precision_scale */
    float precision_scale[LIVE_LANES]; /* exp(-scale_g) */
};

/* Make room; false: no memory, and then nothing is left to free. */
bool live_table_init(struct live_table *t, size_t n, size_t n_nodes,
                     const uint32_t *node);
void live_table_destroy(struct live_table *t);

/* Take a predictive, which must hold until the next call: weights, grid.  False
 * when it is of another shape or holds a NaN: nothing can be planned. */
bool live_table_take(struct live_table *t, const struct predictive *p);

/* The grid from two log quantiles and the ticks beyond; live_table_take calls
 * it.
 *   tail  [n_tail] in  above log_high, ascending; n_tail <= LIVE_TAIL */
void live_table_grid(struct live_table *t, double log_low, double log_high,
                     const double *tail, size_t n_tail);

/* The survival of the workers [first, end) at all ticks, each started at 0. */
void live_table_fill(struct live_table *t, size_t first, size_t end);

/* That of one worker which starts at start_s. */
void live_table_row(struct live_table *t, size_t worker, double start_s);

/* One worker after log_s of its own time.
 *   out  [LANES] */
void live_table_survival(const struct live_table *t, size_t worker,
                         double log_s, float *out);

/* log density of the log duration log_s; [LANES]. */
void live_table_log_density(const struct live_table *t, size_t worker,
                            double log_s, float *out);

/* The worker's median duration, seconds, by the prior weights. */
double live_table_median_s(const struct live_table *t, size_t worker);

/* Ticks from col on of a block of a worker's lanes; [..][LIVE_WIDE]. */
static inline const float *live_table_at(const struct live_table *t,
                                         size_t worker, size_t block,
                                         size_t col)
{
    return t->survival +
           ((worker * LIVE_BLOCKS + block) * LIVE_COLS + col) * LIVE_WIDE;
}

#endif
