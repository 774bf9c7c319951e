#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "error.h"
#include "sys.h"

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
               "words shared between processes must be lock-free");

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Chunks of 10 to 64 KiB, a sixteenth of the gradient if that is between, or
 * what makes at most SEGMENT_CHUNKS of them.  A claim costs as much as a KiB: of a
 * small gradient each of few workers gets one chunk. */
static void set_chunks(struct seg_header *h)
{
    const size_t small = 2560, large = 16384;
    size_t least = (h->grad_stride + SEGMENT_CHUNKS - 1) / SEGMENT_CHUNKS;
    size_t elems = h->grad_stride / 16, each = h->grad_stride / h->n_local;

    each = each < 2 * small ? each : 2 * small;
    elems = elems < large ? elems : large;
    elems = elems > each ? elems : each;
    elems = elems > small ? elems : small;
    elems = round_up(elems > least ? elems : least, 512);

    h->chunk_elems = elems;
    h->n_chunks = (uint32_t)((h->grad_elems + elems - 1) / elems);
}

static size_t sum_bytes(const struct seg_header *h)
{
    return sizeof(struct seg_sum) + h->n_chunks * sizeof(uint64_t) +
           (size_t)h->n_local * h->slot_bufs * sizeof(uint32_t);
}

static size_t pool_bytes(const struct seg_header *h)
{
    return sizeof(struct seg_pool) +
           ((size_t)h->n_local + SEGMENT_PARTS) * sizeof(struct seg_part);
}

/* Sizes and offsets; false when they overflow. */
static bool layout(struct seg_header *h, size_t ring_bytes)
{
    size_t stride = round_up(h->grad_elems, 1024), row, ring, slots, total;
    size_t least = (size_t)h->n_local + 2;

    if (stride < h->grad_elems ||
        __builtin_mul_overflow(stride, sizeof(float), &row))
        return false;
    size_t ring_slots = ring_bytes / row;
    if (ring_slots > 256)
        ring_slots = 256;
    if (ring_slots < least)
        ring_slots = least;
    h->ring_slots = (uint32_t)ring_slots;
    h->grad_stride = stride;
    set_chunks(h);
    if (__builtin_mul_overflow(row, ring_slots, &ring) ||
        __builtin_mul_overflow(row, (size_t)h->n_local * h->slot_bufs, &slots))
        return false;
    h->off_workers = round_up(sizeof *h, 4096);
    h->off_means =
        h->off_workers + round_up(h->n_local * sizeof(struct seg_worker), 4096);
    h->off_sum =
        h->off_means + round_up(ring_slots * sizeof(struct seg_mean), 4096);
    h->off_pool = h->off_sum + round_up(sum_bytes(h), 4096);
    h->off_ring = h->off_pool + round_up(pool_bytes(h), 4096);
    h->off_slots = h->off_ring + ring;
    if (__builtin_add_overflow(h->off_slots, slots, &total))
        return false;
    h->bytes = total;
    return true;
}

static void set_views(struct segment *s, void *base, size_t bytes)
{
    s->h = base;
    s->bytes = bytes;
    s->workers = (void *)((char *)base + s->h->off_workers);
    s->means = (void *)((char *)base + s->h->off_means);
    s->sum = (void *)((char *)base + s->h->off_sum);
    s->done = (void *)(s->sum + 1);
    s->rows = (void *)(s->done + s->h->n_chunks);
    s->pool = (void *)((char *)base + s->h->off_pool);
    s->parts = (void *)(s->pool + 1);
}

static enum dsgd_err no_space(const struct seg_file *file, size_t bytes,
                              int error, struct dsgd_error *err)
{
    struct statvfs fs;
    double free_mb = 0;
    if (fstatvfs(file->fd, &fs) == 0)
        free_mb = (double)fs.f_bavail * (double)fs.f_bsize / 1e6;
    return error_set(err, DSGD_E_NOSPACE,
                     "%s: no room for %.1f MB of shared memory (%.1f MB "
                     "free): %s; make it larger (mount -o remount,size=… "
                     "/dev/shm) or lower DSGD_RING_BYTES",
                     file->name, (double)bytes / 1e6, free_mb, strerror(error));
}

/* A signal undoes all that a call has reserved, and one that comes every few
 * milliseconds does so again and again: then in pieces. */
static int reserve(const struct seg_file *file, size_t bytes)
{
    const size_t small = 1 << 20;
    size_t piece = bytes;

    for (size_t at = 0; at < bytes;) {
        size_t n = bytes - at < piece ? bytes - at : piece;
        int error = posix_fallocate(file->fd, file->at + (off_t)at, (off_t)n);
        if (error && error != EINTR)
            return error;
        if (error)
            piece = small;
        else
            at += n;
    }
    return 0;
}

static int open_random(char *name)
{
    for (int attempt = 0; attempt < 100; attempt++) {
        uint64_t random[2];
        if (getrandom(random, sizeof random, 0) != sizeof random)
            return -1;
        snprintf(name, SEGMENT_NAME, "/dsgd-%016llx%016llx",
                 (unsigned long long)random[0], (unsigned long long)random[1]);
        int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

static enum dsgd_err map(const struct seg_file *file, size_t bytes, void **base,
                         struct dsgd_error *err)
{
    *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd,
                 file->at);
    if (*base == MAP_FAILED)
        return error_set(err, DSGD_E_NOMEM, "%s: mmap of %zu bytes: %s",
                         file->name, bytes, strerror(errno));
    return DSGD_OK;
}

enum dsgd_err segment_create_at(const struct seg_file *file, uint32_t n_local,
                                size_t grad_elems, uint32_t slot_bufs,
                                size_t ring_bytes, struct segment *s,
                                struct dsgd_error *err)
{
    struct seg_header h = {.magic = SEGMENT_MAGIC,
                           .n_local = n_local,
                           .grad_elems = grad_elems,
                           .slot_bufs = slot_bufs};
    void *base;

    memset(s, 0, sizeof *s);
    if (n_local < 1 || grad_elems < 1 || slot_bufs < 1 ||
        !layout(&h, ring_bytes))
        return error_set(err, DSGD_E_RANGE,
                         "shared memory: %u workers with %zu floats each are "
                         "out of range",
                         n_local, grad_elems);
    int error = reserve(file, h.bytes);
    if (error)
        return no_space(file, h.bytes, error, err);
    enum dsgd_err rc = map(file, h.bytes, &base, err);
    if (rc != DSGD_OK)
        return rc;
    memcpy(base, &h, sizeof h);
    set_views(s, base, h.bytes);
    return DSGD_OK;
}

enum dsgd_err segment_create(uint32_t n_local, size_t grad_elems,
                             uint32_t slot_bufs, size_t ring_bytes,
                             struct segment *s, char *name,
                             struct dsgd_error *err)
{
    struct seg_file file = {.name = "/dev/shm"};

    memset(s, 0, sizeof *s);
    file.fd = open_random(name);
    if (file.fd < 0)
        return error_set(err, DSGD_E_IO, "/dev/shm: %s", strerror(errno));
    enum dsgd_err rc = segment_create_at(&file, n_local, grad_elems, slot_bufs,
                                         ring_bytes, s, err);
    close(file.fd);
    if (rc != DSGD_OK)
        shm_unlink(name);
    return rc;
}

enum dsgd_err segment_attach_at(const struct seg_file *file, struct segment *s,
                                struct dsgd_error *err)
{
    struct stat st;
    void *base;

    memset(s, 0, sizeof *s);
    if (fstat(file->fd, &st) != 0 || st.st_uid != geteuid() ||
        st.st_size < file->at ||
        (size_t)(st.st_size - file->at) < sizeof(struct seg_header))
        return error_set(err, DSGD_E_FORMAT,
                         "%s is not this user's dsgd segment", file->name);
    size_t bytes = (size_t)(st.st_size - file->at);
    enum dsgd_err rc = map(file, bytes, &base, err);
    if (rc != DSGD_OK)
        return rc;
    struct seg_header *h = base;
    if (h->magic != SEGMENT_MAGIC || h->bytes != bytes) {
        munmap(base, bytes);
        return error_set(err, DSGD_E_FORMAT,
                         "%s is not a dsgd segment of this version",
                         file->name);
    }
    set_views(s, base, bytes);
    return DSGD_OK;
}

enum dsgd_err segment_attach(const char *name, struct segment *s,
                             struct dsgd_error *err)
{
    char path[SEGMENT_NAME + 16];
    struct seg_file file = {.name = path};

    memset(s, 0, sizeof *s);
    snprintf(path, sizeof path, "/dev/shm%s", name);
    file.fd = shm_open(name, O_RDWR | O_NOFOLLOW, 0);
    if (file.fd < 0)
        return error_set(err, DSGD_E_IO, "%s: %s", path, strerror(errno));
    enum dsgd_err rc = segment_attach_at(&file, s, err);
    close(file.fd);
    return rc;
}

void segment_unlink(const char *name)
{
    shm_unlink(name);
}

void segment_detach(struct segment *s)
{
    if (s->h)
        munmap(s->h, s->bytes);
    s->h = NULL;
}

float *segment_ring(const struct segment *s, uint32_t slot)
{
    return (float *)(void *)((char *)s->h + s->h->off_ring) +
           (size_t)slot * s->h->grad_stride;
}

float *segment_slot(const struct segment *s, uint32_t worker, uint32_t buf)
{
    return segment_row(s, worker * s->h->slot_bufs + buf);
}

float *segment_row(const struct segment *s, uint32_t row)
{
    return (float *)(void *)((char *)s->h + s->h->off_slots) +
           (size_t)row * s->h->grad_stride;
}

void segment_join(struct segment *s, uint32_t worker)
{
    segment_unpin(s, worker);
    atomic_store(&s->workers[worker].writing, 0);
}

/* The bell is changed before dozing is read; a sleeper says that it dozes
 * before it sleeps, which it does while the bell is as it was: at least one of
 * the two sees the other.  One that is killed dozes for good, which costs
 * system calls. */
void segment_doze(struct segment *s, uint32_t seen, uint64_t timeout_ns)
{
    atomic_fetch_add(&s->h->dozing, 1);
    sys_futex_wait(&s->h->worker_bell, seen, timeout_ns);
    atomic_fetch_sub(&s->h->dozing, 1);
}

void segment_call(struct segment *s)
{
    atomic_fetch_add(&s->h->worker_bell, 1);
    if (atomic_load(&s->h->dozing))
        sys_futex_ring(&s->h->worker_bell);
}

bool segment_driven(const struct seg_header *h)
{
    return atomic_load(&h->driven) && !atomic_load(&h->crowded);
}

static bool is_worth_ringing(uint32_t kind, uint32_t asleep)
{
    switch (asleep) {
    case SEG_AWAKE:
        return false;
    case SEG_ASLEEP_LIGHTLY:
        return kind != SEG_EVENT_BEGIN;
    case SEG_COMPUTES:
        return kind != SEG_EVENT_BEGIN && kind != SEG_EVENT_COMMIT;
    default:
        return true;
    }
}

bool segment_has_room(const struct segment *s, uint32_t worker)
{
    const struct seg_worker *w = &s->workers[worker];

    return atomic_load_explicit(&w->event_head, memory_order_relaxed) -
               atomic_load(&w->event_tail) <
           SEGMENT_EVENTS;
}

void segment_post(struct segment *s, uint32_t worker,
                  const struct seg_event *event)
{
    struct seg_worker *w = &s->workers[worker];
    uint64_t head = atomic_load_explicit(&w->event_head, memory_order_relaxed);

    for (;;) {
        uint32_t bell = atomic_load(&s->h->worker_bell);
        if (segment_has_room(s, worker))
            break;
        if (atomic_load(&s->h->run) != SEG_RUNNING)
            return;
        segment_doze(s, bell, 100000000);
    }
    w->events[head % SEGMENT_EVENTS] = *event;
    atomic_store(&w->event_head, head + 1);
    if (is_worth_ringing(event->kind, atomic_load(&s->h->agg_asleep)))
        sys_futex_ring(&s->h->agg_bell);
}

bool segment_waits(const struct segment *s)
{
    for (uint32_t w = 0; w < s->h->n_local; w++) {
        const struct seg_worker *worker = &s->workers[w];
        if (atomic_load(&worker->event_head) !=
            atomic_load(&worker->event_tail))
            return true;
    }
    return false;
}

/* The last gradient that a worker gave, or NULL: its latest events are still in
 * the queue's memory. */
static const struct seg_event *last_given(const struct seg_worker *w)
{
    uint64_t head = atomic_load(&w->event_head);

    for (uint64_t i = 1; i <= SEGMENT_EVENTS && i <= head; i++) {
        const struct seg_event *e = &w->events[(head - i) % SEGMENT_EVENTS];
        if ((e->kind == SEG_EVENT_COMMIT && e->value) ||
            e->kind == SEG_EVENT_PART || e->kind == SEG_EVENT_DEPOSIT)
            return e;
    }
    return NULL;
}

/* What a worker gave may still be summed: the one that takes its place goes on
 * where it would have.  With two buffers that is the other one, whose gradient
 * is in no sum later than that of the last step given; it may have ended before
 * it turned to it. */
static void hold_given(const struct segment *s, struct seg_worker *w)
{
    const struct seg_event *given = last_given(w);

    if (!given)
        return;
    if (given->step > atomic_load(&w->hold_step))
        atomic_store(&w->hold_step, given->step);
    if (s->h->slot_bufs > 1)
        atomic_store(&w->buf, !given->buf);
}

void segment_bury(struct segment *s, uint32_t worker, uint64_t value)
{
    struct seg_worker *w = &s->workers[worker];
    struct seg_event died = {
        .kind = SEG_EVENT_DIED, .at_ns = sys_now_ns(), .value = value};

    hold_given(s, w);
    segment_unpin(s, worker);
    atomic_store(&w->applied, 0); /* it has no state to give */
    atomic_store(&w->give_state, 0);
    if (atomic_load(&s->h->state.pid) == atomic_load(&w->pid))
        atomic_store(&s->h->state.step, 0);
    if (atomic_load(&s->h->checkpoint.pid) == atomic_load(&w->pid))
        atomic_store(&s->h->checkpoint.step, 0);
    atomic_store(&w->exit, SEG_EXIT_DIED);
    atomic_store(&w->pid, 0);
    segment_post(s, worker, &died);
}

bool segment_take(struct segment *s, uint32_t worker, struct seg_event *event)
{
    struct seg_worker *w = &s->workers[worker];
    uint64_t tail = atomic_load_explicit(&w->event_tail, memory_order_relaxed);

    if (tail == atomic_load_explicit(&w->event_head, memory_order_acquire))
        return false;
    *event = w->events[tail % SEGMENT_EVENTS];
    atomic_store_explicit(&w->event_tail, tail + 1, memory_order_release);
    return true;
}

int segment_find(const struct segment *s, uint64_t step)
{
    for (uint32_t i = 0; i < s->h->ring_slots; i++) {
        if (atomic_load(&s->means[i].step) == step)
            return (int)i;
    }
    return -1;
}

/* The pin is stored before the slot's step is read, and segment_reserve clears
 * the step before it reads the pins: at least one of the two sees the other. */
int segment_pin(struct segment *s, uint32_t worker, uint64_t step)
{
    atomic_store(&s->workers[worker].pin, step);
    int slot = segment_find(s, step);
    if (slot < 0)
        segment_unpin(s, worker);
    return slot;
}

void segment_unpin(struct segment *s, uint32_t worker)
{
    atomic_store(&s->workers[worker].pin, 0);
}

static bool pinned(const struct segment *s, uint64_t step)
{
    for (uint32_t w = 0; step && w < s->h->n_local; w++) {
        if (atomic_load(&s->workers[w].pin) == step)
            return true;
    }
    return false;
}

static bool written(const struct segment *s, uint32_t slot)
{
    for (uint32_t w = 0; w < s->h->n_local; w++) {
        if (atomic_load(&s->workers[w].writing) == slot + 1)
            return true;
    }
    return false;
}

uint32_t segment_reserve(struct segment *s)
{
    for (;;) {
        uint32_t oldest = UINT32_MAX;
        uint64_t oldest_step = UINT64_MAX;
        for (uint32_t i = 0; i < s->h->ring_slots; i++) {
            uint64_t step = atomic_load(&s->means[i].step);
            if (step < oldest_step && !pinned(s, step) && !written(s, i)) {
                oldest = i;
                oldest_step = step;
            }
        }
        /* A worker pins or writes one slot at most and there are more slots
         * than workers, so that one is free: but none may seem so when a
         * worker reads on while the slots are looked at. */
        if (oldest == UINT32_MAX)
            continue;
        atomic_store(&s->means[oldest].step, 0);
        if (!pinned(s, oldest_step))
            return oldest;
        atomic_store(&s->means[oldest].step, oldest_step);
    }
}
