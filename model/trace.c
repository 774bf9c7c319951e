#include "trace.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "error.h"

static bool cells(size_t a, size_t b, size_t c, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out) &&
           !__builtin_mul_overflow(*out, c, out) && *out <= SIZE_MAX / 16;
}

static void block_nodes(struct trace *t)
{
    for (size_t j = 0; j < t->n; j++) {
        t->column[j] = (uint32_t)j;
        /* the same sizes as dealing workers to nodes in turn: the first
         * n mod N nodes have one more */
        size_t small = t->n / t->n_nodes, more = t->n % t->n_nodes;
        size_t in_big = more * (small + 1);
        t->node[j] = (uint32_t)(j < in_big ? j / (small + 1)
                                           : more + (j - in_big) / small);
    }
}

enum dsgd_err trace_create(size_t steps, size_t n, size_t n_nodes,
                           size_t features, struct trace **out,
                           struct dsgd_error *err)
{
    size_t durations, looks;

    *out = NULL;
    if (!steps || !n || !n_nodes || n_nodes > n || n > UINT32_MAX)
        return error_set(err, DSGD_E_RANGE,
                         "trace: %zu steps of %zu workers on %zu nodes", steps,
                         n, n_nodes);
    if (!cells(steps, n, 1, &durations) ||
        !cells(steps, n_nodes, features, &looks))
        return error_set(err, DSGD_E_RANGE,
                         "trace: %zu steps of %zu workers are too many", steps,
                         n);
    struct trace *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(err, DSGD_E_NOMEM, "trace: no memory");
    *t = (struct trace){
        .steps = steps, .n = n, .n_nodes = n_nodes, .features = features};
    t->duration_s = calloc(durations, sizeof *t->duration_s);
    t->node = calloc(n, sizeof *t->node);
    t->column = calloc(n, sizeof *t->column);
    t->telemetry = malloc((looks ? looks : 1) * sizeof *t->telemetry);
    if (!t->duration_s || !t->node || !t->column || !t->telemetry) {
        trace_free(t);
        return error_set(err, DSGD_E_NOMEM,
                         "trace: no memory for %zu steps of %zu workers", steps,
                         n);
    }
    for (size_t i = 0; i < looks; i++)
        t->telemetry[i] = NAN;
    block_nodes(t);
    *out = t;
    return DSGD_OK;
}

void trace_free(struct trace *t)
{
    if (!t)
        return;
    for (size_t i = 0; t->node_name && i < t->n_nodes; i++)
        free(t->node_name[i]);
    free(t->node_name);
    free(t->name);
    free(t->duration_s);
    free(t->node);
    free(t->column);
    free(t->telemetry);
    free(t);
}
