/* The training loop against a stand-in for the runtime: it learns, keeps the
 * order of calls on good and bad days, and reports what happened. */
#include "train_loop.h"

#include <jansson.h>

#include "scratch.h"
#include "tap.h"
#include "fake_dsgd.h"

/* A small data set: ten classes, a bright square each, and noise. */
enum { SIDE = 12, N_TRAIN = 600, N_TEST = 100 };

static char dir[] = "/tmp/dsgd-loop-XXXXXX";
static uint32_t random_state = 3;

static unsigned char draw(unsigned below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (unsigned char)((random_state >> 8) % below);
}

static const char *path_of(const char *name)
{
    static char path[4][128];
    static int next;
    char *p = path[next++ % 4];

    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

static void put32(FILE *f, unsigned x)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        fputc((int)(x >> shift & 255), f);
}

static void write_set(const char *prefix, unsigned n)
{
    char name[64];
    unsigned char image[SIDE * SIDE];

    snprintf(name, sizeof name, "%s-images-idx3-ubyte", prefix);
    FILE *images = fopen(path_of(name), "wb");
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", prefix);
    FILE *labels = fopen(path_of(name), "wb");
    put32(images, 0x803), put32(images, n), put32(images, SIDE);
    put32(images, SIDE), put32(labels, 0x801), put32(labels, n);
    for (unsigned i = 0; i < n; i++) {
        unsigned label = draw(10), top = label / 5 * 6, left = label % 5 * 2;
        for (unsigned k = 0; k < SIDE * SIDE; k++)
            image[k] = draw(120);
        for (unsigned k = 0; k < 16; k++)
            image[(top + k / 4) * SIDE + left + k % 4] += 100;
        fwrite(image, 1, sizeof image, images);
        fputc((int)label, labels);
    }
    fclose(images), fclose(labels);
}

static void options(struct train_options *opt, int argc, char **argv)
{
    struct dsgd_error err;

    if (train_options_parse(argc, argv, opt, &err) != DSGD_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    opt->data = dir;
    opt->progress = PROGRESS_NONE;
}

struct outcome {
    enum dsgd_err rc, closed;
    bool everywhere;
    struct dsgd_error err;
    struct fake_seen seen;
    uint64_t checksum;
};

/* One run from data to summary. */
static struct outcome run(const struct train_options *opt,
                          const struct fake_plan *plan)
{
    struct outcome o = {0};
    struct train_job job;
    struct dsgd_options run_opt = {.cutoff = "full"};
    struct train_report *report = NULL;
    struct dsgd *d;

    o.rc = train_job_prepare(opt, true, &job, &o.err);
    if (o.rc == DSGD_OK)
        o.rc = train_report_open(opt, &job.schedule, &report, &o.err);
    if (o.rc != DSGD_OK) {
        train_job_free(&job);
        return o;
    }
    if (plan && plan->part)
        run_opt.work = DSGD_WORK_SHARED;
    train_job_options(&job, &run_opt);
    fake_open(&run_opt, plan, &d);
    o.rc = train_run(d, &job, report, &o.everywhere, &o.err);
    o.seen = *fake_seen(d);
    o.checksum = train_checksum(job.params, train_net_params(job.net));
    struct train_facts facts = {.cutoff = "full",
                                .parameters = train_net_params(job.net),
                                .workers = 1,
                                .nodes = 1,
                                .blas_kernel = "test",
                                .blas_threads = 1,
                                .checksum = o.checksum};
    o.closed =
        train_report_close(report, o.rc == DSGD_OK ? &facts : NULL, &o.err);
    dsgd_close(d);
    train_job_free(&job);
    return o;
}

static json_t *summary(void)
{
    json_error_t error;
    json_t *json = json_load_file(path_of("summary"), 0, &error);

    if (!json)
        printf("# summary: %s\n", error.text);
    return json;
}

static void test_learns(const char *model, const char *samples, double least)
{
    struct train_options opt;
    char *argv[] = {"",
                    "--model",
                    (char *)model,
                    "--train-samples",
                    (char *)samples,
                    "--epochs=4",
                    "--batch=40",
                    "--lr=0.03"};

    options(&opt, 8, argv);
    int steps = (int)(opt.epochs * opt.train_samples / opt.batch);
    opt.summary = path_of("summary");
    opt.loss_curve = path_of("curve");
    struct outcome o = run(&opt, NULL);
    ok(o.rc == DSGD_OK && o.closed == DSGD_OK, "%s: runs", model);
    is_int((long long)o.seen.wrong_order, 0, "every call in its order");
    is_int((long long)o.seen.registered, 3, "state is registered");
    is_int((long long)o.seen.polls, steps * 3, "polled between micro-batches");
    json_t *json = summary();
    json_t *epochs = json_object_get(json, "epochs");
    is_int((long long)json_array_size(epochs), 4, "an entry an epoch");
    json_t *end = json_array_get(epochs, 3);
    ok(json_integer_value(json_object_get(end, "epoch")) == 3 &&
           json_integer_value(json_object_get(end, "steps")) == steps / 4 &&
           json_integer_value(json_object_get(end, "unique_samples")) ==
               steps * 10,
       "of that epoch alone");
    double first = json_number_value(
        json_object_get(json_array_get(epochs, 0), "train_loss"));
    double last = json_number_value(json_object_get(end, "train_loss"));
    ok(last < 0.7 * first, "%s: the loss falls, %.3f to %.3f", model, first,
       last);
    double accuracy = json_number_value(json_object_get(json, "test_accuracy"));
    ok(accuracy >= least, "%s: test accuracy %.3f, want %.2f", model, accuracy,
       least);
    is_int(json_integer_value(json_object_get(json, "unique_samples")),
           steps * 40, "samples are counted");
    json_decref(json);

    FILE *f = fopen(path_of("curve"), "r");
    char line[128];
    int lines = 0;
    if (fgets(line, sizeof line, f))
        is_str(line, "step,loss,samples,contributors\n", "loss curve: header");
    while (fgets(line, sizeof line, f))
        lines++;
    fclose(f);
    is_int(lines, steps, "loss curve: a line a step");
    ok(atoi(line) == steps && strstr(line, ",40,1\n"),
       "loss curve: the last line");
}

/* The step's loss and the parameters must not depend on how it is cut up. */
static void test_micro_batches(void)
{
    struct train_options opt;
    const struct fake_plan parts = {.part = 11}; /* and more than is taken */
    double loss[3][64];
    char *argv[] = {"",           "--model=mlp",    "--max-steps=12",
                    "--batch=50", "--eval-batch=5", NULL};
    char line[128];

    for (int i = 0; i < 3; i++) {
        argv[5] = i ? "--micro-batches=7" : "--micro-batches=1";
        options(&opt, 6, argv);
        opt.loss_curve = path_of("curve");
        struct outcome o = run(&opt, i == 2 ? &parts : NULL);
        ok(o.rc == DSGD_OK && !o.seen.wrong_order, "%s",
           i == 2 ? "parts" : argv[5]);
        is_int((long long)o.seen.parts, i == 2 ? 12 * 5 : 0, "its parts");
        FILE *f = fopen(path_of("curve"), "r");
        int n = 0;
        while (fgets(line, sizeof line, f)) {
            if (sscanf(line, "%*u,%lf", &loss[i][n]) == 1)
                n++;
        }
        fclose(f);
        is_int(n, 12, "ends after --max-steps");
    }
    double worst = 0;
    for (int s = 0; s < 12; s++) {
        double d = fmax(fabs(loss[1][s] / loss[0][s] - 1),
                        fabs(loss[2][s] / loss[0][s] - 1));
        worst = d <= worst ? worst : d;
    }
    ok(worst < 1e-5, "neither changes a loss (%.1e)", worst);
}

static void test_bad_days(void)
{
    struct train_options opt;
    char *argv[] = {"", "--model=softmax", "--epochs=2", "--batch=60"};
    struct fake_plan plan = {.abandon_every = 3};

    options(&opt, 4, argv);
    struct outcome o = run(&opt, &plan);
    is_int(o.rc, DSGD_OK, "abandoned steps");
    ok(o.seen.abandoned == 6 && o.seen.wrong_order == 0, "in their order");
    is_int((long long)o.seen.reduced_samples, 14 * 60, "the rest contributes");

    plan = (struct fake_plan){.empty_every = 4};
    o = run(&opt, &plan);
    ok(o.rc == DSGD_OK && o.seen.wrong_order == 0, "steps with no samples");

    plan = (struct fake_plan){.abandon_every = 3, .part = 17};
    o = run(&opt, &plan);
    ok(o.rc == DSGD_OK && o.seen.abandoned == 6 && o.seen.wrong_order == 0,
       "parts that are too late");
    is_int((long long)o.seen.reduced_samples, 14 * 60, "the rest contributes");
    plan.abandon_every = 0;
    plan.empty_every = 4;
    o = run(&opt, &plan);
    ok(o.rc == DSGD_OK && o.seen.wrong_order == 0, "steps without parts");

    plan = (struct fake_plan){0};
    uint64_t plain = run(&opt, &plan).checksum;
    plan.resync_at = 5;
    o = run(&opt, &plan);
    ok(o.rc == DSGD_OK && o.seen.wrong_order == 0, "resynchronised");
    ok(o.checksum == plain, "the same run gives the same bits");

    plan = (struct fake_plan){.standstill = true};
    o = run(&opt, &plan);
    struct train_options one = opt;
    one.max_steps = 1;
    ok(o.checksum == run(&one, &plan).checksum,
       "at a learning rate scaled by 0 nothing moves");

    plan = (struct fake_plan){.fail_at = 4};
    o = run(&opt, &plan);
    is_int(o.rc, DSGD_E_MPI, "the runtime fails");
    is_str(o.err.text, "as planned", "its text is passed on");
    ok(!o.everywhere, "as this worker's own");
}

static void test_diverges(void)
{
    struct train_options opt;
    char *argv[] = {"", "--model=mlp", "--lr=1e6", "--warmup=0"};

    options(&opt, 4, argv);
    opt.summary = path_of("summary");
    struct outcome o = run(&opt, NULL);
    is_int(o.rc, DSGD_E_NUMERIC, "a learning rate that is too high");
    has_str(o.err.text, "lower --lr (it is 1e+06)", "says what to do");
    ok(o.everywhere, "every worker finds it");
}

static void test_files(void)
{
    struct train_options opt;
    char *argv[] = {"", "--model=softmax", "--max-steps=2"};

    options(&opt, 3, argv);
    opt.summary = "/nonexistent/summary.json";
    struct outcome o = run(&opt, NULL);
    is_int(o.rc, DSGD_E_IO, "a summary that can't be opened");
    is_str(o.err.text,
           "--summary: /nonexistent/summary.json: No such file or directory",
           "known before the training");
    opt.summary = "/dev/full";
    o = run(&opt, NULL);
    ok(o.rc == DSGD_OK && o.closed == DSGD_E_IO, "a disk that is full");
    is_str(o.err.text,
           "--summary: /dev/full could not be written: No space left on device",
           "its text");
    options(&opt, 3, argv);
    opt.loss_curve = "/dev/full";
    o = run(&opt, NULL);
    ok(o.closed == DSGD_E_IO, "the same for the loss curve");
    has_str(o.err.text, "--loss-curve: /dev/full", "its text");
}

static void test_checksum(void)
{
    float a[2] = {1, 2}, b[2] = {2, 1};

    ok(train_checksum(a, 2) != train_checksum(b, 2), "checksum: order counts");
    ok(train_checksum(a, 0) == 0xcbf29ce484222325u, "checksum: of nothing");
}

int main(void)
{
    scratch_dir(dir);
    write_set("train", N_TRAIN);
    write_set("t10k", N_TEST);
    test_learns("softmax", "600", 0.8);
    test_learns("mlp", "600", 0.8);
    test_learns("cnn", "160", 0.5); /* few, for the sake of valgrind */
    test_micro_batches();
    test_bad_days();
    test_diverges();
    test_files();
    test_checksum();
    return done();
}
