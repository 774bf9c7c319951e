#include "checkpoint_list.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"

static const char prefix[] = "step-", suffix[] = ".ckpt", temporary[] = ".tmp";

void checkpoint_name(uint64_t step, char *name)
{
    snprintf(name, CHECKPOINT_FILE_NAME, "%s%012" PRIu64 "%s", prefix, step,
             suffix);
}

/* The step of a checkpoint's name; *rest is what follows the name.  0: it is
 * none. */
static uint64_t parse(const char *name, const char **rest)
{
    char *end, again[CHECKPOINT_FILE_NAME];

    if (strncmp(name, prefix, sizeof prefix - 1) != 0 ||
        !isdigit((unsigned char)name[sizeof prefix - 1]))
        return 0;
    uint64_t step = strtoull(name + sizeof prefix - 1, &end, 10);
    checkpoint_name(step, again);
    if (strncmp(name, again, strlen(again)) != 0)
        return 0;
    *rest = name + strlen(again);
    return step;
}

static bool grow(struct checkpoint_list *l)
{
    size_t capacity = l->capacity ? 2 * l->capacity : 16;
    uint64_t *step = realloc(l->step, capacity * sizeof *step);

    if (!step)
        return false;
    l->step = step;
    l->capacity = capacity;
    return true;
}

void checkpoint_list_add(struct checkpoint_list *l, uint64_t step)
{
    size_t at = l->n;

    while (at && l->step[at - 1] > step)
        at--;
    if ((at && l->step[at - 1] == step) || (l->n == l->capacity && !grow(l)))
        return;
    memmove(l->step + at + 1, l->step + at, (l->n - at) * sizeof *l->step);
    l->step[at] = step;
    l->n++;
}

void checkpoint_list_remove_first(struct checkpoint_list *l)
{
    if (l->n)
        memmove(l->step, l->step + 1, --l->n * sizeof *l->step);
}

enum dsgd_err checkpoint_list_read(const char *dir, struct checkpoint_list *l,
                                   struct dsgd_error *err)
{
    struct dirent *entry;
    DIR *d = opendir(dir);

    *l = (struct checkpoint_list){0};
    if (!d)
        return error_set(err, DSGD_E_IO, "%.300s: %s", dir, strerror(errno));
    while ((entry = readdir(d))) {
        const char *rest = "";
        uint64_t step = parse(entry->d_name, &rest);
        if (step && !*rest)
            checkpoint_list_add(l, step);
    }
    closedir(d);
    return DSGD_OK;
}

void checkpoint_list_free(struct checkpoint_list *l)
{
    free(l->step);
    *l = (struct checkpoint_list){0};
}

void checkpoint_sweep(const char *dir)
{
    struct dirent *entry;
    DIR *d = opendir(dir);

    while (d && (entry = readdir(d))) {
        const char *rest = "";
        if (parse(entry->d_name, &rest) && strcmp(rest, temporary) == 0)
            unlinkat(dirfd(d), entry->d_name, 0);
    }
    if (d)
        closedir(d);
}
