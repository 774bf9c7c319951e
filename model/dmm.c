#include "dmm_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "ops.h"
#include "rng.h"

enum {
    SAMPLES = 32,
    Z = DMM_Z,
    R = DMM_R,
    HT = DMM_HT,
    HE = DMM_HE,
    W = DMM_WINDOW
};
#define UNUSED     -30.f /* log weight of what is not used */
#define OTHER_UNIT 2.f   /* in log */

struct dmm {
    struct timing base;
    const struct dmm_net *net;
    size_t n, seen;          /* workers; steps observed, at most W are kept */
    float level;             /* taken off the log durations */
    float *window;           /* [W][n] standardised, the oldest first */
    float *noise;            /* [W + 1][SAMPLES][Z] */
    float *x, *gi;           /* [n]; [W][3R] */
    float *gh, *state;       /* [3R]; [W + 1][R] */
    float *z, *c, *s;        /* [SAMPLES][Z], [SAMPLES][R], [SAMPLES][Z] */
    float *t1, *g, *h, *lin; /* [SAMPLES][HT], then [Z] each */
    float *e1, *my, *sy;     /* [SAMPLES][HE], then [n] each */
    float *mean, *sd;        /* [n] marginal, standardised */
    float common[SAMPLES];
    struct predictive p;
    uint32_t *node;
    float *mu, *log_sd, *log_w, *node_shift, *node_log_p, *node_tail;
    float shift[PRED_G], log_p[PRED_G], tail[PRED_G * (PRED_K - 1)],
        scale[PRED_G];
    float *memory;
};

static void carve(struct dmm *d, size_t n_nodes, float *next)
{
    size_t n = d->n;
    const struct {
        float **at;
        size_t count;
    } pieces[] = {
        {&d->window, W * n},
        {&d->noise, (W + 1) * SAMPLES * Z},
        {&d->x, n},
        {&d->gi, W * 3 * R},
        {&d->gh, 3 * R},
        {&d->state, (W + 1) * R},
        {&d->z, SAMPLES * Z},
        {&d->c, SAMPLES * R},
        {&d->s, SAMPLES * Z},
        {&d->t1, SAMPLES * HT},
        {&d->g, SAMPLES * Z},
        {&d->h, SAMPLES * Z},
        {&d->lin, SAMPLES * Z},
        {&d->e1, SAMPLES * HE},
        {&d->my, SAMPLES * n},
        {&d->sy, SAMPLES * n},
        {&d->mean, n},
        {&d->sd, n},
        {&d->mu, n * PRED_K},
        {&d->log_sd, n * PRED_K},
        {&d->log_w, n * PRED_K},
        {&d->node_shift, n_nodes * PRED_M},
        {&d->node_log_p, n_nodes * PRED_M},
        {&d->node_tail, n_nodes * PRED_M * (PRED_K - 1)},
    };
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        *pieces[i].at = next;
        next += pieces[i].count;
    }
}

static size_t floats_needed(size_t n, size_t n_nodes)
{
    return n * (W + 2 * SAMPLES + 3 + 3 * PRED_K) +
           n_nodes * PRED_M * (PRED_K + 1) + (W + 1) * (SAMPLES * Z + R) +
           W * 3 * R + 3 * R + SAMPLES * (5 * Z + R + HT + HE);
}

/* Draws in pairs of opposite sign. */
static void fill_noise(float *noise)
{
    struct rng r;

    rng_seed(&r, 20181204, 0);
    for (size_t t = 0; t <= W; t++) {
        float *row = noise + t * SAMPLES * Z;
        for (size_t i = 0; i < SAMPLES / 2 * Z; i++) {
            row[i] = (float)rng_normal(&r);
            row[i + SAMPLES / 2 * Z] = -row[i];
        }
    }
}

/* The parts of the predictive that do not change. */
static void set_up_predictive(struct dmm *d, size_t n_nodes)
{
    d->p = (struct predictive){.n = d->n,
                               .n_nodes = n_nodes,
                               .node = d->node,
                               .mu = d->mu,
                               .log_sd = d->log_sd,
                               .log_w = d->log_w,
                               .node_shift = d->node_shift,
                               .node_log_p = d->node_log_p,
                               .node_tail = d->node_tail,
                               .shift = d->shift,
                               .log_p = d->log_p,
                               .tail = d->tail,
                               .scale = d->scale};
    for (size_t i = 0; i < d->n * PRED_K; i++)
        d->log_w[i] = i % PRED_K ? UNUSED : 0;
    for (size_t i = 0; i < n_nodes * PRED_M; i++)
        d->node_log_p[i] = i % PRED_M ? UNUSED : 0;
}

enum dsgd_err dmm_create(const struct timing_model *m, size_t n, size_t n_nodes,
                         const uint32_t *node, struct timing **out,
                         struct dsgd_error *err)
{
    const struct dmm_net *net = dmm_net_of(m);

    *out = NULL;
    if (n != net->n)
        return error_set(err, DSGD_E_RANGE,
                         "the dmm model is for %zu workers, not %zu: fit one "
                         "for this cluster, or use a set model",
                         net->n, n);
    struct dmm *d = calloc(1, sizeof *d);
    if (d) {
        d->node = malloc(n * sizeof *d->node);
        d->memory = calloc(floats_needed(n, n_nodes), sizeof *d->memory);
    }
    if (!d || !d->node || !d->memory) {
        dmm_free(d ? &d->base : NULL);
        return error_set(err, DSGD_E_NOMEM, "no memory for a dmm at work");
    }
    d->base = (struct timing){.model = m, .n = n, .n_nodes = n_nodes};
    d->net = net;
    d->n = n;
    memcpy(d->node, node, n * sizeof *node);
    carve(d, n_nodes, d->memory);
    fill_noise(d->noise);
    set_up_predictive(d, n_nodes);
    *out = &d->base;
    return DSGD_OK;
}

/* base is the first member. */
static struct dmm *of(const struct timing *t)
{
    return (struct dmm *)(uintptr_t)t;
}

void dmm_free(struct timing *t)
{
    struct dmm *d = of(t);

    if (!d)
        return;
    free(d->node);
    free(d->memory);
    free(d);
}

/* The guide's GRU from the window's end; state[t] belongs to its step t. */
static void guide_rnn(struct dmm *d, size_t steps)
{
    const struct dmm_net *net = d->net;
    const float *p = net->params;
    const size_t *at = net->at;

    ops_linear(steps, d->n, 3 * R, d->window, p + at[DMM_RNN_WI],
               p + at[DMM_RNN_BI], d->gi);
    memset(d->state + steps * R, 0, R * sizeof *d->state);
    for (size_t t = steps; t-- > 0;) {
        const float *before = d->state + (t + 1) * R;
        ops_linear(1, R, 3 * R, before, p + at[DMM_RNN_WH], p + at[DMM_RNN_BH],
                   d->gh);
        ops_gru_gates(1, R, d->gi + t * 3 * R, d->gh, before, NULL,
                      d->state + t * R);
    }
}

/* Draws of the last step's z. */
static void guide(struct dmm *d, size_t steps)
{
    const float *start = d->net->params + d->net->at[DMM_ZQ0];

    for (size_t i = 0; i < SAMPLES * Z; i++)
        d->z[i] = start[i % Z];
    for (size_t t = 0; t < steps; t++) {
        const float *noise = d->noise + t * SAMPLES * Z;
        dmm_layer(d->net, DMM_CZ_W, SAMPLES, d->z, d->c);
        ops_tanh(SAMPLES * R, d->c, d->c);
        for (size_t i = 0; i < SAMPLES * R; i++)
            d->c[i] = .5f * (d->c[i] + d->state[t * R + i % R]);
        dmm_layer(d->net, DMM_QM_W, SAMPLES, d->c, d->z);
        dmm_layer(d->net, DMM_QS_W, SAMPLES, d->c, d->s);
        dmm_spread(SAMPLES * Z, d->s, DMM_LEAST_Z, d->s);
        for (size_t i = 0; i < SAMPLES * Z; i++)
            d->z[i] += d->s[i] * noise[i];
    }
}

/* One step on. */
static void transition(struct dmm *d)
{
    const float *noise = d->noise + W * SAMPLES * Z;

    dmm_layer(d->net, DMM_G1_W, SAMPLES, d->z, d->t1);
    dmm_relu(SAMPLES * HT, d->t1);
    dmm_layer(d->net, DMM_G2_W, SAMPLES, d->t1, d->g);
    ops_sigmoid(SAMPLES * Z, d->g, d->g);
    dmm_layer(d->net, DMM_H1_W, SAMPLES, d->z, d->t1);
    dmm_relu(SAMPLES * HT, d->t1);
    dmm_layer(d->net, DMM_H2_W, SAMPLES, d->t1, d->h);
    dmm_layer(d->net, DMM_LIN_W, SAMPLES, d->z, d->lin);
    for (size_t i = 0; i < SAMPLES * Z; i++)
        d->z[i] = (1 - d->g[i]) * d->lin[i] + d->g[i] * d->h[i];
    dmm_relu(SAMPLES * Z, d->h);
    dmm_layer(d->net, DMM_TS_W, SAMPLES, d->h, d->s);
    dmm_spread(SAMPLES * Z, d->s, DMM_LEAST_Z, d->s);
    for (size_t i = 0; i < SAMPLES * Z; i++)
        d->z[i] += d->s[i] * noise[i];
}

static void emission(struct dmm *d)
{
    dmm_layer(d->net, DMM_E1_W, SAMPLES, d->z, d->e1);
    dmm_relu(SAMPLES * HE, d->e1);
    dmm_layer(d->net, DMM_EM_W, SAMPLES, d->e1, d->my);
    dmm_layer(d->net, DMM_ES_W, SAMPLES, d->e1, d->sy);
    dmm_spread(SAMPLES * d->n, d->sy, DMM_LEAST_Y, d->sy);
}

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* The cluster atoms from what the draws have in common; leaves those parts in
 * d->common, centred. */
static void match_common(struct dmm *d)
{
    float sorted[SAMPLES], mean = 0;

    for (size_t s = 0; s < SAMPLES; s++) {
        double sum = 0;
        for (size_t j = 0; j < d->n; j++)
            sum += d->my[s * d->n + j];
        d->common[s] = (float)(sum / (double)d->n);
        mean += d->common[s] / SAMPLES;
    }
    for (size_t s = 0; s < SAMPLES; s++)
        sorted[s] = d->common[s] -= mean;
    qsort(sorted, SAMPLES, sizeof *sorted, ascending);
    for (size_t g = 0; g < PRED_G; g++) {
        size_t from = g * SAMPLES / PRED_G, to = (g + 1) * SAMPLES / PRED_G;
        float sum = 0;
        for (size_t s = from; s < to; s++)
            sum += sorted[s];
        d->shift[g] = sum / (float)(to - from) * d->net->scale;
        d->log_p[g] = logf((float)(to - from) / SAMPLES);
    }
}

/* A worker's Gaussian over the draws, without and with the common part. */
static void match_worker(struct dmm *d, size_t j)
{
    double mean = 0, square = 0, within = 0, all = 0;
    const struct dmm_net *net = d->net;

    for (size_t s = 0; s < SAMPLES; s++)
        mean += d->my[s * d->n + j] / SAMPLES;
    for (size_t s = 0; s < SAMPLES; s++) {
        double off = d->my[s * d->n + j] - mean, own = off - d->common[s];
        double sd = d->sy[s * d->n + j];
        all += off * off / SAMPLES;
        square += own * own / SAMPLES;
        within += sd * sd / SAMPLES;
    }
    d->mean[j] = (float)mean;
    d->sd[j] = (float)sqrt(all + within);
    for (size_t k = 0; k < PRED_K; k++) {
        d->mu[j * PRED_K + k] =
            (float)(mean * net->scale) + net->mean[j] + d->level;
        d->log_sd[j * PRED_K + k] =
            (float)(log(net->scale) + .5 * log(square + within));
    }
}

const struct predictive *dmm_predict(struct timing *t, const float *telemetry)
{
    struct dmm *d = of(t);
    size_t steps = d->seen < W ? d->seen : W;

    (void)telemetry;
    if (steps == 0)
        return NULL;
    guide_rnn(d, steps);
    guide(d, steps);
    transition(d);
    emission(d);
    match_common(d);
    for (size_t j = 0; j < d->n; j++)
        match_worker(d, j);
    return &d->p;
}

/* Another unit shows in the first step's median. */
static void find_level(struct dmm *d, const float *log_s, const uint8_t *status)
{
    size_t count = 0;

    for (size_t j = 0; j < d->n; j++)
        if (status[j] != TIMING_NONE)
            d->x[count++] = log_s[j] - d->net->mean[j];
    if (count == 0)
        return;
    qsort(d->x, count, sizeof *d->x, ascending);
    float median = d->x[count / 2];
    d->level = fabsf(median) > OTHER_UNIT ? median : 0;
}

/* What the guide is shown: a lower bound is replaced by the predictive's mean
 * beyond it, nothing by its mean. */
static float shown(const struct dmm *d, size_t j, float y, int status)
{
    if (status == TIMING_NONE || !isfinite(y))
        return d->seen ? d->mean[j] : 0;
    if (status != TIMING_CENSORED || !d->seen)
        return y;
    double a = (y - d->mean[j]) / d->sd[j];
    return d->mean[j] + d->sd[j] * (float)ops_normal_beyond(a);
}

void dmm_observe(struct timing *t, const float *log_s, const uint8_t *status)
{
    struct dmm *d = of(t);
    size_t n = d->n;

    if (d->seen == 0)
        find_level(d, log_s, status);
    if (d->seen >= W)
        memmove(d->window, d->window + n, (W - 1) * n * sizeof *d->window);
    float *row = d->window + (d->seen < W ? d->seen : W - 1) * n;
    for (size_t j = 0; j < n; j++) {
        float y = (log_s[j] - d->level - d->net->mean[j]) / d->net->scale;
        row[j] = shown(d, j, y, status[j]);
    }
    d->seen++;
}

/* Then the window and the last predictive's moments. */
struct saved {
    uint64_t seen;
    float level;
    uint32_t unused;
};

size_t dmm_state_bytes(const struct timing *t)
{
    return sizeof(struct saved) + (W + 2) * t->n * sizeof(float);
}

void dmm_state_save(const struct timing *t, void *out)
{
    const struct dmm *d = of(t);
    struct saved head = {.seen = d->seen, .level = d->level};
    char *at = out;
    size_t row = d->n * sizeof(float);

    memcpy(at, &head, sizeof head);
    memcpy(at + sizeof head, d->window, W * row);
    memcpy(at + sizeof head + W * row, d->mean, row);
    memcpy(at + sizeof head + (W + 1) * row, d->sd, row);
}

enum dsgd_err dmm_state_load(struct timing *t, const void *in,
                             struct dsgd_error *err)
{
    struct dmm *d = of(t);
    struct saved head;
    const char *at = in;
    size_t row = d->n * sizeof(float);

    memcpy(&head, in, sizeof head);
    if (!isfinite(head.level))
        return error_set(err, DSGD_E_FORMAT,
                         "saved timing state: its level is not a number");
    d->seen = (size_t)head.seen;
    d->level = head.level;
    memcpy(d->window, at + sizeof head, W * row);
    memcpy(d->mean, at + sizeof head + W * row, row);
    memcpy(d->sd, at + sizeof head + (W + 1) * row, row);
    return DSGD_OK;
}
