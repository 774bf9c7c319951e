#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "c_locale.h"
#include "client.h"
#include "dsgd_mpi.h"
#include "error.h"
#include "launch.h"
#include "mpi_node.h"

static enum dsgd_err mpi_error(struct dsgd_error *err, const char *call, int rc)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(rc, text, &length);
    return error_set(err, DSGD_E_MPI, "%s: %s", call, text);
}

/* Slurm's count of this step's tasks, 0 when this is no Slurm step. */
static long slurm_tasks(void)
{
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    if (!tasks || !getenv("SLURM_PROCID"))
        return 0;
    return atol(tasks);
}

static enum dsgd_err alone(struct dsgd_error *err)
{
    return error_set(err, DSGD_E_LAUNCH,
                     "Slurm started %ld tasks, but MPI would see each of them "
                     "alone: start them as one MPI job, with srun --mpi=pmix",
                     slurm_tasks());
}

/* With none of these Open MPI ends the process inside MPI_Init. */
static bool has_launcher(void)
{
    return getenv("PMIX_RANK") || getenv("PMI_RANK") ||
           getenv("OMPI_COMM_WORLD_SIZE");
}

enum dsgd_err dsgd_mpi_init(int *argc, char ***argv, struct dsgd_error *err)
{
    int level, size;

    if (dsgd_launched(NULL, NULL))
        return DSGD_OK;
    if (slurm_tasks() > 1 && !has_launcher())
        return alone(err);
    int rc = MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level);
    if (rc != MPI_SUCCESS)
        return mpi_error(err, "MPI_Init_thread", rc);
    if (level < MPI_THREAD_MULTIPLE) {
        MPI_Finalize();
        return error_set(err, DSGD_E_MPI,
                         "this MPI grants thread level %d and not "
                         "MPI_THREAD_MULTIPLE (%d); build or choose an MPI "
                         "that does",
                         level, MPI_THREAD_MULTIPLE);
    }
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size == 1 && slurm_tasks() > 1 && !getenv("OMPI_COMM_WORLD_SIZE")) {
        MPI_Finalize();
        return alone(err);
    }
    return DSGD_OK;
}

enum dsgd_err dsgd_mpi_finalize(struct dsgd_error *err)
{
    if (dsgd_launched(NULL, NULL))
        return DSGD_OK;
    int rc = MPI_Finalize();
    return rc == MPI_SUCCESS ? DSGD_OK : mpi_error(err, "MPI_Finalize", rc);
}

static void finalize(void)
{
    int done = 0;
    MPI_Finalized(&done);
    if (!done)
        MPI_Finalize();
}

/* The node's first rank makes the segment, the others map it. */
static enum dsgd_err share_segment(const struct place *p,
                                   const struct dsgd_options *opt,
                                   uint32_t slot_bufs, struct segment *seg,
                                   struct dsgd_error *err)
{
    char name[SEGMENT_NAME] = "";
    enum dsgd_err rc = DSGD_OK;

    if (p->local_rank == 0)
        rc = segment_create(p->n_local, opt->grad_elems, slot_bufs,
                            opt->ring_bytes, seg, name, err);
    if (rc != DSGD_OK) {
        char host[64] = "", text[400];
        int length = 0;
        char whole[MPI_MAX_PROCESSOR_NAME];
        MPI_Get_processor_name(whole, &length);
        snprintf(host, sizeof host, "%.60s", whole);
        snprintf(text, sizeof text, "%.399s", err ? err->text : "");
        error_set(err, rc, "%s: %s", host, text);
    }
    rc = place_agree(p->world, rc, err);
    if (rc == DSGD_OK) {
        MPI_Bcast(name, sizeof name, MPI_CHAR, 0, p->local);
        if (p->local_rank != 0)
            rc = segment_attach(name, seg, err);
        rc = place_agree(p->world, rc, err);
    }
    if (p->local_rank == 0 && *name)
        segment_unlink(name);
    return rc;
}

/* The node's ranks that work are the last ones; the first may not. */
static uint32_t local_worker(const struct place *p)
{
    uint32_t idle = (uint32_t)p->local_size - p->n_local;
    uint32_t rank = (uint32_t)p->local_rank;

    return rank < idle ? CLIENT_NO_WORKER : rank - idle;
}

static uint32_t worker_rank(const struct place *p)
{
    return local_worker(p) == CLIENT_NO_WORKER ? DSGD_NO_RANK : p->first_worker;
}

static enum dsgd_err start(const struct place *p,
                           const struct dsgd_options *opt,
                           const struct cutoff_spec *spec, struct dsgd *d,
                           struct dsgd_error *err)
{
    struct launch_node node;

    d->rank = worker_rank(p);
    d->size = p->n_workers;
    d->nodes = p->n_nodes;
    launch_this_node(&node);
    enum dsgd_err rc = mpi_node_history(p, opt, spec, &node, d->agg, err);
    if (rc == DSGD_OK)
        rc = place_agree(p->world, client_start(d, finalize, err), err);
    return rc;
}

static enum dsgd_err open_placed(const struct place *p,
                                 const struct dsgd_options *opt, MPI_Comm comm,
                                 struct dsgd **d, struct dsgd_error *err)
{
    struct cutoff_spec spec;
    struct segment seg = {0};
    struct aggregator *agg = NULL;
    uint32_t slot_bufs;

    enum dsgd_err rc = mpi_node_check(comm, opt, &spec, &slot_bufs, err);
    if (rc == DSGD_OK)
        rc = share_segment(p, opt, slot_bufs, &seg, err);
    if (rc == DSGD_OK)
        rc = mpi_node_create(p, opt, &spec, &seg, comm, &agg, err);
    if (rc == DSGD_OK)
        rc = place_agree(
            comm, client_create(opt, &seg, local_worker(p), agg, d, err), err);
    if (rc != DSGD_OK && !*d) {
        aggregator_destroy(agg);
        segment_detach(&seg);
    }
    if (rc == DSGD_OK)
        rc = start(p, opt, &spec, *d, err);
    if (rc != DSGD_OK && *d) {
        client_destroy(*d);
        *d = NULL;
    }
    return rc;
}

static enum dsgd_err find_place(MPI_Comm comm, const struct dsgd_options *opt,
                                struct place *place, struct dsgd_error *err)
{
    int aggregator = (int)opt->aggregator;
    enum dsgd_err rc = place_make(comm, place, err);

    if (rc != DSGD_OK)
        return rc;
    MPI_Bcast(&aggregator, 1, MPI_INT, 0, comm);
    return place_ranks(place, (enum dsgd_aggregator)aggregator, err);
}

enum dsgd_err dsgd_mpi_rank(MPI_Comm comm, const struct dsgd_options *opt,
                            uint32_t *rank, uint32_t *size,
                            struct dsgd_error *err)
{
    struct place place;

    if (dsgd_launched(rank, size))
        return DSGD_OK;
    enum dsgd_err rc = find_place(comm, opt, &place, err);
    if (rc == DSGD_OK && rank)
        *rank = worker_rank(&place);
    if (rc == DSGD_OK && size)
        *size = place.n_workers;
    place_free(&place);
    return rc;
}

enum dsgd_err dsgd_mpi_open(MPI_Comm comm, const struct dsgd_options *opt,
                            struct dsgd **d, struct dsgd_error *err)
{
    struct dsgd_error own;
    struct place place;
    MPI_Comm dup;
    int level = MPI_THREAD_SINGLE, initialized = 0, finalized = 0;

    *d = NULL;
    if (!err)
        err = &own;
    if (dsgd_launched(NULL, NULL))
        return dsgd_open(opt, d, err);
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (!initialized || finalized)
        return error_set(err, DSGD_E_MPI,
                         "dsgd_mpi_open: MPI is not running; call "
                         "dsgd_mpi_init first");
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE)
        return error_set(err, DSGD_E_MPI,
                         "dsgd_mpi_open: MPI runs at thread level %d; start "
                         "it with dsgd_mpi_init, which asks for "
                         "MPI_THREAD_MULTIPLE",
                         level);
    /* Kept to the end of the process: freeing it would be a collective, which a
     * stuck rank never joins. */
    MPI_Comm_dup(comm, &dup);
    MPI_Comm_set_errhandler(dup, MPI_ERRORS_RETURN);
    locale_t before = c_locale_enter();
    enum dsgd_err rc = find_place(dup, opt, &place, err);
    if (rc == DSGD_OK)
        rc = open_placed(&place, opt, dup, d, err);
    place_free(&place);
    c_locale_leave(before);
    return rc;
}
