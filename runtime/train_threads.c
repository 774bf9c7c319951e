#include "train_threads.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgroup.h"

static size_t min_known(size_t a, size_t b)
{
    return b && b < a ? b : a;
}

size_t train_threads_share(const struct train_cpus *c)
{
    size_t tasks = c->tasks_on_node ? c->tasks_on_node : 1;
    size_t node = c->on_node ? c->on_node : c->online;
    size_t share = c->per_task ? c->per_task : node / tasks;

    share = min_known(share, c->affinity);
    if (c->quota > 0) {
        double quota = c->quota / (double)tasks;
        if (quota < (double)share)
            share = (size_t)quota;
    }
    return share ? share : 1;
}

size_t train_threads_tasks(const char *list, size_t node)
{
    while (list && *list) {
        char *end;
        unsigned long tasks = strtoul(list, &end, 10), repeat = 1;
        if (end == list)
            return 0;
        if (strncmp(end, "(x", 2) == 0) {
            list = end + 2;
            repeat = strtoul(list, &end, 10);
            if (end == list || *end++ != ')')
                return 0;
        }
        if (node < repeat)
            return tasks;
        node -= repeat;
        list = *end == ',' ? end + 1 : "";
    }
    return 0;
}

/* Read up to two numbers from folder/file.  Returns how many. */
static int read_numbers(const char *folder, const char *file, double value[2])
{
    char path[PATH_MAX];
    int got = 0;

    if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path)
        return 0;
    FILE *f = fopen(path, "re");
    if (f) {
        got = fscanf(f, "%lf %lf", &value[0], &value[1]);
        fclose(f);
    }
    return got;
}

/* Quota of one cgroup folder in CPUs, 0: none. */
static double folder_quota(const char *folder)
{
    double value[2] = {0, 0}, period[2] = {0, 0};

    /* v2: "max 100000" or "150000 100000"; v1: -1 or a number, and another */
    if (read_numbers(folder, "cpu.max", value) != 2) {
        read_numbers(folder, "cpu.cfs_quota_us", value);
        read_numbers(folder, "cpu.cfs_period_us", period);
        value[1] = period[0];
    }
    return value[0] > 0 && value[1] > 0 ? value[0] / value[1] : 0;
}

/* The least quota from root/own up to root. */
static double path_quota(const char *root, const char *own)
{
    char folder[PATH_MAX];
    double least = 0;
    size_t stop = strlen(root);

    if (snprintf(folder, sizeof folder, "%s%s", root, own) >=
        (int)sizeof folder)
        return 0;
    for (;;) {
        double quota = folder_quota(folder);
        if (quota > 0 && (least == 0 || quota < least))
            least = quota;
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < stop)
            return least;
        *slash = '\0';
    }
}

/* Is "cpu" one of the controllers in a list with commas? */
static bool lists_cpu(const char *controllers)
{
    for (const char *at = controllers; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, "cpu", 3) == 0 && (at[3] == ',' || !at[3]))
            return true;
    }
    return false;
}

double train_threads_quota(const char *membership, const char *root)
{
    struct cgroup_line line;
    char mount[PATH_MAX];
    double least = 0;
    FILE *f = fopen(membership, "re");

    while (cgroup_next(f, &line)) {
        if (*line.controllers && !lists_cpu(line.controllers))
            continue;
        snprintf(mount, sizeof mount, "%s%s", root,
                 *line.controllers ? "/cpu" : "");
        double quota = path_quota(mount, line.path);
        if (quota > 0 && (least == 0 || quota < least))
            least = quota;
    }
    if (f)
        fclose(f);
    return least;
}

static size_t env_count(const char *name)
{
    const char *text = getenv(name);
    long n = text ? strtol(text, NULL, 10) : 0;

    return n > 0 ? (size_t)n : 0;
}

static size_t affinity_count(void)
{
    /* Enough for 8192 CPUs. */
    enum { SETS = 8 };
    cpu_set_t set[SETS];

    if (sched_getaffinity(0, sizeof set, set) != 0)
        return 0;
    return (size_t)CPU_COUNT_S(sizeof set, set);
}

void train_threads_look(struct train_cpus *cpus)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    const char *list = getenv("SLURM_STEP_TASKS_PER_NODE");

    *cpus = (struct train_cpus){
        .online = online > 0 ? (size_t)online : 1,
        .affinity = affinity_count(),
        .on_node = env_count("SLURM_CPUS_ON_NODE"),
        .per_task = env_count("SLURM_CPUS_PER_TASK"),
        .tasks_on_node = env_count("OMPI_COMM_WORLD_LOCAL_SIZE"),
        .quota = train_threads_quota("/proc/self/cgroup", "/sys/fs/cgroup"),
    };
    if (!cpus->tasks_on_node)
        cpus->tasks_on_node =
            train_threads_tasks(list, env_count("SLURM_NODEID"));
}
