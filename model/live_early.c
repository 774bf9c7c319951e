#include "live_early.h"

#include <stdlib.h>
#include <string.h>

enum { WIDE = LIVE_WIDE, BLOCKS = LIVE_BLOCKS };

/* Fewer workers, or fewer to a node, are summed as fast as they are. */
enum { MANY = 256, MANY_OF_NODE = 8 };

bool live_early_init(struct live_early *e, size_t n, size_t n_nodes)
{
    *e = (struct live_early){.n_nodes = n_nodes};
    if (n < MANY || n / MANY_OF_NODE < n_nodes)
        return true;
    e->sum = calloc(LIVE_EARLY * n_nodes,
                    (size_t)BLOCKS * LIVE_COLS * WIDE * sizeof *e->sum);
    e->in = calloc(n, sizeof *e->in);
    if (e->sum && e->in)
        return true;
    live_early_destroy(e);
    return false;
}

void live_early_destroy(struct live_early *e)
{
    free(e->sum);
    free(e->in);
    *e = (struct live_early){0};
}

static void add(struct live_early *e, const struct live_table *t, size_t worker,
                float factor)
{
    float weight[WIDE];

    for (size_t i = 0; i < WIDE; i++)
        weight[i] = factor;
    for (size_t c = 0; c < LIVE_EARLY && c + 1 < t->cols; c++) {
        for (size_t b = 0; b < BLOCKS; b++)
            live_add_late(weight, live_table_at(t, worker, b, c),
                          t->cols - (c + 1), live_table_at(t, worker, b, c + 1),
                          live_early_at(e, c, t->node[worker], b, c + 1));
    }
}

void live_early_take(struct live_early *e, const struct live_table *t,
                     size_t node, size_t first, size_t end)
{
    if (!e->sum)
        return;
    for (size_t c = 0; c < LIVE_EARLY; c++)
        memset(live_early_at(e, c, node, 0, 0), 0,
               BLOCKS * LIVE_COLS * WIDE * sizeof *e->sum);
    for (size_t j = first; j < end; j++) {
        add(e, t, j, 1);
        e->in[j] = true;
    }
}

void live_early_remove(struct live_early *e, const struct live_table *t,
                       size_t worker)
{
    if (!e->sum || !e->in[worker])
        return;
    add(e, t, worker, -1);
    e->in[worker] = false;
}
