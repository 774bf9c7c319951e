/* What sampler.c and sampler_lanes.c share. */
#ifndef DSGD_SAMPLER_PRIV_H
#define DSGD_SAMPLER_PRIV_H

#include "sampler.h"

/* The queue holds `fresh`, the part of the epoch that nobody was given yet, and
 * the ranges that came back, oldest first; or they are in the workers'
 * lanes. */
struct sampler {
    struct dsgd_options opt;
    uint32_t n_workers;
    uint64_t epoch, fresh;
    uint64_t returned_samples, outstanding; /* returned: those in lanes too */
    struct sample_range *returned; /* ring of capacity, a power of two */
    size_t capacity, head, tail;
    struct sample_range *lane; /* [n_workers], or NULL */
};

/* sampler_assign with lanes. */
bool lanes_assign(struct sampler *s, const bool *able, const bool *prefer,
                  struct sample_range *range);

/* The end of a range that was handed out was not contributed. */
void lanes_take_back(struct sampler *s, const struct sample_range *rest);

#endif
