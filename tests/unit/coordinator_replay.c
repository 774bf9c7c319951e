/* Runs of the coordinator among simulated nodes, with gradients that are
 * carried, abandoned and given in part, done again from their records: the same
 * means, whoever is slow now. */
#include "../cluster_many.h"
#include "../scratch.h"
#include "record_read.h"

static char dir[] = "/tmp/dsgd-replay-XXXXXX";

static void count(void *context, const char *text)
{
    printf("# %s\n", text);
    ++*(int *)context;
}

static struct cluster_spec ordinary(void)
{
    struct cluster_spec spec = {.n_nodes = 3,
                                .per_node = 3,
                                .step_s = .01,
                                .slow = .15,
                                .less = .1,
                                .stop_s = .5,
                                .freeze_s = .7,
                                .limit_s = 300};
    spec.opt.n_samples = 500;
    spec.opt.batch = 8;
    spec.opt.epochs = 2;
    spec.opt.hard_timeout_s = .3;
    return spec;
}

/* Do the run in `from` again, among other delays, and record that in `to`. */
static bool again(const struct cluster_spec *first, const char *from,
                  const char *to, struct cluster_result *r)
{
    struct cluster_spec spec = *first;
    int warnings = 0;

    spec.seed += 1000;
    spec.less = 0; /* its workers give what they are told to */
    spec.record = scratch_path(dir, to);
    spec.opt.late = DSGD_LATE_REQUEUE;
    spec.opt.partial = DSGD_PARTIAL_AUTO;
    spec.opt.warn = count;
    spec.opt.warn_context = &warnings;
    snprintf(spec.opt.cutoff, sizeof spec.opt.cutoff, "replay:%s",
             scratch_path(dir, from));
    return cluster_run(&spec, r) && r->ended && !warnings;
}

/* Samples that a record's steps carried. */
static uint64_t carried_in(const char *record)
{
    struct record_contribution row;
    struct record_read *r;
    uint64_t samples = 0;

    if (record_read_open(record, &r, NULL) != DSGD_OK)
        return 0;
    while (record_read_contribution(r, &row, NULL) == DSGD_OK)
        samples += row.from != row.step ? row.samples : 0;
    record_read_close(r);
    return samples;
}

static void replays(const struct cluster_spec *base, const char *name)
{
    struct cluster_spec spec = *base;
    struct cluster_result first, second, third;
    uint64_t carried = 0, steps = 0, empty = 0;

    for (spec.seed = 1; spec.seed <= many_seeds(10); spec.seed++) {
        spec.record = scratch_path(dir, "a.dsgd");
        bool good = cluster_run(&spec, &first) && first.ended &&
                    again(&spec, "a.dsgd", "b.dsgd", &second) &&
                    again(&spec, "b.dsgd", "c.dsgd", &third);
        if (spec.opt.work == DSGD_WORK_SHARED)
            first.carried = carried_in(spec.record);
        unlink(scratch_path(dir, "a.dsgd"));
        unlink(scratch_path(dir, "b.dsgd"));
        unlink(scratch_path(dir, "c.dsgd"));
        if (!good || first.steps != second.steps || first.hash != second.hash ||
            first.hash != third.hash) {
            ok(false, "%s: seed %llu: %llu and %llu steps", name,
               (unsigned long long)spec.seed, (unsigned long long)first.steps,
               (unsigned long long)second.steps);
            return;
        }
        carried += first.carried;
        steps += first.steps;
        empty += first.empty;
    }
    ok(true, "%s: %llu steps, %llu empty", name, (unsigned long long)steps,
       (unsigned long long)empty);
    if (spec.opt.late == DSGD_LATE_CARRY)
        ok(carried > 0, "%s: %llu samples carried", name,
           (unsigned long long)carried);
}

/* Shared work, also when workers and nodes are lost, and done again with
 * another size of parts. */
static void shared(void)
{
    static const char *const name[] = {"shared", "shared, carried"};

    for (int carry = 0; carry < 2; carry++) {
        struct cluster_spec spec = ordinary();
        spec.opt.work = DSGD_WORK_SHARED;
        spec.opt.parts = 4;
        spec.opt.late = carry ? DSGD_LATE_CARRY : DSGD_LATE_REQUEUE;
        spec.spread = 3;
        spec.less = 0;
        spec.opt.n_samples = 900;
        strcpy(spec.opt.cutoff, "full");
        replays(&spec, name[carry]);
        spec.freeze_in_sum = .05;
        spec.stop_s = .2;
        replays(&spec, name[carry]);
        spec.n_nodes = 1;
        replays(&spec, name[carry]);
    }
}

/* What a worker that dies has given to a step can't be given again: the replay
 * breaks off, at once. */
static void deaths(void)
{
    struct cluster_spec spec = ordinary();
    struct cluster_result first, second;

    spec.opt.work = DSGD_WORK_SHARED;
    spec.opt.parts = 4;
    spec.opt.hard_timeout_s = 20;
    spec.limit_s = 60;
    spec.less = spec.stop_s = spec.freeze_s = 0;
    spec.seed = 1;
    spec.record = scratch_path(dir, "a.dsgd");
    strcpy(spec.opt.cutoff, "full");
    bool good = cluster_run(&spec, &first) && first.ended;
    spec.die_s = .1;
    good = good && again(&spec, "a.dsgd", "b.dsgd", &second);
    ok(good && second.steps < first.steps && second.time_s < 10,
       "a worker dies: %llu of %llu steps", (unsigned long long)second.steps,
       (unsigned long long)first.steps);
    unlink(scratch_path(dir, "a.dsgd"));
    unlink(scratch_path(dir, "b.dsgd"));
}

int main(void)
{
    static const char *const late[] = {"requeue", "drop", "carry"};
    static const char *const cutoff[] = {"static:5", "static:1", "order"};
    char name[64];

    scratch_dir(dir);
    shared();
    deaths();
    for (int l = 0; l < 3; l++) {
        for (int p = 0; p < 2; p++) {
            for (int k = 0; k < 3; k++) {
                struct cluster_spec spec = ordinary();
                spec.opt.late = (enum dsgd_late)l;
                spec.opt.partial =
                    p ? DSGD_PARTIAL_CONTRIBUTE : DSGD_PARTIAL_DISCARD;
                spec.opt.lr_scale = DSGD_LR_SCALE_SQRT;
                spec.freeze_in_sum = k == 1 ? .1 : 0;
                strcpy(spec.opt.cutoff, cutoff[k]);
                snprintf(name, sizeof name, "%s %s %s", late[l],
                         p ? "contribute" : "discard", cutoff[k]);
                replays(&spec, name);
            }
        }
    }
    return done();
}
