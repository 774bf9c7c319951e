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

static struct cluster_spec waits_for_all(void)
{
    struct cluster_spec spec = ordinary();

    strcpy(spec.opt.cutoff, "full");
    spec.opt.n_samples = 672; /* seven steps an epoch */
    spec.opt.spread_bytes = 4096;
    spec.less = spec.stop_s = spec.freeze_s = 0;
    return spec;
}

/* With everybody there no sum is asked for, and the means are the same. */
static void early_sums(void)
{
    struct cluster_spec spec = waits_for_all();
    struct cluster_result early, asked;

    ok(cluster_run(&spec, &early) && early.ended, "early sums");
    is_int((long long)early.asked, 0, "none is asked for");
    is_int((long long)early.early, (long long)early.steps * 3,
           "each node sends one a step");
    spec.opt.spread_bytes = 0;
    ok(cluster_run(&spec, &asked) && asked.ended, "sums that are asked for");
    is_int((long long)asked.early, 0, "large ones are not sent early");
    is_int((long long)asked.asked, (long long)asked.steps * 3, "but asked for");
    ok(asked.hash == early.hash, "the bits of all means are the same");
    spec = waits_for_all();
    strcpy(spec.opt.cutoff, "static:11");
    ok(cluster_run(&spec, &early) && !early.early,
       "where not everybody is waited for none is sent early");
}

/* In any other case they are asked for again, and all is counted once. */
static void early_refused(void)
{
    static const struct {
        const char *name;
        double less, stop_s, freeze_s, freeze_in_sum;
        enum dsgd_late late;
    } fault[] = {
        {"workers that give nothing", .1, 0, 0, 0, DSGD_LATE_REQUEUE},
        {"workers that stop", 0, .2, 0, 0, DSGD_LATE_REQUEUE},
        {"workers that stop and are carried", 0, .2, 0, 0, DSGD_LATE_CARRY},
        {"nodes that freeze", 0, 0, .3, 0, DSGD_LATE_REQUEUE},
        {"nodes that freeze in sums", 0, 0, 0, .05, DSGD_LATE_REQUEUE},
        {"all of these", .1, .5, .7, .02, DSGD_LATE_CARRY},
    };
    struct cluster_result sum;

    for (size_t i = 0; i < sizeof fault / sizeof *fault; i++) {
        struct cluster_spec spec = waits_for_all();
        spec.less = fault[i].less;
        spec.stop_s = fault[i].stop_s;
        spec.freeze_s = fault[i].freeze_s;
        spec.freeze_in_sum = fault[i].freeze_in_sum;
        spec.opt.late = fault[i].late;
        if (many(&spec, 40, fault[i].name, many_exact, &sum))
            ok(sum.early && sum.asked,
               "early sums, %s: %llu sent, %llu asked for", fault[i].name,
               (unsigned long long)sum.early, (unsigned long long)sum.asked);
    }
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
    early_sums();
    early_refused();
    return done();
}
