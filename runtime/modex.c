#include "modex.h"

#include <pmix.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "mpi_place.h"

#define KEY "dsgd.node"

enum { TAG_NODE = 3 };

static enum dsgd_err pmix_error(struct dsgd_error *err, const char *call,
                                pmix_status_t rc)
{
    return error_set(err, DSGD_E_MPI,
                     "%s: %s; DSGD_MODEX=mpi does without PMIx", call,
                     PMIx_Error_string(rc));
}

static enum dsgd_err put(const struct launch_node *node, struct dsgd_error *err)
{
    pmix_value_t value;
    struct launch_node copy = *node;

    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = (char *)&copy;
    value.data.bo.size = sizeof copy;
    pmix_status_t rc = PMIx_Put(PMIX_GLOBAL, KEY, &value);
    return rc == PMIX_SUCCESS ? DSGD_OK : pmix_error(err, "PMIx_Put", rc);
}

/* All ranks fence; who leads a node has put its facts. */
static enum dsgd_err fence(struct dsgd_error *err)
{
    pmix_info_t info;
    bool collect = true;

    pmix_status_t rc = PMIx_Commit();
    if (rc != PMIX_SUCCESS)
        return pmix_error(err, "PMIx_Commit", rc);
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    rc = PMIx_Fence(NULL, 0, &info, 1);
    PMIX_INFO_DESTRUCT(&info);
    return rc == PMIX_SUCCESS ? DSGD_OK : pmix_error(err, "PMIx_Fence", rc);
}

static enum dsgd_err get(const pmix_proc_t *self, int rank,
                         struct launch_node *node, struct dsgd_error *err)
{
    pmix_proc_t proc;
    pmix_value_t *value = NULL;
    enum dsgd_err result = DSGD_OK;

    PMIX_PROC_LOAD(&proc, self->nspace, (pmix_rank_t)rank);
    pmix_status_t rc = PMIx_Get(&proc, KEY, NULL, 0, &value);
    if (rc != PMIX_SUCCESS)
        return pmix_error(err, "PMIx_Get", rc);
    if (value->type == PMIX_BYTE_OBJECT && value->data.bo.size == sizeof *node)
        memcpy(node, value->data.bo.bytes, sizeof *node);
    else
        result = error_set(err, DSGD_E_MPI,
                           "rank %d runs another version of slurm-dsgd", rank);
    PMIX_VALUE_RELEASE(value);
    return result;
}

/* A fence waits for all ranks: it is entered when none has failed. */
static enum dsgd_err by_pmix(MPI_Comm comm, bool leads, bool root,
                             const struct launch_node *node, uint32_t n_nodes,
                             const int *leader, struct launch_node *nodes,
                             struct dsgd_error *err)
{
    pmix_proc_t self;
    enum dsgd_err result = DSGD_OK;
    pmix_status_t rc = PMIx_Init(&self, NULL, 0); /* counted: MPI holds one */

    if (rc != PMIX_SUCCESS)
        result = pmix_error(err, "PMIx_Init", rc);
    else if (leads)
        result = put(node, err);
    result = place_agree(comm, result, err);
    if (result == DSGD_OK)
        result = fence(err);
    for (uint32_t i = 0; root && result == DSGD_OK && i < n_nodes; i++)
        result = get(&self, leader[i], &nodes[i], err);
    if (rc == PMIX_SUCCESS)
        PMIx_Finalize(NULL, 0);
    return result;
}

static enum dsgd_err by_mpi(MPI_Comm comm, bool leads, bool root,
                            const struct launch_node *node, uint32_t n_nodes,
                            const int *leader, struct launch_node *nodes,
                            struct dsgd_error *err)
{
    int rc = MPI_SUCCESS;

    if (leads && !root)
        rc = MPI_Send(node, sizeof *node, MPI_BYTE, 0, TAG_NODE, comm);
    if (root)
        nodes[0] = *node;
    for (uint32_t i = 1; root && rc == MPI_SUCCESS && i < n_nodes; i++)
        rc = MPI_Recv(&nodes[i], sizeof *nodes, MPI_BYTE, leader[i], TAG_NODE,
                      comm, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS)
        return error_set(err, DSGD_E_MPI, "modex: MPI error %d", rc);
    return DSGD_OK;
}

enum way { BY_PMIX, BY_MPI, BY_NONE };

static enum way choose(const char *text)
{
    if (!*text || strcmp(text, "auto") == 0)
        return getenv("PMIX_RANK") ? BY_PMIX : BY_MPI;
    if (strcmp(text, "pmix") == 0)
        return BY_PMIX;
    return strcmp(text, "mpi") == 0 ? BY_MPI : BY_NONE;
}

enum dsgd_err modex(MPI_Comm comm, bool leads, const struct launch_node *node,
                    uint32_t n_nodes, const int *leader,
                    struct launch_node *nodes, struct dsgd_error *err)
{
    const char *text = getenv(DSGD_MODEX) ? getenv(DSGD_MODEX) : "";
    int rank, way = (int)choose(text);

    MPI_Comm_rank(comm, &rank);
    MPI_Bcast(&way, 1, MPI_INT, 0, comm); /* all must go one way */
    if (way == BY_PMIX)
        return by_pmix(comm, leads, rank == 0, node, n_nodes, leader, nodes,
                       err);
    if (way == BY_MPI)
        return by_mpi(comm, leads, rank == 0, node, n_nodes, leader, nodes,
                      err);
    return error_set(err, DSGD_E_USAGE,
                     DSGD_MODEX ": \"%.40s\" is none of auto|pmix|mpi", text);
}
