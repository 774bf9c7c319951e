/* Parts of dsgd-run: causes, labels, the count of OOM kills, processes. */
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cause.h"
#include "run_child.h"
#include "run_cpus.h"
#include "run_label.h"
#include "run_oom.h"
#include "segment.h"
#include "tap.h"
#include "tree.h"

static void causes(void)
{
    char text[CAUSE_TEXT];

    cause_text(9, text);
    is_str(text, "killed by signal 9 (Killed)", "a signal");
    is_int(cause_code(9), 137, "its code");
    cause_text(3 << 8, text);
    is_str(text, "ended with exit code 3", "an exit code");
    is_int(cause_code(3 << 8), 3, "its code");
    cause_text(9 | SEG_DIED_OOM | SEG_DIED_FINAL, text);
    is_str(text, "killed: out of memory, not started again", "no memory");
    is_int(cause_code(9 | SEG_DIED_OOM | SEG_DIED_FINAL), 137, "its code");
}

static void labels(void)
{
    struct run_label l;
    char text[3 * RUN_LABEL_LINE], *shown = NULL;
    size_t size;
    int fd;

    FILE *f = open_memstream(&shown, &size);
    is_int(run_label_open(&l, 7, f, &fd), 0, "a pipe");
    ok(write(fd, "one\ntw", 6) == 6, "a line and a half");
    run_label_pump(&l);
    is_str(shown, "7: one\n", "whole lines are shown");
    ok(write(fd, "o\n\nend", 6) == 6, "the rest, and a last line without end");
    close(fd);
    run_label_close(&l);
    is_str(shown, "7: one\n7: two\n7: \n7: end\n", "nothing is lost");
    is_int(l.fd, -1, "closed");
    rewind(f);
    run_label_open(&l, 0, f, &fd);
    memset(text, 'x', sizeof text);
    ok(write(fd, text, RUN_LABEL_LINE + 10) == RUN_LABEL_LINE + 10,
       "a line longer than the buffer");
    close(fd);
    run_label_close(&l);
    is_int((long long)strlen(shown), RUN_LABEL_LINE + 10 + 2 * 4,
           "comes in two pieces");
    fclose(f);
    free(shown);
}

/* A terminal that is slower than who writes. */
static ssize_t slow_write(void *cookie, const char *text, size_t bytes)
{
    (void)cookie;
    (void)text;
    usleep(200);
    return (ssize_t)bytes;
}

/* A child of a worker that outlives it may write for ever. */
static void endless_output(void)
{
    const cookie_io_functions_t slow = {.write = slow_write};
    struct run_label l;
    char lines[4096];
    int fd;

    FILE *f = fopencookie(NULL, "w", slow);
    run_label_open(&l, 0, f, &fd);
    memset(lines, 'x', sizeof lines);
    for (size_t i = 511; i < sizeof lines; i += 512)
        lines[i] = '\n';
    pid_t pid = fork();
    alarm(60); /* ends both where the pump never comes back */
    while (pid == 0) {
        if (write(fd, lines, sizeof lines) < 0)
            _exit(0);
    }
    close(fd);
    for (int have = 0; have < 1 << 15; usleep(1000))
        ioctl(l.fd, FIONREAD, &have);
    run_label_pump(&l);
    ok(l.fd >= 0, "endless output: others get their turn");
    run_label_close(&l);
    is_int(l.fd, -1, "and it can be closed");
    alarm(0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    fclose(f);
}

static void oom(void)
{
    char root[64];

    tree_create(root);

    tree_write(root, "v1", "7:cpu,cpuacct:/a\n4:memory:/job/step\n");
    tree_write(root, "memory/job/step/memory.oom_control",
               "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
    tree_write(root, "v2", "0::/job/step\n");
    tree_write(root, "job/step/memory.events",
               "low 0\nhigh 1\nmax 9\noom 5\noom_kill 4\noom_group_kill 0\n");
    tree_write(root, "none", "0::/elsewhere\n");
    char path[512];
    snprintf(path, sizeof path, "%s/v1", root);
    is_int((long long)run_oom_count(path, root), 3, "v1");
    snprintf(path, sizeof path, "%s/v2", root);
    is_int((long long)run_oom_count(path, root), 4, "v2");
    snprintf(path, sizeof path, "%s/none", root);
    is_int((long long)run_oom_count(path, root), 0, "a kernel without");
    is_int((long long)run_oom_count("/nonexistent", root), 0, "no list");
    tree_remove(root);
}

static int run_shell(const char *script, const char *out_path)
{
    char *command[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
                       (char *)(uintptr_t)script, NULL};
    struct run_child child = {.command = command,
                              .rank = 5,
                              .size = 8,
                              .local_rank = 1,
                              .local_size = 4,
                              .threads = 3,
                              .err_fd = -1};
    struct dsgd_error err;
    int status = -1;
    pid_t pid;

    child.box_fd = open("/dev/null", O_RDONLY);
    child.out_fd = open(out_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (run_child_start(&child, &pid, &err) == DSGD_OK)
        waitpid(pid, &status, 0);
    close(child.box_fd);
    close(child.out_fd);
    return status;
}

static void children(void)
{
    char root[64], path[512], text[256] = "";

    tree_create(root);
    snprintf(path, sizeof path, "%s/out", root);
    setenv("PMIX_RANK", "1", 1);
    setenv("OMPI_X", "1", 1);
    setenv("DSGD_RUN_RESTART", "99", 1);
    unsetenv("OMP_NUM_THREADS");
    int status = run_shell("echo $PMIX_RANK$OMPI_X $DSGD_RUN_RANK "
                           "$DSGD_RUN_SIZE $DSGD_RUN_LOCAL_RANK "
                           "$DSGD_RUN_LOCAL_SIZE $DSGD_RUN_RESTART "
                           "$OMP_NUM_THREADS; cat; exit 4",
                           path);
    ok(WIFEXITED(status) && WEXITSTATUS(status) == 4, "its exit code");
    FILE *f = fopen(path, "r");
    ok(f && fgets(text, sizeof text, f), "its output");
    fclose(f);
    is_str(text, "5 8 1 4 0 3\n", "its environment");
    status = run_shell("kill -TERM $$", path);
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM,
       "signals are not blocked in it");
    ok(run_cpus_allocated() >= 1 && run_cpus_threads(100000) == 1,
       "a thread at least");
    tree_remove(root);
}

int main(void)
{
    causes();
    labels();
    endless_output();
    oom();
    children();
    return done();
}
