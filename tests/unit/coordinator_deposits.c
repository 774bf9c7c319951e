/* Shares given in parts, among simulated nodes whose workers stop in the middle
 * of an addition: what was deposited when a step closes is in its mean,
 * exactly, what was not is computed later, once; and such a run can be done
 * again. */
#include "../cluster_many.h"
#include "../scratch.h"
#include "launch.h"
#include "model_data.h"

enum { SEEDS = 25 };

static char dir[] = "/tmp/dsgd-deposits-XXXXXX";
static struct timing_model *model;

static struct cluster_spec ordinary(void)
{
    struct cluster_spec spec = {.n_nodes = 4,
                                .per_node = 3,
                                .step_s = .02,
                                .slow = .1,
                                .stop_s = .5,
                                .freeze_s = .7,
                                .limit_s = 300,
                                .model = model};
    spec.opt.n_samples = 1500;
    spec.opt.batch = 16;
    spec.opt.parts = 5; /* of 4 samples: four, in fact */
    spec.opt.deposits = true;
    spec.opt.epochs = 3;
    spec.opt.hard_timeout_s = .3;
    strcpy(spec.opt.cutoff, "static:7");
    return spec;
}

static bool is_right(const struct cluster_spec *spec,
                     const struct cluster_result *r)
{
    const struct dsgd_options *opt = &spec->opt;
    bool all = !r->missing && r->samples == opt->epochs * opt->n_samples;

    return r->ended && r->epochs == opt->epochs && !r->doubled && !r->wrong &&
           !r->carried && (all || opt->late == DSGD_LATE_DROP);
}

static void count_warning(void *context, const char *text)
{
    printf("# %s\n", text);
    ++*(int *)context;
}

/* The run in a.dsgd again, among other delays, its parts not told of. */
static bool again(const struct cluster_spec *first, struct cluster_result *r)
{
    struct cluster_spec spec = *first;
    int warnings = 0;

    spec.seed += 1000;
    spec.record = NULL;
    spec.opt.late = DSGD_LATE_REQUEUE;
    spec.opt.warn = count_warning;
    spec.opt.warn_context = &warnings;
    snprintf(spec.opt.cutoff, sizeof spec.opt.cutoff, "replay:%s",
             scratch_path(dir, "a.dsgd"));
    return cluster_run(&spec, r) && r->ended && !warnings;
}

static void print(const struct cluster_result *r)
{
    printf("#   %s after %.1f s, %llu steps, %llu epochs, %llu samples, "
           "%llu doubled, %llu missing, %llu wrong, %llu carried\n",
           r->ended ? "ended" : "hung", r->time_s, (unsigned long long)r->steps,
           (unsigned long long)r->epochs, (unsigned long long)r->samples,
           (unsigned long long)r->doubled, (unsigned long long)r->missing,
           (unsigned long long)r->wrong, (unsigned long long)r->carried);
}

/* Many seeds of one kind; the first that fails is named.  The first few are
 * done again from their records.  Returns the virtual time. */
static double seeds(const struct cluster_spec *base, const char *name)
{
    struct cluster_spec spec = *base;
    struct cluster_result r, second;
    uint64_t steps = 0, lacking = 0, replays = 4;
    double time_s = 0;

    for (spec.seed = 1; spec.seed <= many_seeds(SEEDS); spec.seed++) {
        bool replay = spec.seed <= replays;
        spec.record = replay ? scratch_path(dir, "a.dsgd") : NULL;
        bool good = cluster_run(&spec, &r) && is_right(&spec, &r);
        bool same = !good || !replay ||
                    (again(&spec, &second) && second.hash == r.hash);
        unlink(scratch_path(dir, "a.dsgd"));
        steps += r.steps;
        lacking += r.lacking;
        time_s += r.time_s;
        if (good && same)
            continue;
        ok(false, "%s: seed %llu%s", name, (unsigned long long)spec.seed,
           good ? ": the replay" : "");
        print(good ? &second : &r);
        return time_s;
    }
    ok(true,
       "%s: %llu steps in %.1f s, of contributors' shares %llu samples "
       "not given",
       name, (unsigned long long)steps, time_s, (unsigned long long)lacking);
    return time_s;
}

static void every_kind(void)
{
    static const char *const late[] = {"requeue", "drop"};
    static const char *const cutoff[] = {"full",  "static:7", "static:1",
                                         "order", "dynamic",  "dry"};
    char name[64];

    for (int l = 0; l < 2; l++) {
        for (int c = 0; c < 6; c++) {
            struct cluster_spec spec = ordinary();
            spec.opt.late = (enum dsgd_late)l;
            spec.opt.lr_scale = DSGD_LR_SCALE_SQRT;
            strcpy(spec.opt.cutoff, cutoff[c]);
            snprintf(name, sizeof name, "%s %s", late[l], cutoff[c]);
            seeds(&spec, name);
            if (c == 0 || c == 5)
                continue;
            spec.freeze_in_sum = .2;
            snprintf(name, sizeof name, "%s %s, frozen in sums", late[l],
                     cutoff[c]);
            seeds(&spec, name);
        }
    }
}

/* What is not thrown away need not be computed again. */
static void worth(const char *cutoff)
{
    struct cluster_spec spec = ordinary();
    char name[64];

    spec.freeze_s = spec.stop_s = 0;
    spec.slow = .2;
    spec.opt.n_samples = 4000;
    strcpy(spec.opt.cutoff, cutoff);
    snprintf(name, sizeof name, "%s, in parts", cutoff);
    double parts_s = seeds(&spec, name);
    spec.opt.deposits = false;
    snprintf(name, sizeof name, "%s, as a whole", cutoff);
    double whole_s = seeds(&spec, name);
    ok(parts_s < whole_s, "%s: %.2f times as fast in parts", cutoff,
       whole_s / parts_s);
}

/* The lanes of an epoch, two data sets that do not divide, one worker a
 * node. */
static void odd_sizes(void)
{
    struct cluster_spec spec = ordinary();

    spec.opt.n_samples = 37;
    seeds(&spec, "less than a step's samples");
    spec.opt.n_samples = 1009;
    spec.opt.batch = 7;
    spec.opt.parts = 3;
    spec.per_node = 1;
    strcpy(spec.opt.cutoff, "static:2");
    seeds(&spec, "sizes that divide nothing");
    spec.opt.parts = 100;
    seeds(&spec, "parts of one sample");
}

static void wanted(void)
{
    struct dsgd_options opt = ordinary().opt;

    ok(launch_deposits(&opt) && launch_slot_bufs(&opt) == 2,
       "parts that count: two buffers");
    opt.parts = 1;
    ok(!launch_deposits(&opt) && launch_slot_bufs(&opt) == 1,
       "not of batches in one part");
    opt.parts = 0;
    ok(launch_deposits(&opt) && launch_part(&opt) == 2, "eight by default");
    opt.partial = DSGD_PARTIAL_DISCARD;
    ok(!launch_deposits(&opt), "nor where they are to be thrown away");
    opt.partial = DSGD_PARTIAL_AUTO;
    opt.late = DSGD_LATE_CARRY;
    ok(!launch_deposits(&opt), "nor where whole gradients are carried");
    opt.late = DSGD_LATE_REQUEUE;
    opt.deposits = false;
    ok(!launch_deposits(&opt), "nor where the program gives none");
}

int main(void)
{
    model = data_default_model();
    if (!model)
        return done();
    scratch_dir(dir);
    wanted();
    every_kind();
    worth("static:9");
    worth("order");
    worth("dynamic");
    odd_sizes();
    timing_model_free(model);
    return done();
}
