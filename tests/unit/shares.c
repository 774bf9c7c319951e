/* Shares by hand, full batches whatever happens, and no allocation. */
#include "count_alloc.h"
#include "shares.h"

#include <unistd.h>

#include "rng.h"
#include "tap.h"

enum { MOST = 64 };

/* ---- predictives: each worker x, with some probability slow times x ---- */

struct forecast {
    struct predictive p;
    uint32_t node[MOST];
    float mu[MOST * PRED_K], log_sd[MOST * PRED_K], log_w[MOST * PRED_K];
    float node_shift[MOST * PRED_M], node_log_p[MOST * PRED_M];
    float node_tail[MOST * PRED_M * (PRED_K - 1)];
    float shift[PRED_G], log_p[PRED_G], tail[PRED_G * (PRED_K - 1)],
        scale[PRED_G];
};

static struct forecast forecast;

static const struct predictive *expect(size_t n, const double *x, double p_slow,
                                       double slow)
{
    struct forecast *f = &forecast;

    memset(f, 0, sizeof *f);
    for (size_t j = 0; j < n; j++) {
        f->node[j] = (uint32_t)j;
        for (size_t k = 0; k < PRED_K; k++) {
            f->mu[j * PRED_K + k] = (float)log(x[j] * (k ? slow : 1));
            f->log_sd[j * PRED_K + k] = (float)log(.004);
            f->log_w[j * PRED_K + k] =
                (float)log(fmax(k ? p_slow / 2 : 1 - p_slow, 1e-9));
        }
        for (size_t m = 0; m < PRED_M; m++)
            f->node_log_p[j * PRED_M + m] = (float)log(1. / PRED_M);
    }
    for (size_t g = 0; g < PRED_G; g++)
        f->log_p[g] = (float)log(1. / PRED_G);
    f->p = (struct predictive){n,
                               n,
                               f->node,
                               f->mu,
                               f->log_sd,
                               f->log_w,
                               f->node_shift,
                               f->node_log_p,
                               f->node_tail,
                               f->shift,
                               f->log_p,
                               f->tail,
                               f->scale};
    return &f->p;
}

static struct shares *create_of(const struct shares_spec *spec)
{
    struct shares *s = NULL;
    struct dsgd_error err;

    if (shares_create(spec, &s, &err) != DSGD_OK)
        printf("# %s\n", err.text);
    return s;
}

static struct shares *create(size_t n, size_t parts, size_t units,
                             double cost_s)
{
    static uint32_t node[MOST];
    struct shares_spec spec = {.n = n,
                               .n_nodes = n,
                               .node = node,
                               .parts = parts,
                               .units = units,
                               .cost_s = cost_s};

    for (size_t j = 0; j < n; j++)
        node[j] = (uint32_t)j;
    return create_of(&spec);
}

static const double ready[MOST];

/* Rates 2 : 1; the batch of 2 takes 4/3, of which they do 4/3 and 2/3. */
static void by_rate(void)
{
    const double x[] = {1, 2};
    struct shares *s = create(2, 1, 60, 0);

    shares_begin(s, expect(2, x, 0, 1), ready);
    size_t a = shares_claim(s, 0, 0), b = shares_claim(s, 1, 0);
    near(shares_close_s(s), 4. / 3, .01, "the close is planned for 4/3");
    ok(a >= 78 && a <= 80 && b >= 38 && b <= 40,
       "claims of 80 and 40, but for the forecast's spread: %zu and %zu", a, b);
    is_int((long long)shares_deposit(s, 0, (double)a / 60), (long long)a,
           "a deposit is taken");
    is_int((long long)shares_missing(s), 120 - (long long)a, "and counted");
    shares_free(s);
}

/* Worker 1 is free at 1: it does 1/6 in the 7/6 that both take to do 4/3. */
static void lagging(void)
{
    const double x[] = {1, 1}, lag_s[] = {0, 1};
    struct shares *s = create(2, 1, 60, 0);

    shares_begin(s, expect(2, x, 0, 1), lag_s);
    size_t a = shares_claim(s, 0, 0);
    near(shares_close_s(s), 1.5, .01, "a late worker is planned with");
    ok(a >= 88 && a <= 90, "the other takes more: %zu of 90", a);
    size_t b = shares_claim(s, 1, 1);
    ok(b >= 28 && a + b <= 120, "and it the rest: %zu", b);
    shares_begin(s, expect(2, x, 0, 1), lag_s);
    shares_claim(s, 0, 0);
    is_int((long long)shares_claim(s, 1, 1.49), 0,
           "nothing for one that could not make the close");
    shares_free(s);
}

/* Worker 1 is free at .5, sooner than expected: its rate is what it takes from
 * then on. */
static void sooner(void)
{
    const double x[] = {1, 1}, lag_s[] = {0, 1};
    struct shares *s = create(2, 3, 64, 0);

    shares_begin(s, expect(2, x, 0, 1), lag_s);
    shares_claim(s, 0, 0);
    size_t k = shares_claim(s, 1, .5);
    double now_s = .5 + (double)k / 64;
    shares_deposit(s, 1, now_s);
    shares_take(s, 1, 1, now_s);
    near(shares_left_s(s, 1, now_s), 1. / 64, 1e-9,
         "free sooner than expected: it is known how long another unit takes");
    shares_free(s);
}

/* With a cost of .1 a claim, both have 1 - .1 to compute in: T = 1.1. */
static void costs(void)
{
    const double x[] = {1, 1};
    struct shares *s = create(2, 1, 60, .1);

    shares_begin(s, expect(2, x, 0, 1), ready);
    size_t a = shares_claim(s, 0, 0);
    near(shares_close_s(s), 1.1, .01, "the cost of a claim is planned with");
    ok(a >= 58 && a <= 61, "the claim is a batch: %zu", a);
    shares_deposit(s, 0, .1 + (double)a / 60);
    shares_free(s);
}

/* One that may turn out twice as slow starts with what it could do then; one
 * that may be a hundred times as slow is not waited for anyway. */
static void caution(void)
{
    const double x[] = {1, 1, 1, 1};
    struct shares *s = create(4, 1, 100, 0);

    shares_begin(s, expect(4, x, .2, 2), ready);
    size_t a = shares_claim(s, 0, 0);
    double most = shares_close_s(s) * 100 / 2;
    ok((double)a <= 1.01 * most && (double)a >= .95 * most,
       "half of what fits, for fear of a factor of 2: %zu of %.0f", a,
       2 * most);
    shares_begin(s, expect(4, x, .1, 100), ready);
    a = shares_claim(s, 0, 0);
    ok((double)a >= .9 * shares_close_s(s) * 100,
       "all of it when slow means lost: %zu of %.0f", a,
       shares_close_s(s) * 100);
    shares_free(s);
}

/* Claims of a known rate: parts of them leave one unit of a batch. */
static void rounds(void)
{
    const double x[] = {1, 1};
    struct shares *s = create(2, 3, 64, 0);
    double now_s = 0;
    size_t claim[8], n = 0;

    shares_begin(s, expect(2, x, 0, 1), ready);
    shares_claim(s, 1, 0);
    for (; n < 8 && now_s < .95; n++) {
        claim[n] = shares_claim(s, 0, now_s);
        if (!claim[n])
            break;
        now_s += (double)claim[n] / 64;
        shares_deposit(s, 0, now_s);
    }
    ok(n >= 2 && claim[0] >= 54 && claim[0] <= 57 && claim[1] >= 6 &&
           claim[1] <= 8,
       "7/8 of 64, 7/8 of the 8 left: %zu, %zu", claim[0], claim[1]);
    shares_free(s);
}

/* The fourth stops after so many deposits: its units go to the others. */
static void straggler(int deposits, double least_s, double most_s)
{
    const double x[] = {1, 1, 1, 1};
    struct shares *s = create(4, 4, 32, 0);
    double end_s[4] = {0}, now_s = 0;
    size_t claim[4] = {0}, taken = 0;

    shares_begin(s, expect(4, x, 0, 1), ready);
    for (int i = 0; i < 2000 && shares_missing(s); i++, now_s += .005) {
        for (size_t j = 0; j < 4 && shares_missing(s); j++) {
            if (end_s[j] > now_s)
                continue;
            if (claim[j] && j == 3 && deposits-- == 0) {
                end_s[j] = INFINITY;
                continue;
            }
            taken += claim[j] ? shares_deposit(s, j, now_s) : 0;
            claim[j] = shares_claim(s, j, now_s);
            end_s[j] = now_s + (double)claim[j] / 32;
        }
    }
    is_int((long long)taken, 128, "a straggler's units are done by the others");
    ok(now_s > least_s && now_s < most_s, "in %g to %g: %g", least_s, most_s,
       now_s);
    is_int((long long)shares_deposit(s, 3, now_s), 0,
           "and what it brings is too much");
    shares_free(s);
}

/* The second claim of a worker whose second claims took so much longer a unit
 * than its first ones in 40 steps before. */
static size_t second_claim(double slower)
{
    const double x[] = {1, 1};
    struct shares *s = create(2, 3, 640, 0);
    size_t k = 0;

    for (int step = 0; step < 41; step++) {
        double now_s = 0;
        shares_begin(s, expect(2, x, .2, 2), ready);
        shares_claim(s, 1, 0);
        now_s += (double)shares_claim(s, 0, now_s) / 640;
        shares_deposit(s, 0, now_s);
        k = shares_claim(s, 0, now_s);
        now_s += (double)k * slower / 640;
        shares_deposit(s, 0, now_s);
    }
    shares_free(s);
    return k;
}

static void learns(void)
{
    size_t calm = second_claim(1), wild = second_claim(1.5);

    ok((double)wild < .75 * (double)calm && (double)wild > .55 * (double)calm,
       "rates that change make claims smaller: %zu, %zu", calm, wild);
}

/* Without a prediction: equal parts, and nobody is waited for. */
static void unpredicted(void)
{
    struct shares *s = create(2, 2, 8, 0);

    shares_begin(s, NULL, ready);
    is_int((long long)shares_claim(s, 0, 0), 4, "unpredicted: equal parts");
    is_int((long long)shares_claim(s, 1, 0), 4, "for all");
    for (int i = 1; i <= 4; i++) {
        is_int((long long)shares_deposit(s, 0, i), 4, "one does them all");
        is_int((long long)shares_claim(s, 0, i), i < 4 ? 4 : 0, "and goes on");
    }
    is_int((long long)shares_missing(s), 0, "until the batch is full");
    ok(isnan(shares_close_s(s)), "no close is planned");
    shares_free(s);
}

/* ---- without a prediction, by the rates that were seen ---- */

static struct shares *create_by_last(size_t n, size_t parts, double cost_s)
{
    struct shares_spec spec = {.n = n,
                               .n_nodes = n,
                               .parts = parts,
                               .units = parts,
                               .cost_s = cost_s,
                               .by_last = true};

    return create_of(&spec);
}

/* Two workers, two parts each; a part takes .5 and 1.6. */
static void first_step(struct shares *s)
{
    shares_begin(s, NULL, ready);
    ok(shares_claim(s, 0, 0) && shares_claim(s, 1, 0), "one each");
    for (int i = 1; i <= 3; i++) {
        is_int((long long)shares_deposit(s, 0, .5 * i), 1, "one is in");
        is_int((long long)shares_claim(s, 0, .5 * i), 1,
               "nothing is known of the other: another one");
    }
    is_int((long long)shares_deposit(s, 1, 1.6), 1, "the other's");
    is_int((long long)shares_missing(s), 0, "makes the batch full");
}

/* Until the second claim of worker 1, which is known to end at 1.6, with three
 * of worker 0's; to be in at 1.6 too, a fourth would have to begin by 1.1. */
static void second_step(struct shares *s)
{
    shares_begin(s, NULL, ready);
    ok(shares_claim(s, 0, 0) && shares_claim(s, 1, 0), "one each");
    near(shares_close_s(s), 1.6, .003, "by the last rates, closed at 1.6");
    for (int i = 1; i <= 3; i++) {
        shares_deposit(s, 0, .5 * i);
        is_int((long long)shares_claim(s, 0, .5 * i), i < 3,
               i < 3 ? "another one" : "none that can't be in by the close");
    }
}

static void by_last(void)
{
    struct shares *s = create_by_last(2, 2, 0);

    first_step(s);
    second_step(s);
    is_int((long long)shares_deposit(s, 1, 1.6), 1, "worker 1's is in");
    is_int((long long)shares_missing(s), 0, "and the batch full");
    /* It is late: at 1.8 expected at 2, at 2.2 at 2.8, which is later than one
     * that is begun then. */
    second_step(s);
    is_int((long long)shares_claim(s, 0, 1.8), 0, "a bit late: still none");
    is_int((long long)shares_claim(s, 0, 2.2), 1, "later: one more");
    second_step(s);
    shares_leave(s, 1);
    is_int((long long)shares_claim(s, 0, 1.5), 1, "gone: one more at once");
    shares_free(s);
}

/* One that took 9 for a part is given one in the next step, and no other. */
static void slow_once(void)
{
    struct shares *s = create_by_last(2, 2, 0);

    shares_begin(s, NULL, ready);
    shares_claim(s, 1, 0);
    shares_deposit(s, 1, 9);
    shares_begin(s, NULL, ready);
    is_int((long long)shares_claim(s, 0, 0), 1, "nothing is known of one");
    is_int((long long)shares_claim(s, 1, 0), 1,
           "slow once: begins all the same");
    shares_deposit(s, 0, 1);
    shares_claim(s, 0, 1);
    shares_deposit(s, 1, 1.1);
    is_int((long long)shares_claim(s, 1, 1.1), 1, "and is slow no more");
    shares_free(s);
}

/* Durations of batches of a step and when workers are free, all random. */
static void random_step(struct rng *r, double *x, double *lag_s)
{
    for (size_t j = 0; j < MOST; j++) {
        x[j] = exp(.3 * rng_normal(r));
        lag_s[j] = rng_uniform(r) < .2 ? rng_uniform(r) : 0;
    }
}

/* Units that are in when the batch is full, or after 20 s. */
static size_t play(struct shares *s, const double *x, const double *lag_s,
                   size_t units)
{
    double end_s[MOST];
    size_t claim[MOST] = {0}, taken = 0;
    double now_s = 0;

    memcpy(end_s, lag_s, sizeof end_s);
    for (int i = 0; i < 4000 && shares_missing(s); i++, now_s += .005) {
        for (size_t j = 0; j < MOST && shares_missing(s); j++) {
            if (end_s[j] > now_s)
                continue;
            taken += claim[j] ? shares_deposit(s, j, now_s) : 0;
            claim[j] = shares_claim(s, j, now_s);
            end_s[j] = now_s + .01 + (double)claim[j] * x[j] / (double)units;
        }
    }
    return taken;
}

/* Whatever the rates, and however wrong the forecast, a batch is exactly full
 * and nothing is allocated. */
static void random_steps(struct shares *s, size_t units)
{
    double x[MOST], lag_s[MOST];
    size_t over = 0, stuck = 0, before = allocations;
    struct rng r;

    rng_seed(&r, 5, 0);
    for (int step = 0; step < 60; step++) {
        random_step(&r, x, lag_s);
        shares_begin(s, step % 5 ? expect(MOST, x, .1, 3) : NULL, lag_s);
        for (size_t j = 0; j < MOST; j++)
            x[j] *= exp(.2 * rng_normal(&r));
        if (step % 7 == 0)
            shares_leave(s, 3);
        over += play(s, x, lag_s, units) != MOST * units;
        stuck += shares_missing(s) != 0;
    }
    ok(!stuck && !over, "60 steps are full, exactly: %zu stuck, %zu not", stuck,
       over);
    is_int((long long)(allocations - before), 0, "without an allocation");
    shares_free(s);
}

static void alone(void)
{
    const double x[] = {1};
    struct shares *s = create(1, 2, 16, 0);
    double now_s = 0;

    shares_begin(s, expect(1, x, 0, 1), ready);
    for (int i = 0; i < 100 && shares_missing(s); i++) {
        /* ten times as slow as expected */
        now_s += (double)shares_claim(s, 0, now_s) * 10 / 16;
        shares_deposit(s, 0, now_s);
    }
    near(now_s, 10, 1e-9, "one worker does it all");
    shares_free(s);
}

/* A stopped worker is expected for longer and longer, one with a known rate for
 * what is left; a late start is no lateness. */
static void expected(void)
{
    const double x[] = {1, 1, 1, 1};
    struct shares *s = create(4, 2, 8, 0);
    size_t k[4];

    shares_begin(s, expect(4, x, 0, 1), ready);
    for (size_t j = 0; j < 4; j++)
        k[j] = shares_claim(s, j, 0);
    double all = (double)k[0] / 8;
    near(shares_left_s(s, 0, 0), all, .1 * all, "as long as its claim");
    shares_began(s, 1, .3);
    near(shares_left_s(s, 1, .3), (double)k[1] / 8, .1 * all,
         "from its own start");
    near(shares_rate(s, 0), 24, 1.5, "the three others do 24 units a second");
    double in_s = (double)k[2] / 8;
    shares_deposit(s, 2, in_s);
    shares_take(s, 2, 1, in_s);
    near(shares_left_s(s, 2, in_s + .1), .025, 1e-6, "one unit at its rate");
    near(shares_left_s(s, 2, in_s + .2), .075, 1e-6, "overdue, as long again");
    double left[3];
    for (int i = 0; i < 3; i++)
        left[i] = shares_left_s(s, 0, 2 * (i + 1));
    ok(left[0] < left[1] && left[1] < left[2] && left[2] > 4,
       "a stopped one is expected in %.1f, %.1f, %.1f s", left[0], left[1],
       left[2]);
    shares_free(s);
}

/* With a high throughput elsewhere the last units are not worth the wait. */
static void stops(void)
{
    const double x[] = {1, 1, 1, 1};
    struct shares *s = create(4, 2, 8, 0);

    shares_batch(s, 28);
    shares_begin(s, expect(4, x, 0, 1), ready);
    for (size_t j = 0; j < 4; j++)
        shares_take(s, j, 8, 0);
    for (size_t j = 0; j < 3; j++)
        shares_deposit(s, j, 1);
    is_int((long long)shares_missing(s), 4, "of a batch of 28 units");
    shares_plan(s, 1.01);
    ok(!shares_stop(s, 1.01, 1), "worth waiting for, at a unit a second");
    ok(shares_stop(s, 1.01, 1e3), "not at a thousand");
    ok(!shares_stop(s, 1.01, NAN), "nothing is known: wait");
    shares_free(s);
}

/* One worker's first component is far from the one that counts: the walk to
 * it ends, and nothing that follows is beyond the batch. */
static void far_off(float mu)
{
    const double x[] = {1, 1, 1, 1};
    struct shares *s = create(4, 2, 8, 0);

    shares_begin(s, expect(4, x, 0, 1), ready);
    expect(4, x, 1 - 1e-9, 1);
    forecast.mu[0] = mu;
    alarm(20);
    shares_begin(s, &forecast.p, ready);
    for (size_t j = 0; j < 4; j++) {
        size_t k = shares_claim(s, j, 0);
        ok(k <= 32, "log duration %g: worker %zu claims %zu", (double)mu, j, k);
        if (k)
            shares_deposit(s, j, 1);
    }
    ok(shares_close_s(s) > 0, "a close is planned");
    alarm(0);
    shares_free(s);
}

static void refused(void)
{
    static const uint32_t node[1];
    static const struct shares_spec good = {
        .n = 1, .n_nodes = 1, .node = node, .parts = 2, .units = 2};
    struct shares_spec bad[5] = {good, good, good, good, good};
    struct shares *s;
    struct dsgd_error err;

    bad[0].n = 0;
    bad[1].parts = 0;
    bad[2].units = 1;
    bad[3].cost_s = NAN;
    bad[4].units = SIZE_MAX;
    for (int i = 0; i < 5; i++)
        ok(shares_create(&bad[i], &s, &err) == DSGD_E_RANGE && !s,
           "refused: %s", err.text);
}

int main(void)
{
    by_rate();
    lagging();
    sooner();
    costs();
    caution();
    rounds();
    straggler(0, 1.33, 1.6);
    straggler(1, 1.05, 1.3);
    learns();
    unpredicted();
    by_last();
    slow_once();
    random_steps(create(MOST, 3, 24, .01), 24);
    random_steps(create_by_last(MOST, 8, .01), 8);
    alone();
    expected();
    stops();
    far_off(-1e9f);
    far_off(-1e3f);
    far_off(-1e17f);
    refused();
    return done();
}
