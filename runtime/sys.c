#include "sys.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "error.h"

/* Leave the memory bus to the other cores for a moment. */
static inline void relax(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

uint64_t sys_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

double sys_cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double sys_thread_cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void sys_futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns)
{
    struct timespec t = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                         .tv_nsec = (long)(timeout_ns % 1000000000u)};
    syscall(SYS_futex, word, FUTEX_WAIT, seen,
            timeout_ns == UINT64_MAX ? NULL : &t, NULL, 0);
}

/* A system call takes as long as a dozen looks. */
bool sys_futex_look(const _Atomic uint32_t *word, uint32_t seen)
{
    for (int i = 0; i < 8; i++) {
        if (atomic_load(word) != seen)
            return true;
        relax();
    }
    return false;
}

bool sys_futex_spin(const _Atomic uint32_t *word, uint32_t seen,
                    uint64_t hold_ns)
{
    uint64_t start = sys_now_ns();

    while (!sys_futex_look(word, seen)) {
        uint64_t spun_ns = sys_now_ns() - start;
        if (spun_ns >= SYS_SPIN_NS)
            return false;
        if (spun_ns >= hold_ns)
            sched_yield();
    }
    return true;
}

void sys_futex_ring_some(_Atomic uint32_t *word, int n)
{
    atomic_fetch_add(word, 1);
    syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0);
}

void sys_futex_ring(_Atomic uint32_t *word)
{
    sys_futex_ring_some(word, INT32_MAX);
}

enum dsgd_err sys_thread_start(pthread_t *thread, void *(*start)(void *),
                               void *argument, const char *whose,
                               struct dsgd_error *err)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, start, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return error_set(err, DSGD_E_NOMEM,
                         "%s: no thread: %s; a limit on processes (ulimit -u, "
                         "pids.max of the cgroup) may be too low",
                         whose, strerror(error));
    return DSGD_OK;
}

void own_clock_init(struct own_clock *c)
{
    c->last_ns = sys_now_ns();
    c->paused_ns = c->last_ns; /* it starts at 0 */
}

double own_clock_s(struct own_clock *c)
{
    uint64_t now = sys_now_ns(), gap = now - c->last_ns;

    if ((double)gap > OWN_CLOCK_GAP_S * 1e9)
        c->paused_ns += gap;
    c->last_ns = now;
    return (double)(now - c->paused_ns) * 1e-9;
}

uint64_t sys_process_ticks(int pid)
{
    char path[32], line[1024];
    unsigned long user = 0, system = 0;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    size_t got = fread(line, 1, sizeof line - 1, f);
    fclose(f);
    line[got] = '\0';
    char *fields = strrchr(line, ')'); /* the name may hold anything */
    if (!fields || sscanf(fields + 1,
                          " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu "
                          "%lu",
                          &user, &system) != 2)
        return 0;
    return user + system;
}
