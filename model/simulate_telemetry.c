#include "simulate_telemetry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

enum dsgd_err simulate_telemetry_create(struct simulate_telemetry *s,
                                        const struct trace *t,
                                        const struct timing_model *model,
                                        struct dsgd_error *err)
{
    *s = (struct simulate_telemetry){.t = t};
    s->features = model && t->features ? timing_model_features(model) : 0;
    if (!s->features)
        return DSGD_OK;
    s->from = calloc(s->features, sizeof *s->from);
    s->row = calloc(t->n_nodes, s->features * sizeof *s->row);
    if (!s->from || !s->row)
        return error_set(err, DSGD_E_NOMEM, "simulate: no memory");
    for (size_t f = 0; f < s->features; f++) {
        s->from[f] = -1;
        for (size_t i = 0; i < t->features; i++) {
            if (strcmp(timing_model_feature(model, f), t->feature[i]) == 0)
                s->from[f] = (int)i;
        }
    }
    return DSGD_OK;
}

void simulate_telemetry_free(struct simulate_telemetry *s)
{
    free(s->from);
    free(s->row);
}

const float *simulate_telemetry_at(struct simulate_telemetry *s, size_t step)
{
    const struct trace *t = s->t;
    float *out = s->row;

    if (!s->features)
        return NULL;
    for (size_t i = 0; i < t->n_nodes; i++) {
        const float *row = t->telemetry + (step * t->n_nodes + i) * t->features;
        for (size_t f = 0; f < s->features; f++)
            *out++ = s->from[f] < 0 ? NAN : row[s->from[f]];
    }
    return s->row;
}
