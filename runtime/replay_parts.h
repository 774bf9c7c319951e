/* A record's rows of contributions of shared work, joined: step by step, which
 * parts each worker computes, in which order.  Behind replay_script.h. */
#ifndef DSGD_REPLAY_PARTS_H
#define DSGD_REPLAY_PARTS_H

#include "replay_script.h"

/* A worker's gradients that one step may carry out of it. */
#define SCRIPT_MOST_LATE 2

/* Rows of a step, in order of workers and of nth. */
struct script_rows {
    struct record_contribution *row;
    size_t n, room;
};

struct script_parts {
    struct script_rows now, next; /* of the step at hand, and of the next */
    struct script_part *part;     /* [now.room + next.room] */
};

void script_parts_free(struct script_parts *p);

/* Errors: DSGD_E_NOMEM. */
enum dsgd_err script_parts_reserve(struct script_parts *p, size_t rows,
                                   struct dsgd_error *err);

/* A row of the step after the one at hand.  Errors: DSGD_E_NOMEM. */
enum dsgd_err script_parts_add(struct script_parts *p,
                               const struct record_contribution *row,
                               struct dsgd_error *err);

/* The rows of the step `step` and those of the next are there: fill what
 * workers do in it.
 *   worker  in/out  [n_workers]
 * Returns NULL, or what is wrong with them. */
const char *script_parts_join(struct script_parts *p, uint64_t step,
                              uint64_t n_samples, struct script_worker *worker,
                              uint32_t n_workers);

/* Go on: the next step's rows are those of the step at hand. */
void script_parts_turn(struct script_parts *p);

#endif
