/* A record as the script of another run: who contributed what to which step. */
#ifndef DSGD_RECORD_REPLAY_H
#define DSGD_RECORD_REPLAY_H

#include "record.h"

struct record_replay;

/* Open a record and see that a run of `want` can do what it says: read all of
 * it once.
 *   want  in   its sizes, placement, kernels and program count
 *   r     out  NULL on error; record_replay_close.  At the first step
 * Errors: DSGD_E_USAGE (another shape, kernel or program: the text says which;
 * what the record does not tell), those of record_read_open. */
enum dsgd_err record_replay_open(const char *path,
                                 const struct record_job *want,
                                 struct record_replay **r,
                                 struct dsgd_error *err);
void record_replay_close(struct record_replay *r); /* NULL is fine */

/* What is trained, in its program's words; may be NULL. */
const char *record_replay_description(const struct record_replay *r);

/* The step at hand: its epoch, mask, ranges, scale and so on. */
const struct record_step *record_replay_step(const struct record_replay *r);

/* It is the record's last. */
bool record_replay_last(const struct record_replay *r);

/* Go on to the next, unless it is the last.  Reads one row; no allocation of
 * ours.  Errors: those of record_read_step; then the step at hand is the last.
 */
enum dsgd_err record_replay_next(struct record_replay *r,
                                 struct dsgd_error *err);

/* What a worker's replica summed to after a step.  False: not recorded. */
bool record_replay_checksum(const struct record_replay *r, uint64_t step,
                            uint32_t worker, uint64_t *value);

#endif
