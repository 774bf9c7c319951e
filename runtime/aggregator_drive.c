/* The aggregator's work in the hands of a worker of its process, which waits.
 *
 * The thread and the worker take turns, under a lock.  The thread's turns are for
 * what must be done now and then; it gets them as soon as it wants one.  While the
 * worker looks for events nobody need ring for the thread (node_watch); when it
 * stops looking, the thread is rung for what comes from then on.
 *
 * The worker's thread has the program's locale: no number with a fraction is read
 * or written in its turns. */
#include <sched.h>

#include "aggregator_priv.h"
#include "sys.h"

enum { LOOKS = 64 }; /* on end, whatever comes */

/* Ticks are short then, there is nobody but the node's workers to listen to, and
 * nothing happens at a time of its own. */
bool aggregator_drivable(const struct aggregator_config *config)
{
    return config->coord && !config->transport && !config->model &&
           config->coord->opt->work != DSGD_WORK_SHARED;
}

void aggregator_let_drive(struct aggregator *a)
{
    if (a->drivable)
        node_let_drive(a->node);
}

void aggregator_take_turn(struct aggregator *a)
{
    if (pthread_mutex_trylock(&a->turn) != 0) {
        atomic_store(&a->wanted, true);
        pthread_mutex_lock(&a->turn);
        atomic_store(&a->wanted, false);
    }
    node_watch(a->node);
}

static bool is_running(const struct aggregator *a)
{
    return atomic_load(&a->h->run) == SEG_RUNNING;
}

static bool try_turn(struct aggregator *a)
{
    if (!segment_driven(a->h) || atomic_load(&a->wanted) || !is_running(a) ||
        pthread_mutex_trylock(&a->turn) != 0)
        return false;
    node_watch(a->node);
    return true;
}

static bool look(struct aggregator *a)
{
    bool did = aggregator_pump_events(a, own_clock_s(&a->clock));

    aggregator_pump_request(a);
    did = coordinator_tick(a->c, own_clock_s(&a->clock)) || did;
    if (did)
        a->did_ns = a->clock.last_ns;
    return did;
}

/* False: there may be more.  The others may go on without this worker and keep it
 * from its own work for ever; and what comes at the end of a run is the
 * thread's. */
static bool look_at_all(struct aggregator *a)
{
    for (int i = 0; i < LOOKS && is_running(a); i++) {
        if (!look(a) || (coordinator_rests(a->c) && !node_waits(a->node)))
            return true;
    }
    return false;
}

bool aggregator_enter(struct aggregator *a)
{
    return try_turn(a);
}

/* From here on it is the thread that looks. */
static void hand_back(struct aggregator *a, bool all, bool computes)
{
    node_unwatch(a->node, computes && a->needs_all);
    if (!all || !is_running(a))
        sys_futex_ring(&a->h->agg_bell);
}

void aggregator_leave(struct aggregator *a, bool computes)
{
    bool all = look_at_all(a);

    if (computes && a->needs_all)
        node_reserve(a->node);
    pthread_mutex_unlock(&a->turn);
    hand_back(a, all, computes);
}

static bool look_once(struct aggregator *a)
{
    if (!try_turn(a))
        return false;
    bool did = look(a);
    pthread_mutex_unlock(&a->turn);
    return did;
}

bool aggregator_drive(struct aggregator *a, const _Atomic uint32_t *bell,
                      uint32_t seen)
{
    uint64_t start_ns = sys_now_ns(), spun_ns;
    bool rung = false;

    if (!segment_driven(a->h))
        return sys_futex_spin(bell, seen, 0);
    do {
        spun_ns = sys_now_ns() - start_ns;
        if (!look_once(a) && spun_ns >= SYS_HOLD_NS &&
            !sys_futex_look(bell, seen))
            sched_yield();
        rung = atomic_load(bell) != seen;
    } while (!rung && spun_ns < SYS_SPIN_NS);
    if (rung && a->needs_all) /* it has the mean, and computes next */
        hand_back(a, true, true);
    else if (try_turn(a))
        aggregator_leave(a, false);
    else
        hand_back(a, false, false);
    return rung;
}
