/* Shared work among simulated nodes: workers of different speeds claim parts,
 * are slow with some, stop; nodes freeze.  The batch is exact, each sample
 * counts once an epoch, and nothing hangs. */
#include "../cluster_many.h"
#include "launch.h"

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

static bool no_more(const struct cluster_spec *spec,
                    const struct cluster_result *r)
{
    return many_exact(spec, r) && !r->over;
}

static bool nobody_lost(const struct cluster_spec *spec,
                        const struct cluster_result *r)
{
    return no_more(spec, r) && !r->under && !r->empty;
}

/* exact: nobody is lost. */
static void shared(const struct cluster_spec *spec, bool exact,
                   const char *name)
{
    struct cluster_result sum;

    if (many(spec, 30, name, exact ? nobody_lost : no_more, &sum))
        ok(true, "%s: %llu steps, %llu short, %.1f s", name,
           (unsigned long long)sum.steps, (unsigned long long)sum.under,
           sum.time_s);
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
    spec.opt.n_samples = 15000; /* a mean of one piece */
    spec.opt.max_steps = 60;
    for (spec.seed = 1; spec.seed <= many_seeds(5); spec.seed++) {
        struct cluster_result r;
        bool good = cluster_run(&spec, &r) && r.ended;
        least = fmin(least, good ? r.ideal_s / r.time_s : 0);
    }
    ok(least > .85, "%u nodes of %u busy %.0f %% of the time", n_nodes,
       per_node, 100 * least);
}

/* The same with late parts that are carried. */
static void carried(void)
{
    struct cluster_spec spec = ordinary();

    spec.opt.late = DSGD_LATE_CARRY;
    spec.spread = 8;
    spec.slow = .1;
    shared(&spec, true, "carried: speeds that differ much");
    spec.stop_s = .1;
    spec.freeze_s = .2;
    shared(&spec, true, "carried: workers that stop, nodes that freeze");
    spec.n_nodes = 1;
    shared(&spec, true, "carried: one node");
    spec = ordinary();
    spec.opt.late = DSGD_LATE_CARRY;
    spec.stop_s = .1;
    spec.freeze_s = .3;
    spec.freeze_in_sum = .1;
    spec.opt.hard_timeout_s = .25;
    shared(&spec, false, "carried: workers and nodes that are lost");
    spec.opt.hard_timeout_s = 20;
    spec.limit_s = 30;
    spec.stop_s = spec.freeze_s = spec.freeze_in_sum = 0;
    spec.die_s = .1;
    shared(&spec, false, "carried: workers that die");
    spec = ordinary();
    spec.opt.late = DSGD_LATE_CARRY;
    spec.opt.n_samples = 1501;
    spec.opt.batch = 10;
    spec.opt.parts = 3;
    shared(&spec, true, "carried: a rest of one sample");
}

static enum dsgd_err refused(const char *cutoff, struct dsgd_error *err)
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

    snprintf(opt.cutoff, sizeof opt.cutoff, "%s", cutoff);
    cutoff_parse("cutoff", cutoff, &cut, NULL);
    enum dsgd_err rc = coordinator_create(&config, &c, err);
    coordinator_destroy(c);
    return rc;
}

static void bad(void)
{
    struct dsgd_error err = {""};

    is_int(refused("static:1", &err), DSGD_E_USAGE,
           "shared work with a cutoff");
    has_str(err.text, "--dsgd-cutoff must be full (got \"static:1\")",
            "says so");
    struct dsgd_options opt = ordinary().opt;
    struct cutoff_spec cut;
    opt.grad_elems = 1;
    strcpy(opt.cutoff, "dry");
    is_int(launch_check(&opt, &cut, &err), DSGD_E_USAGE, "with dry");
    has_str(err.text, "cuts nobody: use full", "says so");
}

/* A node that is never heard of again, workers that stop for longer than the
 * hard timeout, data sets and batches of odd sizes. */
int main(void)
{
    struct cluster_spec spec = ordinary();

    shared(&spec, true, "four nodes");
    spec.n_nodes = 1;
    shared(&spec, true, "one node");

    spec = ordinary();
    spec.spread = 8;
    spec.slow = .1;
    shared(&spec, true, "speeds that differ much");
    spec.stop_s = .1;
    shared(&spec, true, "workers that stop");
    spec.freeze_s = .2;
    shared(&spec, true, "nodes that freeze");
    spec.n_nodes = 2;
    spec.per_node = 1;
    shared(&spec, true, "two workers");

    spec = ordinary();
    spec.stop_s = .1;
    spec.freeze_s = .3;
    spec.opt.hard_timeout_s = .25;
    shared(&spec, false, "workers and nodes that are lost");
    spec.freeze_in_sum = .1;
    shared(&spec, false, "also in a sum");
    spec.n_nodes = 1;
    shared(&spec, false, "one node, workers that are lost");

    spec = ordinary();
    spec.opt.hard_timeout_s = 20;
    spec.limit_s = 30;
    spec.die_s = .1;
    shared(&spec, false, "workers that die");
    spec.per_node = 1;
    shared(&spec, false, "with their nodes");

    spec = ordinary();
    spec.twice = .2;
    shared(&spec, true, "parts that are told of twice");

    spec = ordinary();
    spec.stop_s = .2;
    spec.freeze_s = .5;
    spec.opt.n_samples = 1501;
    shared(&spec, true, "a rest of one sample");
    spec.opt.batch = 31;
    shared(&spec, true, "a prime batch");
    spec.opt.batch = 10;
    spec.opt.parts = 3;
    shared(&spec, true, "parts that do not divide the batch");
    spec.opt.parts = 1;
    shared(&spec, true, "whole batches");
    spec.opt.n_samples = 7;
    shared(&spec, true, "fewer samples than workers");
    carried();

    busy(1, 8);
    busy(8, 1);
    busy(4, 4);
    bad();
    return done();
}
