/* The shared memory of a node: what its workers and its aggregator tell each
 * other.
 *
 *   header     what the aggregator says to all workers
 *   workers    per worker: its events to the aggregator, its share of the next
 *              step, the mean it is reading
 *   means      per ring slot: which step's mean it holds
 *   sum        what is being summed, see chunks.h
 *   pool       what of the step is to be computed, part by part
 *   ring       [ring_slots][grad_stride] mean gradients
 *   slots      [n_local][slot_bufs][grad_stride] gradient sums
 *
 * Workers sleep on futexes in the header and never call MPI.  Every word that
 * two processes touch is atomic; a buffer of floats is handed over by a release
 * store of the word that announces it. */
#ifndef DSGD_SEGMENT_H
#define DSGD_SEGMENT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "dsgd_error.h"

#define SEGMENT_MAGIC  UINT64_C(0x31306473676473)
#define SEGMENT_EVENTS 32 /* of a worker, a power of two */
#define SEGMENT_NAME   64
#define SEGMENT_CHUNKS 1024 /* of a gradient, at most */
#define SEGMENT_PARTS  4096 /* of a step on a node, at most */

/* What somebody asks of the coordinator, bits. */
enum seg_request {
    SEG_REQUEST_CHECKPOINT = 1, /* a checkpoint at the next boundary */
    SEG_REQUEST_END = 2         /* … and to end the run with it */
};

/* Whether an event is worth ringing for: somebody looks for events; nobody does;
 * nobody does, but a BEGIN can wait until there is something else; or a COMMIT as
 * well, for that of the worker that looks when it waits. */
enum seg_sleep {
    SEG_AWAKE = 0,
    SEG_ASLEEP = 1,
    SEG_ASLEEP_LIGHTLY = 2,
    SEG_COMPUTES = 3
};

enum seg_run { SEG_RUNNING = 0, SEG_ENDED = 1, SEG_BROKEN = 2 };

/* Who ends a worker's process: the one that gets there first. */
enum seg_exit {
    SEG_EXIT_NONE = 0,
    SEG_EXIT_OWN = 1,
    SEG_EXIT_REAPED = 2,
    SEG_EXIT_DIED = 3,  /* before its time; see segment_bury */
    SEG_EXIT_BEHIND = 4 /* lacks means of a run that has ended: waits for
                           REAPED */
};

enum seg_event_kind {
    SEG_EVENT_READY = 1,    /* waits for step `step` to start */
    SEG_EVENT_BEGIN = 2,    /* began step `step` at at_ns */
    SEG_EVENT_COMMIT = 3,   /* finished it: samples, fraction of its batch */
    SEG_EVENT_CHECKSUM = 4, /* after step `step` the state sums to value */
    SEG_EVENT_BEHIND = 5,   /* the ring no longer has step `step`; value: how
                               often that was told before */
    SEG_EVENT_RESYNCED = 6, /* took the state after step `step` */
    SEG_EVENT_LEAVE = 7,    /* gives no more */
    SEG_EVENT_DIED = 8,     /* its process has ended: value, see below */
    SEG_EVENT_PART = 9,     /* offers part `entry` of step `step`: samples */
    SEG_EVENT_WAITS = 10,   /* to the coordinator alone: an offer waits for
                               tokens */
    SEG_EVENT_KEPT = 11,    /* in a replay: keeps part `entry` for the next
                               step: entry << 32 | samples */
    SEG_EVENT_DEPOSIT = 13  /* has given a part of its own share of `step` */
};

/* The value of DIED: a status of wait(2), and these. */
#define SEG_DIED_STATUS UINT64_C(0xffffffff)
#define SEG_DIED_OOM    (UINT64_C(1) << 32) /* for want of memory */
#define SEG_DIED_FINAL  (UINT64_C(1) << 33) /* no other takes its place */

struct seg_event {
    uint32_t kind;
    float fraction; /* COMMIT: of the batch processed; PART: seconds since it
                       was claimed */
    uint64_t step;
    uint64_t at_ns; /* CLOCK_MONOTONIC of this node */
    uint64_t value; /* COMMIT, PART: samples; DEPOSIT: which it is, from 1,
                       << 32 | samples of all so far; CHECKSUM: the checksum */
    uint32_t buf;   /* COMMIT, PART, DEPOSIT: where the sum lies */
    uint32_t entry; /* PART: of the pool, see MSG_CARRIED_PART */
};

/* A copy of the registered state, in a memfd that the owner keeps open: read
 * through /proc/<pid>/fd/<fd>. */
struct seg_state {
    _Atomic uint64_t step; /* the last mean it contains, plus 1; 0: none */
    _Atomic int32_t pid;
    _Atomic int32_t fd;
};

struct seg_worker {
    alignas(64) struct seg_event events[SEGMENT_EVENTS];
    alignas(64) _Atomic uint64_t event_head; /* written by the worker */
    _Atomic uint64_t pin;                    /* step being read, or 0 */
    _Atomic uint32_t writing;     /* ring slot it may write, plus 1; 0: none */
    _Atomic uint64_t applied;     /* last mean applied */
    _Atomic uint64_t life_ns;     /* last sign of life */
    _Atomic uint32_t done, total; /* progress from dsgd_poll */
    _Atomic uint32_t buf;         /* of the gradient to come */
    _Atomic uint32_t waits;       /* … for `accepted` to change */
    _Atomic uint32_t exit;        /* enum seg_exit */
    _Atomic int32_t pid;
    _Atomic uint64_t hold_step; /* its slot is not written before this step
                                   is published */

    alignas(64) _Atomic uint64_t event_tail; /* written by the aggregator */
    /* Share of step assign_step; assign_step is written last. */
    _Atomic uint64_t assign_step, assign_epoch, assign_first, assign_count;
    _Atomic uint64_t assign_limit; /* samples after which to stop; 0: none */
    /* Step latest_step is not worth beginning after latest_ns. */
    _Atomic uint64_t latest_step, latest_ns;
    /* Of the parts that it offered: a step, and how many of that step count; of
     * its own share's, those that the coordinator knows of. */
    _Atomic uint64_t accepted;   /* SEGMENT_POOL_WORD */
    _Atomic uint32_t give_state; /* asked to copy its state */
    _Atomic uint32_t reap;       /* futex: end this process */
};

struct seg_mean {
    alignas(64) _Atomic uint64_t step; /* 0: empty or being written */
    uint64_t epoch, samples;
    uint32_t contributors;
    uint32_t epoch_end;
    uint32_t checkpoint; /* one is made of the state after it */
    double lr_scale;
};

/* The sum that the node's workers can help with. */
struct seg_sum {
    alignas(64) _Atomic uint64_t claim; /* job number, next chunk */
    _Atomic uint32_t slot;              /* ring slot it goes to */
    _Atomic uint32_t n_rows;
    _Atomic float factor;
};

/* A step and an index below 2^20, in one word. */
#define SEGMENT_POOL_BITS          20
#define SEGMENT_POOL_WORD(step, i) ((uint64_t)(step) << SEGMENT_POOL_BITS | (i))
#define SEGMENT_POOL_STEP(word)    ((word) >> SEGMENT_POOL_BITS)
#define SEGMENT_POOL_INDEX(word) \
    ((uint32_t)((word) & ((1u << SEGMENT_POOL_BITS) - 1)))

struct seg_part {
    _Atomic uint64_t first, count;
    _Atomic uint32_t owner; /* 0: who claims it; else local index + 1 */
    _Atomic uint32_t late;  /* it is kept for the next step */
};

/* What there is to know of a step's pool, bits. */
enum seg_pool_kind {
    SEG_POOL_CARRIES = 1, /* parts of the step before may be offered */
    SEG_POOL_OWNED = 2    /* every part is one worker's: nothing is claimed */
};

/* A step's parts on this node.  Written by the aggregator while claim is 0; a
 * worker whose claim of an entry succeeded reads it, and it is its own if claim
 * is of the same step then.  Of the entries below `fixed` each is worker i's
 * first part and nobody else's: it is not claimed, and a count of 0 means that
 * there is none, or none any more. */
struct seg_pool {
    alignas(64) _Atomic uint64_t claim; /* the next that is free */
    alignas(64) _Atomic uint64_t limit; /* how many there are */
    _Atomic uint32_t kind;              /* enum seg_pool_kind */
    _Atomic uint64_t fixed;             /* first parts: n_local, or 0 */
};

struct seg_header {
    uint64_t magic;
    uint64_t bytes;
    uint64_t grad_elems, grad_stride; /* floats; the stride in floats */
    uint64_t chunk_elems;             /* floats summed at a time */
    uint32_t n_local, ring_slots, slot_bufs, n_chunks;
    uint64_t off_workers, off_means, off_sum, off_pool, off_ring, off_slots;

    alignas(64) _Atomic uint64_t published; /* last step in the ring */
    _Atomic uint64_t started;               /* last step that may begin */
    _Atomic uint32_t run;                   /* enum seg_run */
    _Atomic uint64_t last; /* step of the run, set before it has ended */
    _Atomic uint64_t progress_steps, progress_samples, progress_ns;
    _Atomic uint64_t state_bytes;             /* registered by its workers */
    alignas(64) _Atomic uint32_t worker_bell; /* futex */
    _Atomic uint32_t dozing; /* workers that may sleep on it, at least */
    alignas(64) _Atomic uint32_t agg_bell; /* futex */
    _Atomic uint32_t agg_asleep;           /* enum seg_sleep */
    struct seg_state state;
    _Atomic uint64_t resumed;   /* the step the run goes on after; 0: none */
    _Atomic uint32_t request;   /* enum seg_request, set by workers */
    _Atomic uint32_t preempted; /* the run was ended early, at a checkpoint */
    _Atomic uint32_t crowded;   /* there are more workers than CPUs for them */
    _Atomic uint32_t driven;    /* a worker may do the aggregator's work */
    /* On the coordinator's node: the first worker to have applied this step's
     * mean, and no later one, sets it to 0 and copies its state for the
     * checkpoint; the coordinator clears checkpoint.step once it has it. */
    _Atomic uint64_t checkpoint_due;
    struct seg_state checkpoint;
    char broken[256]; /* why, once run == SEG_BROKEN */
};

/* This process's view. */
struct segment {
    struct seg_header *h;
    struct seg_worker *workers; /* [n_local] */
    struct seg_mean *means;     /* [ring_slots] */
    struct seg_sum *sum;
    _Atomic uint64_t *done; /* [n_chunks] job number, and whether it is done */
    _Atomic uint32_t *rows; /* [n_local * slot_bufs] slots to sum, in order */
    struct seg_pool *pool;
    struct seg_part *parts; /* [SEGMENT_PARTS + n_local] */
    size_t bytes;
};

/* Where a segment lies: a file, from an offset on. */
struct seg_file {
    int fd;
    off_t at;         /* a multiple of the page size */
    const char *name; /* for messages */
};

/* Create a segment under a random name in /dev/shm, 0600, every page reserved.
 *   n_local     in   >= 1
 *   grad_elems  in   >= 1
 *   slot_bufs   in   gradients a worker, 1 or 2: with 2 it turns to the other
 *                    after each commit, and the last one can still be summed
 *   ring_bytes  in   of means; there is room for n_local + 2 at least, one of
 *                    which may be the next, which is not there yet
 *   s           out
 *   name        out  [SEGMENT_NAME], for segment_attach; segment_unlink it
 *                    once all have attached
 * Errors: DSGD_E_NOSPACE (the text names the size and the remedy), DSGD_E_IO,
 * DSGD_E_RANGE (the sizes overflow). */
enum dsgd_err segment_create(uint32_t n_local, size_t grad_elems,
                             uint32_t slot_bufs, size_t ring_bytes,
                             struct segment *s, char *name,
                             struct dsgd_error *err);

/* The same in an open file, whose size becomes at + s->bytes. */
enum dsgd_err segment_create_at(const struct seg_file *file, uint32_t n_local,
                                size_t grad_elems, uint32_t slot_bufs,
                                size_t ring_bytes, struct segment *s,
                                struct dsgd_error *err);

/* Map a segment of this user.  Errors: DSGD_E_IO, DSGD_E_FORMAT (not a segment,
 * or another user's). */
enum dsgd_err segment_attach(const char *name, struct segment *s,
                             struct dsgd_error *err);
enum dsgd_err segment_attach_at(const struct seg_file *file, struct segment *s,
                                struct dsgd_error *err);
void segment_unlink(const char *name);
void segment_detach(struct segment *s); /* s->h == NULL is fine */

float *segment_ring(const struct segment *s, uint32_t slot);
float *segment_slot(const struct segment *s, uint32_t worker, uint32_t buf);
float *segment_row(const struct segment *s,
                   uint32_t row); /* worker * bufs + buf */

/* Worker's side: clear what a predecessor that died left behind. */
void segment_join(struct segment *s, uint32_t worker);

/* Worker's side: queue an event and wake the aggregator.  Sleeps while the
 * queue is full, which only an aggregator that is stopped can make it. */
void segment_post(struct segment *s, uint32_t worker,
                  const struct seg_event *event);
bool segment_has_room(const struct segment *s, uint32_t worker);

/* Worker's side: sleep until worker_bell differs from seen or timeout_ns has
 * passed.  Whoever has news for the workers calls them: without a system call
 * when none sleeps. */
void segment_doze(struct segment *s, uint32_t seen, uint64_t timeout_ns);
void segment_call(struct segment *s);

/* A worker does the aggregator's work while it waits, and each has a CPU. */
bool segment_driven(const struct seg_header *h);

/* In the place of a worker whose process has ended: take back what it held (a
 * pin, a copy of the state) and post DIED, so that another process can take
 * its place.
 *   value  in  of the event */
void segment_bury(struct segment *s, uint32_t worker, uint64_t value);

/* Aggregator's side: take the oldest event of a worker; some worker has one. */
bool segment_take(struct segment *s, uint32_t worker, struct seg_event *event);
bool segment_waits(const struct segment *s);

/* Worker's side: pin the mean of a step.  Returns its ring slot, or -1 when the
 * ring no longer has it. */
int segment_pin(struct segment *s, uint32_t worker, uint64_t step);
void segment_unpin(struct segment *s, uint32_t worker);

/* Aggregator's side: a ring slot to write, the oldest that nobody reads or
 * writes. */
uint32_t segment_reserve(struct segment *s);

/* Aggregator's side: the slot that holds a step, or -1. */
int segment_find(const struct segment *s, uint64_t step);

#endif
