#include "exchange.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "sum.h"

/* A message costs several system calls on each side, and one of more than 64
 * KiB two more ways, as the receiver is asked first (Open MPI over TCP).  Many
 * pieces below that take less time than a few above, up to some hundred
 * kilobytes for each node. */
enum { PIECE_SMALL = 16000, PIECE_LARGE = 50000, PIECE_MOST = 262144 };

struct partner {
    struct msg held; /* kind 0: none */
    const float *body;
    uint32_t owner; /* its place among the owners; UINT32_MAX: it is none */
    uint32_t sums_sent, means_sent;
};

struct exchange {
    struct node *node;
    struct transport *t;
    uint32_t self, n_nodes, n_pieces;
    size_t elems, piece_elems;

    struct exchange_plan plan; /* role: a copy; step 0: none */
    uint8_t *role;             /* [n_nodes] */
    struct partner *partner;   /* [n_nodes] */
    const float **row;         /* [n_nodes] scratch */
    uint32_t n_owners;
    uint64_t refused; /* no early sum of this step or one before is used */
    uint32_t reduced; /* own pieces */
    uint32_t here;    /* pieces of the mean */
    bool committed;
};

size_t exchange_piece_elems(size_t grad_elems, uint32_t n_nodes)
{
    size_t elems = (grad_elems + n_nodes - 1) / n_nodes;

    elems = elems < PIECE_MOST ? elems : PIECE_MOST;
    elems = elems > PIECE_LARGE ? elems : PIECE_SMALL;
    return elems < grad_elems ? elems : grad_elems;
}

void exchange_destroy(struct exchange *x)
{
    if (!x)
        return;
    free(x->role);
    free(x->partner);
    free(x->row);
    free(x);
}

enum dsgd_err exchange_create(struct node *node, struct transport *t,
                              uint32_t index, uint32_t n_nodes,
                              struct exchange **out, struct dsgd_error *err)
{
    struct exchange *x = calloc(1, sizeof *x);

    *out = NULL;
    if (x) {
        x->node = node;
        x->t = t;
        x->self = index;
        x->n_nodes = n_nodes;
        x->elems = node_grad_elems(node);
        x->piece_elems = exchange_piece_elems(x->elems, n_nodes);
        x->n_pieces =
            (uint32_t)((x->elems + x->piece_elems - 1) / x->piece_elems);
        x->role = calloc(n_nodes, sizeof *x->role);
        x->partner = calloc(n_nodes, sizeof *x->partner);
        x->row = calloc(n_nodes, sizeof *x->row);
    }
    if (!x || !x->role || !x->partner || !x->row) {
        exchange_destroy(x);
        return error_set(err, DSGD_E_NOMEM, "aggregator: no memory");
    }
    *out = x;
    return DSGD_OK;
}

static bool gives(const struct exchange *x, uint32_t node)
{
    return (x->role[node] & EXCHANGE_GIVES) != 0;
}

static bool takes(const struct exchange *x, uint32_t node)
{
    return (x->role[node] & EXCHANGE_TAKES) != 0;
}

/* An owner's k-th piece. */
static uint32_t piece_of(const struct exchange *x, uint32_t node, uint32_t k)
{
    return x->partner[node].owner + k * x->n_owners;
}

static bool owns(const struct exchange *x, uint32_t node, uint32_t k)
{
    return x->partner[node].owner != UINT32_MAX &&
           piece_of(x, node, k) < x->n_pieces;
}

static size_t piece_at(const struct exchange *x, uint32_t piece)
{
    return (size_t)piece * x->piece_elems;
}

static size_t piece_floats(const struct exchange *x, uint32_t piece)
{
    size_t left = x->elems - piece_at(x, piece);
    return left < x->piece_elems ? left : x->piece_elems;
}

/* This node's sum of a piece is there. */
static bool summed(const struct exchange *x, uint32_t piece)
{
    return node_sum_ready(x->node) >=
           piece_at(x, piece) + piece_floats(x, piece);
}

static void name_owners(struct exchange *x)
{
    x->n_owners = 0;
    for (uint32_t i = 0; i < x->n_nodes; i++) {
        bool owner = x->plan.spread ? takes(x, i) : i == 0;
        x->partner[i].owner = owner ? x->n_owners++ : UINT32_MAX;
        x->partner[i].sums_sent = x->partner[i].means_sent = 0;
    }
}

/* Follow x->plan and x->role. */
static void begin(struct exchange *x, const uint8_t *mask)
{
    x->plan.role = x->role;
    x->reduced = x->here = 0;
    x->committed = false;
    name_owners(x);
    if (gives(x, x->self))
        node_sum_begin(x->node, mask);
    else
        node_sum_drop(x->node);
}

void exchange_begin(struct exchange *x, const struct exchange_plan *plan,
                    const uint8_t *mask)
{
    memcpy(x->role, plan->role, x->n_nodes);
    x->plan = *plan;
    begin(x, mask);
}

bool exchange_early(struct exchange *x, uint64_t step, const uint8_t *mask)
{
    if (step <= x->plan.step)
        return false;
    memset(x->role, EXCHANGE_GIVES, x->n_nodes);
    x->plan = (struct exchange_plan){.step = step, .attempt = EXCHANGE_EARLY};
    begin(x, mask);
    return true;
}

void exchange_refuse(struct exchange *x, uint64_t step)
{
    x->refused = step;
}

void exchange_message(struct exchange *x, uint32_t node, const struct msg *m,
                      const void *body, size_t bytes)
{
    struct partner *p = &x->partner[node];
    uint32_t piece = m->u.piece.index;

    if (piece >= x->n_pieces ||
        bytes != piece_floats(x, piece) * sizeof(float)) {
        x->t->ops->release(x->t, node);
        return;
    }
    p->held = *m;
    p->body = body;
}

static void release(struct exchange *x, uint32_t node)
{
    x->partner[node].held.kind = 0;
    x->t->ops->release(x->t, node);
}

static bool planned(const struct exchange *x, const struct msg *m)
{
    return m->step == x->plan.step && m->attempt == x->plan.attempt;
}

static bool stale(const struct exchange *x, const struct msg *m)
{
    return m->step <= node_published(x->node) || m->step < x->plan.step ||
           (m->step == x->plan.step && m->attempt < x->plan.attempt) ||
           (m->step <= x->refused && m->attempt == EXCHANGE_EARLY) ||
           (planned(x, m) && x->here == x->n_pieces);
}

/* Drop what is stale, take what belongs to the mean. */
static bool look_at_held(struct exchange *x)
{
    bool did = false;

    for (uint32_t i = 0; i < x->n_nodes; i++) {
        struct partner *p = &x->partner[i];
        if (!p->held.kind)
            continue;
        if (stale(x, &p->held)) {
            release(x, i);
        } else if (planned(x, &p->held) && p->held.kind == MSG_MEAN) {
            uint32_t piece = p->held.u.piece.index;
            memcpy(node_reserve(x->node) + piece_at(x, piece), p->body,
                   piece_floats(x, piece) * sizeof(float));
            x->here++;
            release(x, i);
        } else {
            continue;
        }
        did = true;
    }
    return did;
}

static bool has_sum(const struct exchange *x, uint32_t node, uint32_t piece)
{
    const struct partner *p = &x->partner[node];

    if (node == x->self)
        return summed(x, piece);
    return p->held.kind == MSG_SUM && planned(x, &p->held) &&
           p->held.u.piece.index == piece;
}

/* The next of this node's own pieces, once all givers' sums are there. */
static bool reduce(struct exchange *x)
{
    uint32_t piece, rows = 0;

    if (!owns(x, x->self, x->reduced))
        return false;
    piece = piece_of(x, x->self, x->reduced);
    float *out = node_reserve(x->node) + piece_at(x, piece);
    for (uint32_t i = 0; i < x->n_nodes; i++) {
        if (!gives(x, i))
            continue;
        if (!has_sum(x, i, piece))
            return false;
        x->row[rows++] = i == x->self ? out : x->partner[i].body;
    }
    sum_rows(out, x->row, rows, x->plan.factor, piece_floats(x, piece));
    for (uint32_t i = 0; i < x->n_nodes; i++) {
        if (gives(x, i) && i != x->self)
            release(x, i);
    }
    x->reduced++;
    x->here++;
    return true;
}

static const float *source(const struct exchange *x)
{
    struct seg_mean about;

    if (!x->committed)
        return node_reserve(x->node);
    return node_mean(x->node, x->plan.step, &about);
}

static bool send(struct exchange *x, uint32_t node, uint32_t kind,
                 uint32_t piece)
{
    const float *from = source(x);
    struct msg m = {.kind = kind,
                    .count = (uint32_t)piece_floats(x, piece),
                    .attempt = x->plan.attempt,
                    .step = x->plan.step};

    if (!from || !x->t->ops->bulk_idle(x->t, node))
        return false;
    m.u.piece.index = piece;
    x->t->ops->bulk(x->t, node, &m, NULL, 0, from + piece_at(x, piece),
                    m.count * sizeof *from);
    return true;
}

static bool send_next(struct exchange *x, uint32_t node)
{
    struct partner *p = &x->partner[node];

    if (gives(x, x->self) && owns(x, node, p->sums_sent)) {
        uint32_t piece = piece_of(x, node, p->sums_sent);
        if (summed(x, piece) && send(x, node, MSG_SUM, piece)) {
            p->sums_sent++;
            return true;
        }
    }
    if (takes(x, node) && p->means_sent < x->reduced &&
        send(x, node, MSG_MEAN, piece_of(x, x->self, p->means_sent))) {
        p->means_sent++;
        return true;
    }
    return false;
}

/* So much of the sum between two looks at what has come: a look takes a
 * microsecond or more. */
static bool tend(struct exchange *x)
{
    const size_t most = 16384;
    bool did = false;

    for (size_t n = 0; n < most; n += node_chunk_elems(x->node)) {
        if (!node_sum_tend(x->node))
            break;
        did = true;
    }
    return did;
}

bool exchange_pump(struct exchange *x)
{
    bool did = look_at_held(x);

    if (!x->plan.step)
        return did;
    if (gives(x, x->self) && !x->committed && x->here < x->n_pieces)
        did = tend(x) || did;
    did = reduce(x) || did;
    for (uint32_t i = 0; i < x->n_nodes; i++) {
        if (i != x->self)
            did = send_next(x, i) || did;
    }
    return did;
}

bool exchange_complete(const struct exchange *x, uint64_t step,
                       uint32_t attempt)
{
    return x->plan.step == step && x->plan.attempt == attempt &&
           x->here == x->n_pieces;
}

void exchange_committed(struct exchange *x)
{
    x->committed = true;
}

void exchange_drop(struct exchange *x)
{
    x->plan.step = 0;
    node_sum_drop(x->node);
}

uint32_t exchange_nodes(const struct exchange *x)
{
    return x->n_nodes;
}

bool exchange_whole(const struct exchange *x)
{
    return x->n_pieces == 1;
}

bool exchange_active(const struct exchange *x)
{
    return x->plan.step && x->here < x->n_pieces &&
           (x->self == 0 || x->plan.attempt != EXCHANGE_EARLY);
}

bool exchange_owes(const struct exchange *x, uint32_t node)
{
    return gives(x, node) && owns(x, x->self, x->reduced) &&
           !has_sum(x, node, piece_of(x, x->self, x->reduced));
}
