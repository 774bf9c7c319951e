#include "checkpoint_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint_list.h"
#include "error.h"
#include "sys.h"
#include "text.h"

struct checkpoint_store {
    struct dsgd_options opt;
    char dir[PATH_MAX - 64];
    int lock; /* the directory; -1 */

    pthread_t thread;
    bool has_thread;
    sem_t wake;
    _Atomic int progress;
    atomic_bool stop;

    struct checkpoint job;       /* of the thread while it is busy */
    struct dsgd_error result;    /* … and its answer */
    struct checkpoint_list kept; /* good ones, oldest first: the thread's */
};

static void path_of(const struct checkpoint_store *s, uint64_t step, char *path)
{
    char name[CHECKPOINT_FILE_NAME];

    checkpoint_name(step, name);
    snprintf(path, PATH_MAX, "%s/%s", s->dir, name);
}

/* %u, %j and %x in a directory's name: user, job and job's name, as in file
 * names of sbatch(1). */
static bool expand(const char *pattern, char *out, size_t size)
{
    const struct passwd *user = getpwuid(geteuid());
    const char *job = getenv("SLURM_JOB_ID"), *name = getenv("SLURM_JOB_NAME");
    size_t n = 0;

    for (; *pattern; pattern++) {
        const char *text = NULL;
        char one[2] = {*pattern, 0};
        if (*pattern == '%' && pattern[1] == 'u')
            text = user ? user->pw_name : "unknown";
        else if (*pattern == '%' && pattern[1] == 'j')
            text = job ? job : "0";
        else if (*pattern == '%' && pattern[1] == 'x')
            text = name ? name : "job";
        pattern += text != NULL;
        text = text ? text : one;
        if (n + strlen(text) >= size)
            return false;
        n += (size_t)snprintf(out + n, size - n, "%s", text);
    }
    return true;
}

/* A directory may be there though mkdir says something else than that: one that
 * is mounted when it is looked at, or in what can't be written to. */
static bool make_directory(const char *path, mode_t mode)
{
    struct stat st;

    if (mkdir(path, mode) == 0)
        return true;
    int error = errno;
    bool there = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    errno = error == EEXIST ? ENOTDIR : error;
    return there;
}

/* As mkdir -p. */
static bool make_directories(const char *dir)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s", dir);
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/';)
        path[--n] = '\0'; /* the last name is the directory's own */
    for (char *slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        if (!make_directory(path, 0777))
            return false;
    }
    return make_directory(path, 0700);
}

static enum dsgd_err open_directory(struct checkpoint_store *s,
                                    struct dsgd_error *err)
{
    if (!expand(s->opt.checkpoint_dir, s->dir, sizeof s->dir))
        return error_set(err, DSGD_E_USAGE,
                         "checkpoint directory %.200s…: the name is too long",
                         s->opt.checkpoint_dir);
    if (make_directories(s->dir))
        s->lock = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock < 0 || access(s->dir, W_OK) != 0)
        return error_set(err, DSGD_E_IO,
                         "checkpoint directory %.300s: %s: choose one that can "
                         "be written to",
                         s->dir, strerror(errno));
    /* A file system without locks is no reason to do without checkpoints. */
    if (flock(s->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return error_set(err, DSGD_E_USAGE,
                         "checkpoint directory %.300s: another run is using "
                         "it; give each a directory of its own, such as one "
                         "with %%j, the job's number, in its name",
                         s->dir);
    checkpoint_sweep(s->dir);
    return DSGD_OK;
}

static void prune(struct checkpoint_store *s, uint64_t written)
{
    char path[PATH_MAX];

    checkpoint_list_add(&s->kept, written);
    while (s->kept.n > (s->opt.checkpoint_keep ? s->opt.checkpoint_keep : 1)) {
        path_of(s, s->kept.step[0], path);
        unlink(path);
        checkpoint_list_remove_first(&s->kept);
    }
}

static void write_one(struct checkpoint_store *s)
{
    char path[PATH_MAX];

    path_of(s, s->job.facts.step, path);
    enum dsgd_err rc = checkpoint_write(path, &s->job, &s->result);
    if (rc == DSGD_OK) {
        prune(s, s->job.facts.step);
        error_set(&s->result, rc, "%.400s", path);
    }
    atomic_store(&s->progress,
                 rc == DSGD_OK ? CHECKPOINT_WRITTEN : CHECKPOINT_FAILED);
}

static void *work(void *argument)
{
    struct checkpoint_store *s = argument;

    for (;;) {
        while (sem_wait(&s->wake) != 0 && errno == EINTR)
            ;
        if (atomic_load(&s->progress) == CHECKPOINT_BUSY)
            write_one(s);
        if (atomic_load(&s->stop))
            return NULL;
    }
}

static enum dsgd_err start(struct checkpoint_store *s, struct dsgd_error *err)
{
    enum dsgd_err rc =
        sys_thread_start(&s->thread, work, s, "checkpoints", err);

    s->has_thread = rc == DSGD_OK;
    return rc;
}

enum dsgd_err checkpoint_store_open(const struct dsgd_options *opt,
                                    struct checkpoint_store **out,
                                    struct dsgd_error *err)
{
    struct checkpoint_store *s = calloc(1, sizeof *s);

    *out = NULL;
    if (!s)
        return error_set(err, DSGD_E_NOMEM, "checkpoints: no memory");
    s->opt = *opt;
    s->lock = -1;
    sem_init(&s->wake, 0, 0);
    enum dsgd_err rc = open_directory(s, err);
    if (rc == DSGD_OK)
        rc = start(s, err);
    if (rc != DSGD_OK) {
        checkpoint_store_close(s);
        return rc;
    }
    *out = s;
    return DSGD_OK;
}

void checkpoint_store_close(struct checkpoint_store *s)
{
    if (!s)
        return;
    if (s->has_thread) {
        atomic_store(&s->stop, true);
        sem_post(&s->wake);
        pthread_join(s->thread, NULL);
    }
    if (s->lock >= 0)
        close(s->lock);
    sem_destroy(&s->wake);
    checkpoint_list_free(&s->kept);
    free(s);
}

static void warn(const struct checkpoint_store *s, const char *text)
{
    if (s->opt.warn)
        s->opt.warn(s->opt.warn_context, text);
}

/* Is it of the training that wants to go on? */
static enum dsgd_err compare(const struct checkpoint_facts *got,
                             const struct checkpoint_facts *want,
                             const char *path, struct dsgd_error *err)
{
    char program[2 * sizeof want->program], identity[2 * sizeof want->identity];

    text_to_utf8(program, want->program);
    text_to_utf8(identity, want->identity);
    if (strcmp(got->program, program) != 0 ||
        strcmp(got->identity, identity) != 0)
        return error_set(err, DSGD_E_USAGE,
                         "%.200s: of another training (\"%.40s %.60s\", and "
                         "this is \"%.40s %.60s\")",
                         path, got->program, got->identity, program, identity);
    if (got->grad_elems != want->grad_elems ||
        got->n_samples != want->n_samples || got->sampler != want->sampler)
        return error_set(err, DSGD_E_USAGE,
                         "%.200s: of another training (%" PRIu64
                         " gradient elements and %" PRIu64
                         " samples, and this has %" PRIu64 " and %" PRIu64 ")",
                         path, got->grad_elems, got->n_samples,
                         want->grad_elems, want->n_samples);
    return DSGD_OK;
}

static enum dsgd_err read_one(struct checkpoint_store *s, uint64_t step,
                              const struct checkpoint_facts *want,
                              struct checkpoint_read **c,
                              struct dsgd_error *err)
{
    char path[PATH_MAX];

    path_of(s, step, path);
    enum dsgd_err rc = checkpoint_read(path, c, err);
    if (rc == DSGD_OK)
        rc = compare(&(*c)->facts, want, path, err);
    if (rc == DSGD_OK && (*c)->facts.step != step)
        rc = error_set(err, DSGD_E_FORMAT,
                       "%.300s: renamed: it is of step %" PRIu64, path,
                       (*c)->facts.step);
    if (rc != DSGD_OK) {
        checkpoint_free(*c);
        *c = NULL;
    }
    return rc;
}

/* Those up to list->step[n - 1], which was read, are taken for good. */
static void keep(struct checkpoint_store *s, struct checkpoint_list *list,
                 size_t n)
{
    list->n = n;
    checkpoint_list_free(&s->kept);
    s->kept = *list;
}

enum dsgd_err checkpoint_store_newest(struct checkpoint_store *s,
                                      const struct checkpoint_facts *want,
                                      struct checkpoint_read **c, char *name,
                                      struct dsgd_error *err)
{
    struct checkpoint_list list;
    enum dsgd_err rc = checkpoint_list_read(s->dir, &list, err);
    bool foreign = false;

    *c = NULL;
    for (size_t i = list.n; rc == DSGD_OK && i-- > 0;) {
        struct dsgd_error why, text;
        rc = read_one(s, list.step[i], want, c, &why);
        if (rc == DSGD_OK) {
            checkpoint_name(list.step[i], name);
            keep(s, &list, i + 1);
            return DSGD_OK;
        }
        foreign = foreign || rc == DSGD_E_USAGE;
        if (rc == DSGD_E_NOMEM) {
            checkpoint_list_free(&list);
            return error_set(err, rc, "%s", why.text);
        }
        error_set(&text, rc, "checkpoint %.400s: not used", why.text);
        warn(s, text.text);
        rc = DSGD_OK;
    }
    checkpoint_list_free(&list);
    if (rc == DSGD_OK && foreign)
        rc = error_set(err, DSGD_E_USAGE,
                       "checkpoint directory %.300s: its checkpoints are of "
                       "another training: give this one a directory of its "
                       "own",
                       s->dir);
    return rc;
}

void checkpoint_store_put(struct checkpoint_store *s,
                          const struct checkpoint *c)
{
    s->job = *c;
    atomic_store(&s->progress, CHECKPOINT_BUSY);
    sem_post(&s->wake);
}

enum checkpoint_progress checkpoint_store_poll(struct checkpoint_store *s,
                                               struct dsgd_error *result)
{
    int progress = atomic_load(&s->progress);

    if (progress == CHECKPOINT_WRITTEN || progress == CHECKPOINT_FAILED) {
        *result = s->result;
        atomic_store(&s->progress, CHECKPOINT_IDLE);
    }
    return (enum checkpoint_progress)progress;
}
