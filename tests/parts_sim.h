/* Simulated workers that claim and offer parts through a node's segment, as
 * client_parts.c does, in virtual time.  A part's gradient counts its samples,
 * and its last element depends on the part and in which order parts are
 * added. */
#ifndef DSGD_TESTS_PARTS_SIM_H
#define DSGD_TESTS_PARTS_SIM_H

#include <stdbool.h>

#include "segment.h"

struct parts_held {
    uint32_t entry;
    uint64_t first, count;
    double spent_s; /* computing it */
};

struct parts_worker {
    uint64_t step;
    uint32_t offers, buf, next;
    bool first_had, is_first, first_offered; /* as in client.h */
    bool polls;             /* stops with a first part that was withdrawn */
    struct parts_held part; /* in hand; count 0: none */
    bool late;              /* … and to be kept */
    double end_s;           /* when it is computed */
    /* With carries: what was offered last, if it is a part of this step, and
     * what was kept, of step kept_step. */
    bool carries;
    struct parts_held offered, kept[2];
    uint32_t n_kept;
    uint64_t kept_step;
};

/* Claim, compute and offer as far as it goes at that time.
 *   sample_s  in  that a sample takes of a part claimed now */
void parts_work(struct segment *seg, uint32_t w, struct parts_worker *k,
                uint64_t step, double now_s, double sample_s);

/* The step is over.  Returns whether the worker has noticed: not before the
 * part in hand is computed. */
bool parts_over(struct segment *seg, uint32_t w, struct parts_worker *k,
                double now_s);

#endif
