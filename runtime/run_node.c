#include "run_node.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "mpi_node.h"
#include "run_box.h"
#include "run_cpus.h"
#include "run_team.h"

enum { START_MS = 20, WATCH_MS = 250 };

struct run_node {
    const struct run_options *opt;
    char host[64];
    MPI_Comm comm;
    struct place place;
    int box_fd;
    struct run_box *box;
    struct run_team *team;
    struct dsgd_options run;
    struct segment seg;
    struct aggregator *agg;
};

/* From the runtime: something is wrong, and the training goes on. */
static void warn(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "dsgd-run: warning: %s\n", text);
}

static void note(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "dsgd-run: %s\n", text);
}

static enum dsgd_err agree(const struct run_node *n, enum dsgd_err rc,
                           struct dsgd_error *err)
{
    return place_agree(n->comm, rc, err);
}

/* Where the nodes are, and how many workers each has. */
static enum dsgd_err find_place(struct run_node *n, struct dsgd_error *err)
{
    uint32_t workers = 0;

    enum dsgd_err rc = place_make(n->comm, &n->place, err);
    if (rc != DSGD_OK)
        return rc;
    if (n->place.local_size > 1)
        rc = error_set(err, DSGD_E_LAUNCH,
                       "%s has %d tasks of this job step; start one dsgd-run "
                       "a node (--ntasks-per-node=1), its workers with -w N",
                       n->host, n->place.local_size);
    if (rc == DSGD_OK)
        rc = run_options_workers(n->opt->workers, n->place.node,
                                 n->place.n_nodes, run_cpus_allocated(),
                                 &workers, err);
    rc = agree(n, rc, err);
    if (rc == DSGD_OK)
        rc = place_workers(&n->place, workers, err);
    return rc;
}

static enum dsgd_err start_team(struct run_node *n, struct dsgd_error *err)
{
    struct dsgd_error warning;
    struct run_box_place place = {.first_rank = n->place.first_worker,
                                  .n_local = n->place.n_local,
                                  .size = n->place.n_workers,
                                  .nodes = n->place.n_nodes};
    enum dsgd_err rc = run_box_create(&place, &n->box_fd, &n->box, err);

    if (rc == DSGD_OK) {
        struct run_team_spec spec = {
            .command = n->opt->command,
            .place = place,
            .box = n->box,
            .box_fd = n->box_fd,
            .restarts = (uint32_t)n->opt->restarts,
            .threads = run_cpus_threads(place.n_local),
            .label = n->opt->label,
            .host = n->host,
        };
        rc = run_team_create(&spec, &n->team, err);
    }
    if (rc == DSGD_OK && run_cpus_warning(place.n_local, &warning))
        warn(NULL, warning.text);
    if (rc == DSGD_OK)
        rc = run_team_start(n->team, err);
    return agree(n, rc, err);
}

/* How the nodes' workers have begun, the largest of each. */
struct beginning {
    int failed; /* exit code of one that failed */
    int opened, ended;
};

/* Wait until this node's workers have opened the run, have failed, or have
 * ended without either; then for the other nodes.  Never blocks in MPI: a
 * worker may need long to begin. */
static struct beginning await_workers(struct run_node *n)
{
    struct beginning own = {0}, all = {0};
    MPI_Request request;
    int done = 0;

    while (!run_team_failed(n->team) && !run_team_opened(n->team) &&
           run_team_left(n->team) && !run_team_interrupted(n->team))
        run_team_tick(n->team, START_MS);
    own.failed = run_team_failed(n->team);
    if (!own.failed && run_team_interrupted(n->team))
        own.failed = 128 + SIGTERM;
    own.opened = run_team_opened(n->team);
    own.ended = !run_team_left(n->team);
    if (own.failed)
        run_team_kill(n->team);
    MPI_Iallreduce(&own, &all, 3, MPI_INT, MPI_MAX, n->comm, &request);
    for (;;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done)
            return all;
        run_team_tick(n->team, START_MS);
    }
}

/* All workers have said what they want: make the run. */
static enum dsgd_err open_run(struct run_node *n, struct dsgd_error *err)
{
    struct cutoff_spec spec;
    struct launch_node facts;
    uint32_t slot_bufs;

    n->run = n->box->opt;
    n->run.warn = warn;
    n->run.note = note;
    n->run.warn_context = NULL;
    enum dsgd_err rc = mpi_node_check(n->comm, &n->run, &spec, &slot_bufs, err);
    if (rc != DSGD_OK)
        return rc;
    rc = agree(n,
               run_box_segment(n->box_fd, n->box, n->run.grad_elems, slot_bufs,
                               n->run.ring_bytes, &n->seg, err),
               err);
    if (rc == DSGD_OK)
        rc = mpi_node_create(&n->place, &n->run, &spec, &n->seg, n->comm,
                             &n->agg, err);
    if (rc != DSGD_OK)
        return rc;
    launch_this_node(&facts);
    memcpy(facts.kernel, n->box->kernel, sizeof facts.kernel);
    rc = mpi_node_history(&n->place, &n->run, &spec, &facts, n->agg, err);
    if (rc == DSGD_OK)
        rc = agree(n, aggregator_start(n->agg, err), err);
    if (rc == DSGD_OK) {
        run_team_segment(n->team, &n->seg);
        run_box_open(n->box);
    }
    return rc;
}

/* The run goes on until it has ended and all workers have. */
static int watch(struct run_node *n, struct dsgd_error *err)
{
    bool over = false;

    while (run_team_left(n->team)) {
        run_team_tick(n->team, WATCH_MS);
        if (!over && atomic_load(&n->seg.h->run) != SEG_RUNNING) {
            over = true;
            run_team_kill_unopened(n->team);
        }
    }
    aggregator_join(n->agg);
    if (atomic_load(&n->seg.h->run) != SEG_BROKEN)
        return run_team_failed(n->team);
    error_set(err, DSGD_OK, "the run broke off: %s", n->seg.h->broken);
    int code = run_team_last_death(n->team);
    if (!code)
        code = run_team_failed(n->team);
    return code ? code : DSGD_E_FAIL;
}

static int run_team(struct run_node *n, struct dsgd_error *err)
{
    struct beginning all = await_workers(n);

    if (all.failed)
        return all.failed;
    if (!all.opened)
        return DSGD_OK; /* a program that has no use for a run */
    if (all.ended)
        return error_set(err, DSGD_E_LAUNCH,
                         "all workers of some node ended without calling "
                         "dsgd_open, and others did call it");
    enum dsgd_err rc = open_run(n, err);
    if (rc != DSGD_OK)
        return rc;
    int code = watch(n, err);
    run_team_report(n->team, stderr);
    return code;
}

static void clean_up(struct run_node *n)
{
    run_team_destroy(n->team);
    aggregator_destroy(n->agg);
    segment_detach(&n->seg);
    run_box_unmap(n->box);
    if (n->box_fd >= 0)
        close(n->box_fd);
    place_free(&n->place);
}

int run_node(const struct run_options *opt, bool *speaks,
             struct dsgd_error *err)
{
    struct run_node n = {.opt = opt, .box_fd = -1};

    gethostname(n.host, sizeof n.host - 1);
    n.host[strcspn(n.host, ".")] = '\0';
    MPI_Comm_dup(MPI_COMM_WORLD, &n.comm);
    MPI_Comm_set_errhandler(n.comm, MPI_ERRORS_RETURN);
    enum dsgd_err rc = find_place(&n, err);
    int code = (int)rc;
    *speaks = n.place.rank == 0;
    if (rc == DSGD_OK)
        rc = start_team(&n, err);
    code = (int)rc;
    if (rc == DSGD_OK)
        code = run_team(&n, err);
    clean_up(&n);
    return code;
}
