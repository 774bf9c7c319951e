/* dsgd-train: train a network on an MNIST-like data set without waiting for
 * stragglers. */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dsgd_mpi.h"
#include "dsgd_names.h"
#include "error.h"
#include "text.h"
#include "train_agree.h"
#include "train_blas.h"
#include "train_loop.h"
#include "train_options.h"
#include "train_report.h"

/* A worker of the run. */
struct worker {
    struct train_options opt;
    struct train_job job;
    struct dsgd_options run;
    struct train_report *report; /* of worker 0 */
    size_t threads;
    uint32_t workers; /* of the run */
    int rank;
    bool first;    /* worker 0, which speaks for all */
    bool launched; /* by dsgd-run: there is no MPI here */
};

static void complain(const struct dsgd_error *err)
{
    fprintf(stderr, "dsgd-train: %s\n", err->text);
}

/* From the runtime: something is wrong, and the training goes on. */
static void warn(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "dsgd-train: warning: %s\n", text);
}

static void note(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "dsgd-train: %s\n", text);
}

/* Before MPI knows: is this the one of several tasks that may speak? */
static bool is_speaker(void)
{
    static const char *const names[] = {DSGD_RUN_RANK, "PMIX_RANK",
                                        "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *rank = getenv(names[i]);
        if (rank)
            return strcmp(rank, "0") == 0;
    }
    return true;
}

/* Everything that a rank does on its own before the run. */
static enum dsgd_err prepare(struct worker *w, struct dsgd_error *err)
{
    w->threads = train_blas_threads();
    enum dsgd_err rc = train_straggle_check(w->opt.straggle, w->workers, err);
    if (rc == DSGD_OK)
        rc = train_blas_check(train_gemm, err);
    if (rc == DSGD_OK)
        rc = train_job_prepare(&w->opt, w->first, &w->job, err);
    if (rc == DSGD_OK) {
        train_job_options(&w->job, &w->run);
        w->run.warn = warn;
        w->run.note = note;
        if (w->first)
            rc = train_report_open(&w->opt, &w->job.schedule, &w->report, err);
    }
    return rc;
}

static enum dsgd_err write_report(struct worker *w, const struct dsgd *d,
                                  struct dsgd_error *err)
{
    size_t n = train_net_params(w->job.net);
    struct train_facts facts = {
        .cutoff = w->run.cutoff,
        .parameters = n,
        .workers = dsgd_size(d),
        .nodes = dsgd_nodes(d),
        .blas_kernel = openblas_get_corename(),
        .blas_threads = (unsigned)w->threads,
        .checksum = train_checksum(w->job.params, n),
    };
    enum dsgd_err rc = train_report_close(w->report, &facts, err);

    w->report = NULL;
    return rc;
}

/* One verdict on what every rank has prepared.  dsgd-run ends the others. */
static enum dsgd_err agree(const struct worker *w, enum dsgd_err mine,
                           struct dsgd_error *err)
{
    return w->launched ? mine : train_agree(MPI_COMM_WORLD, mine, err);
}

/* The run is open: train, report, close.  An error that this rank alone knows
 * of ends the job here: the others would wait for it.  Under dsgd-run it ends
 * this worker, and another process takes its place. */
static enum dsgd_err work(struct worker *w, struct dsgd *d,
                          struct dsgd_error *err)
{
    bool everywhere;
    enum dsgd_err rc = train_run(d, &w->job, w->report, &everywhere, err);

    if (rc != DSGD_OK && !everywhere) {
        struct dsgd_error text = *err;
        error_set(err, rc, "rank %d: %.480s", w->rank, text.text);
        complain(err);
        if (w->launched)
            _exit((int)rc);
        MPI_Abort(MPI_COMM_WORLD, (int)rc);
    }
    if (rc == DSGD_OK)
        rc = write_report(w, d, err);
    enum dsgd_err closed = dsgd_close(d);
    if (rc == DSGD_OK && closed == DSGD_E_PREEMPTED)
        return error_set(err, closed,
                         "ended early, at a checkpoint: start again to go on");
    if (rc == DSGD_OK && closed != DSGD_OK) {
        rc =
            error_set(err, closed,
                      "rank %d: the run could not be closed in order", w->rank);
        if (!w->first) /* which speaks for itself, below */
            complain(err);
    }
    return rc;
}

static void find_rank(struct worker *w)
{
    uint32_t rank;

    w->launched = dsgd_launched(&rank, NULL);
    if (w->launched)
        w->rank = (int)rank;
    else
        MPI_Comm_rank(MPI_COMM_WORLD, &w->rank);
    w->first = w->rank == 0;
}

/* With dedicated aggregators, worker 0 is another rank. */
static enum dsgd_err find_worker(struct worker *w, struct dsgd_error *err)
{
    uint32_t number;
    enum dsgd_err rc = agree(w, dsgd_options_init(&w->run, err), err);

    if (rc == DSGD_OK)
        rc = dsgd_mpi_rank(MPI_COMM_WORLD, &w->run, &number, &w->workers, err);
    if (rc == DSGD_OK)
        w->first = number == 0;
    return rc;
}

/* Of what all find wrong one speaks. */
static void complain_first(const struct worker *w, enum dsgd_err rc,
                           const struct dsgd_error *err)
{
    bool each =
        w->launched && rc != DSGD_E_PREEMPTED; /* which all live to see */
    const char *local = each ? getenv(DSGD_RUN_LOCAL_RANK) : NULL;

    if (local && strcmp(local, "0") != 0)
        sleep(1); /* dsgd-run ends the node's workers with the first */
    if (each || w->first)
        complain(err);
}

static enum dsgd_err run(struct worker *w, struct dsgd_error *err)
{
    struct dsgd *d;

    find_rank(w);
    enum dsgd_err rc = find_worker(w, err);
    if (rc == DSGD_OK)
        rc = agree(w, prepare(w, err), err);
    if (rc == DSGD_OK)
        rc = dsgd_mpi_open(MPI_COMM_WORLD, &w->run, &d, err);
    if (rc == DSGD_OK)
        rc = work(w, d, err);
    if (rc != DSGD_OK)
        complain_first(w, rc, err);
    train_report_close(w->report, NULL, NULL);
    train_job_free(&w->job);
    return rc;
}

int main(int argc, char **argv)
{
    struct worker w = {0};
    struct dsgd_error err = {""};
    enum dsgd_err rc = train_options_parse(argc, argv, &w.opt, &err);

    if (rc == DSGD_OK && (w.opt.help || w.opt.version)) {
        if (is_speaker() && w.opt.help)
            train_options_help(stdout);
        else if (is_speaker())
            printf("dsgd-train (slurm-dsgd) %s\n", PACKAGE_VERSION);
        rc = text_flush(&err);
        if (rc != DSGD_OK)
            complain(&err);
        return rc;
    }
    if (rc == DSGD_OK)
        rc = dsgd_mpi_init(&argc, &argv, &err);
    if (rc != DSGD_OK) {
        if (is_speaker())
            complain(&err);
        else /* mpirun ends all of them with the first: let it speak */
            sleep(1);
        return rc;
    }
    rc = run(&w, &err);
    enum dsgd_err ended = dsgd_mpi_finalize(&err);
    if (rc == DSGD_OK && ended != DSGD_OK) {
        complain(&err);
        rc = ended;
    }
    return rc;
}
