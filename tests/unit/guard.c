/* The guards: who is followed, and when. */
#include "experts.h"
#include "guard.h"
#include "rng.h"
#include "tap.h"

enum { FULL, MODEL, OTHER, N };

/* Steps of three experts whose throughputs are given, with 3 % noise that they
 * share and 1 % of their own.  Returns how often each was followed in the last
 * `count` of them. */
static void run(struct guard *g, struct rng *r, const double *rate, int steps,
                int count, int *followed)
{
    for (int e = 0; e < N; e++)
        followed[e] = 0;
    for (int t = 0; t < steps; t++) {
        size_t pick = guard_pick(g);
        double common = 1 + .03 * rng_normal(r), c[N], time_s[N];
        if (t >= steps - count)
            followed[pick]++;
        for (int e = 0; e < N; e++) {
            c[e] = 10;
            time_s[e] = 10 / rate[e] * common * (1 + .01 * rng_normal(r));
        }
        guard_score(g, c, time_s, NAN);
    }
}

/* How often another is followed in so many steps in which it takes 1 % less
 * time, give or take 1 % / ratio in turn: ratio sqrt(steps) standard errors. */
static int take_overs(int steps, double ratio)
{
    const double count[N] = {10, 10, 10};
    struct guard *g;
    int followed = 0;

    guard_create(N, MODEL, FULL, &g, NULL);
    for (int t = 0; t < steps; t++) {
        double change = .01 * (1 + (t % 2 ? 1 : -1) / ratio);
        double time_s[N] = {1.2, 1, 1 - change};
        followed += guard_pick(g) == OTHER;
        guard_score(g, count, time_s, NAN);
    }
    followed += guard_pick(g) == OTHER;
    guard_free(g);
    return followed;
}

static void first_steps(void)
{
    ok(take_overs(20, .42) > 0, "1.9 standard errors are enough at first");
    is_int(take_overs(100, .2), 0, "2.0 are not later on");
}

static void follow(void)
{
    const double good[N] = {8, 10, 9.5}, better[N] = {8, 10, 10.6},
                 none[N] = {10, 9.7, 9.6}, equal[N] = {8, 10, 10};
    int n[N];
    struct rng r;
    struct guard *g;

    rng_seed(&r, 1, 0);
    guard_create(N, MODEL, FULL, &g, NULL);
    is_int((long long)guard_pick(g), MODEL, "the favourite first");
    run(g, &r, good, 200, 180, n);
    is_int(n[MODEL], 180, "the best one is followed");
    run(g, &r, better, 200, 100, n);
    is_int(n[OTHER], 100, "another takes over");
    run(g, &r, good, 300, 100, n);
    is_int(n[MODEL], 100, "and gives back");
    run(g, &r, none, 300, 100, n);
    is_int(n[FULL], 100, "no cut without a gain");
    run(g, &r, equal, 600, 400, n);
    ok(n[MODEL] > 300, "equals do not oust the favourite (%d of 400)",
       n[MODEL]);
    near(guard_throughput(g, FULL), 8, .2, "running throughput");

    double c[N] = {10, 10, 10}, bad[N] = {1, NAN, 1};
    double before = guard_throughput(g, OTHER);
    guard_score(g, c, bad, NAN);
    ok(guard_throughput(g, OTHER) == before, "a NaN is not scored");
    guard_free(g);
}

/* Who is followed after so many steps in which the favourite takes 4 of 16 in
 * 1.1 s, and waiting for all takes 2.7 s, give or take 1 %. */
static size_t slow_majority(int steps, double lambda)
{
    const double count[N] = {16, 4, 4};
    struct guard *g;

    guard_create(N, MODEL, FULL, &g, NULL);
    for (int t = 0; t < steps; t++) {
        double time_s[N] = {t % 2 ? 2.7 : 2.73, 1.1, 1.2};
        guard_score(g, count, time_s, lambda);
    }
    size_t pick = guard_pick(g);
    guard_free(g);
    return pick;
}

static void two_prices(void)
{
    is_int((long long)slow_majority(100, NAN), FULL,
           "most are slow: waiting looks good at the throughput of late");
    is_int((long long)slow_majority(100, 8), MODEL,
           "not over a run that is faster");
    is_int((long long)slow_majority(100, 3), FULL, "but over a slow one");
    is_int((long long)slow_majority(30, 8), FULL,
           "at first the run's throughput is not known");
}

static void refused(void)
{
    struct dsgd_error err;
    struct guard *g;

    is_int(guard_create(2, 2, 0, &g, &err), DSGD_E_RANGE, "no such favourite");
    has_str(err.text, "favourite 2", "named");
    ok(g == NULL, "nothing returned");
    is_int(guard_create(0, 0, 0, &g, NULL), DSGD_E_RANGE, "no experts");
    guard_free(NULL);
}

static void carry(void)
{
    struct guard_carry g;
    int cautious = 0;

    guard_carry_init(&g);
    for (int t = 0; t < 100; t++) {
        guard_carry_score(&g, 14, .9, 16, 1.2);
        cautious += g.cautious;
    }
    is_int(cautious, 0, "a policy above full is left alone");
    for (int t = 0; t < 60; t++)
        guard_carry_score(&g, 10, .9, 16, 1.2);
    ok(g.cautious, "one below is made cautious");
    for (int t = 0; t < 100; t++)
        guard_carry_score(&g, 14, .9, 16, 1.2);
    ok(!g.cautious, "until it would be better again");
    struct guard_carry copy = g;
    guard_carry_score(&g, NAN, 1, 16, 1);
    guard_carry_score(&g, 1, INFINITY, 16, 1);
    guard_carry_score(&g, 1, 1, 16, 0);
    ok(memcmp(&copy, &g, sizeof g) == 0, "nonsense is not scored");
}

/* The simple policies on a cluster where the last of eight is always slow. */
static void simple(void)
{
    struct experts *e;
    size_t cut[EXPERTS];
    double sorted_s[8];
    float log_s[8];
    uint8_t status[8];
    struct rng r;

    rng_seed(&r, 2, 0);
    is_int(experts_create(0, &e, NULL), DSGD_E_RANGE, "no workers");
    experts_create(8, &e, NULL);
    experts_begin(e, .02, NAN, cut);
    ok(cut[EXPERT_LAST] == 8 && cut[EXPERT_EWMA] == 8 && cut[EXPERT_ORDER] == 8,
       "nothing known: wait for all");
    for (int t = 0; t < 30; t++) {
        for (int j = 0; j < 8; j++) {
            sorted_s[j] = (j == 7 ? 3 : 1) + .01 * j + .001 * rng_uniform(&r);
            log_s[j] = (float)log(sorted_s[j]);
            status[j] = 2;
        }
        experts_end(e, sorted_s, log_s, status);
        experts_begin(e, .02, 7 / 1.1, cut);
    }
    is_int((long long)cut[EXPERT_FULL], 8, "full");
    is_int((long long)cut[EXPERT_LAST], 7, "last");
    is_int((long long)cut[EXPERT_ROLL10], 7, "roll10");
    is_int((long long)cut[EXPERT_ROLL20], 7, "roll20");
    is_int((long long)cut[EXPERT_EWMA], 7, "ewma");
    is_int((long long)cut[EXPERT_EWMA_RATIO], 7, "ewma-ratio");
    is_int((long long)cut[EXPERT_STATIC], 4, "half of them");
    bool inside = true;
    for (int i = 0; i < EXPERTS; i++)
        inside &= cut[i] >= 1 && cut[i] <= 8;
    ok(inside, "all between 1 and n");
    is_str(experts_name(EXPERTS - 1), "99%", "the last one's name");
    experts_free(e);
}

int main(void)
{
    follow();
    first_steps();
    two_prices();
    refused();
    carry();
    simple();
    return done();
}
