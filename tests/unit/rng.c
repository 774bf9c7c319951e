/* Random numbers: reference bits, and moments within stated errors. */
#include "rng.h"

#include "detmath.h"
#include "tap.h"

/* The first outputs of xoshiro256++ from state 1, 2, 3, 4 are public. */
static void reference_bits(void)
{
    struct rng a, b, c;

    rng_seed(&a, 7, 0);
    rng_seed(&b, 7, 0);
    rng_seed(&c, 7, 1);
    bool same = true, other = false;
    for (int i = 0; i < 1000; i++) {
        uint64_t x = rng_u64(&a);
        same &= x == rng_u64(&b);
        other |= x != rng_u64(&c);
    }
    ok(same, "the same seed gives the same bits");
    ok(other, "another stream gives others");

    struct rng known = {{1, 2, 3, 4}, NAN};
    static const uint64_t first[] = {41943041u, 58720359u, 3588806011781223u,
                                     3591011842654386u};
    bool good = true;
    for (int i = 0; i < 4; i++)
        good &= rng_u64(&known) == first[i];
    ok(good, "xoshiro256++ from state 1, 2, 3, 4");
}

static void functions(void)
{
    double log_err = 0, exp_err = 0, sin_err = 0;

    for (int i = -20000; i <= 20000; i++) {
        double x = i * .0351, y = exp(i * .03);
        exp_err = fmax(exp_err, fabs(det_exp(x) / exp(x) - 1));
        log_err =
            fmax(log_err, fabs(det_log(y) - log(y)) / fmax(1, fabs(log(y))));
        sin_err = fmax(sin_err, fabs(det_sin_turns(i * .00137) -
                                     sin(2 * M_PI * (i * .00137))));
    }
    near(exp_err, 0, 1e-15, "det_exp");
    near(log_err, 0, 1e-15, "det_log");
    near(sin_err, 0, 1e-13, "det_sin_turns");
    ok(isnan(det_log(-1)) && det_log(0) == -INFINITY && det_exp(-800) == 0 &&
           isinf(det_exp(800)) && isnan(det_exp(NAN)),
       "at the edges");
}

typedef double draw(struct rng *r);

/* Mean and variance of 400,000 draws, within 5 standard errors. */
static void moments(const char *name, draw *f, double mean, double var)
{
    enum { DRAWS = 400000 };
    double m = 0, s = 0, q = 0;
    struct rng r;

    rng_seed(&r, 1, 2);
    for (int i = 1; i <= DRAWS; i++) {
        double x = f(&r), d = x - m;
        m += d / i;
        s += d * (x - m);
        q += pow(x - mean, 4);
    }
    s /= DRAWS;
    q /= DRAWS;
    ok(fabs(m - mean) <= 5 * sqrt(s / DRAWS) &&
           fabs(s - var) <= 5 * sqrt(fmax(q - s * s, 0) / DRAWS),
       "%s: mean %.4f (%.4f), variance %.4f (%.4f)", name, m, mean, s, var);
}

static double draw_gamma(struct rng *r)
{
    return rng_gamma(r, 4);
}
static double draw_student(struct rng *r)
{
    return rng_student(r, 12);
}
static double draw_geometric(struct rng *r)
{
    return (double)rng_geometric(r, .3);
}
static double draw_pareto(struct rng *r)
{
    return rng_pareto(r, 12);
}
static double draw_below(struct rng *r)
{
    return (double)rng_below(r, 7);
}

static void permutation(void)
{
    enum { N = 5, DRAWS = 50000 };
    int at[N][N] = {{0}};
    uint32_t p[N];
    struct rng r;
    double worst = 0;

    rng_seed(&r, 3, 3);
    for (int i = 0; i < DRAWS; i++) {
        rng_permutation(&r, N, p);
        for (int k = 0; k < N; k++)
            at[k][p[k]]++;
    }
    for (int k = 0; k < N; k++) {
        for (int v = 0; v < N; v++)
            worst = fmax(worst, fabs(at[k][v] / (double)DRAWS - 1.0 / N));
    }
    near(worst, 0, 5 * sqrt(.2 * .8 / DRAWS), "each value at each place");
    rng_permutation(&r, 1, p);
    is_int(p[0], 0, "of one");
}

int main(void)
{
    reference_bits();
    functions();
    moments("uniform", rng_uniform, .5, 1.0 / 12);
    moments("below 7", draw_below, 3, 4);
    moments("normal", rng_normal, 0, 1);
    moments("exponential", rng_exponential, 1, 1);
    moments("gamma(4)", draw_gamma, 4, 4);
    moments("Student(12)", draw_student, 0, 1.2);
    moments("geometric(.3)", draw_geometric, 1 / .3, .7 / .09);
    moments("Pareto(12)", draw_pareto, 1.0 / 11, 12.0 / (121 * 10));
    permutation();
    struct rng r;
    rng_seed(&r, 1, 1);
    ok(rng_geometric(&r, 1) == 1, "a sure success is the first trial");
    return done();
}
