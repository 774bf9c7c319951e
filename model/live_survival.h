/* The survivals of one worker: for each pair of atoms (a lane, live_table.h)
 * the weighted tails of its mixture, at one log time or at many.
 *
 * Relative errors, LIVE_MIN_SURVIVAL included: 2e-4 for survivals above 1e-5,
 * 2e-3 below.  Local, no allocation. */
#ifndef DSGD_LIVE_SURVIVAL_H
#define DSGD_LIVE_SURVIVAL_H

#include <stddef.h>

#include "predictive.h"

enum { LIVE_LANES = PRED_G * PRED_M };

/* Where ticks are many, lanes come in blocks of so many. */
enum { LIVE_WIDE = 8, LIVE_BLOCKS = LIVE_LANES / LIVE_WIDE };

/* The times of the table, its ticks. */
enum {
    LIVE_STEPS = 44, /* ticks between the lowest and the 99 % quantile */
    LIVE_TAIL = 12,  /* ticks beyond */
    LIVE_COLS = LIVE_STEPS + 2 + LIVE_TAIL
};

/* Added to each survival. */
#define LIVE_MIN_SURVIVAL 1e-12f

/* sqrt(log2(e) / 2): with z in these units exp(-z^2 / 2) is 2^-y^2. */
#define LIVE_SF_SCALE .84932180f

/* Smallest and largest of the lanes. */
struct live_span {
    float low, high;
};

struct live_mixture {
    const float *mu;        /* [K] */
    const float *precision; /* [K] LIVE_SF_SCALE / sd, but for the scale */
    const float *weight;    /* [K][LIVE_LANES] adding up to 1 over k */
    const float *shift;     /* [LIVE_LANES] added to mu */
    const float *scale;     /* [LIVE_LANES] factor of the precision */
    struct live_span shifts, scales;
};

/* At most LIVE_COLS log times, ascending; the first `even` of them a step
 * apart. */
struct live_ticks {
    size_t n, even;
    float step;
    const float *log_s; /* [n] */
};

/*   out  [LIVE_LANES] */
void live_survival_at(const struct live_mixture *m, float log_s, float *out);

/*   out  [LIVE_BLOCKS][LIVE_COLS][LIVE_WIDE] */
void live_survival_ticks(const struct live_mixture *m,
                         const struct live_ticks *t, float *out);

/* sum[q] += posterior / now * survival[q] at so many ticks q, in one block of
 * lanes: what is expected of a worker that is still running now.
 *   posterior, now  in      [LIVE_WIDE]
 *   survival        in      [ticks][LIVE_WIDE]
 *   sum             in out  [ticks][LIVE_WIDE] */
void live_add_late(const float *posterior, const float *now, size_t ticks,
                   const float *restrict survival, float *restrict sum);

/* log density of the log duration; the lanes' scales enter as logs.
 *   log_sd     [K]
 *   log_scale  [LIVE_LANES]
 *   out        [LIVE_LANES] */
void live_log_density(const struct live_mixture *m, float log_s,
                      const float *log_sd, const float *log_scale, float *out);

#endif
