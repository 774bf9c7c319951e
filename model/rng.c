#include "rng.h"

#include <math.h>

#include "detmath.h"

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void rng_seed(struct rng *r, uint64_t seed, uint64_t stream)
{
    uint64_t state = stream;
    state = splitmix64(&state) ^ seed;
    for (int i = 0; i < 4; i++)
        r->s[i] = splitmix64(&state);
    r->spare = NAN;
}

static uint64_t rotl(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

uint64_t rng_u64(struct rng *r)
{
    uint64_t *s = r->s, result = rotl(s[0] + s[3], 23) + s[0], t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
    /* The first 2^64 mod n values are refused: what is left is a multiple. */
    uint64_t refuse = -n % n, x;

    do {
        x = rng_u64(r);
    } while (x < refuse);
    return x % n;
}

double rng_uniform(struct rng *r)
{
    return (double)(rng_u64(r) >> 11) * 0x1p-53;
}

double rng_range(struct rng *r, double lo, double hi)
{
    return lo + (hi - lo) * rng_uniform(r);
}

double rng_log_range(struct rng *r, double lo, double hi)
{
    return det_exp(rng_range(r, det_log(lo), det_log(hi)));
}

double rng_normal(struct rng *r)
{
    double u, v, q;

    if (!isnan(r->spare)) {
        u = r->spare;
        r->spare = NAN;
        return u;
    }
    do { /* Marsaglia's polar method */
        u = 2 * rng_uniform(r) - 1;
        v = 2 * rng_uniform(r) - 1;
        q = u * u + v * v;
    } while (!(q > 0 && q < 1));
    double f = sqrt(-2 * det_log(q) / q);
    r->spare = v * f;
    return u * f;
}

double rng_exponential(struct rng *r)
{
    return -det_log(1 - rng_uniform(r));
}

double rng_gamma(struct rng *r, double shape)
{
    /* Marsaglia & Tsang 2000 */
    double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);

    for (;;) {
        double x = rng_normal(r), v = 1 + c * x;
        if (!(v > 0))
            continue;
        v = v * v * v;
        if (det_log(1 - rng_uniform(r)) < x * x / 2 + d * (1 - v + det_log(v)))
            return d * v;
    }
}

double rng_student(struct rng *r, double df)
{
    double z = rng_normal(r);
    return z / sqrt(2 * rng_gamma(r, df / 2) / df);
}

double rng_pareto(struct rng *r, double alpha)
{
    return det_exp(rng_exponential(r) / alpha) - 1;
}

uint64_t rng_geometric(struct rng *r, double p)
{
    if (!(p < 1))
        return 1;
    double trials = floor(rng_exponential(r) / -det_log(1 - p));
    return trials < 1e18 ? 1 + (uint64_t)trials : (uint64_t)1e18;
}

void rng_permutation(struct rng *r, size_t n, uint32_t *out)
{
    for (size_t i = 0; i < n; i++) {
        size_t j = rng_below(r, i + 1);
        out[i] = out[j];
        out[j] = (uint32_t)i;
    }
}
