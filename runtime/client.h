/* The worker's side of a run, behind struct dsgd. */
#ifndef DSGD_CLIENT_H
#define DSGD_CLIENT_H

#include <pthread.h>

#include "aggregator.h"
#include "client_carry.h"
#include "dsgd.h"
#include "segment.h"
#include "state.h"

/* In place of a worker's index: the handle of a process that only carries its
 * node's aggregator. */
#define CLIENT_NO_WORKER UINT32_MAX

/* A step in parts: see dsgd_claim. */
struct client_work {
    bool shared;
    bool deposits;     /* the program gives its own share in parts */
    bool counts;       /* … and what it has given when a step closes counts */
    uint64_t per_part; /* samples, of the worker's own share */
    uint64_t step;     /* of what follows */
    uint64_t given;    /* samples deposited of its own share */
    bool claimed;      /* and not deposited: part */
    bool abandoned;    /* … and need not be: dsgd_poll said so */
    struct dsgd_part part;
    uint32_t entry;     /* … of the pool */
    bool late;          /* … to be kept for the next step */
    bool first;         /* … it is this worker's first part */
    bool first_had;     /* that was claimed in this step */
    bool first_offered; /* the last offer was of that */
    uint64_t claim_ns;
    uint32_t next; /* entry to look at, where each is somebody's */
    struct client_carry carry;
    uint32_t offers; /* made, of those that may count */
    uint32_t buf;    /* of the last one */
};

struct dsgd {
    struct segment seg;
    uint32_t local; /* index on this node, or CLIENT_NO_WORKER */
    uint32_t rank, size, nodes;
    size_t grad_elems;
    enum dsgd_sampler sampler;
    struct aggregator *agg; /* NULL: another process carries it */

    /* Ends this process when the run is over and its main thread is stuck. */
    pthread_t helper;
    bool has_helper;
    _Atomic bool helper_stop;
    void (*finalize)(void); /* MPI_Finalize, or NULL */

    struct state_part *parts;
    size_t n_parts, state_bytes;
    struct state_copy copy;       /* what this worker announced */
    struct state_copy checkpoint; /* … for a checkpoint, until it is taken */
    bool has_checkpoints;         /* the run keeps some */
    bool watches;                 /* this handle has the signals */

    uint64_t applied;             /* last mean taken */
    uint64_t step;                /* begun, not yet reduced; 0: none */
    uint64_t reduced;             /* last step handed over */
    uint64_t first_sample, share; /* its samples */
    uint64_t limit;               /* … after which to stop; 0: none */
    struct client_work work;
    uint64_t begin_ns;
    bool began_first;
    bool epoch_ended;      /* a mean that ended an epoch was taken */
    bool check_due;        /* its checksum is to be posted */
    uint32_t behind_tries; /* BEHIND told so often for the next mean */
    uint64_t behind_ns;    /* … last at */
    bool stale;            /* the step begun was over before it began */
    bool replaces;      /* a process that died: it has nothing of the run yet */
    uint64_t hold_step; /* see seg_worker */
    struct dsgd_error error;
};

static inline bool client_is_worker(const struct dsgd *d)
{
    return d->local != CLIENT_NO_WORKER;
}

/* Of a worker's handle. */
static inline struct seg_worker *client_self(const struct dsgd *d)
{
    return &d->seg.workers[d->local];
}

/* Make a handle for worker `local` of a mapped segment, or for none, with the
 * aggregator alone.  It takes over the segment and agg.  Errors: DSGD_E_NOMEM;
 * then both are still the caller's. */
enum dsgd_err client_create(const struct dsgd_options *opt,
                            const struct segment *seg, uint32_t local,
                            struct aggregator *agg, struct dsgd **d,
                            struct dsgd_error *err);

/* Start the helper thread and, where this process carries it, the aggregator's.
 *   finalize  in  called before a stuck process is ended; may be NULL */
enum dsgd_err client_start(struct dsgd *d, void (*finalize)(void),
                           struct dsgd_error *err);

void client_sign_of_life(struct dsgd *d);

/* The part that is claimed would not count any more, nor in the next step. */
bool client_unwanted(const struct dsgd *d);

/* Sleep until the bell rings or timeout_ns has passed, unless there is a sum to
 * help with. */
void client_wait_bell(struct dsgd *d, uint32_t seen, uint64_t timeout_ns);

/* DSGD_OK while the run goes on, otherwise what to return of its end.  Does not
 * return when it ended before this worker, which was left behind, could be
 * given what it lacks: its process is ended for it. */
enum dsgd_err client_check_run(struct dsgd *d);
/* From here on this process ends by itself. */
void client_answer_end(struct dsgd *d);

/* dsgd_reduce, also for a step in parts. */
enum dsgd_err client_commit(struct dsgd *d, const float *grad, size_t n,
                            uint64_t samples);

/* A copy of the registered state.  False: no memory. */
bool client_copy_state(const struct dsgd *d, struct state_copy *copy);
/* Overwrite the registered state with that after step. */
void client_take_copy(struct dsgd *d, const struct state_copy *copy,
                      uint64_t step);

/* Where all means taken were applied: give the state for a checkpoint, if it is
 * this worker's turn. */
void client_give_checkpoint(struct dsgd *d);

/* Before the first step: take the state that the run goes on from.  Errors:
 * DSGD_E_FORMAT (the program registers another size). */
enum dsgd_err client_resume(struct dsgd *d);

/* Free a handle whose threads were not started. */
void client_destroy(struct dsgd *d);

#endif
