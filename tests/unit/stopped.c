/* Workers, aggregators and a coordinator as they are, in processes that are
 * stopped and continued at random moments: a training ends, with the means that
 * it should have, whoever was stopped and for however long.
 *
 * Time runs SPEED times as fast for them (the program is linked with
 * -Wl,--wrap=sys_now_ns,--wrap=own_clock_s), and processes are really stopped,
 * so that a seed repeats the faults and not the schedule.
 *
 *     stopped [FIRST-SEED TRIALS [WAIT-S]]
 *
 * WAIT-S: keep a hung training that long, for a debugger. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../shm_transport.h"
#include "../tap.h"
#include "client.h"
#include "launch.h"
#include "rng.h"
#include "sys.h"

enum { SPEED = 4, NODES = 4, MOST_LOCAL = 3, MOST = NODES * MOST_LOCAL };
enum { MOST_SAMPLES = 512 };

uint64_t __real_sys_now_ns(void);
uint64_t __wrap_sys_now_ns(void);
uint64_t __wrap_sys_now_ns(void)
{
    return __real_sys_now_ns() * SPEED;
}

double __wrap_own_clock_s(struct own_clock *c);
double __wrap_own_clock_s(struct own_clock *c)
{
    uint64_t now = __wrap_sys_now_ns(), gap = now - c->last_ns;

    if (!c->last_ns || (double)gap > OWN_CLOCK_GAP_S * 1e9)
        c->paused_ns += gap;
    c->last_ns = now;
    return (double)(now - c->paused_ns) * 1e-9;
}

struct trial {
    struct dsgd_options opt;
    uint64_t seed;
    uint32_t per_node, n;
    uint32_t faults;
    double step_s, slow; /* real time of a batch; share of slow ones */
    double hold_s;       /* longest stop */
    bool only_first;     /* the first workers of nodes 1.. are stopped */
};

/* What a worker has seen at its end. */
struct result {
    bool ended;
    enum dsgd_err rc;
    uint64_t applied, epochs;
    float used[MOST_SAMPLES]; /* how often each sample was */
};

struct shared {
    _Atomic bool begun[MOST];
    struct result result[MOST];
};

static void nap(double seconds)
{
    struct timespec t = {(time_t)seconds,
                         (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

static double real_s(void)
{
    return (double)__real_sys_now_ns() * 1e-9;
}

/* --- a worker's process --- */

struct view {
    uint64_t epochs;
    float used[MOST_SAMPLES];
};

static uint64_t compute(struct dsgd *d, const struct trial *t, struct rng *rng,
                        const struct dsgd_step *step, float *grad)
{
    enum { PIECES = 4 };
    bool polls = rng_uniform(rng) < .5;
    double whole = t->step_s * rng_range(rng, .5, 1.5);
    uint64_t done = 0;

    if (rng_uniform(rng) < t->slow)
        whole *= rng_log_range(rng, 3, 30);
    memset(grad, 0, t->opt.grad_elems * sizeof *grad);
    for (uint64_t piece = 1; piece <= PIECES && step->n_samples; piece++) {
        uint64_t to = step->n_samples * piece / PIECES;
        nap(whole / PIECES);
        for (; done < to; done++)
            grad[step->first_sample + done] += 1;
        if (polls && dsgd_poll(d, piece, PIECES) == DSGD_ABANDON)
            break;
    }
    return done;
}

static enum dsgd_err train(struct dsgd *d, const struct trial *t,
                           struct view *v)
{
    struct dsgd_step step;
    struct dsgd_mean m;
    struct rng rng;
    enum dsgd_err rc;

    rng_seed(&rng, t->seed, 1 + dsgd_rank(d));
    while ((rc = dsgd_step_begin(d, &step)) == DSGD_OK) {
        float *grad = dsgd_grad_buffer(d);
        uint64_t done = compute(d, t, &rng, &step, grad);
        rc = dsgd_reduce(d, grad, t->opt.grad_elems, done);
        if (rc != DSGD_OK)
            return rc;
        while ((rc = dsgd_next_mean(d, &m)) == DSGD_OK || rc == DSGD_RESYNCED) {
            if (rc == DSGD_RESYNCED)
                continue;
            for (size_t i = 0; i < t->opt.n_samples; i++)
                v->used[i] += m.grad[i] * (float)m.samples;
            v->epochs += m.epoch_end;
            if (rng_uniform(&rng) < t->slow) /* while the mean is held */
                nap(t->step_s);
        }
        if (rc != DSGD_UP_TO_DATE && rc != DSGD_EPOCH_END)
            return rc;
    }
    return rc;
}

static bool make_aggregator(const struct trial *t, const struct segment *seg,
                            struct shm_net *net, uint32_t node,
                            struct aggregator **agg)
{
    struct cutoff_spec cutoff;
    uint32_t worker_node[MOST];
    struct coordinator_config coord = {.opt = &t->opt,
                                       .cutoff = &cutoff,
                                       .n_workers = t->n,
                                       .n_nodes = NODES,
                                       .worker_node = worker_node};
    struct aggregator_config config = {.seg = seg,
                                       .node_index = node,
                                       .n_nodes = NODES,
                                       .transport =
                                           shm_transport_create(net, node),
                                       .coord = node ? NULL : &coord};

    for (uint32_t w = 0; w < t->n; w++)
        worker_node[w] = w / t->per_node;
    return config.transport &&
           launch_check(&t->opt, &cutoff, NULL) == DSGD_OK &&
           aggregator_create(&config, agg, NULL) == DSGD_OK;
}

static void worker(const struct trial *t, const struct segment *seg,
                   struct shm_net *net, uint32_t rank, struct shared *shared)
{
    struct aggregator *agg = NULL;
    struct view v = {0};
    struct dsgd *d;
    uint32_t node = rank / t->per_node, local = rank % t->per_node;
    struct result *r = &shared->result[rank];

    if ((local == 0 && !make_aggregator(t, &seg[node], net, node, &agg)) ||
        client_create(&t->opt, &seg[node], local, agg, &d, NULL) != DSGD_OK)
        _exit(99);
    d->rank = rank;
    if (dsgd_register(d, &v, sizeof v, NULL) != DSGD_OK ||
        client_start(d, NULL, NULL) != DSGD_OK)
        _exit(99);
    atomic_store(&shared->begun[rank], true);
    r->rc = train(d, t, &v);
    r->applied = d->applied;
    r->epochs = v.epochs;
    memcpy(r->used, v.used, sizeof r->used);
    r->ended = true;
    dsgd_close(d);
    _exit(0);
}

/* --- the faults --- */

static uint32_t victim(const struct trial *t, struct rng *rng)
{
    uint32_t node = 1 + (uint32_t)rng_below(rng, NODES - 1);

    if (t->only_first)
        return node * t->per_node;
    return rng_uniform(rng) < .1 ? 0 : (uint32_t)rng_below(rng, t->n);
}

/* Collect who has ended.  Returns how many run. */
static uint32_t reap(const struct trial *t, pid_t *pid, int *worst)
{
    uint32_t running = 0;

    for (uint32_t w = 0; w < t->n; w++) {
        int status;
        if (pid[w] && waitpid(pid[w], &status, WNOHANG) == pid[w]) {
            pid[w] = 0;
            if (status)
                *worst = status;
        }
        running += pid[w] != 0;
    }
    return running;
}

static bool all_begun(const struct trial *t, const struct shared *shared)
{
    for (uint32_t w = 0; w < t->n; w++) {
        if (!atomic_load(&shared->begun[w]))
            return false;
    }
    return true;
}

/* Stop and continue processes until all have ended.  False: they hang. */
static bool torment(const struct trial *t, pid_t *pid,
                    const struct shared *shared, int *worst)
{
    const double patience_s = 20;
    struct rng rng;
    double until_s[MOST] = {0}, next_s = 0, calm_s = real_s();
    uint32_t faults = t->faults, stopped = 0;

    rng_seed(&rng, t->seed, 0);
    while (!all_begun(t, shared) && real_s() - calm_s < patience_s)
        nap(.001);
    while (reap(t, pid, worst)) {
        double now_s = real_s();
        for (uint32_t w = 0; w < t->n; w++) {
            if (until_s[w] > 0 && now_s >= until_s[w]) {
                until_s[w] = 0;
                stopped--;
                if (pid[w])
                    kill(pid[w], SIGCONT);
                calm_s = now_s;
            }
        }
        if (faults && now_s >= next_s && stopped < 3) {
            uint32_t w = victim(t, &rng);
            next_s = now_s + rng_log_range(&rng, .001, .1);
            if (until_s[w] > 0 || !pid[w])
                continue;
            kill(pid[w], SIGSTOP);
            until_s[w] = now_s + rng_log_range(&rng, .001, t->hold_s);
            faults--;
            stopped++;
        }
        if (!stopped && !faults && now_s - calm_s > patience_s)
            return false;
        if (stopped || faults)
            calm_s = now_s;
        nap(.0005);
    }
    return true;
}

/* --- trials --- */

static struct trial make_trial(uint64_t seed)
{
    static const char *const cutoff[] = {"full", "static:5", "static:3",
                                         "order"};
    static const size_t ring_bytes[] = {0, 0, 80000, 1000000};
    struct trial t = {.seed = seed};
    struct rng rng;

    rng_seed(&rng, seed, 99);
    t.per_node = 2 + (uint32_t)rng_below(&rng, 2);
    t.n = t.per_node * NODES;
    t.faults = 10 + (uint32_t)rng_below(&rng, 20);
    t.step_s = rng_log_range(&rng, .0005, .004);
    t.slow = rng_uniform(&rng) < .5 ? 0 : .1;
    t.hold_s = rng_log_range(&rng, .1, 2);
    t.only_first = rng_uniform(&rng) < .4;
    t.opt.n_samples = 60 + rng_below(&rng, 400);
    t.opt.batch = 4 + rng_below(&rng, 6);
    t.opt.epochs = 6000 / t.opt.n_samples;
    t.opt.grad_elems = (size_t)t.opt.n_samples;
    t.opt.hard_timeout_s = rng_log_range(&rng, .6, 2);
    t.opt.ring_bytes = ring_bytes[rng_below(&rng, 4)];
    t.opt.late = (enum dsgd_late)(rng_below(&rng, 2) ? DSGD_LATE_CARRY
                                                     : DSGD_LATE_REQUEUE);
    strcpy(t.opt.cutoff, cutoff[rng_below(&rng, 4)]);
    if (rng_below(&rng, 2)) /* four pieces */
        t.opt.grad_elems = 100000;
    t.opt.spread_bytes = rng_below(&rng, 3) ? 0 : SIZE_MAX;
    return t;
}

/* Whoever came to the end has seen all of it, once, and the same. */
static bool check_results(const struct trial *t, const struct shared *shared,
                          char *what, size_t size)
{
    const struct result *best = &shared->result[0];

    for (uint32_t w = 0; w < t->n; w++) {
        const struct result *r = &shared->result[w];
        if (r->ended && r->rc == DSGD_END && r->applied > best->applied)
            best = r;
    }
    if (best->epochs != t->opt.epochs) {
        snprintf(what, size, "%llu of %llu epochs",
                 (unsigned long long)best->epochs,
                 (unsigned long long)t->opt.epochs);
        return false;
    }
    for (size_t i = 0; i < t->opt.n_samples; i++) {
        if (lroundf(best->used[i]) != (long)t->opt.epochs) {
            snprintf(what, size, "sample %zu was used %g times", i,
                     (double)best->used[i]);
            return false;
        }
    }
    for (uint32_t w = 0; w < t->n; w++) {
        const struct result *r = &shared->result[w];
        if (r->ended && r->rc == DSGD_END && r->applied < best->applied) {
            snprintf(what, size, "%u ended with step %llu of %llu", w,
                     (unsigned long long)r->applied,
                     (unsigned long long)best->applied);
            return false;
        }
        if (r->ended && r->applied == best->applied &&
            memcmp(r->used, best->used, sizeof r->used)) {
            snprintf(what, size, "the replica of %u differs", w);
            return false;
        }
    }
    return true;
}

static void kill_all(const struct trial *t, pid_t *pid)
{
    for (uint32_t w = 0; w < t->n; w++) {
        if (pid[w]) {
            kill(pid[w], SIGKILL);
            waitpid(pid[w], NULL, 0);
        }
    }
}

static bool run(const struct trial *t, double wait_s, char *what, size_t size)
{
    struct segment seg[NODES];
    pid_t pid[MOST] = {0};
    char name[SEGMENT_NAME];
    int worst = 0;
    size_t body = 256 * sizeof(struct msg_event);
    struct shm_net *net = shm_net_create(NODES, sizeof(struct msg) + body,
                                         sizeof(struct msg) + body +
                                             t->opt.grad_elems * sizeof(float));
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    for (uint32_t i = 0; i < NODES; i++) {
        if (segment_create(t->per_node, t->opt.grad_elems,
                           launch_slot_bufs(&t->opt), t->opt.ring_bytes,
                           &seg[i], name, NULL) != DSGD_OK)
            return false;
        segment_unlink(name);
    }
    fflush(stdout);
    for (uint32_t w = 0; w < t->n; w++) {
        pid[w] = fork();
        if (pid[w] == 0)
            worker(t, seg, net, w, shared);
    }
    bool good = torment(t, pid, shared, &worst);
    if (!good) {
        snprintf(what, size, "hung");
        for (uint32_t w = 0; wait_s > 0 && w < t->n; w++)
            printf("# rank %u: process %d\n", w, (int)pid[w]);
        fflush(stdout);
        nap(wait_s);
    } else if (worst) {
        snprintf(what, size, "a process ended with status %#x", worst);
        good = false;
    } else {
        good = check_results(t, shared, what, size);
    }
    kill_all(t, pid);
    for (uint32_t i = 0; i < NODES; i++)
        segment_detach(&seg[i]);
    munmap(shared, sizeof *shared);
    shm_net_destroy(net);
    return good;
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 2 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 5;
    double wait_s = argc > 3 ? strtod(argv[3], NULL) : 0;
    char what[200] = "";

    for (uint64_t seed = first; seed < first + count; seed++) {
        struct trial t = make_trial(seed);
        double start_s = real_s();
        bool good = run(&t, wait_s, what, sizeof what);
        ok(good, "seed %llu: %u workers, %s%s, %u faults%s, %.1f s",
           (unsigned long long)seed, t.n, t.opt.cutoff,
           t.opt.late == DSGD_LATE_CARRY ? " carry" : "", t.faults,
           t.only_first ? " of first workers" : "", real_s() - start_s);
        if (!good)
            printf("#   %s\n", what);
    }
    return done();
}
