/* A coordinator among simulated nodes and workers, in virtual time: workers are
 * slow, poll or do not, stop and go on; nodes freeze and thaw.  What the
 * coordinator publishes is checked: a worker's gradient counts its samples.
 * With opt.deposits they give their shares part by part, and a part is added in
 * two goes, between which a worker may be stopped.
 *
 * The program is linked with -Wl,--wrap=own_clock_s. */
#ifndef DSGD_TESTS_CLUSTER_SIM_H
#define DSGD_TESTS_CLUSTER_SIM_H

#include "coordinator.h"
#include "dsgd.h"

struct cluster_spec {
    struct dsgd_options opt; /* grad_elems is set to n_samples */
    uint32_t n_nodes, per_node;
    uint64_t seed;
    double step_s;   /* of an ordinary batch */
    double slow;     /* probability of one that takes 3 to 30 times as long */
    double less;     /* … of handing over fewer samples than were given */
    double stop_s;   /* a worker is stopped that often, on average; 0: never */
    double die_s;    /* … or with shared work ends for good, but one */
    double freeze_s; /* … a node but the first is frozen */
    double freeze_in_sum; /* probability that a node freezes when asked for its
                             sum */
    double twice; /* probability that the coordinator is told of a part twice */
    double spread;  /* of the workers' speeds with shared work: from 1 / spread
                      to spread of the ordinary; 0: all the same */
    double limit_s; /* virtual time after which it is called a hang */
    const struct timing_model *model; /* for a cutoff that needs one */
    const char *record; /* a file to make, or NULL.  A cutoff of replay:FILE
                             does one again */
};

struct cluster_result {
    bool ended; /* false: it hung */
    uint64_t steps, epochs, samples;
    uint64_t doubled; /* samples that contributed twice to an epoch */
    uint64_t missing; /* … or never */
    uint64_t wrong;   /* means that are not of as many samples as is said */
    uint64_t lacking; /* samples that contributors had not given */
    uint64_t carried; /* samples beyond the shares of those in time */
    uint64_t empty;   /* steps of no samples */
    uint64_t over;    /* steps of more than all workers' batches */
    uint64_t asked;   /* sums that were asked for */
    uint64_t early;   /* … that were sent before that */
    uint64_t under;   /* … of less, where the epoch had them */
    double time_s;    /* virtual */
    double ideal_s;   /* … if all had worked all the time, at their speeds */
    uint64_t least;   /* samples of a step that could have had more */
    uint64_t parts;   /* of shared work that were accepted */
    uint64_t hash;    /* of all means and what is said of them */
};

/* Run it to its end.  Returns false when it could not be set up. */
bool cluster_run(const struct cluster_spec *spec, struct cluster_result *r);

#endif
