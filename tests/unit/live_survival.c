/* The mixture's survivals against erfc in double: cells of every width, lanes
 * far apart, ticks that are not even. */
#include "live_survival.h"

#include <math.h>

#include "tap.h"

enum { LANES = LIVE_LANES, K = PRED_K, EVEN = 46, COLS = LIVE_COLS };

struct example {
    float mu[K], precision[K], weight[K * LANES], shift[LANES], scale[LANES];
    struct live_mixture m;
};

static struct live_span span(const float *x)
{
    struct live_span s = {x[0], x[0]};

    for (size_t l = 1; l < LANES; l++) {
        s.low = fminf(s.low, x[l]);
        s.high = fmaxf(s.high, x[l]);
    }
    return s;
}

/* weight: of the second and third component in the first lane, falling by half
 * from lane to lane. */
static void make(struct example *e, float sd, float weight, float spread)
{
    static const float wider[K] = {1, 4, 12};

    for (size_t k = 0; k < K; k++) {
        e->mu[k] = .3f * (float)k;
        e->precision[k] = LIVE_SF_SCALE / (sd * wider[k]);
    }
    for (size_t l = 0; l < LANES; l++) {
        e->shift[l] = spread * (float)(l % 4) - .1f;
        e->scale[l] = expf(.4f * ((float)(l / 4) - 3));
        e->weight[LANES + l] = e->weight[2 * LANES + l] = weight;
        e->weight[l] = 1 - 2 * weight;
        weight /= 2;
    }
    e->m = (struct live_mixture){.mu = e->mu,
                                 .precision = e->precision,
                                 .weight = e->weight,
                                 .shift = e->shift,
                                 .scale = e->scale,
                                 .shifts = span(e->shift),
                                 .scales = span(e->scale)};
}

static double exact(const struct example *e, size_t l, double log_s)
{
    double sum = (double)LIVE_MIN_SURVIVAL;

    for (size_t k = 0; k < K; k++) {
        float at = e->mu[k] + e->shift[l];
        double y = (log_s - (double)at) * e->precision[k] * e->scale[l];
        sum += e->weight[k * LANES + l] * .5 *
               erfc(y / (double)LIVE_SF_SCALE * sqrt(.5));
    }
    return sum;
}

static double relative(double got, double want)
{
    return fabs(got / want - 1) * (want > 1e-5 ? 1 : .1);
}

static float at(const float *out, size_t q, size_t l)
{
    return out[(l / LIVE_WIDE * COLS + q) * LIVE_WIDE + l % LIVE_WIDE];
}

/* The largest relative error of the survivals; a tenth of it where they are
 * small. */
static double error(const struct example *e, const struct live_ticks *t)
{
    float out[COLS * LANES], one[LANES];
    double worst = 0;

    live_survival_ticks(&e->m, t, out);
    for (size_t q = 0; q < t->n; q++) {
        live_survival_at(&e->m, t->log_s[q], one);
        for (size_t l = 0; l < LANES; l++) {
            double want = exact(e, l, (double)t->log_s[q]);
            worst = fmax(worst, relative(at(out, q, l), want));
            worst = fmax(worst, relative(one[l], want));
        }
    }
    return worst;
}

int main(void)
{
    static const float sds[] = {.003f, .01f, .03f, .073f, .085f, .1f, .3f};
    float log_s[COLS];
    struct live_ticks t = {COLS, EVEN, .025f, log_s};
    struct example e;

    for (size_t q = 0; q < COLS; q++)
        log_s[q] = q < EVEN ? -.4f + t.step * (float)q
                            : log_s[q - 1] + .02f * (float)(q - EVEN + 1);
    for (size_t i = 0; i < sizeof sds / sizeof sds[0]; i++) {
        double worst = 0;
        for (float spread = 0; spread < .5f; spread += .15f) {
            for (float weight = .25f; weight > 1e-9f; weight *= .01f) {
                make(&e, sds[i], weight, spread);
                worst = fmax(worst, error(&e, &t));
            }
        }
        ok(worst < 2e-4, "a core's sd of %g, ticks by .025", (double)sds[i]);
        printf("#   largest relative error %.2g\n", worst);
    }
    make(&e, .05f, .1f, .3f);
    t.even = 0;
    near(error(&e, &t), 0, 2e-4, "no even ticks");
    t = (struct live_ticks){1, 1, .02f, log_s};
    near(error(&e, &t), 0, 2e-4, "a single tick");
    e.mu[1] = NAN;
    t = (struct live_ticks){COLS, EVEN, .025f, log_s};
    float out[COLS * LANES];
    live_survival_ticks(&e.m, &t, out);
    ok(isnan(at(out, 0, 0)) && isnan(at(out, COLS - 1, LANES - 1)),
       "NaN stays NaN");
    return done();
}
