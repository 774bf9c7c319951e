/* A folder for a test, removed however the test ends. */
#ifndef DSGD_TESTS_SCRATCH_H
#define DSGD_TESTS_SCRATCH_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Make the folder and go on in a child: the parent removes it in any case, and
 * ends as the child does.  First statement of main.
 *   dir  in out  a template of mkdtemp */
static void scratch_dir(char *dir)
{
    char command[128];
    int status = -1;

    if (!mkdtemp(dir))
        exit(1);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        return;
    signal(SIGTERM, SIG_IGN); /* from timeout(1), to both */
    signal(SIGINT, SIG_IGN);
    waitpid(pid, &status, 0);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (pid < 0 || system(command) != 0)
        printf("# %s is left\n", dir);
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* Two at a time.  Returns the path of a file in the folder. */
static inline const char *scratch_path(const char *dir, const char *name)
{
    static char path[2][96];
    static int i;

    i = !i;
    snprintf(path[i], sizeof path[i], "%s/%s", dir, name);
    return path[i];
}

#endif
