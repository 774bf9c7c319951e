/* What the set model costs, on one thread: a prediction and an observation,
 * hidden behind the workers' compute, and a gradient.
 * Usage: set [BATCH.safetensors] (tests/bench/prototype writes one) */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"
#include "safetensors.h"
#include "set_model.h"
#include "set_train.h"
#include "timing.h"

enum { STEPS = 100 };

static void at_work(const struct timing_model *m, size_t n, size_t n_nodes)
{
    uint32_t *node = calloc(n, sizeof *node);
    float *y = calloc(n, sizeof *y);
    float *telemetry = calloc(n_nodes, 8 * sizeof *telemetry);
    uint8_t *status = calloc(n, 1);
    double predict[STEPS], observe[STEPS];
    struct timing *t;

    for (size_t j = 0; j < n; j++) {
        node[j] = (uint32_t)(j * n_nodes / n);
        status[j] = TIMING_EXACT;
    }
    if (timing_create(m, n, n_nodes, node, &t, NULL) != DSGD_OK)
        exit(1);
    for (size_t i = 0; i < STEPS; i++) {
        for (size_t j = 0; j < n; j++)
            y[j] = 1 + .1f * (float)((j * 7 + i * 13) % 11);
        double start = now_us();
        timing_predict(t, telemetry);
        predict[i] = now_us() - start;
        start = now_us();
        timing_observe(t, y, status);
        observe[i] = now_us() - start;
    }
    printf("n %5zu, %3zu nodes:", n, n_nodes);
    show("predict", predict, STEPS);
    show("observe", observe, STEPS);
    printf("\n");
    timing_free(t);
    free(node);
    free(y);
    free(telemetry);
    free(status);
}

static uint32_t *integers(const struct safetensors *s, const char *name)
{
    const struct safetensor *t = safetensors_find(s, name);
    uint32_t *out = t ? calloc(t->n, sizeof *out) : NULL;

    for (size_t i = 0; out && i < t->n; i++)
        out[i] = (uint32_t)t->data[i];
    return out;
}

static const float *floats(const struct safetensors *s, const char *name)
{
    return safetensors_find(s, name)->data;
}

static void gradient(const struct safetensors *s)
{
    enum { REPEATS = 11 };
    const struct safetensor *y = safetensors_find(s, "y");
    uint32_t *node = integers(s, "worker_node");
    uint32_t *cluster = integers(s, "node_cluster");
    size_t n_nodes = safetensors_find(s, "node_cluster")->n;
    struct set_batch b = {.in = {.n = {y->shape[0], y->shape[1], n_nodes,
                                       cluster[n_nodes - 1] + 1},
                                 .node = node,
                                 .cluster = cluster,
                                 .worker = floats(s, "worker"),
                                 .node_in = floats(s, "node"),
                                 .anchor = floats(s, "anchor"),
                                 .log_sd = floats(s, "log_sd")},
                          .y = y->data};
    struct set_config config = {3, SET_FLAGS_ONE, 32, 48};
    struct set_net *net;
    struct set_train *t;
    double us[REPEATS], loss = 0;

    if (set_net_create(&config, &net, NULL) != DSGD_OK ||
        set_train_create(&config, &b.in.n, true, &t, NULL) != DSGD_OK)
        exit(1);
    float *grad = calloc(net->n, sizeof *grad);
    set_net_init(net, 1);
    for (size_t i = 0; i < REPEATS; i++) {
        double start = now_us();
        loss = set_train_window(t, net, &b, 8, grad, NULL);
        us[i] = now_us() - start;
    }
    printf("gradient, %zu steps of %zu workers (loss %.3f):", b.in.n.steps,
           b.in.n.workers, loss);
    show("", us, REPEATS);
    printf("\n");
    free(grad);
    set_train_free(t);
    set_net_free(net);
    free(node);
    free(cluster);
}

int main(int argc, char **argv)
{
    static const size_t sizes[][2] = {
        {16, 4}, {158, 4}, {2175, 68}, {10000, 156}};
    struct set_config config = {8, SET_FLAGS_EACH, 32, 48};
    struct timing_model *m;
    struct safetensors *s;
    struct dsgd_error err;

    if (argc > 1) {
        if (safetensors_load(argv[1], &s, &err) != DSGD_OK) {
            fprintf(stderr, "set: %s\n", err.text);
            return 1;
        }
        gradient(s);
        safetensors_free(s);
        return 0;
    }
    if (set_model_create(&config, NULL, &m, NULL) != DSGD_OK)
        return 1;
    set_net_init(set_model_net(m), 1);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        at_work(m, sizes[i][0], sizes[i][1]);
    timing_model_free(m);
    return 0;
}
