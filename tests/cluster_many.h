/* One kind of simulated cluster with many seeds, as a test. */
#ifndef DSGD_TESTS_CLUSTER_MANY_H
#define DSGD_TESTS_CLUSTER_MANY_H

#include "cluster_sim.h"
#include "tap.h"

/* Seeds 1 to n; DSGD_TEST_SEEDS says how many where time is short. */
static unsigned many_seeds(unsigned n)
{
    const char *few = getenv("DSGD_TEST_SEEDS");

    return few ? (unsigned)atoi(few) : n;
}

/* What holds whatever happens: it ends, with each sample once an epoch. */
__attribute__((unused)) static bool many_exact(const struct cluster_spec *spec,
                                               const struct cluster_result *r)
{
    return r->ended && r->epochs == spec->opt.epochs && !r->doubled &&
           !r->missing && r->samples == spec->opt.epochs * spec->opt.n_samples;
}

/* Run spec with seeds 1 to n.
 *   good   says whether a result is as it should be
 *   total  out  sums of the results
 * The first seed that fails is named as a failed test; then it returns
 * false. */
__attribute__((unused)) static bool
many(const struct cluster_spec *base, unsigned n, const char *name,
     bool (*good)(const struct cluster_spec *spec,
                  const struct cluster_result *r),
     struct cluster_result *total)
{
    struct cluster_spec spec = *base;
    struct cluster_result r;

    *total = (struct cluster_result){0};
    for (spec.seed = 1; spec.seed <= many_seeds(n); spec.seed++) {
        bool fine = cluster_run(&spec, &r) && good(&spec, &r);
        total->steps += r.steps;
        total->carried += r.carried;
        total->empty += r.empty;
        total->under += r.under;
        total->asked += r.asked;
        total->early += r.early;
        total->parts += r.parts;
        total->time_s += r.time_s;
        if (fine)
            continue;
        ok(false, "%s: seed %llu", name, (unsigned long long)spec.seed);
        printf("#   %s after %.1f s, %llu steps (%llu empty, %llu over, %llu "
               "under), %llu epochs, %llu samples, %llu doubled, %llu "
               "missing\n",
               r.ended ? "ended" : "hung", r.time_s,
               (unsigned long long)r.steps, (unsigned long long)r.empty,
               (unsigned long long)r.over, (unsigned long long)r.under,
               (unsigned long long)r.epochs, (unsigned long long)r.samples,
               (unsigned long long)r.doubled, (unsigned long long)r.missing);
        return false;
    }
    return true;
}

#endif
