/* Files of checkpoints, their directory, and runs of one worker that go on from
 * them. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint_file.h"
#include "checkpoint_store.h"
#include "dsgd.h"
#include "scratch.h"
#include "tap.h"

static char dir[] = "/tmp/dsgd-checkpoint-XXXXXX";
static char last_warning[512], last_note[512];
static int n_warnings;

static void warn(void *context, const char *text)
{
    (void)context;
    n_warnings++;
    snprintf(last_warning, sizeof last_warning, "%s", text);
}

static void note(void *context, const char *text)
{
    (void)context;
    snprintf(last_note, sizeof last_note, "%s", text);
}

/* The library's too.  An automounter says of what it has not mounted yet that
 * it can't be made. */
static const char *automounted;

int mkdir(const char *path, mode_t mode)
{
    if (automounted && strcmp(path, automounted) == 0) {
        errno = EACCES;
        return -1;
    }
    return mkdirat(AT_FDCWD, path, mode);
}

static const char *in_dir(const char *name)
{
    static char path[2][512];
    static int turn;

    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

static struct checkpoint sample(uint64_t step)
{
    static unsigned char sampler[24], state[1000];

    for (size_t i = 0; i < sizeof state; i++)
        state[i] = (unsigned char)(i * 7 + step);
    struct checkpoint c = {.facts = {.program = "toy",
                                     .identity = "seed 1",
                                     .grad_elems = 10,
                                     .n_samples = 100,
                                     .step = step,
                                     .epoch = 2,
                                     .batch = 8,
                                     .n_workers = 3,
                                     .n_nodes = 1,
                                     .run_samples = 240,
                                     .run_s = 1.5,
                                     .run = "7.0.1"},
                           .sampler = sampler,
                           .sampler_bytes = sizeof sampler,
                           .timing = "tm",
                           .timing_bytes = 2,
                           .state = state,
                           .state_bytes = sizeof state};
    return c;
}

static void round_trip(void)
{
    struct checkpoint c = sample(5);
    struct checkpoint_read *r;
    struct dsgd_error err;
    const char *path = in_dir("one");

    is_int(checkpoint_write(path, &c, &err), DSGD_OK, "write");
    is_int(checkpoint_read(path, &r, &err), DSGD_OK, "read");
    is_int((long long)r->facts.step, 5, "its step");
    is_str(r->facts.run, "7.0.1", "its run");
    near(r->facts.run_s, 1.5, 0, "its time");
    ok(r->state.bytes == c.state_bytes &&
           memcmp(r->state.data, c.state, c.state_bytes) == 0,
       "its state");
    ok(r->timing_bytes == 2 && memcmp(r->timing, "tm", 2) == 0,
       "the timing model's");
    checkpoint_free(r);
    checkpoint_free(NULL);
    struct stat st;
    ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600, "mode 0600");
    is_int(checkpoint_write(in_dir("no/one"), &c, &err), DSGD_E_IO,
           "no directory");
    has_str(err.text, "no/one", "says which");
}

static size_t load(const char *path, unsigned char *data, size_t size)
{
    FILE *f = fopen(path, "r");
    size_t n = fread(data, 1, size, f);
    fclose(f);
    return n;
}

static void store(const char *path, const unsigned char *data, size_t n)
{
    FILE *f = fopen(path, "w");
    fwrite(data, 1, n, f);
    fclose(f);
}

/* Every byte counts: flipped, or missing from the end, it is noticed. */
static void damage(void)
{
    static unsigned char data[8192];
    const char *bad = in_dir("bad");
    size_t n = load(in_dir("one"), data, sizeof data), flips = 0, cuts = 0;
    struct checkpoint_read *r;
    struct dsgd_error err;

    for (size_t i = 0; i < n; i++) {
        data[i] ^= (unsigned char)(1u << i % 8);
        store(bad, data, n);
        data[i] ^= (unsigned char)(1u << i % 8);
        flips += checkpoint_read(bad, &r, &err) == DSGD_E_FORMAT && !r;
        store(bad, data, i);
        cuts += checkpoint_read(bad, &r, &err) == DSGD_E_FORMAT && !r;
    }
    is_int((long long)flips, (long long)n, "every flipped bit is found");
    is_int((long long)cuts, (long long)n, "every cut is found");
    store(bad, data, n);
    is_int(checkpoint_read(bad, &r, &err), DSGD_OK, "whole again, it is read");
    checkpoint_free(r);
    data[n] = 0;
    store(bad, data, n + 1);
    is_int(checkpoint_read(bad, &r, &err), DSGD_E_FORMAT, "a byte too many");
    is_int(checkpoint_read(in_dir("none"), &r, &err), DSGD_E_IO, "no file");
    is_int(checkpoint_read(dir, &r, &err), DSGD_E_FORMAT, "a directory");
}

/* A disk that fills up while a file is written: the one before stays. */
static void full_disk(void)
{
    struct rlimit before, small = {600, 600};
    struct checkpoint c = sample(6);
    struct checkpoint_read *r;
    struct dsgd_error err;
    const char *path = in_dir("one");

    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &small);
    is_int(checkpoint_write(path, &c, &err), DSGD_E_IO, "no room");
    setrlimit(RLIMIT_FSIZE, &before);
    has_str(err.text, "File too large", "says why");
    ok(access(in_dir("one.tmp"), F_OK) != 0, "nothing half-written is left");
    is_int(checkpoint_read(path, &r, &err), DSGD_OK, "the old one is good");
    is_int((long long)r->facts.step, 5, "and still the old one");
    checkpoint_free(r);
}

static struct dsgd_options options(const char *name)
{
    struct dsgd_options opt;

    setenv("DSGD_CONF", "/dev/null", 1);
    dsgd_options_init(&opt, NULL);
    snprintf(opt.checkpoint_dir, sizeof opt.checkpoint_dir, "%s", in_dir(name));
    snprintf(opt.program, sizeof opt.program, "toy");
    snprintf(opt.identity, sizeof opt.identity, "seed 1");
    opt.warn = warn;
    opt.note = note;
    opt.grad_elems = 10;
    opt.n_samples = 100;
    opt.batch = 4;
    opt.epochs = 2;
    opt.checkpoint_keep = 2;
    n_warnings = 0;
    *last_warning = *last_note = '\0';
    return opt;
}

static void put(struct checkpoint_store *s, uint64_t step)
{
    struct checkpoint c = sample(step);
    struct dsgd_error result;
    enum checkpoint_progress progress;

    checkpoint_store_put(s, &c);
    while ((progress = checkpoint_store_poll(s, &result)) == CHECKPOINT_BUSY)
        usleep(1000);
    ok(progress == CHECKPOINT_WRITTEN, "step %d is written", (int)step);
}

static uint64_t newest(struct checkpoint_store *s, const char *identity,
                       enum dsgd_err *rc)
{
    struct checkpoint c = sample(0);
    struct checkpoint_read *r;
    struct dsgd_error err;
    char name[256];

    snprintf(c.facts.identity, sizeof c.facts.identity, "%s", identity);
    *rc = checkpoint_store_newest(s, &c.facts, &r, name, &err);
    uint64_t step = r ? r->facts.step : 0;
    checkpoint_free(r);
    return step;
}

/* A directory's own mode does not depend on how its name is written. */
static void closed_to_others(void)
{
    struct dsgd_options opt = options("c/d/");
    struct checkpoint_store *s;
    struct dsgd_error err;
    struct stat st;
    mode_t before = umask(022);

    is_int(checkpoint_store_open(&opt, &s, &err), DSGD_OK,
           "a directory with a slash behind it");
    umask(before);
    ok(stat(opt.checkpoint_dir, &st) == 0 && (st.st_mode & 0777) == 0700,
       "is the user's alone");
    checkpoint_store_close(s);
}

static void on_a_mount(void)
{
    struct dsgd_options opt = options("mount/d");
    struct checkpoint_store *s;
    struct dsgd_error err = {""};
    char mount[512];

    snprintf(mount, sizeof mount, "%s", in_dir("mount"));
    automounted = mount;
    is_int(checkpoint_store_open(&opt, &s, &err), DSGD_E_IO,
           "a directory that can't be made");
    has_str(err.text, "Permission denied", "says so");
    automounted = NULL;
    mkdir(mount, 0700);
    automounted = mount;
    is_int(checkpoint_store_open(&opt, &s, &err), DSGD_OK,
           "one below what is mounted by itself");
    automounted = NULL;
    checkpoint_store_close(s);
    close(creat(in_dir("file"), 0600));
    opt = options("file/d");
    is_int(checkpoint_store_open(&opt, &s, &err), DSGD_E_IO, "below a file");
    has_str(err.text, "Not a directory", "says so");
}

/* A name that is not UTF-8, or cut within a character, is a name too. */
static void other_bytes(void)
{
    struct dsgd_options opt = options("bytes");
    struct checkpoint c = sample(5);
    struct checkpoint_store *s;
    struct checkpoint_read *r;
    struct dsgd_error err = {""};
    enum dsgd_err rc;
    char name[256], path[512 + 32];

    memset(c.facts.identity, 0xfc, 255);
    snprintf(c.facts.program, sizeof c.facts.program, "na\xc3\xafve \xc3");
    is_int(checkpoint_write(in_dir("bytes.ckpt"), &c, &err), DSGD_OK,
           "a checkpoint of a name in Latin-1");
    is_str(err.text, "", "is written without complaint");
    is_int(checkpoint_read(in_dir("bytes.ckpt"), &r, &err), DSGD_OK,
           "and read");
    is_str(r->facts.program, "na\xc3\xafve \xc3\x83", "in UTF-8");
    checkpoint_free(r);

    is_int(checkpoint_store_open(&opt, &s, &err), DSGD_OK, "a directory");
    snprintf(path, sizeof path, "%s/step-%012d.ckpt", opt.checkpoint_dir, 5);
    is_int(checkpoint_write(path, &c, &err), DSGD_OK, "with one");
    is_int(checkpoint_store_newest(s, &c.facts, &r, name, &err), DSGD_OK,
           "the same training goes on");
    is_int(r ? (long long)r->facts.step : 0, 5, "from it");
    checkpoint_free(r);
    c.facts.identity[7]++;
    rc = checkpoint_store_newest(s, &c.facts, &r, name, &err);
    is_int(rc, DSGD_E_USAGE, "another does not");
    checkpoint_free(r);
    checkpoint_store_close(s);
}

static void directory(void)
{
    struct dsgd_options opt = options("a/b-%u-%j");
    struct checkpoint_store *s, *other;
    struct dsgd_error err;
    enum dsgd_err rc;
    char path[512];

    setenv("SLURM_JOB_ID", "77", 1);
    is_int(checkpoint_store_open(&opt, &s, &err), DSGD_OK, "make a directory");
    is_int(checkpoint_store_open(&opt, &other, &err), DSGD_E_USAGE,
           "a second run in it is refused");
    has_str(err.text, "another run is using it", "says so");
    has_str(err.text, "-77: ", "with the job's number in its name");
    is_int((long long)newest(s, "seed 1", &rc), 0, "nothing to go on from");
    put(s, 10);
    put(s, 20);
    put(s, 30);
    is_int((long long)newest(s, "seed 1", &rc), 30, "the newest");
    is_int((long long)newest(s, "seed 2", &rc), 0, "none for another training");
    is_int(rc, DSGD_E_USAGE, "which is an error");
    has_str(last_warning, "of another training", "and a warning");
    snprintf(path, sizeof path, "%.*s/step-%012d.ckpt",
             (int)(strstr(err.text, ": another") - err.text) -
                 (int)strlen("checkpoint directory "),
             err.text + strlen("checkpoint directory "), 30);
    ok(truncate(path, 300) == 0, "%s is cut short", path);
    is_int((long long)newest(s, "seed 1", &rc), 20, "the older one is taken");
    has_str(last_warning, "step-000000000030.ckpt: cut short: not used",
            "and the newer one named");
    strstr(path, "030.ckpt")[1] = '1';
    ok(access(path, F_OK) != 0, "only two are kept");
    checkpoint_store_close(s);
    checkpoint_store_close(NULL);
    is_int(checkpoint_store_open(&opt, &s, &err), DSGD_OK, "unlocked again");
    checkpoint_store_close(s);
    unsetenv("SLURM_JOB_ID");
}

/* Steps of a run whose state counts the samples; `what` happens in step `at`.
 * Returns what dsgd_close says. */
static enum dsgd_err run(const struct dsgd_options *opt, double *state,
                         uint64_t *first, uint64_t at,
                         void (*what)(struct dsgd *))
{
    struct dsgd_error err;
    struct dsgd_step step;
    struct dsgd_mean m;
    struct dsgd *d;
    enum dsgd_err rc;

    *first = 0;
    rc = dsgd_open(opt, &d, &err);
    if (!ok(rc == DSGD_OK, "open: %s", rc ? err.text : "good"))
        return rc;
    dsgd_register(d, state, sizeof *state, &err);
    while ((rc = dsgd_step_begin(d, &step)) == DSGD_OK) {
        float *grad = dsgd_grad_buffer(d);
        *first = *first ? *first : step.index;
        if (step.index == at)
            what(d);
        for (size_t i = 0; i < opt->grad_elems; i++)
            grad[i] = (float)(step.first_sample + step.index);
        dsgd_reduce(d, grad, opt->grad_elems, step.n_samples);
        while ((rc = dsgd_next_mean(d, &m)) == DSGD_OK)
            *state = 1.01 * *state + m.grad[0] + (double)m.samples;
    }
    if (rc != DSGD_END)
        snprintf(last_warning, sizeof last_warning, "%s", dsgd_error_text(d));
    return dsgd_close(d);
}

static void ask(struct dsgd *d)
{
    dsgd_checkpoint(d, false);
}

static void ask_end(struct dsgd *d)
{
    dsgd_checkpoint(d, true);
}

static void terminate(struct dsgd *d)
{
    (void)d;
    raise(SIGTERM);
}

static void nothing(struct dsgd *d)
{
    (void)d;
}

static void interrupted(void)
{
    struct dsgd_options opt = options("runs"), plain = opt;
    double whole = 0, state = 0, other[2] = {0};
    uint64_t first;

    *plain.checkpoint_dir = '\0';
    is_int(run(&plain, &whole, &first, 1, nothing), DSGD_OK, "in one go");
    is_int(run(&opt, &state, &first, 7, ask_end), DSGD_E_PREEMPTED,
           "asked for an end");
    is_int((long long)first, 1, "it had begun at its beginning");
    state = 0;
    is_int(run(&opt, &state, &first, 18, terminate), DSGD_E_PREEMPTED,
           "SIGTERM");
    ok(first >= 8 && first <= 10, "it went on after step %d", (int)first - 1);
    has_str(last_note, "going on from step-0000000000", "and said so");
    state = 0;
    is_int(run(&opt, &state, &first, 30, ask), DSGD_OK, "and to the end");
    ok(state == whole, "with the same bits");
    is_int(n_warnings, 0, "no warnings");
    struct sigaction act;
    sigaction(SIGTERM, NULL, &act);
    ok(act.sa_handler == SIG_DFL, "the signal is as it was");
    is_int(run(&opt, &other[0], &first, 1, nothing), DSGD_OK,
           "once it has ended it ends again");
    ok(first == 0 && other[0] == whole, "without a step, with its state");

    struct dsgd_error err;
    struct dsgd_step step;
    struct dsgd *d;
    dsgd_open(&opt, &d, &err);
    dsgd_register(d, other, sizeof other, &err);
    is_int(dsgd_step_begin(d, &step), DSGD_E_FORMAT, "another state");
    has_str(dsgd_error_text(d), "8 bytes, and this program registers 16",
            "says so");
    dsgd_close(d);
}

static void handled(int number)
{
    (void)number;
    n_warnings++;
}

static void left_alone(void)
{
    struct dsgd_options opt = options("signals");
    double state = 0;
    uint64_t first;
    struct dsgd *d;

    signal(SIGTERM, handled);
    is_int(run(&opt, &state, &first, 3, terminate), DSGD_OK,
           "a program's own handler stays");
    is_int(n_warnings, 1, "and is called");
    signal(SIGTERM, SIG_DFL);
    *opt.checkpoint_dir = '\0';
    dsgd_open(&opt, &d, NULL);
    is_int(dsgd_checkpoint(d, false), DSGD_E_STATE, "no directory");
    dsgd_close(d);
}

/* Shared work asks for the model's state too, and says so when it is not one of
 * shared work. */
static void model_of_shared(struct dsgd_options opt)
{
    struct dsgd_error err = {""};
    struct dsgd *d;

    opt.work = DSGD_WORK_SHARED;
    opt.parts = 2;
    ok(dsgd_open(&opt, &d, &err) == DSGD_OK, "with shared work %s", err.text);
    is_int(n_warnings, 1, "a warning");
    has_str(last_warning, "the timing model begins anew", "of another state");
    dsgd_close(d);
    n_warnings = 0;
}

/* The timing model's state goes along. */
static void model(void)
{
    struct dsgd_options opt = options("model");
    const char *source = getenv("DSGD_SRCDIR");
    double state = 0;
    uint64_t first;

    snprintf(opt.model, sizeof opt.model, "%s/model/default.safetensors",
             source ? source : ".");
    snprintf(opt.cutoff, sizeof opt.cutoff, "dynamic");
    is_int(run(&opt, &state, &first, 20, ask_end), DSGD_E_PREEMPTED,
           "dynamic: ended early");
    model_of_shared(opt);
    is_int(run(&opt, &state, &first, 40, ask), DSGD_OK, "goes on");
    is_int(n_warnings, 0, "with the model's state");
    opt.epochs = 3;
    snprintf(opt.cutoff, sizeof opt.cutoff, "full");
    is_int(run(&opt, &state, &first, 1, nothing), DSGD_OK,
           "and without a model, longer");
    ok(first > 50, "after step %d", (int)first - 1);
    is_int(n_warnings, 0, "no warnings");
}

int main(void)
{
    scratch_dir(dir);
    round_trip();
    damage();
    full_disk();
    closed_to_others();
    on_a_mount();
    other_bytes();
    directory();
    interrupted();
    left_alone();
    model();
    return done();
}
