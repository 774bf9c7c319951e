/* The SPANK plugin: --dsgd-* options in srun, sbatch and salloc, and their way
 * to the tasks together with what the node was doing at launch.
 *
 * It is loaded into root's slurmstepd and must not cost a job.  A callback
 * returns 0 or -1, and -1 in two places alone: for a bad option, from the
 * option's callback in srun, sbatch and salloc, and from task_init.  In the
 * other callbacks Slurm answers -1 by draining the node, or by losing the tasks
 * and reporting success.  Every other fault leaves the job as it would be
 * without the plugin, and is told in one "dsgd:" line.
 *
 * Slurm gives callbacks no context, hence the file's variables: one process is
 * one job step. */
#include <inttypes.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "dsgd_names.h"
#include "options.h"
#include "record_dir.h"
#include "telemetry.h"

/* cppcheck-suppress unknownMacro */
SPANK_PLUGIN(dsgd, 1)

/* Step ids at and above are Slurm's own steps (SLURM_MAX_NORMAL_STEP_ID in
 * Slurm's source); of these, salloc's shell is a step for the user's tasks. */
#define FIRST_SPECIAL_STEP 0xfffffff0u
#define INTERACTIVE_STEP   0xfffffffau

/* CPU time; what is not read by then is not read. */
static const double telemetry_budget_s = 0.005;

/* The root directory of what is read; tests have another. */
const char *plugin_root = "";

static struct plugin_args args;
static struct option_value given[N_OPTIONS];
static bool on; /* there is something to do in this step */
static char telemetry_line[TELEMETRY_BYTES];
static char record_path[RECORD_PATH_BYTES]; /* "": not made here */

/* What went wrong and is not told yet. */
static struct option_fault option_faults[N_OPTIONS], record_fault;

static int take_option(int id, const char *text, int remote);

/* Slurm prints the usage in columns: keep it short. */
static struct spank_option options[N_OPTIONS] = {
    {"dsgd-cutoff", "MODE",
     "[dsgd] whom a step waits for: full, static:K, static:P%, order, "
     "dynamic, dry, replay:FILE",
     1, OPTION_CUTOFF, take_option},
    {"dsgd-min", "N", "[dsgd] never wait for fewer than N workers", 1,
     OPTION_MIN, take_option},
    {"dsgd-model", "FILE", "[dsgd] timing model for dynamic and dry", 1,
     OPTION_MODEL, take_option},
    {"dsgd-record", "DIR|off", "[dsgd] directory for the run's record", 1,
     OPTION_RECORD, take_option},
    {"dsgd-late", "MODE",
     "[dsgd] samples of a worker that was cut: requeue, drop, carry", 1,
     OPTION_LATE, take_option},
    {"dsgd-partial", "MODE",
     "[dsgd] what it had done of them: discard, contribute", 1, OPTION_PARTIAL,
     take_option},
    {"dsgd-lr-scale", "MODE",
     "[dsgd] learning rate by contributing samples: none, linear, sqrt", 1,
     OPTION_LR_SCALE, take_option},
    {"dsgd-max-cuts", "N",
     "[dsgd] wait for a worker that was cut N times in a row", 1,
     OPTION_MAX_CUTS, take_option},
    {"dsgd-max-cut-share", "P%",
     "[dsgd] cut no worker in more than P% of its steps", 1,
     OPTION_MAX_CUT_SHARE, take_option},
    {"dsgd-work", "MODE",
     "[dsgd] who computes a step's parts: own (each its share), shared", 1,
     OPTION_WORK, take_option},
    {"dsgd-parts", "N", "[dsgd] parts of a batch", 1, OPTION_PARTS,
     take_option},
    {"dsgd-batch-slack", "P%",
     "[dsgd] shared, dynamic: a batch may lack P% of its samples", 1,
     OPTION_BATCH_SLACK, take_option},
};

/* Called once or more for each option, by Slurm, with NULL or "" for an empty
 * argument; the last call counts.  A bad value is refused here unless it is too
 * late: slurmstepd would log a failure and run the job. */
static int take_option(int id, const char *text, int remote)
{
    struct option_value ignored;
    struct option_fault fault;
    char name[32];

    if (id < 0 || id >= N_OPTIONS)
        return 0;
    snprintf(name, sizeof name, "--%s", option_name((enum option_id)id));
    struct option_value *value = remote ? &given[id] : &ignored;
    if (option_set((enum option_id)id, name, text, value, &fault))
        return 0;
    if (remote) {
        option_faults[id] = fault;
        return 0;
    }
    slurm_error("%s", fault.text);
    return -1;
}

int slurm_spank_init(spank_t spank, int argc, char *argv[])
{
    spank_context_t context = spank_context();
    struct option_fault fault;

    if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR &&
        context != S_CTX_REMOTE)
        return 0;
    on = false;
    memset(given, 0, sizeof given);
    record_path[0] = '\0';
    record_fault.text[0] = '\0';
    if (!plugin_args_read(argc, argv, &args, &fault) && context == S_CTX_REMOTE)
        slurm_error("dsgd: %s", fault.text);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        spank_err_t rc = spank_option_register(spank, &options[i]);
        if (rc != ESPANK_SUCCESS)
            slurm_error("dsgd: --%s: can't be registered: %s", options[i].name,
                        spank_strerror(rc));
    }
    return 0;
}

/* Does the job's environment hold a value for the variable? */
static bool job_has(spank_t spank, const char *name)
{
    char value[8] = "";
    spank_err_t rc = spank_getenv(spank, name, value, sizeof value);

    return rc == ESPANK_NOSPACE || (rc == ESPANK_SUCCESS && value[0]);
}

/* Is this a step of the user's own tasks, that asked for us? */
static bool is_wanted(spank_t spank)
{
    uint32_t step;

    if (spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS ||
        (step >= FIRST_SPECIAL_STEP && step != INTERACTIVE_STEP))
        return false;
    for (size_t i = 0; i < N_OPTIONS; i++) {
        if (given[i].given)
            return true;
    }
    return args.value[OPTION_CUTOFF].given || job_has(spank, DSGD_CUTOFF);
}

/* Only the node of rank 0 writes the record. */
static bool carries_rank0(spank_t spank)
{
    uint32_t local;

    return spank_get_item(spank, S_JOB_GLOBAL_TO_LOCAL_ID, 0, &local) ==
           ESPANK_SUCCESS;
}

static void make_record_dir(spank_t spank)
{
    uid_t uid;
    gid_t gid;

    if (!args.record_dir[0] || given[OPTION_RECORD].given ||
        job_has(spank, DSGD_RECORD) || !carries_rank0(spank))
        return;
    if (spank_get_item(spank, S_JOB_UID, &uid) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_GID, &gid) != ESPANK_SUCCESS)
        snprintf(record_fault.text, sizeof record_fault.text,
                 "record_dir: the job's user is not known");
    else
        record_dir_make(args.record_dir, uid, gid, record_path, &record_fault);
}

/* This process sleeps between the looks, so that they see what the others do.
 * The nodes of a step sleep at the same time. */
static void take_telemetry(spank_t spank)
{
    static struct telemetry t;
    struct timespec nap = {.tv_sec = args.window_ms / 1000,
                           .tv_nsec = args.window_ms % 1000 * 1000000L};
    uint32_t job;

    if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS)
        job = 0;
    telemetry_begin(&t, plugin_root, job, telemetry_clock(),
                    telemetry_budget_s);
    if (args.window_ms > 0) {
        nanosleep(&nap, NULL);
        telemetry_end(&t, telemetry_clock());
    }
    telemetry_format(&t, telemetry_line);
}

/* As root, before slurmstepd sets up MPI and starts tasks. */
int slurm_spank_init_post_opt(spank_t spank, int argc, char *argv[])
{
    (void)argc;
    (void)argv;
    if (spank_context() != S_CTX_REMOTE)
        return 0;
    on = is_wanted(spank);
    if (!on)
        return 0;
    take_telemetry(spank);
    make_record_dir(spank);
    return 0;
}

/* Find a DSGD_LAUNCH_* variable of the job's environment: one of the step that
 * started this one.  A name too long for the buffer is none of ours. */
static bool find_inherited(spank_t spank, char *name, size_t size)
{
    char **env = NULL;

    if (spank_get_item(spank, S_JOB_ENV, &env) != ESPANK_SUCCESS || !env)
        return false;
    for (; *env; env++) {
        size_t length = strcspn(*env, "=");
        if (strncmp(*env, DSGD_LAUNCH_PREFIX, strlen(DSGD_LAUNCH_PREFIX)) ||
            (*env)[length] != '=' || length >= size)
            continue;
        memcpy(name, *env, length);
        name[length] = '\0';
        return true;
    }
    return false;
}

static void clear_inherited(spank_t spank)
{
    char name[64];

    /* Bounded: an environment may hold any number of them. */
    for (int i = 0; i < 256; i++) {
        if (!find_inherited(spank, name, sizeof name) ||
            spank_unsetenv(spank, name) != ESPANK_SUCCESS)
            return;
    }
}

/* Set a variable of the tasks; remembers the first that could not be. */
static void hand(spank_t spank, const char *name, const char *value,
                 struct option_fault *fault)
{
    spank_err_t rc = spank_setenv(spank, name, value, 1);

    if (rc != ESPANK_SUCCESS && !fault->text[0])
        snprintf(fault->text, sizeof fault->text, "%s: can't be set: %s", name,
                 spank_strerror(rc));
}

static void hand_options(spank_t spank, struct option_fault *fault)
{
    static const char *const launch[N_OPTIONS][2] = {
        [OPTION_CUTOFF] = {DSGD_LAUNCH_CUTOFF, DSGD_LAUNCH_DEFAULT_CUTOFF},
        [OPTION_MIN] = {DSGD_LAUNCH_MIN, DSGD_LAUNCH_DEFAULT_MIN},
        [OPTION_MODEL] = {DSGD_LAUNCH_MODEL, DSGD_LAUNCH_DEFAULT_MODEL},
        [OPTION_RECORD] = {DSGD_LAUNCH_RECORD, DSGD_LAUNCH_DEFAULT_RECORD},
        [OPTION_LATE] = {DSGD_LAUNCH_LATE, DSGD_LAUNCH_DEFAULT_LATE},
        [OPTION_PARTIAL] = {DSGD_LAUNCH_PARTIAL, DSGD_LAUNCH_DEFAULT_PARTIAL},
        [OPTION_LR_SCALE] = {DSGD_LAUNCH_LR_SCALE,
                             DSGD_LAUNCH_DEFAULT_LR_SCALE},
        [OPTION_MAX_CUTS] = {DSGD_LAUNCH_MAX_CUTS,
                             DSGD_LAUNCH_DEFAULT_MAX_CUTS},
        [OPTION_MAX_CUT_SHARE] = {DSGD_LAUNCH_MAX_CUT_SHARE,
                                  DSGD_LAUNCH_DEFAULT_MAX_CUT_SHARE},
        [OPTION_WORK] = {DSGD_LAUNCH_WORK, DSGD_LAUNCH_DEFAULT_WORK},
        [OPTION_PARTS] = {DSGD_LAUNCH_PARTS, DSGD_LAUNCH_DEFAULT_PARTS},
        [OPTION_BATCH_SLACK] = {DSGD_LAUNCH_BATCH_SLACK,
                                DSGD_LAUNCH_DEFAULT_BATCH_SLACK},
    };

    hand(spank, DSGD_LAUNCH_VERSION, "1", fault);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        if (given[i].given && !given[i].bad)
            hand(spank, launch[i][0], given[i].text, fault);
        if (args.value[i].given)
            hand(spank, launch[i][1], args.value[i].text, fault);
    }
}

/* Where root could make no folder, the job's directory takes the record: this
 * callback runs there.  A path that the runtime has no room for is ".". */
static void hand_record_dir(spank_t spank, struct option_fault *fault)
{
    char here[RECORD_PATH_BYTES];
    const char *path = record_path;

    if (record_fault.text[0]) {
        path = getcwd(here, sizeof here) ? here : ".";
        slurm_spank_log("dsgd: %s; the record goes to %s", record_fault.text,
                        path);
    }
    if (*path)
        hand(spank, DSGD_LAUNCH_DEFAULT_RECORD, path, fault);
}

/* As the user, in the job's directory, before the tasks are forked; from here
 * on a line in the log is also one on the user's standard error. */
int slurm_spank_user_init(spank_t spank, int argc, char *argv[])
{
    struct option_fault fault = {""};

    (void)argc;
    (void)argv;
    clear_inherited(spank);
    if (!on)
        return 0;
    for (size_t i = 0; i < N_OPTIONS; i++) {
        if (given[i].bad)
            slurm_error("dsgd: %s", option_faults[i].text);
    }
    hand_options(spank, &fault);
    hand_record_dir(spank, &fault);
    hand(spank, DSGD_LAUNCH_TELEMETRY, telemetry_line, &fault);
    if (fault.text[0])
        slurm_spank_log("dsgd: %s", fault.text);
    return 0;
}

int slurm_spank_task_init(spank_t spank, int argc, char *argv[])
{
    (void)spank;
    (void)argc;
    (void)argv;
    for (size_t i = 0; on && i < N_OPTIONS; i++) {
        if (given[i].bad)
            return -1;
    }
    return 0;
}
