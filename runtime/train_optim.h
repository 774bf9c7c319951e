/* Stochastic gradient descent with momentum and a learning-rate schedule.
 *
 * Every worker applies the same means, so what is computed here must be the
 * same bits everywhere: plain additions and multiplications in a fixed order,
 * no BLAS, no function of libm, which differ between processors. */
#ifndef DSGD_TRAIN_OPTIM_H
#define DSGD_TRAIN_OPTIM_H

#include <stddef.h>
#include <stdint.h>

#include "dsgd.h"

enum train_schedule {
    TRAIN_CONSTANT,
    TRAIN_STEP,  /* a tenth after half of the run, a hundredth after three
                    quarters */
    TRAIN_COSINE /* along half a cosine to 0 */
};

struct train_schedule_spec {
    enum train_schedule schedule;
    double lr;            /* peak */
    double warmup_epochs; /* rises linearly from 0 over so many */
    uint64_t epochs;      /* length of the run; 0: unknown */
    uint64_t max_steps;   /* 0: unknown; the earlier end counts */
    uint64_t n_samples;   /* of an epoch */
};

/* How far a run is: a function of the means applied. */
struct train_counters {
    uint64_t step;          /* of the last mean */
    uint64_t epoch;         /* of the last mean */
    uint64_t epoch_samples; /* contributed in this epoch */
};

/* Count a mean. */
void train_count(struct train_counters *c, const struct dsgd_mean *mean);

/* Epochs done, as a fraction: 1.25.  Samples dropped make an epoch end early;
 * the next one then starts at a whole number all the same. */
double train_epochs_done(const struct train_counters *c, uint64_t n_samples);

/* 0 at the start of the run, 1 at its end. */
double train_fraction_done(const struct train_schedule_spec *spec,
                           const struct train_counters *c);

/* The learning rate of a step.
 *   c        in  before the step's mean is counted
 *   samples  in  of that mean */
double train_learning_rate(const struct train_schedule_spec *spec,
                           const struct train_counters *c, uint64_t samples);

/* velocity = momentum * velocity + grad;  params -= lr * velocity.
 *   params, velocity  [n]  in out
 *   grad              [n]  in, a mean over samples */
void train_update(size_t n, float *params, float *velocity, const float *grad,
                  float lr, float momentum);

#endif
