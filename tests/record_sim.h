/* A simulated run, as a coordinator would put it into its record: a worker that
 * is cut goes on computing, or notices at its next micro-batch, and starts the
 * next step late. */
#ifndef DSGD_TESTS_RECORD_SIM_H
#define DSGD_TESTS_RECORD_SIM_H

#include "record.h"

enum { SIM_MAX_NODES = 16 };

struct sim {
    uint64_t seed;
    uint32_t nodes, per_node;
    uint64_t steps, steps_per_epoch;
    double median_s;
    double sigma;  /* of the log durations */
    double tail;   /* probability of an outlier, 3 to 30 times as long */
    double common; /* sigma of a factor that all share in a step */
    uint32_t keep; /* contributors waited for; 0: all */
    bool polls;    /* eight micro-batches, else a cut worker finishes */
    double node_factor[SIM_MAX_NODES]; /* 0: 1 */
    uint64_t slow_from, slow_to;       /* steps with node_factor; 0: all */
    uint32_t slow_worker;  /* 1 + rank of one with factor 3; 0: none */
    uint32_t stuck_worker; /* 1 + rank, from stuck_step on; 0: none */
    uint64_t stuck_step;
};

/* Run it.  step and late are called in the order of what happens. */
void sim_run(const struct sim *sim,
             void (*step)(void *arg, const struct record_step *step),
             void (*late)(void *arg, const struct record_late *late),
             void *arg);

/* Uniform in (0, 1), and standard normal. */
double sim_uniform(uint64_t *state);
double sim_normal(uint64_t *state);

#endif
