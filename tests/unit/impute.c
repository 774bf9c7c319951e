/* What is expected of censored durations, against the predictive's own density
 * by numerical integration. */
#include <math.h>

#include "predictive_grad.h"
#include "predictive_impute.h"
#include "predictive_make.h"
#include "set_filter.h"
#include "tap.h"
#include "timing.h"

enum { N = 6, NODES = 2 };

static struct made made;

/* Mean and variance of worker j's log duration beyond its bound: its density
 * there is the likelihood of a row in which it is known. */
static void integrate(const float *y, const uint8_t *status, size_t j,
                      double *mean, double *var)
{
    double top = predictive_loglik_grad(&made.p, y, status, 0, NULL, NULL);
    double sum = 0, first = 0, second = 0, step = .0005;
    uint8_t known[N];
    float at[N];

    memcpy(at, y, sizeof at);
    memcpy(known, status, sizeof known);
    known[j] = TIMING_EXACT;
    for (int i = 0; i < 16000; i++) {
        double beyond = (i + .5) * step;
        at[j] = (float)(y[j] + beyond);
        double w =
            exp(predictive_loglik_grad(&made.p, at, known, 0, NULL, NULL) -
                top) *
            step;
        sum += w;
        first += w * beyond;
        second += w * beyond * beyond;
    }
    near(sum, 1, 2e-3, "the density adds up");
    *mean = y[j] + first / sum;
    *var = second / sum - first / sum * (first / sum);
}

static void compare(const char *what, const float *y, const uint8_t *status)
{
    double work[512], mean, var;
    float got_mean[N], got_var[N];

    ok(predictive_impute_work(NODES) <= 512, "%s: workspace", what);
    predictive_impute(&made.p, y, status, work, got_mean, got_var);
    for (size_t j = 0; j < N; j++) {
        if (status[j] != TIMING_CENSORED) {
            ok(got_mean[j] == y[j] && got_var[j] == 0,
               "%s: worker %zu is as observed", what, j);
            continue;
        }
        integrate(y, status, j, &mean, &var);
        near(got_mean[j], mean, 2e-3, "the mean beyond its bound");
        near(got_var[j], var, 2e-3, "and the variance");
    }
}

static void test_moments(void)
{
    static const float y[N] = {.1f, -.1f, .2f, .9f, 1.1f, .6f};
    static const uint8_t status[N] = {TIMING_EXACT,    TIMING_CENSORED,
                                      TIMING_EXACT,    TIMING_EXACT,
                                      TIMING_CENSORED, TIMING_CENSORED};
    static const uint8_t none[N] = {TIMING_NONE, TIMING_CENSORED, TIMING_EXACT,
                                    TIMING_NONE, TIMING_PROGRESS, TIMING_EXACT};

    compare("some cut", y, status);
    compare("some not heard of", y, none);
}

/* The others of its node tell how slow a worker is. */
static void test_atoms(void)
{
    float y[N] = {0, .1f, 0, 0, .05f, -.05f}, fast[N], slow[N], var[N];
    uint8_t status[N] = {2, 2, 2, 2, 2, TIMING_CENSORED};
    double work[512];

    predictive_impute(&made.p, y, status, work, fast, var);
    y[3] = y[4] = .8f;
    predictive_impute(&made.p, y, status, work, slow, var);
    ok(slow[5] > fast[5] + .2, "one of a slow node is slow");
}

/* A bound far below what is expected is believed in part only, and what is no
 * number is left alone. */
static void test_extremes(void)
{
    float y[N] = {0, 0, 0, 0, 0, -30}, mean[N], var[N];
    uint8_t status[N] = {2, 2, TIMING_CENSORED, 2, TIMING_CENSORED, 0};
    double work[512];

    y[2] = 20;
    y[4] = NAN;
    predictive_impute(&made.p, y, status, work, mean, var);
    ok(mean[2] >= 20 && mean[2] < 22 && var[2] >= 0, "a bound far above");
    ok(mean[5] > -30 && mean[5] < -25 && var[5] >= 0, "one far below");
    ok(isnan(mean[4]) && var[4] == 0, "one that is not finite");
}

/* A worker that is cut in its slow mode is known to have one. */
static void test_filter(void)
{
    struct set_filter *f;
    size_t size;
    float y[2] = {0, 0}, mean[2] = {0, .7f}, var[2] = {0, .04f};
    uint8_t status[2] = {2, 2};
    const struct set_imputed imputed = {mean, var};

    set_filter_create(2, 1, (uint32_t[]){0, 0}, 0, SET_FLAGS_ONE, &f, NULL);
    double *state = set_filter_state(f, &size), *fast = state + 2;
    double *spread = state + 4, *weight = state + 8, *age = state + 10;
    for (size_t i = 0; i < 40; i++) {
        bool cut = i % 4 == 3;
        status[1] = cut ? TIMING_CENSORED : TIMING_EXACT;
        y[1] = cut ? .1f : 0;
        set_filter_update(f, y, status, &imputed);
    }
    ok(spread[1] > .03 && spread[0] < .001, "its variance holds both modes");
    ok(weight[1] == 0 && age[1] == 1, "it was not observed all the same");
    double before = fast[1];
    mean[1] = NAN;
    set_filter_update(f, y, status, &imputed);
    ok(fast[1] >= before && fast[1] < before + .2,
       "without an expectation it goes by its own normal");
    set_filter_free(f);
}

/* A slow worker that is always cut long before it would come is not thought
 * slower every time, though what is expected beyond the bound is. */
static void test_cut_often(void)
{
    struct set_filter *f;
    size_t size;
    float y[2] = {0, .5f}, mean[2] = {0}, var[2] = {0, .04f};
    uint8_t status[2] = {2, 2};
    const struct set_imputed imputed = {mean, var};

    set_filter_create(2, 1, (uint32_t[]){0, 0}, 0, SET_FLAGS_ONE, &f, NULL);
    double *fast = set_filter_state(f, &size) + 2;
    for (size_t i = 0; i < 20; i++)
        set_filter_update(f, y, status, &imputed);
    status[1] = TIMING_CENSORED;
    y[1] = .1f;
    for (size_t i = 0; i < 60; i++) {
        mean[1] = (float)fast[1] + .1f;
        set_filter_update(f, y, status, &imputed);
    }
    ok(fast[1] < .9, "%.2f is expected after 60 cuts, .5 was", fast[1]);
    y[1] = 1.5f;
    mean[1] = 1.6f;
    for (size_t i = 0; i < 20; i++)
        set_filter_update(f, y, status, &imputed);
    ok(fast[1] > 1.5, "one that ran for longer is");
    set_filter_free(f);
}

int main(void)
{
    made_init(&made, N, NODES, .3);
    test_moments();
    test_atoms();
    test_extremes();
    test_filter();
    test_cut_often();
    made_free(&made);
    return done();
}
