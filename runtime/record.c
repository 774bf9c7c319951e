#include "record.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "record_schema.h"
#include "record_status.h"
#include "record_writer.h"

enum { MIN_QUEUE_BYTES = 4 << 20, MIN_QUEUE_STEPS = 256 };
static const int64_t grace_ns = 250000000; /* past the deadline of a close */

static struct record *allocate(const char *path, const struct record_job *job)
{
    struct record *r = calloc(1, sizeof *r);
    size_t bytes = MIN_QUEUE_STEPS * record_row_step_bytes(job->n_workers);
    pthread_condattr_t attr;

    if (!r)
        return NULL;
    if (!record_queue_init(&r->queue, bytes > MIN_QUEUE_BYTES
                                          ? bytes
                                          : (size_t)MIN_QUEUE_BYTES)) {
        free(r);
        return NULL;
    }
    snprintf(r->path, sizeof r->path, "%s", path);
    record_status_path(path, r->status_path, sizeof r->status_path);
    r->n_workers = job->n_workers;
    r->job = job;
    sem_init(&r->wake, 0, 0);
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->changed, &attr);
    pthread_condattr_destroy(&attr);
    return r;
}

static int start_writer(struct record *r)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&r->thread, NULL, record_writer, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

/* The full path: the program may change its directory later. */
static enum dsgd_err full_path(const char *path, char *out, size_t size,
                               struct dsgd_error *err)
{
    struct dsgd_error why;
    enum dsgd_err rc = record_canonical(path, out, size, &why);

    if (rc == DSGD_OK)
        return DSGD_OK;
    return error_set(err, rc, "%.400s: choose another with --dsgd-record",
                     why.text);
}

/* Wait until the writer has created the file, or has failed. */
static enum dsgd_err wait_for_start(struct record *r, struct dsgd_error *err)
{
    pthread_mutex_lock(&r->lock);
    while (!r->started)
        pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
    if (r->result == DSGD_OK)
        return DSGD_OK;
    pthread_join(r->thread, NULL);
    return error_set(err, r->result, "%s", r->error.text);
}

enum dsgd_err record_create(const char *path, const struct record_job *job,
                            struct record **out, struct dsgd_error *err)
{
    char full[PATH_MAX - sizeof ".status"];
    enum dsgd_err rc = full_path(path, full, sizeof full, err);

    *out = NULL;
    if (rc != DSGD_OK)
        return rc;
    struct record *r = allocate(full, job);
    if (!r)
        return error_set(err, DSGD_E_NOMEM, "%s: no memory", full);
    int os = start_writer(r);
    if (os != 0)
        rc = error_set(err, DSGD_E_NOMEM, "%s: the record's thread: %s", full,
                       strerror(os));
    else
        rc = wait_for_start(r, err);
    if (rc != DSGD_OK) {
        record_destroy(r);
        return rc;
    }
    *out = r;
    return DSGD_OK;
}

/* A row is in the queue, or had no room.  The writer looks twice a second by
 * itself; it is called when the queue fills up. */
static void put(struct record *r, void *row)
{
    if (row)
        record_queue_publish(&r->queue);
    else
        atomic_fetch_add(&r->dropped, 1);
    if (record_queue_used(&r->queue) > r->queue.size / RECORD_BATCHES &&
        !atomic_exchange(&r->woken, true))
        sem_post(&r->wake);
}

void record_put_step(struct record *r, const struct record_step *step)
{
    if (!r)
        return;
    void *row = NULL;
    if (!atomic_load(&r->stopped))
        row = record_queue_reserve(&r->queue, RECORD_ROW_STEP,
                                   record_row_step_bytes(r->n_workers));
    if (row)
        record_row_step(row, step, r->n_workers);
    put(r, row);
    atomic_store(&r->live.step, step->step);
    atomic_store(&r->live.epoch, step->epoch);
    atomic_store(&r->live.contributors, step->contributors);
    atomic_store(&r->live.alive, step->alive);
    atomic_fetch_add(&r->live.samples, step->samples);
    atomic_store(&r->live.elapsed_s, step->start_s + step->publish_s);
}

static void put_copy(struct record *r, enum record_row kind, const void *from,
                     size_t bytes)
{
    void *row = NULL;

    if (!atomic_load(&r->stopped))
        row = record_queue_reserve(&r->queue, kind, bytes);
    if (row)
        memcpy(row, from, bytes);
    put(r, row);
}

void record_put_contribution(struct record *r,
                             const struct record_contribution *row)
{
    if (r)
        put_copy(r, RECORD_ROW_CONTRIBUTION, row, sizeof *row);
}

void record_put_late(struct record *r, const struct record_late *late)
{
    if (r)
        put_copy(r, RECORD_ROW_LATE, late, sizeof *late);
}

void record_put_event(struct record *r, const struct record_event *event)
{
    if (r)
        put_copy(r, RECORD_ROW_EVENT, event, sizeof *event);
}

void record_put_decision(struct record *r, const struct record_decision *d)
{
    if (r)
        put_copy(r, RECORD_ROW_DECISION, d, sizeof *d);
}

void record_put_telemetry(struct record *r, const struct record_telemetry *t)
{
    if (r)
        put_copy(r, RECORD_ROW_TELEMETRY, t, sizeof *t);
}

void record_put_checksum(struct record *r, uint64_t step, uint32_t worker,
                         uint64_t value)
{
    struct record_checksum sum = {.step = step, .value = value};

    sum.worker = worker;
    if (r)
        put_copy(r, RECORD_ROW_CHECKSUM, &sum, sizeof sum);
}

uint64_t record_mark(struct record *r)
{
    if (!r)
        return 0;
    if (!atomic_exchange(&r->woken, true))
        sem_post(&r->wake);
    return atomic_load(&r->queue.head);
}

bool record_stored(const struct record *r, uint64_t mark)
{
    return !r || atomic_load(&r->stopped) ||
           atomic_load(&r->queue.tail) >= mark;
}

bool record_warning(struct record *r, struct dsgd_error *text)
{
    bool found = false;

    if (!r)
        return false;
    if (atomic_load(&r->dropped) && !atomic_load(&r->stopped))
        record_writer_warn(r, RECORD_DROPPED, "rows were dropped");
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < RECORD_N_CAUSES && !found; i++) {
        if (r->warning[i].raised && !r->warning[i].told) {
            r->warning[i].told = found = true;
            *text = r->warning[i].text;
        }
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

/* Wait until the writer has finished; false: it has not, and frees r itself. */
static bool join_writer(struct record *r, int64_t deadline_ns)
{
    struct timespec until = record_time(deadline_ns + grace_ns);
    int rc = 0;

    pthread_mutex_lock(&r->lock);
    while (!r->finished && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&r->changed, &r->lock, &until);
    bool finished = r->finished;
    r->abandoned = !finished;
    pthread_mutex_unlock(&r->lock);
    return finished;
}

enum dsgd_err record_close(struct record *r, bool completed, double end_s,
                           double timeout_s, struct dsgd_error *err)
{
    if (!r)
        return DSGD_OK;
    if (!(timeout_s >= 0))
        timeout_s = 0;
    int64_t deadline_ns =
        record_now_ns() +
        (int64_t)((timeout_s < 1e6 ? timeout_s : 1e6) * NS_PER_S) + 1;
    pthread_t thread = r->thread;

    r->completed = completed;
    r->end_s = end_s;
    atomic_store(&r->deadline_ns, deadline_ns);
    sem_post(&r->wake);
    if (!join_writer(r, deadline_ns)) {
        pthread_detach(thread);
        return error_set(err, DSGD_E_TIMEOUT,
                         "the record could not be written within %g s: it is "
                         "incomplete",
                         timeout_s);
    }
    pthread_join(thread, NULL);
    enum dsgd_err rc = r->result;
    if (rc != DSGD_OK && err)
        *err = r->error;
    record_destroy(r);
    return rc;
}
