/* How a node's aggregator comes to the end of a run. */
#include "aggregator_priv.h"

bool aggregator_drained(struct aggregator *a)
{
    return !a->t || a->c || a->t->ops->drained(a->t, 0);
}

/* A mean that was sent before the END may come after it: bulk messages do.  One
 * that does not come in time is not waited for. */
void aggregator_end_node(struct aggregator *a, double now_s)
{
    const struct msg *m = &a->end;

    if (m->kind != MSG_END || (node_published(a->node) < m->step &&
                               now_s - a->told_s < a->hard_timeout_s))
        return;
    if (m->flags & MSG_PREEMPTED)
        node_preempt(a->node);
    if (m->flags & MSG_BROKEN)
        node_break(a->node, "no worker is left");
    else
        node_end(a->node, m->u.end.last);
    a->end.kind = 0;
}

/* The run is over: who has not come to its end after one hard timeout is stuck,
 * is named, and is ended once the record is complete. */
void aggregator_pump_end(struct aggregator *a, double now_s)
{
    uint32_t n = node_size(a->node), n_stuck;
    struct msg m = {.kind = MSG_BYE, .count = n};

    if (!a->ended) {
        a->ended = atomic_load(&a->h->run) != SEG_RUNNING;
        a->end_s = now_s;
        if (!a->ended)
            return;
    }
    if (a->c)
        a->hard_timeout_s = coordinator_hard_timeout_s(a->c);
    if (!a->bye_sent) {
        n_stuck = node_stuck(a->node, a->stuck);
        if (n_stuck && now_s - a->end_s < a->hard_timeout_s)
            return;
        aggregator_pump_events(
            a, now_s); /* what was said before the end was seen */
        if (a->n_events)
            return;
        if (a->c)
            coordinator_bye(a->c, 0, a->stuck);
        a->bye_sent = a->c || aggregator_send(a, &m, a->stuck, n);
    }
    if (a->c)
        a->may_reap = coordinator_may_reap(a->c);
    if (!a->may_reap || a->finished)
        return;
    /* The coordinator takes nothing any more once it has heard of all. */
    if (!aggregator_drained(a))
        return;
    m = (struct msg){.kind = MSG_DONE};
    a->finished =
        a->c ? coordinator_finished(a->c) : aggregator_send(a, &m, NULL, 0);
    if (a->c || a->finished) {
        for (uint32_t w = 0; w < n; w++) {
            if (a->stuck[w])
                node_reap(a->node, w);
        }
    }
}
