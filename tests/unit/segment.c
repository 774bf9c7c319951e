/* The shared segment: layout, events, pins. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "segment.h"
#include "sys.h"
#include "tap.h"

static void lifecycle(void)
{
    struct segment a, b;
    struct dsgd_error err;
    char name[SEGMENT_NAME], path[96];
    struct stat st;

    is_int(segment_create(3, 1000, 1, 0, &a, name, &err), DSGD_OK, "create");
    snprintf(path, sizeof path, "/dev/shm%s", name);
    ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600, "mode 0600");
    is_int(a.h->ring_slots, 5, "at least a slot more than can be pinned");
    is_int(segment_attach(name, &b, &err), DSGD_OK, "attach");
    segment_slot(&a, 2, 0)[999] = 5;
    ok(segment_slot(&b, 2, 0)[999] == 5, "both see the same floats");
    ok((char *)(segment_slot(&a, 2, 0) + 1024) <= (char *)a.h + a.h->bytes,
       "the last slot ends within");
    segment_unlink(name);
    ok(stat(path, &st) != 0, "unlinked");
    is_int(segment_attach(name, &b, &err), DSGD_E_IO, "gone");
    segment_detach(&a);
    segment_detach(&a);
}

int __real_posix_fallocate(int fd, off_t at, off_t bytes);
int __wrap_posix_fallocate(int fd, off_t at, off_t bytes);

/* A timer's signal comes now and then, and undoes what a call has reserved
 * (Linux before 6.7). */
static int signals_every;
static off_t most_undisturbed;

int __wrap_posix_fallocate(int fd, off_t at, off_t bytes)
{
    static int calls;

    if (signals_every &&
        (bytes > most_undisturbed || ++calls % signals_every == 0))
        return EINTR;
    return __real_posix_fallocate(fd, at, bytes);
}

static void interrupted(void)
{
    struct segment s;
    struct dsgd_error err = {""};
    char name[SEGMENT_NAME];
    struct stat st;

    signals_every = 2;
    most_undisturbed = 8 << 20;
    enum dsgd_err rc = segment_create(2, 1 << 20, 1, 20 << 20, &s, name, &err);
    signals_every = 0;
    ok(rc == DSGD_OK, "create, with a signal now and then: %s", err.text);
    if (rc != DSGD_OK)
        return;
    char path[96];
    snprintf(path, sizeof path, "/dev/shm%s", name);
    ok(stat(path, &st) == 0 && (size_t)st.st_size == s.bytes &&
           (size_t)st.st_blocks * 512 >= s.bytes,
       "every page is reserved");
    segment_unlink(name);
    segment_detach(&s);
}

static void bad(void)
{
    struct segment s;
    struct dsgd_error err;
    char name[SEGMENT_NAME], path[96];

    is_int(segment_create(0, 10, 1, 0, &s, name, &err), DSGD_E_RANGE,
           "no workers");
    is_int(segment_create(4, SIZE_MAX / 2, 1, 0, &s, name, &err), DSGD_E_RANGE,
           "sizes that overflow");
    is_int(segment_create(4, (size_t)1 << 40, 1, 0, &s, name, &err),
           DSGD_E_NOSPACE, "more than /dev/shm holds");
    has_str(err.text, "no room for", "the error names the size");
    has_str(err.text, "DSGD_RING_BYTES", "and a remedy");
    snprintf(name, sizeof name, "/dsgd-test-%ld", (long)getpid());
    snprintf(path, sizeof path, "/dev/shm%s", name);
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < 8192; i++)
        fputc('x', f);
    if (f)
        fclose(f);
    is_int(segment_attach(name, &s, &err), DSGD_E_FORMAT, "a foreign file");
    has_str(err.text, "is not a dsgd segment", "is named as such");
    unlink(path);
}

static void events(void)
{
    struct segment s;
    struct seg_event e = {.kind = SEG_EVENT_BEGIN}, got;
    char name[SEGMENT_NAME];
    bool in_order = true;

    segment_create(2, 10, 1, 0, &s, name, NULL);
    segment_unlink(name);
    ok(!segment_take(&s, 0, &got), "no event yet");
    for (int round = 0; round < 5; round++) {
        for (uint64_t i = 0; i < SEGMENT_EVENTS; i++) {
            e.step = i;
            segment_post(&s, 1, &e);
        }
        for (uint64_t i = 0; i < SEGMENT_EVENTS; i++)
            in_order = in_order && segment_take(&s, 1, &got) && got.step == i;
    }
    ok(in_order && !segment_take(&s, 1, &got), "events come in order");
    for (int i = 0; i < SEGMENT_EVENTS; i++)
        segment_post(&s, 1, &e);
    atomic_store(&s.h->run, SEG_ENDED);
    segment_post(&s, 1, &e); /* must return */
    ok(true, "a full queue does not hold a worker at the end of a run");
    segment_detach(&s);
}

/* The gradient that a dead worker gave is not overwritten by who takes its
 * place. */
static void burial(void)
{
    struct segment s;
    struct seg_event e = {.kind = SEG_EVENT_COMMIT};
    char name[SEGMENT_NAME];

    for (uint32_t bufs = 1; bufs <= 2; bufs++) {
        segment_create(2, 10, bufs, 0, &s, name, NULL);
        segment_unlink(name);
        atomic_store(&s.workers[1].pid, 1);
        e.step = 7;
        e.value = 3;
        e.buf = bufs - 1;
        atomic_store(&s.workers[1].buf, e.buf); /* died before it turned */
        segment_post(&s, 1, &e);
        segment_bury(&s, 1, 9);
        ok(atomic_load(&s.workers[1].hold_step) == 7,
           "of %u buffers: held until step 7", bufs);
        is_int(atomic_load(&s.workers[1].buf), 0, "in the next buffer");
        e.step = 8;
        e.value = 0; /* nothing given */
        segment_post(&s, 1, &e);
        segment_bury(&s, 1, 9);
        ok(atomic_load(&s.workers[1].hold_step) == 7, "and no longer");
        segment_detach(&s);
    }
}

static void publish(struct segment *s, uint64_t step)
{
    uint32_t slot = segment_reserve(s);
    segment_ring(s, slot)[0] = (float)step;
    atomic_store(&s->means[slot].step, step);
    atomic_store(&s->h->published, step);
}

static void pins(void)
{
    struct segment s;
    char name[SEGMENT_NAME];

    segment_create(2, 10, 1, 0, &s, name, NULL);
    segment_unlink(name);
    for (uint64_t t = 1; t <= 4; t++)
        publish(&s, t);
    int slot = segment_pin(&s, 0, 1);
    ok(slot >= 0 && segment_ring(&s, (uint32_t)slot)[0] == 1, "pin step 1");
    for (uint64_t t = 5; t <= 40; t++)
        publish(&s, t);
    ok(segment_ring(&s, (uint32_t)slot)[0] == 1, "a pinned slot is not reused");
    is_int(segment_find(&s, 1), slot, "and stays found");
    is_int(segment_pin(&s, 1, 2), -1, "an unpinned one is gone");
    segment_unpin(&s, 0);
    for (uint64_t t = 41; t <= 46; t++)
        publish(&s, t);
    is_int(segment_find(&s, 1), -1, "until it is unpinned");
    segment_detach(&s);
}

/* A reader and a writer race: a pinned mean never changes under the reader. */
struct race {
    struct segment s;
    _Atomic bool stop;
    long taken, torn, gone;
};

static void *reader(void *argument)
{
    struct race *r = argument;
    uint64_t next = 1;

    while (!atomic_load(&r->stop)) {
        uint64_t published = atomic_load(&r->s.h->published);
        if (published < next)
            continue;
        int slot = segment_pin(&r->s, 0, next);
        if (slot < 0) {
            r->gone++;
            next = published;
            continue;
        }
        const volatile float *x = segment_ring(&r->s, (uint32_t)slot);
        for (int i = 0; i < 1000; i++)
            r->torn += x[i] != (float)next;
        r->taken++;
        segment_unpin(&r->s, 0);
        next++;
    }
    return NULL;
}

static void race(void)
{
    struct race r = {.taken = 0};
    char name[SEGMENT_NAME];
    pthread_t thread;

    segment_create(1, 1000, 1, 0, &r.s, name, NULL);
    segment_unlink(name);
    pthread_create(&thread, NULL, reader, &r);
    for (uint64_t t = 1; t <= 200000; t++) {
        uint32_t slot = segment_reserve(&r.s);
        float *x = segment_ring(&r.s, slot);
        for (int i = 0; i < 1000; i++)
            x[i] = (float)t;
        atomic_store(&r.s.means[slot].step, t);
        atomic_store(&r.s.h->published, t);
    }
    atomic_store(&r.stop, true);
    pthread_join(thread, NULL);
    ok(r.torn == 0 && r.taken > 0, "%ld means read whole, %ld were gone",
       r.taken, r.gone);
    segment_detach(&r.s);
}

static void clocks(void)
{
    struct own_clock c;
    struct timespec pause = {1, 300000000};

    own_clock_init(&c);
    double a = own_clock_s(&c);
    nanosleep(&pause, NULL);
    double b = own_clock_s(&c);
    ok(a >= 0 && b >= a && b - a < 0.5,
       "an absence is not counted by one's own clock (%.3f s)", b - a);
}

int main(void)
{
    lifecycle();
    interrupted();
    bad();
    events();
    burial();
    pins();
    race();
    clocks();
    return done();
}
