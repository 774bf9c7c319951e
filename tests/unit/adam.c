/* Adam against a plain double-precision version, clipping, the schedule. */
#include <string.h>

#include "adam.h"
#include "tap.h"

enum { N = 7 };

/* Gradient of a quadratic with its minimum at i, plus a steep coordinate. */
static void gradient(const float *p, float *g)
{
    for (int i = 0; i < N; i++)
        g[i] = (float)(1 + i) * (p[i] - (float)i);
}

static void against_plain(void)
{
    struct adam a;
    float p[N] = {0}, g[N], moments[2 * N];
    double q[N] = {0}, m[N] = {0}, v[N] = {0}, worst = 0;

    adam_init(&a, N, moments);
    a.clip = 0;
    for (int t = 1; t <= 200; t++) {
        gradient(p, g);
        for (int i = 0; i < N; i++) {
            double d = (1 + i) * (q[i] - i);
            m[i] = .9 * m[i] + .1 * d;
            v[i] = .99 * v[i] + .01 * d * d;
            q[i] -= .05 * (m[i] / (1 - pow(.9, t))) /
                    (sqrt(v[i] / (1 - pow(.99, t))) + 1e-8);
        }
        adam_step(&a, p, g, .05);
    }
    for (int i = 0; i < N; i++)
        worst = fmax(worst, fabs(p[i] - q[i]));
    near(worst, 0, 2e-4, "200 updates as in the paper");
}

static void clipping(void)
{
    struct adam a;
    float p[2] = {1, 1}, g[2] = {30, 40}, moments[4];

    adam_init(&a, 2, moments);
    near(adam_step(&a, p, g, .1), 50, 1e-5, "the norm is the one that came");
    near(hypot(g[0], g[1]), 1, 1e-6, "the gradient is clipped to norm 1");
    float before[2] = {p[0], p[1]};
    g[0] = NAN;
    ok(!isfinite(adam_step(&a, p, g, .1)), "a gradient that is NaN is told");
    ok(memcmp(p, before, sizeof p) == 0 && a.steps == 1, "and changes nothing");
}

static void schedule(void)
{
    near(adam_cosine(2, .02, 50, 0, 1000), 2. / 50, 1e-12, "warm-up starts");
    near(adam_cosine(2, .02, 0, 500, 1000), 2 * (.02 + .98 * .5), 1e-12,
         "half-way");
    near(adam_cosine(2, .02, 50, 1000, 1000), 2 * .02, 1e-12, "the end");
    near(adam_cosine(2, .02, 50, 5000, 1000), 2 * .02, 1e-12, "and after");
}

int main(void)
{
    against_plain();
    clipping();
    schedule();
    return done();
}
