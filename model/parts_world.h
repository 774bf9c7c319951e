/* The simulated cluster of a policy in parts: who has what in hand, and the
 * events in their order. */
#ifndef DSGD_PARTS_WORLD_H
#define DSGD_PARTS_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rng.h"
#include "simulate.h"

struct parts_worker {
    double lag_s;   /* at the step's start: free then, 0: ready */
    bool old;       /* it has an older step's claim in hand until then */
    size_t claim;   /* units in hand: of this step, or old ones that count in
                       it */
    double start_s; /* of what is in hand */
    double end_s;   /* of the same, INFINITY: nothing is */
    double batch_s; /* duration of a whole batch at the rate of that */
    size_t worked;  /* units computed in this step */
    double work_s;  /* that these took, costs apart */
    size_t in;      /* of these, taken */
};

struct parts_event {
    double at_s;
    uint32_t worker;
};

struct parts_world {
    const struct simulate_spec *spec;
    size_t n, units; /* workers; units of a batch */
    const double *x; /* [n] durations of batches in this step */
    struct parts_worker *worker;
    struct parts_event *heap; /* [n] the earliest first */
    size_t events;
    size_t claims; /* of all steps */
    struct rng rng, noise;
};

enum dsgd_err parts_world_create(const struct simulate_spec *spec, size_t n,
                                 size_t units, struct parts_world *w,
                                 struct dsgd_error *err);
void parts_world_free(struct parts_world *w);

/* A step begins: an event for each worker, when it is free. */
void parts_world_begin(struct parts_world *w, const double *x);

/* Take the earliest event.  False: there is none. */
bool parts_world_next(struct parts_world *w, struct parts_event *e);

/* A worker begins so many units; its next event is their end. */
void parts_world_claim(struct parts_world *w, size_t j, double at_s,
                       size_t units);

/* Its claim is computed and so many units of it are taken, all or none. */
void parts_world_deposit(struct parts_world *w, size_t j, double at_s,
                         size_t units);

/* The step was closed: what is observed of everybody's batch. */
void parts_world_observe(struct parts_world *w, double close_s, float *log_s,
                         uint8_t *status);

/* … and what they still have to do when the next one begins. */
void parts_world_carry(struct parts_world *w, double close_s);

#endif
