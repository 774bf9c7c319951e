/* What a look at one of a step's first ticks is to sum over the workers of a
 * node, summed while the step is planned: nearly all of them run then, and the
 * table is larger than the caches.  The look takes away what has changed
 * since. */
#ifndef DSGD_LIVE_EARLY_H
#define DSGD_LIVE_EARLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "live_table.h"

/* The first ticks.  The first one by which the least share of the workers has
 * come, and so may be looked at, is mostly among them. */
enum { LIVE_EARLY = 2 };

struct live_early {
    float *sum;  /* [EARLY][n_nodes][BLOCKS][COLS][WIDE]; NULL: no use */
    uint8_t *in; /* [n] the worker is in the sums */
    size_t n_nodes;
};

/* Make room, where nodes have many workers and there are many in all; false: no
 * memory, and then nothing is left to free. */
bool live_early_init(struct live_early *e, size_t n, size_t n_nodes);
void live_early_destroy(struct live_early *e);

/* Sum over the workers [first, end) of a node. */
void live_early_take(struct live_early *e, const struct live_table *t,
                     size_t node, size_t first, size_t end);

/* A worker's row in the table is about to change. */
void live_early_remove(struct live_early *e, const struct live_table *t,
                       size_t worker);

/* Sums of survival over survival at tick early, ticks from col on;
 * [..][WIDE]. */
static inline float *live_early_at(const struct live_early *e, size_t early,
                                   size_t node, size_t block, size_t col)
{
    size_t row = (early * e->n_nodes + node) * LIVE_BLOCKS + block;

    return e->sum + (row * LIVE_COLS + col) * LIVE_WIDE;
}

#endif
