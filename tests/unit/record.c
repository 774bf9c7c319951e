/* Writing a record: what is written is read back; a lock or a full disk costs
 * an error or a warning, never more. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <time.h>

#include "record_sample.h"

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
    struct record_contribution part;
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
    ok(record_read_contribution(r, &part, &err) == DSGD_OK && part.nth == 2 &&
           part.first == 5,
       "contributions come in their order");
    ok(record_read_contribution(r, &part, &err) == DSGD_OK && part.step == 8 &&
           part.from == 7 && part.nth == 3 && part.part == 4 &&
           part.worker == 2 && part.first == 0xfedcba9876543u &&
           part.samples == 31,
       "a contribution");
    is_int(record_read_contribution(r, &part, &err), DSGD_END, "no more");
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
    record_put_contribution(
        r, &(struct record_contribution){8, 7, 2, 0xfedcba9876543u, 31, 3, 4});
    record_put_contribution(r,
                            &(struct record_contribution){8, 8, 2, 5, 9, 2, 9});
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

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    bool good = fd >= 0 && write(fd, text, strlen(text)) > 0;

    if (fd >= 0)
        close(fd);
    return good;
}

/* An ordinary user needs a user namespace to mount something. */
static bool become_root_inside(void)
{
    char uid[32], gid[32];

    snprintf(uid, sizeof uid, "0 %d 1", (int)geteuid());
    snprintf(gid, sizeof gid, "0 %d 1", (int)getegid());
    return unshare(CLONE_NEWUSER) == 0 &&
           write_text("/proc/self/uid_map", uid) &&
           write_text("/proc/self/setgroups", "deny") &&
           write_text("/proc/self/gid_map", gid);
}

static bool mount_small(const char *on)
{
    if ((geteuid() != 0 && !become_root_inside()) || unshare(CLONE_NEWNS) != 0)
        return false;
    mount("none", "/", "", MS_REC | MS_PRIVATE, NULL);
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

int main(void)
{
    in_own_dir();
    test_round_trip();
    test_status();
    test_create_errors();
    test_lock();
    test_lock_at_close();
    test_full_queue();
    test_file_size_limit();
    test_full_disk();
    test_removed();
    return done();
}
