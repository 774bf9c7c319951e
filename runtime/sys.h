/* Clocks, futexes and threads. */
#ifndef DSGD_SYS_H
#define DSGD_SYS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "dsgd_error.h"

/* CLOCK_MONOTONIC in nanoseconds; no system call. */
uint64_t sys_now_ns(void);

/* Processor time of this process, seconds. */
double sys_cpu_s(void);

/* … and of the calling thread. */
double sys_thread_cpu_s(void);

/* Sleep until *word differs from seen, a wake-up, a signal, or timeout_ns has
 * passed (UINT64_MAX: no limit).  Works across processes that share the page.
 */
void sys_futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns);

/* A few looks: whether *word differs from seen. */
bool sys_futex_look(const _Atomic uint32_t *word, uint32_t seen);

/* Look for 50 us at most whether *word differs from seen, and return whether it
 * does.  For what usually comes sooner than a sleeper wakes up.  The core is
 * given to others again and again, after hold_ns. */
enum {
    SYS_SPIN_NS = 50000,
    SYS_HOLD_NS = 5000 /* of who has a core of its own */
};
bool sys_futex_spin(const _Atomic uint32_t *word, uint32_t seen,
                    uint64_t hold_ns);

/* Add one to *word and wake all that wait on it. */
void sys_futex_ring(_Atomic uint32_t *word);

/* Add one to *word and wake at most n that wait on it. */
void sys_futex_ring_some(_Atomic uint32_t *word, int n);

/* As pthread_create, and with every signal blocked in the thread: they are the
 * program's, which may have blocked them in its own threads alone, and a file
 * size limit is an error in the thread and not a SIGXFSZ.
 *   whose  in  for the message
 * Errors: DSGD_E_NOMEM. */
enum dsgd_err sys_thread_start(pthread_t *thread, void *(*start)(void *),
                               void *argument, const char *whose,
                               struct dsgd_error *err);

/* User and system time of a process in clock ticks, 0 when it is gone. */
uint64_t sys_process_ticks(int pid);

/* A clock that stands still while its owner does: a process that was stopped
 * or frozen must not hold its own absence against the others.  Call
 * own_clock_s at least every OWN_CLOCK_GAP_S / 2 while running. */
#define OWN_CLOCK_GAP_S 1.0
struct own_clock {
    uint64_t last_ns;
    uint64_t paused_ns;
};
void own_clock_init(struct own_clock *c);

/* Seconds, monotonic, without pauses longer than OWN_CLOCK_GAP_S. */
double own_clock_s(struct own_clock *c);

#endif
