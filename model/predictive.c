#include "predictive.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "ops.h"
#include "predictive_grad.h"
#include "predictive_impute.h"
#include "timing.h"
#include "vmath.h"

/* Atoms of cluster and node together, m fastest. */
enum { G = PRED_G, M = PRED_M, K = PRED_K, GM = G * M };

/* A component's mean is taken to be at most so many of its standard deviations
 * beyond a bound: a worker that was known to be slow, and is cut ever since, is
 * thought a bit faster every time, until it is waited for and seen.  With 7 two
 * workers of 16 whose co-tenant had left were cut for long, with 2 the slow
 * mode of a cluster of two modes was forgotten. */
#define MOST_BEYOND 4.f

static const float half_log_2pi = .918938533f;

/* What the workers of one node share, for each pair of atoms. */
struct node_terms {
    float shift[GM];
    float scale[GM];
    float inverse[GM]; /* exp(-scale) */
    float tail[K][GM];
};

/* One worker's share in the gradient, for each component and pair of atoms. */
struct worker_terms {
    float share[K][GM]; /* of the likelihood */
    float prior[K][GM]; /* mixture weight */
    float slope[K][GM]; /* -d log f / d z: z, or the hazard */
    float bend[K][GM];  /* d log f / d log sd */
};

static void make_terms(const struct predictive *p, size_t i,
                       struct node_terms *t)
{
    for (size_t q = 0; q < GM; q++) {
        size_t g = q / M, m = q % M;
        t->shift[q] = p->shift[g] + p->node_shift[i * M + m];
        t->scale[q] = p->scale[g];
        t->tail[0][q] = 0;
        for (size_t k = 1; k < K; k++)
            t->tail[k][q] = p->tail[g * (K - 1) + k - 1] +
                            p->node_tail[(i * M + m) * (K - 1) + k - 1];
    }
    for (size_t q = 0; q < GM; q++)
        t->inverse[q] = vm_exp(-t->scale[q]);
}

/* out = log sum exp over k of e; e becomes exp(e) over its sum. */
VM_INLINE void sum_components(float e[K][GM], float *out)
{
#pragma omp simd
    for (size_t q = 0; q < GM; q++) {
        float top = vm_max(vm_max(e[0][q], e[1][q]), e[2][q]);
        float a = vm_exp(e[0][q] - top), b = vm_exp(e[1][q] - top);
        float c = vm_exp(e[2][q] - top), sum = (a + b) + c;
        float inverse = 1 / sum;
        e[0][q] = a * inverse;
        e[1][q] = b * inverse;
        e[2][q] = c * inverse;
        out[q] = top + vm_log(sum);
    }
}

_Static_assert(K == 3, "sum_components adds three");

/* l = log of worker j's likelihood under each pair of atoms. */
VM_CLONES
static void worker_loglik(const struct predictive *p, size_t j, float y,
                          bool censored, const struct node_terms *t,
                          struct worker_terms *w, float *l)
{
    float norm[GM];

    for (size_t k = 0; k < K; k++) {
        float mu = p->mu[j * K + k], ls = p->log_sd[j * K + k];
        float lw = p->log_w[j * K + k], inverse = vm_exp(-ls);
#pragma omp simd
        for (size_t q = 0; q < GM; q++) {
            float z = (y - mu - t->shift[q]) * inverse * t->inverse[q];
            float weight = lw + t->tail[k][q];
            w->prior[k][q] = weight;
            w->share[k][q] = weight - .5f * z * z - ls - t->scale[q];
            w->slope[k][q] = z;
            w->bend[k][q] = z * z - 1;
        }
        if (censored) {
#pragma omp simd
            for (size_t q = 0; q < GM; q++) {
                float z = w->slope[k][q], hazard;
                w->share[k][q] = w->prior[k][q] + vm_normal_log_sf(z, &hazard);
                w->slope[k][q] = hazard;
                w->bend[k][q] = z * hazard;
            }
        }
    }
    sum_components(w->prior, norm);
    sum_components(w->share, l);
    float constant = censored ? 0 : half_log_2pi;
    for (size_t q = 0; q < GM; q++)
        l[q] -= norm[q] + constant;
}

static bool counts(const uint8_t *status, const float *y, size_t j)
{
    return !status || (status[j] <= TIMING_EXACT && isfinite(y[j]));
}

/* ln[gm] = log pi_m + the node's workers; returns the first worker behind.
 *   w  out  what the way back needs: [n] if keep, else [1] to work in */
static size_t node_loglik(const struct predictive *p, size_t i, size_t j,
                          const float *y, const uint8_t *status,
                          struct worker_terms *w, bool keep, double *ln)
{
    struct node_terms t;
    float l[GM];

    make_terms(p, i, &t);
    for (size_t q = 0; q < GM; q++)
        ln[q] = p->node_log_p[i * M + q % M];
    for (; j < p->n && p->node[j] == i; j++) {
        if (!counts(status, y, j))
            continue;
        worker_loglik(p, j, y[j], status && status[j] == TIMING_CENSORED, &t,
                      keep ? w + j : w, l);
        for (size_t q = 0; q < GM; q++)
            ln[q] += l[q];
    }
    return j;
}

size_t predictive_grad_work(size_t n, size_t n_nodes)
{
    return (n * sizeof(struct worker_terms) + n_nodes * GM * sizeof(double) +
            64) /
           sizeof(float);
}

/* d of worker j from post [GM], the probability of each pair of atoms times
 * scale; adds to what the node's workers share. */
VM_CLONES
static void worker_back(const struct predictive *p, size_t j,
                        const struct worker_terms *w,
                        const struct node_terms *t, const float *post,
                        const struct predictive_grad *d, struct node_terms *sum)
{
    for (size_t k = 0; k < K; k++) {
        float inverse = vm_exp(-p->log_sd[j * K + k]);
        float pull[GM], bend[GM], weight[GM];
        float dmu = 0, dls = 0, dlw = 0;
#pragma omp simd
        for (size_t q = 0; q < GM; q++) {
            float share = post[q] * w->share[k][q];
            pull[q] = share * w->slope[k][q] * inverse * t->inverse[q];
            bend[q] = share * w->bend[k][q];
            weight[q] = share - post[q] * w->prior[k][q];
            sum->shift[q] += pull[q];
            sum->scale[q] += bend[q];
            sum->tail[k][q] += weight[q];
        }
        for (size_t q = 0; q < GM; q++) {
            dmu += pull[q];
            dls += bend[q];
            dlw += weight[q];
        }
        d->mu[j * K + k] = dmu;
        d->log_sd[j * K + k] = dls;
        d->log_w[j * K + k] = dlw;
    }
}

/* Moments of how far worker j is beyond its bound, from post [GM], the
 * probability of each pair of atoms: a normal beyond z has its mean at the
 * hazard h, and the variance 1 - h (h - z). */
VM_CLONES
static void worker_beyond(const struct predictive *p, size_t j, float bound,
                          const struct worker_terms *w,
                          const struct node_terms *t, const float *post,
                          float *mean, float *var)
{
    float first = 0, second = 0;

    for (size_t k = 0; k < K; k++) {
        float mu = p->mu[j * K + k], ls = p->log_sd[j * K + k];
        float a[GM], b[GM];
#pragma omp simd
        for (size_t q = 0; q < GM; q++) {
            float sd = vm_exp(ls + t->scale[q]), h = w->slope[k][q];
            float d = h - (bound - mu - t->shift[q]) / sd;
            float share = post[q] * w->share[k][q];
            d = vm_select(d < MOST_BEYOND, d, MOST_BEYOND);
            a[q] = share * sd * d;
            b[q] = share * sd * sd * (d * d + vm_max(1 - h * d, 0));
        }
        for (size_t q = 0; q < GM; q++) {
            first += a[q];
            second += b[q];
        }
    }
    *mean = bound + first;
    *var = vm_max(second - first * first, 0);
}

static void skip_worker(const struct predictive_grad *d, size_t j)
{
    memset(d->mu + j * K, 0, K * sizeof(float));
    memset(d->log_sd + j * K, 0, K * sizeof(float));
    memset(d->log_w + j * K, 0, K * sizeof(float));
}

/* Hand what a node's workers add up to on to the node's and cluster's terms. */
static void share_out(const struct node_terms *sum, const float *post, size_t i,
                      const struct predictive_grad *d)
{
    memset(d->node_shift + i * M, 0, M * sizeof(float));
    memset(d->node_log_p + i * M, 0, M * sizeof(float));
    memset(d->node_tail + i * M * (K - 1), 0, M * (K - 1) * sizeof(float));
    for (size_t q = 0; q < GM; q++) {
        size_t g = q / M, m = i * M + q % M;
        d->shift[g] += sum->shift[q];
        d->scale[g] += sum->scale[q];
        d->node_shift[m] += sum->shift[q];
        d->node_log_p[m] += post[q];
        for (size_t k = 1; k < K; k++) {
            d->tail[g * (K - 1) + k - 1] += sum->tail[k][q];
            d->node_tail[m * (K - 1) + k - 1] += sum->tail[k][q];
        }
    }
}

/* post = probabilities of the pairs of atoms at a node, given ln [GM], times
 * post_g [G]. */
static void pair_post(const double *post_g, const double *ln, float *post)
{
    for (size_t g = 0; g < G; g++) {
        double norm = ops_log_sum_exp(M, ln + g * M);
        for (size_t m = 0; m < M; m++)
            post[g * M + m] = (float)(post_g[g] * exp(ln[g * M + m] - norm));
    }
}

/* post_g [G]: the cluster atoms' probabilities times scale. */
static void back(const struct predictive *p, const float *y,
                 const uint8_t *status, const double *post_g, const double *ln,
                 const struct worker_terms *w, const struct predictive_grad *d)
{
    memset(d->shift, 0, G * sizeof(float));
    memset(d->scale, 0, G * sizeof(float));
    memset(d->tail, 0, G * (K - 1) * sizeof(float));
    for (size_t g = 0; g < G; g++)
        d->log_p[g] = (float)post_g[g];
    for (size_t j = 0, i = 0; i < p->n_nodes; i++) {
        struct node_terms t, sum = {{0}, {0}, {0}, {{0}}};
        float post[GM];
        make_terms(p, i, &t);
        pair_post(post_g, ln + i * GM, post);
        for (; j < p->n && p->node[j] == i; j++) {
            if (counts(status, y, j))
                worker_back(p, j, w + j, &t, post, d, &sum);
            else
                skip_worker(d, j);
        }
        share_out(&sum, post, i, d);
    }
}

double predictive_loglik_grad(const struct predictive *p, const float *y,
                              const uint8_t *status, float scale,
                              const struct predictive_grad *d, float *work)
{
    double total[G], own[GM], *ln = d ? (double *)(void *)work : own;
    struct worker_terms one, *w = &one;

    if (d)
        w = (struct worker_terms *)(void *)(ln + p->n_nodes * GM);
    for (size_t g = 0; g < G; g++)
        total[g] = p->log_p[g];
    for (size_t j = 0, i = 0; i < p->n_nodes; i++) {
        double *row = d ? ln + i * GM : own;
        j = node_loglik(p, i, j, y, status, w, d != NULL, row);
        for (size_t g = 0; g < G; g++)
            total[g] += ops_log_sum_exp(M, row + g * M);
    }
    double loglik = ops_log_sum_exp(G, total);
    if (d) {
        for (size_t g = 0; g < G; g++)
            total[g] = (double)scale * exp(total[g] - loglik);
        back(p, y, status, total, ln, w, d);
    }
    return loglik;
}

size_t predictive_impute_work(size_t n_nodes)
{
    return n_nodes * GM;
}

/* The censored workers of node i from worker j on; returns the first worker
 * behind. */
static size_t node_impute(const struct predictive *p, size_t i, size_t j,
                          const float *y, const uint8_t *status,
                          const float *post, float *mean, float *var)
{
    struct node_terms t;
    struct worker_terms w;
    float l[GM];

    make_terms(p, i, &t);
    for (; j < p->n && p->node[j] == i; j++) {
        mean[j] = y[j];
        var[j] = 0;
        if (status[j] != TIMING_CENSORED || !isfinite(y[j]))
            continue;
        worker_loglik(p, j, y[j], true, &t, &w, l);
        worker_beyond(p, j, y[j], &w, &t, post, &mean[j], &var[j]);
    }
    return j;
}

void predictive_impute(const struct predictive *p, const float *y,
                       const uint8_t *status, double *work, float *mean,
                       float *var)
{
    double total[G];
    struct worker_terms one;
    float post[GM];

    for (size_t g = 0; g < G; g++)
        total[g] = p->log_p[g];
    for (size_t j = 0, i = 0; i < p->n_nodes; i++) {
        double *row = work + i * GM;
        j = node_loglik(p, i, j, y, status, &one, false, row);
        for (size_t g = 0; g < G; g++)
            total[g] += ops_log_sum_exp(M, row + g * M);
    }
    double loglik = ops_log_sum_exp(G, total);
    for (size_t g = 0; g < G; g++)
        total[g] = exp(total[g] - loglik);
    for (size_t j = 0, i = 0; i < p->n_nodes; i++) {
        pair_post(total, work + i * GM, post);
        j = node_impute(p, i, j, y, status, post, mean, var);
    }
}
