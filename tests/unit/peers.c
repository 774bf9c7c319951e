/* What the coordinator does for a worker of its own node that lacks a state:
 * which node it asks for one, and that early sums do not stand in its way.
 *
 * A node has one buffer for bulky messages.  One that sent its sum before it
 * was asked for waits with it for the step's end, the step for the worker, and
 * the worker for a state that comes through that buffer: the sum is refused. */
#include <string.h>

#include "../first_node.h"
#include "tap.h"

enum { NODES = 3, WORKERS = 3, HARD_TIMEOUT_S = 100 };
static const uint32_t worker_node[WORKERS] = {0, 1, 2};

struct world {
    struct first_node first; /* first */
    unsigned gives[NODES], closes[NODES], means[NODES], released[NODES];
    uint64_t give_step; /* of the last MSG_GIVE */
    bool takes_control, takes_bulk[NODES];
};

static double virtual_s; /* of all clocks: linked with --wrap=own_clock_s */

double __wrap_own_clock_s(struct own_clock *clock);
double __wrap_own_clock_s(struct own_clock *clock)
{
    (void)clock;
    return virtual_s;
}

static bool control(struct transport *t, uint32_t node, const struct msg *m,
                    const void *body, size_t bytes)
{
    struct world *w = (struct world *)t;

    (void)body;
    (void)bytes;
    if (!w->takes_control)
        return false;
    w->gives[node] += m->kind == MSG_GIVE;
    w->closes[node] += m->kind == MSG_CLOSE;
    if (m->kind == MSG_GIVE)
        w->give_step = m->step;
    return true;
}

static bool takes_bulk(struct transport *t, uint32_t node)
{
    return ((struct world *)t)->takes_bulk[node];
}

static void bulk(struct transport *t, uint32_t node, const struct msg *m,
                 const void *body, size_t bytes, const void *tail,
                 size_t tail_bytes)
{
    (void)body;
    (void)bytes;
    (void)tail;
    (void)tail_bytes;
    ((struct world *)t)->means[node] += m->kind == MSG_PUBLISH;
}

static void release(struct transport *t, uint32_t node)
{
    ((struct world *)t)->released[node]++;
}

static const struct transport_ops ops = {.control = control,
                                         .bulk_idle = takes_bulk,
                                         .bulk = bulk,
                                         .release = release,
                                         .drained = takes_bulk};

static void tell(struct world *w, uint32_t node, enum seg_event_kind kind,
                 uint64_t step, uint64_t value)
{
    struct msg_event e = {
        .kind = kind, .step = step, .value = value, .fraction = 1};

    coordinator_events(w->first.c, node, &e, 1, virtual_s);
}

static void life(struct world *w, uint32_t node, bool wants_state)
{
    struct msg m = {.kind = MSG_LIFE, .count = 1};
    float silent_s = 0;

    m.u.node.wants_state = wants_state;
    m.u.node.state_bytes = sizeof(float);
    coordinator_life(w->first.c, node, &silent_s, &m, virtual_s);
}

/* As the aggregator's loop, for a while. */
static void turn(struct world *w)
{
    for (int i = 0; i < 20; i++) {
        virtual_s += .001;
        coordinator_tick(w->first.c, virtual_s);
        exchange_pump(w->first.x);
    }
}

static void send_sum(struct world *w, uint32_t node, uint64_t step,
                     uint32_t attempt)
{
    static const float sum = 1;
    struct msg m = {
        .kind = MSG_SUM, .count = 1, .attempt = attempt, .step = step};

    exchange_message(w->first.x, node, &m, &sum, sizeof sum);
    turn(w);
}

/* A node's only worker gives its share, and other nodes than the first their
 * sums, early. */
static void give(struct world *w, uint32_t node, uint64_t step)
{
    tell(w, node, SEG_EVENT_COMMIT, step, 4);
    turn(w);
    if (node)
        send_sum(w, node, step, EXCHANGE_EARLY);
}

/* The first step is published, and the second open. */
static bool begin(struct world *w)
{
    struct dsgd_options opt = {.grad_elems = 1,
                               .n_samples = 1 << 20,
                               .batch = 4,
                               .epochs = 1,
                               .hard_timeout_s = HARD_TIMEOUT_S,
                               .spread_bytes = 4096,
                               .cutoff = "full"};

    *w = (struct world){.first.t.ops = &ops,
                        .takes_control = true,
                        .takes_bulk = {true, true, true}};
    virtual_s = 1;
    if (first_node_create(&w->first, &opt, 0, WORKERS, NODES, worker_node, NULL,
                          NULL) != DSGD_OK)
        return false;
    for (uint32_t i = 0; i < NODES; i++)
        tell(w, i, SEG_EVENT_READY, 1, 0);
    turn(w);
    for (uint32_t i = 0; i < NODES; i++)
        give(w, i, 1);
    for (uint32_t i = 1; i < NODES; i++) {
        coordinator_has(w->first.c, i, 1);
        w->released[i] = 0;
    }
    return w->means[1] == 1 && w->means[2] == 1 && !w->closes[1] &&
           !w->closes[2];
}

static void test_refused(void)
{
    struct world w;

    ok(begin(&w), "a step is published from early sums");
    give(&w, 1, 2);
    ok(!w.released[1] && !w.gives[1] && !w.gives[2],
       "an early sum waits for the step's end");
    life(&w, 0, true);
    turn(&w);
    ok(w.released[1] == 1,
       "when a state is wanted its sender's buffer is free again");
    ok(w.gives[1] + w.gives[2] == 1 && w.give_step == 1,
       "another node is asked for one");
    give(&w, 2, 2);
    ok(w.released[2] == 1, "an early sum that comes after that is refused");
    life(&w, 0, false);
    turn(&w);
    ok(!w.closes[1] && !w.closes[2], "the step waits for the worker");
    give(&w, 0, 2);
    ok(w.closes[1] == 1 && w.closes[2] == 1,
       "and the sums are asked for again at its end");
    first_node_destroy(&w.first);
}

/* The next that is asked, after a while; which: node 1 or 2, 0: none. */
static uint32_t next_asked(struct world *w)
{
    unsigned before = w->gives[1];
    unsigned all = before + w->gives[2];

    virtual_s += .2;
    turn(w);
    if (w->gives[1] + w->gives[2] == all)
        return 0;
    return w->gives[1] > before ? 1 : 2;
}

static void test_whom(void)
{
    struct world w;
    uint32_t first, again;

    ok(begin(&w), "a run of three nodes");
    life(&w, 0, true);
    first = next_asked(&w);
    turn(&w);
    ok(first && w.gives[1] + w.gives[2] == 1, "one is asked, once at a time");
    again = next_asked(&w);
    ok(again && again != first, "then the other");
    life(&w, 1, true);
    ok(next_asked(&w) == 2 && next_asked(&w) == 2,
       "not one that lacks a state itself");
    life(&w, 2, true);
    is_int(next_asked(&w), 0, "where all lack one nobody is asked");
    life(&w, 1, false);
    w.takes_control = false;
    is_int(next_asked(&w), 0, "nor one that takes no messages");
    w.takes_control = true;
    is_int(next_asked(&w), 1, "until it takes them");
    life(&w, 2, false);
    life(&w, 0, false);
    is_int(next_asked(&w), 0, "nor any more when the state is there");
    first_node_destroy(&w.first);
}

/* The sum of node 2 does not come, and it is taken out of the second step. */
static void lose_node_2(struct world *w)
{
    give(w, 0, 2);
    give(w, 1, 2);
    tell(w, 2, SEG_EVENT_COMMIT, 2, 4);
    turn(w);
    virtual_s += HARD_TIMEOUT_S + 1;
    life(w, 0, false);
    life(w, 1, false);
    turn(w);
    send_sum(w, 1, 2, EXCHANGE_EARLY + 1);
}

static void test_lost(void)
{
    struct world w;

    ok(begin(&w), "a run of three nodes");
    lose_node_2(&w);
    is_int(w.means[1], 2, "a step goes on without one of them");
    life(&w, 0, true);
    ok(next_asked(&w) == 1 && next_asked(&w) == 1,
       "which is not asked for a state");
    life(&w, 2, false);
    ok(next_asked(&w) + next_asked(&w) == 3, "until it is heard of again");
    first_node_destroy(&w.first);
}

/* A state before the means that a node has is of no use to it. */
static void test_behind(void)
{
    struct world w;

    ok(begin(&w), "a run of three nodes");
    w.takes_bulk[2] = false;
    for (uint32_t i = 0; i < NODES; i++)
        give(&w, i, 2);
    ok(w.means[1] == 2 && w.means[2] == 1, "one has not taken the last mean");
    life(&w, 1, true);
    is_int(next_asked(&w), 0, "and is not asked for what another node lacks");
    w.takes_bulk[2] = true;
    turn(&w);
    is_int(next_asked(&w), 2, "until it has");
    is_int((long long)w.give_step, 2, "a state after the last mean");
    first_node_destroy(&w.first);
}

/* A worker of the coordinator's own node that has applied all means gives its
 * state, and nothing is refused. */
static void test_own_node(void)
{
    struct world w;

    ok(begin(&w), "a run whose first node has a state");
    give(&w, 1, 2);
    atomic_store(&w.first.seg.workers[0].applied, 1);
    life(&w, 0, true);
    turn(&w);
    ok(atomic_load(&w.first.seg.workers[0].give_state) && !w.gives[1] &&
           !w.gives[2] && !w.released[1],
       "a worker of the same node is asked first, and no sum refused");
    first_node_destroy(&w.first);
}

int main(void)
{
    test_refused();
    test_whom();
    test_lost();
    test_behind();
    test_own_node();
    return done();
}
