#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "dsgd_mpi.h"
#include "error.h"
#include "exchange.h"
#include "launch.h"
#include "modex.h"
#include "mpi_resume.h"
#include "transport_mpi.h"

/* How the workers lie on the nodes. */
struct place {
    MPI_Comm world, local; /* local: the ranks of this node, in rank order */
    int rank, size, local_rank, local_size;
    uint32_t node, n_nodes;
    uint32_t *worker_node; /* [size] */
    int *leader;           /* [n_nodes] */
    uint32_t most_local;
};

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

/* One verdict for all: the first rank that failed gives code and text. */
static enum dsgd_err agree(MPI_Comm comm, enum dsgd_err code,
                           struct dsgd_error *err)
{
    struct dsgd_error text = {""};
    int rank, first, own;

    MPI_Comm_rank(comm, &rank);
    own = code == DSGD_OK ? INT_MAX : rank;
    MPI_Allreduce(&own, &first, 1, MPI_INT, MPI_MIN, comm);
    if (first == INT_MAX)
        return DSGD_OK;
    int value = (int)code;
    if (err && rank == first)
        text = *err;
    MPI_Bcast(&value, 1, MPI_INT, first, comm);
    MPI_Bcast(text.text, sizeof text.text, MPI_CHAR, first, comm);
    if (err)
        *err = text;
    return (enum dsgd_err)value;
}

static void place_free(struct place *p)
{
    if (p->local != MPI_COMM_NULL)
        MPI_Comm_free(&p->local);
    free(p->worker_node);
    free(p->leader);
}

/* Nodes are numbered by their lowest rank. */
static enum dsgd_err place_make(MPI_Comm comm, struct place *p,
                                struct dsgd_error *err)
{
    int lead, *lead_of = NULL;

    *p = (struct place){.world = comm, .local = MPI_COMM_NULL};
    MPI_Comm_rank(comm, &p->rank);
    MPI_Comm_size(comm, &p->size);
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, p->rank, MPI_INFO_NULL,
                        &p->local);
    MPI_Comm_rank(p->local, &p->local_rank);
    MPI_Comm_size(p->local, &p->local_size);
    lead = p->rank;
    MPI_Bcast(&lead, 1, MPI_INT, 0, p->local);
    lead_of = calloc((size_t)p->size, sizeof *lead_of);
    p->worker_node = calloc((size_t)p->size, sizeof *p->worker_node);
    p->leader = calloc((size_t)p->size, sizeof *p->leader);
    enum dsgd_err rc = DSGD_OK;
    if (!lead_of || !p->worker_node || !p->leader)
        rc = error_set(err, DSGD_E_NOMEM, "no memory");
    rc = agree(comm, rc, err);
    if (rc == DSGD_OK) {
        uint32_t *count = p->worker_node; /* counts first, then indices */
        MPI_Allgather(&lead, 1, MPI_INT, lead_of, 1, MPI_INT, comm);
        for (int r = 0; r < p->size; r++) {
            if (++count[lead_of[r]] > p->most_local)
                p->most_local = count[lead_of[r]];
        }
        for (int r = 0; r < p->size; r++) {
            if (lead_of[r] == r)
                p->leader[p->n_nodes++] = r;
        }
        for (int r = 0; r < p->size; r++) {
            uint32_t i = 0;
            while (p->leader[i] != lead_of[r])
                i++;
            p->worker_node[r] = i;
        }
        p->node = p->worker_node[p->rank];
    }
    free(lead_of);
    return rc;
}

/* What must not differ between ranks.  Of the cutoff and what goes with it rank
 * 0's value counts: a node without the plugin does not know the option. */
static enum dsgd_err same_options(MPI_Comm comm, const struct dsgd_options *opt,
                                  struct dsgd_error *err)
{
    uint64_t own[] = {opt->grad_elems, opt->batch,     opt->n_samples,
                      opt->epochs,     opt->max_steps, opt->sampler};
    static const char *const name[] = {"grad_elems", "batch",     "n_samples",
                                       "epochs",     "max_steps", "sampler"};
    enum { N = sizeof own / sizeof own[0] };
    uint64_t first[N];
    enum dsgd_err rc = DSGD_OK;

    memcpy(first, own, sizeof own);
    MPI_Bcast(first, N, MPI_UINT64_T, 0, comm);
    for (int i = 0; i < N && rc == DSGD_OK; i++) {
        if (own[i] != first[i])
            rc = error_set(err, DSGD_E_USAGE,
                           "%s is %llu on one rank and %llu on rank 0; every "
                           "rank must open with the same",
                           name[i], (unsigned long long)own[i],
                           (unsigned long long)first[i]);
    }
    return agree(comm, rc, err);
}

/* The node's first rank makes the segment, the others map it. */
static enum dsgd_err share_segment(const struct place *p,
                                   const struct dsgd_options *opt,
                                   struct segment *seg, struct dsgd_error *err)
{
    char name[SEGMENT_NAME] = "";
    enum dsgd_err rc = DSGD_OK;
    uint32_t slot_bufs = launch_slot_bufs(opt); /* rank 0's options count */

    MPI_Bcast(&slot_bufs, 1, MPI_UINT32_T, 0, p->world);

    if (p->local_rank == 0)
        rc = segment_create((uint32_t)p->local_size, opt->grad_elems, slot_bufs,
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
    rc = agree(p->world, rc, err);
    if (rc == DSGD_OK) {
        MPI_Bcast(name, sizeof name, MPI_CHAR, 0, p->local);
        if (p->local_rank != 0)
            rc = segment_attach(name, seg, err);
        rc = agree(p->world, rc, err);
    }
    if (p->local_rank == 0 && *name)
        segment_unlink(name);
    return rc;
}

static enum dsgd_err make_transport(const struct place *p,
                                    const struct dsgd_options *opt,
                                    MPI_Comm comm, struct transport **t,
                                    struct dsgd_error *err)
{
    size_t n = p->most_local;
    size_t control = sizeof(struct msg) + 256 * sizeof(struct msg_event);
    size_t shares = sizeof(struct msg) + n * sizeof(struct msg_share);
    size_t bulk = shares + opt->grad_elems * sizeof(float);
    size_t close = sizeof(struct msg) + n + p->n_nodes;
    size_t piece =
        sizeof(struct msg) +
        exchange_piece_elems(opt->grad_elems, p->n_nodes) * sizeof(float);

    *t = NULL;
    if (p->n_nodes == 1)
        return DSGD_OK;
    control = control > shares ? control : shares;
    control = control > close ? control : close;
    return transport_mpi_create(comm, p->node, p->n_nodes, p->leader, control,
                                bulk, piece, t, err);
}

/* The aggregator of this node, on its first rank. */
static enum dsgd_err
make_aggregator(const struct place *p, const struct dsgd_options *opt,
                const struct cutoff_spec *spec, const struct segment *seg,
                MPI_Comm comm, struct aggregator **agg, struct dsgd_error *err)
{
    struct coordinator_config coord = {.opt = opt,
                                       .cutoff = spec,
                                       .n_workers = (uint32_t)p->size,
                                       .n_nodes = p->n_nodes,
                                       .worker_node = p->worker_node};
    struct aggregator_config config = {
        .seg = seg, .node_index = p->node, .n_nodes = p->n_nodes};

    *agg = NULL;
    if (p->local_rank != 0)
        return DSGD_OK;
    enum dsgd_err rc = DSGD_OK;
    if (p->rank == 0) {
        config.coord = &coord;
        rc = launch_model(opt, spec, &config.model, err);
        coord.model = config.model;
    }
    if (rc == DSGD_OK)
        rc = make_transport(p, opt, comm, &config.transport, err);
    if (rc == DSGD_OK)
        rc = aggregator_create(&config, agg, err);
    if (rc != DSGD_OK && config.transport)
        config.transport->ops->destroy(config.transport);
    if (rc != DSGD_OK)
        timing_model_free(config.model);
    return rc;
}

/* Every node's facts to rank 0, which opens the record. */
static enum dsgd_err
tell_nodes(const struct place *p, const struct dsgd_options *opt,
           struct aggregator *agg, const struct cutoff_spec *spec,
           const struct checkpoint_read *from, struct dsgd_error *err)
{
    struct launch_node node, *nodes = NULL;
    struct record_replay *replay = NULL;
    enum dsgd_err rc = DSGD_OK;

    if (p->rank == 0) {
        nodes = calloc(p->n_nodes, sizeof *nodes);
        if (!nodes)
            rc = error_set(err, DSGD_E_NOMEM, "no memory");
    }
    rc = agree(p->world, rc, err);
    if (rc != DSGD_OK)
        return rc;
    launch_this_node(&node);
    rc = agree(p->world,
               modex(p->world, p->local_rank == 0, &node, p->n_nodes, p->leader,
                     nodes, err),
               err);
    if (rc == DSGD_OK && p->rank == 0)
        rc = launch_replay(opt, spec, (uint32_t)p->size, p->n_nodes,
                           p->worker_node, nodes, &replay, err);
    rc = agree(p->world, rc, err);
    if (rc == DSGD_OK && p->rank == 0) {
        aggregator_replay(agg, replay);
        launch_compare_kernels(opt, p->n_nodes, nodes);
        aggregator_record(agg, launch_record(opt, (uint32_t)p->size, p->n_nodes,
                                             p->worker_node, nodes,
                                             from ? &from->facts : NULL));
    }
    free(nodes);
    return rc;
}

/* Rank 0 opens the checkpoints; where there is one to go on from, every node
 * gets its state.
 *   from  out  on rank 0, NULL elsewhere and when there is none */
static enum dsgd_err open_checkpoints(const struct place *p,
                                      const struct dsgd_options *opt,
                                      struct aggregator *agg,
                                      struct checkpoint_read **from,
                                      struct dsgd_error *err)
{
    struct checkpoint_resume r = {NULL, NULL};
    enum dsgd_err rc = DSGD_OK;

    if (p->rank == 0)
        rc = checkpoint_resume_open(opt, (uint32_t)p->size, &r, err);
    *from = r.from;
    if (rc == DSGD_OK && r.store)
        rc = aggregator_checkpoints(agg, r.store, r.from, err);
    rc = agree(p->world, rc, err);
    if (rc == DSGD_OK)
        rc = agree(p->world,
                   mpi_resume(p->world, p->local_rank == 0, agg, r.from, err),
                   err);
    return rc;
}

static enum dsgd_err open_placed(const struct place *p,
                                 const struct dsgd_options *opt, MPI_Comm comm,
                                 struct dsgd **d, struct dsgd_error *err)
{
    struct cutoff_spec spec;
    struct segment seg = {0};
    struct aggregator *agg = NULL;
    struct checkpoint_read *from = NULL;

    enum dsgd_err rc = agree(comm, launch_check(opt, &spec, err), err);
    if (rc == DSGD_OK)
        rc = same_options(comm, opt, err);
    if (rc == DSGD_OK)
        rc = share_segment(p, opt, &seg, err);
    if (rc == DSGD_OK)
        rc = agree(comm, make_aggregator(p, opt, &spec, &seg, comm, &agg, err),
                   err);
    if (rc == DSGD_OK)
        rc = agree(
            comm,
            client_create(opt, &seg, (uint32_t)p->local_rank, agg, d, err),
            err);
    if (rc != DSGD_OK && !*d) {
        aggregator_destroy(agg);
        segment_detach(&seg);
    }
    if (rc == DSGD_OK)
        rc = open_checkpoints(p, opt, agg, &from, err);
    if (rc == DSGD_OK)
        rc = tell_nodes(p, opt, agg, &spec, from, err);
    checkpoint_free(from);
    if (rc == DSGD_OK) {
        (*d)->rank = (uint32_t)p->rank;
        (*d)->size = (uint32_t)p->size;
        (*d)->nodes = p->n_nodes;
        rc = agree(comm, client_start(*d, finalize, err), err);
    }
    if (rc != DSGD_OK && *d) {
        client_destroy(*d);
        *d = NULL;
    }
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
    enum dsgd_err rc = place_make(dup, &place, err);
    if (rc == DSGD_OK)
        rc = open_placed(&place, opt, dup, d, err);
    place_free(&place);
    return rc;
}
