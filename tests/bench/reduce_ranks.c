/* Time of a gradient's way through dsgd and through MPI_Allreduce, side by side
 * in one MPI job; tests/bench/reduce runs it under several settings of MPI.
 *
 *     reduce_ranks [-s SECONDS] FLOATS...
 *
 * Per payload one line: the median over steps of the time from the last rank's
 * entering dsgd_reduce (MPI_Allreduce) to the mean's being available on all
 * ranks.  Clocks of ranks are compared, so that all must be on one machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dsgd_mpi.h"

enum {
    MOST = 400,
    WARM_UP = 16, /* every slot of the ring has been written by then */
    TRIAL = 3
};

struct times {
    int n;
    double enter[MOST], leave[MOST];
};

static int rank, size;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "reduce_ranks: %s: %s\n", what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A gradient whose sum over ranks is exact in any order. */
static float element(int r, int step, size_t i)
{
    return (float)(r + 1) * (float)(((i + (size_t)step) & 7) + 1);
}

static void fill(float *grad, size_t n, int step)
{
    for (size_t i = 0; i < n; i++)
        grad[i] = element(rank, step, i);
}

static void check(const float *got, size_t n, int step, float divisor)
{
    float ranks = (float)size * (float)(size + 1) / 2;

    for (size_t i = 0; i < n; i += 1 + n / 1000) {
        float want = ranks * element(0, step, i);
        if (!(got[i] * divisor >= want * .9999f &&
              got[i] * divisor <= want * 1.0001f))
            die("check", "a sum is wrong");
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median over steps of the last leave less the last enter, on rank 0. */
static double median_s(struct times *t)
{
    double enter[MOST], leave[MOST];

    MPI_Reduce(t->enter, enter, t->n, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(t->leave, leave, t->n, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    for (int i = 0; i < t->n && rank == 0; i++)
        leave[i] -= enter[i];
    if (rank == 0)
        qsort(leave, (size_t)t->n, sizeof *leave, ascending);
    return leave[t->n / 2];
}

/* How many steps fit the time, given what the last few took. */
static int steps_for(double each_s, double budget_s)
{
    int steps = each_s * MOST < budget_s ? MOST : (int)(budget_s / each_s);

    steps = steps < 5 ? 5 : steps;
    MPI_Bcast(&steps, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return steps;
}

static void mpi_steps(float *grad, float *sum, size_t n, int steps,
                      struct times *t)
{
    t->n = steps;
    for (int i = 0; i < steps; i++) {
        fill(grad, n, i);
        t->enter[i] = now_s();
        MPI_Allreduce(sum ? grad : MPI_IN_PLACE, sum ? sum : grad, (int)n,
                      MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        t->leave[i] = now_s();
        check(sum ? sum : grad, n, i, 1);
    }
}

/* in place: sum is NULL */
static double mpi_median_s(float *grad, float *sum, size_t n, double budget_s)
{
    struct times t;

    mpi_steps(grad, sum, n, TRIAL, &t);
    double start_s = now_s();
    mpi_steps(grad, sum, n, TRIAL, &t);
    mpi_steps(grad, sum, n, steps_for((now_s() - start_s) / TRIAL, budget_s),
              &t);
    return median_s(&t);
}

static struct dsgd *open_run(size_t n, int steps)
{
    struct dsgd_options opt;
    struct dsgd_error err;
    struct dsgd *d;

    if (dsgd_options_init(&opt, &err) != DSGD_OK)
        die("options", err.text);
    opt.grad_elems = n;
    opt.sampler = DSGD_SAMPLER_NONE;
    opt.max_steps = (uint64_t)steps;
    opt.ring_bytes = 0;
    if (dsgd_mpi_open(MPI_COMM_WORLD, &opt, &d, &err) != DSGD_OK)
        die("open", err.text);
    return d;
}

static double dsgd_run(size_t n, int warm_up, int steps)
{
    struct times t = {.n = steps};
    struct dsgd *d = open_run(n, warm_up + steps);
    struct dsgd_step step;
    struct dsgd_mean m;
    double trash[2];

    for (int i = -warm_up; dsgd_step_begin(d, &step) == DSGD_OK; i++) {
        double *at = i < 0 ? trash : &t.enter[i];
        float *grad = dsgd_grad_buffer(d);
        fill(grad, n, (int)step.index);
        *at = now_s();
        dsgd_reduce(d, grad, n, 1);
        while (dsgd_next_mean(d, &m) == DSGD_OK) {
            *(i < 0 ? trash : &t.leave[i]) = now_s();
            check(m.grad, n, (int)m.step, (float)size);
        }
    }
    dsgd_close(d);
    return median_s(&t);
}

static double dsgd_median_s(size_t n, double budget_s)
{
    double start_s = now_s();
    dsgd_run(n, 0, TRIAL);
    double each_s = (now_s() - start_s) / TRIAL;
    return dsgd_run(n, WARM_UP, steps_for(each_s, budget_s));
}

static void measure(size_t n, double budget_s)
{
    float *grad = malloc(n * sizeof *grad), *sum = malloc(n * sizeof *sum);

    if (!grad || !sum)
        die("memory", "none left");
    double apart_s = mpi_median_s(grad, sum, n, budget_s);
    double in_place_s = mpi_median_s(grad, NULL, n, budget_s);
    free(grad);
    free(sum);
    double dsgd_s = dsgd_median_s(n, budget_s);
    if (rank == 0)
        printf("ranks %d floats %zu dsgd_us %.1f mpi_us %.1f "
               "mpi_in_place_us %.1f\n",
               size, n, dsgd_s * 1e6, apart_s * 1e6, in_place_s * 1e6);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct dsgd_error err;
    double budget_s = 1;

    if (dsgd_mpi_init(&argc, &argv, &err) != DSGD_OK)
        die("start", err.text);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int c; (c = getopt(argc, argv, "s:")) != -1;) {
        if (c != 's')
            die("usage", "reduce_ranks [-s SECONDS] FLOATS...");
        budget_s = strtod(optarg, NULL);
    }
    for (int i = optind; i < argc; i++)
        measure(strtoull(argv[i], NULL, 10), budget_s);
    dsgd_mpi_finalize(NULL);
    return 0;
}
