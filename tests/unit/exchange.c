/* The exchange between nodes over a transport of this process: any order of
 * events, plans that are replaced in the middle, nodes that stand still. */
#include "exchange.h"
#include "rng.h"
#include "sum.h"
#include "tap.h"

enum { NODES = 5, LOCAL = 2, ELEMS = 700000 };

static struct rng rng;

/* One message on its way from each node to each. */
struct wire {
    struct msg m;
    char *body;
    size_t bytes;
    enum { IDLE, SENT, HELD } state;
};

struct net {
    struct transport base; /* first; of one node */
    struct world *world;
    uint32_t self;
};

struct world {
    struct net net[NODES];
    struct wire wire[NODES][NODES]; /* from, to */
    struct segment seg[NODES];
    struct node *node[NODES];
    struct exchange *x[NODES];
    bool frozen[NODES];
    size_t violations, sent[NODES];
};

static bool bulk_idle(struct transport *t, uint32_t to)
{
    struct net *n = (struct net *)t;
    return n->world->wire[n->self][to].state == IDLE;
}

static void bulk(struct transport *t, uint32_t to, const struct msg *m,
                 const void *body, size_t bytes, const void *tail,
                 size_t tail_bytes)
{
    struct net *n = (struct net *)t;
    struct wire *w = &n->world->wire[n->self][to];

    (void)body;
    n->world->violations += w->state != IDLE || bytes != 0;
    memcpy(w->body, tail, tail_bytes);
    w->m = *m;
    w->bytes = tail_bytes;
    w->state = SENT;
    n->world->sent[n->self] += tail_bytes;
}

static void release(struct transport *t, uint32_t from)
{
    struct net *n = (struct net *)t;
    struct wire *w = &n->world->wire[from][n->self];

    n->world->violations += w->state != HELD;
    w->state = IDLE;
}

static const struct transport_ops ops = {
    .bulk_idle = bulk_idle, .bulk = bulk, .release = release};

static void fill(struct world *w)
{
    for (int i = 0; i < NODES; i++) {
        for (uint32_t l = 0; l < LOCAL; l++) {
            float *x = segment_slot(&w->seg[i], l, 0);
            for (size_t k = 0; k < ELEMS; k++)
                x[k] = (float)(int64_t)rng_u64(&rng) * 1e-19f;
        }
    }
}

static void make(struct world *w)
{
    char name[SEGMENT_NAME];
    struct dsgd_error err;

    memset(w, 0, sizeof *w);
    for (uint32_t i = 0; i < NODES; i++) {
        w->net[i] = (struct net){.base = {.ops = &ops}, .world = w, .self = i};
        if (segment_create(LOCAL, ELEMS, 1, 0, &w->seg[i], name, &err) ||
            node_create(&w->seg[i], &w->node[i], &err) ||
            exchange_create(w->node[i], &w->net[i].base, i, NODES, &w->x[i],
                            &err)) {
            printf("Bail out! %s\n", err.text);
            exit(1);
        }
        segment_unlink(name);
        for (uint32_t j = 0; j < NODES; j++)
            w->wire[i][j].body = malloc(ELEMS * sizeof(float));
    }
    fill(w);
}

static void destroy(struct world *w)
{
    for (uint32_t i = 0; i < NODES; i++) {
        exchange_destroy(w->x[i]);
        node_destroy(w->node[i]);
        segment_detach(&w->seg[i]);
        for (uint32_t j = 0; j < NODES; j++)
            free(w->wire[i][j].body);
    }
}

/* One event somewhere: a message comes in, or a node does what it can. */
static bool turn(struct world *w)
{
    uint32_t i = (uint32_t)rng_below(&rng, NODES);
    uint32_t from = (uint32_t)rng_below(&rng, NODES);
    struct wire *in = &w->wire[from][i];

    if (w->frozen[i])
        return false;
    if (in->state == SENT) {
        in->state = HELD;
        exchange_message(w->x[i], from, &in->m, in->body, in->bytes);
    }
    return exchange_pump(w->x[i]);
}

struct round {
    uint64_t step;
    uint32_t attempt;
    bool spread;
    uint8_t role[NODES], mask[NODES][LOCAL];
    float factor;
};

static void begin(struct world *w, const struct round *r, uint32_t node)
{
    struct exchange_plan plan = {.step = r->step,
                                 .attempt = r->attempt,
                                 .spread = r->spread,
                                 .factor = r->factor,
                                 .role = r->role};
    if (r->role[node] && !w->frozen[node])
        exchange_begin(w->x[node], &plan, r->mask[node]);
}

static void random_round(const struct world *w, struct round *r)
{
    bool any = false;

    for (uint32_t i = 0; i < NODES; i++) {
        uint8_t some = 0;
        for (uint32_t l = 0; l < LOCAL; l++)
            some |= r->mask[i][l] = rng_uniform(&rng) < .7;
        r->role[i] = some ? EXCHANGE_GIVES | EXCHANGE_TAKES
                          : (rng_uniform(&rng) < .6 ? EXCHANGE_TAKES : 0);
        if (w->frozen[i])
            r->role[i] = 0;
        any = any || (r->role[i] & EXCHANGE_GIVES);
    }
    r->role[0] |= EXCHANGE_TAKES;
    if (!any) {
        r->role[0] |= EXCHANGE_GIVES;
        r->mask[0][0] = 1;
    }
    r->factor = 1 / (float)(1 + rng_below(&rng, 9));
}

static bool all_have(const struct world *w, const struct round *r)
{
    for (uint32_t i = 0; i < NODES; i++) {
        if ((r->role[i] & EXCHANGE_TAKES) && !w->frozen[i] &&
            !exchange_complete(w->x[i], r->step, r->attempt))
            return false;
    }
    return true;
}

/* Sum within nodes, then over nodes, then scale. */
static void reference(const struct world *w, const struct round *r, float *want)
{
    static float sum[NODES][ELEMS];
    const float *row[NODES];
    uint32_t rows = 0;

    for (uint32_t i = 0; i < NODES; i++) {
        bool first = true;
        for (uint32_t l = 0; l < LOCAL; l++) {
            const float *x = segment_slot(&w->seg[i], l, 0);
            if (!(r->role[i] & EXCHANGE_GIVES) || !r->mask[i][l])
                continue;
            for (size_t k = 0; k < ELEMS; k++)
                sum[i][k] = first ? x[k] : sum[i][k] + x[k];
            first = false;
        }
        if (!first)
            row[rows++] = sum[i];
    }
    for (size_t k = 0; k < ELEMS; k++) {
        float s = row[0][k];
        for (uint32_t i = 1; i < rows; i++)
            s += row[i][k];
        want[k] = s * r->factor;
    }
}

/* Every taker shows the mean; returns how many have another. */
static size_t finish(struct world *w, const struct round *r, const float *want)
{
    struct msg m = {.kind = MSG_SHOW, .step = r->step};
    size_t wrong = 0;

    for (uint32_t i = 0; i < NODES; i++) {
        if (w->frozen[i])
            continue;
        if (r->role[i] & EXCHANGE_TAKES) {
            wrong += memcmp(node_reserve(w->node[i]), want,
                            ELEMS * sizeof *want) != 0;
            node_commit(w->node[i], &m);
            exchange_committed(w->x[i]);
            node_show(w->node[i], &m, NULL);
        } else {
            node_jump(w->node[i], r->step);
        }
    }
    return wrong;
}

static bool run(struct world *w, const struct round *r, int turns)
{
    for (int i = 0; i < turns; i++) {
        turn(w);
        if (all_have(w, r))
            return true;
    }
    return false;
}

static void steps(bool spread, bool replaced)
{
    static struct world w;
    static float want[ELEMS];
    struct round r = {.spread = spread};
    size_t wrong = 0, stuck = 0;

    make(&w);
    for (r.step = 1; r.step <= 12; r.step++) {
        r.attempt = 1;
        r.spread = spread;
        random_round(&w, &r);
        for (uint32_t i = 0; i < NODES; i++) {
            begin(&w, &r, i);
            for (int k = 0; k < 20; k++) /* some plans come late */
                turn(&w);
        }
        if (replaced && r.step % 2) {
            run(&w, &r, (int)rng_below(&rng, 300));
            random_round(&w, &r);
            r.attempt = 2;
            r.spread = false;
            for (uint32_t i = NODES; i-- > 0;) {
                begin(&w, &r, i);
                for (int k = 0; k < 20; k++)
                    turn(&w);
            }
        }
        stuck += !run(&w, &r, 100000);
        reference(&w, &r, want);
        wrong += finish(&w, &r, want);
    }
    is_int((long long)stuck, 0,
           replaced ? "plans that are replaced: all end"
                    : "every exchange ends");
    is_int((long long)wrong, 0, "with the same bits on every node");
    is_int((long long)w.violations, 0, "one message at a time, released once");
    destroy(&w);
}

/* A node stands still in the middle: the others cannot end, do without it, and
 * it takes part again. */
static void frozen(bool spread)
{
    static struct world w;
    static float want[ELEMS];
    struct round r = {.step = 1, .attempt = 1, .spread = spread, .factor = 1};

    make(&w);
    memset(r.role, EXCHANGE_GIVES | EXCHANGE_TAKES, sizeof r.role);
    memset(r.mask, 1, sizeof r.mask);
    for (uint32_t i = 0; i < NODES; i++)
        begin(&w, &r, i);
    run(&w, &r, 60);
    w.frozen[2] = true;
    run(&w, &r, 100000);
    ok(!exchange_complete(w.x[0], 1, 1),
       "a node is frozen: the mean stays away");
    ok(spread || (exchange_owes(w.x[0], 2) && !exchange_owes(w.x[0], 1)),
       "it is seen who owes");
    r.attempt = 2;
    r.spread = false;
    r.role[2] = 0;
    r.factor = .5f;
    for (uint32_t i = 0; i < NODES; i++)
        begin(&w, &r, i);
    ok(run(&w, &r, 100000), "the others go on as a star");
    reference(&w, &r, want);
    is_int((long long)finish(&w, &r, want), 0, "and have the same mean");

    w.frozen[2] = false;
    for (int i = 0; i < 2000; i++)
        turn(&w);
    exchange_drop(w.x[2]);
    node_jump(w.node[2], 1);
    r.step = 2;
    r.attempt = 1;
    r.spread = spread;
    memset(r.role, EXCHANGE_GIVES | EXCHANGE_TAKES, sizeof r.role);
    for (uint32_t i = 0; i < NODES; i++)
        begin(&w, &r, i);
    ok(run(&w, &r, 100000), "thawed, it takes part again");
    reference(&w, &r, want);
    is_int((long long)finish(&w, &r, want), 0, "with the right sums");
    is_int((long long)w.violations, 0, "one message at a time");
    destroy(&w);
}

static void give_early(struct world *w, uint64_t step, size_t *wrong)
{
    static const uint8_t all[LOCAL] = {MSG_OWN, MSG_OWN};

    for (uint32_t i = NODES; --i > 0;) {
        *wrong += !exchange_early(w->x[i], step, all);
        for (int k = 0; k < 20; k++)
            turn(w);
    }
}

/* Sums that come before they are asked for: they are what is asked for, or
 * something else is, or they are in the way. */
static void early(void)
{
    static struct world w;
    static float want[ELEMS];
    size_t wrong = 0, stuck = 0, waiting = 0;

    make(&w);
    for (uint64_t step = 1; step <= 12; step++) {
        struct round r = {.step = step, .factor = .25f};
        bool used = step % 3 == 1, refused = step % 3 == 2;
        memset(r.role, EXCHANGE_GIVES | EXCHANGE_TAKES, sizeof r.role);
        memset(r.mask, MSG_OWN, sizeof r.mask);
        give_early(&w, step, &wrong);
        if (refused) {
            exchange_refuse(w.x[0], step);
            run(&w, &r, 2000);
            for (uint32_t i = 1; i < NODES; i++)
                waiting += w.wire[i][0].state != IDLE;
        }
        if (!used) {
            random_round(&w, &r);
            r.attempt = 1;
        }
        for (uint32_t i = 0; i < (used ? 1 : NODES); i++)
            begin(&w, &r, i);
        if (!used) /* the plan has come */
            wrong += exchange_early(w.x[1], step, r.mask[1]);
        stuck += !run(&w, &r, 100000);
        reference(&w, &r, want);
        wrong += finish(&w, &r, want);
    }
    is_int((long long)stuck, 0, "early sums: every exchange ends");
    is_int((long long)wrong, 0, "with the same bits on every node");
    is_int((long long)waiting, 0, "refused ones keep no buffer");
    is_int((long long)w.violations, 0, "one message at a time");
    destroy(&w);
}

/* Bytes that each node sends: nobody more than its share. */
static void balance(void)
{
    static struct world w;
    struct round r = {.step = 1, .attempt = 1, .spread = true, .factor = 1};
    size_t most = 0;

    make(&w);
    memset(r.role, EXCHANGE_GIVES | EXCHANGE_TAKES, sizeof r.role);
    memset(r.mask, 1, sizeof r.mask);
    for (uint32_t i = 0; i < NODES; i++)
        begin(&w, &r, i);
    run(&w, &r, 100000);
    for (int i = 0; i < 2000; i++)
        turn(&w);
    for (uint32_t i = 0; i < NODES; i++)
        most = w.sent[i] > most ? w.sent[i] : most;
    ok((double)most < 2.2 * (NODES - 1) / NODES * ELEMS * sizeof(float),
       "spread: no node sends more than its share (%.2f gradients)",
       (double)most / (ELEMS * sizeof(float)));
    destroy(&w);
}

static void kernels(void)
{
    enum { N = 3000, ROWS = 14 };
    static float x[ROWS][N], out[N];
    const float *row[ROWS];
    size_t wrong = 0;

    for (uint32_t rows = 1; rows <= ROWS; rows++) {
        for (uint32_t r = 0; r < rows; r++) {
            row[r] = x[r];
            for (size_t i = 0; i < N; i++)
                x[r][i] = (float)rng_normal(&rng);
        }
        sum_rows(out, row, rows, .3f, N - rows);
        for (size_t i = 0; i < N - rows; i++) {
            float want = x[0][i];
            for (uint32_t r = 1; r < rows; r++)
                want += x[r][i];
            wrong += out[i] != want * .3f;
        }
        sum_rows(x[rows / 2], row, rows, .3f, N - rows);
        wrong += memcmp(x[rows / 2], out, (N - rows) * sizeof *out) != 0;
    }
    is_int((long long)wrong, 0, "sums of rows, also into one of them");
}

int main(void)
{
    rng_seed(&rng, 11, 0);
    kernels();
    steps(false, false);
    steps(true, false);
    steps(false, true);
    steps(true, true);
    frozen(false);
    frozen(true);
    early();
    balance();
    return done();
}
