/* Shared work among simulated nodes: workers of different speeds claim parts,
 * are slow with some, stop; nodes freeze.  The batch is exact, each sample
 * counts once an epoch, and nothing hangs. */
#include "../cluster_many.h"
#include "launch.h"
#include "model_data.h"

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
        ok(true, "%s: %llu steps, %llu short, %.1f s, %.1f parts a worker",
           name, (unsigned long long)sum.steps, (unsigned long long)sum.under,
           sum.time_s,
           (double)sum.parts / (double)sum.steps / spec->n_nodes /
               spec->per_node);
}

/* Not every batch is full, and none lacks more than the slack; each sample
 * counts once an epoch all the same. */
static bool nearly_full(const struct cluster_spec *spec,
                        const struct cluster_result *r)
{
    return no_more(spec, r) && r->least >= 72 && r->under > 0;
}

static void slack(const struct cluster_spec *base)
{
    struct cluster_spec spec = *base;
    struct cluster_result sum;

    spec.opt.batch_slack = .25;
    if (many(&spec, 30, "sized, slack", nearly_full, &sum))
        ok(true, "sized, slack: %llu of %llu batches are not full",
           (unsigned long long)sum.under, (unsigned long long)sum.steps);
}

/* Nodes whose speeds differ by up to 16 are nearly never idle, in virtual time:
 * the share of it in which they would have done the same work. */
static void busy(uint32_t n_nodes, uint32_t per_node,
                 const struct timing_model *model)
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
    spec.model = model;
    if (model)
        strcpy(spec.opt.cutoff, "dynamic");
    for (spec.seed = 1; spec.seed <= many_seeds(5); spec.seed++) {
        struct cluster_result r;
        bool good = cluster_run(&spec, &r) && r.ended;
        least = fmin(least, good ? r.ideal_s / r.time_s : 0);
    }
    ok(least > .85, "%u nodes of %u busy %.0f %% of the time%s", n_nodes,
       per_node, 100 * least, model ? ", sized" : "");
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
    has_str(err.text, "--dsgd-cutoff must be full, or dynamic", "says so");
    is_int(refused("dynamic", &err), DSGD_E_NOMODEL,
           "sized by a model that is not there");
    struct dsgd_options opt = ordinary().opt;
    struct cutoff_spec cut;
    opt.grad_elems = 1;
    strcpy(opt.cutoff, "dry");
    is_int(launch_check(&opt, &cut, &err), DSGD_E_USAGE, "with dry");
    has_str(err.text, "cuts nobody: use full", "says so");
}

/* Both: what is kept comes before the first part, which is not kept. */
static void sized_carried(const struct timing_model *model)
{
    struct cluster_spec spec = ordinary();

    spec.model = model;
    strcpy(spec.opt.cutoff, "dynamic");
    spec.opt.late = DSGD_LATE_CARRY;
    spec.opt.n_samples = 2400;
    spec.opt.parts = 8;
    spec.slow = .1;
    spec.spread = 8;
    shared(&spec, true, "sized and carried");
    spec.stop_s = .1;
    spec.freeze_s = .2;
    spec.opt.hard_timeout_s = 5;
    spec.opt.polls = true;
    shared(&spec, true, "sized and carried, all that stops, and polls");
    spec.freeze_s = .3;
    spec.freeze_in_sum = .1;
    spec.opt.hard_timeout_s = .25;
    shared(&spec, false, "sized and carried, lost");
}

/* Parts that the timing model sizes: the same holds, and they are fewer. */
static void sized(void)
{
    struct timing_model *model = data_default_model();

    if (!model)
        return;
    struct cluster_spec spec = ordinary();
    spec.model = model;
    strcpy(spec.opt.cutoff, "dynamic");
    spec.opt.n_samples = 2400;
    spec.opt.parts = 8;
    shared(&spec, true, "sized, four nodes");
    slack(&spec);
    spec.slow = .1;
    spec.spread = 8;
    spec.stop_s = .1;
    spec.opt.hard_timeout_s = 5;
    shared(&spec, true, "sized, workers that stop");
    spec.opt.polls = true;
    shared(&spec, true, "… and poll");
    spec.freeze_s = .2;
    shared(&spec, true, "sized, nodes that freeze");
    spec.n_nodes = 1;
    shared(&spec, true, "sized, one node");
    spec.n_nodes = 2;
    spec.per_node = 1;
    spec.opt.hard_timeout_s = 30; /* for a first part of a slow worker */
    shared(&spec, true, "sized, two workers");

    spec = ordinary();
    spec.model = model;
    strcpy(spec.opt.cutoff, "dynamic");
    spec.opt.n_samples = 2400;
    spec.stop_s = .1;
    spec.freeze_s = .3;
    spec.opt.hard_timeout_s = .25;
    shared(&spec, false, "sized, workers and nodes that are lost");
    spec.freeze_in_sum = .1;
    shared(&spec, false, "sized, also in a sum");
    spec.freeze_s = spec.freeze_in_sum = spec.stop_s = 0;
    spec.die_s = .1;
    spec.opt.hard_timeout_s = 20;
    shared(&spec, false, "sized, workers that die");
    sized_carried(model);
    busy(1, 8, model);
    busy(8, 1, model);
    busy(4, 4, model);
    timing_model_free(model);
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

    busy(1, 8, NULL);
    busy(8, 1, NULL);
    busy(4, 4, NULL);
    bad();
    sized();
    return done();
}
