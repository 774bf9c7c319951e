/* A run of one worker through the public interface, without MPI. */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "count_alloc.h"
#include "dsgd.h"
#include "tap.h"

enum { ELEMS = 5000 };

static void options(struct dsgd_options *opt)
{
    setenv("DSGD_CONF", "/dev/null", 1);
    dsgd_options_init(opt, NULL);
    opt->grad_elems = ELEMS;
    opt->n_samples = 100;
    opt->batch = 8;
    opt->epochs = 2;
}

static void whole_run(void)
{
    struct dsgd_options opt;
    struct dsgd_progress progress;
    struct dsgd_step step;
    struct dsgd_mean m;
    struct dsgd_error err;
    struct dsgd *d;
    static float params[ELEMS];
    enum dsgd_err rc;
    int epochs = 0, wrong = 0;
    uint64_t samples = 0;

    options(&opt);
    is_int(dsgd_open(&opt, &d, &err), DSGD_OK, "open");
    is_int(dsgd_register(d, params, sizeof params, &err), DSGD_OK, "register");
    while ((rc = dsgd_step_begin(d, &step)) == DSGD_OK) {
        float *grad = dsgd_grad_buffer(d);
        for (int i = 0; i < ELEMS; i++)
            grad[i] = (float)step.n_samples * (float)i;
        wrong += dsgd_poll(d, 1, 2) != DSGD_GO_ON;
        dsgd_reduce(d, grad, ELEMS, step.n_samples);
        while ((rc = dsgd_next_mean(d, &m)) == DSGD_OK) {
            for (int i = 0; i < ELEMS; i++)
                wrong += m.grad[i] != (float)i;
            wrong +=
                m.step != step.index || m.contributors != 1 || m.lr_scale != 1;
            samples += m.samples;
        }
        epochs += rc == DSGD_EPOCH_END;
    }
    is_int(rc, DSGD_END, "the run ends");
    is_int(epochs, 2, "after two epochs");
    is_int((long long)samples, 200, "of all samples");
    is_int(wrong, 0, "with the right means");
    dsgd_progress(d, &progress);
    is_int((long long)progress.steps, 26, "in 2 x 13 steps");
    is_int(dsgd_close(d), DSGD_OK, "close");
    is_int(dsgd_close(NULL), DSGD_OK, "close nothing");
}

static void out_of_order(void)
{
    struct dsgd_options opt;
    struct dsgd_step step;
    struct dsgd_mean m;
    struct dsgd_error err;
    struct dsgd *d;
    float x = 0;

    options(&opt);
    dsgd_open(&opt, &d, &err);
    is_int(dsgd_reduce(d, &x, ELEMS, 1), DSGD_E_STATE, "reduce before begin");
    has_str(dsgd_error_text(d), "no step was begun", "says so");
    dsgd_step_begin(d, &step);
    is_int(dsgd_step_begin(d, &step), DSGD_E_STATE, "begin twice");
    is_int(dsgd_next_mean(d, &m), DSGD_E_STATE, "next_mean before reduce");
    is_int(dsgd_register(d, &x, 4, &err), DSGD_E_STATE, "register too late");
    is_int(dsgd_reduce(d, &x, 1, 1), DSGD_E_RANGE, "another size");
    is_int(dsgd_reduce(d, dsgd_grad_buffer(d), ELEMS, 9), DSGD_E_RANGE,
           "more samples than the share");
    has_str(dsgd_error_text(d), "9 samples of a share of 8", "says so");
    is_int(dsgd_allreduce(d, &x, ELEMS, 1), DSGD_E_STATE,
           "allreduce needs SAMPLER_NONE");
    dsgd_close(d); /* in the middle of a step */
}

static void drop_in(void)
{
    struct dsgd_options opt;
    struct dsgd *d;
    static float grad[ELEMS];
    int steps = 0;
    enum dsgd_err rc;

    options(&opt);
    opt.sampler = DSGD_SAMPLER_NONE;
    opt.epochs = 0;
    opt.max_steps = 5;
    dsgd_open(&opt, &d, NULL);
    do {
        for (int i = 0; i < ELEMS; i++)
            grad[i] = 6;
        rc = dsgd_allreduce(d, grad, ELEMS, 3);
        steps += rc == DSGD_OK && grad[ELEMS - 1] == 2;
    } while (rc == DSGD_OK);
    is_int(rc, DSGD_END, "allreduce ends after max_steps");
    is_int(steps, 5, "and gave five means");
    dsgd_close(d);
}

static void nothing_allocated(void)
{
    struct dsgd_options opt;
    struct dsgd *d;
    static float grad[ELEMS];
    size_t before = 0;

    options(&opt);
    opt.sampler = DSGD_SAMPLER_NONE;
    opt.epochs = 0;
    opt.max_steps = 300;
    strcpy(opt.record, "off");
    dsgd_open(&opt, &d, NULL);
    ok(allocations > 0, "allocations are counted");
    for (int i = 0; i < 300; i++) {
        if (i == 20)
            before = allocations;
        dsgd_allreduce(d, grad, ELEMS, 1);
    }
    is_int((long long)(allocations - before), 0,
           "nothing is allocated in a step");
    dsgd_close(d);
}

static void refused(void)
{
    struct dsgd_options opt;
    struct dsgd_error err;
    struct dsgd *d;

    options(&opt);
    opt.grad_elems = 0;
    is_int(dsgd_open(&opt, &d, &err), DSGD_E_USAGE, "no elements");
    options(&opt);
    strcpy(opt.cutoff, "static:2");
    is_int(dsgd_open(&opt, &d, &err), DSGD_E_USAGE, "more than one worker");
    ok(d == NULL, "no handle then");
    options(&opt);
    opt.n_samples = 0;
    is_int(dsgd_open(&opt, &d, &err), DSGD_E_USAGE, "no samples");
    strcpy(opt.cutoff, "dynamic");
    is_int(dsgd_open(&opt, &d, &err), DSGD_E_NOMODEL, "no model");
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    setenv("SLURM_PROCID", "1", 1);
    is_int(dsgd_open(&opt, &d, &err), DSGD_E_LAUNCH, "one of four tasks");
    unsetenv("SLURM_PROCID");
}

static void warn(void *context, const char *text)
{
    snprintf(context, 512, "%s", text);
}

/* A record that can't be written is a warning; the run goes on. */
static void no_record(void)
{
    struct dsgd_options opt;
    struct dsgd_step step;
    struct dsgd_mean m;
    struct dsgd *d;
    char warning[512] = "";

    options(&opt);
    opt.warn = warn;
    opt.warn_context = warning;
    strcpy(opt.record, "/nonexistent/a/b");
    is_int(dsgd_open(&opt, &d, NULL), DSGD_OK, "open without a record");
    has_str(warning, "/nonexistent/a/b", "warns of the path");
    is_int(dsgd_step_begin(d, &step), DSGD_OK, "and goes on");
    dsgd_reduce(d, dsgd_grad_buffer(d), ELEMS, step.n_samples);
    is_int(dsgd_next_mean(d, &m), DSGD_OK, "with means");
    dsgd_close(d);
}

/* The threads of this process that could take a signal. */
static int open_to(int number)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    int n = 0;

    while ((entry = readdir(tasks))) {
        char path[300], line[128];
        unsigned long long blocked = ~0ULL;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *f = fopen(path, "r");
        while (f && fgets(line, sizeof line, f)) {
            if (sscanf(line, "SigBlk: %llx", &blocked) == 1)
                break;
        }
        if (f)
            fclose(f);
        n += !(blocked >> (number - 1) & 1);
    }
    closedir(tasks);
    return n;
}

/* Signals are the program's: it may block one in its own threads and wait for
 * it.  (OpenBLAS has threads that take them.) */
static void signals_are_the_programs(void)
{
    struct dsgd_options opt;
    struct dsgd *d;
    int before = open_to(SIGUSR2);

    options(&opt);
    is_int(dsgd_open(&opt, &d, NULL), DSGD_OK, "open");
    ok(before > 0, "threads of the program take signals");
    is_int(open_to(SIGUSR2), before, "none of the library's does");
    dsgd_close(d);
}

int main(void)
{
    whole_run();
    out_of_order();
    drop_in();
    nothing_allocated();
    refused();
    no_record();
    signals_are_the_programs();
    return done();
}
