#include "co_jobs.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

struct job_set {
    int count;
    uint32_t id[CO_JOBS_MAX];
};

static void add_job(struct job_set *set, uint32_t id)
{
    for (int i = 0; i < set->count; i++) {
        if (set->id[i] == id)
            return;
    }
    if (set->count < CO_JOBS_MAX)
        set->id[set->count++] = id;
}

/* A number at *text, which is moved past it. */
static bool read_number(const char **text, uint32_t *number)
{
    uint64_t n = 0;
    const char *p = *text;

    for (; *p >= '0' && *p <= '9'; p++) {
        n = n * 10 + (uint64_t)(*p - '0');
        if (n > UINT32_MAX)
            return false;
    }
    if (p == *text)
        return false;
    *text = p;
    *number = (uint32_t)n;
    return true;
}

/* "job_<id>", and nothing behind it. */
static bool job_of_directory(const char *name, uint32_t *id)
{
    if (strncmp(name, "job_", 4) != 0)
        return false;
    name += 4;
    return read_number(&name, id) && !*name;
}

static DIR *open_directory(const char *root, const char *path)
{
    char full[PATH_BYTES];

    return text_path(full, "%s%s", root, path) ? opendir(full) : NULL;
}

/* Add the job_* directories of path. */
static void add_directories(const char *root, const char *path, uint32_t own,
                            struct job_set *set)
{
    DIR *dir = open_directory(root, path);
    struct dirent *entry;
    uint32_t id;

    if (!dir)
        return;
    while ((entry = readdir(dir))) {
        if (job_of_directory(entry->d_name, &id) && id != own)
            add_job(set, id);
    }
    closedir(dir);
}

/* Version 1 keeps the jobs of each user in a uid_* directory. */
static void add_users(const char *root, const char *path, uint32_t own,
                      struct job_set *set)
{
    DIR *dir = open_directory(root, path);
    struct dirent *entry;
    char user[PATH_BYTES];

    if (!dir)
        return;
    while ((entry = readdir(dir))) {
        if (strncmp(entry->d_name, "uid_", 4) == 0 &&
            text_path(user, "%s/%s", path, entry->d_name))
            add_directories(root, user, own, set);
    }
    closedir(dir);
}

/* The directory that holds this job's cgroup, cut at "/job_<id>". */
static bool jobs_directory(const struct cgroup_place *place, uint32_t own,
                           char path[PATH_BYTES])
{
    char part[32];

    if (!place->top[0] || !text_path(path, "%s%s", place->top, place->self))
        return false;
    snprintf(part, sizeof part, "/job_%u/", (unsigned)own);
    char *at = strstr(path + strlen(place->top), part);
    if (!at)
        return false;
    *at = '\0';
    return true;
}

static int count_directories(const char *root, const struct node_cgroups *node,
                             uint32_t own, struct job_set *set)
{
    char path[PATH_BYTES];

    for (int c = 0; c < N_CGROUPS; c++) {
        if (!jobs_directory(&node->place[c], own, path))
            continue;
        char *last = strrchr(path, '/');
        if (last && strncmp(last, "/uid_", 5) == 0) {
            *last = '\0';
            add_users(root, path, own, set);
        } else {
            add_directories(root, path, own, set);
        }
        return set->count;
    }
    return -1;
}

/* A slurmstepd listens at "<spool directory>/<node>_<job>.<step>", with one
 * more ".<component>" in a heterogeneous job.  Gives the length of what stands
 * before the job's number, or 0. */
static size_t job_of_socket(const char *path, uint32_t *id)
{
    const char *slash = strrchr(path, '/');
    const char *mark = slash ? strrchr(slash, '_') : NULL;
    uint32_t ignored;

    if (!mark || *path != '/')
        return 0;
    const char *p = mark + 1;
    if (!read_number(&p, id) || *p++ != '.' || !read_number(&p, &ignored))
        return 0;
    if (*p == '.' && (p++, !read_number(&p, &ignored)))
        return 0;
    return *p ? 0 : (size_t)(mark - path) + 1;
}

/* The path at the end of a line of /proc/net/unix, or NULL. */
static const char *socket_path(const char *line)
{
    const char *at = strchr(line, '/');

    return at && at > line && at[-1] == ' ' ? at : NULL;
}

/* What stands before the job's number in the path of own's socket. */
static bool socket_prefix(const char *root, uint32_t own,
                          char prefix[PATH_BYTES])
{
    struct text_lines lines;
    const char *line;
    size_t length = 0;

    if (!text_open(root, "/proc/net/unix", &lines))
        return false;
    while (!length && (line = text_next(&lines))) {
        const char *path = socket_path(line);
        uint32_t id;
        length = path ? job_of_socket(path, &id) : 0;
        if (length && (id != own || length >= PATH_BYTES))
            length = 0;
        if (length) {
            memcpy(prefix, path, length);
            prefix[length] = '\0';
        }
    }
    text_close(&lines);
    return length > 0;
}

static int count_sockets(const char *root, uint32_t own, struct job_set *set)
{
    char prefix[PATH_BYTES];
    struct text_lines lines;
    const char *line;
    uint32_t id;

    if (!socket_prefix(root, own, prefix) ||
        !text_open(root, "/proc/net/unix", &lines))
        return -1;
    size_t length = strlen(prefix);
    while ((line = text_next(&lines))) {
        const char *path = socket_path(line);
        if (path && job_of_socket(path, &id) == length &&
            strncmp(path, prefix, length) == 0 && id != own)
            add_job(set, id);
    }
    text_close(&lines);
    return set->count;
}

int co_jobs_count(const char *root, const struct node_cgroups *node,
                  uint32_t job_id)
{
    struct job_set set = {0};
    int count = count_directories(root, node, job_id, &set);

    return count >= 0 ? count : count_sockets(root, job_id, &set);
}
