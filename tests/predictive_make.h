/* A made-up predictive for tests and benches: nodes of equal size, workers that
 * differ by a few per cent, tails, a node atom twice as slow. */
#ifndef DSGD_TESTS_PREDICTIVE_MAKE_H
#define DSGD_TESTS_PREDICTIVE_MAKE_H

#include <math.h>
#include <stdlib.h>

#include "predictive.h"

struct made {
    struct predictive p;
    uint32_t *node;
    float *mu, *log_sd, *log_w, *node_shift, *node_log_p, *node_tail;
    float shift[PRED_G], log_p[PRED_G], tail[PRED_G * (PRED_K - 1)],
        scale[PRED_G];
};

__attribute__((unused)) static double made_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.;
}

__attribute__((unused)) static void made_init(struct made *m, size_t n,
                                              size_t nodes, double sd)
{
    static const float node_shift[PRED_M] = {0, .35f, .8f, -.3f};
    static const float node_p[PRED_M] = {.94f, .03f, .02f, .01f};
    static const float shift[PRED_G] = {-.06f, -.02f, 0, .02f, .06f, 0};
    uint64_t state = 7;

    m->node = calloc(n, sizeof *m->node);
    m->mu = calloc(n * PRED_K, sizeof *m->mu);
    m->log_sd = calloc(n * PRED_K, sizeof *m->log_sd);
    m->log_w = calloc(n * PRED_K, sizeof *m->log_w);
    m->node_shift = calloc(nodes * PRED_M, sizeof *m->node_shift);
    m->node_log_p = calloc(nodes * PRED_M, sizeof *m->node_log_p);
    m->node_tail = calloc(nodes * PRED_M * (PRED_K - 1), sizeof *m->node_tail);
    for (size_t j = 0; j < n; j++) {
        float mu = (float)(.05 * (made_random(&state) - .5));
        m->node[j] = (uint32_t)(j * nodes / n);
        for (int k = 0; k < PRED_K; k++) {
            m->mu[j * PRED_K + k] = mu + (float)k * .4f;
            m->log_sd[j * PRED_K + k] = (float)log(k ? .2 * (1 + k) : sd);
        }
        m->log_w[j * PRED_K] = 4;
        m->log_w[j * PRED_K + 2] = -.5f;
    }
    for (size_t i = 0; i < nodes * PRED_M; i++) {
        m->node_shift[i] = node_shift[i % PRED_M];
        m->node_log_p[i] = logf(node_p[i % PRED_M]);
    }
    for (int g = 0; g < PRED_G; g++) {
        m->shift[g] = shift[g];
        m->log_p[g] = logf(1.f / PRED_G);
        m->scale[g] = g == 4 ? .2f : 0;
        m->tail[g * 2] = m->tail[g * 2 + 1] = g == 5 ? 2 : 0;
    }
    m->p = (struct predictive){
        n,        nodes,         m->node,       m->mu,        m->log_sd,
        m->log_w, m->node_shift, m->node_log_p, m->node_tail, m->shift,
        m->log_p, m->tail,       m->scale,
    };
}

__attribute__((unused)) static void made_free(struct made *m)
{
    free(m->node);
    free(m->mu);
    free(m->log_sd);
    free(m->log_w);
    free(m->node_shift);
    free(m->node_log_p);
    free(m->node_tail);
}

/* A duration of worker j: its core, with a slow node now and then. */
__attribute__((unused)) static double made_duration(const struct made *m,
                                                    size_t j, uint64_t *state)
{
    double u = made_random(state) + 1e-12, v = made_random(state);
    double z = sqrt(-2 * log(u)) * cos(2 * M_PI * v);
    double slow = m->node[j] % 17 == 3 ? .8 : made_random(state) < .01 ? .7 : 0;
    return exp((double)m->mu[j * PRED_K] +
               exp((double)m->log_sd[j * PRED_K]) * z + slow);
}

#endif
