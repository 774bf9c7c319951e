#include "detmath.h"

#include <math.h>

double det_log(double x)
{
    int exponent;

    if (!(x > 0))
        return x == 0 ? -INFINITY : NAN;
    if (isinf(x))
        return x;
    double m = frexp(x, &exponent);
    if (m < M_SQRT1_2) {
        m *= 2;
        exponent--;
    }
    /* log m = 2 artanh s, |s| <= .172 */
    double s = (m - 1) / (m + 1), s2 = s * s, sum = 0;
    for (int k = 21; k >= 1; k -= 2)
        sum = sum * s2 + 1.0 / k;
    return exponent * 0.6931471803691238 +
           (2 * s * sum + exponent * 1.9082149292705877e-10);
}

double det_exp(double x)
{
    if (isnan(x))
        return x;
    if (x > 709.78)
        return INFINITY;
    if (x < -745.2)
        return 0;
    double k = rint(x * M_LOG2E);
    double r = (x - k * 0.6931471803691238) - k * 1.9082149292705877e-10;
    double sum = 1;
    for (int i = 14; i >= 1; i--)
        sum = 1 + sum * r / i;
    return ldexp(sum, (int)k);
}

double det_sin_turns(double x)
{
    double f = x - rint(x); /* -1/2 … 1/2 turn */

    if (fabs(f) > 0.25)
        f = copysign(0.5, f) - f;
    double a = 2 * M_PI * f, a2 = a * a, sum = 1;
    for (int k = 23; k >= 3; k -= 2)
        sum = 1 - sum * a2 / (k * (k - 1));
    return a * sum;
}
