/* Exactly-once accounting of the coordinator, among simulated nodes whose
 * workers are slow, stop, abandon their batches and give less than their share,
 * and which freeze in the middle of a sum. */
#include "../cluster_many.h"
#include "launch.h"

static struct cluster_spec ordinary(void)
{
    struct cluster_spec spec = {.n_nodes = 4,
                                .per_node = 3,
                                .step_s = .01,
                                .slow = .1,
                                .less = .1,
                                .stop_s = .5,
                                .freeze_s = .7,
                                .limit_s = 300};
    spec.opt.n_samples = 700;
    spec.opt.batch = 8;
    spec.opt.epochs = 3;
    spec.opt.hard_timeout_s = .3;
    strcpy(spec.opt.cutoff, "static:7");
    return spec;
}

static bool good(const struct cluster_spec *spec,
                 const struct cluster_result *r)
{
    if (spec->opt.late == DSGD_LATE_DROP)
        return r->ended && r->epochs == spec->opt.epochs && !r->doubled;
    return many_exact(spec, r);
}

static void exactly_once(const struct cluster_spec *spec, const char *name)
{
    struct cluster_result sum;

    if (!many(spec, 40, name, good, &sum))
        return;
    ok(true, "%s: %llu steps, %llu empty, %llu samples carried", name,
       (unsigned long long)sum.steps, (unsigned long long)sum.empty,
       (unsigned long long)sum.carried);
    if (strcmp(spec->opt.cutoff, "full"))
        ok(!sum.carried == (launch_slot_bufs(&spec->opt) == 1), "%s: carried",
           name);
}

int main(void)
{
    static const char *const late[] = {"requeue", "drop", "carry"};
    static const char *const partial[] = {"", "discard", "contribute"};
    static const char *const cutoff[] = {"full", "static:7", "static:1",
                                         "order"};
    char name[64];

    for (int l = 0; l < 3; l++) {
        for (int p = 0; p < 3; p++) {
            for (int c = 0; c < 4; c++) {
                struct cluster_spec spec = ordinary();
                spec.opt.late = (enum dsgd_late)l;
                spec.opt.partial = (enum dsgd_partial)p;
                strcpy(spec.opt.cutoff, cutoff[c]);
                snprintf(name, sizeof name, "%s %s %s", late[l], partial[p],
                         cutoff[c]);
                exactly_once(&spec, name);
            }
        }
    }
    for (int l = 0; l < 3; l++) {
        struct cluster_spec spec = ordinary();
        spec.opt.late = (enum dsgd_late)l;
        strcpy(spec.opt.cutoff, "static:1");
        spec.freeze_in_sum = .2;
        snprintf(name, sizeof name, "%s, frozen in sums", late[l]);
        exactly_once(&spec, name);
    }
    return done();
}
