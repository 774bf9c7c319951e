#include "run_team.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cause.h"
#include "error.h"
#include "run_child.h"
#include "run_label.h"
#include "run_oom.h"
#include "sys.h"

/* From the second process in a row that lives shorter than this, it is not
 * started again at once: the pause doubles each time. */
#define QUICK_S      5.0
#define PAUSE_S      0.5
#define LONG_PAUSE_S 30.0
/* A stuck worker that was asked to end is killed so long after. */
#define STUCK_S 5.0

struct member {
    pid_t pid;         /* 0: no process */
    uint32_t restarts; /* so far */
    uint32_t quick;    /* deaths in a row that came quickly */
    uint64_t started_ns;
    uint64_t due_ns;  /* is started again then; 0: is not */
    uint64_t reap_ns; /* was found stuck at the end; 0: was not */
    uint64_t died;    /* what its last process ended of, see SEG_EVENT_DIED */
    bool gone;        /* no other will take its place */
    bool lost;        /* … and it had more to give */
};

struct run_team {
    struct run_team_spec spec;
    struct segment *seg; /* NULL: not made yet */
    struct member *member;
    struct run_label *label; /* [2 * n], or NULL */
    struct pollfd *poll;     /* [1 + 2 * n] */
    int signal_fd;
    uint64_t oom_kills;
    bool interrupted;
    int failed, last_death;
};

static const int watched[] = {SIGCHLD, SIGTERM, SIGINT,
                              SIGHUP,  SIGUSR1, SIGUSR2};
enum { N_WATCHED = sizeof watched / sizeof watched[0] };

static sigset_t watched_set(void)
{
    sigset_t set;

    sigemptyset(&set);
    for (int i = 0; i < N_WATCHED; i++)
        sigaddset(&set, watched[i]);
    return set;
}

void run_team_signals(void)
{
    sigset_t set = watched_set();

    sigprocmask(SIG_BLOCK, &set, NULL);
}

static uint64_t oom_kills(void)
{
    return run_oom_count("/proc/self/cgroup", "/sys/fs/cgroup");
}

static void say(const struct run_team *t, uint32_t i, const char *text)
{
    fprintf(stderr, "dsgd-run: worker %u on %s %s\n",
            t->spec.place.first_rank + i, t->spec.host, text);
}

enum dsgd_err run_team_create(const struct run_team_spec *spec,
                              struct run_team **out, struct dsgd_error *err)
{
    uint32_t n = spec->place.n_local;
    struct run_team *t = calloc(1, sizeof *t);
    sigset_t set = watched_set();

    *out = NULL;
    if (!t)
        return error_set(err, DSGD_E_NOMEM, "no memory");
    t->spec = *spec;
    t->member = calloc(n, sizeof *t->member);
    t->poll = calloc(1 + 2 * (size_t)n, sizeof *t->poll);
    if (spec->label)
        t->label = calloc(2 * (size_t)n, sizeof *t->label);
    for (uint32_t i = 0; t->label && i < 2 * n; i++)
        t->label[i].fd = -1;
    t->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (!t->member || !t->poll || (spec->label && !t->label) ||
        t->signal_fd < 0) {
        run_team_destroy(t);
        return error_set(err, DSGD_E_NOMEM, "%u workers: no memory", n);
    }
    t->oom_kills = oom_kills();
    *out = t;
    return DSGD_OK;
}

void run_team_destroy(struct run_team *t)
{
    uint32_t n;

    if (!t)
        return;
    n = t->spec.place.n_local;
    for (uint32_t i = 0; t->member && i < n; i++) {
        if (t->member[i].pid > 0) {
            kill(t->member[i].pid, SIGKILL);
            waitpid(t->member[i].pid, NULL, 0);
        }
    }
    for (uint32_t i = 0; t->label && i < 2 * n; i++) {
        if (t->label[i].fd >= 0)
            run_label_close(&t->label[i]);
    }
    if (t->signal_fd >= 0)
        close(t->signal_fd);
    free(t->member);
    free(t->label);
    free(t->poll);
    free(t);
}

/* Pipes for a worker's output; without them it has this process's own. */
static void open_labels(struct run_team *t, uint32_t i, struct run_child *child)
{
    if (!t->label)
        return;
    if (run_label_open(&t->label[2 * i], child->rank, stdout, &child->out_fd) !=
        0)
        child->out_fd = -1;
    if (run_label_open(&t->label[2 * i + 1], child->rank, stderr,
                       &child->err_fd) != 0)
        child->err_fd = -1;
}

static enum dsgd_err start_one(struct run_team *t, uint32_t i,
                               struct dsgd_error *err)
{
    struct member *m = &t->member[i];
    struct run_child child = {.command = t->spec.command,
                              .box_fd = t->spec.box_fd,
                              .rank = t->spec.place.first_rank + i,
                              .size = t->spec.place.size,
                              .local_rank = i,
                              .local_size = t->spec.place.n_local,
                              .restart = m->restarts,
                              .threads = t->spec.threads,
                              .out_fd = -1,
                              .err_fd = -1};

    open_labels(t, i, &child);
    enum dsgd_err rc = run_child_start(&child, &m->pid, err);
    if (child.out_fd >= 0)
        close(child.out_fd);
    if (child.err_fd >= 0)
        close(child.err_fd);
    m->started_ns = sys_now_ns();
    m->due_ns = 0;
    return rc;
}

enum dsgd_err run_team_start(struct run_team *t, struct dsgd_error *err)
{
    enum dsgd_err rc = DSGD_OK;

    for (uint32_t i = 0; rc == DSGD_OK && i < t->spec.place.n_local; i++)
        rc = start_one(t, i, err);
    return rc;
}

void run_team_segment(struct run_team *t, struct segment *seg)
{
    t->seg = seg;
    for (uint32_t i = 0; i < t->spec.place.n_local; i++) {
        const struct member *m = &t->member[i];
        if (!m->pid)
            segment_bury(seg, i, m->died | (m->gone ? SEG_DIED_FINAL : 0));
    }
}

static bool run_is_over(const struct run_team *t)
{
    return t->seg && atomic_load(&t->seg->h->run) != SEG_RUNNING;
}

/* It has closed the run, or seen its end. */
static bool has_ended(const struct run_team *t, uint32_t i)
{
    return t->seg && atomic_load(&t->seg->workers[i].exit) == SEG_EXIT_OWN;
}

/* … which came before it was given the state of the one it replaced. */
static bool came_too_late(const struct run_team *t, uint32_t i)
{
    return t->member[i].restarts && atomic_load(&t->seg->workers[i].applied) <
                                        atomic_load(&t->seg->h->published);
}

static uint64_t what_of(struct run_team *t, int status)
{
    uint64_t value = (uint64_t)(uint32_t)status & SEG_DIED_STATUS;

    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
        oom_kills() > t->oom_kills) {
        t->oom_kills++;
        value |= SEG_DIED_OOM;
    }
    return value;
}

/* May another process take its place? */
static bool may_restart(const struct run_team *t, const struct member *m)
{
    int status = (int)(m->died & SEG_DIED_STATUS);

    if (run_is_over(t) || t->interrupted || m->restarts >= t->spec.restarts)
        return false;
    /* Before the run is open, a program that says no means it. */
    return WIFSIGNALED(status) || (t->seg && WEXITSTATUS(status) != 0);
}

static void plan_restart(struct run_team *t, uint32_t i)
{
    struct member *m = &t->member[i];
    uint64_t now = sys_now_ns();
    double pause_s = 0;
    char cause[CAUSE_TEXT], text[CAUSE_TEXT + 80];

    if ((double)(now - m->started_ns) * 1e-9 < QUICK_S)
        m->quick++;
    else
        m->quick = 0;
    if (m->quick > 1)
        pause_s = fmin(ldexp(PAUSE_S, (int)m->quick - 2), LONG_PAUSE_S);
    m->due_ns = now + (uint64_t)(pause_s * 1e9);
    cause_text(m->died, cause);
    snprintf(text, sizeof text, "%s; starting it again in %.1f s (%u of %u)",
             cause, pause_s, m->restarts + 1, t->spec.restarts);
    say(t, i, text);
}

static void give_up(struct run_team *t, uint32_t i)
{
    struct member *m = &t->member[i];
    char cause[CAUSE_TEXT];

    m->gone = true;
    if (t->seg) {
        m->lost = true;
        m->died |= SEG_DIED_FINAL;
    } else if (t->failed || !m->died) {
        return; /* the first failure is enough; a program may end unopened */
    } else {
        t->failed = cause_code(m->died);
    }
    cause_text(m->died, cause);
    if (!run_is_over(t) && !t->interrupted)
        say(t, i, cause);
}

/* A worker that ended in order: its exit code counts. */
static void note_end(struct run_team *t, uint32_t i)
{
    struct member *m = &t->member[i];
    char cause[CAUSE_TEXT];

    m->gone = true;
    if (!m->died)
        return;
    if (came_too_late(t, i)) {
        m->lost = true;
        return;
    }
    if (!t->failed)
        t->failed = cause_code(m->died);
    if (atomic_load(&t->seg->h->run) == SEG_BROKEN ||
        atomic_load(&t->seg->h->preempted))
        return; /* as all the others */
    cause_text(m->died, cause);
    say(t, i, cause);
}

static void on_death(struct run_team *t, uint32_t i, int status)
{
    struct member *m = &t->member[i];

    run_box_forget(t->spec.box, i, m->pid);
    m->pid = 0;
    for (uint32_t k = 2 * i; t->label && k < 2 * i + 2; k++)
        run_label_close(&t->label[k]);
    m->died = what_of(t, status);
    if (has_ended(t, i)) {
        note_end(t, i);
        return;
    }
    if (m->died && !run_is_over(t)) /* later ones have not broken it off */
        t->last_death = cause_code(m->died);
    if (may_restart(t, m))
        plan_restart(t, i);
    else
        give_up(t, i);
    if (t->seg)
        segment_bury(t->seg, i, m->died);
}

static void bury_dead(struct run_team *t)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (uint32_t i = 0; i < t->spec.place.n_local; i++) {
            if (t->member[i].pid == pid) {
                on_death(t, i, status);
                break;
            }
        }
    }
}

static void signal_all(struct run_team *t, int number)
{
    for (uint32_t i = 0; i < t->spec.place.n_local; i++) {
        if (t->member[i].pid > 0)
            kill(t->member[i].pid, number);
    }
}

void run_team_kill(struct run_team *t)
{
    t->interrupted = true;
    signal_all(t, SIGKILL);
}

void run_team_kill_unopened(struct run_team *t)
{
    for (uint32_t i = 0; i < t->spec.place.n_local; i++) {
        if (t->member[i].pid > 0 && !atomic_load(&t->seg->workers[i].pid))
            kill(t->member[i].pid, SIGKILL);
    }
}

static void take_signals(struct run_team *t)
{
    struct signalfd_siginfo info;

    while (read(t->signal_fd, &info, sizeof info) == sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGCHLD)
            continue;
        if (number != SIGUSR1 && number != SIGUSR2)
            t->interrupted = true;
        signal_all(t, number);
    }
}

/* Start who is due, or give it up when that is pointless by now.  Returns the
 * time until the next is due. */
static uint64_t start_due(struct run_team *t)
{
    uint64_t now = sys_now_ns(), next_ns = UINT64_MAX;
    struct dsgd_error err;

    for (uint32_t i = 0; i < t->spec.place.n_local; i++) {
        struct member *m = &t->member[i];
        if (!m->due_ns)
            continue;
        if (run_is_over(t) || t->interrupted) {
            m->due_ns = 0;
            give_up(t, i);
            if (t->seg)
                segment_bury(t->seg, i, m->died);
        } else if (m->due_ns <= now) {
            m->restarts++;
            if (start_one(t, i, &err) != DSGD_OK) {
                m->restarts--;
                fprintf(stderr, "dsgd-run: %s\n", err.text);
                m->due_ns = now + (uint64_t)(LONG_PAUSE_S * 1e9);
            }
        } else if (m->due_ns - now < next_ns) {
            next_ns = m->due_ns - now;
        }
    }
    return next_ns;
}

/* A stuck worker is asked to end by the aggregator, and may be past that. */
static void kill_stuck(struct run_team *t)
{
    uint64_t now = sys_now_ns();

    for (uint32_t i = 0; run_is_over(t) && i < t->spec.place.n_local; i++) {
        struct member *m = &t->member[i];
        if (atomic_load(&t->seg->workers[i].exit) != SEG_EXIT_REAPED ||
            m->pid <= 0)
            continue;
        if (!m->reap_ns)
            m->reap_ns = now;
        else if ((double)(now - m->reap_ns) * 1e-9 > STUCK_S)
            kill(m->pid, SIGKILL);
    }
}

void run_team_tick(struct run_team *t, int timeout_ms)
{
    uint64_t next_ns = start_due(t);
    nfds_t n = 1 + (t->label ? 2 * (nfds_t)t->spec.place.n_local : 0);

    if (next_ns < (uint64_t)timeout_ms * 1000000u)
        timeout_ms = (int)(next_ns / 1000000u) + 1;
    t->poll[0] = (struct pollfd){.fd = t->signal_fd, .events = POLLIN};
    for (nfds_t i = 1; i < n; i++)
        t->poll[i] =
            (struct pollfd){.fd = t->label[i - 1].fd, .events = POLLIN};
    if (poll(t->poll, n, timeout_ms) > 0) {
        for (nfds_t i = 1; i < n; i++) {
            if (t->poll[i].revents)
                run_label_pump(&t->label[i - 1]);
        }
        take_signals(t);
    }
    bury_dead(t);
    kill_stuck(t);
}

bool run_team_opened(const struct run_team *t)
{
    bool any = false;

    for (uint32_t i = 0; i < t->spec.place.n_local; i++) {
        if (!t->member[i].gone && !run_box_has(t->spec.box, i))
            return false;
        any = any || !t->member[i].gone;
    }
    return any;
}

uint32_t run_team_left(const struct run_team *t)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < t->spec.place.n_local; i++)
        left += !t->member[i].gone;
    return left;
}

int run_team_failed(const struct run_team *t)
{
    return t->failed;
}

int run_team_last_death(const struct run_team *t)
{
    return t->last_death;
}

bool run_team_interrupted(const struct run_team *t)
{
    return t->interrupted;
}

void run_team_report(const struct run_team *t, FILE *out)
{
    const char *between = "";
    bool any = false;

    for (uint32_t i = 0; i < t->spec.place.n_local; i++)
        any = any || t->member[i].restarts || t->member[i].lost;
    if (!any)
        return;
    fprintf(out, "dsgd-run: %s: ", t->spec.host);
    for (uint32_t i = 0; i < t->spec.place.n_local; i++) {
        const struct member *m = &t->member[i];
        uint32_t rank = t->spec.place.first_rank + i;
        char cause[CAUSE_TEXT];
        if (!m->restarts && !m->lost)
            continue;
        fprintf(out, "%sworker %u", between, rank);
        if (m->restarts)
            fprintf(out, " started again %u time%s", m->restarts,
                    m->restarts > 1 ? "s" : "");
        cause_text(m->died & ~SEG_DIED_FINAL, cause);
        if (m->lost)
            fprintf(out, "%s lost (%s)", m->restarts ? ", then" : "", cause);
        between = "; ";
    }
    fprintf(out, "\n");
}
