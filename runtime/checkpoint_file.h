/* The file of a checkpoint: dsgd-formats(5) in C. */
#ifndef DSGD_CHECKPOINT_FILE_H
#define DSGD_CHECKPOINT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "dsgd.h"
#include "state.h"

/* What a checkpoint is of.  The first block must be the same in a run that
 * goes on from it. */
struct checkpoint_facts {
    char program[128]; /* opt's, and in a file UTF-8: up to twice as long */
    char identity[512];
    uint64_t grad_elems;
    uint64_t n_samples;
    enum dsgd_sampler sampler;

    uint64_t step;  /* the last whose mean the state contains */
    uint64_t epoch; /* of the next one */
    uint64_t batch;
    uint32_t n_workers, n_nodes;
    uint64_t run_samples; /* contributed so far */
    double run_s;         /* time of the steps so far */
    char run[192];        /* that wrote it: job.step.restart, as its record */
};

/* One, to be written.  The memory is the caller's. */
struct checkpoint {
    struct checkpoint_facts facts;
    const void *sampler; /* sampler_state_save */
    size_t sampler_bytes;
    const void *timing; /* dynamic_state_save; no bytes: no model in use */
    size_t timing_bytes;
    const void *state; /* the registered state */
    size_t state_bytes;
};

/* Write it: a temporary file beside path, fsync, rename, fsync of the
 * directory.  Whatever happens, path is afterwards what it was or all of the
 * new one, and no temporary file is left.
 * Errors: DSGD_E_NOSPACE, DSGD_E_IO, DSGD_E_NOMEM; the text names the file. */
enum dsgd_err checkpoint_write(const char *path, const struct checkpoint *c,
                               struct dsgd_error *err);

/* One that was read; free with checkpoint_free. */
struct checkpoint_read {
    struct checkpoint_facts facts;
    void *sampler, *timing; /* timing NULL: none */
    size_t sampler_bytes, timing_bytes;
    struct state_copy state; /* after facts.step; fd -1: given away */
};

/* Read one, every byte of it checked.
 *   c  out  NULL on error
 * Errors: DSGD_E_IO (can't be read), DSGD_E_FORMAT (not a checkpoint, of
 * another version, cut short, damaged), DSGD_E_NOMEM. */
enum dsgd_err checkpoint_read(const char *path, struct checkpoint_read **c,
                              struct dsgd_error *err);
void checkpoint_free(struct checkpoint_read *c); /* NULL is fine */

#endif
