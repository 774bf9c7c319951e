#include "run_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "dsgd_names.h"
#include "error.h"

extern char **environ;

enum { N_OWN = 7, OWN_TEXT = 64 };

/* A worker's environment. */
struct env {
    char own[N_OWN][OWN_TEXT];
    char **vars; /* NULL-terminated */
};

/* Would let the worker take itself for a task of this MPI job. */
static bool is_private(const char *var)
{
    static const char *const prefixes[] = {"PMIX_", "PMI_", "OMPI_",
                                           "SLURM_PMIX", "DSGD_RUN_"};

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strncmp(var, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    }
    return false;
}

static void put(struct env *e, size_t at, const char *name, unsigned long value)
{
    snprintf(e->own[at], OWN_TEXT, "%s=%lu", name, value);
}

static bool make_env(const struct run_child *c, struct env *e)
{
    size_t n = 0, kept = 0, own = N_OWN;

    while (environ[n])
        n++;
    e->vars = calloc(n + N_OWN + 1, sizeof *e->vars);
    if (!e->vars)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_private(environ[i]))
            e->vars[kept++] = environ[i];
    }
    put(e, 0, DSGD_RUN_FD, (unsigned long)c->box_fd);
    put(e, 1, DSGD_RUN_RANK, c->rank);
    put(e, 2, DSGD_RUN_SIZE, c->size);
    put(e, 3, DSGD_RUN_LOCAL_RANK, c->local_rank);
    put(e, 4, DSGD_RUN_LOCAL_SIZE, c->local_size);
    put(e, 5, DSGD_RUN_RESTART, c->restart);
    put(e, 6, "OMP_NUM_THREADS", c->threads);
    if (getenv("OMP_NUM_THREADS"))
        own--;
    for (size_t i = 0; i < own; i++)
        e->vars[kept++] = e->own[i];
    return true;
}

static void say(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
}

/* The kernel had better kill a worker than the process that all depend on. */
static void offer_to_oom(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t written = write(fd, "500", 3);
        (void)written;
        close(fd);
    }
}

static void keep_open(int box_fd)
{
    close_range(3, (unsigned)box_fd - 1, CLOSE_RANGE_CLOEXEC);
    close_range((unsigned)box_fd + 1, ~0U, CLOSE_RANGE_CLOEXEC);
}

/* In the child: other threads' locks may be held for ever, so that only system
 * calls are safe. */
static _Noreturn void become(const struct run_child *c, char **vars,
                             pid_t parent)
{
    sigset_t none;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(128 + SIGKILL);
    offer_to_oom();
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    if (c->out_fd >= 0)
        dup2(c->out_fd, STDOUT_FILENO);
    if (c->err_fd >= 0)
        dup2(c->err_fd, STDERR_FILENO);
    keep_open(c->box_fd);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvpe(c->command[0], c->command, vars);
    int error = errno;
    say("dsgd-run: ");
    say(c->command[0]);
    say(error == ENOENT ? ": no such program\n" : ": can't be run\n");
    _exit(error == ENOENT ? 127 : 126);
}

enum dsgd_err run_child_start(const struct run_child *child, pid_t *pid,
                              struct dsgd_error *err)
{
    struct env env;
    pid_t parent = getpid();

    *pid = 0;
    if (!make_env(child, &env))
        return error_set(err, DSGD_E_NOMEM, "worker %u: no memory",
                         child->rank);
    pid_t new = fork();
    if (new == 0)
        become(child, env.vars, parent);
    int error = errno;
    free(env.vars);
    if (new < 0)
        return error_set(err, DSGD_E_FAIL,
                         "worker %u: no process: %s; see ulimit -u and the "
                         "cgroup's pids.max",
                         child->rank, strerror(error));
    *pid = new;
    return DSGD_OK;
}
