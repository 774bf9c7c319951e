/* Shared work among simulated nodes: workers of different speeds claim parts,
 * are slow with some, stop; nodes freeze.  The batch is exact, each sample
 * counts once an epoch, and nothing hangs. */
#include "../cluster_sim.h"
#include "../tap.h"

enum { SEEDS = 30 };

static struct cluster_spec ordinary(void)
{
    struct cluster_spec spec = {.n_nodes = 4,
                                .per_node = 3,
                                .step_s = .02,
                                .slow = .02,
                                .spread = 2,
                                .limit_s = 300};
    spec.opt.n_samples = 1500;
    spec.opt.batch = 8;
    spec.opt.epochs = 3;
    spec.opt.work = DSGD_WORK_SHARED;
    spec.opt.parts = 4;
    spec.opt.hard_timeout_s = 2;
    strcpy(spec.opt.cutoff, "full");
    return spec;
}

/* Many seeds of one kind; the first that fails is named.  exact: nobody is
 * lost. */
static void many(const struct cluster_spec *base, bool exact, const char *name)
{
    struct cluster_spec spec = *base;
    struct cluster_result r;
    uint64_t steps = 0, under = 0;
    double time_s = 0;

    for (spec.seed = 1; spec.seed <= SEEDS; spec.seed++) {
        bool good = cluster_run(&spec, &r) && r.ended &&
                    r.epochs == spec.opt.epochs && !r.doubled && !r.missing &&
                    !r.over && !(exact && (r.under || r.empty)) &&
                    r.samples == spec.opt.epochs * spec.opt.n_samples;
        steps += r.steps;
        under += r.under;
        time_s += r.time_s;
        if (good)
            continue;
        ok(false, "%s: seed %llu", name, (unsigned long long)spec.seed);
        printf("#   %s after %.1f s, %llu steps (%llu over, %llu under), %llu "
               "epochs, %llu samples, %llu doubled, %llu missing\n",
               r.ended ? "ended" : "hung", r.time_s,
               (unsigned long long)r.steps, (unsigned long long)r.over,
               (unsigned long long)r.under, (unsigned long long)r.epochs,
               (unsigned long long)r.samples, (unsigned long long)r.doubled,
               (unsigned long long)r.missing);
        return;
    }
    ok(true, "%s: %llu steps, %llu short, %.1f s", name,
       (unsigned long long)steps, (unsigned long long)under, time_s);
}

/* Nodes whose speeds differ by up to 16 are nearly never idle, in virtual time:
 * the share of it in which they would have done the same work. */
static void busy(uint32_t n_nodes, uint32_t per_node)
{
    struct cluster_spec spec = ordinary();
    double least = 1;

    spec.n_nodes = n_nodes;
    spec.per_node = per_node;
    spec.spread = 4;
    spec.slow = 0;
    spec.step_s = .5;
    spec.opt.batch = 32;
    spec.opt.parts = 16;
    spec.opt.n_samples = 20000;
    spec.opt.max_steps = 60;
    for (spec.seed = 1; spec.seed <= 5; spec.seed++) {
        struct cluster_result r;
        bool good = cluster_run(&spec, &r) && r.ended;
        least = fmin(least, good ? r.ideal_s / r.time_s : 0);
    }
    ok(least > .85, "%u nodes of %u busy %.0f %% of the time", n_nodes,
       per_node, 100 * least);
}

static enum dsgd_err refused(const char *cutoff, enum dsgd_late late,
                             struct dsgd_error *err)
{
    static const uint32_t node[2];
    struct dsgd_options opt = ordinary().opt;
    struct cutoff_spec cut;
    struct coordinator *c;
    struct coordinator_config config = {.opt = &opt,
                                        .cutoff = &cut,
                                        .n_workers = 2,
                                        .n_nodes = 1,
                                        .worker_node = node};

    opt.late = late;
    snprintf(opt.cutoff, sizeof opt.cutoff, "%s", cutoff);
    cutoff_parse("cutoff", cutoff, &cut, NULL);
    enum dsgd_err rc = coordinator_create(&config, &c, err);
    coordinator_destroy(c);
    return rc;
}

static void bad(void)
{
    struct dsgd_error err = {""};

    is_int(refused("static:1", DSGD_LATE_REQUEUE, &err), DSGD_E_USAGE,
           "shared work with a cutoff");
    has_str(err.text, "--dsgd-cutoff must be full (got \"static:1\")",
            "says so");
    is_int(refused("full", DSGD_LATE_CARRY, &err), DSGD_E_USAGE,
           "with late gradients that are carried");
    has_str(err.text, "use requeue", "says so");
}

/* A node that is never heard of again, workers that stop for longer than the
 * hard timeout, data sets and batches of odd sizes. */
int main(void)
{
    struct cluster_spec spec = ordinary();

    many(&spec, true, "four nodes");
    spec.n_nodes = 1;
    many(&spec, true, "one node");

    spec = ordinary();
    spec.spread = 8;
    spec.slow = .1;
    many(&spec, true, "speeds that differ much");
    spec.stop_s = .1;
    many(&spec, true, "workers that stop");
    spec.freeze_s = .2;
    many(&spec, true, "nodes that freeze");
    spec.n_nodes = 2;
    spec.per_node = 1;
    many(&spec, true, "two workers");

    spec = ordinary();
    spec.stop_s = .1;
    spec.freeze_s = .3;
    spec.opt.hard_timeout_s = .25;
    many(&spec, false, "workers and nodes that are lost");
    spec.freeze_in_sum = .1;
    many(&spec, false, "also in a sum");
    spec.n_nodes = 1;
    many(&spec, false, "one node, workers that are lost");

    spec = ordinary();
    spec.opt.hard_timeout_s = 20;
    spec.limit_s = 30;
    spec.die_s = .1;
    many(&spec, false, "workers that die");
    spec.per_node = 1;
    many(&spec, false, "with their nodes");

    spec = ordinary();
    spec.stop_s = .2;
    spec.freeze_s = .5;
    spec.opt.n_samples = 1501;
    many(&spec, true, "a rest of one sample");
    spec.opt.batch = 31;
    many(&spec, true, "a prime batch");
    spec.opt.batch = 10;
    spec.opt.parts = 3;
    many(&spec, true, "parts that do not divide the batch");
    spec.opt.parts = 1;
    many(&spec, true, "whole batches");
    spec.opt.n_samples = 7;
    many(&spec, true, "fewer samples than workers");

    busy(1, 8);
    busy(8, 1);
    busy(4, 4);
    bad();
    return done();
}
