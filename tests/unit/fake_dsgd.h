/* A stand-in for libdsgd with one worker, to test the training loop alone.  It
 * checks the order of calls and can behave like a bad day on a cluster. */
#ifndef DSGD_TESTS_FAKE_DSGD_H
#define DSGD_TESTS_FAKE_DSGD_H

#include "dsgd.h"

struct fake_plan {
    uint64_t abandon_every; /* 3: steps 3, 6, … are abandoned at their first
                               poll and then published by somebody else, with
                               a gradient of zeros; 0: never */
    uint64_t empty_every;   /* the share of such steps has 0 samples */
    uint64_t resync_at;     /* before this step's mean the registered state is
                               overwritten by itself; 0: never */
    uint64_t fail_at;       /* dsgd_reduce fails; 0: never */
    bool standstill;        /* scale every learning rate by 0 */
    uint64_t part;          /* samples of a part; one that is deposited in a
                               step of abandon_every is too late, and so is the
                               step published, with zeros */
};

/* What was seen. */
struct fake_seen {
    uint64_t polls, abandoned, reduced_samples, wrong_order, parts;
    size_t registered; /* parts */
};

void fake_open(const struct dsgd_options *opt, const struct fake_plan *plan,
               struct dsgd **d);
const struct fake_seen *fake_seen(const struct dsgd *d);

#endif
