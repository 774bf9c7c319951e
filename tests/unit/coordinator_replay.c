/* Runs of the coordinator among simulated nodes, with gradients that are
 * carried, abandoned and given in part, done again from their records: the same
 * means, whoever is slow now. */
#include "../cluster_many.h"
#include "../scratch.h"

static char dir[] = "/tmp/dsgd-replay-XXXXXX";

static const char *in_dir(const char *name)
{
    static char path[2][96];
    static int i;

    i = !i;
    snprintf(path[i], sizeof path[i], "%s/%s", dir, name);
    return path[i];
}

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
    spec.record = in_dir(to);
    spec.opt.late = DSGD_LATE_REQUEUE;
    spec.opt.partial = DSGD_PARTIAL_AUTO;
    spec.opt.warn = count;
    spec.opt.warn_context = &warnings;
    snprintf(spec.opt.cutoff, sizeof spec.opt.cutoff, "replay:%s",
             in_dir(from));
    return cluster_run(&spec, r) && r->ended && !warnings;
}

static void replays(const struct cluster_spec *base, const char *name)
{
    struct cluster_spec spec = *base;
    struct cluster_result first, second, third;
    uint64_t carried = 0, steps = 0, empty = 0;

    for (spec.seed = 1; spec.seed <= many_seeds(10); spec.seed++) {
        spec.record = in_dir("a.dsgd");
        bool good = cluster_run(&spec, &first) && first.ended &&
                    again(&spec, "a.dsgd", "b.dsgd", &second) &&
                    again(&spec, "b.dsgd", "c.dsgd", &third);
        unlink(in_dir("a.dsgd"));
        unlink(in_dir("b.dsgd"));
        unlink(in_dir("c.dsgd"));
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

int main(void)
{
    static const char *const late[] = {"requeue", "drop", "carry"};
    static const char *const cutoff[] = {"static:5", "static:1", "order"};
    char name[64];

    scratch_dir(dir);
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
