/* slurm-dsgd: synchronous data-parallel SGD that does not wait for stragglers.
 *
 * A program computes the gradient of its share of a step, hands it over, and
 * applies the means that come back.  Every worker applies the same means in the
 * same order, so that replicas stay bit-identical; a worker that was late for
 * a step finds the means it missed, one by one.
 *
 *     struct dsgd_options opt;
 *     dsgd_options_init(&opt, &err);
 *     opt.grad_elems = n;
 *     opt.n_samples = 60000;
 *     opt.batch = 32;
 *     opt.epochs = 10;
 *     dsgd_mpi_open(MPI_COMM_WORLD, &opt, &d, &err);     (dsgd_mpi.h)
 *     dsgd_register(d, params, bytes, &err);
 *     while ((rc = dsgd_step_begin(d, &step)) == DSGD_OK) {
 *         for (… micro-batches …)
 *             if (dsgd_poll(d, done, total) == DSGD_ABANDON)
 *                 break;
 *         dsgd_reduce(d, grad, n, samples);
 *         while ((rc = dsgd_next_mean(d, &m)) == DSGD_OK)
 *             update(params, m.grad, m.lr_scale);
 *         if (rc == DSGD_EPOCH_END)
 *             evaluate();
 *     }
 *     dsgd_close(d);
 *
 * With a checkpoint directory a run goes on where an earlier one ended: the
 * first dsgd_step_begin fills the registered state from the newest checkpoint.
 *
 * Under dsgd-run(1) a worker is no MPI process: it calls dsgd_open in place of
 * dsgd_mpi_open and needs this library alone.  (dsgd_mpi_open does the same
 * there, so that a program which calls no other MPI function runs under both.)
 * Such a worker may die and be started again: the new process begins as the
 * first did, with dsgd_open and dsgd_register, gets steps without samples and
 * then DSGD_RESYNCED (or the means from the first on) from dsgd_next_mean, and
 * goes on from there.  So all that the training depends on must be registered.
 *
 * Steps count from 1, epochs from 0.  A handle belongs to the thread that
 * opened it: no function here may be called from two threads at a time on the
 * same handle.  Functions that return enum dsgd_err return DSGD_E_STATE when
 * called out of the order shown above. */
#ifndef DSGD_H
#define DSGD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dsgd;

enum dsgd_sampler {
    DSGD_SAMPLER_RANGES = 0, /* the coordinator hands out ranges of [0, n) */
    DSGD_SAMPLER_NONE = 1    /* the program has a data loader of its own */
};

enum dsgd_late {
    DSGD_LATE_REQUEUE = 0, /* a dropped range goes back into the epoch */
    DSGD_LATE_DROP = 1,    /* it is not seen in this epoch */
    DSGD_LATE_CARRY = 2    /* its late gradient joins the next step's sum; with
                              shared work a late part counts in the next */
};

/* What was processed of a batch when dsgd_poll said to abandon it.  What was
 * deposited before (dsgd_deposit, opt.deposits) counts in the step itself,
 * unless that is to be thrown away, or late is CARRY. */
enum dsgd_partial {
    DSGD_PARTIAL_AUTO = 0,      /* CONTRIBUTE with DSGD_LATE_CARRY */
    DSGD_PARTIAL_DISCARD = 1,   /* is thrown away; late says what of it */
    DSGD_PARTIAL_CONTRIBUTE = 2 /* joins the next step's sum */
};

/* Who computes what of a step. */
enum dsgd_work {
    DSGD_WORK_OWN = 0,   /* each worker its own share */
    DSGD_WORK_SHARED = 1 /* whoever is free, part by part: see dsgd_claim */
};

/* How the learning rate follows the samples in a mean: by their number over
 * that of all workers' batches, or its square root. */
enum dsgd_lr_scale {
    DSGD_LR_SCALE_NONE = 0,
    DSGD_LR_SCALE_LINEAR = 1,
    DSGD_LR_SCALE_SQRT = 2
};

/* Where a node's aggregator runs, among MPI ranks; under dsgd-run, in that. */
enum dsgd_aggregator {
    DSGD_AGGREGATOR_THREAD = 0,   /* a thread of the node's first rank */
    DSGD_AGGREGATOR_DEDICATED = 1 /* that rank does nothing else: no worker */
};

/* dsgd_rank of a rank that is no worker. */
#define DSGD_NO_RANK UINT32_MAX

/* What a run is opened with; see dsgd_mpi_open for what must be the same on
 * every worker. */
struct dsgd_options {
    size_t grad_elems;       /* floats in a gradient; required, >= 1 */
    char cutoff[272];        /* full | static:K | static:P% | order | dynamic |
                              dry | replay:FILE */
    size_t min_contributors; /* a step is never cut below this; 0: no limit */
    char rule[16];           /* paper | ratio | renewal | live; "": live */
    bool polls;              /* the program calls dsgd_poll in its batches */
    bool deposits;           /* … or computes them part by part and gives each
                              with dsgd_deposit: what is there when the step
                              is closed counts */
    char model[256];         /* timing model file, "" for the installed one */
    char record[256];        /* directory or .dsgd file; "off" or "": none */
    enum dsgd_late late;     /* what happens to the samples of a cut worker */
    enum dsgd_partial partial;
    enum dsgd_lr_scale lr_scale;
    enum dsgd_work work;
    size_t parts;         /* of a batch, for dsgd_claim; 0: 8 */
    double batch_slack;   /* share of the batch that a step may be closed
                             without, with shared work and a dynamic cutoff */
    size_t max_cuts;      /* a living worker is waited for after so many cuts
                             in a row; 0: no limit */
    double max_cut_share; /* … lest it be cut in more than this share of its
                             steps; 0 or 1: no limit */

    enum dsgd_sampler sampler;
    uint64_t n_samples; /* size of the data set; required, >= 1, for
                           DSGD_SAMPLER_RANGES */
    uint64_t batch;     /* samples of one worker's share of a step; the same */
    uint64_t epochs;    /* the run ends after so many; 0: no limit */
    uint64_t max_steps; /* the run ends after so many; 0: no limit */

    size_t ring_bytes;     /* means kept for late workers, bytes a node */
    size_t spread_bytes;   /* gradients at least so large are summed by all
                              nodes, each a part; smaller ones by node 0 */
    double hard_timeout_s; /* > 0: fixed; 0: from the observed run-times */
    enum dsgd_aggregator aggregator; /* rank 0's counts */

    char checkpoint_dir[256];  /* "": no checkpoints.  %j, %u and %x stand for
                                 job, user and job name.  Rank 0's counts. */
    uint64_t checkpoint_steps; /* one every so many steps; 0: not by steps */
    double checkpoint_minutes; /* one so often; 0: not by time */
    size_t checkpoint_keep;    /* files that are kept, >= 1 */
    bool checkpoint_signals;   /* true: SIGTERM and SIGUSR1, unless the program
                                  handles them, end the run at a checkpoint */
    char identity[256];        /* of the training, in the program's words: a
                                  checkpoint of another is not resumed */
    char program[64];          /* for the record */
    char description[256];     /* for the record: what is trained, how */

    /* Told of what goes wrong without stopping the run (the record, replicas
     * that differ), one line at a time, in rank 0: from the coordinator's
     * thread, or within a call of a dsgd_ function, which it must not call.
     * NULL: not told. */
    void (*warn)(void *context, const char *text);
    void *warn_context;
    /* Told, as by warn, of what is as it should be: that a run goes on from a
     * checkpoint. */
    void (*note)(void *context, const char *text);
};

/* One worker's share of a step. */
struct dsgd_step {
    uint64_t index;        /* 1, 2, … */
    uint64_t epoch;        /* 0, 1, … */
    uint64_t first_sample; /* position in this epoch's order, see below */
    uint64_t n_samples;    /* may be 0: sit this step out, but call
                              dsgd_reduce with 0 samples */
};

/* Samples of a step to be computed in one go. */
struct dsgd_part {
    uint64_t first_sample; /* position in the epoch's order */
    uint64_t n_samples;    /* >= 1 */
};

/* A mean gradient.  grad stays valid until the next dsgd_* call. */
struct dsgd_mean {
    const float *grad;     /* [grad_elems], mean over contributing samples */
    uint64_t step;         /* the step it belongs to */
    uint64_t epoch;        /* that step's epoch */
    uint64_t samples;      /* contributing samples, >= 1, carried ones too: a
                              step to which nobody gave any has no mean */
    uint32_t contributors; /* workers that were in time */
    double lr_scale;       /* multiply the learning rate by it */
    bool epoch_end;        /* the last step of its epoch */
};

/* Fill opt from built-in defaults, dsgd.conf, the plugin's defaults, DSGD_*
 * variables and the srun option, in rising precedence.
 *   opt  out  every field set; grad_elems, n_samples, batch are 0
 * Local.  Errors: DSGD_E_USAGE (a value that can't be read: the text names the
 * variable or the file and line), DSGD_E_IO (DSGD_CONF names a file that can't
 * be read). */
enum dsgd_err dsgd_options_init(struct dsgd_options *opt,
                                struct dsgd_error *err);

/* Open a run in a program without MPI: as the worker that dsgd-run has started,
 * or else a run of one worker.  dsgd_mpi_open in dsgd_mpi.h opens one of many.
 *   opt  in   under dsgd-run the same sizes in every worker; the cutoff, limits
 *             and record of one of them count, and dsgd-run prints what
 *             opt.warn would be told
 *   d    out  NULL on error; ends with dsgd_close
 * Local, starts a thread; under dsgd-run it blocks (asleep) until all workers
 * have opened the run, and what is wrong with it is said by dsgd-run, which
 * then ends this process.  Errors: DSGD_E_USAGE (a bad option, sizes that
 * differ from another worker's), DSGD_E_NOMEM, DSGD_E_NOSPACE (/dev/shm is
 * full), DSGD_E_NOMODEL, DSGD_E_LAUNCH (this is one of several tasks, which
 * need MPI or dsgd-run; or it is alone, and the aggregator is to be dedicated),
 * DSGD_E_STATE (dsgd-run's memory is not open here, another process is this
 * worker, or the run is over), DSGD_E_FORMAT (it is not dsgd-run's memory, or
 * that of another version). */
enum dsgd_err dsgd_open(const struct dsgd_options *opt, struct dsgd **d,
                        struct dsgd_error *err);

/* Declare replicated state: bytes that are a function of the means applied so
 * far (parameters, momentum, running statistics, counters), the same on every
 * worker.  It is what checksums compare and what a worker that fell too far
 * behind is given.  Call it before the first dsgd_step_begin, in the same order
 * with the same sizes on every worker.  The memory stays the caller's and must
 * outlive the handle.
 * Local.  Errors: DSGD_E_STATE (after the first step), DSGD_E_NOMEM. */
enum dsgd_err dsgd_register(struct dsgd *d, void *state, size_t bytes,
                            struct dsgd_error *err);

/* Begin the next step.  Blocks (asleep) until it has started.
 *   step  out
 * The first call of a run that goes on from a checkpoint overwrites the
 * registered state; step->index is then above 1.
 * Where this rank is no worker, see dsgd_mpi_open, it blocks until the run is
 * over.
 * Returns DSGD_OK, DSGD_END when the run is over, or an error: DSGD_E_FORMAT
 * (the checkpoint has a registered state of another size).  Means that are
 * still missing then must have been taken with dsgd_next_mean. */
enum dsgd_err dsgd_step_begin(struct dsgd *d, struct dsgd_step *step);

/* Between micro-batches: is this worker's work still wanted?
 *   done, total  in  micro-batches of about one size (or samples) finished and
 *                    wanted
 * Within a part that was claimed, of which done and total are then: is this
 * part still wanted?  After DSGD_ABANDON it need not be deposited: go on with
 * dsgd_claim.  Does not block, no system call.  Returns DSGD_GO_ON or
 * DSGD_ABANDON: stop, and call dsgd_reduce with the sum and the number of the
 * samples that were processed, the first ones of the share; opt.partial says
 * what of them.  In a replay it stops a worker where it stopped then. */
enum dsgd_err dsgd_poll(struct dsgd *d, uint64_t done, uint64_t total);

/* The shared memory that holds this worker's gradient sum, to compute in place:
 * pass the same pointer to dsgd_reduce and nothing is copied.
 * Returns [grad_elems] floats, valid until dsgd_reduce, contents undefined; it
 * may be other memory in the next step.  NULL where this rank is no worker. */
float *dsgd_grad_buffer(struct dsgd *d);

/* Hand over this step's gradient.
 *   grad     [n] in  SUM of the per-sample gradients (not their mean)
 *   n        in      opt.grad_elems
 *   samples  in      how many samples grad sums over; 0: nothing to give
 * Does not block.  Errors: DSGD_E_RANGE (n is not grad_elems; more samples than
 * this step's share), DSGD_E_STATE (also with DSGD_WORK_SHARED, and where
 * opt.deposits was set: the step is given part by part). */
enum dsgd_err dsgd_reduce(struct dsgd *d, const float *grad, size_t n,
                          uint64_t samples);

/* The next part of this step to compute: of those that nobody has claimed
 * (DSGD_WORK_SHARED), or of this worker's share (DSGD_WORK_OWN).  A part has
 * about opt.batch / opt.parts samples, the first of a step any number where a
 * timing model sizes it, and never more than opt.batch.  In place of dsgd_poll
 * and dsgd_reduce:
 *     while (dsgd_claim(d, &part) == DSGD_OK) {
 *         … gradient sum of part's samples …
 *         if (dsgd_deposit(d, grad, n, part.n_samples) != DSGD_OK)
 *             break;
 *     }
 *     while ((rc = dsgd_next_mean(d, &m)) == DSGD_OK)
 *   part  out  set when DSGD_OK is returned; in the epoch of dsgd_step_begin
 * With DSGD_WORK_SHARED it blocks (asleep) while there is nothing to claim and
 * others have not finished the step: there is more when one of them fails.
 * With DSGD_WORK_OWN a step may be closed while a worker computes: where
 * opt.deposits was set what it has deposited by then is in the mean, also when
 * it is stopped for good, and the rest of its share is for a later step.
 * Without opt.deposits its parts count together, after the last one.
 * Needs DSGD_SAMPLER_RANGES.
 * Returns DSGD_OK, or DSGD_ABANDON: nothing is left to do in this step, which
 * is handed over.  Errors: DSGD_E_STATE (no step was begun; the part before was
 * neither deposited nor abandoned). */
enum dsgd_err dsgd_claim(struct dsgd *d, struct dsgd_part *part);

/* Add a claimed part's gradient to what this worker gives to the step.
 *   grad     [n] in  SUM of the per-sample gradients, of this part alone; not
 *                    the memory of dsgd_grad_buffer
 *   n        in      opt.grad_elems
 *   samples  in      the part's
 * It blocks (asleep) until it is known whether the deposit before counts: with
 * DSGD_WORK_OWN and opt.deposits a message goes to the coordinator and back
 * while this part is computed.  Returns DSGD_OK, or DSGD_ABANDON: the step went
 * on without this part, which is computed again later, or with shared work
 * carried into the next step, and is handed over.  Errors: DSGD_E_RANGE (n is
 * not grad_elems; other samples than the part's), DSGD_E_STATE (no part was
 * claimed). */
enum dsgd_err dsgd_deposit(struct dsgd *d, const float *grad, size_t n,
                           uint64_t samples);

/* The next mean that this worker has not applied.  Blocks (asleep) until the
 * step handed over by dsgd_reduce is closed.
 *   mean  out  set when DSGD_OK is returned; all of it must be applied
 * Returns DSGD_OK; DSGD_UP_TO_DATE (begin the next step); DSGD_EPOCH_END (the
 * same, and an epoch ended since the last step began: its evaluation time
 * counts against nobody); DSGD_RESYNCED (the registered state was overwritten,
 * there is nothing to apply: call again); DSGD_END; or an error. */
enum dsgd_err dsgd_next_mean(struct dsgd *d, struct dsgd_mean *mean);

/* The drop-in for MPI_Allreduce: hand over a gradient, get the mean of the
 * step.
 *   grad     [n] in   sum of the per-sample gradients
 *                out  mean over the contributing samples
 *   n        in       opt.grad_elems
 *   samples  in       >= 1; 1 makes the result the mean over the workers
 *     do {
 *         rc = dsgd_allreduce(d, grad, n, samples);
 *         if (rc == DSGD_OK || rc == DSGD_BEHIND)
 *             update(params, grad);
 *     } while (rc == DSGD_BEHIND);
 * Needs DSGD_SAMPLER_NONE.  Blocks (asleep).  Returns DSGD_OK; DSGD_BEHIND: as
 * DSGD_OK, and this worker was late, so apply the mean and call again at once
 * (grad is then only written); DSGD_END; or an error. */
enum dsgd_err dsgd_allreduce(struct dsgd *d, float *grad, size_t n,
                             uint64_t samples);

/* Ask for a checkpoint of the registered state and of what of the epoch is
 * done, at the next step boundary; any worker may.
 *   end  in  and end the run with it, early: calls return DSGD_END soon, and
 *            dsgd_close says DSGD_E_PREEMPTED
 * Does not block, and does not wait for the checkpoint; what goes wrong with it
 * is a warning.  Checkpoints are made without being asked for every
 * opt.checkpoint_steps and opt.checkpoint_minutes and at the end of a run.
 * The state is copied by one worker at a boundary and written by a thread.
 * Errors: DSGD_E_STATE (opt.checkpoint_dir was empty). */
enum dsgd_err dsgd_checkpoint(struct dsgd *d, bool end);

/* Leave the run and free the handle; dsgd_close(NULL) is fine.  Blocks until
 * the record and the last checkpoint are complete when this worker carries its
 * node's aggregator.  Before the end of the run it means that this worker gives
 * no more.  Returns DSGD_OK; DSGD_E_PREEMPTED (the run was ended early, at a
 * checkpoint: start it again to go on); DSGD_E_MPI (it broke off). */
enum dsgd_err dsgd_close(struct dsgd *d);

/* This worker's number, or DSGD_NO_RANK; the number of workers; and their node
 * count. */
uint32_t dsgd_rank(const struct dsgd *d);
uint32_t dsgd_size(const struct dsgd *d);
uint32_t dsgd_nodes(const struct dsgd *d);

/* Has dsgd-run started this process?  Before a run is open, and without one.
 *   rank, size  out  what dsgd_rank and dsgd_size will return; may be NULL
 * Local. */
bool dsgd_launched(uint32_t *rank, uint32_t *size);

/* A position of an epoch's order to a sample: a permutation of [0, n) that
 * depends on seed and epoch alone, so that all workers agree without storing
 * it.  A Feistel network over the next power of four, walking cycles back into
 * [0, n).
 *   position  in  < n
 * Local, constant memory.  Returns a sample index < n. */
uint64_t dsgd_shuffle(uint64_t seed, uint64_t epoch, uint64_t n,
                      uint64_t position);

/* What a run has done so far, the same on every worker of a node. */
struct dsgd_progress {
    uint64_t steps;          /* published */
    uint64_t unique_samples; /* contributed so far */
    double elapsed_s;        /* since the first step started, pauses at step
                                boundaries (evaluation) left out */
    bool preempted;          /* the run was ended early, at a checkpoint */
};
void dsgd_progress(const struct dsgd *d, struct dsgd_progress *progress);

/* The last error of a call on d that has no struct dsgd_error of its own. */
const char *dsgd_error_text(const struct dsgd *d);

#ifdef __cplusplus
}
#endif

#endif
