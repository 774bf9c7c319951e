#include "coordinator_loads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

/* A node's load goes into the record so often. */
#define RECORD_LOAD_S 2.0

/* Which of a node's features the model reads. */
static void map_features(struct loads *l, const struct timing_model *model)
{
    static const char *const names[] = {DSGD_TELEMETRY_FEATURES};

    for (size_t f = 0; f < l->n_features; f++) {
        l->feature[f] = -1;
        for (int i = 0; i < DSGD_N_TELEMETRY; i++) {
            if (strcmp(names[i], timing_model_feature(model, f)) == 0)
                l->feature[f] = i;
        }
    }
}

/* The model wants the workers of a node side by side. */
static void order_workers(const struct coordinator *c, struct loads *l)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < c->n_nodes; i++) {
        for (uint32_t k = 0; k < c->peer[i].n_local; k++) {
            l->index[c->peer[i].worker[k]] = next;
            for (uint32_t u = 0; u < l->n_units; u++)
                l->node[next++] = i;
        }
    }
}

enum dsgd_err loads_create(struct coordinator *c,
                           const struct timing_model *model, uint32_t n_units,
                           struct dsgd_error *err)
{
    size_t n = c->n_workers, nodes = c->n_nodes;
    struct loads *l = calloc(1, sizeof *l);

    c->loads = l;
    if (!l)
        return error_set(err, DSGD_E_NOMEM, "timing model: no memory");
    l->n_units = n_units;
    l->n_features = timing_model_features(model);
    l->feature = calloc(l->n_features + 1, sizeof *l->feature);
    l->index = calloc(n, sizeof *l->index);
    l->node = calloc(n, n_units * sizeof *l->node);
    l->telemetry = calloc(nodes * (l->n_features + 1), sizeof *l->telemetry);
    l->value = calloc(nodes * DSGD_N_TELEMETRY, sizeof *l->value);
    if (!l->feature || !l->index || !l->node || !l->telemetry || !l->value) {
        loads_free(c);
        return error_set(err, DSGD_E_NOMEM, "timing model: no memory");
    }
    map_features(l, model);
    order_workers(c, l);
    for (size_t i = 0; i < nodes * DSGD_N_TELEMETRY; i++)
        l->value[i] = NAN;
    return DSGD_OK;
}

void loads_free(struct coordinator *c)
{
    struct loads *l = c->loads;

    if (!l)
        return;
    free(l->feature);
    free(l->index);
    free(l->node);
    free(l->telemetry);
    free(l->value);
    free(l);
    c->loads = NULL;
}

void coordinator_telemetry(struct coordinator *c, uint32_t node,
                           const float *value)
{
    struct loads *l = c->loads;
    struct record_telemetry row = {.step = c->step, .node = node};

    memcpy(row.value, value, sizeof row.value);
    if (c->now_s - c->peer[node].load_s >= RECORD_LOAD_S) {
        c->peer[node].load_s = c->now_s;
        record_put_telemetry(c->record, &row);
    }
    if (!l)
        return;
    memcpy(l->value + (size_t)node * DSGD_N_TELEMETRY, value, sizeof row.value);
    l->heard = true;
}

const float *loads_features(struct coordinator *c)
{
    struct loads *l = c->loads;

    for (uint32_t i = 0; i < c->n_nodes; i++) {
        for (size_t f = 0; f < l->n_features; f++) {
            int source = l->feature[f];
            l->telemetry[i * l->n_features + f] =
                source < 0 ? NAN : l->value[i * DSGD_N_TELEMETRY + source];
        }
    }
    return l->heard ? l->telemetry : NULL;
}
