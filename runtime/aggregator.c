#include "aggregator_priv.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "c_locale.h"
#include "coordinator_checkpoint.h"
#include "error.h"
#include "sys.h"

enum { EVENTS = 256 }; /* in one message */

/* A nap starts short and grows by a share of itself while nothing comes: a nap
 * is about a quarter of what was waited already, one millisecond at most, and an
 * idle aggregator costs two per cent of a core. */
#define NAP_FIRST_NS UINT64_C(20000)
#define NAP_LAST_NS  UINT64_C(1000000)
#define NAP_ALONE_NS UINT64_C(50000000) /* no peers: the bell wakes */
#define NAP_BUSY_NS  UINT64_C(50000)    /* a gradient is on its way */
#define NAP_SHARE    4

/* Before it naps it only gives its core to others again and again, for so long
 * after something came, and when nobody on this node computes. */
#define SPIN_NS      UINT64_C(50000)
#define SPIN_IDLE_NS UINT64_C(100000)

#define LIFE_EVERY_S 0.5

void aggregator_destroy(struct aggregator *a)
{
    if (!a)
        return;
    if (a->t)
        a->t->ops->destroy(a->t);
    coordinator_destroy(a->c);
    exchange_destroy(a->x);
    timing_model_free(a->model);
    node_destroy(a->node);
    node_load_free(a->load);
    state_drop(&a->incoming.copy);
    state_drop(&a->giver.sender.copy);
    state_drop(&a->state);
    node_early_destroy(&a->early);
    pthread_mutex_destroy(&a->turn);
    free(a->events);
    free(a->show_shares);
    free(a->stuck);
    free(a->silent_s);
    free(a);
}

enum dsgd_err aggregator_create(struct aggregator_config *config,
                                struct aggregator **out, struct dsgd_error *err)
{
    struct aggregator *a = calloc(1, sizeof *a);
    enum dsgd_err rc;
    *out = NULL;
    if (!a)
        return error_set(err, DSGD_E_NOMEM, "aggregator: no memory");
    pthread_mutex_init(&a->turn, NULL);
    a->incoming.copy.fd = a->giver.sender.copy.fd = a->state.fd = -1;
    a->h = config->seg->h;
    a->index = config->node_index;
    own_clock_init(&a->clock);
    a->load = node_load_create();
    rc = node_create(config->seg, &a->node, err);
    if (rc == DSGD_OK) {
        uint32_t n = node_size(a->node);
        a->events = calloc(EVENTS, sizeof *a->events);
        a->stuck = calloc(n, sizeof *a->stuck);
        a->silent_s = calloc(n, sizeof *a->silent_s);
        a->show_shares = calloc(n, sizeof *a->show_shares);
        bool has_early = node_early_create(&a->early, n);
        if (!has_early || !a->events || !a->stuck || !a->silent_s ||
            !a->show_shares)
            rc = error_set(err, DSGD_E_NOMEM, "aggregator: no memory");
    }
    if (rc == DSGD_OK && config->transport)
        rc = exchange_create(a->node, config->transport, a->index,
                             config->n_nodes, &a->x, err);
    if (rc == DSGD_OK && config->coord) {
        config->coord->node = a->node;
        config->coord->exchange = a->x;
        config->coord->transport = config->transport;
        config->coord->clock = &a->clock;
        rc = coordinator_create(config->coord, &a->c, err);
    }
    if (rc != DSGD_OK) {
        aggregator_destroy(a);
        return rc;
    }
    a->t = config->transport;
    a->model = config->model;
    a->drivable = aggregator_drivable(config);
    a->needs_all = a->drivable && config->coord->cutoff->mode == CUTOFF_FULL;
    *out = a;
    return DSGD_OK;
}

void aggregator_record(struct aggregator *a, struct record *record)
{
    coordinator_record(a->c, record);
}

void aggregator_replay(struct aggregator *a, struct record_replay *replay)
{
    coordinator_replay(a->c, replay);
}

enum dsgd_err aggregator_checkpoints(struct aggregator *a,
                                     struct checkpoint_store *store,
                                     const struct checkpoint_read *c,
                                     struct dsgd_error *err)
{
    return checkpoints_create(a->c, store, c, err);
}

void aggregator_resume(struct aggregator *a, struct state_copy *state,
                       uint64_t step, uint64_t run_samples, double run_s)
{
    a->state = *state;
    a->resumed = step;
    state->fd = -1;
    state_announce(node_state_box(a->node), &a->state, step);
    node_resume(a->node, step, run_samples, (uint64_t)(run_s * 1e9));
}

/* All who live have taken what the run resumed from. */
static void forget_resumed(struct aggregator *a)
{
    if (!a->resumed || node_published(a->node) == a->resumed)
        return;
    a->resumed = 0;
    state_retract(node_state_box(a->node), &a->state);
    state_drop(&a->state);
}

bool aggregator_send(struct aggregator *a, const struct msg *m,
                     const void *body, size_t bytes)
{
    return a->t->ops->control(a->t, 0, m, body, bytes);
}

/* A worker's ring no longer has what it lacks: another worker of the node
 * copies its state, or else, also when those who were asked do not answer, the
 * coordinator is asked for one. */
static void find_state(struct aggregator *a, const struct msg_event *e)
{
    const uint64_t patience = 2;
    struct seg_state *box = node_state_box(a->node);
    uint64_t announced = atomic_load(&box->step);

    if (announced > e->step && node_state_serves(a->node, announced - 1)) {
        if (!e->value || announced != a->seen_state) {
            a->seen_state = announced;
            return; /* a copy is there */
        }
        atomic_store(&box->step, 0); /* it can't be read */
    }
    if (!node_ask_state(a->node, e->step) || e->value >= patience)
        a->wants_state = true;
}

/* Answer REVOKE, once all that was accepted before was told. */
static void send_return(struct aggregator *a)
{
    struct msg m;

    if (node_return(a->node, &m) && aggregator_send(a, &m, NULL, 0))
        node_returned(a->node);
}

/* Pass the workers' events on.  What can't be sent stays where it is. */
bool aggregator_pump_events(struct aggregator *a, double now_s)
{
    bool did = false;

    while (a->n_events < EVENTS &&
           node_event(a->node, &a->events[a->n_events])) {
        const struct msg_event *e = &a->events[a->n_events++];
        node_early_event(&a->early, e);
        if (e->kind == SEG_EVENT_BEHIND)
            find_state(a, e);
        if (e->kind == SEG_EVENT_RESYNCED)
            a->wants_state = false;
        did = true;
    }
    bool all = a->n_events < EVENTS;
    uint64_t published = node_published(a->node);
    if (!a->n_events && (a->c || a->told == published)) {
        send_return(a);
        return did;
    }
    if (a->c) {
        coordinator_events(a->c, 0, a->events, a->n_events, now_s);
        a->n_events = 0;
        return true;
    }
    struct msg m = {.kind = MSG_EVENTS, .count = a->n_events};
    m.u.node.published = published;
    if (aggregator_send(a, &m, a->events, a->n_events * sizeof *a->events)) {
        a->n_events = 0;
        a->told = published;
        if (all)
            send_return(a);
    }
    return did;
}

static void send_load(struct aggregator *a, const float *value)
{
    struct msg m = {.kind = MSG_LOAD, .count = DSGD_N_TELEMETRY};

    if (a->c)
        coordinator_telemetry(a->c, 0, value);
    else
        aggregator_send(a, &m, value, DSGD_N_TELEMETRY * sizeof *value);
}

void aggregator_pump_request(struct aggregator *a)
{
    struct msg m = {.kind = MSG_REQUEST};

    a->request |= node_request(a->node);
    m.flags = a->request;
    if (!a->request)
        return;
    if (a->c)
        checkpoints_request(a->c, a->request);
    if (a->c || aggregator_send(a, &m, NULL, 0))
        a->request = 0;
}

static void pump_life(struct aggregator *a, double now_s)
{
    struct msg m = {.kind = MSG_LIFE, .count = node_size(a->node)};
    float value[DSGD_N_TELEMETRY];

    if (a->finished || now_s - a->life_s < LIFE_EVERY_S)
        return;
    a->life_s = now_s;
    forget_resumed(a);
    if (node_load_look(a->load, node_cpu_s(a->node), now_s, value))
        send_load(a, value);
    node_life(a->node, a->silent_s);
    m.u.node.published = node_published(a->node);
    m.u.node.state_bytes = atomic_load(&a->h->state_bytes);
    m.u.node.wants_state = a->wants_state;
    if (a->c)
        coordinator_life(a->c, 0, a->silent_s, &m, now_s);
    else
        aggregator_send(a, &m, a->silent_s, m.count * sizeof *a->silent_s);
}

static void on_close(struct aggregator *a, const struct msg *m,
                     const uint8_t *body, size_t bytes)
{
    uint32_t n = node_size(a->node);
    struct exchange_plan plan = {.step = m->step,
                                 .attempt = m->attempt,
                                 .spread = (m->flags & MSG_SPREAD) != 0,
                                 .factor = m->u.close.factor,
                                 .role = body + n};

    if (m->step != node_published(a->node) + 1 || m->count != n ||
        bytes != n + exchange_nodes(a->x))
        return; /* this node was taken out of that step */
    exchange_begin(a->x, &plan, body);
}

static void on_show(struct aggregator *a, const struct msg *m,
                    const void *shares, size_t bytes)
{
    size_t want = node_size(a->node) * sizeof *a->show_shares;

    if (bytes != want || m->step != node_published(a->node) + 1)
        return;
    a->show = *m;
    memcpy(a->show_shares, shares, want);
}

/* The mean may be shown, and all of it has come. */
static bool show(struct aggregator *a)
{
    if (a->show.kind != MSG_SHOW ||
        !exchange_complete(a->x, a->show.step, a->show.attempt))
        return false;
    a->show.kind = 0;
    node_commit(a->node, &a->show);
    exchange_committed(a->x);
    node_show(a->node, &a->show, a->show_shares);
    return true;
}

static void on_publish(struct aggregator *a, const struct msg *m,
                       const void *body, size_t bytes)
{
    size_t shares = node_size(a->node) * sizeof(struct msg_share);
    size_t mean = node_grad_elems(a->node) * sizeof(float);

    if (bytes != shares + mean || m->step != node_published(a->node) + 1)
        return;
    exchange_drop(a->x);
    a->show.kind = 0;
    memcpy(node_reserve(a->node), (const char *)body + shares, mean);
    node_commit(a->node, m);
    node_show(a->node, m, body);
}

static void on_state(struct aggregator *a, uint32_t node, const struct msg *m,
                     const void *body, size_t bytes)
{
    struct state_copy *copy = &a->incoming.copy;

    if (!state_receive(&a->incoming, node, m, body, bytes))
        return;
    if (state_announce(node_state_box(a->node), copy, m->step)) {
        state_drop(&a->state);
        a->resumed = 0;
        a->state = *copy;
        copy->fd = -1;
    }
    state_drop(copy);
    a->wants_state = false;
    if (!a->c) { /* the coordinator's node is never behind itself */
        if (m->step > node_published(a->node)) {
            exchange_drop(a->x);
            a->show.kind = 0;
        }
        node_jump(a->node, m->step);
    }
    sys_futex_ring(&a->h->worker_bell);
}

/* What other nodes say to the coordinator. */
static void on_coordinator(struct aggregator *a, uint32_t node,
                           const struct msg *m, const void *body, size_t bytes)
{
    double now_s = own_clock_s(&a->clock);

    switch (m->kind) {
    case MSG_EVENTS:
        coordinator_has(a->c, node, m->u.node.published);
        coordinator_events(a->c, node, body, m->count, now_s);
        break;
    case MSG_LIFE:
        coordinator_has(a->c, node, m->u.node.published);
        coordinator_life(a->c, node, body, m, now_s);
        break;
    case MSG_LOAD:
        coordinator_telemetry(a->c, node, body);
        break;
    case MSG_REQUEST:
        checkpoints_request(a->c, m->flags);
        break;
    case MSG_RETURN:
        coordinator_returned(a->c, node, m, now_s);
        break;
    case MSG_STATE:
        on_state(a, node, m, body, bytes);
        a->t->ops->release(a->t, node);
        break;
    case MSG_BYE:
        coordinator_bye(a->c, node, body);
        break;
    case MSG_DONE:
        coordinator_done(a->c, node);
        break;
    default:
        break;
    }
}

static void on_end(struct aggregator *a, const struct msg *m)
{
    a->end = *m;
    a->told_s = own_clock_s(&a->clock);
    a->hard_timeout_s = m->u.end.hard_timeout_s;
}

/* What the coordinator says to other nodes. */
static void on_node(struct aggregator *a, uint32_t node, const struct msg *m,
                    const void *body, size_t bytes)
{
    switch (m->kind) {
    case MSG_CLOSE:
        on_close(a, m, body, bytes);
        break;
    case MSG_SHOW:
        on_show(a, m, body, bytes);
        break;
    case MSG_START:
        if (bytes == node_size(a->node) * sizeof(struct msg_share))
            node_start(a->node, m->step, body);
        break;
    case MSG_POOL:
    case MSG_SCRIPT:
    case MSG_TOKENS:
    case MSG_REVOKE:
    case MSG_KNOWN:
        node_message(a->node, m, body, bytes);
        break;
    case MSG_LATEST:
        if (bytes == node_size(a->node) * sizeof(float))
            node_latest(a->node, m->step, body);
        break;
    case MSG_PUBLISH:
        on_publish(a, m, body, bytes);
        a->t->ops->release(a->t, node);
        break;
    case MSG_STATE:
        on_state(a, node, m, body, bytes);
        a->t->ops->release(a->t, node);
        break;
    case MSG_GIVE:
        a->giver.asked = true;
        a->giver.least = m->step;
        break;
    case MSG_END:
        on_end(a, m);
        break;
    case MSG_REAP:
        a->may_reap = true;
        break;
    default:
        break;
    }
}

static void on_message(void *context, uint32_t node, const struct msg *m,
                       const void *body, size_t bytes)
{
    struct aggregator *a = context;

    if (m->kind == MSG_SUM || m->kind == MSG_MEAN) {
        exchange_message(a->x, node, m, body, bytes);
    } else if (a->c) {
        on_coordinator(a, node, m, body, bytes);
    } else {
        node_early_message(&a->early, m);
        on_node(a, node, m, body, bytes);
    }
}

/* How long to sleep when nothing came: the bell, which wakes, does not ring for
 * messages.  The coordinator may want to look again earlier. */
static uint64_t nap_limit(struct aggregator *a, uint64_t nap_ns)
{
    if (!a->t)
        nap_ns = NAP_ALONE_NS;
    else if (exchange_active(a->x) && nap_ns > NAP_BUSY_NS)
        nap_ns = NAP_BUSY_NS;
    double left_s =
        a->c ? coordinator_next_s(a->c) - own_clock_s(&a->clock) : INFINITY;

    if (left_s * 1e9 >= (double)nap_ns)
        return nap_ns;
    return left_s > 0 ? (uint64_t)(left_s * 1e9) : 0;
}

/* Whatever there is to do.  Returns whether there was anything.
 *   broken  out  set when this node is cut off from the others */
static bool look(struct aggregator *a, bool *broken)
{
    double now_s = own_clock_s(&a->clock);
    bool did = aggregator_pump_events(a, now_s);

    if (a->t) {
        int got = a->t->ops->poll(a->t, on_message, a);
        *broken = got < 0;
        if (*broken) {
            node_break(a->node, a->t->error.text);
            return false;
        }
        did = did || got > 0;
    }
    pump_life(a, now_s);
    aggregator_pump_request(a);
    if (a->c)
        did = coordinator_tick(a->c, own_clock_s(&a->clock)) || did;
    else if (!a->ended)
        did = state_giver_pump(&a->giver, a->node, a->t, now_s) || did;
    did = node_early_give(&a->early, a->node, a->x) || did;
    if (a->x)
        did = exchange_pump(a->x) || did;
    did = show(a) || did;
    aggregator_end_node(a, now_s);
    aggregator_pump_end(a, now_s);
    return did;
}

/* Nothing has come for so long that it is better to sleep. */
static bool is_quiet(const struct aggregator *a)
{
    uint64_t spin_ns = a->t && node_idle(a->node) ? SPIN_IDLE_NS : SPIN_NS;

    if (segment_driven(a->h) && !a->ended) /* the worker looks when it waits */
        return true;
    return sys_now_ns() - a->did_ns >= spin_ns;
}

static void *run(void *argument)
{
    struct aggregator *a = argument;
    uint64_t nap_ns = NAP_FIRST_NS;
    bool broken = false;

    prctl(PR_SET_TIMERSLACK, 1000UL); /* short naps are short */
    c_locale_enter();
    for (;;) {
        aggregator_take_turn(a);
        uint32_t bell = node_bell(a->node);
        bool over = a->finished && aggregator_drained(a);
        bool did = !over && look(a, &broken);
        if (did)
            a->did_ns = sys_now_ns();
        bool quiet = !did && is_quiet(a);
        uint64_t limit_ns = quiet ? nap_limit(a, nap_ns) : 0;
        pthread_mutex_unlock(&a->turn);
        if (over || broken)
            return NULL;
        if (quiet) {
            node_nap(a->node, bell, limit_ns);
            nap_ns += nap_ns / NAP_SHARE;
            nap_ns = nap_ns < NAP_LAST_NS ? nap_ns : NAP_LAST_NS;
        } else if (!did) {
            sched_yield();
        } else {
            nap_ns = NAP_FIRST_NS;
        }
    }
}

enum dsgd_err aggregator_start(struct aggregator *a, struct dsgd_error *err)
{
    enum dsgd_err rc = sys_thread_start(&a->thread, run, a, "aggregator", err);
    if (rc != DSGD_OK)
        return rc;
    a->started = true;
    return DSGD_OK;
}

void aggregator_join(struct aggregator *a)
{
    if (a->started && !a->joined) {
        a->joined = true;
        pthread_join(a->thread, NULL);
    }
}
