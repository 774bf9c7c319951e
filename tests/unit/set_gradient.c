/* The loss of a window and all its gradients against PyTorch
 * (tests/data/model/make_set.py, float64) and against central differences; the
 * censored likelihood against central differences. */
#include <cblas.h>
#include <stdint.h>

#include "model_data.h"
#include "ops.h"
#include "predictive_grad.h"
#include "set_model.h"
#include "set_train.h"
#include "tap.h"

static struct safetensors *data;
static struct set_net *net;
static struct set_train *train;
static struct set_batch batch;
static uint32_t node[64], cluster[64];
static size_t burn_in;

static const float *get(const char *name)
{
    return safetensors_find(data, name)->data;
}

static bool set_up(struct timing_model **model)
{
    char path[DATA_PATH];
    struct dsgd_error err = {""};

    data = data_load("set-window.safetensors");
    if (!data || timing_model_load(data_path("set-prototype.safetensors", path),
                                   model, &err) != DSGD_OK) {
        printf("# %s\n", err.text);
        return false;
    }
    net = set_model_net(*model);
    const struct safetensor *y = safetensors_find(data, "y");
    struct set_size n = {y->shape[0], y->shape[1],
                         safetensors_find(data, "node_cluster")->n, 0};
    for (size_t j = 0; j < n.workers; j++)
        node[j] = (uint32_t)get("worker_node")[j];
    for (size_t i = 0; i < n.nodes; i++)
        cluster[i] = (uint32_t)get("node_cluster")[i];
    n.clusters = cluster[n.nodes - 1] + 1;
    burn_in = (size_t)get("burn_in")[0];
    batch = (struct set_batch){.in = {.n = n,
                                      .node = node,
                                      .cluster = cluster,
                                      .worker = get("worker"),
                                      .node_in = get("node"),
                                      .anchor = get("anchor"),
                                      .log_sd = get("log_sd")},
                               .y = y->data};
    return set_train_create(&net->config, &n, true, &train, &err) == DSGD_OK;
}

/* Norm of the difference over the norm, and the largest difference over the
 * largest gradient, of one parameter. */
static void compare(const float *got, const float *want, size_t n, double *norm,
                    double *most)
{
    double gap = 0, size = 0, worst = 0, top = 0;

    for (size_t i = 0; i < n; i++) {
        double e = fabs((double)got[i] - want[i]);
        gap += e * e;
        size += (double)want[i] * want[i];
        worst = e > worst || isnan(e) ? e : worst;
        top = fmax(top, fabs(want[i]));
    }
    *norm = sqrt(gap / size);
    *most = worst / top;
}

/* PyTorch's own float32 is up to 7e-6 off; kernels of OpenBLAS without fused
 * multiplication and addition round more often: up to 1.8e-5. */
static double tolerance(void)
{
    static const char *const plain[] = {"Prescott", "Core2", "Penryn",
                                        "Nehalem", "Sandybridge"};

    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (strcmp(openblas_get_corename(), plain[i]) == 0)
            return 3e-5;
    }
    return 1e-5;
}

static void test_against_torch(void)
{
    static float grad[1 << 16];
    double per_cluster[8], mean = 0;
    double loss =
        set_train_window(train, net, &batch, burn_in, grad, per_cluster);

    near(loss / get("grad.loss")[0], 1, 1e-5, "loss");
    for (size_t c = 0; c < batch.in.n.clusters; c++)
        mean += per_cluster[c] / (double)batch.in.n.clusters;
    near(mean, loss, 1e-12, "the clusters' losses");
    near(set_train_window(train, net, &batch, burn_in, NULL, NULL), loss, 1e-12,
         "the loss alone");
    for (size_t id = 0; id < SET_PARAMS; id++) {
        const struct set_param *p = &net->param[id];
        char name[64], name32[64];
        double norm, most, norm32, most32;
        snprintf(name, sizeof name, "grad.%s", p->name);
        snprintf(name32, sizeof name32, "grad32.%s", p->name);
        compare(grad + p->offset, get(name), p->n, &norm, &most);
        compare(get(name32), get(name), p->n, &norm32, &most32);
        printf("# %-16s norm %.1e (torch float32 %.1e)  worst %.1e (%.1e)\n",
               p->name, norm, norm32, most, most32);
        near(norm, 0, tolerance(), p->name);
    }
}

/* Along random directions in each parameter. */
static void test_central_differences(void)
{
    static float grad[1 << 16], keep[1 << 16];
    uint32_t seed = 7;

    set_train_window(train, net, &batch, burn_in, grad, NULL);
    memcpy(keep, net->w, net->n * sizeof *keep);
    for (size_t id = 0; id < SET_PARAMS; id++) {
        const struct set_param *p = &net->param[id];
        double want = 0, loss[2], step = .004 / sqrt((double)p->n);
        for (int side = 0; side < 2; side++) {
            uint32_t s = seed;
            want = 0;
            for (size_t i = p->offset; i < p->offset + p->n; i++) {
                s = s * 1664525u + 1013904223u;
                double sign = s >> 31 ? 1 : -1;
                /* along the gradient's sign half of the time: a sum that
                 * does not cancel */
                if (s & 1 << 20)
                    sign = grad[i] > 0 ? 1 : -1;
                net->w[i] = (float)(keep[i] + (side ? -step : step) * sign);
                want += sign * grad[i];
            }
            loss[side] =
                set_train_window(train, net, &batch, burn_in, NULL, NULL);
        }
        memcpy(net->w, keep, net->n * sizeof *keep);
        seed++;
        double got = (loss[0] - loss[1]) / (2 * step);
        near(got, want, 2e-3 * fabs(want) + 2e-3, p->name);
    }
}

enum { N = 5, NODES = 2 };
static float mu[N * 3], log_sd[N * 3], log_w[N * 3], node_shift[NODES * 4],
    node_log_p[NODES * 4], node_tail[NODES * 8], shift[6], log_p[6], tail[12],
    scale[6], y[N];
static float *const value[] = {mu,        log_sd, log_w, node_shift, node_log_p,
                               node_tail, shift,  log_p, tail,       scale};
static const size_t size[] = {N * 3,     N * 3, N * 3, NODES * 4, NODES * 4,
                              NODES * 8, 6,     6,     12,        6};

static void test_censored(void)
{
    static const char *const name[] = {
        "mu",        "log_sd", "log_w", "node_shift", "node_log_p",
        "node_tail", "shift",  "log_p", "tail",       "scale"};
    static const uint32_t on[N] = {0, 0, 0, 1, 1};
    static const uint8_t status[N] = {2, 0, 3, 0, 1};
    static float d[10][N * 4];
    static _Alignas(64) float work[4096];
    struct predictive p = {N,     NODES,      on,         mu,        log_sd,
                           log_w, node_shift, node_log_p, node_tail, shift,
                           log_p, tail,       scale};
    struct predictive_grad g = {d[0], d[1], d[2], d[3], d[4],
                                d[5], d[6], d[7], d[8], d[9]};
    uint32_t seed = 3;

    for (size_t a = 0; a < 10; a++) {
        for (size_t i = 0; i < size[a]; i++) {
            seed = seed * 1664525u + 1013904223u;
            value[a][i] = (float)(seed >> 8) / 1.7e7f - .5f;
        }
    }
    for (size_t j = 0; j < N; j++)
        y[j] = (float)j * .7f - 1;
    ok(predictive_grad_work(N, NODES) <= 4096, "workspace");
    double all = predictive_loglik_grad(&p, y, status, 1, &g, work);
    near(predictive_loglik_grad(&p, y, status, 0, NULL, NULL), all, 1e-12,
         "censored likelihood with and without gradient");
    for (size_t a = 0; a < 10; a++) {
        double worst = 0;
        for (size_t i = 0; i < size[a]; i++) {
            float keep = value[a][i], h = 5e-3f;
            value[a][i] = keep + h;
            double up = predictive_loglik_grad(&p, y, status, 0, NULL, NULL);
            value[a][i] = keep - h;
            double down = predictive_loglik_grad(&p, y, status, 0, NULL, NULL);
            value[a][i] = keep;
            double e = fabs((up - down) / (2 * (double)h) - d[a][i]);
            worst = e > worst || isnan(e) ? e : worst;
        }
        near(worst, 0, 1e-3, name[a]);
    }
    y[1] = -60;
    ok(isfinite(predictive_loglik_grad(&p, y, status, 1, &g, work)),
       "a bound that says nothing");
    y[1] = 300;
    double far = predictive_loglik_grad(&p, y, status, 1, &g, work);
    ok(isfinite(far) && isfinite(d[0][3]) && far < -1000,
       "a bound far beyond what was predicted");
}

int main(void)
{
    struct timing_model *model = NULL;

    if (!ok(set_up(&model), "fixtures"))
        return done();
    test_against_torch();
    test_central_differences();
    test_censored();
    set_train_free(train);
    safetensors_free(data);
    timing_model_free(model);
    return done();
}
