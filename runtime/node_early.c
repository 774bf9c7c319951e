#include "node_early.h"

#include <stdlib.h>
#include <string.h>

bool node_early_create(struct node_early *e, uint32_t n_local)
{
    *e = (struct node_early){.n_local = n_local};
    e->mask = calloc(n_local, sizeof *e->mask);
    return e->mask != NULL;
}

void node_early_destroy(struct node_early *e)
{
    free(e->mask);
}

void node_early_message(struct node_early *e, const struct msg *m)
{
    uint64_t step = m->kind == MSG_START ? m->step : m->step + 1;

    if (!(m->flags & MSG_EARLY) || step <= e->step)
        return;
    e->step = step;
    e->n_given = 0;
    memset(e->mask, 0, e->n_local);
}

void node_early_event(struct node_early *e, const struct msg_event *event)
{
    uint8_t *mask = &e->mask[event->worker];

    if (event->kind != SEG_EVENT_COMMIT || event->step != e->step ||
        !event->value || *mask)
        return;
    *mask = MSG_OWN;
    if (event->buf)
        *mask |= MSG_OWN_BUF;
    e->n_given++;
}

const uint8_t *node_early_due(struct node_early *e, uint64_t published)
{
    if (e->n_given < e->n_local || e->step != published + 1)
        return NULL;
    e->n_given = 0; /* none gives twice */
    return e->mask;
}

bool node_early_give(struct node_early *e, const struct node *node,
                     struct exchange *x)
{
    const uint8_t *mask = node_early_due(e, node_published(node));

    return mask && exchange_early(x, e->step, mask);
}
