/* The simulated cluster of one policy: who is busy with what. */
#ifndef DSGD_SIMULATE_WORLD_H
#define DSGD_SIMULATE_WORLD_H

#include <stdbool.h>

#include "rng.h"
#include "simulate.h"

struct event {
    double at_s; /* since the step's start */
    uint32_t worker;
};

struct world {
    const struct simulate_spec *spec;
    size_t n, n_busy;
    const double *x;      /* [n] durations of the batches begun in this step */
    double *lag_s;        /* [n] when each is free, 0: ready */
    double *elapsed_s;    /* [n] of a busy worker's old batch, at the start */
    double *old_s;        /* [n] that batch's whole duration */
    bool *busy;           /* [n] lag_s > 0 */
    bool *sits_out;       /* [n] free too late, starts with the next step */
    bool *done;           /* [n] contributes */
    double *start_s;      /* [n] lag_s, at most the close */
    float *log_s;         /* [n] what is observed */
    uint8_t *status;      /* [n] */
    uint8_t *part;        /* [n] enum dynamic_part */
    struct event *arrive; /* [n] ascending: free and batch done */
    struct event *free;   /* [n_busy] ascending */
    struct rng rng;
};

enum dsgd_err world_create(const struct simulate_spec *spec, size_t n,
                           struct world *w, struct dsgd_error *err);
void world_free(struct world *w);

/* A step begins: x [n] are the durations of the batches that begin in it. */
void world_begin(struct world *w, const double *x);

/* Close when the first c have arrived: returns when, and marks them done. */
double world_close_at(struct world *w, size_t c);

/* The step was closed at close_s: what is observed of everybody. */
void world_observe(struct world *w, double close_s);

/* … and what they still have to do when the next one begins. */
void world_carry(struct world *w, double close_s);

size_t world_contributors(const struct world *w);

#endif
