/* A record as the script of another run: who contributed what to which step. */
#ifndef DSGD_RECORD_REPLAY_H
#define DSGD_RECORD_REPLAY_H

#include "record.h"
#include "replay_script.h"

struct record_replay;

/* Open a record and see that a run of `want` can do what it says: read all of
 * it once.
 *   want    in   its sizes, placement, kernels and program count
 *   shared  in   it shares its work
 *   r       out  NULL on error; record_replay_close.  At the first step
 * Errors: DSGD_E_USAGE (another shape, kernel or program: the text says which;
 * what the record does not tell), those of record_read_open. */
enum dsgd_err record_replay_open(const char *path,
                                 const struct record_job *want, bool shared,
                                 struct record_replay **r,
                                 struct dsgd_error *err);
void record_replay_close(struct record_replay *r); /* NULL is fine */

/* What is trained, in its program's words; may be NULL. */
const char *record_replay_description(const struct record_replay *r);

/* The step at hand: its epoch, scale and so on (its arrays are NULL); and what
 * each worker does in it. */
const struct record_step *record_replay_step(const struct record_replay *r);
const struct script_worker *record_replay_worker(const struct record_replay *r,
                                                 uint32_t worker);

/* It is the record's last. */
bool record_replay_last(const struct record_replay *r);

/* Go on to the next, unless it is the last.  No allocation of ours.
 * Errors: those of script_next; then there is no step at hand. */
enum dsgd_err record_replay_next(struct record_replay *r,
                                 struct dsgd_error *err);

/* What a worker's replica summed to after a step.  False: not recorded. */
bool record_replay_checksum(const struct record_replay *r, uint64_t step,
                            uint32_t worker, uint64_t *value);

#endif
