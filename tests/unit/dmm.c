/* The deep Markov model: ELBO terms and gradients against PyTorch with the same
 * noise, and against central differences. */
#include <string.h>

#include "dmm_elbo.h"
#include "dmm_net.h"
#include "rng.h"
#include "tap.h"

struct fixture {
    size_t n, length, batch;
    double beta, log_lik, kl, loss;
    float *y, *noise, *want; /* want: gradients in the arena's order */
    struct dmm_net *net;
};

static FILE *open_data(const char *name)
{
    char path[4096];
    const char *dir = getenv("DSGD_SRCDIR");

    snprintf(path, sizeof path, "%s/tests/data/model/%s", dir ? dir : ".",
             name);
    FILE *f = fopen(path, "r");
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

int main(void)
{
    parity();
    differences();
    return done();
}
