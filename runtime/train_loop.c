#include "train_loop.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "error.h"

struct loop {
    struct dsgd *d;

    struct train_job *job;
    struct train_report *report;
    size_t n; /* parameters; the gradient has one element more, the loss */
    double straggle; /* take so many times as long */
    bool untested;   /* means were applied since the last test */
    bool stepped;    /* at least once: not resumed at the run's end */
    bool diverged;
    struct dsgd_error *err;
};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum dsgd_err train_job_prepare(const struct train_options *opt, bool with_test,
                                struct train_job *job, struct dsgd_error *err)
{
    uint64_t parts =
        opt->micro_batches < opt->batch ? opt->micro_batches : opt->batch;
    uint64_t part = (opt->batch + parts - 1) / parts;
    size_t capacity = (size_t)(part > opt->eval_batch ? part : opt->eval_batch);

    memset(job, 0, sizeof *job);
    job->opt = opt;
    job->micro = (size_t)part;
    enum dsgd_err rc = train_data_read(opt->data, (size_t)opt->train_samples,
                                       with_test, &job->data, err);
    if (rc == DSGD_OK)
        rc = train_net_create(opt->model, job->data.train.rows,
                              job->data.train.cols, capacity, &job->net, err);
    if (rc != DSGD_OK)
        return rc;
    size_t n = train_net_params(job->net);
    job->params = calloc(n, sizeof *job->params);
    job->velocity = calloc(n, sizeof *job->velocity);
    job->grad = calloc(n + 1, sizeof *job->grad);
    job->labels = calloc(capacity, sizeof *job->labels);
    if (!job->params || !job->velocity || !job->grad || !job->labels)
        return error_set(err, DSGD_E_NOMEM, "no memory for %zu parameters", n);
    train_net_init(job->net, opt->seed, job->params);
    job->schedule = (struct train_schedule_spec){
        .schedule = opt->schedule,
        .lr = opt->lr,
        .warmup_epochs = opt->warmup_epochs,
        .epochs = opt->epochs,
        .max_steps = opt->max_steps,
        .n_samples = job->data.train.n,
    };
    return DSGD_OK;
}

void train_job_free(struct train_job *job)
{
    train_data_free(&job->data);
    train_net_destroy(job->net);
    free(job->params);
    free(job->velocity);
    free(job->grad);
    free(job->labels);
    memset(job, 0, sizeof *job);
}

_Static_assert(sizeof(((struct dsgd_options *)0)->checkpoint_dir) ==
                   TRAIN_CHECKPOINT_DIR,
               "the command line's limit");

/* What the command line says of checkpoints wins over the environment. */
static void checkpoint_options(const struct train_options *opt,
                               struct dsgd_options *run)
{
    if (opt->checkpoint_dir)
        snprintf(run->checkpoint_dir, sizeof run->checkpoint_dir, "%s",
                 opt->checkpoint_dir);
    if (opt->checkpoint_steps != UINT64_MAX)
        run->checkpoint_steps = opt->checkpoint_steps;
    if (opt->checkpoint_keep != UINT64_MAX)
        run->checkpoint_keep = (size_t)opt->checkpoint_keep;
    if (!isnan(opt->checkpoint_minutes))
        run->checkpoint_minutes = opt->checkpoint_minutes;
}

void train_job_options(struct train_job *job, struct dsgd_options *run)
{
    const struct train_options *opt = job->opt;

    run->grad_elems = train_net_params(job->net) + 1;
    run->polls = job->opt->micro_batches > 1;
    run->deposits = run->work == DSGD_WORK_OWN && run->parts > 1;
    job->in_parts = run->work == DSGD_WORK_SHARED || run->deposits;
    run->sampler = DSGD_SAMPLER_RANGES;
    run->n_samples = job->data.train.n;
    run->batch = opt->batch;
    run->epochs = opt->epochs;
    run->max_steps = opt->max_steps;
    checkpoint_options(opt, run);
    snprintf(run->identity, sizeof run->identity, "%s, seed %" PRIu64,
             train_model_name(opt->model), opt->seed);
    snprintf(run->program, sizeof run->program, "dsgd-train");
    snprintf(run->description, sizeof run->description,
             "%s, %zu parameters, batch %" PRIu64 ", lr %g, momentum %g, %s, "
             "%zu samples of %.100s",
             train_model_name(opt->model), train_net_params(job->net),
             opt->batch, opt->lr, opt->momentum,
             train_schedule_name(opt->schedule), job->data.train.n, opt->data);
}

/* Be slower than one is: sleep for the rest of `factor` times `busy_s`. */
static void straggle(double factor, double busy_s)
{
    double rest_s = (factor - 1) * busy_s;

    if (!(rest_s > 0))
        return;
    struct timespec t = {.tv_sec = (time_t)rest_s};
    t.tv_nsec = (long)((rest_s - (double)t.tv_sec) * 1e9);
    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

/* Positions first.. of the epoch's order to images and labels. */
static void gather(const struct train_job *job, uint64_t epoch, uint64_t first,
                   size_t n, float *x, uint8_t *labels)
{
    const struct train_set *set = &job->data.train;
    size_t pixels = set->rows * set->cols;

    for (size_t i = 0; i < n; i++) {
        size_t at =
            (size_t)dsgd_shuffle(job->opt->seed, epoch, set->n, first + i);
        train_data_input(&job->data, set, at, x + i * pixels);
        labels[i] = set->labels[at];
    }
}

/* Add the gradients and the loss of a micro-batch. */
static double compute_some(struct loop *l, uint64_t epoch, uint64_t first,
                           size_t n, float *grad)
{
    struct train_job *job = l->job;
    double start_s = now_s();

    gather(job, epoch, first, n, train_net_input(job->net), job->labels);
    double loss =
        train_net_gradient(job->net, job->params, job->labels, n, grad);
    straggle(l->straggle, now_s() - start_s);
    return loss;
}

/* Compute the sum of gradients of a step's share, in micro-batches, until all
 * is done or the work is no longer wanted.  Returns the samples processed. */
static uint64_t compute(struct loop *l, const struct dsgd_step *step,
                        float *grad)
{
    struct train_job *job = l->job;
    uint64_t total = step->n_samples, done = 0, parts = job->opt->micro_batches;
    size_t capacity = train_net_capacity(job->net);
    uint64_t part = (total + parts - 1) / parts;
    double loss = 0;

    memset(grad, 0, l->n * sizeof *grad);
    while (done < total) {
        size_t n = (size_t)(total - done < part ? total - done : part);
        if (n > capacity)
            n = capacity;
        loss +=
            compute_some(l, step->epoch, step->first_sample + done, n, grad);
        done += n;
        if (done < total && dsgd_poll(l->d, done, total) == DSGD_ABANDON)
            break;
    }
    grad[l->n] = (float)loss;
    return done;
}

static struct train_test test(struct train_job *job)
{
    const struct train_set *set = &job->data.test;
    size_t pixels = set->rows * set->cols, correct = 0, done = 0;
    double loss = 0, start_s = now_s();

    while (done < set->n) {
        size_t n = set->n - done;
        if (n > job->opt->eval_batch)
            n = (size_t)job->opt->eval_batch;
        float *x = train_net_input(job->net);
        for (size_t i = 0; i < n; i++)
            train_data_input(&job->data, set, done + i, x + i * pixels);
        correct += train_net_classify(job->net, job->params, set->labels + done,
                                      n, &loss);
        done += n;
    }
    return (struct train_test){.accuracy = (double)correct / (double)set->n,
                               .loss = loss / (double)set->n,
                               .time_s = now_s() - start_s};
}

/* The model is at an epoch's end, or at the run's. */
static void report_test(struct loop *l)
{
    const struct train_counters *c = &l->job->counters;
    uint64_t epoch = c->epoch_samples || !c->epoch ? c->epoch : c->epoch - 1;
    struct dsgd_progress progress;

    l->untested = false;
    if (!l->report)
        return;
    struct train_test result = test(l->job);
    dsgd_progress(l->d, &progress);
    train_report_test(l->report, epoch, &result, &progress);
}

/* One step of gradient descent. */
static enum dsgd_err apply(struct loop *l, const struct dsgd_mean *mean)
{
    struct train_job *job = l->job;
    double loss = (double)mean->grad[l->n];
    struct dsgd_progress progress;

    if (!isfinite(loss)) {
        l->diverged = true;
        return error_set(l->err, DSGD_E_NUMERIC,
                         "step %" PRIu64 ": the training loss is %g: lower "
                         "--lr (it is %g), or use a longer --warmup",
                         mean->step, loss, job->opt->lr);
    }
    double lr =
        train_learning_rate(&job->schedule, &job->counters, mean->samples);
    train_update(l->n, job->params, job->velocity, mean->grad,
                 (float)(lr * mean->lr_scale), (float)job->opt->momentum);
    train_count(&job->counters, mean);
    l->untested = true;
    if (l->report) {
        dsgd_progress(l->d, &progress);
        train_report_step(l->report, mean, &job->counters, loss,
                          dsgd_size(l->d), &progress, now_s());
    }
    return DSGD_OK;
}

/* Apply what has come in.  Returns DSGD_UP_TO_DATE, DSGD_EPOCH_END, DSGD_END or
 * an error. */
static enum dsgd_err apply_means(struct loop *l)
{
    struct dsgd_mean mean;

    for (;;) {
        enum dsgd_err rc = dsgd_next_mean(l->d, &mean);
        if (rc == DSGD_OK)
            rc = apply(l, &mean);
        else if (rc == DSGD_RESYNCED)
            l->untested = true;
        if (rc != DSGD_OK && rc != DSGD_RESYNCED)
            return rc;
    }
}

/* The gradients of a part that was claimed, in micro-batches.  False: it is not
 * wanted any more. */
static bool compute_part(struct loop *l, uint64_t epoch,
                         const struct dsgd_part *part)
{
    struct train_job *job = l->job;
    uint64_t done = 0;
    double loss = 0;

    memset(job->grad, 0, l->n * sizeof *job->grad);
    while (done < part->n_samples) {
        uint64_t left = part->n_samples - done;
        size_t n = left < job->micro ? (size_t)left : job->micro;
        loss += compute_some(l, epoch, part->first_sample + done, n, job->grad);
        done += n;
        if (done < part->n_samples &&
            dsgd_poll(l->d, done, part->n_samples) == DSGD_ABANDON)
            return false;
    }
    job->grad[l->n] = (float)loss;
    return true;
}

/* What this worker gets to do of a step, part by part. */
static enum dsgd_err give_parts(struct loop *l, const struct dsgd_step *step)
{
    struct dsgd_part part;
    enum dsgd_err rc;

    while ((rc = dsgd_claim(l->d, &part)) == DSGD_OK) {
        if (!compute_part(l, step->epoch, &part))
            continue;
        rc = dsgd_deposit(l->d, l->job->grad, l->n + 1, part.n_samples);
        if (rc != DSGD_OK)
            break;
    }
    return rc == DSGD_ABANDON ? DSGD_OK : rc;
}

static enum dsgd_err give_share(struct loop *l, const struct dsgd_step *step)
{
    float *grad = dsgd_grad_buffer(l->d);
    uint64_t samples = step->n_samples ? compute(l, step, grad) : 0;

    return dsgd_reduce(l->d, grad, l->n + 1, samples);
}

static enum dsgd_err take_step(struct loop *l, const struct dsgd_step *step)
{
    enum dsgd_err rc =
        l->job->in_parts ? give_parts(l, step) : give_share(l, step);

    if (rc == DSGD_OK)
        rc = apply_means(l);
    if (rc == DSGD_EPOCH_END)
        report_test(l);
    return rc == DSGD_UP_TO_DATE || rc == DSGD_EPOCH_END ? DSGD_OK : rc;
}

static enum dsgd_err register_state(struct loop *l)
{
    struct train_job *job = l->job;
    size_t bytes = l->n * sizeof(float);
    enum dsgd_err rc = dsgd_register(l->d, job->params, bytes, l->err);

    if (rc == DSGD_OK)
        rc = dsgd_register(l->d, job->velocity, bytes, l->err);
    if (rc == DSGD_OK)
        rc = dsgd_register(l->d, &job->counters, sizeof job->counters, l->err);
    return rc;
}

enum dsgd_err train_run(struct dsgd *d, struct train_job *job,
                        struct train_report *report, bool *everywhere,
                        struct dsgd_error *err)
{
    struct loop l = {
        .d = d,
        .job = job,
        .report = report,
        .n = train_net_params(job->net),
        .straggle = train_straggle_factor(job->opt->straggle, dsgd_rank(d)),
        .err = err,
    };
    struct dsgd_step step;
    struct dsgd_progress progress;

    *everywhere = false;
    enum dsgd_err rc = register_state(&l);
    if (rc != DSGD_OK)
        return rc;
    do {
        rc = dsgd_step_begin(d, &step);
        if (rc == DSGD_OK) {
            if (!l.stepped && step.index > 1) {
                dsgd_progress(d, &progress);
                train_report_resume(report, &progress);
            }
            l.stepped = true;
            rc = take_step(&l, &step);
        }
    } while (rc == DSGD_OK);
    if (rc != DSGD_END) {
        *everywhere = l.diverged;
        return l.diverged ? rc : error_set(err, rc, "%s", dsgd_error_text(d));
    }
    dsgd_progress(d, &progress);
    bool resumed_at_end = progress.steps && !l.stepped;
    if ((l.untested || resumed_at_end) && !progress.preempted)
        report_test(&l);
    return DSGD_OK;
}

uint64_t train_checksum(const float *params, size_t n)
{
    const unsigned char *bytes = (const unsigned char *)params;
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < n * sizeof *params; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}
