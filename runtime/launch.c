#include "launch.h"

#include <ctype.h>
#include <dlfcn.h>
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "coordinator_late.h"
#include "error.h"

#define DEFAULT_MODEL DSGD_DATADIR "/default.safetensors"

static const char *const feature_names[DSGD_N_TELEMETRY] = {
    DSGD_TELEMETRY_FEATURES};

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static void telemetry_field(const char *field, size_t length, float *out)
{
    for (size_t i = 0; i < DSGD_N_TELEMETRY; i++) {
        size_t name = strlen(feature_names[i]);
        if (length <= name + 1 || strncmp(field, feature_names[i], name) != 0 ||
            field[name] != '=')
            continue;
        char *end;
        float value = strtof(field + name + 1, &end);
        if (end == field + length && isfinite(value))
            out[i] = value;
    }
}

void launch_telemetry(const char *text, float *out)
{
    for (size_t i = 0; i < DSGD_N_TELEMETRY; i++)
        out[i] = NAN;
    if (!text || strncmp(text, "1;", 2) != 0)
        return;
    for (const char *field = text + 2; *field;) {
        size_t length = strcspn(field, ";");
        telemetry_field(field, length, out);
        field += length + (field[length] == ';');
    }
}

/* The program may be linked to OpenBLAS; this library is not. */
void launch_kernel(char *out, size_t size)
{
    char line[256];
    void *symbol = dlsym(RTLD_DEFAULT, "openblas_get_corename");
    char *(*corename)(void);

    memcpy(&corename, &symbol, sizeof corename);
    if (symbol) {
        snprintf(out, size, "%s", corename());
        return;
    }
    snprintf(out, size, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon) {
            snprintf(out, size, "%.*s", (int)strcspn(colon + 2, "\n"),
                     colon + 2);
            break;
        }
    }
    if (f)
        fclose(f);
}

void launch_this_node(struct launch_node *node)
{
    const char *slurm_name = variable("SLURMD_NODENAME");

    memset(node, 0, sizeof *node);
    if (slurm_name)
        snprintf(node->name, sizeof node->name, "%s", slurm_name);
    else if (gethostname(node->name, sizeof node->name - 1) != 0)
        snprintf(node->name, sizeof node->name, "unknown");
    launch_kernel(node->kernel, sizeof node->kernel);
    launch_telemetry(variable(DSGD_LAUNCH_TELEMETRY), node->telemetry);
}

enum dsgd_err launch_check(const struct dsgd_options *opt,
                           struct cutoff_spec *spec, struct dsgd_error *err)
{
    if (!opt->grad_elems || opt->grad_elems > UINT32_MAX)
        return error_set(err, DSGD_E_USAGE,
                         "grad_elems: %zu is not from 1 to %u", opt->grad_elems,
                         UINT32_MAX);
    if (opt->sampler == DSGD_SAMPLER_RANGES && opt->batch > UINT32_MAX)
        return error_set(err, DSGD_E_USAGE,
                         "batch: %llu is more than %u samples",
                         (unsigned long long)opt->batch, UINT32_MAX);
    if (!(opt->hard_timeout_s >= 0))
        return error_set(err, DSGD_E_USAGE, "hard_timeout_s: %g is negative",
                         opt->hard_timeout_s);
    if (!(opt->max_cut_share >= 0 && opt->max_cut_share <= 1))
        return error_set(err, DSGD_E_USAGE,
                         "max_cut_share: %g is not from 0 to 1",
                         opt->max_cut_share);
    if (!(opt->batch_slack >= 0 && opt->batch_slack < 1))
        return error_set(err, DSGD_E_USAGE,
                         "batch_slack: %g is not from 0 to below 1",
                         opt->batch_slack);
    if ((unsigned)opt->late > DSGD_LATE_CARRY ||
        (unsigned)opt->partial > DSGD_PARTIAL_CONTRIBUTE ||
        (unsigned)opt->lr_scale > DSGD_LR_SCALE_SQRT)
        return error_set(err, DSGD_E_USAGE,
                         "late, partial or lr_scale: %d, %d, %d: not one of "
                         "the enumerators in dsgd.h",
                         (int)opt->late, (int)opt->partial, (int)opt->lr_scale);
    if ((unsigned)opt->work > DSGD_WORK_SHARED)
        return error_set(err, DSGD_E_USAGE,
                         "work: %d is not one of the enumerators in dsgd.h",
                         (int)opt->work);
    enum dsgd_err rc = cutoff_parse("--dsgd-cutoff", opt->cutoff, spec, err);
    if (rc == DSGD_OK && spec->mode == CUTOFF_DRY &&
        opt->work == DSGD_WORK_SHARED)
        return error_set(err, DSGD_E_USAGE,
                         "--dsgd-cutoff: dry tells whom dynamic would have "
                         "cut, and --dsgd-work=shared cuts nobody: use full");
    if (rc == DSGD_OK && spec->mode == CUTOFF_REPLAY && *opt->checkpoint_dir)
        rc = error_set(err, DSGD_E_USAGE,
                       "--dsgd-cutoff: a replay neither keeps checkpoints nor "
                       "goes on from them: unset DSGD_CHECKPOINT_DIR");
    return rc;
}

static bool replays(const struct dsgd_options *opt)
{
    struct cutoff_spec cutoff;

    return cutoff_parse("", opt->cutoff, &cutoff, NULL) == DSGD_OK &&
           cutoff.mode == CUTOFF_REPLAY;
}

size_t launch_parts(const struct dsgd_options *opt)
{
    const size_t usual = 8;

    return opt->parts ? opt->parts : usual;
}

bool launch_deposits(const struct dsgd_options *opt)
{
    return opt->deposits && opt->work == DSGD_WORK_OWN &&
           opt->sampler == DSGD_SAMPLER_RANGES &&
           launch_part(opt) < opt->batch && opt->batch <= UINT32_MAX &&
           opt->late != DSGD_LATE_CARRY &&
           opt->partial != DSGD_PARTIAL_DISCARD && !replays(opt);
}

uint32_t launch_slot_bufs(const struct dsgd_options *opt)
{
    bool two = replays(opt) || /* the record may carry */
               opt->work == DSGD_WORK_SHARED || launch_deposits(opt) ||
               late_takes_whole(opt) || late_takes_parts(opt);

    return two ? 2 : 1;
}

bool launch_keeps_parts(const struct dsgd_options *opt)
{
    return opt->work == DSGD_WORK_SHARED &&
           (replays(opt) || late_takes_whole(opt));
}

uint64_t launch_part(const struct dsgd_options *opt)
{
    uint64_t parts = launch_parts(opt);
    uint64_t part = opt->batch / parts + (opt->batch % parts != 0);

    return part ? part : 1;
}

enum dsgd_err launch_same_sizes(const struct dsgd_options *own,
                                const struct dsgd_options *first,
                                const char *who, struct dsgd_error *err)
{
    const struct {
        const char *name;
        uint64_t own, first;
    } size[] = {{"grad_elems", own->grad_elems, first->grad_elems},
                {"batch", own->batch, first->batch},
                {"n_samples", own->n_samples, first->n_samples},
                {"epochs", own->epochs, first->epochs},
                {"max_steps", own->max_steps, first->max_steps},
                {"sampler", own->sampler, first->sampler},
                {"work", own->work, first->work},
                {"parts", own->parts, first->parts},
                {"deposits", own->deposits, first->deposits}};

    for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
        if (size[i].own != size[i].first)
            return error_set(err, DSGD_E_USAGE,
                             "%s is %llu here and %llu on %s; every worker "
                             "must open with the same",
                             size[i].name, (unsigned long long)size[i].own,
                             (unsigned long long)size[i].first, who);
    }
    return DSGD_OK;
}

enum dsgd_err launch_model(const struct dsgd_options *opt,
                           const struct cutoff_spec *spec,
                           struct timing_model **m, struct dsgd_error *err)
{
    const char *path = *opt->model ? opt->model : DEFAULT_MODEL;

    *m = NULL;
    if (spec->mode != CUTOFF_DYNAMIC && spec->mode != CUTOFF_DRY)
        return DSGD_OK;
    if (path != opt->model && access(path, R_OK) != 0)
        return error_set(
            err, DSGD_E_NOMODEL,
            "--dsgd-cutoff: %s needs a timing model and none is "
            "installed at %s; give one with --dsgd-model, or use "
            "%s",
            opt->cutoff, path,
            opt->work == DSGD_WORK_SHARED ? "full" : "full, static:K or order");
    enum dsgd_err rc = timing_model_load(path, m, err);
    if (rc != DSGD_OK && err) { /* users may not have named it themselves */
        struct dsgd_error text = *err;
        error_set(err, rc, "--dsgd-model: %.480s", text.text);
    }
    return rc;
}

static void warn(const struct dsgd_options *opt, const char *text)
{
    if (opt->warn)
        opt->warn(opt->warn_context, text);
}

/* One directory level, so that a RecordDir without the plugin's help works
 * where the user may write. */
static void make_directory(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        mkdir(path, 0700);
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

static void record_path(const struct dsgd_options *opt,
                        const struct record_job *job, char *path, size_t size)
{
    if (ends_with(opt->record, ".dsgd")) {
        snprintf(path, size, "%s", opt->record);
        return;
    }
    make_directory(opt->record);
    snprintf(path, size, "%s/%s.%s.%u.dsgd", opt->record, job->job_id,
             job->step_id, job->restart);
}

static double unix_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Without Slurm the process stands for the job. */
struct run_id {
    char job[64], step[32];
    uint32_t restart;
};

static void run_id(struct run_id *id)
{
    const char *job = variable("SLURM_JOB_ID");
    const char *step = variable("SLURM_STEP_ID");
    const char *restart = variable("SLURM_RESTART_COUNT");

    snprintf(id->job, sizeof id->job, "mpirun-%ld", (long)getpid());
    snprintf(id->step, sizeof id->step, "0");
    if (job && step) {
        snprintf(id->job, sizeof id->job, "%s", job);
        snprintf(id->step, sizeof id->step, "%s", step);
    }
    id->restart = restart ? (uint32_t)strtoul(restart, NULL, 10) : 0;
}

void launch_run_name(char *out, size_t size)
{
    struct run_id id = {.restart = 0};

    run_id(&id);
    snprintf(out, size, "%s.%s.%u", id.job, id.step, id.restart);
}

static struct record *create(const struct dsgd_options *opt,
                             struct record_job *job)
{
    const struct passwd *user = getpwuid(geteuid());
    struct run_id id = {.restart = 0};
    char path[512];
    struct record *record;
    struct dsgd_error error;

    run_id(&id);
    job->job_id = id.job;
    job->step_id = id.step;
    job->restart = id.restart;
    job->job_name = variable("SLURM_JOB_NAME");
    job->user = user ? user->pw_name : NULL;
    record_path(opt, job, path, sizeof path);
    if (record_create(path, job, &record, &error) == DSGD_OK)
        return record;
    struct dsgd_error text;
    error_set(&text, DSGD_E_IO, "no record: %.400s", error.text);
    warn(opt, text.text);
    return NULL;
}

enum { N_SETTINGS = 7 };

static const char *late_word(const struct dsgd_options *opt)
{
    static const char *const word[] = {"requeue", "drop", "carry"};

    return word[opt->late];
}

/* Options of which the record has no column. */
static size_t launch_settings(const struct dsgd_options *opt,
                              struct record_setting *s)
{
    static const char *const scale[] = {"none", "linear", "sqrt"};
    bool share = opt->max_cut_share > 0;

    s[0].name = "partial";
    snprintf(s[0].value, sizeof s[0].value, "%s",
             late_takes_parts(opt) || launch_deposits(opt) ? "contribute"
                                                           : "discard");
    s[1].name = "lr_scale";
    snprintf(s[1].value, sizeof s[1].value, "%s", scale[opt->lr_scale]);
    s[2].name = "max_cuts";
    snprintf(s[2].value, sizeof s[2].value, "%zu", opt->max_cuts);
    s[3].name = "max_cut_share";
    snprintf(s[3].value, sizeof s[3].value, "%g%%",
             share ? 100 * opt->max_cut_share : 100.0);
    s[4].name = "work";
    snprintf(s[4].value, sizeof s[4].value, "%s",
             opt->work == DSGD_WORK_SHARED ? "shared" : "own");
    s[5].name = "parts";
    snprintf(s[5].value, sizeof s[5].value, "%zu", launch_parts(opt));
    s[6].name = "batch_slack";
    snprintf(s[6].value, sizeof s[6].value, "%g%%", 100 * opt->batch_slack);
    return N_SETTINGS;
}

struct record *launch_record(const struct dsgd_options *opt, uint32_t n_workers,
                             uint32_t n_nodes, const uint32_t *worker_node,
                             const struct launch_node *nodes,
                             const struct checkpoint_facts *resumed)
{
    struct record_setting setting[N_SETTINGS];
    struct record_job job = {.program = opt->program,
                             .description = opt->description,
                             .cutoff = opt->cutoff,
                             .late = late_word(opt),
                             .setting = setting,
                             .n_settings = launch_settings(opt, setting),
                             .min_contributors = opt->min_contributors,
                             .grad_elems = opt->grad_elems,
                             .n_samples = opt->n_samples,
                             .batch = opt->batch,
                             .start_unix_s = unix_time(),
                             .n_workers = n_workers,
                             .n_nodes = n_nodes,
                             .worker_node = worker_node,
                             .resumed_step = resumed ? resumed->step : 0,
                             .resumed_from = resumed ? resumed->run : NULL};
    struct record *record = NULL;

    if (!*opt->record || strcmp(opt->record, "off") == 0)
        return NULL;
    const char **names = calloc(n_nodes, sizeof *names);
    const char **kernels = calloc(n_nodes, sizeof *kernels);
    float *telemetry = calloc(n_nodes, sizeof nodes->telemetry);
    if (names && kernels && telemetry) {
        for (uint32_t i = 0; i < n_nodes; i++) {
            names[i] = nodes[i].name;
            kernels[i] = nodes[i].kernel;
            memcpy(telemetry + (size_t)i * DSGD_N_TELEMETRY, nodes[i].telemetry,
                   sizeof nodes->telemetry);
        }
        job.node_name = names;
        job.node_kernel = kernels;
        job.telemetry = telemetry;
        record = create(opt, &job);
    } else {
        warn(opt, "no record: no memory");
    }
    free(names);
    free(kernels);
    free(telemetry);
    return record;
}

void launch_compare_kernels(const struct dsgd_options *opt, uint32_t n_nodes,
                            const struct launch_node *nodes)
{
    for (uint32_t i = 1; i < n_nodes; i++) {
        if (strcmp(nodes[i].kernel, nodes[0].kernel) == 0)
            continue;
        struct dsgd_error text;
        error_set(&text, DSGD_OK,
                  "nodes %s and %s compute with different kernels (%s, %s): "
                  "what workers compute for themselves may differ in the last "
                  "bits; set OPENBLAS_CORETYPE to one that both have",
                  nodes[0].name, nodes[i].name, nodes[0].kernel,
                  nodes[i].kernel);
        warn(opt, text.text);
        return;
    }
}

enum dsgd_err launch_replay(const struct dsgd_options *opt,
                            const struct cutoff_spec *spec, uint32_t n_workers,
                            uint32_t n_nodes, const uint32_t *worker_node,
                            const struct launch_node *nodes,
                            struct record_replay **r, struct dsgd_error *err)
{
    struct record_job want = {
        .program = opt->program,
        .grad_elems = opt->grad_elems,
        .n_samples = opt->sampler == DSGD_SAMPLER_RANGES ? opt->n_samples : 0,
        .batch = opt->batch,
        .n_workers = n_workers,
        .n_nodes = n_nodes,
        .worker_node = worker_node};

    *r = NULL;
    if (spec->mode != CUTOFF_REPLAY)
        return DSGD_OK;
    const char **text = calloc(2 * (size_t)n_nodes, sizeof *text);
    if (!text)
        return error_set(err, DSGD_E_NOMEM, "no memory");
    for (uint32_t i = 0; i < n_nodes; i++) {
        text[i] = nodes[i].name;
        text[n_nodes + i] = nodes[i].kernel;
    }
    want.node_name = text;
    want.node_kernel = text + n_nodes;
    enum dsgd_err rc = record_replay_open(
        spec->file, &want, opt->work == DSGD_WORK_SHARED, r, err);
    free(text);
    if (rc != DSGD_OK)
        return rc;
    const char *then = record_replay_description(*r);
    if (then && strcmp(then, opt->description) != 0) {
        struct dsgd_error line;
        error_set(&line, DSGD_OK,
                  "the run that is replayed was of other settings: \"%.400s\"",
                  then);
        warn(opt, line.text);
    }
    return DSGD_OK;
}
