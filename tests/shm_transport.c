#include "shm_transport.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { CONTROLS = 32 };

/* From one node to another: one writer and one reader. */
struct lane {
    _Atomic uint64_t head, tail; /* messages sent, and taken */
    size_t bytes[CONTROLS];
};

struct shm_net {
    uint32_t n_nodes;
    size_t control_bytes, bulk_bytes, link_bytes, total_bytes;
    _Alignas(64) char links[];
};

struct shm_transport {
    struct transport base; /* first */
    struct shm_net *net;
    uint32_t node;
    bool *held; /* [n_nodes] a bulk message was delivered, not released */
    char **in;  /* [n_nodes] [bulk_bytes] */
};

static char *link_of(struct shm_net *net, uint32_t from, uint32_t to)
{
    return net->links + ((size_t)from * net->n_nodes + to) * net->link_bytes;
}

static struct lane *control_lane(struct shm_net *net, uint32_t from,
                                 uint32_t to)
{
    return (struct lane *)(void *)link_of(net, from, to);
}

static struct lane *bulk_lane(struct shm_net *net, uint32_t from, uint32_t to)
{
    return control_lane(net, from, to) + 1;
}

static char *control_at(struct shm_net *net, uint32_t from, uint32_t to,
                        uint64_t i)
{
    return link_of(net, from, to) + 2 * sizeof(struct lane) +
           (i % CONTROLS) * net->control_bytes;
}

static char *bulk_at(struct shm_net *net, uint32_t from, uint32_t to)
{
    return control_at(net, from, to, 0) + CONTROLS * net->control_bytes;
}

struct shm_net *shm_net_create(uint32_t n_nodes, size_t control_bytes,
                               size_t bulk_bytes)
{
    size_t control = (control_bytes + 63) / 64 * 64;
    size_t bulk = (bulk_bytes + 63) / 64 * 64;
    size_t link = 2 * sizeof(struct lane) + CONTROLS * control + bulk;

    link = (link + 63) / 64 * 64;
    size_t total = sizeof(struct shm_net) + (size_t)n_nodes * n_nodes * link;
    struct shm_net *net = mmap(NULL, total, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (net == MAP_FAILED)
        return NULL;
    net->n_nodes = n_nodes;
    net->control_bytes = control;
    net->bulk_bytes = bulk;
    net->link_bytes = link;
    net->total_bytes = total;
    return net;
}

void shm_net_destroy(struct shm_net *net)
{
    if (net)
        munmap(net, net->total_bytes);
}

static struct shm_transport *self(struct transport *t)
{
    return (struct shm_transport *)t;
}

static bool control(struct transport *base, uint32_t node, const struct msg *m,
                    const void *body, size_t bytes)
{
    struct shm_transport *t = self(base);
    struct lane *lane = control_lane(t->net, t->node, node);
    uint64_t head = atomic_load(&lane->head);

    if (head - atomic_load(&lane->tail) == CONTROLS ||
        sizeof *m + bytes > t->net->control_bytes)
        return false;
    char *to = control_at(t->net, t->node, node, head);
    memcpy(to, m, sizeof *m);
    if (bytes)
        memcpy(to + sizeof *m, body, bytes);
    lane->bytes[head % CONTROLS] = bytes;
    atomic_store(&lane->head, head + 1);
    return true;
}

static bool empty(struct lane *lane)
{
    return atomic_load(&lane->head) == atomic_load(&lane->tail);
}

static bool bulk_idle(struct transport *base, uint32_t node)
{
    struct shm_transport *t = self(base);

    return empty(bulk_lane(t->net, t->node, node));
}

static void bulk(struct transport *base, uint32_t node, const struct msg *m,
                 const void *body, size_t bytes, const void *tail,
                 size_t tail_bytes)
{
    struct shm_transport *t = self(base);
    struct lane *lane = bulk_lane(t->net, t->node, node);
    char *to = bulk_at(t->net, t->node, node);

    memcpy(to, m, sizeof *m);
    if (bytes)
        memcpy(to + sizeof *m, body, bytes);
    memcpy(to + sizeof *m + bytes, tail, tail_bytes);
    lane->bytes[0] = bytes + tail_bytes;
    atomic_fetch_add(&lane->head, 1);
}

static int poll_link(struct shm_transport *t, uint32_t other,
                     transport_handler *handler, void *context)
{
    struct lane *lane = control_lane(t->net, other, t->node);
    int count = 0;

    for (; !empty(lane); count++) {
        uint64_t i = atomic_load(&lane->tail);
        const char *from = control_at(t->net, other, t->node, i);
        handler(context, other, (const void *)from, from + sizeof(struct msg),
                lane->bytes[i % CONTROLS]);
        atomic_store(&lane->tail, i + 1);
    }
    lane = bulk_lane(t->net, other, t->node);
    if (t->held[other] || empty(lane))
        return count;
    size_t bytes = lane->bytes[0];
    memcpy(t->in[other], bulk_at(t->net, other, t->node),
           sizeof(struct msg) + bytes);
    atomic_fetch_add(&lane->tail, 1);
    t->held[other] = true;
    handler(context, other, (const void *)t->in[other],
            t->in[other] + sizeof(struct msg), bytes);
    return count + 1;
}

static int poll(struct transport *base, transport_handler *handler,
                void *context)
{
    struct shm_transport *t = self(base);
    int count = 0;

    for (uint32_t i = 0; i < t->net->n_nodes; i++) {
        if (i != t->node)
            count += poll_link(t, i, handler, context);
    }
    return count;
}

static void release(struct transport *base, uint32_t node)
{
    self(base)->held[node] = false;
}

/* Small messages are on their way once they are sent. */
static bool drained(struct transport *base, uint32_t node)
{
    return bulk_idle(base, node);
}

static void destroy(struct transport *base)
{
    struct shm_transport *t = self(base);

    for (uint32_t i = 0; t->in && i < t->net->n_nodes; i++)
        free(t->in[i]);
    free(t->in);
    free(t->held);
    free(t);
}

static const struct transport_ops ops = {.control = control,
                                         .bulk_idle = bulk_idle,
                                         .bulk = bulk,
                                         .poll = poll,
                                         .release = release,
                                         .drained = drained,
                                         .destroy = destroy};

struct transport *shm_transport_create(struct shm_net *net, uint32_t node)
{
    struct shm_transport *t = calloc(1, sizeof *t);

    if (!t)
        return NULL;
    t->base.ops = &ops;
    t->net = net;
    t->node = node;
    t->held = calloc(net->n_nodes, sizeof *t->held);
    t->in = calloc(net->n_nodes, sizeof *t->in);
    bool good = t->held && t->in;
    for (uint32_t i = 0; good && i < net->n_nodes; i++)
        good = (t->in[i] = malloc(net->bulk_bytes)) != NULL;
    if (good)
        return &t->base;
    destroy(&t->base);
    return NULL;
}
