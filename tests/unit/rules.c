/* The fixed rules, their samples, and the running throughput. */
#include "lambda.h"
#include "order_stats.h"
#include "predictive_make.h"
#include "rules.h"
#include "tap.h"

static void names(void)
{
    struct dsgd_error err;
    enum rule r = RULE_PAPER;

    is_int(rule_parse("DSGD_RULE", NULL, &r, &err), DSGD_OK, "no rule");
    is_int(r, RULE_LIVE, "means live");
    is_int(rule_parse("--rule", "renewal", &r, &err), DSGD_OK, "renewal");
    is_int(r, RULE_RENEWAL, "is read");
    is_int(rule_parse("--rule", "papre", &r, &err), DSGD_E_USAGE, "a typo");
    is_str(err.text, "--rule: \"papre\" is none of paper|ratio|renewal|live",
           "names the rules");
    is_int(r, RULE_RENEWAL, "and changes nothing");
    is_str(rule_name(RULE_RATIO), "ratio", "a rule's name");
}

/* Two samples of three workers:  1 2 9  and  1 3 4,  o = 1. */
static void pick(void)
{
    double x[] = {9, 1, 2, 3, 4, 1}, bad[] = {1, NAN}, low[] = {-2, 1};
    struct dsgd_error err;
    size_t c = 77;

    ok(rule_sort(3, 2, x) && x[0] == 1 && x[2] == 9 && x[3] == 1 && x[5] == 4,
       "samples are sorted one by one");
    /* means 2, 3.5, 7.5: rates .5, .571, .4 */
    rule_pick(RULE_PAPER, 3, 2, x, 1, 0, &c, &err);
    is_int((long long)c, 2, "paper: c / E[x + o]");
    /* E[1/t]: .5, .2917, .15: .5, .583, .45 */
    rule_pick(RULE_RATIO, 3, 2, x, 1, 0, &c, &err);
    is_int((long long)c, 2, "ratio: E[c / (x + o)]");
    rule_pick(RULE_RENEWAL, 3, 2, x, 1, .2, &c, &err);
    is_int((long long)c, 3, "renewal: a low lambda waits");
    rule_pick(RULE_RENEWAL, 3, 2, x, 1, .5, &c, &err);
    is_int((long long)c, 2, "renewal: a higher one does not");
    rule_pick(RULE_RENEWAL, 3, 2, x, 1, .9, &c, &err);
    is_int((long long)c, 1, "renewal: nor a still higher one");
    /* the two kinds of mean differ: 1 10 | 1 1.2 */
    double y[] = {1, 10, 1, 1.2};
    rule_pick(RULE_PAPER, 2, 2, y, 0, 0, &c, &err);
    is_int((long long)c, 1, "paper: 2 / 5.6 is less than 1");
    double z[] = {1, 30, 1, 1.02};
    rule_pick(RULE_RATIO, 2, 2, z, 0, 0, &c, &err);
    is_int((long long)c, 2, "ratio: (2/30 + 2/1.02) / 2 is more");

    c = 77;
    ok(!rule_sort(2, 1, bad) && !rule_sort(2, 1, low),
       "NaN and negative samples are refused");
    is_int(rule_pick(RULE_PAPER, 2, 1, bad, 0, 0, &c, &err), DSGD_E_RANGE,
           "NaN");
    is_int(rule_pick(RULE_PAPER, 2, 1, low, 0, 0, &c, &err), DSGD_E_RANGE,
           "a time below 0");
    is_int(rule_pick(RULE_RENEWAL, 2, 1, y, 0, NAN, &c, &err), DSGD_E_RANGE,
           "lambda NaN");
    is_int(rule_pick(RULE_LIVE, 2, 1, y, 0, 1, &c, &err), DSGD_E_RANGE,
           "live is no fixed rule");
    is_int(rule_pick(RULE_PAPER, 0, 1, y, 0, 1, &c, &err), DSGD_E_RANGE,
           "no workers");
    is_int((long long)c, 77, "and c is left alone");
}

/* With one atom and one component the order statistics of the samples are those
 * of the normal distribution. */
static void sampling(void)
{
    enum { N = 20, SAMPLES = 4000 };
    static double a[SAMPLES * N], b[SAMPLES * N];
    struct made m;
    double worst = 0;

    made_init(&m, N, 2, .1);
    for (int j = 0; j < N; j++) {
        m.mu[j * PRED_K] = 0;
        m.log_w[j * PRED_K] = 60;
    }
    for (int i = 0; i < 2 * PRED_M; i++)
        m.node_shift[i] = 0;
    for (int g = 0; g < PRED_G; g++)
        m.shift[g] = m.scale[g] = 0;
    rule_sample(&m.p, 1, 5, SAMPLES, a);
    rule_sample(&m.p, 1, 5, SAMPLES, b);
    ok(memcmp(a, b, sizeof a) == 0, "the same seed and step, the same bits");
    rule_sample(&m.p, 1, 6, SAMPLES, b);
    ok(memcmp(a, b, sizeof a) != 0, "another step, others");
    rule_sample(&m.p, 2, 5, SAMPLES, b);
    ok(memcmp(a, b, sizeof a) != 0, "another seed, others");
    ok(rule_sort(N, SAMPLES, a), "all positive");
    for (int c = 1; c <= N; c++) {
        double sum = 0;
        for (int s = 0; s < SAMPLES; s++)
            sum += log(a[s * N + c - 1]) / SAMPLES;
        /* Elfving is off by up to .01, the samples by .1 / sqrt(4000) */
        worst = fmax(worst, fabs(sum - .1 * elfving((size_t)c, N)));
    }
    near(worst, 0, .006, "expected order statistics of a normal cluster");
    made_free(&m);
}

/* The atoms are drawn with their probabilities. */
static void atoms(void)
{
    enum { N = 4, SAMPLES = 6000 };
    static double x[SAMPLES * N];
    struct made m;
    size_t slow = 0, both = 0;

    made_init(&m, N, 2, .02);
    for (int j = 0; j < N; j++)
        m.log_w[j * PRED_K] = 60;
    m.node_shift[1] = 2; /* atom 1 of node 0, probability .03 */
    rule_sample(&m.p, 3, 0, SAMPLES, x);
    for (int s = 0; s < SAMPLES; s++) {
        slow += x[s * N] > 4;
        both += x[s * N] > 4 && x[s * N + 1] > 4;
    }
    near((double)slow / SAMPLES, .03, .01, "a node atom");
    is_int((long long)both, (long long)slow, "takes its workers together");
    made_free(&m);
}

static void running(void)
{
    const double order_s[] = {1, 1.1, 3};
    struct lambda l;

    lambda_init(&l, 300);
    ok(isnan(lambda_get(&l)), "nothing known yet");
    lambda_add(&l, NAN, 1);
    lambda_add(&l, 5, 0);
    lambda_add(&l, -1, 1);
    ok(isnan(lambda_get(&l)), "nonsense is ignored");
    near(lambda_best_static(3, order_s, .1), 2 / 1.2, 1e-15,
         "best static throughput");
    lambda_seed(&l, 2, 15, 1.5);
    near(lambda_get(&l), 2, 1e-15, "seeded");
    for (int i = 0; i < 15; i++)
        lambda_add(&l, 6, 1.5);
    near(lambda_get(&l), 3, .05, "fifteen steps weigh as much as the seed");
    lambda_seed(&l, NAN, 15, 1);
    near(lambda_get(&l), 3, .05, "a seed of NaN is ignored");
}

int main(void)
{
    names();
    pick();
    sampling();
    atoms();
    running();
    return done();
}
