#include "tokens.h"

#include <math.h>
#include <stdlib.h>

#include "error.h"

enum dsgd_err tokens_create(struct tokens *t, uint32_t n,
                            struct dsgd_error *err)
{
    *t = (struct tokens){.n = n, .node = calloc(n, sizeof *t->node)};
    if (!t->node)
        return error_set(err, DSGD_E_NOMEM, "coordinator: no memory");
    return DSGD_OK;
}

void tokens_free(struct tokens *t)
{
    free(t->node);
}

/* A node of which nothing is known is like the others. */
static void sum_rates(struct tokens *t)
{
    double known = 0;
    uint64_t n_known = 0, n_all = 0;

    for (uint32_t i = 0; i < t->n; i++) {
        const struct tokens_node *p = &t->node[i];
        n_all += p->workers;
        if (p->workers && p->rate > 0) {
            known += p->rate;
            n_known += p->workers;
        }
    }
    t->rate_one = n_known ? known / (double)n_known : 1;
    t->rate = known + t->rate_one * (double)(n_all - n_known);
}

void tokens_open(struct tokens *t, uint64_t part, uint64_t batch,
                 const uint32_t *workers)
{
    for (uint32_t i = 0; i < t->n; i++)
        t->node[i] = (struct tokens_node){.rate = t->node[i].rate,
                                          .workers = workers[i]};
    t->part = part;
    t->batch = t->reserve = batch;
    t->accepted = t->fixed = 0;
    sum_rates(t);
}

uint64_t tokens_left(const struct tokens *t, uint32_t node)
{
    const struct tokens_node *p = &t->node[node];

    return p->given - p->accepted - p->fixed;
}

static bool able(const struct tokens_node *p)
{
    return p->workers && !p->out;
}

/* One part for each of its workers. */
static uint64_t round_of(const struct tokens *t, const struct tokens_node *p)
{
    return p->workers * t->part;
}

static double share_of(const struct tokens *t, uint32_t node)
{
    const struct tokens_node *p = &t->node[node];

    if (!able(p))
        return 0;
    return (p->rate > 0 ? p->rate : t->rate_one * p->workers) / t->rate;
}

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* A step's end leaves a reserve that is no multiple of part: all of it counts
 * as one. */
static uint64_t in_parts(const struct tokens *t, uint64_t samples)
{
    uint64_t up = (samples + t->part - 1) / t->part * t->part;

    return least_of(up, t->reserve);
}

uint64_t tokens_first(const struct tokens *t, uint32_t node)
{
    const struct tokens_node *p = &t->node[node];
    const double at_once = .75;
    double share = share_of(t, node);

    if (share >= 1) /* there is nobody else */
        return t->reserve;
    if (!able(p))
        return 0;
    uint64_t parts =
        (uint64_t)(at_once * share * (double)(t->batch - t->fixed)) / t->part;
    uint64_t least = round_of(t, p);
    return in_parts(t, parts * t->part > least ? parts * t->part : least);
}

/* Samples a second in this step: as before it until there is more to go by. */
static double pace(const struct tokens *t, uint32_t node, double elapsed_s)
{
    const struct tokens_node *p = &t->node[node];
    double seen = (double)p->accepted, time_s = elapsed_s;

    if (p->rate > 0) {
        double before = (double)round_of(t, p);
        seen += before;
        time_s += before / p->rate;
    }
    return time_s > 0 ? seen / time_s : 0;
}

uint64_t tokens_want(const struct tokens *t, uint32_t node, double elapsed_s,
                     double ahead_s)
{
    const struct tokens_node *p = &t->node[node];

    if (!able(p) || !t->reserve)
        return 0;
    uint64_t has = tokens_left(t, node), need = round_of(t, p) + p->waits;
    double soon = pace(t, node, elapsed_s) * ahead_s;
    if (soon > (double)need)
        need = soon < (double)t->batch ? (uint64_t)soon : t->batch;
    if (has >= need)
        return 0;
    double half = .5 * share_of(t, node) * (double)t->reserve;
    uint64_t want = need - has;
    return in_parts(t, half > (double)want ? (uint64_t)half : want);
}

void tokens_grant(struct tokens *t, uint32_t node, uint64_t tokens)
{
    t->reserve -= tokens;
    t->node[node].given += tokens;
}

void tokens_fix(struct tokens *t, uint32_t node, uint64_t tokens)
{
    tokens_grant(t, node, tokens);
    t->node[node].fixed += tokens;
    t->fixed += tokens;
}

void tokens_first_in(struct tokens *t, uint32_t node, uint64_t samples)
{
    t->node[node].fixed -= samples;
}

void tokens_withdraw(struct tokens *t, uint32_t node, uint64_t tokens)
{
    t->node[node].fixed -= tokens;
    t->node[node].given -= tokens;
    t->reserve += tokens;
}

void tokens_return(struct tokens *t, uint32_t node, uint64_t tokens)
{
    struct tokens_node *p = &t->node[node];

    p->revoking = false;
    p->asked = 0;
    p->given -= tokens;
    t->reserve += tokens;
}

void tokens_accept(struct tokens *t, uint32_t node, uint64_t samples,
                   double elapsed_s)
{
    t->node[node].accepted += samples;
    t->node[node].last_s = elapsed_s;
    t->accepted += samples;
}

uint64_t tokens_lack(const struct tokens *t)
{
    uint64_t waits = 0, coming = t->reserve;

    for (uint32_t i = 0; i < t->n; i++) {
        const struct tokens_node *p = &t->node[i];
        uint64_t left = tokens_left(t, i);
        waits += able(p) && p->waits > left ? p->waits - left : 0;
        coming += p->asked + p->withdraws;
    }
    return waits > coming ? waits - coming : 0;
}

uint32_t tokens_revoke(struct tokens *t, double elapsed_s, uint64_t *most)
{
    double longest_s = 0;
    uint32_t slowest = t->n;

    for (uint32_t i = 0; i < t->n; i++) {
        const struct tokens_node *p = &t->node[i];
        uint64_t left = tokens_left(t, i);
        double pace_of = pace(t, i, elapsed_s);
        double need_s = pace_of > 0 ? (double)left / pace_of : INFINITY;
        if (p->out || p->revoking || (able(p) && p->waits) || left < t->part ||
            !(need_s > longest_s))
            continue;
        longest_s = need_s;
        slowest = i;
    }
    if (slowest == t->n || !tokens_lack(t))
        return t->n;
    struct tokens_node *p = &t->node[slowest];
    uint64_t parts = tokens_left(t, slowest) / t->part;
    *most = (parts + 1) / 2 * t->part;
    p->revoking = true;
    p->asked = *most;
    return slowest;
}

uint32_t tokens_level(struct tokens *t, uint64_t *most)
{
    uint32_t richest = t->n;
    uint64_t beyond = t->part - 1;
    bool idle = false;

    for (uint32_t i = 0; i < t->n; i++) {
        const struct tokens_node *p = &t->node[i];
        uint64_t left = tokens_left(t, i);
        if (p->asked) /* it is under way already */
            return t->n;
        idle = idle || (able(p) && !left);
        if (p->out || left <= round_of(t, p) + beyond)
            continue;
        beyond = left - round_of(t, p);
        richest = i;
    }
    if (t->reserve || !idle || richest == t->n)
        return t->n;
    *most = (beyond / t->part + 1) / 2 * t->part;
    t->node[richest].revoking = true;
    t->node[richest].asked = *most;
    return richest;
}

void tokens_leave(struct tokens *t, uint32_t node, uint64_t waited)
{
    t->node[node].waits -= waited;
    t->node[node].workers--;
}

void tokens_lose(struct tokens *t, uint32_t node)
{
    struct tokens_node *p = &t->node[node];

    t->accepted -= p->accepted;
    t->reserve += p->given;
    p->given = p->accepted = p->fixed = p->waits = 0;
    p->asked = p->withdraws = 0;
    p->revoking = false;
    p->out = true;
}

void tokens_close(struct tokens *t)
{
    const double forget = .3, idle = .7;

    for (uint32_t i = 0; i < t->n; i++) {
        struct tokens_node *p = &t->node[i];
        double rate = p->last_s > 0 ? (double)p->accepted / p->last_s : 0;
        if (!p->workers)
            continue;
        if (!p->accepted)
            p->rate *= idle;
        else if (rate > 0 && p->rate > 0)
            p->rate += forget * (rate - p->rate);
        else if (rate > 0)
            p->rate = rate;
    }
}
