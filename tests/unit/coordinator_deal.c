/* What the coordinator says to nodes in a step of shared work, message by
 * message: a worker that waits and then dies or leaves is not waited for. */
#include "../first_node.h"
#include "coordinator_loads.h"
#include "coordinator_parts_priv.h"
#include "coordinator_shares.h"
#include "model_data.h"
#include "tap.h"

enum { NODES = 3, WORKERS = 4, PART = 2 };
static const uint32_t worker_node[WORKERS] = {0, 1, 1, 2};

struct world {
    struct first_node first; /* first */
    double now_s;
    uint64_t parts[NODES], tokens[NODES], done[NODES]; /* samples */
    bool revoked[NODES];
};

static bool control(struct transport *t, uint32_t node, const struct msg *m,
                    const void *body, size_t bytes)
{
    struct world *w = (struct world *)t;
    const struct msg_range *range = body;

    (void)bytes;
    if (m->kind == MSG_POOL || m->kind == MSG_TOKENS)
        w->tokens[node] += m->u.pool.tokens;
    for (uint32_t i = 0; m->kind == MSG_POOL && i < m->count; i++)
        w->parts[node] += range[i].count;
    w->revoked[node] = w->revoked[node] || m->kind == MSG_REVOKE;
    return true;
}

static const struct transport_ops ops = {.control = control,
                                         .bulk_idle = first_node_idle,
                                         .drained = first_node_idle};

static void tell(struct world *w, uint32_t node, uint32_t worker,
                 enum seg_event_kind kind, uint64_t value)
{
    struct msg_event e = {
        .worker = worker, .kind = kind, .step = 1, .value = value};

    coordinator_events(w->first.c, node, &e, 1, w->now_s);
}

static bool tick(struct world *w)
{
    w->now_s += .001;
    return coordinator_tick(w->first.c, w->now_s);
}

/* A node's worker gives all parts that may be accepted, and wants more. */
static void give(struct world *w, uint32_t node, uint32_t worker)
{
    while (w->done[node] + PART <= w->tokens[node] &&
           w->done[node] + PART <= w->parts[node]) {
        tell(w, node, worker, SEG_EVENT_PART,
             w->done[node] / PART << 32 | PART);
        w->done[node] += PART;
    }
    tell(w, node, worker, SEG_EVENT_WAITS, PART);
}

/* The first step is open: its tokens are with the nodes, but some. */
static bool begin(struct world *w)
{
    struct dsgd_options opt = {.grad_elems = 1,
                               .n_samples = 1 << 20,
                               .batch = 4 * PART,
                               .parts = 4,
                               .epochs = 1,
                               .work = DSGD_WORK_SHARED,
                               .cutoff = "full"};

    *w = (struct world){.first.t.ops = &ops, .now_s = 1};
    if (first_node_create(&w->first, &opt, 0, WORKERS, NODES, worker_node, NULL,
                          NULL) != DSGD_OK)
        return false;
    for (uint32_t k = 0, local = 0; k < WORKERS; k++) {
        local = k && worker_node[k] == worker_node[k - 1] ? local + 1 : 0;
        tell(w, worker_node[k], local, SEG_EVENT_READY, 0);
    }
    while (tick(w))
        ;
    return w->tokens[1] && w->tokens[2];
}

/* Whether node 1, of which a worker waited and `then` came, is asked for its
 * tokens when only node 2 works. */
static bool asked(enum seg_event_kind then)
{
    struct world w;
    bool good = begin(&w);

    if (good) {
        tell(&w, 1, 1, SEG_EVENT_WAITS, PART);
        tell(&w, 1, 1, then, SEG_DIED_FINAL | 9);
        for (int i = 0; i < 50; i++) {
            give(&w, 2, 0);
            tick(&w);
        }
        good = w.revoked[1];
    }
    first_node_destroy(&w.first);
    return good;
}

/* Of workers that gave nothing until the close, at 2 s: with a first part of 6
 * samples since .5 s; with one that was withdrawn at 1.5 s; with a single one;
 * not begun. */
static void bounds(void)
{
    uint64_t first[] = {6, 0, 0, 6}, lost[] = {0, 6, 0, 0};
    double lost_s[] = {0, 1.5, 0, 0}, since_s[] = {.5, .5, .5, NAN};
    struct deal d = {.part = PART,
                     .first = first,
                     .lost = lost,
                     .lost_s = lost_s,
                     .since_s = since_s};
    struct coordinator c = {.deal = &d, .close_s = 2, .opt.batch = 12};

    is_int(llround(deal_at_least_s(&c, 0)), 3, "a first part: half a batch");
    is_int(llround(deal_at_least_s(&c, 1)), 2, "until it was withdrawn");
    is_int(llround(deal_at_least_s(&c, 2)), 9, "a single part: a sixth");
    ok(isnan(deal_at_least_s(&c, 3)), "not begun");
}

/* A saved throughput that cannot be one is refused, and what was there
 * stays. */
static void saved_throughput(void)
{
    static const double wrong[] = {NAN, -1, INFINITY};
    uint32_t worker[] = {0, 1};
    struct peer peer = {.n_local = 2, .worker = worker};
    struct deal d = {.part = PART};
    struct coordinator c = {.deal = &d,
                            .peer = &peer,
                            .n_workers = 2,
                            .n_nodes = 1,
                            .opt.batch = 4 * PART,
                            .opt.parts = 4};
    struct cutoff_spec cutoff = {.mode = CUTOFF_DYNAMIC};
    struct coordinator_config config = {.cutoff = &cutoff,
                                        .model = data_default_model()};
    struct dsgd_error err = {""};

    if (!config.model || sizes_create(&c, &config, &err) != DSGD_OK) {
        ok(false, "sizes: %s", err.text);
        return;
    }
    size_t bytes = sizes_state_bytes(&c), refused = 0;
    char *good = malloc(bytes), *bad = malloc(bytes);
    sizes_state_save(&c, good);
    is_int(sizes_state_load(&c, good, bytes, &err), DSGD_OK, "its own state");
    for (size_t i = 0; i < 9; i++) {
        size_t at = sizeof(uint64_t) + i / 3 * sizeof(double);
        memcpy(bad, good, bytes);
        memcpy(bad + at, &wrong[i % 3], sizeof(double));
        refused += sizes_state_load(&c, bad, bytes, &err) == DSGD_E_FORMAT;
    }
    is_int((long long)refused, 9, "no throughput: refused");
    has_str(err.text, "throughput", "says so");
    sizes_state_save(&c, bad);
    ok(memcmp(good, bad, bytes) == 0, "what was there stays");
    free(good);
    free(bad);
    sizes_free(&c);
    loads_free(&c);
    timing_model_free((struct timing_model *)config.model);
}

int main(void)
{
    bounds();
    saved_throughput();
    ok(!asked(SEG_EVENT_READY), "a node with one who waits keeps its tokens");
    ok(asked(SEG_EVENT_DIED), "it is asked for them when that one has died");
    ok(asked(SEG_EVENT_LEAVE), "or left");
    return done();
}
