#include "train_report.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

/* Sums since the last test. */
struct tally {
    uint64_t steps, samples, contributors;
    double loss; /* weighted by samples */
};

struct train_report {
    const struct train_options *opt;
    struct train_schedule_spec schedule;
    FILE *text;    /* progress and epochs */
    FILE *summary; /* NULL: none */
    FILE *curve;   /* NULL: none */
    struct progress_line line;
    struct tally tally;
    struct dsgd_progress before; /* at the last test */
    struct dsgd_progress last;
    struct train_test test; /* the last one */
    json_t *epochs;
};

static enum dsgd_err open_file(const char *option, const char *path, FILE **f,
                               struct dsgd_error *err)
{
    *f = fopen(path, "w");
    if (*f)
        return DSGD_OK;
    return error_set(err, DSGD_E_IO, "%s: %.300s: %s", option, path,
                     strerror(errno));
}

static void destroy(struct train_report *r)
{
    if (r->summary && r->summary != stdout)
        fclose(r->summary);
    if (r->curve)
        fclose(r->curve);
    json_decref(r->epochs);
    free(r);
}

enum dsgd_err train_report_open(const struct train_options *opt,
                                const struct train_schedule_spec *schedule,
                                struct train_report **out,
                                struct dsgd_error *err)
{
    enum dsgd_err rc = DSGD_OK;

    *out = NULL;
    struct train_report *r = calloc(1, sizeof *r);
    if (!r || !(r->epochs = json_array())) {
        free(r);
        return error_set(err, DSGD_E_NOMEM, "report: no memory");
    }
    r->opt = opt;
    r->schedule = *schedule;
    r->text = stdout;
    if (opt->summary && strcmp(opt->summary, "-") == 0) {
        r->summary = stdout;
        r->text = stderr;
    } else if (opt->summary) {
        rc = open_file("--summary", opt->summary, &r->summary, err);
    }
    if (rc == DSGD_OK && opt->loss_curve)
        rc = open_file("--loss-curve", opt->loss_curve, &r->curve, err);
    if (rc != DSGD_OK) {
        destroy(r);
        return rc;
    }
    if (r->curve) {
        setvbuf(r->curve, NULL, _IOLBF, 0); /* a curve is looked at live */
        fprintf(r->curve, "step,loss,samples,contributors\n");
    }
    progress_line_init(&r->line, r->text, opt->progress, 5);
    *out = r;
    return DSGD_OK;
}

void train_report_resume(struct train_report *r,
                         const struct dsgd_progress *progress)
{
    if (r)
        r->before = r->last = *progress;
}

static double rate(uint64_t samples, double seconds)
{
    return seconds > 0 ? (double)samples / seconds : 0;
}

/* done: share of the run, 0..1; r->last is of this step. */
static void show_line(struct train_report *r, const struct dsgd_mean *mean,
                      double done, double loss, uint32_t workers, double now_s)
{
    char text[256], eta[32];

    progress_line_time(eta, sizeof eta,
                       done > 0 ? r->last.elapsed_s * (1 - done) / done : -1);
    snprintf(text, sizeof text,
             "epoch %" PRIu64 "/%" PRIu64 "  step %" PRIu64 "  loss %.4f  "
             "contributors %" PRIu32 "/%" PRIu32 "  %.0f samples/s  ETA %s",
             mean->epoch + 1, r->opt->epochs, mean->step, loss,
             mean->contributors, workers,
             rate(r->last.unique_samples - r->before.unique_samples,
                  r->last.elapsed_s - r->before.elapsed_s),
             eta);
    progress_line_show(&r->line, now_s, done, text);
}

void train_report_step(struct train_report *r, const struct dsgd_mean *mean,
                       const struct train_counters *counters, double loss,
                       uint32_t workers, const struct dsgd_progress *progress,
                       double now_s)
{
    if (!r)
        return;
    r->last = *progress;
    r->tally.steps++;
    r->tally.samples += mean->samples;
    r->tally.contributors += mean->contributors;
    r->tally.loss += loss * (double)mean->samples;
    if (r->curve)
        fprintf(r->curve, "%" PRIu64 ",%.9g,%" PRIu64 ",%" PRIu32 "\n",
                mean->step, loss, mean->samples, mean->contributors);
    if (progress_line_due(&r->line, now_s, false))
        show_line(r, mean, train_fraction_done(&r->schedule, counters), loss,
                  workers, now_s);
}

static void print_test(const struct train_report *r, uint64_t epoch,
                       double loss, double contributors, double samples_per_s)
{
    fprintf(r->text,
            "epoch %" PRIu64 "/%" PRIu64 ": test accuracy %.2f %%  test loss "
            "%.4f  train loss %.4f  %" PRIu64 " steps  contributors %.2f  "
            "%.0f samples/s\n",
            epoch + 1, r->opt->epochs, 100 * r->test.accuracy, r->test.loss,
            loss, r->tally.steps, contributors, samples_per_s);
    fflush(r->text);
}

void train_report_test(struct train_report *r, uint64_t epoch,
                       const struct train_test *test,
                       const struct dsgd_progress *progress)
{
    if (!r)
        return;
    const struct tally *t = &r->tally;
    double steps = t->steps ? (double)t->steps : 1;
    double samples = t->samples ? (double)t->samples : 1;
    double time_s = progress->elapsed_s - r->before.elapsed_s;
    uint64_t unique = progress->unique_samples - r->before.unique_samples;
    double loss = t->loss / samples;
    double contributors = (double)t->contributors / steps;

    r->test = *test;
    r->last = *progress;
    progress_line_clear(&r->line);
    if (r->line.mode != PROGRESS_NONE)
        print_test(r, epoch, loss, contributors, rate(unique, time_s));
    json_array_append_new(
        r->epochs,
        json_pack("{s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:f}", "epoch",
                  (json_int_t)epoch, "steps", (json_int_t)t->steps,
                  "train_loss", loss, "test_accuracy", test->accuracy,
                  "test_loss", test->loss, "test_time_s", test->time_s,
                  "time_s", time_s, "unique_samples", (json_int_t)unique,
                  "samples_per_s", rate(unique, time_s), "contributors",
                  contributors));
    memset(&r->tally, 0, sizeof r->tally);
    r->before = *progress;
}

static json_t *pack_options(const struct train_options *o)
{
    return json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:s, s:f, s:s?}",
        "data", o->data, "model", train_model_name(o->model), "epochs",
        (json_int_t)o->epochs, "max_steps", (json_int_t)o->max_steps, "batch",
        (json_int_t)o->batch, "micro_batches", (json_int_t)o->micro_batches,
        "seed", (json_int_t)o->seed, "train_samples",
        (json_int_t)o->train_samples, "lr", o->lr, "momentum", o->momentum,
        "schedule", train_schedule_name(o->schedule), "warmup",
        o->warmup_epochs, "straggle", o->straggle);
}

static json_t *pack_summary(const struct train_report *r,
                            const struct train_facts *f)
{
    char checksum[17];

    snprintf(checksum, sizeof checksum, "%016" PRIx64, f->checksum);
    return json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:s, "
        "s:o, s:O}",
        "program", "dsgd-train", "cutoff", f->cutoff, "workers",
        (json_int_t)f->workers, "nodes", (json_int_t)f->nodes, "parameters",
        (json_int_t)f->parameters, "blas_kernel", f->blas_kernel,
        "blas_threads", (json_int_t)f->blas_threads, "steps",
        (json_int_t)r->last.steps, "unique_samples",
        (json_int_t)r->last.unique_samples, "elapsed_s", r->last.elapsed_s,
        "samples_per_s", rate(r->last.unique_samples, r->last.elapsed_s),
        "test_accuracy", r->test.accuracy, "parameter_checksum", checksum,
        "options", pack_options(r->opt), "epochs", r->epochs);
}

static bool write_summary(const struct train_report *r,
                          const struct train_facts *facts)
{
    json_t *json = pack_summary(r, facts);
    bool good =
        json && json_dumpf(json, r->summary,
                           JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0;

    json_decref(json);
    return good && fputc('\n', r->summary) != EOF;
}

/* Close a file that was written; errors of the writes before show here too. */
static enum dsgd_err finish_file(const char *option, const char *path, FILE *f,
                                 bool good, struct dsgd_error *err)
{
    good = good && !ferror(f);
    if ((f == stdout ? fflush(f) : fclose(f)) == 0 && good)
        return DSGD_OK;
    return error_set(err, DSGD_E_IO, "%s: %.300s could not be written: %s",
                     option, path, errno ? strerror(errno) : "no memory");
}

enum dsgd_err train_report_close(struct train_report *r,
                                 const struct train_facts *facts,
                                 struct dsgd_error *err)
{
    enum dsgd_err rc = DSGD_OK;

    if (!r)
        return DSGD_OK;
    progress_line_clear(&r->line);
    errno = 0;
    if (r->curve)
        rc = finish_file("--loss-curve", r->opt->loss_curve, r->curve, true,
                         err);
    r->curve = NULL;
    if (r->summary && facts && rc == DSGD_OK) {
        rc = finish_file("--summary", r->opt->summary, r->summary,
                         write_summary(r, facts), err);
        r->summary = NULL;
    }
    destroy(r);
    return rc;
}
