#include "preempt.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>

#include "sys.h"

enum { N_SIGNALS = 2 };
static const int signals[N_SIGNALS] = {SIGTERM, SIGUSR1};

static struct seg_header *_Atomic watched;
static _Atomic int inside;
static struct sigaction before[N_SIGNALS];

/* Atomics and a system call: safe in a handler. */
static void on_signal(int number)
{
    int saved = errno;

    (void)number;
    atomic_fetch_add(&inside, 1);
    struct seg_header *h = atomic_load(&watched);
    if (h) {
        atomic_fetch_or(&h->request, SEG_REQUEST_CHECKPOINT | SEG_REQUEST_END);
        sys_futex_ring(&h->agg_bell);
    }
    atomic_fetch_sub(&inside, 1);
    errno = saved;
}

bool preempt_watch(struct seg_header *h)
{
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct seg_header *none = NULL;

    if (!atomic_compare_exchange_strong(&watched, &none, h))
        return false;
    sigemptyset(&act.sa_mask);
    for (int i = 0; i < N_SIGNALS; i++) {
        sigaction(signals[i], NULL, &before[i]);
        if (before[i].sa_handler == SIG_DFL)
            sigaction(signals[i], &act, NULL);
    }
    return true;
}

void preempt_unwatch(void)
{
    struct sigaction now;

    for (int i = 0; i < N_SIGNALS; i++) {
        sigaction(signals[i], NULL, &now);
        if (now.sa_handler == on_signal)
            sigaction(signals[i], &before[i], NULL);
    }
    atomic_store(&watched, NULL);
    while (atomic_load(&inside))
        sched_yield();
}
