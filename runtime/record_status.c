#include "record_status.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "atomic_file.h"

bool record_status_path(const char *record, char *out, size_t size)
{
    static const char suffix[] = ".dsgd";
    size_t length = strlen(record), cut = sizeof suffix - 1;

    if (length > cut && strcmp(record + length - cut, suffix) == 0)
        length -= cut;
    int n = snprintf(out, size, "%.*s.status", (int)length, record);
    return n >= 0 && (size_t)n < size;
}

/* JSON has no NaN. */
static double finite_or_0(double value)
{
    return isfinite(value) ? value : 0;
}

void record_status_write(const char *path, const struct record_status *s)
{
    struct atomic_file f;
    char line[512];
    int n = snprintf(
        line, sizeof line,
        "{\"schema\":1,\"unix_s\":%.3f,\"step\":%" PRIu64 ",\"epoch\":%" PRIu64
        ",\"contributors\":%" PRIu32 ",\"alive\":%" PRIu32
        ",\"workers\":%" PRIu32 ",\"samples\":%" PRIu64
        ",\"elapsed_s\":%.6f,\"samples_per_s\":%.3f}\n",
        s->unix_s, s->step, s->epoch, s->contributors, s->alive, s->n_workers,
        s->samples, finite_or_0(s->elapsed_s), finite_or_0(s->samples_per_s));

    if (n < 0 || (size_t)n >= sizeof line)
        return;
    if (atomic_file_begin(&f, path, S_IRUSR | S_IWUSR, 0, NULL) != DSGD_OK)
        return;
    atomic_file_write(&f, line, (size_t)n);
    atomic_file_end(&f, NULL);
}
