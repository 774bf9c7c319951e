/* The thread that writes a record, and what it shares with record.c. */
#ifndef DSGD_RECORD_WRITER_H
#define DSGD_RECORD_WRITER_H

#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "record.h"
#include "record_db.h"
#include "record_queue.h"

#define NS_PER_S 1000000000LL

enum { RECORD_BATCHES = 8 }; /* the queue is this many full batches */

enum record_cause {
    RECORD_LOCKED,
    RECORD_DISK,
    RECORD_STOPPED,
    RECORD_DROPPED,
    RECORD_N_CAUSES
};

/* What the caller's thread last put, for the status file.  Each value is read
 * alone: a line that mixes two steps does no harm. */
struct record_live {
    _Atomic uint64_t step, epoch, samples;
    _Atomic uint32_t contributors, alive;
    _Atomic double elapsed_s;
};

struct record {
    uint32_t n_workers;
    char path[PATH_MAX];
    char status_path[PATH_MAX];
    struct record_queue queue;
    _Atomic uint64_t dropped; /* rows */
    atomic_bool stopped;      /* for good: rows need not be queued */
    struct record_live live;

    pthread_t thread;
    sem_t wake;
    atomic_bool woken;
    _Atomic int64_t deadline_ns; /* of record_close; 0: not called yet */

    pthread_mutex_t lock; /* what follows, up to the writer's own */
    pthread_cond_t changed;
    bool started, finished;
    bool abandoned; /* record_close went without waiting: free it yourself */
    bool completed;
    double end_s;
    enum dsgd_err result;
    struct dsgd_error error;
    struct {
        bool raised, told;
        struct dsgd_error text;
    } warning[RECORD_N_CAUSES];

    const struct record_job *job; /* until started */
    struct record_db *db;         /* from here on: the writer thread's */
    bool in_transaction;
    int64_t next_try_ns, pause_ns;
    int64_t busy_until_ns;
    int64_t locked_since_ns; /* 0: it is not */
    int64_t heard_ns, status_ns;
    uint64_t status_step, status_samples;
    double status_elapsed_s;
    uint64_t dropped_noted;
};

/* The thread.  Ends when deadline_ns is set; frees r when it was abandoned. */
void *record_writer(void *r);

/* Keep a warning for record_warning, the first of its cause. */
void record_writer_warn(struct record *r, enum record_cause cause,
                        const char *reason);

void record_destroy(struct record *r);

int64_t record_now_ns(void);             /* CLOCK_MONOTONIC */
struct timespec record_time(int64_t ns); /* as the system calls want it */

#endif
