/* Learning: small fits of both kinds, resuming, data that are too few, pools,
 * the command line. */
#include <string.h>
#include <unistd.h>

#include "dmm.h"
#include "error.h"
#include "fit_checkpoint.h"
#include "fit_dmm.h"
#include "fit_options.h"
#include "fit_pool.h"
#include "fit_run.h"
#include "fit_set.h"
#include "scenario.h"
#include "set_model.h"
#include "tap.h"
#include "telemetry_names.h"

static const char *const features[] = {MODEL_FEATURES};
static char dir[] = "/tmp/dsgd-fit-XXXXXX", checkpoint[64];

/* A training that stops itself at a step; 0: never. */
struct watch {
    uint64_t stop_at;
    double first, last; /* held-out loss */
};

static bool watch(void *context, const struct fit_status *s)
{
    struct watch *w = context;

    if (s->validated && isnan(w->first))
        w->first = s->loss;
    if (s->validated)
        w->last = s->loss;
    return s->step != w->stop_at;
}

static struct fit_plan plan(struct watch *w, uint64_t steps, uint64_t every)
{
    *w = (struct watch){.first = NAN};
    return (struct fit_plan){.seed = 7,
                             .steps = steps,
                             .lr = 2e-3,
                             .floor = .1,
                             .warmup = 5,
                             .clip = 5,
                             .every = every,
                             .checkpoint = checkpoint,
                             .report = watch,
                             .context = w};
}

static void add(struct fit_pool *pool, const char *scenario)
{
    struct scenario s;
    struct trace *t;

    if (scenario_parse(scenario, &s, NULL) != DSGD_OK ||
        scenario_make(&s, SCENARIO_FEATURES, &t, NULL) != DSGD_OK ||
        fit_pool_add(pool, t, NULL) != DSGD_OK)
        exit(1);
    trace_free(t);
}

/* A subject to train: either kind, from the same start every time. */
struct subject {
    struct fit_pool pool;
    struct timing_model *model;
    struct fit_learner learner;
};

typedef void make_fn(struct subject *s, uint64_t seed);

static void set_subject(struct subject *s, uint64_t seed)
{
    const struct set_config config = {N_FEATURES, SET_FLAGS_EACH, 8, 8};
    const struct fit_set_plan p = {
        .seed = seed, .synth = true, .scenario = "bimodal:n=8,N=2"};

    fit_pool_init(&s->pool, N_FEATURES, features);
    if (set_model_create(&config, features, &s->model, NULL) != DSGD_OK)
        exit(1);
    set_net_init(set_model_net(s->model), 3);
    if (fit_set_create(s->model, &s->pool, &p, &s->learner, NULL) != DSGD_OK)
        exit(1);
}

static void dmm_subject(struct subject *s, uint64_t seed)
{
    const struct fit_dmm_plan p = {.seed = seed, .validate = .2};

    fit_pool_init(&s->pool, N_FEATURES, features);
    add(&s->pool, "regimes:n=6,N=2,T=200,seed=4");
    if (dmm_model_create(6, &s->model, NULL) != DSGD_OK ||
        fit_dmm_create(s->model, &s->pool, &p, &s->learner, NULL) != DSGD_OK)
        exit(1);
}

static void drop(struct subject *s)
{
    s->learner.free(s->learner.self);
    timing_model_free(s->model);
    fit_pool_clear(&s->pool);
}

static float *copy(const struct fit_learner *l)
{
    float *p = malloc(l->n * sizeof *p);

    memcpy(p, l->params, l->n * sizeof *p);
    return p;
}

/* The parameters after a training, broken off at stop_at and resumed unless
 * that is 0. */
static float *trained(make_fn *make, uint64_t seed, struct fit_plan p,
                      struct watch *w, uint64_t stop_at)
{
    struct subject s;
    struct fit_result result;

    make(&s, seed);
    if (stop_at) {
        w->stop_at = stop_at;
        if (fit_run(&s.learner, &p, &result, NULL) != DSGD_OK ||
            !result.stopped)
            printf("# was not stopped\n");
        drop(&s);
        make(&s, seed);
        w->stop_at = 0;
        p.resume = true;
    }
    if (fit_run(&s.learner, &p, &result, NULL) != DSGD_OK ||
        unlink(checkpoint) != 0)
        printf("# training failed, or left no checkpoint\n");
    float *params = copy(&s.learner);
    drop(&s);
    return params;
}

static void small_fit(const char *kind, make_fn *make, uint64_t steps,
                      double gain)
{
    struct watch w;
    struct fit_plan p = plan(&w, steps, 5);
    struct subject s;

    make(&s, 1);
    size_t bytes = s.learner.n * sizeof(float);
    drop(&s);
    float *a = trained(make, 1, p, &w, 0);
    ok(w.last < w.first - gain, "%s: held-out loss goes from %.3f to %.3f",
       kind, w.first, w.last);
    float *b = trained(make, 1, p, &w, 0);
    ok(memcmp(a, b, bytes) == 0, "%s: the same seed, the same bits", kind);
    float *c = trained(make, 2, p, &w, 0);
    ok(memcmp(a, c, bytes) != 0, "%s: another seed, other bits", kind);
    float *d = trained(make, 1, p, &w, steps / 2 + 1);
    ok(memcmp(a, d, bytes) == 0,
       "%s: broken off and resumed, the bits of one run", kind);
    free(a);
    free(b);
    free(c);
    free(d);
}

static double no_loss(void *self, uint64_t step, double at, float *grad)
{
    (void)self;
    (void)step;
    (void)at;
    (void)grad;
    return NAN;
}

static enum dsgd_err no_memory(void *self, struct dsgd_error *err)
{
    (void)self;
    return error_set(err, DSGD_E_NOMEM, "no memory for a trace");
}

/* A batch that can't be made is not a loss that is not finite. */
static void failing(void)
{
    struct watch w;
    struct fit_plan p = plan(&w, 20, 5);
    struct subject s;
    struct fit_result result;
    struct dsgd_error err = {""};

    set_subject(&s, 1);
    is_int(s.learner.failed(s.learner.self, &err), DSGD_OK, "nothing failed");
    s.learner.loss = no_loss;
    s.learner.failed = no_memory;
    is_int(fit_run(&s.learner, &p, &result, &err), DSGD_E_NOMEM,
           "a batch fails");
    is_str(err.text, "no memory for a trace", "with its own error");
    unlink(checkpoint);
    drop(&s);
}

static void checkpoints(void)
{
    struct watch w;
    struct fit_plan p = plan(&w, 20, 5);
    struct subject s;
    struct fit_result result;
    struct dsgd_error err = {""};

    dmm_subject(&s, 1);
    w.stop_at = 7;
    fit_run(&s.learner, &p, &result, NULL);
    p.resume = true;
    p.lr = 1e-3;
    is_int(fit_run(&s.learner, &p, &result, &err), DSGD_E_STATE,
           "a checkpoint of another training");
    has_str(err.text, "another training", "is told");
    FILE *f = fopen(checkpoint, "w");
    fputs("nonsense", f);
    fclose(f);
    is_int(fit_run(&s.learner, &p, &result, &err), DSGD_E_FORMAT,
           "a checkpoint that is none");
    unlink(checkpoint);
    drop(&s);
}

static void wild_counts(void)
{
    float memory[8] = {0};
    struct fit_state s = {.params = memory, .best = memory + 2};
    struct dsgd_error err = {""};

    adam_init(&s.adam, 2, memory + 4);
    s.step = UINT64_MAX;
    fit_checkpoint_save(checkpoint, &s, NULL);
    is_int(fit_checkpoint_load(checkpoint, &s, &err), DSGD_E_FORMAT,
           "a checkpoint of more steps than are counted");
    has_str(err.text, "its step is \"1.8446744073709552e+19",
            "names the number");
    unlink(checkpoint);
}

/* A model that could not be written is not lost. */
static void resumed_at_the_end(void)
{
    struct watch w;
    struct fit_plan p = plan(&w, 12, 5);
    struct subject s, again;
    struct fit_result result;

    dmm_subject(&s, 1);
    fit_run(&s.learner, &p, &result, NULL);
    dmm_subject(&again, 1);
    p.resume = true;
    is_int(fit_run(&again.learner, &p, &result, NULL), DSGD_OK,
           "a training that had ended is resumed");
    is_int((long long)result.facts.steps, 12, "without a further step");
    ok(memcmp(s.learner.params, again.learner.params,
              s.learner.n * sizeof(float)) == 0,
       "and has the same parameters");
    unlink(checkpoint);
    drop(&s);
    drop(&again);
}

static void early_end(void)
{
    struct watch w;
    struct fit_plan p = plan(&w, 100000, 1);
    struct subject s;
    struct fit_result result;

    dmm_subject(&s, 1);
    p.lr = 1e-12; /* no improvement to speak of: looks differ by rounding */
    p.patience = 3;
    p.warmup = 0;
    fit_run(&s.learner, &p, &result, NULL);
    ok(result.early && result.facts.steps < 1000,
       "without improvement it ends early, after %llu steps",
       (unsigned long long)result.facts.steps);
    unlink(checkpoint);
    drop(&s);
}

/* What a model for n workers, of each kind, says of held-out data. */
static enum dsgd_err try_dmm(size_t n, const struct fit_pool *pool,
                             struct dsgd_error *err)
{
    const struct fit_dmm_plan plan = {.seed = 1, .validate = .15};
    struct timing_model *model;
    struct fit_learner learner;

    dmm_model_create(n, &model, NULL);
    enum dsgd_err rc = fit_dmm_create(model, pool, &plan, &learner, err);
    timing_model_free(model);
    return rc;
}

static enum dsgd_err try_set(const struct fit_pool *pool,
                             struct dsgd_error *err)
{
    const struct fit_set_plan plan = {.seed = 1, .validate = .15};
    const struct set_config config = {N_FEATURES, SET_FLAGS_EACH, 8, 8};
    struct timing_model *model;
    struct fit_learner learner;

    set_model_create(&config, features, &model, NULL);
    enum dsgd_err rc = fit_set_create(model, pool, &plan, &learner, err);
    timing_model_free(model);
    return rc;
}

static void too_few(void)
{
    struct fit_pool pool;
    struct dsgd_error err = {""};

    fit_pool_init(&pool, N_FEATURES, features);
    add(&pool, "iid:n=4,N=1,T=40");
    is_int(try_dmm(4, &pool, &err), DSGD_E_RANGE, "dmm: too few steps");
    has_str(err.text, "has 40 steps, and 125 are needed",
            "it says how many there are and how many are needed");
    is_int(try_dmm(5, &pool, &err), DSGD_E_RANGE,
           "dmm: a trace of another cluster");
    has_str(err.text, "has 4 workers", "is told");
    is_int(try_set(&pool, &err), DSGD_E_RANGE, "set: too few steps");
    has_str(err.text, "too few data: 40 steps in 1 file", "it says so");
    fit_pool_clear(&pool);
}

/* A loss of 0 would look like a perfect prediction. */
static void nothing_known(void)
{
    struct fit_pool pool;
    struct dsgd_error err = {""};

    fit_pool_init(&pool, N_FEATURES, features);
    add(&pool, "iid:n=4,N=1,T=200");
    struct fit_trace *t = pool.trace;
    memset(t->target_status + t->n * 170, TIMING_NONE, t->n * 30);
    is_int((long long)fit_trace_known(t, 150), 4 * 20, "what is known");
    is_int(try_dmm(4, &pool, &err), DSGD_E_RANGE,
           "dmm: nothing known of what is held out");
    has_str(err.text, "iid: no run-time is known in its last 30 steps", "told");
    is_int(try_set(&pool, &err), DSGD_E_RANGE, "set: the same");
    has_str(err.text, "iid: no run-time is known in the last 15 %", "told");
    fit_pool_clear(&pool);
}

/* Shares of cells, and that the target is untouched. */
static void pools(void)
{
    struct fit_pool pool;
    struct fit_synth synth = {.count = 300, .steps = 30, .seed = 5};
    size_t cut = 0, estimated = 0, looks = 0, whole = 0;

    fit_pool_init(&pool, N_FEATURES, features);
    is_int(fit_pool_synth(&pool, &synth, NULL), DSGD_OK, "synthetic clusters");
    for (size_t i = 0; i < pool.count; i++) {
        const struct fit_trace *t = &pool.trace[i];
        bool has[4] = {false, false, false, false}, same = true;
        for (size_t k = 0; k < t->steps * t->n; k++) {
            has[t->status[k]] = true;
            same = same && t->target_status[k] == TIMING_EXACT &&
                   (t->status[k] != TIMING_EXACT || t->seen[k] == t->target[k]);
        }
        cut += has[TIMING_CENSORED];
        estimated += has[TIMING_PROGRESS];
        looks += t->telemetry != NULL;
        whole += same;
    }
    /* Standard errors of the shares: .024, .022, .028. */
    near((double)cut / 300, .22, .08, "22 % are cut");
    near((double)estimated / 300, .18, .07, "18 % are estimated");
    near((double)looks / 300, .6, .09, "60 % have telemetry");
    is_int((long long)whole, 300, "the target is always the whole row");
    fit_pool_clear(&pool);
}

static enum dsgd_err parse(struct fit_options *opt, struct dsgd_error *err,
                           int argc, ...)
{
    static char *argv[16];
    va_list ap;

    argv[0] = "dsgd-fit";
    va_start(ap, argc);
    for (int i = 1; i <= argc; i++)
        argv[i] = va_arg(ap, char *);
    va_end(ap);
    return fit_options_parse(argc + 1, argv, opt, err);
}

static void options(void)
{
    struct fit_options opt;
    struct dsgd_error err;

    is_int(parse(&opt, &err, 7, "a.csv", "--kind=dmm", "--steps", "20",
                 "-ox.safetensors", "--", "-b.csv"),
           DSGD_OK, "options and files, mixed");
    ok(opt.kind == FIT_DMM && opt.steps == 20 && opt.files == 2, "are read");
    is_str(opt.output, "x.safetensors", "-oFILE");
    is_str(opt.file[1], "-b.csv", "after -- all are files");
    parse(&opt, &err, 3, "--synth", "-o", "x");
    ok(opt.synth && !opt.scenario && opt.files == 0, "--synth alone");
    parse(&opt, &err, 3, "--synth=mix:n=8", "-o", "x");
    is_str(opt.scenario, "mix:n=8", "--synth=SCENARIO");
    is_int(parse(&opt, &err, 2, "--kind", "rnn"), DSGD_E_USAGE, "a bad kind");
    has_str(err.text, "\"rnn\" is none of set|dmm", "is named");
    is_int(parse(&opt, &err, 1, "x.csv"), DSGD_E_USAGE, "no output");
    is_int(parse(&opt, &err, 2, "-o", "x"), DSGD_E_USAGE, "no data");
    has_str(err.text, "nothing to learn from", "is told");
    is_int(
        parse(&opt, &err, 5, "--synth", "-ox", "--steps=1", "--minutes", "nan"),
        DSGD_E_USAGE, "NaN is no number of minutes");
    is_int(parse(&opt, &err, 4, "--synth", "-ox", "--steps=1", "--minutes=2"),
           DSGD_E_USAGE, "steps and minutes");
    is_int(parse(&opt, &err, 3, "--kind=dmm", "--synth", "-ox"), DSGD_E_USAGE,
           "a dmm of no cluster in particular");
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    snprintf(checkpoint, sizeof checkpoint, "%s/x.checkpoint", dir);
    small_fit("dmm", dmm_subject, 60, .1);
    small_fit("set", set_subject, 20, .02);
    failing();
    checkpoints();
    wild_counts();
    resumed_at_the_end();
    early_end();
    too_few();
    nothing_known();
    pools();
    options();
    rmdir(dir);
    return done();
}
