#include "rules.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "rng.h"
#include "sort.h"

enum { G = PRED_G, M = PRED_M, K = PRED_K };

static const char *const names[] = {
    [RULE_PAPER] = "paper",
    [RULE_RATIO] = "ratio",
    [RULE_RENEWAL] = "renewal",
    [RULE_LIVE] = "live",
};

enum dsgd_err rule_parse(const char *name, const char *text, enum rule *rule,
                         struct dsgd_error *err)
{
    if (!text || !*text) {
        *rule = RULE_LIVE;
        return DSGD_OK;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *rule = (enum rule)i;
            return DSGD_OK;
        }
    }
    return error_set(err, DSGD_E_USAGE, "%s: \"%.60s\" is none of %s", name,
                     text, RULE_NAMES);
}

const char *rule_name(enum rule rule)
{
    return names[rule];
}

/* The atom whose slice of the cumulated probabilities u in [0, 1) falls
 * into. */
static size_t draw(const float *log_p, size_t n, double u)
{
    double sum = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        sum += exp((double)log_p[i]);
        if (u < sum)
            return i;
    }
    return n - 1;
}

static double draw_worker(const struct predictive *p, size_t j, size_t g,
                          size_t m, struct rng *r)
{
    const float *node_tail =
        p->node_tail + ((size_t)p->node[j] * M + m) * (K - 1);
    double w[K], sum = 0, u = rng_uniform(r);
    size_t k = 0;

    for (size_t i = 0; i < K; i++) {
        double tail = i ? p->tail[g * (K - 1) + i - 1] + node_tail[i - 1] : 0;
        sum += w[i] = exp(p->log_w[j * K + i] + tail);
    }
    for (u *= sum; k + 1 < K && u >= w[k]; k++)
        u -= w[k];
    double sd = exp((double)p->log_sd[j * K + k] + (double)p->scale[g]);
    return exp((double)p->mu[j * K + k] + (double)p->shift[g] +
               (double)p->node_shift[(size_t)p->node[j] * M + m] +
               sd * rng_normal(r));
}

void rule_sample(const struct predictive *p, uint64_t seed, uint64_t step,
                 size_t n_samples, double *x_s)
{
    struct rng r;

    rng_seed(&r, seed, step);
    for (size_t s = 0; s < n_samples; s++) {
        double u = ((double)s + rng_uniform(&r)) / (double)n_samples;
        size_t g = draw(p->log_p, G, u), m = 0;
        for (size_t j = 0; j < p->n; j++) {
            if (j == 0 || p->node[j] != p->node[j - 1])
                m = draw(p->node_log_p + (size_t)p->node[j] * M, M,
                         rng_uniform(&r));
            x_s[s * p->n + j] = draw_worker(p, j, g, m, &r);
        }
    }
}

bool rule_sort(size_t n, size_t n_samples, double *x_s)
{
    for (size_t i = 0; i < n * n_samples; i++) {
        if (!(x_s[i] > 0) || !isfinite(x_s[i]))
            return false;
    }
    for (size_t s = 0; s < n_samples; s++)
        sort_doubles(n, x_s + s * n);
    return true;
}

/* Mean over the samples of the c-th arrival, or of its inverse; NaN unless all
 * are positive. */
static double mean_arrival(size_t n, size_t n_samples, const double *x_s,
                           size_t c, double overhead_s, bool inverse)
{
    double sum = 0;
    for (size_t s = 0; s < n_samples; s++) {
        double t = x_s[s * n + c - 1] + overhead_s;
        if (!(t > 0))
            return NAN;
        sum += inverse ? 1 / t : t;
    }
    return sum / (double)n_samples;
}

enum dsgd_err rule_pick(enum rule rule, size_t n, size_t n_samples,
                        const double *x_s, double overhead_s, double lambda,
                        size_t *c_out, struct dsgd_error *err)
{
    double best = -INFINITY;
    size_t best_c = 0;

    if (n < 1 || n_samples < 1 || rule == RULE_LIVE)
        return error_set(err, DSGD_E_RANGE, "rule %s: %zu workers, %zu samples",
                         rule_name(rule), n, n_samples);
    for (size_t c = 1; c <= n; c++) {
        double t =
            mean_arrival(n, n_samples, x_s, c, overhead_s, rule == RULE_RATIO);
        double value = rule == RULE_PAPER   ? (double)c / t
                       : rule == RULE_RATIO ? (double)c * t
                                            : (double)c - lambda * t;
        if (!isfinite(value))
            return error_set(err, DSGD_E_RANGE,
                             "rule %s: arrival %zu of %zu is not a time above "
                             "0",
                             rule_name(rule), c, n);
        if (value >= best) {
            best = value;
            best_c = c;
        }
    }
    *c_out = best_c;
    return DSGD_OK;
}
