/* A record's rows of steps and of contributions, joined: step by step, what
 * each worker did. */
#ifndef DSGD_REPLAY_SCRIPT_H
#define DSGD_REPLAY_SCRIPT_H

#include "record_read.h"

struct script_worker {
    uint64_t first;   /* of its range in this step */
    uint64_t count;   /* 0: it gave nothing of it, or had none */
    uint64_t given;   /* the first samples of the range, that a sum contains */
    bool late;        /* … the next step's; else this one's */
    uint64_t carried; /* samples of its gradient of the step before, in this
                         step's sum */
};

struct script;

/* Open the record and read its facts; the script is before its first step.
 *   s  out  NULL on error; script_close
 * Errors: those of record_read_open. */
enum dsgd_err script_open(const char *path, struct script **s,
                          struct dsgd_error *err);
void script_close(struct script *s); /* NULL is fine */

/* For what else the record tells; its steps and contributions are the
 * script's. */
struct record_read *script_reader(struct script *s);

/* Go on to the next step.  No allocation of ours.
 * Returns DSGD_OK, or DSGD_END after the last.  Errors: DSGD_E_USAGE (a step is
 * missing; what contributed is not what its row says), DSGD_E_FORMAT (a
 * contribution, or a range, that there can't be), those of record_read_step;
 * the script must not be used further then. */
enum dsgd_err script_next(struct script *s, struct dsgd_error *err);

/* The step at hand; its arrays are NULL. */
const struct record_step *script_step(const struct script *s);
const struct script_worker *script_workers(const struct script *s);

#endif
