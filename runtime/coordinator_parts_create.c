#include <stdlib.h>

#include "coordinator_parts_priv.h"
#include "error.h"
#include "launch.h"

/* The divisor of the batch that is nearest to that many parts, so that any
 * number of batches is a number of parts; never more than `most` parts. */
static uint64_t part_size(uint64_t batch, uint64_t parts, uint64_t most)
{
    uint64_t wanted = (batch + parts - 1) / parts;
    uint64_t smaller = wanted, larger = wanted;

    while (batch % smaller)
        smaller--;
    while (batch % larger)
        larger++;
    if (batch / smaller > most || wanted * wanted >= smaller * larger)
        return larger;
    return smaller;
}

static enum dsgd_err check(const struct coordinator *c, enum cutoff_mode mode,
                           struct dsgd_error *err)
{
    if (mode != CUTOFF_FULL && mode != CUTOFF_REPLAY && mode != CUTOFF_DYNAMIC)
        return error_set(
            err, DSGD_E_USAGE,
            "--dsgd-work: shared computes the whole batch of every "
            "step and cuts nobody: --dsgd-cutoff must be full, or dynamic for "
            "parts sized by the timing model (got \"%s\")",
            c->opt.cutoff);
    if (c->opt.sampler == DSGD_SAMPLER_NONE)
        return error_set(err, DSGD_E_USAGE,
                         "--dsgd-work: shared needs the samples to be handed "
                         "out: a program with its own data loader can have "
                         "\"own\" only");
    return DSGD_OK;
}

uint64_t deal_parts(const struct coordinator *c)
{
    return c->opt.batch / c->deal->part;
}

/* A node may have to do the work of several, within reason. */
static uint32_t capacity_of(const struct coordinator *c, uint32_t node,
                            uint64_t parts, bool replays)
{
    const uint64_t times = 8;
    if (replays) /* all that a node may have been given then */
        return SEGMENT_PARTS + c->peer[node].n_local;
    uint64_t own = c->peer[node].n_local * (parts + 1);
    uint64_t all = c->n_workers * (parts + 1);
    uint64_t most = own * times < all ? own * times : all;

    most = most < SEGMENT_PARTS ? most : SEGMENT_PARTS;
    return (uint32_t)most + c->peer[node].n_local;
}

static enum dsgd_err allocate(struct coordinator *c, struct deal *d,
                              bool replays, struct dsgd_error *err)
{
    uint64_t parts = c->opt.batch / d->part;
    size_t workers = c->n_workers;
    bool good = true;

    d->node = calloc(c->n_nodes, sizeof *d->node);
    d->waits = calloc(c->n_workers, sizeof *d->waits);
    d->counts = calloc(c->n_workers, sizeof *d->counts);
    d->busy_s = calloc(c->n_workers, sizeof *d->busy_s);
    d->since_s = calloc(workers, sizeof *d->since_s);
    d->done_s = calloc(workers, sizeof *d->done_s);
    d->alive = calloc(c->n_nodes, sizeof *d->alive);
    d->drawn = calloc(MSG_RANGES, sizeof *d->drawn);
    d->range = calloc(workers + MSG_RANGES, sizeof *d->range);
    d->first = calloc(workers, sizeof *d->first);
    d->first_at = calloc(workers, sizeof *d->first_at);
    d->lost = calloc(workers, sizeof *d->lost);
    d->lost_s = calloc(workers, sizeof *d->lost_s);
    d->script = calloc(MSG_SCRIPTS, sizeof *d->script);
    d->row = calloc(c->n_workers, sizeof *d->row);
    for (uint32_t i = 0; d->node && i < c->n_nodes; i++) {
        struct deal_node *n = &d->node[i];
        n->capacity = capacity_of(c, i, parts, replays);
        n->part = calloc(n->capacity, sizeof *n->part);
        n->held = calloc(n->capacity, sizeof *n->held);
        good = good && n->part && n->held;
    }
    if (!good || !d->node || !d->waits || !d->counts || !d->busy_s ||
        !d->since_s || !d->done_s || !d->alive || !d->drawn || !d->range ||
        !d->first || !d->first_at || !d->lost || !d->lost_s || !d->script ||
        !d->row)
        return error_set(err, DSGD_E_NOMEM, "coordinator: no memory");
    enum dsgd_err rc = tokens_create(&d->tokens, c->n_nodes, err);
    /* More than that are not handed out at a time. */
    size_t usual = (size_t)c->n_workers * (size_t)(parts + 1);
    return rc == DSGD_OK ? sampler_reserve(c->sampler, 4 * usual, err) : rc;
}

enum dsgd_err deal_create(struct coordinator *c, enum cutoff_mode mode,
                          struct dsgd_error *err)
{
    uint32_t largest = 0;

    if (c->opt.work != DSGD_WORK_SHARED)
        return DSGD_OK;
    enum dsgd_err rc = check(c, mode, err);
    if (rc != DSGD_OK)
        return rc;
    struct deal *d = calloc(1, sizeof *d);
    if (!d)
        return error_set(err, DSGD_E_NOMEM, "coordinator: no memory");
    c->deal = d;
    for (uint32_t i = 0; i < c->n_nodes; i++)
        largest = c->peer[i].n_local > largest ? c->peer[i].n_local : largest;
    /* A node's parts of two batches a worker fit into its segment. */
    uint64_t most = SEGMENT_PARTS / (2 * (uint64_t)largest);
    most = most ? most : 1;
    uint64_t parts = launch_parts(&c->opt);
    d->part = part_size(c->opt.batch, parts < most ? parts : most, most);
    rc = allocate(c, d, mode == CUTOFF_REPLAY, err);
    if (rc != DSGD_OK)
        deal_free(c);
    return rc;
}

void deal_free(struct coordinator *c)
{
    struct deal *d = c->deal;

    if (!d)
        return;
    for (uint32_t i = 0; d->node && i < c->n_nodes; i++) {
        free(d->node[i].part);
        free(d->node[i].held);
    }
    free(d->node);
    free(d->waits);
    free(d->counts);
    free(d->busy_s);
    free(d->since_s);
    free(d->done_s);
    free(d->alive);
    free(d->drawn);
    free(d->range);
    free(d->script);
    free(d->row);
    free(d->first);
    free(d->first_at);
    free(d->lost);
    free(d->lost_s);
    tokens_free(&d->tokens);
    free(d);
    c->deal = NULL;
}
