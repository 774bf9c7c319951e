/* A worker without MPI whose gradient counts samples, for runs with known
 * answers: at the end every sample must have been seen once an epoch, also by
 * those that took the place of a dead worker.
 *
 *     sleeper [-e epochs] [-n samples] [-b batch] [-g floats] [-t seconds]
 *             [-x RANK:STEP:HOW] [-d DIR] [-i] [-c]
 *
 * -t  a batch takes so long, asleep
 * -x  that worker's first process ends in that step: HOW is a signal's number,
 *     or -CODE for exit(CODE); RANK -1: all workers; HOW with a + in front:
 *     every process of that worker
 * -d  write DIR/RANK: a line a step, when it was handed over and when its mean
 *     was there, in ns of CLOCK_MONOTONIC
 * -c  a share is computed part by part, and given so, as with shared work */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dsgd.h"

enum { MOST_STEPS = 100000 };

struct plan {
    uint64_t epochs, batch, samples;
    size_t floats;
    double step_s;
    long end_rank, end_step;
    int end_how;
    bool end_always, idle, parts;
    const char *dir;
    float *part_grad; /* [floats], when it gives parts */
};

struct times {
    uint64_t given_ns[MOST_STEPS], mean_ns[MOST_STEPS];
};
static struct times times;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void nap(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)(fmod(seconds, 1) * 1e9)};
    nanosleep(&t, NULL);
}

static int parse(int argc, char **argv, struct plan *p)
{
    char how[16];
    int c;

    *p = (struct plan){.epochs = 2,
                       .batch = 8,
                       .samples = 1000,
                       .floats = 1000,
                       .end_step = -1};
    while ((c = getopt(argc, argv, "ce:b:n:g:t:x:d:i")) != -1) {
        switch (c) {
        case 'c':
            p->parts = true;
            break;
        case 'e':
            p->epochs = strtoull(optarg, NULL, 10);
            break;
        case 'b':
            p->batch = strtoull(optarg, NULL, 10);
            break;
        case 'n':
            p->samples = strtoull(optarg, NULL, 10);
            break;
        case 'g':
            p->floats = strtoull(optarg, NULL, 10);
            break;
        case 't':
            p->step_s = strtod(optarg, NULL);
            break;
        case 'i':
            p->idle = true;
            break;
        case 'd':
            p->dir = optarg;
            break;
        case 'x':
            if (sscanf(optarg, "%ld:%ld:%15s", &p->end_rank, &p->end_step,
                       how) != 3)
                return 2;
            p->end_always = *how == '+';
            p->end_how = atoi(how + p->end_always);
            break;
        default:
            return 2;
        }
    }
    return 0;
}

static void maybe_end(const struct plan *p, uint32_t rank, uint64_t step)
{
    const char *restart = getenv("DSGD_RUN_RESTART");

    if ((p->end_rank != -1 && p->end_rank != (long)rank) || p->end_step < 0 ||
        (uint64_t)p->end_step > step ||
        (!p->end_always && restart && atoi(restart) > 0))
        return;
    if (p->end_how < 0)
        _exit(-p->end_how);
    raise(p->end_how);
}

/* Sleep, and count the samples. */
static void compute(const struct plan *p, const struct dsgd_step *step,
                    float *grad)
{
    if (!step->n_samples)
        return;
    if (!p->idle)
        memset(grad, 0, p->floats * sizeof *grad);
    for (uint64_t i = 0; !p->idle && i < step->n_samples; i++)
        grad[dsgd_shuffle(1, step->epoch, p->samples, step->first_sample + i) %
             p->floats] += 1;
    nap(p->step_s);
}

static enum dsgd_err take_means(struct dsgd *d, const struct plan *p,
                                float *state, float *seen)
{
    struct dsgd_mean m;
    enum dsgd_err rc;

    while ((rc = dsgd_next_mean(d, &m)) == DSGD_OK || rc == DSGD_RESYNCED) {
        if (rc == DSGD_RESYNCED)
            continue;
        if (m.step < MOST_STEPS)
            times.mean_ns[m.step] = now_ns();
        for (size_t i = 0; !p->idle && i < p->floats; i++) {
            state[i] -= .01f * m.grad[i];
            seen[i] += m.grad[i] * (float)m.samples;
        }
    }
    return rc == DSGD_UP_TO_DATE || rc == DSGD_EPOCH_END ? DSGD_OK : rc;
}

/* Here -t is the time of a part, and -x ends it after one. */
static enum dsgd_err give_parts(struct dsgd *d, const struct plan *p,
                                struct dsgd_step *step)
{
    struct dsgd_part part;
    enum dsgd_err rc;

    while ((rc = dsgd_claim(d, &part)) == DSGD_OK) {
        step->first_sample = part.first_sample;
        step->n_samples = part.n_samples;
        compute(p, step, p->part_grad);
        rc = dsgd_deposit(d, p->part_grad, p->floats, part.n_samples);
        if (rc != DSGD_OK)
            break;
        maybe_end(p, dsgd_rank(d), step->index);
    }
    return rc == DSGD_ABANDON ? DSGD_OK : rc;
}

static enum dsgd_err give_share(struct dsgd *d, const struct plan *p,
                                struct dsgd_step *step)
{
    float *grad = dsgd_grad_buffer(d);

    compute(p, step, grad);
    maybe_end(p, dsgd_rank(d), step->index);
    if (step->index < MOST_STEPS)
        times.given_ns[step->index] = now_ns();
    return dsgd_reduce(d, grad, p->floats, step->n_samples);
}

static enum dsgd_err train(struct dsgd *d, const struct plan *p, float *state,
                           float *seen)
{
    struct dsgd_step step;
    enum dsgd_err rc;

    while ((rc = dsgd_step_begin(d, &step)) == DSGD_OK) {
        rc = p->part_grad ? give_parts(d, p, &step) : give_share(d, p, &step);
        if (rc == DSGD_OK)
            rc = take_means(d, p, state, seen);
        if (rc != DSGD_OK)
            return rc;
    }
    return rc;
}

static uint64_t checksum(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * UINT64_C(1099511628211);
    return h;
}

/* The largest deviation from every sample being used once an epoch; a mean is
 * rounded, so that seen is no whole number. */
static double deviation(const struct plan *p, const float *seen)
{
    double worst = 0;
    for (size_t i = 0; i < p->floats; i++) {
        double want =
            (double)(p->samples / p->floats + (i < p->samples % p->floats)) *
            (double)p->epochs;
        worst = fmax(worst, fabs((double)seen[i] - want));
    }
    return worst;
}

static void write_times(const struct plan *p, uint32_t rank)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%u", p->dir, rank);
    FILE *f = fopen(path, "w");
    for (uint64_t i = 1; f && i < MOST_STEPS; i++) {
        if (times.given_ns[i] && times.mean_ns[i])
            fprintf(f, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", i,
                    times.given_ns[i], times.mean_ns[i]);
    }
    if (f)
        fclose(f);
}

static int fail(const char *what, const char *text, enum dsgd_err rc)
{
    fprintf(stderr, "sleeper: %s: %s\n", what, text);
    return (int)rc;
}

int main(int argc, char **argv)
{
    struct plan p;
    struct dsgd_options opt;
    struct dsgd *d;
    struct dsgd_error err;
    struct dsgd_progress progress;

    if (parse(argc, argv, &p) != 0)
        return fail("usage", "see the head of the source", DSGD_E_USAGE);
    enum dsgd_err rc = dsgd_options_init(&opt, &err);
    if (rc != DSGD_OK)
        return fail("options", err.text, rc);
    opt.grad_elems = p.floats;
    opt.n_samples = p.samples;
    opt.batch = p.batch;
    opt.epochs = p.epochs;
    p.parts = p.parts || opt.work == DSGD_WORK_SHARED;
    opt.deposits = p.parts && opt.work == DSGD_WORK_OWN;
    rc = dsgd_open(&opt, &d, &err);
    if (rc != DSGD_OK)
        return fail("open", err.text, rc);
    float *state = calloc(p.floats, sizeof *state);
    float *seen = calloc(p.floats, sizeof *seen);
    if (p.parts)
        p.part_grad = calloc(p.floats, sizeof *p.part_grad);
    if (!state || !seen || (p.parts && !p.part_grad))
        return DSGD_E_NOMEM;
    dsgd_register(d, state, p.floats * sizeof *state, &err);
    dsgd_register(d, seen, p.floats * sizeof *seen, &err);
    rc = train(d, &p, state, seen);
    if (rc != DSGD_END)
        return fail("train", dsgd_error_text(d), rc);
    dsgd_progress(d, &progress);
    printf("rank %u of %u on %u nodes, state %016" PRIx64 ", samples %" PRIu64
           ", deviation %.2f, steps %" PRIu64 "\n",
           dsgd_rank(d), dsgd_size(d), dsgd_nodes(d),
           checksum(state, p.floats * sizeof *state), progress.unique_samples,
           deviation(&p, seen), progress.steps);
    if (p.dir)
        write_times(&p, dsgd_rank(d));
    rc = dsgd_close(d);
    free(state);
    free(seen);
    free(p.part_grad);
    return (int)rc;
}
