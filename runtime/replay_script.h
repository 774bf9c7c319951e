/* A record's rows of steps and of contributions, joined: step by step, what
 * each worker did. */
#ifndef DSGD_REPLAY_SCRIPT_H
#define DSGD_REPLAY_SCRIPT_H

#include "record_read.h"

/* With shared work: parts that a worker computed one after the other. */
struct script_part {
    uint64_t first, samples; /* of all of them */
    uint32_t part;           /* samples of each, the last may have fewer */
    bool late; /* the next step's sum contains them, not this one's */
};

struct script_worker {
    uint64_t first;   /* of its range in this step */
    uint64_t count;   /* 0: it gave nothing of it, or had none */
    uint64_t given;   /* the first samples of the range, that a sum contains */
    bool late;        /* … the next step's; else this one's */
    uint64_t carried; /* samples of its gradient of the step before, in this
                         step's sum */
    /* With shared work there is no range, and given is of this step's sum. */
    const struct script_part *part; /* [n_parts], late ones last */
    size_t n_parts;
};

struct script;

/* Open the record and read its facts; the script is before its first step.
 *   s  out  NULL on error; script_close
 * Errors: those of record_read_open. */
enum dsgd_err script_open(const char *path, struct script **s,
                          struct dsgd_error *err);
void script_close(struct script *s); /* NULL is fine */

/* Make room for that many rows of contributions of a step and the next, so that
 * no memory is asked for later; the most that there were so far.
 * Errors: DSGD_E_NOMEM. */
enum dsgd_err script_reserve(struct script *s, size_t rows,
                             struct dsgd_error *err);
size_t script_most(const struct script *s);

/* For what else the record tells; its steps and contributions are the
 * script's. */
struct record_read *script_reader(struct script *s);

/* Go on to the next step.  No allocation of ours, but for shared work when
 * there are more rows than were reserved.  Returns DSGD_OK, or DSGD_END after
 * the last.  Errors: DSGD_E_USAGE (a step is missing; what contributed is not
 * what its row says), DSGD_E_FORMAT (a contribution, or a range, that there
 * can't be), those of record_read_step; the script must not be used further
 * then. */
enum dsgd_err script_next(struct script *s, struct dsgd_error *err);

/* The step at hand; its arrays are NULL. */
const struct record_step *script_step(const struct script *s);
const struct script_worker *script_workers(const struct script *s);

#endif
