/* Workers and nodes that are not heard of, workers whose process has ended, and
 * those that take their place. */
#include <math.h>

#include "cause.h"
#include "coordinator_checkpoint.h"
#include "coordinator_deposits.h"
#include "coordinator_dynamic.h"
#include "coordinator_late.h"
#include "coordinator_parts.h"

/* From what workers were seen to take; before that, a generous constant. */
double coordinator_hard_timeout_s(const struct coordinator *c)
{
    const double unknown = 300, least = 5, factor = 20, slow_factor = 3;
    double median = cutoff_median_s(c->cutoff);

    if (c->opt.hard_timeout_s > 0)
        return c->opt.hard_timeout_s;
    if (cutoff_steps(c->cutoff) < 10 || !(median > 0))
        return unknown;
    return fmin(fmax(least, factor * median),
                fmax(unknown, slow_factor * median));
}

bool loss_alive(const struct worker *w)
{
    return !w->lost && !w->left;
}

void loss_life(struct coordinator *c, uint32_t w, double at_s)
{
    struct worker *worker = &c->worker[w];

    if (at_s > worker->life_s)
        worker->life_s = at_s;
    if (worker->lost && !worker->died && worker->life_s > worker->lost_s) {
        worker->lost = false;
        log_event(c, RECORD_EVENT_BACK, (int32_t)w, -1, "heard of again");
    }
}

static void lose(struct coordinator *c, struct worker *worker)
{
    worker->lost = true;
    worker->lost_s = c->now_s;
    c->n_settled++;
    late_forget(c, worker);
    if (c->deal)
        deal_forget(c, (uint32_t)(worker - c->worker));
}

void loss_find(struct coordinator *c)
{
    if (c->replay) /* whoever contributed then is waited for */
        return;
    if (c->now_s < c->look_s)
        return;
    double hard_s = coordinator_hard_timeout_s(c);
    c->look_s = c->now_s + fmin(hard_s / 20, .05);
    for (uint32_t w = 0; w < c->n_workers; w++) {
        struct worker *worker = &c->worker[w];
        bool owes = c->phase == PHASE_BOUNDARY
                        ? worker->ready < c->step
                        : worker->working && !worker->arrived;
        double since = fmax(worker->life_s, worker->owes_s);
        if (loss_alive(worker) && owes && c->now_s - since > hard_s) {
            lose(c, worker);
            dyn_leave(c, w);
            log_event(c, RECORD_EVENT_LOST, (int32_t)w, -1,
                      "no sign of life for one hard timeout");
        }
    }
}

void loss_node(struct coordinator *c, uint32_t node, const char *why)
{
    struct peer *p = &c->peer[node];
    p->lost = true;
    for (uint32_t i = 0; i < p->n_local; i++)
        lose(c, &c->worker[p->worker[i]]);
    log_event(c, RECORD_EVENT_NODE_LOST, -1, (int32_t)node, why);
}

void loss_died(struct coordinator *c, uint32_t w, uint64_t value)
{
    struct worker *worker = &c->worker[w];
    bool final = (value & SEG_DIED_FINAL) != 0;
    char text[CAUSE_TEXT];

    if (worker->left && !worker->died)
        return; /* it had given all it wanted to */
    worker->died = true;
    worker->left = final;
    if (!worker->lost && (final || !c->replay)) /* a replay waits for another */
        lose(c, worker);
    deposits_finish(c, w);
    dyn_leave(c, w);
    if (worker->node == 0)
        checkpoints_died(c);
    cause_text(value, text);
    log_event(c, RECORD_EVENT_LOST, (int32_t)w, -1, text);
}

void loss_back(struct coordinator *c, uint32_t w)
{
    struct worker *worker = &c->worker[w];

    if (!worker->died || worker->left)
        return;
    worker->died = false;
    worker->lost = false;
    worker->life_s = c->now_s;
    worker->owes_s = c->now_s;
    log_event(c, RECORD_EVENT_BACK, (int32_t)w, -1,
              "another process has taken its place");
}

const char *loss_of_all(const struct coordinator *c)
{
    struct seg_mean about;
    uint32_t n_died = 0, n_final = 0;

    for (uint32_t w = 0; w < c->n_workers; w++) {
        n_died += c->worker[w].died;
        n_final += c->worker[w].died && c->worker[w].left;
    }
    if (n_final == c->n_workers)
        return "no worker is left";
    if (deal_hopeless(c))
        return deal_hopeless(c);
    /* A new process goes on from another's state, from the first mean, or from
     * the checkpoint that the run went on from. */
    if (n_died == c->n_workers && c->published > c->resumed &&
        (c->resumed || !node_mean(c->node, 1, &about)))
        return "all workers have died, and the state of the run with them";
    return NULL;
}
