#include "report_find.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf_file.h"
#include "dsgd_names.h"
#include "error.h"

static const char suffix[] = ".dsgd";

void report_paths_free(struct report_paths *paths)
{
    for (size_t i = 0; i < paths->n; i++)
        free(paths->path[i]);
    free(paths->path);
    *paths = (struct report_paths){NULL, 0};
}

enum dsgd_err report_paths_add(struct report_paths *paths, const char *path,
                               struct dsgd_error *err)
{
    void *more = reallocarray(paths->path, paths->n + 1, sizeof *paths->path);
    if (more)
        paths->path = more;
    char *copy = more ? strdup(path) : NULL;
    if (!copy)
        return error_set(err, DSGD_E_NOMEM, "no memory");
    paths->path[paths->n++] = copy;
    return DSGD_OK;
}

/* Where a conf file's RecordDir goes to. */
struct conf_dir {
    char *dir;
    size_t size;
};

static enum dsgd_err conf_line(void *context, const char *path, unsigned number,
                               const char *name, const char *value,
                               struct dsgd_error *err)
{
    const struct conf_dir *to = context;

    if (!value || strcmp(name, "RecordDir") != 0)
        return DSGD_OK; /* libdsgd reads them, and says what is wrong */
    if (strlen(value) >= to->size)
        return error_set(err, DSGD_E_USAGE,
                         "%s:%u: RecordDir: \"%.40s…\" is too long", path,
                         number, value);
    strcpy(to->dir, value);
    return DSGD_OK;
}

enum dsgd_err report_record_dir(const char *option, char *dir, size_t size,
                                struct dsgd_error *err)
{
    const char *value = option ? option : getenv(DSGD_RECORD_DIR);

    dir[0] = '\0';
    if (!value)
        return conf_file_read(conf_line, &(struct conf_dir){dir, size}, err);
    if (strlen(value) >= size)
        return error_set(err, DSGD_E_USAGE, "%s: \"%.40s…\" is too long",
                         option ? "--record-dir" : DSGD_RECORD_DIR, value);
    strcpy(dir, value);
    return DSGD_OK;
}

/* Split "<job>.<step>.<restart>.dsgd" from behind: a job's name may contain
 * dots.  False: it is none. */
static bool split(const char *name, size_t *job, const char **step,
                  size_t *step_length)
{
    size_t length = strlen(name);
    const char *end, *dot;

    if (length <= sizeof suffix ||
        strcmp(name + length - (sizeof suffix - 1), suffix) != 0)
        return false;
    end = name + length - (sizeof suffix - 1);
    dot = memrchr(name, '.', (size_t)(end - name));
    if (!dot || dot == name || dot + 1 == end ||
        strspn(dot + 1, "0123456789") != (size_t)(end - dot - 1))
        return false;
    end = dot;
    dot = memrchr(name, '.', (size_t)(end - name));
    if (!dot || dot == name)
        return false;
    *job = (size_t)(dot - name);
    *step = dot + 1;
    *step_length = (size_t)(end - dot - 1);
    return true;
}

bool report_is_job(const char *name, const char *job)
{
    const char *step, *dot = strrchr(job, '.');
    size_t have, step_length;
    size_t want = dot ? (size_t)(dot - job) : strlen(job);

    if (!split(name, &have, &step, &step_length) || want == 0 || have < want ||
        strncmp(name, job, want) != 0)
        return false;
    if (have > want && name[want] != '_' && name[want] != '+')
        return false;
    return !dot || (strlen(dot + 1) == step_length &&
                    strncmp(dot + 1, step, step_length) == 0);
}

static bool is_wanted(const char *name, const char *jobs)
{
    size_t job, step_length;
    const char *step;

    if (!jobs)
        return split(name, &job, &step, &step_length);
    for (; *jobs; jobs += *jobs == ',') {
        char one[256];
        size_t length = strcspn(jobs, ",");
        if (length > 0 && length < sizeof one) {
            memcpy(one, jobs, length);
            one[length] = '\0';
            if (report_is_job(name, one))
                return true;
        }
        jobs += length;
    }
    return false;
}

/* The records that lie in an open directory, which is closed. */
static enum dsgd_err scan(int fd, const char *dir, const char *jobs,
                          struct report_paths *paths, struct dsgd_error *err)
{
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    enum dsgd_err rc = DSGD_OK;
    const struct dirent *entry;

    if (!d) {
        if (fd >= 0)
            close(fd);
        return DSGD_OK;
    }
    while (rc == DSGD_OK && (entry = readdir(d))) {
        char path[PATH_MAX];
        int n = snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (n > 0 && (size_t)n < sizeof path && is_wanted(entry->d_name, jobs))
            rc = report_paths_add(paths, path, err);
    }
    closedir(d);
    return rc;
}

static int open_dir(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The folders of dir. */
static enum dsgd_err scan_folders(const char *dir, const char *jobs,
                                  const char *users, struct report_paths *paths,
                                  struct dsgd_error *err)
{
    DIR *d = opendir(dir);
    enum dsgd_err rc = DSGD_OK;
    const struct dirent *entry;

    while (d && rc == DSGD_OK && (entry = readdir(d))) {
        char path[PATH_MAX];
        int n = snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (entry->d_name[0] == '.' || n < 0 || (size_t)n >= sizeof path ||
            (*users && strcmp(users, entry->d_name) != 0))
            continue;
        rc = scan(open_dir(dirfd(d), entry->d_name), path, jobs, paths, err);
    }
    if (d)
        closedir(d);
    return rc;
}

/* By job, step and restart, as numbers; then by path. */
static int compare(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    int order = strverscmp(strrchr(x, '/'), strrchr(y, '/'));
    return order ? order : strcmp(x, y);
}

enum dsgd_err report_find(const char *dir, const char *jobs, bool itself,
                          const char *users, struct report_paths *paths,
                          struct dsgd_error *err)
{
    size_t before = paths->n;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum dsgd_err rc = DSGD_OK;

    if (fd < 0)
        return error_set(err, DSGD_E_IO, "%s: %s", dir, strerror(errno));
    if (itself)
        rc = scan(fd, dir, jobs, paths, err);
    else
        close(fd);
    if (rc == DSGD_OK && users)
        rc = scan_folders(dir, jobs, users, paths, err);
    if (paths->n > before)
        qsort(paths->path + before, paths->n - before, sizeof *paths->path,
              compare);
    return rc;
}
