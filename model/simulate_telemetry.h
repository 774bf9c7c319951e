/* What a model reads of a trace's telemetry. */
#ifndef DSGD_SIMULATE_TELEMETRY_H
#define DSGD_SIMULATE_TELEMETRY_H

#include <stddef.h>

#include "dsgd_error.h"
#include "timing.h"
#include "trace.h"

struct simulate_telemetry {
    const struct trace *t;
    size_t features; /* that the model reads, 0: no telemetry */
    int *from;       /* [features] column of the trace, -1: none */
    float *row;      /* [n_nodes][features] */
};

/*   model  in  NULL: none.  Errors: DSGD_E_NOMEM; free in any case. */
enum dsgd_err simulate_telemetry_create(struct simulate_telemetry *s,
                                        const struct trace *t,
                                        const struct timing_model *model,
                                        struct dsgd_error *err);
void simulate_telemetry_free(struct simulate_telemetry *s);

/* [n_nodes][features] as readable when a step began; NULL: none.  Holds until
 * the next call. */
const float *simulate_telemetry_at(struct simulate_telemetry *s, size_t step);

#endif
