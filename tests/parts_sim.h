/* Simulated workers that claim and offer parts through a node's segment, as
 * client_parts.c does, in virtual time.  A part's gradient counts its
 * samples. */
#ifndef DSGD_TESTS_PARTS_SIM_H
#define DSGD_TESTS_PARTS_SIM_H

#include <stdbool.h>

#include "segment.h"

struct parts_worker {
    uint64_t step;
    uint32_t offers, buf, entry;
    bool first_had, is_first, first_offered; /* as in client.h */
    bool polls;            /* stops with a first part that was withdrawn */
    uint64_t first, count; /* of the part in hand; count 0: none */
    double end_s;          /* when it is computed */
    double claim_s;
};

/* Claim, compute and offer as far as it goes at that time.
 *   sample_s  in  that a sample takes of a part claimed now */
void parts_work(struct segment *seg, uint32_t w, struct parts_worker *k,
                uint64_t step, double now_s, double sample_s);

#endif
