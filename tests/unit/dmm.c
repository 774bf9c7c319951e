/* The deep Markov model: ELBO terms and gradients against PyTorch with the same
 * noise, and against central differences. */
#include <string.h>
#include <unistd.h>

#include "dmm.h"
#include "dmm_elbo.h"
#include "dmm_net.h"
#include "model_data.h"
#include "rng.h"

struct fixture {
    size_t n, length, batch;
    double beta, log_lik, kl, loss;
    float *y, *noise, *want; /* want: gradients in the arena's order */
    struct dmm_net *net;
};

static FILE *open_data(const char *name)
{
    char path[DATA_PATH];
    FILE *f = fopen(data_path(name, path), "r");

    if (!f) {
        perror(path);
        exit(1);
    }
    return f;
}

static void numbers(FILE *f, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        if (fscanf(f, "%f", &out[i]) != 1)
            exit(1);
}

static int tensor_named(const char *name, size_t n)
{
    for (int i = 0; i < DMM_TENSORS; i++)
        if (strcmp(dmm_tensor(i, n).name, name) == 0)
            return i;
    printf("# %s is no tensor\n", name);
    exit(1);
}

static struct fixture read_fixture(void)
{
    struct fixture x;
    FILE *f = open_data("dmm.txt");
    char name[64];
    size_t count;

    if (fscanf(f, "dims %zu %zu %zu terms 4 %lf %lf %lf %lf", &x.n, &x.length,
               &x.batch, &x.beta, &x.log_lik, &x.kl, &x.loss) != 7 ||
        dmm_net_create(x.n, &x.net, NULL) != DSGD_OK)
        exit(1);
    size_t rows = x.length * x.batch;
    x.y = malloc(rows * x.n * sizeof *x.y);
    x.noise = malloc(rows * DMM_Z * sizeof *x.noise);
    x.want = malloc(x.net->n_params * sizeof *x.want);
    while (fscanf(f, "%63s %zu", name, &count) == 2) {
        bool grad = strncmp(name, "grad.", 5) == 0;
        float *out = strcmp(name, "y") == 0 ? x.y : x.noise;
        if (strcmp(name, "y") != 0 && strcmp(name, "noise") != 0)
            out = (grad ? x.want : x.net->params) +
                  x.net->at[tensor_named(grad ? name + 5 : name, x.n)];
        numbers(f, count, out);
    }
    fclose(f);
    return x;
}

static void free_fixture(struct fixture *x)
{
    dmm_net_free(x->net);
    free(x->y);
    free(x->noise);
    free(x->want);
}

/* Largest difference relative to the largest entry of the tensor. */
static double tensor_error(const struct dmm_net *net, int i, const float *got,
                           const float *want)
{
    double worst = 0, size = 0;

    for (size_t k = net->at[i]; k < net->at[i + 1]; k++) {
        worst = fmax(worst, fabs((double)got[k] - want[k]));
        size = fmax(size, fabs(want[k]));
    }
    return worst / size;
}

static void parity(void)
{
    struct fixture x = read_fixture();
    struct dmm_elbo *e;
    float *grad = calloc(x.net->n_params, sizeof *grad);

    dmm_elbo_create(x.net, x.length, x.batch, &e, NULL);
    struct dmm_terms got = dmm_elbo_forward(e, x.y, x.y, NULL, x.noise);
    near(got.log_lik / x.log_lik, 1, 1e-5, "the likelihood term of PyTorch");
    near(got.kl / x.kl, 1, 1e-5, "its divergence");
    near(-(got.log_lik - x.beta * got.kl) / (double)(x.length * x.n) / x.loss,
         1, 1e-5, "its loss");
    dmm_elbo_backward(e, x.beta, grad);
    for (int i = 0; i < DMM_TENSORS; i++) {
        double error = tensor_error(x.net, i, grad, x.want);
        ok(error <= 1e-5, "gradient of %s: %.1e of its largest entry",
           dmm_tensor(i, x.n).name, error);
    }
    dmm_elbo_free(e);
    free(grad);
    free_fixture(&x);
}

struct problem {
    struct dmm_net *net;
    struct dmm_elbo *e;
    float *y, *noise, *grad;
    uint8_t *known;
    double beta;
    size_t length, batch;
};

static double loss(const struct problem *p)
{
    struct dmm_terms t = dmm_elbo_forward(p->e, p->y, p->y, p->known, p->noise);

    return -(t.log_lik - p->beta * t.kl) / (double)(p->length * p->net->n);
}

/* With censored and missing entries, which the fixture has not. */
static struct problem make_problem(void)
{
    struct problem p = {.beta = .8, .length = 4, .batch = 2};
    struct rng r;

    rng_seed(&r, 3, 0);
    dmm_net_create(3, &p.net, NULL);
    dmm_net_init(p.net, 5);
    dmm_elbo_create(p.net, p.length, p.batch, &p.e, NULL);
    size_t rows = p.length * p.batch;
    p.y = malloc(rows * 3 * sizeof *p.y);
    p.known = malloc(rows * 3);
    p.noise = malloc(rows * DMM_Z * sizeof *p.noise);
    p.grad = malloc(p.net->n_params * sizeof *p.grad);
    for (size_t i = 0; i < rows * 3; i++) {
        p.y[i] = (float)rng_normal(&r);
        p.known[i] = (uint8_t)rng_below(&r, 3);
    }
    for (size_t i = 0; i < rows * DMM_Z; i++)
        p.noise[i] = (float)rng_normal(&r);
    return p;
}

/* Slope of the loss along the tensor's gradient, relative to its norm: single
 * entries are below float32's resolution.  *norm is set. */
static double slope(struct problem *p, int tensor, double *norm)
{
    size_t from = p->net->at[tensor], count = p->net->at[tensor + 1] - from;
    float *old = malloc(count * sizeof *old), *now = p->net->params + from;
    double step = 1e-3, side[2];

    memcpy(old, now, count * sizeof *old);
    *norm = 0;
    for (size_t k = 0; k < count; k++)
        *norm += pow(p->grad[from + k], 2);
    *norm = sqrt(*norm);
    for (int s = 0; s < 2; s++) {
        double h = (s ? -step : step) / *norm;
        for (size_t k = 0; k < count; k++)
            now[k] = (float)(old[k] + h * p->grad[from + k]);
        side[s] = loss(p);
    }
    memcpy(now, old, count * sizeof *old);
    free(old);
    return (side[0] - side[1]) / (2 * step) / *norm;
}

static void differences(void)
{
    struct problem p = make_problem();
    double norm;

    loss(&p);
    dmm_elbo_backward(p.e, p.beta, p.grad);
    for (int i = 0; i < DMM_TENSORS; i++) {
        double got = slope(&p, i, &norm);
        ok(fabs(got - 1) <= 2e-2, "central differences of %s: ratio %.4f",
           dmm_tensor(i, 3).name, got);
    }
    dmm_elbo_free(p.e);
    dmm_net_free(p.net);
    free(p.y);
    free(p.known);
    free(p.noise);
    free(p.grad);
}

enum { WORKERS = 12, NODES = 3 };
static const uint32_t node_of[WORKERS] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2};
static char path[] = "/tmp/dsgd-dmm-XXXXXX";

static struct timing_model *some_model(void)
{
    struct timing_model *m;

    if (dmm_model_create(WORKERS, &m, NULL) != DSGD_OK)
        exit(1);
    dmm_net_init(dmm_model_net(m), 9);
    dmm_model_net(m)->scale = .1f;
    for (int j = 0; j < WORKERS; j++)
        dmm_model_net(m)->mean[j] = -2 + .1f * (float)j;
    return m;
}

static void observe(struct timing *t, struct rng *r, float unit)
{
    float y[WORKERS];
    uint8_t status[WORKERS];

    for (int j = 0; j < WORKERS; j++) {
        y[j] = unit - 2 + .1f * (float)j + .1f * (float)rng_normal(r);
        status[j] = (uint8_t)(rng_below(r, 4));
    }
    timing_observe(t, y, status);
}

/* Means of the workers with the atoms' shifts. */
static double mean_of(const struct predictive *p, size_t j)
{
    double mean = p->mu[j * PRED_K];

    for (int g = 0; g < PRED_G; g++)
        mean += exp(p->log_p[g]) * p->shift[g];
    return mean;
}

static void files(void)
{
    struct timing_model *m = some_model(), *back;
    struct dsgd_error err = {""};

    is_int(timing_model_save(m, path, &err), DSGD_OK, "a dmm is written");
    is_int(timing_model_load(path, &back, &err), DSGD_OK, "and read");
    is_str(timing_model_kind(back), "dmm", "it knows its kind");
    ok(dmm_model_net(back)->n == WORKERS &&
           memcmp(dmm_model_net(back)->params, dmm_model_net(m)->params,
                  dmm_model_net(m)->n_params * sizeof(float)) == 0,
       "the same bits");
    timing_model_free(back);
    dmm_model_net(m)->params[100] = NAN;
    timing_model_save(m, path, NULL);
    is_int(timing_model_load(path, &back, &err), DSGD_E_FORMAT,
           "a parameter that is not a number");
    has_str(err.text, "rnn.weight_ih_l0", "is told by its tensor");
    timing_model_free(m);
    unlink(path);
}

static void predicting(void)
{
    struct timing_model *m = some_model();
    struct timing *t, *u;
    struct dsgd_error err;
    struct rng r, s;
    double total = 0;

    is_int(timing_create(m, 2, 1, (const uint32_t[]){0, 0}, &t, &err),
           DSGD_E_RANGE, "another number of workers");
    has_str(err.text, "for 12 workers, not 2", "is told");
    timing_create(m, WORKERS, NODES, node_of, &t, NULL);
    timing_create(m, WORKERS, NODES, node_of, &u, NULL);
    ok(!timing_predict(t, NULL), "nothing is predicted before a step");
    rng_seed(&r, 8, 0);
    s = r;
    for (int i = 0; i < 30; i++) {
        timing_predict(t, NULL);
        observe(t, &r, 0);
        timing_predict(u, NULL);
        observe(u, &s, 6.9f);
    }
    const struct predictive *p = timing_predict(t, NULL);
    for (int g = 0; g < PRED_G; g++)
        total += exp(p->log_p[g]);
    near(total, 1, 1e-5, "the atoms' probabilities");
    const struct predictive *q = timing_predict(u, NULL);
    near(mean_of(q, 3) - mean_of(p, 3), 6.9, .3, "another unit is taken out");
    near(q->log_sd[0], p->log_sd[0], .2, "and does not widen the spread");
    timing_free(u);

    void *state = malloc(timing_state_bytes(t));
    double before = mean_of(timing_predict(t, NULL), 5);
    timing_state_save(t, state);
    timing_create(m, WORKERS, NODES, node_of, &u, NULL);
    is_int(timing_state_load(u, state, timing_state_bytes(t), &err), DSGD_OK,
           "the state is saved and loaded");
    near(mean_of(timing_predict(u, NULL), 5), before, 0,
         "and predicts the same");
    is_int(timing_state_load(u, state, timing_state_bytes(t) - 1, &err),
           DSGD_E_FORMAT, "a state cut short");
    free(state);
    timing_free(t);
    timing_free(u);
    timing_model_free(m);
}

/* Bounds are not values. */
static void always_cut(void)
{
    struct timing_model *m = some_model();
    struct timing *t;
    float y[WORKERS];
    uint8_t status[WORKERS];

    timing_create(m, WORKERS, NODES, node_of, &t, NULL);
    for (int i = 0; i < 200; i++) {
        for (int j = 0; j < WORKERS; j++) {
            y[j] = -2 + .1f * (float)j;
            status[j] = j == 0 ? TIMING_CENSORED : TIMING_EXACT;
        }
        timing_predict(t, NULL);
        timing_observe(t, y, status);
    }
    const struct predictive *p = timing_predict(t, NULL);
    ok(mean_of(p, 0) < -2 + .5,
       "a worker always cut is not thought ever "
       "slower: log duration %.2f, bound -2",
       mean_of(p, 0));
    timing_free(t);
    timing_model_free(m);
}

int main(void)
{
    int fd = mkstemp(path);

    if (fd < 0)
        return 1;
    close(fd);
    parity();
    differences();
    files();
    predicting();
    always_cut();
    unlink(path);
    return done();
}
