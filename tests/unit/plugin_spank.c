/* The plugin's callbacks, against a mocked Slurm. */
#include <fcntl.h>
#include <slurm/spank.h>
#include <unistd.h>

#include "../tap.h"
#include "dsgd_names.h"
#include "mock_spank.h"
#include "tree.h"

extern const char *plugin_root;

enum { BATCH = 0xfffffffb, EXTERN = 0xfffffffc, INTERACTIVE = 0xfffffffa };

static char tree[64];

/* A slurmstepd's callbacks up to user_init; options between init and
 * init_post_opt by the caller's function. */
static void launch(int argc, char **argv, void (*options)(void))
{
    slurm_spank_init(NULL, argc, argv);
    if (options)
        options();
    is_int(slurm_spank_init_post_opt(NULL, argc, argv), 0,
           "init_post_opt returns 0");
    is_int(slurm_spank_user_init(NULL, argc, argv), 0, "user_init returns 0");
}

static char *no_wait[] = {"window_ms=0"};

static void order(void)
{
    mock_option("dsgd-cutoff", "order", 1);
}

static void test_contexts(void)
{
    static const spank_context_t none[] = {S_CTX_ERROR, S_CTX_SLURMD,
                                           S_CTX_JOB_SCRIPT};
    static const spank_context_t some[] = {S_CTX_LOCAL, S_CTX_ALLOCATOR,
                                           S_CTX_REMOTE};
    char *bad[] = {"nonsense"};

    for (int i = 0; i < 3; i++) {
        mock_reset(none[i]);
        is_int(slurm_spank_init(NULL, 1, bad), 0, "init returns 0");
        slurm_spank_init_post_opt(NULL, 1, bad);
        ok(!mock.n_options && !mock.n_lines && !mock.n_calls,
           "nothing is done in context %d", none[i]);
        mock_reset(some[i]);
        slurm_spank_init(NULL, 0, NULL);
        is_int(mock.n_options, 12, "all options are registered");
        ok(!mock.n_lines, "and nothing is said");
    }
    mock_reset(S_CTX_LOCAL);
    slurm_spank_init(NULL, 1, bad);
    is_int(mock.n_lines, 0, "srun's users don't read of plugstack.conf");
    mock_reset(S_CTX_REMOTE);
    is_int(slurm_spank_init(NULL, 1, bad), 0, "a bad plugstack.conf is no end");
    has_str(mock.log, "dsgd: plugstack.conf: \"nonsense\"", "but is logged");
    mock_reset(S_CTX_LOCAL);
    mock.register_rc = ESPANK_BAD_ARG;
    is_int(slurm_spank_init(NULL, 0, NULL), 0, "options can't be registered");
    has_str(mock.log, "dsgd: --dsgd-min: can't be registered", "is told");
}

/* Slurm formats an option's help into short buffers. */
static void test_help(void)
{
    mock_reset(S_CTX_LOCAL);
    slurm_spank_init(NULL, 0, NULL);
    for (int i = 0; i < mock.n_options; i++) {
        const struct spank_option *o = mock.option[i];
        ok(o->usage && strncmp(o->usage, "[dsgd] ", 7) == 0 && o->has_arg == 1,
           "%s has a usage text and an argument", o->name);
        ok(strlen(o->name) + strlen(o->arginfo) < 25, "%s is short", o->name);
    }
}

static void test_local_options(void)
{
    mock_reset(S_CTX_LOCAL);
    slurm_spank_init(NULL, 0, NULL);
    is_int(mock_option("dsgd-cutoff", "order", 0), 0, "a good value");
    is_int(mock_option("dsgd-cutoff", NULL, 0), 0, "NULL");
    is_int(mock_option("dsgd-cutoff", "", 0), 0, "an empty value");
    ok(!mock.n_lines, "say nothing");
    is_int(mock_option("dsgd-cutoff", "dynmic", 0), -1, "a bad value fails");
    is_str(mock.log,
           "--dsgd-cutoff: \"dynmic\" is none of "
           "full|static:K|static:P%|order|dynamic|dry|replay:FILE\n",
           "in one line that lists the modes");
    is_int(mock_option("dsgd-min", "-3", 0), -1, "a bad --dsgd-min fails");
    is_int(mock_option("dsgd-model", "", 0), -1, "a bad --dsgd-model fails");
    is_int(mock_option("dsgd-record", "", 0), -1, "a bad --dsgd-record fails");
    is_int(mock.option[0]->cb(99, "x", 0), 0, "an unknown number is ignored");
    is_int(slurm_spank_init_post_opt(NULL, 0, NULL), 0, "nothing more here");
    is_int(mock.n_calls, 0, "and the job is not touched");
}

static void test_off(void)
{
    mock_reset(S_CTX_REMOTE);
    mock_setenv("DSGD_RULE", "mine");
    mock_setenv("DSGD_CUTOFF", "");
    mock_setenv("PATH", "/bin");
    launch(0, NULL, NULL);
    is_int(mock_count(""), 3, "off: no variable is set");
    is_int(mock.n_lines, 0, "off: nothing is said");
    is_int(slurm_spank_task_init(NULL, 0, NULL), 0, "off: the task runs");
}

static void test_on(void)
{
    char *site[] = {"cutoff=order", "min=3", "model=/m", "record=/r",
                    "window_ms=0"};

    mock_reset(S_CTX_REMOTE);
    launch(1, no_wait, order);
    is_str(mock_getenv("DSGD_LAUNCH_CUTOFF"), "order", "the option's value");
    is_str(mock_getenv("DSGD_LAUNCH_VERSION"), "1", "the version");
    has_str(mock_getenv("DSGD_LAUNCH_TELEMETRY"), ";other_cpu=", "telemetry");
    is_int(mock_count(""), 3, "and nothing else");
    is_int(mock.n_lines, 0, "on: nothing is said");

    mock_reset(S_CTX_REMOTE);
    mock_setenv("DSGD_CUTOFF", "static:3");
    launch(1, no_wait, NULL);
    is_int(mock_count("DSGD_LAUNCH_"), 2, "DSGD_CUTOFF is a way in");
    is_str(mock_getenv("DSGD_CUTOFF"), "static:3", "and is left alone");

    mock_reset(S_CTX_REMOTE);
    mock_setenv("DSGD_CUTOFF", "a value longer than the buffer for it");
    launch(1, no_wait, NULL);
    is_int(mock_count("DSGD_LAUNCH_"), 2, "also when it is long");

    mock_reset(S_CTX_REMOTE);
    launch(5, site, NULL);
    is_str(mock_getenv("DSGD_LAUNCH_DEFAULT_CUTOFF"), "order", "site: cutoff");
    is_str(mock_getenv("DSGD_LAUNCH_DEFAULT_MIN"), "3", "site: min");
    is_str(mock_getenv("DSGD_LAUNCH_DEFAULT_MODEL"), "/m", "site: model");
    is_str(mock_getenv("DSGD_LAUNCH_DEFAULT_RECORD"), "/r", "site: record");
    ok(!mock_getenv("DSGD_LAUNCH_CUTOFF"), "no option where none was given");

    mock_reset(S_CTX_REMOTE);
    launch(4, site + 1, NULL);
    is_int(mock_count(""), 0, "a site's min, model, record turn nothing on");
}

static void all_options(void)
{
    mock_option("dsgd-cutoff", "static:90%", 1);
    mock_option("dsgd-min", "2", 1);
    mock_option("dsgd-model", "", 1);
    mock_option("dsgd-model", "m", 1);
    mock_option("dsgd-record", "off", 1);
    mock_option("dsgd-cutoff", "dry", 1);
}

static void test_repeated(void)
{
    char *site[] = {"cutoff=order", "window_ms=0"};

    mock_reset(S_CTX_REMOTE);
    launch(2, site, all_options);
    is_str(mock_getenv("DSGD_LAUNCH_CUTOFF"), "dry", "the last value counts");
    is_str(mock_getenv("DSGD_LAUNCH_DEFAULT_CUTOFF"), "order",
           "the site's default is handed on beside it");
    is_str(mock_getenv("DSGD_LAUNCH_MIN"), "2", "--dsgd-min");
    is_str(mock_getenv("DSGD_LAUNCH_MODEL"), "m", "--dsgd-model");
    is_str(mock_getenv("DSGD_LAUNCH_RECORD"), "off", "--dsgd-record");
    is_int(slurm_spank_task_init(NULL, 0, NULL), 0,
           "a bad value that was replaced does no harm");
    is_int(mock.n_lines, 0, "and is not told");

    slurm_spank_init(NULL, 1, no_wait);
    slurm_spank_init_post_opt(NULL, 1, no_wait);
    slurm_spank_user_init(NULL, 1, no_wait);
    is_int(mock_count(""), 0, "init begins anew, inherited values go");
}

static void test_inherited(void)
{
    char huge[4096];

    memset(huge, 'x', sizeof huge);
    memcpy(huge, "DSGD_LAUNCH_", 12);
    huge[sizeof huge - 1] = '\0';
    mock_reset(S_CTX_REMOTE);
    mock_setenv("DSGD_LAUNCH_CUTOFF", "static:1");
    mock_setenv("DSGD_LAUNCH_OF_A_LATER_VERSION", "1");
    mock_setenv("DSGD_LAUNCHER", "mine");
    mock_setenv("MY_DSGD_LAUNCH_X", "mine");
    mock_setenv("DSGD_MIN", "mine");
    mock_setenv(huge, "x");
    launch(0, NULL, NULL);
    is_int(mock_count("DSGD_LAUNCH_"), 1, "inherited values go, off as well");
    ok(mock_getenv(huge), "except a name that can't be ours");
    is_int(mock_count(""), 4, "other variables stay");

    mock_reset(S_CTX_REMOTE);
    mock_setenv("DSGD_LAUNCH_CUTOFF", "static:1");
    mock.unsetenv_rc = ESPANK_NOT_AVAIL;
    launch(1, no_wait, order);
    is_str(mock_getenv("DSGD_LAUNCH_CUTOFF"), "order",
           "what can't be unset is written over");
}

static void test_steps(void)
{
    static const struct {
        uint32_t step;
        bool on;
    } cases[] = {{0, true},          {0xffffffef, true}, {0xfffffff0, false},
                 {BATCH, false},     {EXTERN, false},    {INTERACTIVE, true},
                 {0xffffffff, false}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mock_reset(S_CTX_REMOTE);
        mock.step_id = cases[i].step;
        mock_setenv("DSGD_LAUNCH_MIN", "9");
        launch(1, no_wait, order);
        ok((mock_count("DSGD_LAUNCH_") > 0) == cases[i].on, "step %x is %s",
           (unsigned)cases[i].step, cases[i].on ? "ours" : "not ours");
        ok(!mock_getenv("DSGD_LAUNCH_MIN"), "inherited values go");
    }
}

static void bad_option(void)
{
    mock_option("dsgd-cutoff", "dyn\nmic", 1);
    mock_option("dsgd-min", "2", 1);
}

static void test_bad_remote(void)
{
    mock_reset(S_CTX_REMOTE);
    launch(1, no_wait, bad_option);
    is_int(mock.n_lines, 1, "a bad option that came through: one line");
    has_str(mock.log, "dsgd: --dsgd-cutoff: \"dyn?mic\" is none of full|",
            "with the reason");
    ok(!mock_getenv("DSGD_LAUNCH_CUTOFF"), "it is not handed on");
    is_str(mock_getenv("DSGD_LAUNCH_MIN"), "2", "a good one is");
    is_int(slurm_spank_task_init(NULL, 0, NULL), -1, "and task_init fails");

    mock_reset(S_CTX_REMOTE);
    mock.step_id = BATCH;
    launch(1, no_wait, bad_option);
    is_int(slurm_spank_task_init(NULL, 0, NULL), 0, "never in a batch step");
    is_int(mock.n_lines, 0, "where nothing is said either");
}

static void test_failures(void)
{
    static const int items[] = {S_JOB_ID,  S_JOB_STEPID,
                                S_JOB_UID, S_JOB_GID,
                                S_JOB_ENV, S_JOB_GLOBAL_TO_LOCAL_ID};
    char *argv[] = {"window_ms=0", "record_dir=/nowhere"};

    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
        mock_reset(S_CTX_REMOTE);
        mock.item_rc[items[i]] = ESPANK_NOT_AVAIL;
        launch(2, argv, order);
        ok(!mock.n_lines || strncmp(mock.log, "dsgd: ", 6) == 0,
           "item %d fails: only our lines", items[i]);
        ok(mock.n_lines <= 1, "item %d fails: at most one line", items[i]);
        is_int(slurm_spank_task_init(NULL, 0, NULL), 0, "the task runs");
    }
    mock_reset(S_CTX_REMOTE);
    mock.setenv_rc = ESPANK_NOSPACE;
    launch(1, no_wait, order);
    is_int(mock.n_lines, 1, "spank_setenv fails: one line");
    has_str(mock.log, "dsgd: DSGD_LAUNCH_VERSION: can't be set",
            "that says so");
    is_int(slurm_spank_task_init(NULL, 0, NULL), 0, "the task runs");
    mock_reset(S_CTX_REMOTE);
    mock.getenv_rc = ESPANK_NOT_REMOTE;
    launch(1, no_wait, order);
    is_int(mock_count("DSGD_LAUNCH_"), 3, "spank_getenv fails: still on");
}

/* The folder of the user who runs this test, in a directory of his own. */
static void test_record_dir(void)
{
    char dir[80], arg[96], here[512];
    char *argv[] = {"window_ms=0", arg};
    const char *path;

    snprintf(dir, sizeof dir, "%s/records", tree);
    snprintf(arg, sizeof arg, "record_dir=%s", dir);
    mkdir(dir, 0755);
    mock_reset(S_CTX_REMOTE);
    mock.uid = getuid();
    mock.gid = getgid();
    launch(2, argv, order);
    path = mock_getenv("DSGD_LAUNCH_DEFAULT_RECORD");
    ok(path && strncmp(path, dir, strlen(dir)) == 0 && access(path, W_OK) == 0,
       "the folder is made and handed on");
    is_int(mock.n_lines, 0, "without a word");

    mock.has_rank0 = false;
    launch(2, argv, order);
    ok(!mock_getenv("DSGD_LAUNCH_DEFAULT_RECORD"), "not on other nodes");
    mock.has_rank0 = true;
    launch(2, argv, all_options);
    ok(!mock_getenv("DSGD_LAUNCH_DEFAULT_RECORD"), "nor with --dsgd-record");
    mock_setenv("DSGD_RECORD", "r");
    launch(2, argv, order);
    ok(!mock_getenv("DSGD_LAUNCH_DEFAULT_RECORD"), "nor with DSGD_RECORD");

    mock_reset(S_CTX_REMOTE);
    chmod(dir, 0777);
    launch(2, argv, order);
    is_str(mock_getenv("DSGD_LAUNCH_DEFAULT_RECORD"), getcwd(here, sizeof here),
           "no folder: the job's directory");
    is_int(mock.n_lines, 1, "and one line");
    has_str(mock.log, "must belong to root", "that says why");
}

/* No record's path may be of 256 bytes or more. */
static void test_deep_directory(void)
{
    const size_t deep = 258;
    char arg[96], part[101], here[512];
    char *argv[] = {"window_ms=0", arg};
    int back = open(".", O_RDONLY | O_DIRECTORY);

    snprintf(arg, sizeof arg, "record_dir=%s/nowhere", tree);
    ok(chdir(tree) == 0 && getcwd(here, sizeof here), "go down");
    for (size_t n = strlen(here); n < deep && getcwd(here, sizeof here);
         n = strlen(here)) {
        size_t step = deep - n > 100 ? 100 : deep - n;
        memset(part, 'x', step - 1);
        part[step - 1] = '\0';
        ok(mkdir(part, 0755) == 0 && chdir(part) == 0 &&
               getcwd(here, sizeof here),
           "further");
    }
    mock_reset(S_CTX_REMOTE);
    launch(2, argv, order);
    is_str(mock_getenv("DSGD_LAUNCH_DEFAULT_RECORD"), ".",
           "no folder, in a directory whose path is too long");
    ok(fchdir(back) == 0, "up again");
    close(back);
}

static int open_files(void)
{
    int count = 0;

    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void many_times(void)
{
    char *argv[] = {"window_ms=0", "record_dir=/nowhere"};
    int before = open_files();

    for (int i = 0; i < 500; i++) {
        mock_reset(S_CTX_REMOTE);
        mock.job_id = i % 2 ? 7 : 9; /* known by cgroup, by socket */
        slurm_spank_init(NULL, 2, argv);
        all_options();
        slurm_spank_init_post_opt(NULL, 2, argv);
        slurm_spank_user_init(NULL, 2, argv);
    }
    is_int(open_files(), before, "no file stays open");
}

int main(void)
{
    tree_create(tree);
    plugin_root = tree;
    tree_write(tree, "/sys/devices/system/cpu/online", "0-1\n");
    tree_write(tree, "/proc/self/cgroup", "0::/s/job_7/step_0\n");
    tree_write(tree, "/proc/self/mountinfo",
               "31 23 0:28 / /cg rw - cgroup2 cgroup2 rw\n");
    tree_write(tree, "/cg/s/job_8/x", "");
    tree_write(tree, "/proc/net/unix", "0: 2 0 10000 1 1 9 /s/n_9.0\n");
    test_contexts();
    test_help();
    test_local_options();
    test_off();
    test_on();
    test_repeated();
    test_inherited();
    test_steps();
    test_bad_remote();
    test_failures();
    test_record_dir();
    test_deep_directory();
    many_times();
    mock_reset(S_CTX_LOCAL);
    tree_remove(tree);
    return done();
}
