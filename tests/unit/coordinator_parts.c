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

int main(void)
{
    struct cluster_spec spec = ordinary();

    many(&spec, true, "four nodes");
    spec.n_nodes = 1;
    many(&spec, true, "one node");
    return done();
}
