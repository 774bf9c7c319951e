#include "order_stats.h"

#include <math.h>

#include "error.h"

/* Coefficients of Peter J. Acklam's approximation, |rel. error| < 1.15e-9. */
static const double num_mid[] = {-3.969683028665376e+01, 2.209460984245205e+02,
                                 -2.759285104469687e+02, 1.383577518672690e+02,
                                 -3.066479806614716e+01, 2.506628277459239e+00};
static const double den_mid[] = {-5.447609879822406e+01, 1.615858368580409e+02,
                                 -1.556989798598866e+02, 6.680131188771972e+01,
                                 -1.328068155288572e+01, 1.0};
static const double num_tail[] = {
    -7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
    -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
static const double den_tail[] = {7.784695709041462e-03, 3.224671290700398e-01,
                                  2.445134137142996e+00, 3.754408661907416e+00,
                                  1.0};

static double horner(const double *c, size_t n, double x)
{
    double y = c[0];
    for (size_t i = 1; i < n; i++)
        y = y * x + c[i];
    return y;
}

double normal_quantile(double p)
{
    double x;
    if (!(p > 0 && p < 1))
        return NAN;
    if (p < 0.02425 || p > 1 - 0.02425) {
        double q = sqrt(-2 * log(p < 0.5 ? p : 1 - p));
        x = horner(num_tail, 6, q) / horner(den_tail, 5, q);
        if (p > 0.5)
            x = -x;
    } else {
        double q = p - 0.5, r = q * q;
        x = q * horner(num_mid, 6, r) / horner(den_mid, 6, r);
    }
    double e = 0.5 * erfc(-x * M_SQRT1_2) - p;
    double u = e * sqrt(2 * M_PI) * exp(x * x / 2);
    return x - u / (1 + x * u / 2);
}

double elfving(size_t k, size_t n)
{
    const double a = M_PI / 8;
    if (k < 1 || k > n)
        return NAN;
    return normal_quantile(((double)k - a) / ((double)n - 2 * a + 1));
}

enum dsgd_err cutoff_pick(size_t n, const double *order_s, double overhead_s,
                          size_t *k, struct dsgd_error *err)
{
    size_t best = 0;
    double best_rate = 0;
    if (n < 1)
        return error_set(err, DSGD_E_RANGE, "cutoff_pick: no workers");
    for (size_t c = 1; c <= n; c++) {
        double time_s = order_s[c - 1] + overhead_s;
        if (!(time_s > 0))
            return error_set(err, DSGD_E_RANGE,
                             "cutoff_pick: step time %g s for c = %zu", time_s,
                             c);
        double rate = (double)c / time_s;
        if (rate >= best_rate) {
            best_rate = rate;
            best = c;
        }
    }
    *k = best;
    return DSGD_OK;
}
