/* Sums by several hands: their bits, and what becomes of them when a helper
 * stops in the middle of a chunk.  Workers are threads here, so that the
 * protocol can be run under the thread sanitizer (make check-tsan), and once
 * processes that are really stopped and killed. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chunks.h"
#include "message.h"
#include "rng.h"
#include "sys.h"
#include "tap.h"

enum { WORKERS = 9, CHUNK = 16384 };

static struct rng rng;

/* Under the thread sanitizer helpers are waited for without end: one that is
 * given up reads what others write. */
#ifdef PATIENCE_NS
enum { GIVES_UP = 0 };
#else
enum { GIVES_UP = 1 };
#endif

static void make(struct segment *s, uint32_t workers, size_t elems)
{
    char name[SEGMENT_NAME];
    struct dsgd_error err;

    if (segment_create(workers, elems, 2, 0, s, name, &err) != DSGD_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    segment_unlink(name);
    for (uint32_t w = 0; w < workers; w++)
        atomic_store(&s->workers[w].pid, (int32_t)getpid());
}

static void fill(struct segment *s)
{
    for (uint32_t row = 0; row < s->h->n_local * s->h->slot_bufs; row++) {
        for (size_t i = 0; i < s->h->grad_elems; i++)
            segment_row(s, row)[i] = (float)(int64_t)rng_u64(&rng) * 1e-19f;
    }
}

static float sum_ref(const struct segment *s, const uint8_t *mask, float factor,
                     size_t i)
{
    volatile float sum = 0;
    bool first = true;

    for (uint32_t k = 0; k < 2 * s->h->n_local; k++) {
        unsigned take = k % 2 ? MSG_CARRIED : MSG_OWN;
        unsigned buf = k % 2 ? MSG_CARRIED_BUF : MSG_OWN_BUF;
        if (!(mask[k / 2] & take))
            continue;
        float x = segment_slot(s, k / 2, (mask[k / 2] & buf) != 0)[i];
        sum = first ? x : sum + x;
        first = false;
    }
    sum = sum * factor;
    return sum;
}

static size_t differences(const struct segment *s, const uint8_t *mask,
                          float factor, uint32_t slot)
{
    const float *got = segment_ring(s, slot);
    size_t wrong = 0;

    for (size_t i = 0; i < s->h->grad_elems; i++) {
        float want = sum_ref(s, mask, factor, i);
        wrong += memcmp(&got[i], &want, sizeof want) != 0;
    }
    return wrong;
}

/* A worker that waits, as a thread. */
struct waiter {
    pthread_t thread;
    struct segment *s;
    uint32_t worker;
    uint64_t helped;
};

static void *wait_and_help(void *argument)
{
    struct waiter *w = argument;

    while (atomic_load(&w->s->h->run) == SEG_RUNNING) {
        uint32_t bell = atomic_load(&w->s->h->worker_bell);
        uint32_t did = chunks_help(w->s, w->worker);
        w->helped += did;
        if (!did && atomic_load(&w->s->h->run) == SEG_RUNNING)
            sys_futex_wait(&w->s->h->worker_bell, bell, UINT64_MAX);
    }
    return NULL;
}

static void start(struct waiter *w, struct segment *s, uint32_t worker)
{
    *w = (struct waiter){.s = s, .worker = worker};
    pthread_create(&w->thread, NULL, wait_and_help, w);
}

static void stop(struct segment *s)
{
    atomic_store(&s->h->run, SEG_ENDED);
    sys_futex_ring(&s->h->worker_bell);
}

/* What a step does: sum, publish into the ring, go on. */
static size_t step(struct chunks *c, const uint8_t *mask, float factor,
                   uint64_t number)
{
    uint32_t slot = segment_reserve(c->s);

    slot = chunks_sum(c, mask, factor, slot);
    size_t wrong = differences(c->s, mask, factor, slot);
    atomic_store(&c->s->means[slot].step, number);
    return wrong;
}

static void any_mask(uint8_t *mask, uint32_t n)
{
    uint64_t one = rng_below(&rng, n);

    for (uint32_t w = 0; w < n; w++) {
        bool buf = rng_uniform(&rng) < .5;
        mask[w] = 0;
        if (w == one || rng_uniform(&rng) < .5)
            mask[w] |= MSG_OWN | (buf ? MSG_OWN_BUF : 0);
        if (rng_uniform(&rng) < .3)
            mask[w] |= MSG_CARRIED | (buf ? 0 : MSG_CARRIED_BUF);
    }
}

static void bits(size_t elems, uint32_t n_helpers, int steps)
{
    struct segment s;
    struct chunks c;
    struct waiter waiter[WORKERS];
    uint8_t mask[WORKERS];
    uint64_t helped = 0;
    size_t wrong = 0;

    make(&s, WORKERS, elems);
    chunks_init(&c, &s);
    c.threads = WORKERS;
    for (uint32_t i = 0; i < n_helpers; i++)
        start(&waiter[i], &s, i);
    for (int t = 1; t <= steps; t++) {
        fill(&s);
        any_mask(mask, WORKERS);
        wrong += step(&c, mask, t % 2 ? 1 : .3f, (uint64_t)t);
    }
    stop(&s);
    for (uint32_t i = 0; i < n_helpers; i++) {
        pthread_join(waiter[i].thread, NULL);
        helped += waiter[i].helped;
    }
    ok(wrong == 0,
       "%zu floats, %u helpers: the bits of a sum in rank order "
       "(%llu chunks by helpers, %llu sums taken over)",
       elems, n_helpers, (unsigned long long)helped,
       (unsigned long long)c.taken_over);
    segment_detach(&s);
}

static bool given_out(struct segment *s, uint32_t slot, int times)
{
    bool seen = false;

    for (int i = 0; i < times; i++) {
        uint32_t got = segment_reserve(s);
        seen = seen || got == slot;
        atomic_store(&s->means[got].step, (uint64_t)(1000 + i));
    }
    return seen;
}

/* A helper claims a chunk and stops there; it goes on when its help is no
 * longer wanted and the gradients have changed under it. */
static void stopped_helper(void)
{
    struct segment s;
    struct chunks c;
    struct chunk chunk;
    uint8_t mask[4] = {1, 1, 0, 1};
    size_t elems = 5 * CHUNK + 7;

    make(&s, 4, elems);
    chunks_init(&c, &s);
    fill(&s);
    ok(!chunks_claim(&s, 3, &chunk), "nothing to claim before a sum");
    uint32_t old = segment_reserve(&s);
    chunks_begin(&c, mask, 1, old);
    ok(chunks_work(&c) && chunks_claim(&s, 3, &chunk), "a helper claims");
    is_int(chunk.index, 1, "the next chunk");
    is_int(chunk.slot, old, "of the reserved slot");
    uint32_t slot = chunks_finish(&c);
    ok(slot != old, "it stops: the sum moves to another slot");
    is_int((long long)differences(&s, mask, 1, slot), 0, "and is right");
    is_int((long long)c.taken_over, 1, "taken over once");
    atomic_store(&s.means[slot].step, 1);
    ok(!given_out(&s, old, 20), "the old slot is kept away from others");

    fill(&s);
    uint32_t next = segment_reserve(&s);
    chunks_begin(&c, mask, 2, next);
    chunks_work(&c);
    size_t at = chunk.index * s.h->chunk_elems;
    float before = segment_ring(&s, next)[at];
    chunks_do(&s, 3, &chunk); /* it wakes up */
    is_int(chunks_ready(&c), 1, "its word does not count for the next sum");
    ok(segment_ring(&s, next)[at] == before, "nor does it write there");
    next = chunks_finish(&c);
    is_int((long long)differences(&s, mask, 2, next), 0,
           "the next sum is right");
    is_int((long long)c.taken_over, 1, "without a take-over");
    ok(!chunks_claim(&s, 3, &chunk), "nothing is left to claim");
    atomic_store(&s.means[next].step, 5000);
    ok(given_out(&s, old, 20), "the old slot is used again");
    segment_detach(&s);
}

/* A helper that has read the description of a sum that is over. */
static void late_claim(void)
{
    struct segment s;
    struct chunks c;
    struct chunk chunk;
    uint8_t mask[2] = {1, 1};

    make(&s, 2, 3 * CHUNK);
    chunks_init(&c, &s);
    fill(&s);
    uint32_t a = chunks_sum(&c, mask, 1, segment_reserve(&s));
    uint64_t word = atomic_load(&s.sum->claim);
    atomic_store(&s.means[a].step, 1);
    chunks_begin(&c, mask, 1, segment_reserve(&s));
    uint64_t again = word;
    ok(!atomic_compare_exchange_strong(&s.sum->claim, &again, word + 1),
       "a claim of the sum before fails");
    ok(chunks_claim(&s, 1, &chunk) && chunk.index == 0, "one of this succeeds");
    is_int(atomic_load(&s.workers[1].writing), chunk.slot + 1, "and is shown");
    segment_join(&s, 1);
    is_int(atomic_load(&s.workers[1].writing), 0,
           "the successor of a dead worker starts clean");
    segment_detach(&s);
}

/* A helper claims a chunk and dies; another process is in its place before the
 * aggregator has done with waiting for it, and the slot looks free again. */
static void replaced_helper(bool in_pieces)
{
    struct segment s;
    struct chunks c;
    struct chunk chunk;
    uint8_t mask[3] = {1, 1, 1};
    uint32_t looks = 0;

    make(&s, 3, 4 * CHUNK);
    const uint32_t n = s.h->n_chunks;
    chunks_init(&c, &s);
    fill(&s);
    chunks_begin(&c, mask, 1, segment_reserve(&s));
    while (chunks_ready(&c) < n && chunks_claim(&s, 2, &chunk) &&
           chunk.index < 1)
        chunks_do(&s, 2, &chunk);
    segment_join(&s, 2);
    while (in_pieces && chunks_ready(&c) < n && looks++ < 1000) {
        if (!chunks_tend(&c))
            usleep(1000);
    }
    uint32_t slot = in_pieces ? c.slot : chunks_finish(&c);
    is_int(chunks_ready(&c), n, "a helper dies and is replaced: all is summed");
    is_int((long long)differences(&s, mask, 1, slot), 0, "and is right");
    segment_detach(&s);
}

/* Every slot that can be kept from use is. */
static void all_stuck(void)
{
    enum { N = 6 };
    struct segment s;
    struct chunks c;
    struct chunk chunk[N];
    uint8_t mask[N] = {1, 1, 1, 1, 1, 1};
    size_t wrong = 0;

    make(&s, N, CHUNK * N);
    chunks_init(&c, &s);
    for (uint32_t w = 0; w < N; w++) {
        fill(&s);
        chunks_begin(&c, mask, 1, segment_reserve(&s));
        chunks_claim(&s, w, &chunk[w]);
        uint32_t slot = chunks_finish(&c);
        wrong += differences(&s, mask, 1, slot);
        atomic_store(&s.means[slot].step, w + 1);
    }
    is_int((long long)c.taken_over, N, "every worker stuck in another slot");
    fill(&s);
    wrong += step(&c, mask, 1, N + 1);
    is_int((long long)wrong, 0, "the sums are right, the ring is long enough");
    segment_detach(&s);
}

static pid_t helper_process(struct segment *s, uint32_t worker)
{
    pid_t pid = fork();

    if (pid)
        return pid;
    struct waiter w = {.s = s, .worker = worker};
    wait_and_help(&w);
    _exit(0);
}

/* Processes that help, stopped and continued at random, then killed. */
static void stopped_processes(void)
{
    enum { N = 4, STEPS = 40 };
    struct segment s;
    struct chunks c;
    pid_t pid[N];
    uint8_t mask[N] = {1, 1, 1, 1};
    size_t wrong = 0;

    make(&s, N, 20 * CHUNK);
    chunks_init(&c, &s);
    c.threads = N;
    for (uint32_t w = 0; w < N; w++)
        pid[w] = helper_process(&s, w);
    for (uint64_t t = 1; t <= STEPS; t++) {
        uint32_t victim = (uint32_t)(rng_uniform(&rng) * N);
        if (t % 5 == 1)
            fill(&s);
        chunks_begin(&c, mask, 1, segment_reserve(&s));
        usleep((useconds_t)(rng_uniform(&rng) * 300));
        kill(pid[victim], SIGSTOP);
        uint32_t slot = chunks_finish(&c);
        wrong += differences(&s, mask, 1, slot);
        atomic_store(&s.means[slot].step, t);
        if (t % 3 == 0) {
            for (int w = 0; w < N; w++)
                kill(pid[w], SIGCONT);
        }
    }
    for (uint32_t w = 0; w < N; w++) {
        kill(pid[w], SIGKILL);
        waitpid(pid[w], NULL, 0);
        segment_join(&s, w);
    }
    ok(wrong == 0, "helpers stopped at random (%llu sums taken over)",
       (unsigned long long)c.taken_over);
    is_int((long long)step(&c, mask, 1, STEPS + 1), 0,
           "all of them killed: the aggregator sums alone");
    segment_detach(&s);
}

int main(void)
{
    rng_seed(&rng, 7, 0);
    bits(1, 0, 3);
    bits(1000, 2, 20);
    bits(CHUNK, 2, 20);
    bits(10 * CHUNK + 1, 0, 10);
    bits(20 * CHUNK + 1023, 3, 10);
    bits(30 * CHUNK, WORKERS, 5);
    late_claim();
    if (GIVES_UP) {
        stopped_helper();
        replaced_helper(false);
        replaced_helper(true);
        all_stuck();
        stopped_processes();
    }
    return done();
}
