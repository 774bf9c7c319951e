#include "train_optim.h"

void train_count(struct train_counters *c, const struct dsgd_mean *mean)
{
    if (mean->epoch != c->epoch)
        c->epoch_samples = 0;
    c->step = mean->step;
    c->epoch = mean->epoch;
    c->epoch_samples += mean->samples;
    if (mean->epoch_end) {
        c->epoch++;
        c->epoch_samples = 0;
    }
}

double train_epochs_done(const struct train_counters *c, uint64_t n_samples)
{
    double part = (double)c->epoch_samples / (double)n_samples;

    return (double)c->epoch + (part < 1 ? part : 1);
}

/* (1 + cos(pi x)) / 2 for 0 <= x <= 1, by the Taylor series of cos(y) around 0
 * on |y| <= pi / 2, with error below 1e-9. */
static double half_cosine(double x)
{
    const double pi = 3.14159265358979323846;
    double y = x <= 0.5 ? pi * x : pi * (1 - x), sum = 1, term = 1;

    for (int k = 2; k <= 14; k += 2) {
        term *= -y * y / (double)(k * (k - 1));
        sum += term;
    }
    return x <= 0.5 ? (1 + sum) / 2 : (1 - sum) / 2;
}

double train_fraction_done(const struct train_schedule_spec *spec,
                           const struct train_counters *c)
{
    double by_epochs = 0, by_steps = 0;

    if (spec->epochs)
        by_epochs =
            train_epochs_done(c, spec->n_samples) / (double)spec->epochs;
    if (spec->max_steps)
        by_steps = (double)c->step / (double)spec->max_steps;
    double done = by_epochs > by_steps ? by_epochs : by_steps;
    return done < 1 ? done : 1;
}

double train_learning_rate(const struct train_schedule_spec *spec,
                           const struct train_counters *c, uint64_t samples)
{
    double done = train_fraction_done(spec, c), lr = spec->lr;

    if (spec->schedule == TRAIN_STEP)
        lr *= done < 0.5 ? 1 : done < 0.75 ? 0.1 : 0.01;
    else if (spec->schedule == TRAIN_COSINE)
        lr *= half_cosine(done);
    /* With the step that is to come, so that the first is not for nothing. */
    double warm = train_epochs_done(c, spec->n_samples) +
                  (double)samples / (double)spec->n_samples;
    if (warm < spec->warmup_epochs)
        lr *= warm / spec->warmup_epochs;
    return lr;
}

void train_update(size_t n, float *params, float *velocity, const float *grad,
                  float lr, float momentum)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        velocity[i] = momentum * velocity[i] + grad[i];
        params[i] -= lr * velocity[i];
    }
}
