/* Order statistics against exact and tabulated values. */
#include "order_stats.h"
#include "tap.h"

/* Phi(quantile(p)) == p over the whole range. */
static void round_trip(void)
{
    double worst = 0;
    for (int i = 1; i < 100000; i++) {
        double p = i / 100000.0, x = normal_quantile(p);
        double back = 0.5 * erfc(-x * M_SQRT1_2);
        worst = fmax(worst, fabs(back - p) / p);
    }
    near(worst, 0, 1e-13, "normal_quantile inverts the distribution");
    near(normal_quantile(0.975), 1.959963984540054, 1e-14, "97.5 % point");
    near(normal_quantile(1e-10), -6.361340902404056, 1e-12, "far tail");
    ok(isnan(normal_quantile(0)) && isnan(normal_quantile(1)) &&
           isnan(normal_quantile(NAN)),
       "outside (0, 1) is NaN");
}

/* Expected largest of n: Harter (1961) to five decimals. */
static void expected(void)
{
    near(elfving(2, 2), 0.56419, 0.04, "largest of 2");
    near(elfving(10, 10), 1.53875, 0.025, "largest of 10");
    near(elfving(100, 100), 2.50759, 0.02, "largest of 100");
    near(elfving(5, 9), 0, 1e-15, "the median is 0");
    near(elfving(3, 10), -elfving(8, 10), 1e-14, "antisymmetric");
    ok(isnan(elfving(0, 5)) && isnan(elfving(6, 5)), "outside 1..n is NaN");
}

static void pick(void)
{
    const double even[] = {1, 1, 1, 1}, tail[] = {1, 1.1, 1.2, 5};
    const double bad[] = {1, NAN};
    struct dsgd_error err;
    size_t k = 99;

    is_int(cutoff_pick(4, even, 0, &k, &err), DSGD_OK, "all equal");
    is_int((long long)k, 4, "all equal: wait for all");
    cutoff_pick(4, tail, 0, &k, &err);
    is_int((long long)k, 3, "a straggler is cut");
    cutoff_pick(4, tail, 100, &k, &err);
    is_int((long long)k, 4, "not when the overhead dwarfs it");
    k = 99;
    is_int(cutoff_pick(2, bad, 0, &k, &err), DSGD_E_RANGE, "NaN is an error");
    is_int((long long)k, 99, "and leaves k alone");
    is_int(cutoff_pick(0, bad, 0, &k, &err), DSGD_E_RANGE, "no workers");
    is_str(err.text, "cutoff_pick: no workers", "and says so");
}

int main(void)
{
    round_trip();
    expected();
    pick();
    return done();
}
