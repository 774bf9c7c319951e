#include "atomic_file.h"

#include <dirent.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "scratch.h"
#include "tap.h"

static char dir[] = "/tmp/dsgd-atomic-XXXXXX";

static const char *in_dir(const char *name)
{
    static char path[2][300];
    static int turn;

    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

static void has(const char *name, const char *want, const char *what)
{
    char text[100] = "";
    FILE *f = fopen(in_dir(name), "r");

    if (f) {
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        fclose(f);
    }
    is_str(text, want, what);
}

static int count_files(void)
{
    int n = 0;
    DIR *d = opendir(dir);
    struct dirent *e;

    while (d && (e = readdir(d)))
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

static enum dsgd_err store(const char *name, const char *text, unsigned flags,
                           struct dsgd_error *err)
{
    struct atomic_file f;
    enum dsgd_err rc = atomic_file_begin(&f, in_dir(name), 0640, flags, err);

    if (rc != DSGD_OK)
        return rc;
    atomic_file_write(&f, text, strlen(text));
    return atomic_file_end(&f, err);
}

static void replace(unsigned flags)
{
    struct atomic_file f;
    struct stat s = {0};

    is_int(store("a", "before", flags, NULL), DSGD_OK, "a file");
    is_int(stat(in_dir("a"), &s), 0, "is there");
    is_int(s.st_mode & 0777, 0640, "with its mode");
    const char *path = in_dir("a");
    is_int(atomic_file_begin(&f, path, 0640, flags, NULL), DSGD_OK, "again");
    atomic_file_write(&f, "aft", 3);
    has("a", "before", "until the end it is what it was");
    atomic_file_write(&f, "", 0);
    atomic_file_write(&f, "er", 2);
    is_int(atomic_file_end(&f, NULL), DSGD_OK, "the end");
    has("a", "after", "and then it is new");
    is_int(count_files(), 1, "nothing else is left");
    unlink(in_dir("a"));
}

/* Two processes at once; then a third that was killed, and one after it. */
static void rivals(void)
{
    struct atomic_file mine;
    const char *path = in_dir("a");
    int status = 1;

    atomic_file_begin(&mine, path, 0600, ATOMIC_FILE_RIVALS, NULL);
    atomic_file_write(&mine, "mine", 4);
    pid_t other = fork();
    if (other == 0)
        _exit((int)store("a", "other's", ATOMIC_FILE_RIVALS, NULL));
    waitpid(other, &status, 0);
    is_int(status, 0, "another process writes it meanwhile");
    has("a", "other's", "and it is there");
    is_int(atomic_file_end(&mine, NULL), DSGD_OK, "the last one ends");
    has("a", "mine", "and wins");

    other = fork();
    if (other == 0) {
        atomic_file_begin(&mine, path, 0600, 0, NULL);
        atomic_file_write(&mine, "half", 4);
        raise(SIGKILL);
    }
    waitpid(other, &status, 0);
    ok(WIFSIGNALED(status), "a process is killed in the middle");
    has("a", "mine", "the file stays");
    is_int(count_files(), 2, "with half of another");
    is_int(store("a", "next", 0, NULL), DSGD_OK, "the next does not mind");
    has("a", "next", "and is there");
    is_int(count_files(), 1, "half a file is gone");
    unlink(in_dir("a"));
}

static void errors(void)
{
    struct rlimit before, small = {4, 0};
    struct dsgd_error err;
    char name[PATH_MAX + 10];

    store("a", "old", 0, NULL);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &small);
    enum dsgd_err rc = store("a", "longer", ATOMIC_FILE_DURABLE, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    is_int(rc, DSGD_E_IO, "a limit is met in the middle");
    has_str(err.text, "/a: File too large", "file and reason");
    has("a", "old", "the old one stays");
    is_int(count_files(), 1, "nothing half-written is left");

    is_int(store("none/a", "x", 0, &err), DSGD_E_IO, "no such folder");
    has_str(err.text, "none/a: No such file or directory", "says so");
    mkdir(in_dir("b"), 0700);
    is_int(store("b", "x", 0, &err), DSGD_E_IO, "a folder of that name");
    has_str(err.text, "/b: Is a directory", "says so");
    is_int(count_files(), 2, "and nothing is left of it");
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    struct atomic_file f;
    is_int(atomic_file_begin(&f, name, 0600, 0, &err), DSGD_E_IO, "too long");
    has_str(err.text, "xxx: File name too long", "says so");
}

int main(void)
{
    scratch_dir(dir);
    umask(022);
    replace(0);
    replace(ATOMIC_FILE_DURABLE);
    replace(ATOMIC_FILE_DURABLE | ATOMIC_FILE_RIVALS);
    rivals();
    errors();
    return done();
}
