/* Launch telemetry from recorded nodes. */
#include "../tap.h"
#include "co_jobs.h"
#include "telemetry.h"
#include "tree.h"

static const double unlimited = 1e9;

/* The line of a recorded node: looks 20 ms apart, of which this process used 1
 * ms itself. */
static void look_at(const char *fixture, char line[TELEMETRY_BYTES],
                    struct telemetry *t)
{
    struct telemetry_now first = {100, 1}, second = {100.020, 1.001};
    char root[64], from[512];

    snprintf(from, sizeof from, "%s/tests/data/telemetry/%s",
             getenv("DSGD_SRCDIR"), fixture);
    if (!tree_create(root) || !tree_unpack(root, from, 1)) {
        printf("Bail out! %s can't be unpacked\n", from);
        exit(1);
    }
    telemetry_begin(t, root, 7, first, unlimited);
    tree_unpack(root, from, 2);
    telemetry_end(t, second);
    t->taken_s = 1700000000;
    telemetry_format(t, line);
    tree_remove(root);
}

static void node(const char *fixture, const char *want)
{
    static struct telemetry t;
    char line[TELEMETRY_BYTES], name[64];

    look_at(fixture, line, &t);
    snprintf(name, sizeof name, "telemetry of %s", fixture);
    is_str(line, want, name);
}

static void test_nodes(void)
{
    /* 60 ms of 4 CPUs in 20 ms, less our own 1; 20 ticks, 2 stolen */
    node("host-v1", "1;1700000000;other_cpu=0.7375;load1=0.5000;"
                    "psi_cpu=0.2550;psi_io=0.0000;psi_mem=1.0000;"
                    "throttle=0.0000;steal=0.1000;co_jobs=1.0986");
    /* half a CPU by quota: 9 - 1 of 10 ms; 3 of 4 periods */
    node("node-v1", "1;1700000000;other_cpu=0.8000;load1=;psi_cpu=;psi_io=;"
                    "psi_mem=;throttle=0.7500;steal=;co_jobs=1.0986");
    /* three CPUs, counters of /proc/stat that stand still */
    node("host-v2", "1;1700000000;other_cpu=0.1167;load1=0.5000;"
                    "psi_cpu=0.0100;psi_io=0.0200;psi_mem=0.0300;"
                    "throttle=0.0000;steal=;co_jobs=0.6931");
    /* a period of 100 ms: no period's end in 20 ms says nothing */
    node("node-v2", "1;1700000000;other_cpu=0.4667;load1=;psi_cpu=0.4000;"
                    "psi_io=0.0500;psi_mem=0.0600;throttle=;steal=;"
                    "co_jobs=0.0000");
    /* the host's namespaces, but a cgroup of its own; a share above 1 */
    node("docker-v1", "1;1700000000;other_cpu=1.0000;load1=;psi_cpu=;psi_io=;"
                      "psi_mem=;throttle=0.0000;steal=;co_jobs=");
    node("psi-off", "1;1700000000;other_cpu=;load1=0.5000;psi_cpu=;psi_io=;"
                    "psi_mem=;throttle=;steal=;co_jobs=");
    /* 2 ticks of 10 ms busy of 2 CPUs for 20 ms */
    node("no-cgroup", "1;1700000000;other_cpu=0.4750;load1=0.5000;psi_cpu=;"
                      "psi_io=;psi_mem=;throttle=;steal=0.0000;co_jobs=");
    /* of many wrong lines, one names this job's socket */
    node("garbage", "1;1700000000;other_cpu=;load1=;psi_cpu=;psi_io=;psi_mem=;"
                    "throttle=;steal=;co_jobs=0.0000");
    node("empty", "1;1700000000;other_cpu=;load1=;psi_cpu=;psi_io=;psi_mem=;"
                  "throttle=;steal=;co_jobs=");
}

/* Lines longer than any buffer stand before the ones that count. */
static void test_long_lines(void)
{
    static struct node_cgroups cgroups;
    char root[64];
    FILE *f;

    tree_create(root);
    tree_write(root, "/proc/self/cgroup", "0::/x\n");
    f = tree_open(root, "/proc/self/mountinfo");
    for (int i = 0; i < 100000; i++)
        fputs("longlong", f);
    fputs("\n31 23 0:28 / /cg rw - cgroup2 cgroup2 rw\n", f);
    fclose(f);
    tree_write(root, "/cg/cgroup.type", "domain\n");
    node_cgroups_find(root, &cgroups);
    const char *top = node_cgroups_top(&cgroups, CGROUP_UNIFIED);
    is_str(top, "/cg", "a line of 800 kB is skipped");

    f = tree_open(root, "/proc/self/mountinfo");
    for (int i = 0; i < 200000; i++)
        fputs("longlong", f);
    fputs("\n31 23 0:28 / /cg rw - cgroup2 cgroup2 rw\n", f);
    fclose(f);
    node_cgroups_find(root, &cgroups);
    ok(!node_cgroups_top(&cgroups, CGROUP_UNIFIED),
       "what comes after a MiB is not read");
    tree_remove(root);
}

static void test_many_jobs(void)
{
    static struct node_cgroups none;
    char root[64];
    FILE *f;

    tree_create(root);
    f = tree_open(root, "/proc/net/unix");
    for (int i = 1; i <= 2000; i++)
        fprintf(f, "0: 2 0 10000 1 1 9 /s/n_%d.0\n", i);
    fclose(f);
    is_int(co_jobs_count(root, &none, 1500), CO_JOBS_MAX,
           "jobs are counted up to a bound");
    is_int(co_jobs_count(root, &none, 2001), -1,
           "a node that does not know of this job is not counted");
    tree_remove(root);
}

static void test_budget(void)
{
    static struct telemetry t;
    struct telemetry_now now = {100, 1};
    char root[64];

    tree_create(root);
    tree_write(root, "/proc/net/unix", "0: 2 0 10000 1 1 9 /s/n_7.0\n");
    telemetry_begin(&t, root, 7, now, unlimited);
    near(t.value[TELEMETRY_CO_JOBS], 0, 0, "within the budget: a value");
    telemetry_begin(&t, root, 7, now, 0);
    ok(isnan(t.value[TELEMETRY_CO_JOBS]), "no time left: no value");
    telemetry_end(&t, now);
    ok(isnan(t.value[TELEMETRY_OTHER_CPU]), "no time between looks: no share");
    tree_remove(root);
}

/* A counter that runs backwards, and a window without length. */
static void test_counters(void)
{
    static struct telemetry t;
    struct telemetry_now a = {100, 1}, b = {100.02, 1};
    char root[64];

    tree_create(root);
    tree_unpack(root, "/dev/null", 1);
    tree_write(root, "/proc/self/cgroup", "0::/\n");
    tree_write(root, "/proc/self/mountinfo",
               "31 23 0:28 / /cg rw - cgroup2 cgroup2 rw\n");
    tree_write(root, "/cg/cgroup.type", "domain\n");
    tree_write(root, "/cg/cpu.max", "max 100000\n");
    tree_write(root, "/cg/cpu.stat", "usage_usec 2000\n");
    tree_write(root, "/sys/devices/system/cpu/online", "0-1\n");
    telemetry_begin(&t, root, 7, a, unlimited);
    near(t.cpus, 2, 0, "no quota: the CPUs online");
    tree_write(root, "/cg/cpu.stat", "usage_usec 1000\n");
    telemetry_end(&t, b);
    ok(isnan(t.value[TELEMETRY_OTHER_CPU]), "a counter ran backwards");
    near(t.value[TELEMETRY_THROTTLE], 0, 0, "no quota: never throttled");
    tree_remove(root);
}

/* This very machine: only that it works, and what a range can be. */
static void test_here(void)
{
    static struct telemetry t;
    char line[TELEMETRY_BYTES];

    telemetry_begin(&t, "", 7, telemetry_clock(), unlimited);
    telemetry_end(&t, telemetry_clock());
    telemetry_format(&t, line);
    printf("# %s\n", line);
    for (int i = 0; i < DSGD_N_TELEMETRY; i++)
        ok(isnan(t.value[i]) || (t.value[i] >= 0 && t.value[i] < 1e6),
           "value %d is a number or none", i);
}

int main(void)
{
    if (!getenv("DSGD_SRCDIR")) {
        printf("Bail out! DSGD_SRCDIR is not set\n");
        return 1;
    }
    test_nodes();
    test_long_lines();
    test_many_jobs();
    test_budget();
    test_counters();
    test_here();
    return done();
}
