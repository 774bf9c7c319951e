/* Reading a record that a crash, chance or somebody else wrote. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>

#include "record_owner.h"
#include "record_sample.h"

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
    return raise(SIGKILL);
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
    is_int(in_child(die_in_transaction), -1, "a writer is killed");
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
    int fd = open(in_dir("good.dsgd"), O_RDONLY);
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
    if (symlink("good.dsgd", in_dir("link.dsgd")) != 0)
        printf("# symlink: %s\n", strerror(errno));
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
    int fd = open(in_dir("good.dsgd"), O_RDONLY), refused = 0;
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
    const char *path = in_dir("good.dsgd");
    int rc = open_error(path, &err) == DSGD_E_IO ? 0 : 1;

    if (rc || !strstr(err.text, "root must become"))
        return 1;
    if (record_become_owner(path, &err) != DSGD_OK || getuid() != USER ||
        geteuid() != USER || setuid(0) == 0)
        return 2;
    return count_steps(path) == 100 ? 0 : 3;
}

/* Before there were the columns that shared work needs. */
static void test_old(void)
{
    struct record_contribution row;
    struct record_read *r;
    const char *path = changed("ALTER TABLE contribution DROP COLUMN nth;"
                               "ALTER TABLE contribution DROP COLUMN part");

    is_int(record_read_open(path, &r, NULL), DSGD_OK, "an old record");
    ok(!record_read_facts(r)->shared, "of no shared work");
    ok(record_read_contribution(r, &row, NULL) == DSGD_OK &&
           row.samples == 31 && row.nth == 0 && row.part == 0,
       "its contributions");
    record_read_close(r);
    path = changed("INSERT INTO setting VALUES('work', 'shared')");
    is_int(record_read_open(path, &r, NULL), DSGD_OK, "a record");
    ok(record_read_facts(r)->shared, "of shared work");
    record_read_close(r);
    is_int(record_read_open(changed("DROP TABLE setting"), &r, NULL), DSGD_OK,
           "without settings");
    record_read_close(r);
}

static void test_root(void)
{
    if (geteuid() != 0) {
        ok(true, "root reads a user's record # SKIP this is not root");
        return;
    }
    if (chown(in_dir("good.dsgd"), USER, USER) != 0)
        printf("# chown: %s\n", strerror(errno));
    is_int(in_child(as_owner), 0, "root reads a user's record as that user");
}

static void make_good(void)
{
    struct record *r = create(in_dir("good.dsgd"));

    for (uint64_t t = 1; t <= 100; t++)
        put_step(r, t);
    record_put_late(r, &(struct record_late){5, 12, 1.5f, .25f, .75f});
    record_put_event(
        r, &(struct record_event){RECORD_EVENT_LOST, 6, 1, -1, 6.5, "silent"});
    record_put_checksum(r, 9, 3, 1);
    record_put_contribution(
        r, &(struct record_contribution){8, 7, 2, 64, 31, 1, 4});
    is_int(record_close(r, true, 77.5, 10, NULL), DSGD_OK, "a good record");
}

int main(void)
{
    in_own_dir();
    make_good();
    test_hot_journal();
    test_foreign_files();
    test_hostile_rows();
    test_damage();
    test_old();
    test_root();
    return done();
}
