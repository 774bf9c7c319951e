/* Random numbers with an explicit state.  The same seed gives the same bits on
 * every machine: xoshiro256++ (Blackman & Vigna 2019) seeded by splitmix64, and
 * variates in plain IEEE arithmetic (detmath.h). */
#ifndef DSGD_RNG_H
#define DSGD_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rng {
    uint64_t s[4];
    double spare; /* second normal of a pair, NaN: none */
};

/* Start a stream; different (seed, stream) give independent sequences. */
void rng_seed(struct rng *r, uint64_t seed, uint64_t stream);

uint64_t rng_u64(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t n); /* 0..n-1, unbiased; n >= 1 */

double rng_uniform(struct rng *r);                         /* [0, 1) */
double rng_range(struct rng *r, double lo, double hi);     /* [lo, hi) */
double rng_log_range(struct rng *r, double lo, double hi); /* log-uniform */
double rng_normal(struct rng *r);                          /* N(0, 1) */
double rng_exponential(struct rng *r);                     /* mean 1 */
double rng_gamma(struct rng *r, double shape); /* scale 1; shape >= 1 */
double rng_student(struct rng *r, double df);  /* df >= 2 */
double rng_pareto(struct rng *r,
                  double alpha); /* Lomax: P(X > x) = (1+x)^-alpha
                                                 */
/* Trials until the first success, mean 1/p, at least 1; 0 < p <= 1. */
uint64_t rng_geometric(struct rng *r, double p);

/* A uniformly random permutation of 0..n-1 into out [n]. */
void rng_permutation(struct rng *r, size_t n, uint32_t *out);

#endif
