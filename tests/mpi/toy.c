/* A training with known answers, for tests under mpirun and srun.
 *
 *     toy [-e epochs] [-b batch] [-n samples] [-g floats] [-s RANK:SECONDS]…
 *         [-t SECONDS] [-p] [-r SEED] [-x RANK:STEP] [-q] [-R] [-c]
 *
 * Each sample i adds 1 to element i % floats of the gradient, so that the sum
 * of mean * samples over the steps of an epoch counts how often each residue
 * was used in it.
 * With -c, and with shared work (DSGD_WORK), steps are computed part by part,
 * and given so; in a step of its own parts -x stops a rank before its fourth.
 * -s makes a rank sleep that long in each step (in 8 pieces, polling with -p);
 * -t is everybody's time; -r makes both of them random: some steps take up to
 * 40 times as long, some poll, some give half of their share; -x raises SIGSTOP
 * in a rank at a step; -R adds to each element what makes the bits of a sum
 * depend on its order.  Rank 0 prints what it saw; every rank prints a checksum
 * of its state. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dsgd_mpi.h"

struct plan {
    double time_s[1024];
    double base_s;
    uint64_t epochs, batch, samples;
    size_t floats;
    bool poll, quiet, random, rough, parts, own;
    uint64_t seed;
    long stop_rank, stop_step;
};

/* What a rank knows of the training: registered, as it is a function of the
 * means. */
struct view {
    size_t floats;
    float *state;
    double *seen;          /* of each residue in this epoch */
    double most_over;      /* how often one was used too often */
    double most_under;     /* … and too seldom */
    double scaled_samples; /* sum of lr_scale * samples */
    uint64_t epochs;       /* that ended */
};

static void warn(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "toy: warning: %s\n", text);
}

static void note(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "toy: %s\n", text);
}

static void nap(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)(fmod(seconds, 1) * 1e9)};
    nanosleep(&t, NULL);
}

static int parse(int argc, char **argv, struct plan *p)
{
    int c;
    long rank;
    double seconds;

    *p = (struct plan){.epochs = 2,
                       .batch = 8,
                       .samples = 1000,
                       .floats = 1000,
                       .stop_rank = -1};
    while ((c = getopt(argc, argv, "ce:b:n:g:s:t:pr:x:qR")) != -1) {
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
        case 's':
            if (sscanf(optarg, "%ld:%lf", &rank, &seconds) != 2 || rank < 0 ||
                rank > 1023)
                return 2;
            p->time_s[rank] = seconds;
            break;
        case 't':
            p->base_s = strtod(optarg, NULL);
            break;
        case 'p':
            p->poll = true;
            break;
        case 'r':
            p->random = true;
            p->seed = strtoull(optarg, NULL, 10);
            break;
        case 'q':
            p->quiet = true;
            break;
        case 'R':
            p->rough = true;
            break;
        case 'x':
            if (sscanf(optarg, "%ld:%ld", &p->stop_rank, &p->stop_step) != 2)
                return 2;
            break;
        default:
            return 2;
        }
    }
    return 0;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* How often a step takes its time, whether it polls, and how many of its pieces
 * it does. */
static double draw(struct dsgd *d, const struct plan *p, uint64_t step,
                   bool *poll, int *pieces)
{
    uint64_t x = mix(mix(p->seed + step) + dsgd_rank(d));
    unsigned percent = (unsigned)(x >> 32) % 100;

    *poll = p->poll;
    if (!p->random)
        return 1;
    *poll = x & 1;
    if ((x >> 8) % 16 == 0)
        *pieces /= 2;
    return percent < 70 ? 1 : percent < 90 ? 3 : percent < 98 ? 10 : 40;
}

/* Add samples from..to of a share. */
static void add_samples(const struct plan *p, const struct dsgd_step *step,
                        uint64_t from, uint64_t to, float *grad)
{
    for (uint64_t i = from; i < to; i++) {
        uint64_t sample =
            dsgd_shuffle(1, step->epoch, p->samples, step->first_sample + i);
        grad[sample % p->floats] += 1;
    }
}

static void roughen(const struct plan *p, uint64_t first, float *grad)
{
    for (size_t i = 0; p->rough && i < p->floats; i++)
        grad[i] += (float)((i * 31 + first * 7) % 1013) * .1f;
}

/* Compute a share: sleep, and count the samples.  Returns how many were done.
 */
static uint64_t compute(struct dsgd *d, const struct plan *p,
                        const struct dsgd_step *step, float *grad)
{
    enum { PIECES = 8 };
    bool poll;
    int pieces = PIECES;
    double whole = (p->base_s + p->time_s[dsgd_rank(d)]) *
                   draw(d, p, step->index, &poll, &pieces);
    uint64_t done = 0;

    memset(grad, 0, p->floats * sizeof *grad);
    for (int piece = 1; piece <= pieces && step->n_samples; piece++) {
        uint64_t to = step->n_samples * (uint64_t)piece / PIECES;
        nap(whole / PIECES);
        add_samples(p, step, done, to, grad);
        done = to;
        if (poll && dsgd_poll(d, (uint64_t)piece, PIECES) == DSGD_ABANDON)
            break;
    }
    roughen(p, step->first_sample, grad);
    return done;
}

static bool is_to_stop(const struct dsgd *d, const struct plan *p,
                       const struct dsgd_step *step)
{
    return (long)dsgd_rank(d) == p->stop_rank &&
           (long)step->index == p->stop_step;
}

/* Compute parts of a step until it is over; a whole share's time is that of a
 * batch. */
static enum dsgd_err give_parts(struct dsgd *d, const struct plan *p,
                                struct dsgd_step *step)
{
    struct dsgd_part part;
    enum dsgd_err rc;
    bool poll;
    int pieces = 8, n = 0;
    double whole = (p->base_s + p->time_s[dsgd_rank(d)]) *
                   draw(d, p, step->index, &poll, &pieces);
    float *grad = calloc(p->floats, sizeof *grad);

    if (!grad)
        return DSGD_E_NOMEM;
    while ((rc = dsgd_claim(d, &part)) == DSGD_OK) {
        memset(grad, 0, p->floats * sizeof *grad);
        if (p->own && ++n == 4 && is_to_stop(d, p, step))
            raise(SIGSTOP);
        nap(whole * (double)part.n_samples / (double)p->batch);
        step->first_sample = part.first_sample;
        add_samples(p, step, 0, part.n_samples, grad);
        roughen(p, part.first_sample, grad);
        rc = dsgd_deposit(d, grad, p->floats, part.n_samples);
        if (rc != DSGD_OK)
            break;
    }
    free(grad);
    return rc == DSGD_ABANDON ? DSGD_OK : rc;
}

/* Compare what was used in an epoch with each sample being used once. */
static void end_epoch(const struct plan *p, struct view *v)
{
    for (size_t i = 0; i < v->floats; i++) {
        double want =
            (double)(p->samples / v->floats + (i < p->samples % v->floats));
        v->most_over = fmax(v->most_over, v->seen[i] - want);
        v->most_under = fmax(v->most_under, want - v->seen[i]);
        v->seen[i] = 0;
    }
    v->epochs++;
}

static void apply(const struct plan *p, const struct dsgd_mean *m,
                  struct view *v)
{
    for (size_t i = 0; i < v->floats; i++) {
        v->state[i] -= .01f * (float)m->lr_scale * m->grad[i];
        v->seen[i] += (double)m->grad[i] * (double)m->samples;
    }
    v->scaled_samples += m->lr_scale * (double)m->samples;
    if (m->epoch_end)
        end_epoch(p, v);
}

static enum dsgd_err train(struct dsgd *d, const struct plan *p, struct view *v)
{
    struct dsgd_step step;
    struct dsgd_mean m;
    enum dsgd_err rc;

    while ((rc = dsgd_step_begin(d, &step)) == DSGD_OK) {
        float *grad = dsgd_grad_buffer(d);
        if (!p->own && is_to_stop(d, p, &step))
            raise(SIGSTOP);
        rc = p->parts
                 ? give_parts(d, p, &step)
                 : dsgd_reduce(d, grad, p->floats, compute(d, p, &step, grad));
        if (rc != DSGD_OK)
            return rc;
        while ((rc = dsgd_next_mean(d, &m)) == DSGD_OK || rc == DSGD_RESYNCED) {
            if (rc == DSGD_OK)
                apply(p, &m, v);
        }
        if (rc != DSGD_UP_TO_DATE && rc != DSGD_EPOCH_END)
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

static int fail(const char *what, const char *text, enum dsgd_err rc)
{
    fprintf(stderr, "toy: %s: %s\n", what, text);
    return (int)rc;
}

int main(int argc, char **argv)
{
    struct plan p;
    struct dsgd_options opt;
    struct dsgd *d;
    struct dsgd_error err;
    struct dsgd_progress progress;

    enum dsgd_err rc = dsgd_mpi_init(&argc, &argv, &err);
    if (rc != DSGD_OK)
        return fail("start", err.text, rc);
    if (parse(argc, argv, &p) != 0)
        return fail("usage", "see the head of the source", DSGD_E_USAGE);
    rc = dsgd_options_init(&opt, &err);
    if (rc != DSGD_OK)
        MPI_Abort(MPI_COMM_WORLD, fail("options", err.text, rc));
    opt.grad_elems = p.floats;
    opt.n_samples = p.samples;
    opt.batch = p.batch;
    opt.epochs = p.epochs;
    p.parts = p.parts || opt.work == DSGD_WORK_SHARED;
    p.own = opt.deposits = p.parts && opt.work == DSGD_WORK_OWN;
    opt.warn = warn;
    opt.note = note;
    rc = dsgd_mpi_open(MPI_COMM_WORLD, &opt, &d, &err);
    if (rc != DSGD_OK) {
        int rank;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        if (rank == 0)
            fail("open", err.text, rc);
        MPI_Finalize();
        return (int)rc;
    }
    struct view v = {.floats = p.floats};
    v.state = calloc(p.floats, sizeof *v.state);
    v.seen = calloc(p.floats, sizeof *v.seen);
    if (!v.state || !v.seen)
        return DSGD_E_NOMEM;
    dsgd_register(d, v.state, p.floats * sizeof *v.state, &err);
    dsgd_register(d, v.seen, p.floats * sizeof *v.seen, &err);
    dsgd_register(d, &v.most_over, 3 * sizeof v.most_over + sizeof v.epochs,
                  &err);
    rc = train(d, &p, &v);
    if (rc != DSGD_END)
        MPI_Abort(MPI_COMM_WORLD, fail("train", dsgd_error_text(d), rc));
    dsgd_progress(d, &progress);
    if (dsgd_rank(d) == 0 || (!p.quiet && dsgd_rank(d) != DSGD_NO_RANK))
        printf(
            "rank %u state %016llx\n", dsgd_rank(d),
            (unsigned long long)checksum(v.state, p.floats * sizeof *v.state));
    if (dsgd_rank(d) == 0)
        printf("steps %llu samples %llu deviation %.3f over %.3f epochs %llu "
               "scaled %.3f seconds %.3f\n",
               (unsigned long long)progress.steps,
               (unsigned long long)progress.unique_samples,
               fmax(v.most_over, v.most_under), v.most_over,
               (unsigned long long)v.epochs, v.scaled_samples,
               progress.elapsed_s);
    fflush(stdout);
    rc = dsgd_close(d);
    free(v.state);
    free(v.seen);
    dsgd_mpi_finalize(NULL);
    return (int)rc;
}
