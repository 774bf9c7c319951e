/* How many threads a task gets. */
#include "train_threads.h"

#include <sys/stat.h>

#include "scratch.h"
#include "tap.h"

static void share(struct train_cpus cpus, size_t want, const char *name)
{
    is_int((long long)train_threads_share(&cpus), (long long)want, name);
}

static void test_share(void)
{
    share((struct train_cpus){0}, 1, "nothing known");
    share((struct train_cpus){.online = 8, .affinity = 8}, 8, "alone");
    share((struct train_cpus){.online = 8, .affinity = 8, .tasks_on_node = 4},
          2, "four tasks on eight CPUs");
    share((struct train_cpus){.online = 2, .affinity = 2, .tasks_on_node = 8},
          1, "more tasks than CPUs");
    share(
        (struct train_cpus){
            .online = 64, .affinity = 64, .on_node = 4, .tasks_on_node = 4},
        1, "a Slurm step's CPUs, not the machine's");
    share((struct train_cpus){.online = 64,
                              .affinity = 64,
                              .on_node = 16,
                              .per_task = 4,
                              .tasks_on_node = 2},
          4, "srun -c 4");
    share((struct train_cpus){.online = 8, .affinity = 2, .per_task = 4}, 2,
          "never more than the affinity mask");
    share((struct train_cpus){.online = 8, .affinity = 8, .quota = 3.9}, 3,
          "a quota");
    share(
        (struct train_cpus){
            .online = 8, .affinity = 8, .tasks_on_node = 2, .quota = 0.4},
        1, "a quota below one CPU");
}

static void tasks(const char *list, size_t node, size_t want)
{
    char name[64];

    snprintf(name, sizeof name, "tasks of node %zu in %s", node,
             list ? list : "(null)");
    is_int((long long)train_threads_tasks(list, node), (long long)want, name);
}

static void test_tasks(void)
{
    tasks("4", 0, 4);
    tasks("4", 1, 0);
    tasks("4(x2),3", 0, 4);
    tasks("4(x2),3", 1, 4);
    tasks("4(x2),3", 2, 3);
    tasks("4(x2),3", 3, 0);
    tasks("2,1(x3)", 3, 1);
    tasks(NULL, 0, 0);
    tasks("", 0, 0);
    tasks("x", 0, 0);
    tasks("4(x", 0, 0);
    tasks("4(x2", 0, 0);
}

static char root[] = "/tmp/dsgd-threads-XXXXXX";
static char made[16][160];
static int n_made;

static void add(const char *path, const char *text)
{
    char *name = made[n_made++];

    snprintf(name, sizeof made[0], "%s/%s", root, path);
    if (!text) {
        mkdir(name, 0700);
        return;
    }
    FILE *f = fopen(name, "w");
    fputs(text, f);
    fclose(f);
}

static void clean(void)
{
    while (n_made > 0)
        remove(made[--n_made]);
}

static double quota(const char *membership)
{
    char path[160];

    add("membership", membership);
    snprintf(path, sizeof path, "%s/membership", root);
    return train_threads_quota(path, root);
}

static void test_quota(void)
{
    add("job", NULL);
    add("job/step", NULL);
    add("job/step/cpu.max", "max 100000\n");
    add("job/cpu.max", "150000 100000\n");
    near(quota("0::/job/step\n"), 1.5, 1e-12, "v2: a quota above");
    add("job/step/cpu.max", "40000 100000\n");
    near(quota("0::/job/step\n"), 0.4, 1e-12, "v2: the least counts");
    near(quota("0::/\n"), 0, 0, "v2: none at the root");
    clean();

    add("cpu", NULL);
    add("cpu/n1", NULL);
    add("cpu/n1/cpu.cfs_quota_us", "4000\n");
    add("cpu/n1/cpu.cfs_period_us", "10000\n");
    near(quota("5:memory:/x\n4:cpu,cpuacct:/n1\n"), 0.4, 1e-12, "v1: a quota");
    near(quota("4:cpuset:/n1\n4:cpuacct:/n1\n"), 0, 0,
         "v1: cpuset and cpuacct are not cpu");
    add("cpu/n1/cpu.cfs_quota_us", "-1\n");
    near(quota("4:cpuacct,cpu:/n1\n"), 0, 0, "v1: no quota");
    add("cpu/cpu.cfs_quota_us", "30000\n");
    add("cpu/cpu.cfs_period_us", "10000\n");
    near(quota("4:cpu:/\n"), 3, 1e-12, "v1: at the root of a namespace");
    near(train_threads_quota("/nonexistent", root), 0, 0, "no cgroups");
    clean();
}

int main(void)
{
    scratch_dir(root);
    test_share();
    test_tasks();
    test_quota();
    return done();
}
