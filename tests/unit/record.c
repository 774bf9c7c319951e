/* The record: what is written is read back; a lock, a full disk or a file that
 * is not a record costs an error or a warning, never more. */
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "record_owner.h"
#include "record_read.h"
#include "tap.h"

enum { N = 13, NODES = 3, USER = 12345 };

static char dir[64] = "/tmp/dsgd-record-XXXXXX";
static const char *const node_name[NODES] = {"n1", "n2", "n 3|é"};
static const char *const node_kernel[NODES] = {"Zen", NULL, "Haswell"};
static const uint32_t worker_node[N] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2};

static const char *in_dir(const char *name)
{
    static char path[4][160];
    static int i;
    i = (i + 1) % 4;
    snprintf(path[i], sizeof path[i], "%s/%s", dir, name);
    return path[i];
}

static struct record_job sample_job(void)
{
    static float telemetry[NODES * DSGD_N_TELEMETRY];

    for (int i = 0; i < NODES * DSGD_N_TELEMETRY; i++)
        telemetry[i] = i % 5 ? (float)i / 8 : NAN;
    return (struct record_job){
        .job_id = "123",
        .step_id = "4",
        .restart = 2,
        .job_name = "train it",
        .user = NULL,
        .program = "dsgd-train",
        .description = "cnn",
        .cutoff = "static:90%",
        .late = "requeue",
        .min_contributors = 3,
        .grad_elems = 215370,
        .n_samples = 60000,
        .batch = 64,
        .start_unix_s = 1.8e9,
        .n_workers = N,
        .n_nodes = NODES,
        .node_name = node_name,
        .node_kernel = node_kernel,
        .worker_node = worker_node,
        .telemetry = telemetry,
    };
}

/* Put step t, made of numbers that can be computed again. */
static void put_step(struct record *r, uint64_t t)
{
    uint8_t mask[N];
    float duration[N], lag[N];
    uint64_t first[N];
    uint32_t count[N], contributors = 0;

    for (unsigned w = 0; w < N; w++) {
        mask[w] = (t + w) % 4 != 0;
        contributors += mask[w];
        duration[w] = mask[w] ? .01f * (float)(t + w) : NAN;
        lag[w] = .001f * (float)w;
        first[w] = t << 33 | w;
        count[w] = 64 - w;
    }
    struct record_step step = {
        .step = t,
        .epoch = t / 10,
        .attempt = 1,
        .target = 9,
        .contributors = contributors,
        .alive = N,
        .epoch_end = t % 10 == 9,
        .samples = 64 * contributors,
        .start_s = (double)t,
        .close_s = .5,
        .publish_s = .625,
        .lr_scale = 1,
        .mask = mask,
        .duration_s = duration,
        .lag_s = lag,
        .first = first,
        .count = count,
    };
    record_put_step(r, &step);
}

static bool same_step(const struct record_step *s, uint64_t t)
{
    bool same = s->step == t && s->epoch == t / 10 && s->attempt == 1 &&
                s->target == 9 && s->alive == N &&
                s->epoch_end == (t % 10 == 9) &&
                s->samples == 64 * s->contributors && s->start_s == (double)t &&
                s->close_s == .5 && s->publish_s == .625 && s->lr_scale == 1;

    for (unsigned w = 0; w < N; w++) {
        same &= s->mask[w] == ((t + w) % 4 != 0);
        same &= s->mask[w] ? s->duration_s[w] == .01f * (float)(t + w)
                           : isnan(s->duration_s[w]);
        same &= s->lag_s[w] == .001f * (float)w;
        same &= s->first[w] == (t << 33 | w) && s->count[w] == 64 - w;
    }
    return same;
}

static struct record *create(const char *path)
{
    struct record_job job = sample_job();
    struct dsgd_error err = {""};
    struct record *r;

    if (record_create(path, &job, &r, &err) != DSGD_OK)
        printf("# %s\n", err.text);
    return r;
}

/* Steps 1..n are in the record and nothing is wrong with it.  Returns the
 * number of steps, or -1. */
static long long count_steps(const char *path)
{
    struct record_read *r;
    struct record_step step;
    struct dsgd_error err;
    enum dsgd_err rc = record_read_open(path, &r, &err);
    long long n = 0;

    while (rc == DSGD_OK &&
           (rc = record_read_step(r, &step, &err)) == DSGD_OK) {
        n++;
        if (!same_step(&step, step.step))
            rc = DSGD_E_FAIL;
    }
    if (rc != DSGD_END)
        printf("# %d %s\n", rc, err.text);
    record_read_close(r);
    return rc == DSGD_END ? n : -1;
}

static bool wait_for_warning(struct record *r, struct dsgd_error *text)
{
    for (int i = 0; i < 1000; i++) {
        if (record_warning(r, text))
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return false;
}

static void check_facts(const struct record_read *r)
{
    const struct record_facts *f = record_read_facts(r);
    struct record_job want = sample_job();
    unsigned same = 0;

    is_str(f->job.job_id, "123", "job id");
    is_str(f->job.description, "cnn", "description");
    ok(f->job.user == NULL, "an unknown user stays unknown");
    ok(f->job.restart == 2 && f->job.min_contributors == 3 &&
           f->job.grad_elems == 215370 && f->job.n_samples == 60000 &&
           f->job.batch == 64 && f->job.start_unix_s == 1.8e9,
       "the job's numbers");
    is_int(f->job.n_workers, N, "workers");
    is_str(f->job.node_name[2], "n 3|é", "a node's name");
    ok(f->job.node_kernel[1] == NULL, "an unknown kernel stays unknown");
    is_str(f->job.node_kernel[2], "Haswell", "a node's kernel");
    ok(memcmp(f->job.worker_node, worker_node, sizeof worker_node) == 0,
       "the workers' nodes");
    for (int i = 0; i < NODES * DSGD_N_TELEMETRY; i++)
        same += isnan(want.telemetry[i])
                    ? isnan(f->job.telemetry[i]) != 0
                    : f->job.telemetry[i] == want.telemetry[i];
    is_int(same, NODES * DSGD_N_TELEMETRY, "telemetry, with its gaps");
    ok(f->completed && f->end_s == 77.5 && f->dropped_rows == 0,
       "the end facts");
    is_str(f->version, PACKAGE_VERSION, "the version that wrote it");
}

static void check_other_rows(struct record_read *r)
{
    struct record_late late;
    struct record_event event;
    struct dsgd_error err;
    uint64_t step, value;
    uint32_t worker;

    ok(record_read_late(r, &late, &err) == DSGD_OK && late.step == 5 &&
           late.worker == 12 && late.duration_s == 1.5f && late.lag_s == .25f &&
           late.fraction == .75f,
       "a late row");
    ok(record_read_late(r, &late, &err) == DSGD_OK && isnan(late.duration_s),
       "a late row without a duration");
    is_int(record_read_late(r, &late, &err), DSGD_END, "no more");
    ok(record_read_event(r, &event, &err) == DSGD_OK &&
           event.kind == RECORD_EVENT_NODE_LOST && event.step == 6 &&
           event.worker == -1 && event.node == 2 && event.at_s == 6.5,
       "an event");
    is_str(event.text, "did not deliver", "its text");
    is_int(record_read_event(r, &event, &err), DSGD_END, "no more");
    ok(record_read_checksum(r, &step, &worker, &value, &err) == DSGD_OK &&
           step == 9 && worker == 3 && value == 0xfedcba9876543210u,
       "a checksum of 64 bits");
}

static void test_round_trip(void)
{
    const char *path = in_dir("123.4.2.dsgd");
    struct record *r = create(path);
    struct record_read *reader = NULL;
    struct dsgd_error err = {""};
    struct stat st;

    for (uint64_t t = 1; t <= 100; t++)
        put_step(r, t);
    record_put_late(r, &(struct record_late){5, 12, 1.5f, .25f, .75f});
    record_put_late(r, &(struct record_late){7, 1, NAN, 0, 0});
    record_put_event(r, &(struct record_event){RECORD_EVENT_NODE_LOST, 6, -1, 2,
                                               6.5, "did not deliver"});
    record_put_checksum(r, 9, 3, 0xfedcba9876543210u);
    ok(!record_warning(r, &err), "nothing to warn of");
    is_int(record_close(r, true, 77.5, 10, &err), DSGD_OK, "close");
    ok(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600, "mode 0600");
    is_int(count_steps(path), 100, "100 steps come back as they were");
    is_int(record_read_open(path, &reader, &err), DSGD_OK, "open");
    check_facts(reader);
    check_other_rows(reader);
    record_read_close(reader);
    ok(access(in_dir("123.4.2.dsgd-journal"), F_OK) != 0 &&
           access(in_dir("123.4.2.status"), F_OK) != 0,
       "no journal and no status file are left");
}

static void test_status(void)
{
    struct record *r = create(in_dir("live.dsgd"));
    char line[512] = "";

    put_step(r, 41);
    for (int i = 0; i < 1000 && !strstr(line, "\"step\":41"); i++) {
        FILE *f = fopen(in_dir("live.status"), "re");
        if (f && !fgets(line, sizeof line, f))
            line[0] = '\0';
        if (f)
            fclose(f);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    has_str(line,
            "\"step\":41,\"epoch\":4,\"contributors\":10,\"alive\":13,"
            "\"workers\":13,\"samples\":640,\"elapsed_s\":41.625000,",
            "the status file tells of the last step");
    record_close(r, false, 42, 10, NULL);
}

static void test_create_errors(void)
{
    struct record_job job = sample_job();
    struct dsgd_error err;
    struct record *r;

    is_int(record_create(in_dir("no/such/1.dsgd"), &job, &r, &err), DSGD_E_IO,
           "a missing directory is an error");
    has_str(err.text, "no/such: No such file", "that names it");
    has_str(err.text, "--dsgd-record", "and the remedy");
    is_int(record_create(in_dir("123.4.2.dsgd"), &job, &r, &err), DSGD_E_IO,
           "a file that exists is an error");
    has_str(err.text, "123.4.2.dsgd: exists already", "that says so");
    is_int(count_steps(in_dir("123.4.2.dsgd")), 100, "and it is untouched");
    ok(symlink("target", in_dir("link.dsgd")) == 0, "a symbolic link");
    is_int(record_create(in_dir("link.dsgd"), &job, &r, &err), DSGD_E_IO,
           "is not followed");
    ok(access(in_dir("target"), F_OK) != 0, "and its target not created");
    mkdir(in_dir("full"), 0555);
    if (geteuid() == 0 && seteuid(USER) != 0)
        printf("# can't become an ordinary user\n");
    is_int(record_create(in_dir("full/1.dsgd"), &job, &r, &err), DSGD_E_IO,
           "a directory that can't be written to is an error");
    has_str(err.text, "full/1.dsgd: Permission denied", "that says so");
    ok(r == NULL, "and there is no record");
    if (getuid() == 0 && seteuid(0) != 0)
        printf("# can't become root again\n");
    record_put_step(NULL, NULL);
    is_int(record_close(NULL, true, 0, 0, NULL), DSGD_OK, "NULL is fine");
}

/* The reader's lock is held by this very thread: were a put to wait for it, the
 * test would never end. */
static void test_lock(void)
{
    const char *path = in_dir("lock.dsgd");
    struct record *r = create(path);
    struct dsgd_error err = {""};
    struct record_read *reader;

    put_step(r, 1);
    is_int(record_read_open(path, &reader, &err), DSGD_OK,
           "a reader opens a live record");
    for (uint64_t t = 2; t <= 3000; t++)
        put_step(r, t);
    ok(wait_for_warning(r, &err), "a lock that is held is warned of");
    has_str(err.text, "lock.dsgd: locked by another process", "by name");
    ok(!record_warning(r, &err), "once");
    record_read_close(reader);
    is_int(record_close(r, true, 1, 10, &err), DSGD_OK,
           "when it is gone all is written");
    is_int(count_steps(path), 3000, "and nothing is missing");
}

static void test_lock_at_close(void)
{
    const char *path = in_dir("lock2.dsgd");
    struct record *r = create(path);
    struct dsgd_error err = {""};
    struct record_read *reader;

    record_read_open(path, &reader, &err);
    put_step(r, 1);
    is_int(record_close(r, true, 1, .3, &err), DSGD_E_TIMEOUT,
           "a lock held for good makes close give up");
    has_str(err.text, "lock2.dsgd: locked by another process", "it says why");
    record_read_close(reader);
    is_int(record_read_open(path, &reader, &err), DSGD_OK, "what is there");
    ok(!record_read_facts(reader)->completed &&
           isnan(record_read_facts(reader)->end_s),
       "says that it is incomplete");
    record_read_close(reader);
}

static void test_full_queue(void)
{
    const char *path = in_dir("queue.dsgd");
    struct record *r = create(path);
    struct dsgd_error err = {""};
    struct record_read *reader;
    uint64_t t = 0;
    bool dropped = false;

    record_read_open(path, &reader, &err);
    while (!dropped && t < 100000) {
        for (int i = 0; i < 1000; i++)
            put_step(r, ++t);
        while (record_warning(r, &err))
            dropped |= strstr(err.text, "rows were dropped") != NULL;
    }
    ok(dropped, "a queue that is full drops rows, with a warning");
    record_read_close(reader);
    is_int(record_close(r, true, 1, 10, &err), DSGD_E_IO, "close reports it");
    has_str(err.text, "rows were dropped while it could not be", "with why");
    long long stored = count_steps(path);
    record_read_open(path, &reader, &err);
    is_int((long long)record_read_facts(reader)->dropped_rows,
           (long long)t - stored, "the record counts what it lacks");
    struct record_event event = {.text = ""};
    record_read_event(reader, &event, &err);
    has_str(event.text, "rows dropped so far", "and notes where");
    record_read_close(reader);
}

/* A file size limit stands for a full disk.  SIGXFSZ has its default action:
 * it would end this program. */
static void test_file_size_limit(void)
{
    const char *path = in_dir("limit.dsgd");
    struct record *r = create(path);
    struct dsgd_error err = {""};
    struct rlimit before, low;

    getrlimit(RLIMIT_FSIZE, &before);
    low = before;
    low.rlim_cur = 64 << 10;
    setrlimit(RLIMIT_FSIZE, &low);
    for (uint64_t t = 1; t <= 1000; t++)
        put_step(r, t);
    ok(wait_for_warning(r, &err), "a file size limit is warned of");
    has_str(err.text, "limit.dsgd: File too large: the record is behind",
            "with the reason");
    setrlimit(RLIMIT_FSIZE, &before);
    is_int(record_close(r, true, 1, 10, &err), DSGD_OK,
           "when there is room again all is written");
    is_int(count_steps(path), 1000, "and nothing is missing");
}

static bool mount_small(const char *on)
{
    if (unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) !=
        0)
        return false;
    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
    return mount("none", on, "tmpfs", 0, "size=256k") == 0;
}

/* In a mount namespace, which ends with the process. */
static int on_full_disk(void)
{
    const char *path = in_dir("small/1.dsgd");
    struct record_job job = sample_job();
    struct dsgd_error err = {""};
    struct record *r;
    char zero[4096] = "";

    if (!mount_small(in_dir("small")))
        return 77;
    if (record_create(path, &job, &r, &err) != DSGD_OK)
        return 1;
    int fd = open(in_dir("small/filler"), O_CREAT | O_WRONLY, 0600);
    while (write(fd, zero, sizeof zero) > 0)
        ;
    close(fd);
    for (uint64_t t = 1; t <= 1000; t++)
        put_step(r, t);
    if (!wait_for_warning(r, &err) ||
        !strstr(err.text, "No space left on device"))
        return 2;
    if (record_close(r, true, 1, 10, &err) != DSGD_E_IO ||
        !strstr(err.text, "No space left on device: the record is incomplete"))
        return 3;
    if (count_steps(path) != 0) /* what is there can be read */
        return 4;
    if (record_create(in_dir("small/2.dsgd"), &job, &r, &err) != DSGD_E_IO ||
        !strstr(err.text, "No space left on device"))
        return 5;
    return access(in_dir("small/2.dsgd"), F_OK) == 0 ? 6 : 0;
}

/* Run f in a child process; returns its exit status. */
static int in_child(int (*f)(void))
{
    int status = -1;

    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(f());
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_full_disk(void)
{
    mkdir(in_dir("small"), 0700);
    int rc = in_child(on_full_disk);
    if (rc == 77)
        ok(true, "a full disk # SKIP no right to mount a tmpfs");
    else
        is_int(rc, 0, "a full disk is a warning, an error of close, no more");
}

static void test_removed(void)
{
    const char *path = in_dir("gone.dsgd");
    struct record *r = create(path);
    struct dsgd_error err = {""};

    unlink(path);
    put_step(r, 1);
    ok(wait_for_warning(r, &err), "a record that was removed is warned of");
    has_str(err.text,
            "gone.dsgd: the file was moved, removed or made "
            "read-only: the record has stopped",
            "with the reason");
    put_step(r, 2);
    is_int(record_close(r, true, 1, 10, &err), DSGD_E_IO, "and close fails");
    ok(access(path, F_OK) != 0, "it is not created again");
}

/* Leave a transaction half-way through, pages already in the file. */
static int die_in_transaction(void)
{
    sqlite3 *db;

    sqlite3_open(in_dir("crash.dsgd"), &db);
    sqlite3_exec(db,
                 "PRAGMA cache_size=1; BEGIN; UPDATE step SET mask=x'00';"
                 "UPDATE step SET lag=x'00'; DELETE FROM late;",
                 NULL, NULL, NULL);
    sqlite3_db_cacheflush(db);
    return 0;
}

static int read_as_other(void)
{
    struct record_read *r;
    struct dsgd_error err = {""};

    if (geteuid() == 0 && (setgid(USER) != 0 || setuid(USER) != 0))
        return 77;
    if (record_read_open(in_dir("crash.dsgd"), &r, &err) != DSGD_E_IO)
        return 1;
    return strstr(err.text, "its owner must open it once") ? 0 : 2;
}

static void test_hot_journal(void)
{
    const char *path = in_dir("crash.dsgd");
    struct record *r = create(path);

    for (uint64_t t = 1; t <= 500; t++)
        put_step(r, t);
    record_close(r, true, 1, 10, NULL);
    chmod(path, 0644);
    is_int(in_child(die_in_transaction), 0, "a writer dies");
    ok(access(in_dir("crash.dsgd-journal"), F_OK) == 0, "its journal is hot");
    if (geteuid() == 0)
        is_int(in_child(read_as_other), 0, "another user is told what to do");
    is_int(count_steps(path), 500, "the owner's reader puts it in order");
    ok(access(in_dir("crash.dsgd-journal"), F_OK) != 0, "for good");
}

static enum dsgd_err open_error(const char *path, struct dsgd_error *err)
{
    struct record_read *r;
    enum dsgd_err rc = record_read_open(path, &r, err);
    record_read_close(r);
    return rc;
}

static void write_file(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (write(fd, bytes, n) != (ssize_t)n)
        printf("# %s: %s\n", path, strerror(errno));
    close(fd);
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    sqlite3_open(path, &db);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        printf("# %s\n", sqlite3_errmsg(db));
    sqlite3_close(db);
}

/* A copy of the round trip's record, changed by sql. */
static const char *changed(const char *sql)
{
    static char bytes[1 << 18];
    const char *path = in_dir("changed.dsgd");
    int fd = open(in_dir("123.4.2.dsgd"), O_RDONLY);
    ssize_t n = read(fd, bytes, sizeof bytes);

    close(fd);
    write_file(path, bytes, (size_t)n);
    run_sql(path, sql);
    return path;
}

static void test_foreign_files(void)
{
    struct dsgd_error err;
    const char *path = in_dir("bad.dsgd");
    static const char garbage[8192] = "no database at all";

    is_int(open_error(in_dir("absent.dsgd"), &err), DSGD_E_IO, "no file");
    has_str(err.text, "absent.dsgd: No such file", "the error names it");
    write_file(path, garbage, sizeof garbage);
    is_int(open_error(path, &err), DSGD_E_FORMAT, "garbage");
    has_str(err.text, "bad.dsgd: not a slurm-dsgd record", "is named");
    write_file(path, "", 0);
    is_int(open_error(path, &err), DSGD_E_FORMAT, "an empty file");
    run_sql(path, "CREATE TABLE job(x); INSERT INTO job VALUES(1)");
    is_int(open_error(path, &err), DSGD_E_FORMAT, "somebody else's database");
    has_str(err.text, "bad.dsgd: not a slurm-dsgd record", "is named");
    is_int(open_error(in_dir("link.dsgd"), &err), DSGD_E_IO, "a link");
    has_str(err.text, "a symbolic link", "is named");
    is_int(open_error(dir, &err), DSGD_E_IO, "a directory");
    mkfifo(in_dir("fifo"), 0600);
    is_int(open_error(in_dir("fifo"), &err), DSGD_E_IO, "a pipe");
    is_int(open_error(changed("PRAGMA user_version=7"), &err), DSGD_E_FORMAT,
           "a newer version");
    has_str(err.text, "version 7, this program reads version 1", "is named");
}

static void test_hostile_rows(void)
{
    static const struct {
        const char *sql, *name;
    } bad[] = {
        {"UPDATE job SET n_workers=1000000000000", "a huge number of workers"},
        {"UPDATE job SET n_workers=14", "a worker too many"},
        {"UPDATE job SET n_nodes=2", "a node too few"},
        {"DELETE FROM job", "no job"},
        {"UPDATE worker SET node=3 WHERE worker=5", "a node that is not"},
        {"DROP TABLE step", "no step table"},
        {"UPDATE step SET lag=x'00' WHERE step=50", "a blob too short"},
        {"UPDATE step SET mask=zeroblob(2) WHERE step=50", "a wrong mask"},
        {"UPDATE step SET ranges='text' WHERE step=50", "text for a blob"},
        {"UPDATE step SET step=-1 WHERE step=50", "a negative step"},
        {"ALTER TABLE step RENAME TO s; CREATE VIEW step AS SELECT * FROM s",
         "a view in place of a table"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *path = changed(bad[i].sql);
        struct dsgd_error err = {""};
        struct record_step step;
        struct record_read *r;
        enum dsgd_err rc = record_read_open(path, &r, &err);
        while (rc == DSGD_OK)
            rc = record_read_step(r, &step, &err);
        record_read_close(r);
        ok(rc == DSGD_E_FORMAT && strstr(err.text, "changed.dsgd"), "%s",
           bad[i].name);
    }
}

static bool read_all(const char *path)
{
    struct record_read *r;
    struct dsgd_error err;
    struct record_step step;
    struct record_late late;
    struct record_event event;
    uint64_t t, value;
    uint32_t w;
    enum dsgd_err rc = record_read_open(path, &r, &err);
    bool good = rc == DSGD_OK;

    if (good) {
        while ((rc = record_read_step(r, &step, &err)) == DSGD_OK)
            ;
        good = rc == DSGD_END;
        while (record_read_late(r, &late, &err) == DSGD_OK)
            ;
        while (record_read_event(r, &event, &err) == DSGD_OK)
            ;
        while (record_read_checksum(r, &t, &w, &value, &err) == DSGD_OK)
            ;
    }
    record_read_close(r);
    return good;
}

/* Cut short, and bytes changed at random: never more than an error. */
static void test_damage(void)
{
    static unsigned char bytes[1 << 18], copy[1 << 18];
    const char *path = in_dir("damaged.dsgd");
    int fd = open(in_dir("123.4.2.dsgd"), O_RDONLY), refused = 0;
    size_t n = (size_t)read(fd, bytes, sizeof bytes);
    uint64_t random = 1;

    close(fd);
    for (size_t cut = 0; cut < n; cut += n / 17) {
        write_file(path, bytes, cut);
        refused += !read_all(path);
    }
    is_int(refused, 17 + (n % 17 != 0),
           "a record that is cut short is refused");
    for (int i = 0; i < 1000; i++) {
        memcpy(copy, bytes, n);
        for (int k = 0; k < 1 + i % 8; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            size_t at = (random >> 33) % (i % 2 ? n : 4096);
            copy[at] = (unsigned char)(random >> 25);
        }
        write_file(path, copy, n);
        refused += !read_all(path);
    }
    ok(refused > 100, "1000 records with changed bytes: read, or refused");
}

static int as_owner(void)
{
    struct dsgd_error err;
    const char *path = in_dir("123.4.2.dsgd");
    int rc = open_error(path, &err) == DSGD_E_IO ? 0 : 1;

    if (rc || !strstr(err.text, "root must become"))
        return 1;
    if (record_become_owner(path, &err) != DSGD_OK || getuid() != USER ||
        geteuid() != USER || setuid(0) == 0)
        return 2;
    return count_steps(path) == 100 ? 0 : 3;
}

static void test_root(void)
{
    if (geteuid() != 0) {
        ok(true, "root reads a user's record # SKIP this is not root");
        return;
    }
    if (chown(in_dir("123.4.2.dsgd"), USER, USER) != 0)
        printf("# chown: %s\n", strerror(errno));
    is_int(in_child(as_owner), 0, "root reads a user's record as that user");
}

int main(void)
{
    char command[128];

    if (!mkdtemp(dir) || chmod(dir, 0755) != 0)
        return 1;
    test_round_trip();
    test_status();
    test_create_errors();
    test_lock();
    test_lock_at_close();
    test_full_queue();
    test_file_size_limit();
    test_full_disk();
    test_removed();
    test_hot_journal();
    test_foreign_files();
    test_hostile_rows();
    test_damage();
    test_root();
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command) != 0)
        printf("# %s is left\n", dir);
    return done();
}
