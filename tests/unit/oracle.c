/* The oracle against brute force, and the known facts of the real traces. */
#include "oracle.h"

#include "model_data.h"
#include "rng.h"

enum { N = 4, ROWS = 5, PLANS = 1024 }; /* N ^ ROWS */

static double rate_of(const double *sorted, double overhead_s, int plan)
{
    double count = 0, time_s = 0;

    for (int r = 0; r < ROWS; r++, plan /= N) {
        count += plan % N + 1;
        time_s += sorted[r * N + plan % N] + overhead_s;
    }
    return count / time_s;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void brute_force(void)
{
    double worst = 0, worst_plan = 0, worst_static = 0;
    struct rng r;

    rng_seed(&r, 1, 0);
    for (int round = 0; round < 300; round++) {
        double x[ROWS * N], best = 0, fixed = 0, o = rng_range(&r, 0, .5);
        size_t cutoff[ROWS];
        struct oracle found;
        for (int i = 0; i < ROWS * N; i++)
            x[i] = .1 + rng_exponential(&r);
        for (int i = 0; i < ROWS; i++)
            qsort(x + i * N, N, sizeof *x, compare);
        for (int plan = 0; plan < PLANS; plan++)
            best = fmax(best, rate_of(x, o, plan));
        for (int c = 0; c < N; c++) /* 341 is 11111 to the base of 4 */
            fixed = fmax(fixed, rate_of(x, o, c * 341));
        oracle_find(ROWS, N, x, o, cutoff, &found);
        int plan = 0;
        for (int i = ROWS - 1; i >= 0; i--)
            plan = plan * N + (int)cutoff[i] - 1;
        worst = fmax(worst, fabs(found.throughput / best - 1));
        worst_plan = fmax(worst_plan, fabs(rate_of(x, o, plan) / best - 1));
        worst_static = fmax(worst_static, fabs(found.best_static / fixed - 1));
    }
    near(worst, 0, 1e-12, "throughput, 300 times, against all 1024 plans");
    near(worst_plan, 0, 1e-12, "the cutoffs returned give it");
    near(worst_static, 0, 1e-12, "best static");
}

static void by_hand(void)
{
    const double x[] = {1, 1, 4, /**/ 1, 2, 2};
    struct oracle o;

    oracle_find(2, 3, x, 0, NULL, &o);
    near(o.throughput, 5.0 / 3, 1e-12, "two of the first, three of the second");
    near(o.full, 1, 1e-12, "full");
    near(o.best_static, 4.0 / 3, 1e-12, "static");
    is_int((long long)o.best_c, 2, "two");
}

/* tests/data/traces: without overhead, from the first step on. */
static void facts(const char *name, double full, double fixed)
{
    struct trace *t = data_trace(name);
    struct oracle o;

    if (!t)
        return;
    double *sorted = oracle_sort(t, 0);
    oracle_find(t->steps, t->n, sorted, 0, NULL, &o);
    near(o.full / o.throughput, full, .0015, "full");
    near(o.best_static / o.throughput, fixed, .0015, "best static");
    free(sorted);
    trace_free(t);
}

int main(void)
{
    brute_force();
    by_hand();
    facts("pai-job1", .986, .986);
    facts("pai-job4", .364, .954);
    facts("bytedance-SE-dp32", .949, .983);
    facts("varbench-1024", .967, .998);
    return done();
}
