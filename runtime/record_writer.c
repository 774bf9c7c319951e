#include "record_writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "c_locale.h"
#include "error.h"
#include "record_status.h"

#define NS_PER_MS 1000000LL

static const int64_t batch_every_ns = 500 * NS_PER_MS;
static const int64_t status_every_ns = 1 * NS_PER_S;
/* A sign of life also when nothing happens. */
static const int64_t heard_every_ns = 10 * NS_PER_S;
/* A lock is waited for so long at a time, and warned of after so long. */
static const int64_t busy_ns = 250 * NS_PER_MS;
static const int64_t locked_warn_ns = 2 * NS_PER_S;
/* After errors of the disk: 1 s, doubled up to this. */
static const int64_t longest_pause_ns = 30 * NS_PER_S;

int64_t record_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static double unix_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct timespec record_time(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
}

static void sleep_ns(int64_t ns)
{
    struct timespec t = record_time(ns);
    nanosleep(&t, NULL);
}

void record_writer_warn(struct record *r, enum record_cause cause,
                        const char *reason)
{
    static const char behind[] = "the record is behind; rows wait in memory, "
                                 "and are dropped when there are too many";
    static const char *const consequence[RECORD_N_CAUSES] = {
        [RECORD_LOCKED] = behind,
        [RECORD_DISK] = behind,
        [RECORD_STOPPED] = "the record has stopped",
        [RECORD_DROPPED] = "the record has holes",
    };

    pthread_mutex_lock(&r->lock);
    if (!r->warning[cause].raised)
        error_set(&r->warning[cause].text, DSGD_E_IO, "%.300s: %.90s: %s",
                  r->path, reason, consequence[cause]);
    r->warning[cause].raised = true;
    pthread_mutex_unlock(&r->lock);
}

/* SQLite asks whether to go on waiting for a lock. */
static int keep_waiting(void *arg, int calls)
{
    struct record *r = arg;
    int64_t deadline = atomic_load(&r->deadline_ns), now = record_now_ns();

    if (calls == 0)
        r->busy_until_ns = now + busy_ns;
    if (now >= r->busy_until_ns || (deadline && now >= deadline))
        return 0;
    sleep_ns(10 * NS_PER_MS);
    return 1;
}

/* Rows were lost because the queue was full: say so in the record. */
static enum record_db_result note_dropped(struct record *r)
{
    uint64_t dropped = atomic_load(&r->dropped);
    struct record_event event = {.kind = RECORD_EVENT_NOTE,
                                 .step = atomic_load(&r->live.step),
                                 .worker = -1,
                                 .node = -1,
                                 .at_s = atomic_load(&r->live.elapsed_s)};

    if (dropped == r->dropped_noted)
        return RECORD_DB_OK;
    snprintf(event.text, sizeof event.text,
             "rows dropped so far because the record was behind: %llu",
             (unsigned long long)dropped);
    return record_db_put(r->db, RECORD_ROW_EVENT, &event);
}

static enum record_db_result fill_batch(struct record *r)
{
    enum record_db_result rc = record_db_begin(r->db);
    size_t limit = r->queue.size / RECORD_BATCHES;
    size_t start = r->queue.cursor;
    const void *row;
    uint32_t kind;

    while (rc == RECORD_DB_OK && r->queue.cursor - start < limit &&
           (row = record_queue_read(&r->queue, &kind)))
        rc = record_db_put(r->db, (enum record_row)kind, row);
    if (rc == RECORD_DB_OK)
        rc = note_dropped(r);
    if (rc == RECORD_DB_OK)
        rc = record_db_heard(r->db, unix_now_s());
    return rc;
}

/* One transaction.  After BUSY at the commit it is still open, and the next
 * call goes on with the commit: rows are released only when they are stored. */
static enum record_db_result write_batch(struct record *r)
{
    uint64_t dropped = atomic_load(&r->dropped);
    enum record_db_result rc = RECORD_DB_OK;

    if (!r->in_transaction)
        rc = fill_batch(r);
    if (rc == RECORD_DB_OK) {
        r->in_transaction = true;
        rc = record_db_commit(r->db);
        if (rc == RECORD_DB_BUSY)
            return rc;
        r->in_transaction = false;
    }
    if (rc == RECORD_DB_OK) {
        record_queue_release(&r->queue);
        r->dropped_noted = dropped;
        r->heard_ns = record_now_ns();
    }
    return rc;
}

static void after_disk_error(struct record *r)
{
    record_writer_warn(r, RECORD_DISK, record_db_reason(r->db));
    r->pause_ns = r->pause_ns ? 2 * r->pause_ns : NS_PER_S;
    if (r->pause_ns > longest_pause_ns)
        r->pause_ns = longest_pause_ns;
    r->next_try_ns = record_now_ns() + r->pause_ns;
}

static void after_busy(struct record *r)
{
    int64_t now = record_now_ns();

    if (!r->locked_since_ns)
        r->locked_since_ns = now;
    if (now - r->locked_since_ns >= locked_warn_ns)
        record_writer_warn(r, RECORD_LOCKED, "locked by another process");
}

/* Write one batch and draw the conclusions. */
static enum record_db_result try_batch(struct record *r)
{
    enum record_db_result rc = write_batch(r);

    if (rc != RECORD_DB_BUSY)
        r->locked_since_ns = 0;
    switch (rc) {
    case RECORD_DB_OK:
        r->pause_ns = 0;
        break;
    case RECORD_DB_BUSY:
        after_busy(r);
        break;
    case RECORD_DB_DISK:
        after_disk_error(r);
        break;
    case RECORD_DB_DEAD:
        record_writer_warn(r, RECORD_STOPPED, record_db_reason(r->db));
        atomic_store(&r->stopped, true);
        break;
    }
    if (rc != RECORD_DB_OK && !r->in_transaction) {
        record_db_rollback(r->db);
        record_queue_rewind(&r->queue);
    }
    return rc;
}

static void update_status(struct record *r)
{
    int64_t now = record_now_ns();
    struct record_status s = {
        .unix_s = unix_now_s(),
        .step = atomic_load(&r->live.step),
        .epoch = atomic_load(&r->live.epoch),
        .contributors = atomic_load(&r->live.contributors),
        .alive = atomic_load(&r->live.alive),
        .n_workers = r->n_workers,
        .samples = atomic_load(&r->live.samples),
        .elapsed_s = atomic_load(&r->live.elapsed_s),
    };
    double over_s = s.elapsed_s - r->status_elapsed_s;

    if (r->status_ns &&
        (now - r->status_ns < status_every_ns || s.step == r->status_step))
        return;
    if (over_s > 0)
        s.samples_per_s = (double)(s.samples - r->status_samples) / over_s;
    record_status_write(r->status_path, &s);
    r->status_ns = now;
    r->status_step = s.step;
    r->status_samples = s.samples;
    r->status_elapsed_s = s.elapsed_s;
}

static void wait_for_work(struct record *r)
{
    struct timespec until = record_time(record_now_ns() + batch_every_ns);

    while (sem_clockwait(&r->wake, CLOCK_MONOTONIC, &until) != 0 &&
           errno == EINTR)
        ;
    atomic_store(&r->woken, false);
}

static void work(struct record *r)
{
    int64_t now = record_now_ns();

    if (!atomic_load(&r->stopped) && now >= r->next_try_ns &&
        (record_queue_used(&r->queue) || r->in_transaction ||
         now - r->heard_ns >= heard_every_ns))
        while (try_batch(r) == RECORD_DB_OK &&
               record_queue_used(&r->queue) > r->queue.size / RECORD_BATCHES)
            ;
    update_status(r);
}

static enum record_db_result write_end(struct record *r)
{
    enum record_db_result rc = record_db_begin(r->db);

    if (rc == RECORD_DB_OK)
        rc = record_db_end(r->db, r->completed, r->end_s,
                           atomic_load(&r->dropped));
    if (rc == RECORD_DB_OK)
        rc = record_db_commit(r->db);
    if (rc != RECORD_DB_OK)
        record_db_rollback(r->db);
    return rc;
}

/* The rest of the queue, then the end facts.  A lock is waited for until the
 * deadline; a disk that is full gets two more tries. */
static enum record_db_result write_rest(struct record *r)
{
    enum record_db_result rc;

    for (int errors = 0;; sleep_ns(20 * NS_PER_MS)) {
        do
            rc = try_batch(r);
        while (rc == RECORD_DB_OK && record_queue_used(&r->queue));
        if (rc == RECORD_DB_OK)
            rc = write_end(r);
        if (rc == RECORD_DB_OK || rc == RECORD_DB_DEAD ||
            (rc == RECORD_DB_DISK && ++errors == 3) ||
            record_now_ns() >= atomic_load(&r->deadline_ns))
            return rc;
    }
}

static enum dsgd_err finish(struct record *r, struct dsgd_error *err)
{
    enum record_db_result rc =
        atomic_load(&r->stopped) ? RECORD_DB_DEAD : write_rest(r);
    unsigned long long dropped = atomic_load(&r->dropped);

    if (rc == RECORD_DB_BUSY)
        return error_set(err, DSGD_E_TIMEOUT,
                         "%s: locked by another process: the record is "
                         "incomplete",
                         r->path);
    if (rc != RECORD_DB_OK)
        return error_set(err, DSGD_E_IO, "%s: %s: the record is incomplete",
                         r->path, record_db_reason(r->db));
    if (dropped)
        return error_set(err, DSGD_E_IO,
                         "%s: the record is incomplete: %llu rows were dropped "
                         "while it could not be written",
                         r->path, dropped);
    return DSGD_OK;
}

void record_destroy(struct record *r)
{
    record_queue_free(&r->queue);
    sem_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->changed);
    free(r);
}

/* Returns whether record_close has gone. */
static bool tell(struct record *r, bool *what, enum dsgd_err result,
                 const struct dsgd_error *error)
{
    pthread_mutex_lock(&r->lock);
    r->result = result;
    r->error = *error;
    *what = true;
    bool abandoned = r->abandoned;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    return abandoned;
}

/* SQLite is used by this thread alone, with every signal blocked: the
 * program's handlers run elsewhere, and a file size limit is an error here and
 * not a SIGXFSZ that ends the run. */
void *record_writer(void *arg)
{
    struct record *r = arg;
    struct dsgd_error error = {""};

    c_locale_enter();
    enum dsgd_err rc =
        record_db_create(r->path, r->job, keep_waiting, r, &r->db, &error);

    r->heard_ns = record_now_ns();
    tell(r, &r->started, rc, &error);
    if (rc != DSGD_OK)
        return NULL;
    update_status(r);
    while (!atomic_load(&r->deadline_ns)) {
        wait_for_work(r);
        work(r);
    }
    rc = finish(r, &error);
    record_db_destroy(r->db);
    unlink(r->status_path);
    if (tell(r, &r->finished, rc, &error))
        record_destroy(r);
    return NULL;
}
