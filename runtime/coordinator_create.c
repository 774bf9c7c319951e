/* Making and freeing a coordinator. */
#include <stdlib.h>

#include "coordinator_checkpoint.h"
#include "coordinator_deposits.h"
#include "coordinator_dynamic.h"
#include "coordinator_loads.h"
#include "coordinator_parts.h"
#include "coordinator_shares.h"
#include "coordinator_priv.h"
#include "error.h"

static void free_peers(struct coordinator *c)
{
    for (uint32_t i = 0; c->peer && i < c->n_nodes; i++) {
        free(c->peer[i].worker);
        free(c->peer[i].mask);
        state_drop(&c->peer[i].state.copy);
    }
    free(c->peer);
}

void coordinator_destroy(struct coordinator *c)
{
    if (!c)
        return;
    record_close(c->record, false, c->now_s - c->origin_s, RECORD_FLUSH_S,
                 NULL);
    checkpoints_free(c);
    record_replay_close(c->replay);
    free_peers(c);
    free(c->worker);
    free(c->flag_a);
    free(c->flag_b);
    free(c->range);
    free(c->share);
    free(c->close_body);
    free(c->row_mask);
    free(c->row_duration);
    free(c->row_lag);
    free(c->row_first);
    free(c->row_count);
    dyn_free(c);
    sizes_free(c);
    loads_free(c);
    deal_free(c);
    deposits_free(c);
    cutoff_destroy(c->cutoff);
    sampler_destroy(c->sampler);
    free(c);
}

static bool alloc_arrays(struct coordinator *c)
{
    size_t n = c->n_workers;

    c->worker = calloc(n, sizeof *c->worker);
    c->peer = calloc(c->n_nodes, sizeof *c->peer);
    for (uint32_t i = 0; c->peer && i < c->n_nodes; i++)
        c->peer[i].state.copy.fd = -1;
    c->flag_a = calloc(n, sizeof *c->flag_a);
    c->flag_b = calloc(n, sizeof *c->flag_b);
    c->range = calloc(n, sizeof *c->range);
    c->share = calloc(n, sizeof *c->share);
    c->close_body = calloc(n + c->n_nodes, sizeof *c->close_body);
    c->row_mask = calloc(n, sizeof *c->row_mask);
    c->row_duration = calloc(n, sizeof *c->row_duration);
    c->row_lag = calloc(n, sizeof *c->row_lag);
    c->row_first = calloc(n, sizeof *c->row_first);
    c->row_count = calloc(n, sizeof *c->row_count);
    return c->worker && c->peer && c->flag_a && c->flag_b && c->range &&
           c->share && c->close_body && c->row_mask && c->row_duration &&
           c->row_lag && c->row_first && c->row_count;
}

/* Number the workers within their nodes, in rank order. */
static bool place_workers(struct coordinator *c, const uint32_t *worker_node)
{
    for (uint32_t w = 0; w < c->n_workers; w++) {
        c->worker[w].node = worker_node[w];
        c->worker[w].local = c->peer[worker_node[w]].n_local++;
    }
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        struct peer *p = &c->peer[i];
        p->worker = calloc(p->n_local, sizeof *p->worker);
        p->mask = calloc(p->n_local, sizeof *p->mask);
        if (!p->worker || !p->mask)
            return false;
    }
    for (uint32_t w = 0; w < c->n_workers; w++)
        c->peer[worker_node[w]].worker[c->worker[w].local] = w;
    return true;
}

enum dsgd_err coordinator_create(const struct coordinator_config *config,
                                 struct coordinator **out,
                                 struct dsgd_error *err)
{
    struct coordinator *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c)
        return error_set(err, DSGD_E_NOMEM, "coordinator: no memory");
    c->opt = *config->opt;
    c->n_workers = config->n_workers;
    c->n_nodes = config->n_nodes;
    c->node = config->node;
    c->transport = config->transport;
    c->exchange = config->exchange;
    c->clock = config->clock;
    c->step = 1;
    c->phase = PHASE_BOUNDARY;
    if (!alloc_arrays(c) || !place_workers(c, config->worker_node)) {
        coordinator_destroy(c);
        return error_set(err, DSGD_E_NOMEM, "coordinator: no memory");
    }
    enum dsgd_err rc =
        cutoff_create(config->cutoff, c->n_workers, c->opt.min_contributors, 0,
                      &c->cutoff, err);
    if (rc == DSGD_OK)
        rc = deposits_create(c, err);
    if (rc == DSGD_OK)
        rc = dyn_create(c, config, err);
    if (rc == DSGD_OK)
        rc = sampler_create(&c->opt, c->n_workers, &c->sampler, err);
    if (rc == DSGD_OK)
        rc = deal_create(c, config->cutoff->mode, err);
    if (rc == DSGD_OK)
        early_create(c, config->cutoff->mode);
    if (rc == DSGD_OK)
        rc = sizes_create(c, config, err);
    if (rc != DSGD_OK) {
        coordinator_destroy(c);
        return rc;
    }
    *out = c;
    return DSGD_OK;
}

void coordinator_record(struct coordinator *c, struct record *record)
{
    c->record = record;
}

void coordinator_replay(struct coordinator *c, struct record_replay *replay)
{
    c->replay = replay;
}
