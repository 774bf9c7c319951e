#include "telemetry.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "co_jobs.h"

/* Enough for the beginning of any file read here; what is wanted of
 * /proc/stat is its first line. */
enum { FILE_BYTES = 2048 };

static const char *const feature_names[DSGD_N_TELEMETRY] = {
    DSGD_TELEMETRY_FEATURES};

static double clock_s(clockid_t id)
{
    struct timespec ts;

    if (clock_gettime(id, &ts))
        return NAN;
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

struct telemetry_now telemetry_clock(void)
{
    return (struct telemetry_now){.mono_s = clock_s(CLOCK_MONOTONIC),
                                  .cpu_s = clock_s(CLOCK_PROCESS_CPUTIME_ID)};
}

/* A number that is finite and not negative, or NaN.  strtod alone would take
 * "inf" and hexadecimal as well. */
static double number(const char *text)
{
    size_t length = strspn(text, "0123456789.");
    char *end;

    if (!length || !strchr(" \n", text[length]))
        return NAN;
    double x = strtod(text, &end);
    return end == text + length && isfinite(x) ? x : NAN;
}

/* The number after "<key><separator>" where that begins a word. */
static double keyed(const char *text, const char *key, char separator)
{
    size_t length = strlen(key);

    for (const char *p = text; (p = strstr(p, key)); p += length) {
        bool begins = p == text || p[-1] == '\n' || p[-1] == ' ';
        if (begins && p[length] == separator)
            return number(p + length + 1);
    }
    return NAN;
}

static bool read_in(const struct telemetry *t, const char *directory,
                    const char *file, char buf[FILE_BYTES])
{
    char path[PATH_BYTES];

    return directory && text_path(path, "%s/%s", directory, file) &&
           text_read(t->root, path, buf, FILE_BYTES);
}

/* A file that holds one number. */
static double read_number(const struct telemetry *t, const char *directory,
                          const char *file)
{
    char buf[FILE_BYTES];

    return read_in(t, directory, file, buf) ? number(buf) : NAN;
}

/* The number of CPUs in a list such as "0-3,8": what sysfs calls online. */
static double count_list(const char *list)
{
    double count = 0;

    while (*list && *list != '\n') {
        char *end;
        long first = strtol(list, &end, 10), last = first;
        if (end == list || first < 0)
            return NAN;
        if (*end == '-') {
            list = end + 1;
            last = strtol(list, &end, 10);
            if (end == list || last < first)
                return NAN;
        }
        count += (double)last - (double)first + 1;
        if (*end == ',')
            end++;
        else if (*end && *end != '\n')
            return NAN;
        list = end;
    }
    return count >= 1 ? count : NAN;
}

/* The quota of the node's cgroup, in CPUs, and its period. */
static double read_quota(const struct telemetry *t, double *period_s)
{
    const char *v1 = node_cgroups_top(&t->node, CGROUP_CPU);
    const char *v2 = node_cgroups_top(&t->node, CGROUP_UNIFIED);
    char buf[FILE_BYTES];
    double quota = NAN, period = NAN;

    if (v1) {
        quota = read_number(t, v1, "cpu.cfs_quota_us"); /* -1: no quota */
        period = read_number(t, v1, "cpu.cfs_period_us");
    } else if (read_in(t, v2, "cpu.max", buf)) { /* "max 100000": none */
        const char *second = strchr(buf, ' ');
        quota = number(buf);
        period = second ? number(second + 1) : NAN;
    }
    if (!(quota > 0 && period > 0))
        return NAN;
    *period_s = period * 1e-6;
    return quota / period;
}

static void find_cpus(struct telemetry *t)
{
    char buf[FILE_BYTES];
    double quota;

    t->cpus = t->period_s = NAN;
    if (text_read(t->root, "/sys/devices/system/cpu/online", buf, sizeof buf))
        t->cpus = count_list(buf);
    quota = read_quota(t, &t->period_s);
    if (!(quota >= t->cpus) && quota > 0)
        t->cpus = quota;
}

/* Seconds of CPU time that the node has used. */
static double read_usage(const struct telemetry *t)
{
    const char *v2 = node_cgroups_top(&t->node, CGROUP_UNIFIED);
    char buf[FILE_BYTES];
    double used = read_number(t, node_cgroups_top(&t->node, CGROUP_CPUACCT),
                              "cpuacct.usage");

    if (used >= 0)
        return used * 1e-9;
    if (read_in(t, v2, "cpu.stat", buf))
        return keyed(buf, "usage_usec", ' ') * 1e-6;
    return NAN;
}

/* Periods and throttled periods of the node's quota; 0 and 0 without one. */
static void read_throttle(const struct telemetry *t,
                          struct telemetry_look *look)
{
    const char *top = node_cgroups_top(&t->node, CGROUP_CPU);
    char buf[FILE_BYTES];

    if (!top)
        top = node_cgroups_top(&t->node, CGROUP_UNIFIED);
    if (!read_in(t, top, "cpu.stat", buf))
        return;
    if (!(t->period_s > 0)) {
        look->periods = look->throttled = 0;
        return;
    }
    look->periods = keyed(buf, "nr_periods", ' ');
    look->throttled = keyed(buf, "nr_throttled", ' ');
}

/* The "cpu" line: user nice system idle iowait irq softirq steal guest…; guest
 * time is part of user time. */
static void read_ticks(const struct telemetry *t, struct telemetry_look *look)
{
    char buf[FILE_BYTES], *p;
    double sum = 0, idle = 0;

    if (!text_read(t->root, "/proc/stat", buf, sizeof buf) ||
        strncmp(buf, "cpu ", 4) != 0)
        return;
    p = buf + 4;
    for (int column = 0; column < 8; column++) {
        p += strspn(p, " ");
        double ticks = number(p);
        if (!(ticks >= 0))
            return; /* no steal column: a kernel of another age */
        sum += ticks;
        if (column == 3 || column == 4)
            idle += ticks;
        look->steal = ticks;
        p += strcspn(p, " \n");
    }
    look->ticks = sum;
    if (isnan(look->used_s)) /* no cgroup says it better */
        look->used_s =
            (sum - idle - look->steal) / (double)sysconf(_SC_CLK_TCK);
}

static struct telemetry_look take_look(const struct telemetry *t,
                                       struct telemetry_now now)
{
    struct telemetry_look look = {now, NAN, NAN, NAN, NAN, NAN};

    look.used_s = read_usage(t);
    read_throttle(t, &look);
    if (t->node.machine)
        read_ticks(t, &look);
    return look;
}

static double read_load1(const struct telemetry *t)
{
    char buf[FILE_BYTES];

    if (!t->node.machine ||
        !text_read(t->root, "/proc/loadavg", buf, sizeof buf))
        return NAN;
    return number(buf) / t->cpus;
}

static double clamp01(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

/* Pressure of a resource: the machine's, or that of the node's cgroup. */
static double read_pressure(const struct telemetry *t, const char *resource)
{
    const char *directory = "/proc/pressure";
    char file[32], buf[FILE_BYTES];

    snprintf(file, sizeof file, "%s%s", resource,
             t->node.machine ? "" : ".pressure");
    if (!t->node.machine)
        directory = node_cgroups_top(&t->node, CGROUP_UNIFIED);
    if (!read_in(t, directory, file, buf) || strncmp(buf, "some ", 5) != 0)
        return NAN;
    return clamp01(keyed(buf, "avg10", '=') / 100);
}

static double read_co_jobs(const struct telemetry *t, uint32_t job_id)
{
    int jobs = co_jobs_count(t->root, &t->node, job_id);

    return jobs < 0 ? NAN : log1p(jobs);
}

void telemetry_begin(struct telemetry *t, const char *root, uint32_t job_id,
                     struct telemetry_now now, double budget_s)
{
    const double limit_s = clock_s(CLOCK_THREAD_CPUTIME_ID) + budget_s;
    double *value = t->value;

    *t = (struct telemetry){.root = root, .taken_s = time(NULL)};
    for (int i = 0; i < DSGD_N_TELEMETRY; i++)
        value[i] = NAN;
    node_cgroups_find(root, &t->node);
    find_cpus(t);
    t->first = take_look(t, now);
    for (int i = 0; i < DSGD_N_TELEMETRY; i++) {
        if (!(clock_s(CLOCK_THREAD_CPUTIME_ID) < limit_s))
            break;
        if (i == TELEMETRY_LOAD1)
            value[i] = read_load1(t);
        else if (i == TELEMETRY_PSI_CPU)
            value[i] = read_pressure(t, "cpu");
        else if (i == TELEMETRY_PSI_IO)
            value[i] = read_pressure(t, "io");
        else if (i == TELEMETRY_PSI_MEM)
            value[i] = read_pressure(t, "memory");
        else if (i == TELEMETRY_CO_JOBS)
            value[i] = read_co_jobs(t, job_id);
    }
}

/* Of n periods between the looks, the share that was throttled.  Without a
 * period's end in a window shorter than a period nothing is known. */
static double throttle_share(const struct telemetry *t,
                             const struct telemetry_look *a,
                             const struct telemetry_look *b)
{
    double periods = b->periods - a->periods;

    if (!(b->throttled >= a->throttled) || !(periods >= 0))
        return NAN;
    if (periods > 0)
        return clamp01((b->throttled - a->throttled) / periods);
    return b->at.mono_s - a->at.mono_s < t->period_s ? NAN : 0;
}

void telemetry_end(struct telemetry *t, struct telemetry_now now)
{
    const struct telemetry_look *a = &t->first, look = take_look(t, now);
    const struct telemetry_look *b = &look;
    double elapsed_s = b->at.mono_s - a->at.mono_s;
    double used_s = b->used_s - a->used_s;

    if (elapsed_s > 0 && used_s >= 0)
        t->value[TELEMETRY_OTHER_CPU] = clamp01(
            (used_s - (b->at.cpu_s - a->at.cpu_s)) / (elapsed_s * t->cpus));
    t->value[TELEMETRY_THROTTLE] = throttle_share(t, a, b);
    if (b->ticks > a->ticks && b->steal >= a->steal)
        t->value[TELEMETRY_STEAL] =
            clamp01((b->steal - a->steal) / (b->ticks - a->ticks));
}

/* Not %f: its decimal point depends on the locale. */
void telemetry_format(const struct telemetry *t, char line[TELEMETRY_BYTES])
{
    int used = snprintf(line, TELEMETRY_BYTES, "1;%" PRId64, t->taken_s);

    for (int i = 0; i < DSGD_N_TELEMETRY; i++) {
        char text[32] = "";
        double x = t->value[i];
        if (x >= 0 && x < 1e9) {
            uint64_t parts = (uint64_t)(x * 1e4 + 0.5);
            snprintf(text, sizeof text, "%" PRIu64 ".%04" PRIu64, parts / 10000,
                     parts % 10000);
        }
        used += snprintf(line + used, TELEMETRY_BYTES - (size_t)used, ";%s=%s",
                         feature_names[i], text);
    }
}
