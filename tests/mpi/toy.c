/* A training with known answers, for tests under mpirun and srun.
 *
 *     toy [-e epochs] [-b batch] [-n samples] [-g floats] [-s RANK:SECONDS]…
 *         [-t SECONDS] [-p] [-x RANK:STEP] [-q] [-r]
 *
 * Each sample i adds 1 to element i % floats of the gradient, so that the sum
 * of mean * samples over all steps counts how often each residue was used.
 * -s makes a rank sleep that long in each step (in 8 pieces, polling with -p);
 * -t is everybody's time; -x raises SIGSTOP in a rank at a step; -r adds to each
 * element what makes the bits of a sum depend on its order.  Rank 0 prints
 * what it saw; every rank prints a checksum of its state. */
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
    bool poll, quiet, rough;
    long stop_rank, stop_step;
};

static void warn(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "toy: warning: %s\n", text);
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
    while ((c = getopt(argc, argv, "e:b:n:g:s:t:px:qr")) != -1) {
        switch (c) {
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
        case 'q':
            p->quiet = true;
            break;
        case 'r':
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

/* Compute a share: sleep, and count the samples.  Returns how many were done.
 */
static uint64_t compute(struct dsgd *d, const struct plan *p,
                        const struct dsgd_step *step, float *grad)
{
    enum { PIECES = 8 };
    double whole = p->base_s + p->time_s[dsgd_rank(d)];

    memset(grad, 0, p->floats * sizeof *grad);
    for (int piece = 0; piece < PIECES && step->n_samples; piece++) {
        nap(whole / PIECES);
        if (p->poll && dsgd_poll(d, piece + 1, PIECES) == DSGD_ABANDON)
            return step->n_samples * (uint64_t)(piece + 1) / PIECES;
    }
    for (uint64_t i = 0; i < step->n_samples; i++) {
        uint64_t sample =
            dsgd_shuffle(1, step->epoch, p->samples, step->first_sample + i);
        grad[sample % p->floats] += 1;
    }
    for (size_t i = 0; p->rough && i < p->floats; i++)
        grad[i] += (float)((i * 31 + step->first_sample * 7) % 1013) * .1f;
    return step->n_samples;
}

static enum dsgd_err train(struct dsgd *d, const struct plan *p, float *state,
                           double *seen)
{
    struct dsgd_step step;
    struct dsgd_mean m;
    enum dsgd_err rc;

    while ((rc = dsgd_step_begin(d, &step)) == DSGD_OK) {
        float *grad = dsgd_grad_buffer(d);
        if ((long)dsgd_rank(d) == p->stop_rank &&
            (long)step.index == p->stop_step)
            raise(SIGSTOP);
        uint64_t done = compute(d, p, &step, grad);
        rc = dsgd_reduce(d, grad, p->floats, done);
        if (rc != DSGD_OK)
            return rc;
        while ((rc = dsgd_next_mean(d, &m)) == DSGD_OK || rc == DSGD_RESYNCED) {
            if (rc == DSGD_RESYNCED)
                continue;
            for (size_t i = 0; i < p->floats; i++) {
                state[i] -= .01f * m.grad[i];
                seen[i] += (double)m.grad[i] * (double)m.samples;
            }
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

/* The largest deviation from every sample being used once an epoch. */
static double deviation(const struct plan *p, const double *seen)
{
    double worst = 0;
    for (size_t i = 0; i < p->floats; i++) {
        double want =
            (double)(p->samples / p->floats + (i < p->samples % p->floats)) *
            (double)p->epochs;
        worst = fmax(worst, fabs(seen[i] - want));
    }
    return worst;
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
    opt.warn = warn;
    rc = dsgd_mpi_open(MPI_COMM_WORLD, &opt, &d, &err);
    if (rc != DSGD_OK) {
        int rank;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        if (rank == 0)
            fail("open", err.text, rc);
        MPI_Finalize();
        return (int)rc;
    }
    float *state = calloc(p.floats, sizeof *state);
    double *seen = calloc(p.floats, sizeof *seen);
    if (!state || !seen)
        return DSGD_E_NOMEM;
    dsgd_register(d, state, p.floats * sizeof *state, &err);
    dsgd_register(d, seen, p.floats * sizeof *seen, &err);
    rc = train(d, &p, state, seen);
    if (rc != DSGD_END)
        MPI_Abort(MPI_COMM_WORLD, fail("train", dsgd_error_text(d), rc));
    dsgd_progress(d, &progress);
    if (!p.quiet || dsgd_rank(d) == 0)
        printf("rank %u state %016llx\n", dsgd_rank(d),
               (unsigned long long)checksum(state, p.floats * sizeof *state));
    if (dsgd_rank(d) == 0)
        printf("steps %llu samples %llu deviation %.3f seconds %.3f\n",
               (unsigned long long)progress.steps,
               (unsigned long long)progress.unique_samples, deviation(&p, seen),
               progress.elapsed_s);
    fflush(stdout);
    rc = dsgd_close(d);
    free(state);
    free(seen);
    dsgd_mpi_finalize(NULL);
    return (int)rc;
}
