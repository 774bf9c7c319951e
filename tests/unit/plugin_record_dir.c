/* Root's making of a user's record folder, with traps laid. */
#include <fcntl.h>
#include <pwd.h>

#include "../tap.h"
#include "record_dir.h"
#include "tree.h"

static char tree[64], site[96];
static struct option_fault fault;

static void stat_of(const char *path, struct stat *st)
{
    memset(st, 0, sizeof *st);
    lstat(path, st);
}

static const char *below(const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", site, name);
    return path;
}

static bool make(const char *user, uid_t uid, gid_t gid)
{
    fault.text[0] = '\0';
    return record_dir_make_named(site, user, uid, gid, &fault);
}

static void test_names(void)
{
    static const char *const bad[] = {
        "",
        ".",
        "..",
        "a/b",
        "/",
        "a b",
        "a\nb",
        "\177",
        "0123456789012345678901234567890123456789012345678901234567890123"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ok(!record_dir_good_name(bad[i]), "bad name %zu", i);
    ok(record_dir_good_name("alice"), "alice is a good name");
    ok(record_dir_good_name("j.\xc3\xa9mile-2"), "names need not be ASCII");
}

static void test_own(void)
{
    char path[RECORD_PATH_BYTES], want[512];
    const struct passwd *pw = getpwuid(getuid());
    struct stat st;

    if (pw)
        snprintf(want, sizeof want, "%s/%s", site, pw->pw_name);
    else
        snprintf(want, sizeof want, "%s/%u", site, (unsigned)getuid());
    ok(record_dir_make(site, getuid(), getgid(), path, &fault),
       "a folder is made");
    is_str(path, want, "it bears the user's name");
    stat_of(path, &st);
    ok(S_ISDIR(st.st_mode) && (st.st_mode & 07777) == 0700, "mode 0700");
    ok(record_dir_make(site, getuid(), getgid(), path, &fault),
       "and found the next time");
    ok(!record_dir_make("/nowhere/records", getuid(), getgid(), path, &fault),
       "no directory for records");
    has_str(fault.text, "record_dir: /nowhere/records: No such file",
            "is told");
}

/* root makes folders for others */
static void test_owner(void)
{
    struct stat st;
    mode_t old = umask(0777);

    ok(make("alice", 12345, 23456), "a folder for alice");
    umask(old);
    stat_of(below("alice"), &st);
    ok(st.st_uid == 12345 && st.st_gid == 23456, "belongs to alice");
    is_int(st.st_mode & 07777, 0700, "has mode 0700, whatever the umask");
    chmod(below("alice"), 0750);
    ok(make("alice", 12345, 23456), "a second step of alice");
    stat_of(below("alice"), &st);
    is_int(st.st_mode & 07777, 0750, "leaves her own choice alone");

    mkdir(below("bob"), 0755);
    ok(make("bob", 12346, 23456), "a folder that root had made");
    stat_of(below("bob"), &st);
    ok(st.st_uid == 12346 && (st.st_mode & 07777) == 0700, "becomes bob's");

    mkdir(below("daemon"), 0755);
    mkdir(below("daemon/jobs"), 0755);
    ok(!make("daemon", 12346, 23456), "a folder of root's that is in use");
    has_str(fault.text, "daemon: Directory not empty", "is refused");
    stat_of(below("daemon"), &st);
    ok(st.st_uid == getuid() && (st.st_mode & 07777) == 0755,
       "and is untouched");
    rmdir(below("daemon/jobs"));

    ok(!make("alice", 12347, 23456), "alice's folder for another user");
    has_str(fault.text, "alice: belongs to another user", "is refused");
    stat_of(below("alice"), &st);
    is_int(st.st_uid, 12345, "and stays alice's");
}

static void test_traps(void)
{
    char victim[96], link_to_site[96];
    struct stat st;

    snprintf(victim, sizeof victim, "%s/victim", tree);
    mkdir(victim, 0755);
    (void)!symlink(victim, below("eve"));
    ok(!make("eve", 12345, 12345), "a link in place of the folder");
    has_str(fault.text, "/eve: ", "is refused");
    stat_of(victim, &st);
    ok(st.st_uid == getuid() && (st.st_mode & 07777) == 0755,
       "and its target is untouched");
    if (getuid() == 0) {
        (void)!chown(victim, 12345, 12345);
        ok(!make("eve", 12345, 12345), "also when the target is the user's");
    }
    close(open(below("mallory"), O_CREAT | O_WRONLY, 0600));
    ok(!make("mallory", 12345, 12345), "a file in place of the folder");
    stat_of(below("mallory"), &st);
    is_int(st.st_uid, getuid(), "is untouched");

    snprintf(link_to_site, sizeof link_to_site, "%s/link", tree);
    (void)!symlink(site, link_to_site);
    ok(!record_dir_make_named(link_to_site, "a", 12345, 12345, &fault),
       "a link in place of the site's directory");

    for (int mode = 0775; mode <= 0777; mode += 2) {
        chmod(site, (mode_t)mode);
        ok(!make("carol", getuid(), getgid()),
           "mode %o of the site's directory", (unsigned)mode);
        has_str(fault.text, "must belong to root", "is refused");
    }
    chmod(site, 01777);
    ok(!make("carol", getuid(), getgid()), "and so is 1777");
    chmod(site, 0755);
    ok(access(below("carol"), F_OK) != 0, "nothing was made there");
    if (getuid() == 0) {
        (void)!chown(site, 12345, 12345);
        ok(!make("carol", 12345, 12345), "a directory that is not root's");
        (void)!chown(site, 0, 0);
    }
}

int main(void)
{
    const char *require = getenv("DSGD_REQUIRE");

    tree_create(tree);
    snprintf(site, sizeof site, "%s/records", tree);
    mkdir(site, 0755);
    test_names();
    test_own();
    if (getuid() == 0)
        test_owner();
    else
        ok(!require || !strstr(require, "root"),
           "owners # SKIP only root can give a folder away");
    test_traps();
    tree_remove(tree);
    return done();
}
