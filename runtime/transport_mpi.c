#include "transport_mpi.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

enum { TAG_CONTROL = 1, TAG_BULK = 2 };
enum { SLOTS = 32 }; /* control messages on their way to one peer */

struct mpi_peer {
    int rank;
    uint32_t node;
    char *slot; /* [SLOTS][control_bytes]; NULL: no control messages */
    MPI_Request slot_request[SLOTS];
    size_t bulk_bytes;
    char *out, *in; /* [bulk_bytes] */
    MPI_Request out_request;
    bool in_held; /* delivered, not released */
};

struct transport_mpi {
    struct transport base;
    MPI_Comm comm;
    uint32_t n_peers;
    struct mpi_peer *peer;   /* [n_peers] */
    MPI_Request *in_request; /* [n_peers + 1] the last: of control messages */
    int *ready;              /* [n_peers + 1] scratch */
    MPI_Status *status;      /* [n_peers + 1] scratch */
    uint32_t *peer_of;       /* [n_nodes] */
    uint32_t *node_of_rank;  /* [size of comm] */
    size_t control_bytes;
    char *control_in;
};

static enum dsgd_err mpi_error(struct dsgd_error *err, const char *what, int rc)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(rc, text, &length);
    return error_set(err, DSGD_E_MPI, "%s: %s", what, text);
}

static struct transport_mpi *self(struct transport *t)
{
    return (struct transport_mpi *)t; /* base is first */
}

static struct mpi_peer *peer(struct transport_mpi *t, uint32_t node)
{
    return &t->peer[t->peer_of[node]];
}

static bool taken(MPI_Request *request)
{
    int flag = 1;
    if (*request != MPI_REQUEST_NULL)
        MPI_Test(request, &flag, MPI_STATUS_IGNORE);
    return flag != 0;
}

static bool send_control(struct transport *base, uint32_t node,
                         const struct msg *m, const void *body, size_t bytes)
{
    struct transport_mpi *t = self(base);
    struct mpi_peer *p = peer(t, node);

    for (int i = 0; i < SLOTS; i++) {
        if (!taken(&p->slot_request[i]))
            continue;
        char *slot = p->slot + (size_t)i * t->control_bytes;
        memcpy(slot, m, sizeof *m);
        if (bytes)
            memcpy(slot + sizeof *m, body, bytes);
        return MPI_Isend(slot, (int)(sizeof *m + bytes), MPI_BYTE, p->rank,
                         TAG_CONTROL, t->comm,
                         &p->slot_request[i]) == MPI_SUCCESS;
    }
    return false;
}

static bool bulk_idle(struct transport *base, uint32_t node)
{
    return taken(&peer(self(base), node)->out_request);
}

static void send_bulk(struct transport *base, uint32_t node,
                      const struct msg *m, const void *body, size_t bytes,
                      const void *tail, size_t tail_bytes)
{
    struct transport_mpi *t = self(base);
    struct mpi_peer *p = peer(t, node);

    memcpy(p->out, m, sizeof *m);
    if (bytes)
        memcpy(p->out + sizeof *m, body, bytes);
    memcpy(p->out + sizeof *m + bytes, tail, tail_bytes);
    MPI_Isend(p->out, (int)(sizeof *m + bytes + tail_bytes), MPI_BYTE, p->rank,
              TAG_BULK, t->comm, &p->out_request);
}

static MPI_Request *control_request(struct transport_mpi *t)
{
    return &t->in_request[t->n_peers];
}

static int receive_control(struct transport_mpi *t)
{
    return MPI_Irecv(t->control_in, (int)t->control_bytes, MPI_BYTE,
                     MPI_ANY_SOURCE, TAG_CONTROL, t->comm, control_request(t));
}

static int receive_bulk(struct transport_mpi *t, uint32_t i)
{
    struct mpi_peer *p = &t->peer[i];
    return MPI_Irecv(p->in, (int)p->bulk_bytes, MPI_BYTE, p->rank, TAG_BULK,
                     t->comm, &t->in_request[i]);
}

static void deliver(const char *buffer, uint32_t node, const MPI_Status *status,
                    transport_handler *handler, void *context)
{
    int bytes;
    MPI_Get_count(status, MPI_BYTE, &bytes);
    if ((size_t)bytes >= sizeof(struct msg))
        handler(context, node, (const struct msg *)buffer,
                buffer + sizeof(struct msg),
                (size_t)bytes - sizeof(struct msg));
}

static int failed(struct transport_mpi *t, int rc)
{
    mpi_error(&t->base.error, "between aggregators", rc);
    return -1;
}

/* A control message has come; so may have others. */
static int take_control(struct transport_mpi *t, MPI_Status *status,
                        transport_handler *handler, void *context)
{
    int count = 0;

    for (int flag = 1; flag; count++) {
        deliver(t->control_in, t->node_of_rank[status->MPI_SOURCE], status,
                handler, context);
        int rc = receive_control(t);
        if (rc == MPI_SUCCESS)
            rc = MPI_Test(control_request(t), &flag, status);
        if (rc != MPI_SUCCESS)
            return failed(t, rc);
    }
    return count;
}

/* One look at all, as each costs a round of MPI's progress.  Control messages
 * come first: what a node has said is known before its gradients are. */
static int poll_all(struct transport *base, transport_handler *handler,
                    void *context)
{
    struct transport_mpi *t = self(base);
    int some = 0, count = 0;
    int rc = MPI_Testsome((int)t->n_peers + 1, t->in_request, &some, t->ready,
                          t->status);

    if (rc != MPI_SUCCESS)
        return failed(t, rc);
    for (int i = 0; i < some; i++) {
        if (t->ready[i] == (int)t->n_peers)
            count = take_control(t, &t->status[i], handler, context);
    }
    for (int i = 0; i < some && count >= 0; i++) {
        if (t->ready[i] == (int)t->n_peers)
            continue;
        struct mpi_peer *p = &t->peer[t->ready[i]];
        p->in_held = true;
        deliver(p->in, p->node, &t->status[i], handler, context);
        count++;
    }
    return count;
}

static void release(struct transport *base, uint32_t node)
{
    struct transport_mpi *t = self(base);
    uint32_t i = t->peer_of[node];

    if (t->peer[i].in_held && receive_bulk(t, i) == MPI_SUCCESS)
        t->peer[i].in_held = false;
}

static bool drained(struct transport *base, uint32_t node)
{
    struct mpi_peer *p = peer(self(base), node);
    for (int i = 0; i < SLOTS; i++) {
        if (!taken(&p->slot_request[i]))
            return false;
    }
    return taken(&p->out_request);
}

static void cancel(MPI_Request *request)
{
    if (*request == MPI_REQUEST_NULL)
        return;
    MPI_Cancel(request);
    MPI_Request_free(request);
}

/* Buffers of messages that a frozen peer has not taken belong to MPI for good:
 * they are left to the end of the process. */
static void destroy(struct transport *base)
{
    struct transport_mpi *t = self(base);

    if (t->in_request)
        cancel(control_request(t));
    for (uint32_t i = 0; t->peer && i < t->n_peers; i++) {
        struct mpi_peer *p = &t->peer[i];
        bool idle = drained(base, p->node);
        if (t->in_request)
            cancel(&t->in_request[i]);
        free(p->in);
        if (idle) {
            free(p->slot);
            free(p->out);
        }
    }
    free(t->peer);
    free(t->peer_of);
    free(t->node_of_rank);
    free(t->in_request);
    free(t->ready);
    free(t->status);
    free(t->control_in);
    free(t);
}

static const struct transport_ops mpi_ops = {
    .control = send_control,
    .bulk_idle = bulk_idle,
    .bulk = send_bulk,
    .poll = poll_all,
    .release = release,
    .drained = drained,
    .destroy = destroy,
};

static void clear_requests(struct transport_mpi *t)
{
    if (t->in_request)
        *control_request(t) = MPI_REQUEST_NULL;
    for (uint32_t i = 0; t->peer && i < t->n_peers; i++) {
        t->peer[i].out_request = MPI_REQUEST_NULL;
        if (t->in_request)
            t->in_request[i] = MPI_REQUEST_NULL;
        for (int s = 0; s < SLOTS; s++)
            t->peer[i].slot_request[s] = MPI_REQUEST_NULL;
    }
}

static bool make_peers(struct transport_mpi *t, uint32_t node, uint32_t n_nodes,
                       const int *leader, size_t bulk_bytes, size_t piece_bytes)
{
    for (uint32_t i = 0, k = 0; i < n_nodes; i++) {
        if (i == node)
            continue;
        struct mpi_peer *p = &t->peer[k];
        bool with_first = node == 0 || i == 0;
        p->rank = leader[i];
        p->node = i;
        t->peer_of[i] = k++;
        t->node_of_rank[leader[i]] = i;
        p->bulk_bytes = with_first ? bulk_bytes : piece_bytes;
        p->out = malloc(p->bulk_bytes);
        p->in = malloc(p->bulk_bytes);
        if (with_first)
            p->slot = calloc(SLOTS, t->control_bytes);
        if (!p->out || !p->in || (with_first && !p->slot))
            return false;
    }
    return true;
}

enum dsgd_err transport_mpi_create(MPI_Comm comm, uint32_t node,
                                   uint32_t n_nodes, const int *leader,
                                   size_t control_bytes, size_t bulk_bytes,
                                   size_t piece_bytes, struct transport **out,
                                   struct dsgd_error *err)
{
    struct transport_mpi *t;
    int size, rc;

    *out = NULL;
    if (bulk_bytes > INT_MAX || control_bytes > INT_MAX)
        return error_set(err, DSGD_E_RANGE,
                         "gradient of %zu bytes: more than the 2 GiB that one "
                         "message between nodes can carry",
                         bulk_bytes);
    MPI_Comm_size(comm, &size);
    t = calloc(1, sizeof *t);
    if (!t)
        return error_set(err, DSGD_E_NOMEM, "transport: no memory");
    t->base.ops = &mpi_ops;
    t->comm = comm;
    t->n_peers = n_nodes - 1;
    t->control_bytes = control_bytes;
    t->peer = calloc(t->n_peers, sizeof *t->peer);
    t->in_request = calloc((size_t)t->n_peers + 1, sizeof *t->in_request);
    t->ready = calloc((size_t)t->n_peers + 1, sizeof *t->ready);
    t->status = calloc((size_t)t->n_peers + 1, sizeof *t->status);
    clear_requests(t);
    t->peer_of = calloc(n_nodes, sizeof *t->peer_of);
    t->node_of_rank = calloc((size_t)size, sizeof *t->node_of_rank);
    t->control_in = malloc(control_bytes);
    if (!t->peer || !t->in_request || !t->ready || !t->status || !t->peer_of ||
        !t->node_of_rank || !t->control_in ||
        !make_peers(t, node, n_nodes, leader, bulk_bytes, piece_bytes)) {
        destroy(&t->base);
        return error_set(err, DSGD_E_NOMEM, "transport: no memory");
    }
    rc = receive_control(t);
    for (uint32_t i = 0; rc == MPI_SUCCESS && i < t->n_peers; i++)
        rc = receive_bulk(t, i);
    if (rc != MPI_SUCCESS) {
        destroy(&t->base);
        return mpi_error(err, "transport: MPI_Irecv", rc);
    }
    *out = &t->base;
    return DSGD_OK;
}
