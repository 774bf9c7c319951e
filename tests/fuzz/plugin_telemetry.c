/* Kernel files with any content.  An input has the form of a recorded node, see
 * tests/unit/tree.h; only the files that are read can be named. */
#include "fuzz.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/tree.h"
#include "telemetry.h"

static const char *const files[] = {
    "/proc/self/cgroup",
    "/proc/self/mountinfo",
    "/proc/net/unix",
    "/proc/loadavg",
    "/proc/stat",
    "/proc/pressure/cpu",
    "/proc/pressure/io",
    "/proc/pressure/memory",
    "/sys/devices/system/cpu/online",
    "/sys/fs/cgroup/cpu.max",
    "/sys/fs/cgroup/cpu.stat",
    "/sys/fs/cgroup/cgroup.type",
    "/sys/fs/cgroup/cpu.pressure",
    "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
    "/sys/fs/cgroup/cpu/cpu.cfs_period_us",
    "/sys/fs/cgroup/cpu/cpu.stat",
    "/sys/fs/cgroup/cpu acct/cpuacct.usage",
    "/sys/fs/cgroup/cpu,cpuacct/cpuacct.usage",
    "/sys/fs/cgroup/cpu,cpuacct/cpu.stat",
    "/sys/fs/cgroup/freezer/cgroup.sane_behavior",
    "/proc/self/ns/pid",
};
enum { N_FILES = sizeof files / sizeof files[0] };

static char root[64];

static void remove_root(void)
{
    tree_remove(root);
}

/* The file that a line "== <path>" begins, N_FILES for another line. */
static size_t begun(const char *line, size_t length)
{
    for (size_t i = 0; i < N_FILES; i++) {
        size_t n = strlen(files[i]);
        if (length == n + 3 && line[0] == '=' && line[2] == ' ' &&
            memcmp(line + 3, files[i], n) == 0)
            return i;
    }
    return N_FILES;
}

static void write_files(const char *data, size_t size)
{
    FILE *out = NULL;
    char full[2048];

    for (size_t i = 0; i < N_FILES; i++) {
        tree_path(full, root, files[i]);
        unlink(full);
    }
    while (size) {
        const char *newline = memchr(data, '\n', size);
        size_t length = newline ? (size_t)(newline - data) : size;
        size_t file = begun(data, length);
        if (file < N_FILES) {
            if (out)
                fclose(out);
            out = tree_open(root, files[file]);
        } else if (out) {
            fwrite(data, 1, length + (newline != NULL), out);
        }
        length += newline != NULL;
        data += length;
        size -= length;
    }
    if (out)
        fclose(out);
}

/* The runtime's reader must be able to take it apart again. */
static void check_line(const char *line)
{
    size_t fields = 0;

    for (const char *p = line; *p; p++) {
        if (!isalnum((unsigned char)*p) && !strchr(";=._", *p))
            abort();
        fields += *p == ';';
    }
    if (fields != DSGD_N_TELEMETRY + 1)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct telemetry t;
    struct telemetry_now a = {100, 1}, b = {100.02, 1.001};
    char line[TELEMETRY_BYTES];

    if (!root[0]) {
        if (!tree_create(root))
            abort();
        atexit(remove_root);
    }
    write_files((const char *)data, size);
    telemetry_begin(&t, root, 7, a, 1e9);
    /* Every counter ran on, from wherever it was. */
    t.first.used_s /= 2;
    t.first.periods /= 2;
    t.first.throttled /= 2;
    t.first.ticks /= 2;
    t.first.steal /= 2;
    telemetry_end(&t, b);
    telemetry_format(&t, line);
    check_line(line);
    return 0;
}

#ifndef DSGD_LIBFUZZER
int main(int argc, char **argv)
{
    if (argc > 1) {
        fuzz_files(argc, argv);
        return 0;
    }
    int seeds = fuzz_directory("tests/data/telemetry", 100);
    printf("%s 1 - %d recorded nodes, 100 mutations each\n1..1\n",
           seeds > 0 ? "ok" : "not ok", seeds);
    return seeds > 0 ? 0 : 1;
}
#endif
