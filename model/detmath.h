/* log, exp and sine in plain IEEE arithmetic: the same bits on every machine,
 * which the C library does not promise (its variants for CPUs with and without
 * FMA differ in the last place).  Relative error below 1e-15.  Compile without
 * contraction (-ffp-contract=off). */
#ifndef DSGD_DETMATH_H
#define DSGD_DETMATH_H

/* Natural logarithm; -inf at 0, NaN below. */
double det_log(double x);

/* e^x, 0 below -745, inf above 709.78. */
double det_exp(double x);

/* sin(2 pi x) */
double det_sin_turns(double x);

#endif
