/* The built plugin, loaded as slurmstepd loads it. */
#include <dirent.h>
#include <dlfcn.h>
#include <slurm/slurm_version.h>
#include <slurm/spank.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tap.h"
#include "mock_spank.h"

static int threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    int count = 0;

    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count - 2;
}

static void test_plugin(void *so)
{
    const char *name = dlsym(so, "plugin_name");
    const char *type = dlsym(so, "plugin_type");
    const unsigned *version = dlsym(so, "plugin_version");
    spank_f *init;

    *(void **)&init = dlsym(so, "slurm_spank_init");
    is_str(name, "dsgd", "plugin_name");
    is_str(type, "spank", "plugin_type");
    is_int(version ? *version : 0, SLURM_VERSION_NUMBER, "plugin_version");
    ok(dlsym(so, "spank_plugin_version"), "spank_plugin_version");
    ok(dlsym(so, "slurm_spank_init_post_opt"), "slurm_spank_init_post_opt");
    ok(dlsym(so, "slurm_spank_user_init"), "slurm_spank_user_init");
    ok(dlsym(so, "slurm_spank_task_init"), "slurm_spank_task_init");
    ok(!dlsym(so, "init") && !dlsym(so, "fini"),
       "no function that Slurm's loader would call");
    ok(!dlsym(so, "spank_options"), "no static option table");
    ok(!dlsym(so, "slurm_spank_slurmd_exit") &&
           !dlsym(so, "slurm_spank_job_prolog") &&
           !dlsym(so, "slurm_spank_job_epilog"),
       "no prolog or epilog");
    if (ok(init != NULL, "slurm_spank_init")) {
        mock_reset(S_CTX_REMOTE);
        is_int(init(NULL, 0, NULL), 0, "slurm_spank_init runs");
        is_int(mock.n_options, 12, "and registers the options");
    }
}

/* What dlopen makes of a file's first size bytes: true when it refuses them as
 * it should, false when it takes them or dies. */
static bool refused(const char *whole, size_t size, const char *path)
{
    FILE *f = fopen(path, "w");
    int status;

    if (!f || fwrite(whole, 1, size, f) != size || fclose(f))
        return false;
    pid_t child = fork();
    if (child == 0)
        _exit(dlopen(path, RTLD_LAZY) ? 1 : 0);
    return waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

/* A copy that was cut short must not kill the slurmstepd that loads it. */
static void test_truncated(const char *path)
{
    static char whole[4 << 20];
    char part[] = "/tmp/dsgd-part-XXXXXX";
    FILE *f = fopen(path, "r");
    size_t size = f ? fread(whole, 1, sizeof whole, f) : 0, bad = 0;
    int fd = mkstemp(part);

    if (f)
        fclose(f);
    if (fd >= 0)
        close(fd);
    for (size_t n = 0; n < size; n += 1 + size / 128)
        bad += !refused(whole, n, part);
    bad += size < 2 || !refused(whole, size - 1, part);
    is_int((long long)bad, 0, "a file cut short is refused, at any length");
    memset(whole + size / 2, 0, size - size / 2);
    ok(refused(whole, size, part), "and so is one whose end is zeros");
    unlink(part);
}

int main(void)
{
    const char *build = getenv("DSGD_BUILDDIR");
    char path[1024];
    int before = threads();

    snprintf(path, sizeof path, "%s/plugin/spank_dsgd.so", build ? build : ".");
    void *peek = dlopen(path, RTLD_LAZY);
    if (peek)
        dlclose(peek);
    void *so = dlopen(path, RTLD_NOW);
    if (!ok(so != NULL, "the plugin loads with all symbols bound"))
        printf("# %s\n", dlerror());
    else
        test_plugin(so);
    test_truncated(path);
    is_int(threads(), before, "no thread was started");
    return done();
}
