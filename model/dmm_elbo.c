#include "dmm_elbo.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "ops.h"

enum { Z = DMM_Z, R = DMM_R, HT = DMM_HT, HE = DMM_HE };
#define LOG_SQRT_2PI 0.91893853320467274

/* What the forward pass leaves for the backward pass, a row a (step, window),
 * and gradients beside it. */
struct dmm_elbo {
    const struct dmm_net *net;
    size_t length, batch, rows;
    const float *y, *noise;
    const uint8_t *known;
    const float *x;
    float *gi, *gh, *cache;  /* [L][B][3R], [3R], [4R] */
    float *state;            /* [L+1][B][R] GRU, state[L] = 0 */
    float *cz, *c;           /* [rows][R] tanh, combined */
    float *mq, *sq, *rq;     /* [rows][Z] guide; r: before softplus */
    float *z;                /* [L+1][B][Z], the first: zq0 */
    float *zp;               /* [rows][Z] what the transition starts from */
    float *g1, *h1;          /* [rows][HT] */
    float *g, *h, *hr, *lin; /* [rows][Z]; hr = relu h */
    float *mp, *sp, *rp;     /* [rows][Z] transition */
    float *e1;               /* [rows][HE] */
    float *my, *sy, *ry;     /* [rows][n] emission */
    float *dz;               /* [L+1][B][Z] */
    float *dzp, *da, *db, *dc, *dmq, *dsq, *dmp, *dsp; /* [rows][Z] */
    float *dt;                                         /* [rows][HT] */
    float *dr, *dcz;                                   /* [rows][R] */
    float *de1;                                        /* [rows][HE] */
    float *dmy, *dsy;                                  /* [rows][n] */
    float *dgi, *dgh;                                  /* [rows][3R] */
    float *dstate;                                     /* [B][R] */
    float *memory;
};

/* Where each array goes: a function of the shape alone, so that it is counted
 * and cut by the same lines. */
struct piece {
    size_t offset, rows_plus, width; /* (rows + rows_plus) * width floats */
};
#define PIECE(field, plus, width)                     \
    {                                                 \
        offsetof(struct dmm_elbo, field), plus, width \
    }
enum { WIDTH_N = 0, PLUS_B = 1, ONLY_B = 2 };
static const struct piece pieces[] = {
    PIECE(gi, 0, 3 * R),     PIECE(gh, 0, 3 * R),    PIECE(cache, 0, 4 * R),
    PIECE(rq, 0, Z),         PIECE(rp, 0, Z),        PIECE(ry, 0, WIDTH_N),
    PIECE(state, PLUS_B, R), PIECE(cz, 0, R),        PIECE(c, 0, R),
    PIECE(mq, 0, Z),         PIECE(sq, 0, Z),        PIECE(z, PLUS_B, Z),
    PIECE(zp, 0, Z),         PIECE(g1, 0, HT),       PIECE(h1, 0, HT),
    PIECE(g, 0, Z),          PIECE(h, 0, Z),         PIECE(hr, 0, Z),
    PIECE(lin, 0, Z),        PIECE(mp, 0, Z),        PIECE(sp, 0, Z),
    PIECE(e1, 0, HE),        PIECE(my, 0, WIDTH_N),  PIECE(sy, 0, WIDTH_N),
    PIECE(dz, PLUS_B, Z),    PIECE(dzp, 0, Z),       PIECE(da, 0, Z),
    PIECE(db, 0, Z),         PIECE(dc, 0, Z),        PIECE(dmq, 0, Z),
    PIECE(dsq, 0, Z),        PIECE(dmp, 0, Z),       PIECE(dsp, 0, Z),
    PIECE(dt, 0, HT),        PIECE(dr, 0, R),        PIECE(dcz, 0, R),
    PIECE(de1, 0, HE),       PIECE(dmy, 0, WIDTH_N), PIECE(dsy, 0, WIDTH_N),
    PIECE(dgi, 0, 3 * R),    PIECE(dgh, 0, 3 * R),   PIECE(dstate, ONLY_B, R),
};
enum { N_PIECES = sizeof pieces / sizeof pieces[0] };

static size_t piece_floats(const struct dmm_elbo *e, const struct piece *p)
{
    size_t width = p->width == WIDTH_N ? e->net->n : p->width;
    size_t rows = p->rows_plus == ONLY_B   ? e->batch
                  : p->rows_plus == PLUS_B ? e->rows + e->batch
                                           : e->rows;

    return rows * width;
}

enum dsgd_err dmm_elbo_create(const struct dmm_net *net, size_t length,
                              size_t batch, struct dmm_elbo **out,
                              struct dsgd_error *err)
{
    *out = NULL;
    if (length < 1 || length > 4096 || batch < 1 || batch > 4096)
        return error_set(err, DSGD_E_RANGE,
                         "%zu windows of %zu steps: give 1 to 4096 of each",
                         batch, length);
    struct dmm_elbo *e = calloc(1, sizeof *e);
    if (!e)
        return error_set(err, DSGD_E_NOMEM, "no memory for a dmm's training");
    e->net = net;
    e->length = length;
    e->batch = batch;
    e->rows = length * batch;
    size_t total = 0;
    for (size_t i = 0; i < N_PIECES; i++)
        total += piece_floats(e, &pieces[i]);
    float *next = e->memory = calloc(total, sizeof *next);
    if (!next) {
        free(e);
        return error_set(err, DSGD_E_NOMEM,
                         "no memory for %zu windows of %zu workers", batch,
                         net->n);
    }
    for (size_t i = 0; i < N_PIECES; i++) {
        memcpy((char *)e + pieces[i].offset, &next, sizeof next);
        next += piece_floats(e, &pieces[i]);
    }
    *out = e;
    return DSGD_OK;
}

void dmm_elbo_free(struct dmm_elbo *e)
{
    if (!e)
        return;
    free(e->memory);
    free(e);
}

static const float *param(const struct dmm_elbo *e, enum dmm_tensor tensor)
{
    return e->net->params + e->net->at[tensor];
}

/* dx += dy W */
static void input_back(const struct dmm_elbo *e, enum dmm_tensor w, size_t rows,
                       const float *dy, float *dx)
{
    struct dmm_shape shape = dmm_tensor(w, e->net->n);

    ops_gemm(false, false, rows, shape.cols, shape.rows, dy, shape.rows,
             param(e, w), shape.cols, 1, dx, shape.cols);
}

/* The layer's parameters over all rows, and its input unless dx is NULL. */
static void layer_back(const struct dmm_elbo *e, enum dmm_tensor w,
                       const float *x, const float *dy, float *dx, float *grad)
{
    struct dmm_shape shape = dmm_tensor(w, e->net->n);

    ops_linear_back(e->rows, shape.cols, shape.rows, x, param(e, w), dy, NULL,
                    grad + e->net->at[w], grad + e->net->at[w + 1]);
    if (dx)
        input_back(e, w, e->rows, dy, dx);
}

static void relu_back(size_t n, const float *y, float *dy)
{
    for (size_t i = 0; i < n; i++)
        dy[i] = y[i] > 0 ? dy[i] : 0;
}

static void fill(size_t rows, const float *row, float *out)
{
    for (size_t i = 0; i < rows; i++)
        memcpy(out + i * Z, row, Z * sizeof *row);
}

/* From the window's end to its start. */
static void guide_rnn(struct dmm_elbo *e)
{
    size_t b = e->batch, width = b * 3 * R;
    const float *bi = param(e, DMM_RNN_BI);

    ops_linear(e->rows, e->net->n, 3 * R, e->x, param(e, DMM_RNN_WI), bi,
               e->gi);
    for (size_t t = e->length; t-- > 0;) {
        const float *before = e->state + (t + 1) * b * R;
        ops_linear(b, R, 3 * R, before, param(e, DMM_RNN_WH),
                   param(e, DMM_RNN_BH), e->gh + t * width);
        ops_gru_gates(b, R, e->gi + t * width, e->gh + t * width, before,
                      e->cache + t * b * 4 * R, e->state + t * b * R);
    }
}

/* z_t one after the other: the only part that can't be done at once. */
static void guide(struct dmm_elbo *e)
{
    size_t b = e->batch;

    guide_rnn(e);
    fill(b, param(e, DMM_ZQ0), e->z);
    for (size_t t = 0; t < e->length; t++) {
        size_t r = t * b * R, k = t * b * Z;
        dmm_layer(e->net, DMM_CZ_W, b, e->z + k, e->cz + r);
        ops_tanh(b * R, e->cz + r, e->cz + r);
        for (size_t i = r; i < r + b * R; i++)
            e->c[i] = .5f * (e->cz[i] + e->state[i]);
        dmm_layer(e->net, DMM_QM_W, b, e->c + r, e->mq + k);
        dmm_layer(e->net, DMM_QS_W, b, e->c + r, e->rq + k);
        dmm_spread(b * Z, e->rq + k, DMM_LEAST_Z, e->sq + k);
        for (size_t i = k; i < k + b * Z; i++)
            e->z[i + b * Z] = e->mq[i] + e->sq[i] * e->noise[i];
    }
}

static void transition(struct dmm_elbo *e)
{
    size_t rows = e->rows, first = e->batch * Z;

    fill(e->batch, param(e, DMM_Z0), e->zp);
    memcpy(e->zp + first, e->z + first, (rows * Z - first) * sizeof *e->z);
    dmm_layer(e->net, DMM_G1_W, rows, e->zp, e->g1);
    dmm_relu(rows * HT, e->g1);
    dmm_layer(e->net, DMM_G2_W, rows, e->g1, e->g);
    ops_sigmoid(rows * Z, e->g, e->g);
    dmm_layer(e->net, DMM_H1_W, rows, e->zp, e->h1);
    dmm_relu(rows * HT, e->h1);
    dmm_layer(e->net, DMM_H2_W, rows, e->h1, e->h);
    dmm_layer(e->net, DMM_LIN_W, rows, e->zp, e->lin);
    memcpy(e->hr, e->h, rows * Z * sizeof *e->h);
    dmm_relu(rows * Z, e->hr);
    dmm_layer(e->net, DMM_TS_W, rows, e->hr, e->rp);
    dmm_spread(rows * Z, e->rp, DMM_LEAST_Z, e->sp);
    for (size_t i = 0; i < rows * Z; i++)
        e->mp[i] = (1 - e->g[i]) * e->lin[i] + e->g[i] * e->h[i];
}

static void emission(struct dmm_elbo *e)
{
    const float *z = e->z + e->batch * Z;

    dmm_layer(e->net, DMM_E1_W, e->rows, z, e->e1);
    dmm_relu(e->rows * HE, e->e1);
    dmm_layer(e->net, DMM_EM_W, e->rows, e->e1, e->my);
    dmm_layer(e->net, DMM_ES_W, e->rows, e->e1, e->ry);
    dmm_spread(e->rows * e->net->n, e->ry, DMM_LEAST_Y, e->sy);
}

/* log(1 - Phi(a)) and phi(a) / (1 - Phi(a)), also far out in the tail, where
 * erfc is 0 (asymptotic series). */
static double log_survival(double a, double *hazard)
{
    if (a < 12) {
        double tail = .5 * erfc(a / sqrt(2));
        *hazard = exp(-.5 * a * a - LOG_SQRT_2PI) / tail;
        return log(tail);
    }
    double q = 1 / (a * a), series = 1 - q * (1 - 3 * q * (1 - 5 * q));
    *hazard = a / series;
    return -.5 * a * a - LOG_SQRT_2PI - log(a) + log(series);
}

static double log_lik(const struct dmm_elbo *e)
{
    double sum = 0, hazard;

    for (size_t i = 0; i < e->rows * e->net->n; i++) {
        double r = (e->y[i] - e->my[i]) / e->sy[i];
        int known = e->known ? e->known[i] : 1;
        if (known == 1)
            sum -= .5 * r * r + log(e->sy[i]);
        else if (known == 0)
            sum += log_survival(r, &hazard) + LOG_SQRT_2PI;
    }
    return sum / (double)e->batch;
}

static double kl(const struct dmm_elbo *e)
{
    double sum = 0;

    for (size_t i = 0; i < e->rows * Z; i++) {
        double sq = e->sq[i], sp = e->sp[i];
        double d = (double)e->mq[i] - e->mp[i];
        sum += log(sp / sq) - .5 + (sq * sq + d * d) / (2 * sp * sp);
    }
    return sum / (double)e->batch;
}

struct dmm_terms dmm_elbo_forward(struct dmm_elbo *e, const float *y,
                                  const float *x, const uint8_t *known,
                                  const float *noise)
{
    e->y = y;
    e->x = x;
    e->known = known;
    e->noise = noise;
    guide(e);
    transition(e);
    emission(e);
    return (struct dmm_terms){.log_lik = log_lik(e), .kl = kl(e)};
}

/* dmy, dsy: gradients of the loss at the emission's two layers. */
static void emission_grad(struct dmm_elbo *e, double w)
{
    size_t total = e->rows * e->net->n;
    double hazard;

    for (size_t i = 0; i < total; i++) {
        double s = e->sy[i], r = (e->y[i] - e->my[i]) / s;
        int known = e->known ? e->known[i] : 1;
        double dm = 0, ds = 0;
        if (known == 1) {
            dm = -r / s;
            ds = (1 - r * r) / s;
        } else if (known == 0) {
            log_survival(r, &hazard);
            dm = -hazard / s;
            ds = -hazard * r / s;
        }
        e->dmy[i] = (float)(w * dm);
        e->dsy[i] = (float)(w * ds);
    }
    ops_softplus_back(total, e->ry, e->dsy, e->dsy);
}

static void emission_back(struct dmm_elbo *e, double w, float *grad)
{
    size_t first = e->batch * Z;

    emission_grad(e, w);
    memset(e->de1, 0, e->rows * HE * sizeof *e->de1);
    layer_back(e, DMM_EM_W, e->e1, e->dmy, e->de1, grad);
    layer_back(e, DMM_ES_W, e->e1, e->dsy, e->de1, grad);
    relu_back(e->rows * HE, e->e1, e->de1);
    layer_back(e, DMM_E1_W, e->z + first, e->de1, e->dz + first, grad);
}

static void kl_grad(struct dmm_elbo *e, double w)
{
    for (size_t i = 0; i < e->rows * Z; i++) {
        double sq = e->sq[i], sp = e->sp[i];
        double d = (double)e->mq[i] - e->mp[i], p = 1 / (sp * sp);
        e->dmq[i] = (float)(w * d * p);
        e->dmp[i] = -e->dmq[i];
        e->dsq[i] = (float)(w * (sq * p - 1 / sq));
        e->dsp[i] = (float)(w * (1 - (sq * sq + d * d) * p) / sp);
    }
}

/* Through mp and sp to dzp. */
static void transition_back(struct dmm_elbo *e, float *grad)
{
    size_t rows = e->rows, all = rows * Z;
    float *dg = e->da, *dh = e->db, *dlin = e->dc;

    ops_softplus_back(all, e->rp, e->dsp, e->dsp);
    memset(dh, 0, all * sizeof *dh);
    layer_back(e, DMM_TS_W, e->hr, e->dsp, dh, grad);
    relu_back(all, e->hr, dh);
    for (size_t i = 0; i < all; i++) {
        dh[i] += e->dmp[i] * e->g[i];
        dlin[i] = e->dmp[i] * (1 - e->g[i]);
        dg[i] = e->dmp[i] * (e->h[i] - e->lin[i]) * e->g[i] * (1 - e->g[i]);
    }
    memset(e->dzp, 0, all * sizeof *e->dzp);
    layer_back(e, DMM_LIN_W, e->zp, dlin, e->dzp, grad);
    memset(e->dt, 0, rows * HT * sizeof *e->dt);
    layer_back(e, DMM_H2_W, e->h1, dh, e->dt, grad);
    relu_back(rows * HT, e->h1, e->dt);
    layer_back(e, DMM_H1_W, e->zp, e->dt, e->dzp, grad);
    memset(e->dt, 0, rows * HT * sizeof *e->dt);
    layer_back(e, DMM_G2_W, e->g1, dg, e->dt, grad);
    relu_back(rows * HT, e->g1, e->dt);
    layer_back(e, DMM_G1_W, e->zp, e->dt, e->dzp, grad);
}

/* dz of the transition's starting points. */
static void spread_dzp(struct dmm_elbo *e, float *grad)
{
    size_t first = e->batch * Z;

    ops_add_rows(e->batch, Z, e->dzp, grad + e->net->at[DMM_Z0]);
    for (size_t i = first; i < e->rows * Z; i++)
        e->dz[i] += e->dzp[i];
}

/* From the last z to the first; leaves the GRU's gradient in dr. */
static void guide_back(struct dmm_elbo *e, float *grad)
{
    size_t b = e->batch;

    memset(e->dr, 0, e->rows * R * sizeof *e->dr);
    for (size_t t = e->length; t-- > 0;) {
        size_t r = t * b * R, k = t * b * Z;
        for (size_t i = k; i < k + b * Z; i++) {
            e->dmq[i] += e->dz[i + b * Z];
            e->dsq[i] += e->dz[i + b * Z] * e->noise[i];
        }
        ops_softplus_back(b * Z, e->rq + k, e->dsq + k, e->dsq + k);
        input_back(e, DMM_QM_W, b, e->dmq + k, e->dr + r);
        input_back(e, DMM_QS_W, b, e->dsq + k, e->dr + r);
        for (size_t i = r; i < r + b * R; i++) {
            e->dr[i] *= .5f;
            e->dcz[i] = e->dr[i] * (1 - e->cz[i] * e->cz[i]);
        }
        input_back(e, DMM_CZ_W, b, e->dcz + r, e->dz + k);
    }
    layer_back(e, DMM_QM_W, e->c, e->dmq, NULL, grad);
    layer_back(e, DMM_QS_W, e->c, e->dsq, NULL, grad);
    layer_back(e, DMM_CZ_W, e->z, e->dcz, NULL, grad);
    ops_add_rows(b, Z, e->dz, grad + e->net->at[DMM_ZQ0]);
}

static void rnn_back(struct dmm_elbo *e, float *grad)
{
    size_t b = e->batch, width = b * 3 * R;
    const size_t *at = e->net->at;

    memset(e->dstate, 0, b * R * sizeof *e->dstate);
    for (size_t t = 0; t < e->length; t++) {
        for (size_t i = 0; i < b * R; i++)
            e->dstate[i] += e->dr[t * b * R + i];
        ops_gru_gates_back(b, R, e->cache + t * b * 4 * R,
                           e->state + (t + 1) * b * R, e->dstate,
                           e->dgi + t * width, e->dgh + t * width, e->dstate);
        input_back(e, DMM_RNN_WH, b, e->dgh + t * width, e->dstate);
    }
    ops_linear_back(e->rows, e->net->n, 3 * R, e->x, NULL, e->dgi, NULL,
                    grad + at[DMM_RNN_WI], grad + at[DMM_RNN_BI]);
    ops_linear_back(e->rows, R, 3 * R, e->state + b * R, NULL, e->dgh, NULL,
                    grad + at[DMM_RNN_WH], grad + at[DMM_RNN_BH]);
}

void dmm_elbo_backward(struct dmm_elbo *e, double beta, float *grad)
{
    double w = 1 / ((double)e->rows * (double)e->net->n);

    memset(grad, 0, e->net->n_params * sizeof *grad);
    memset(e->dz, 0, (e->rows + e->batch) * Z * sizeof *e->dz);
    emission_back(e, w, grad);
    kl_grad(e, w * beta);
    transition_back(e, grad);
    spread_dzp(e, grad);
    guide_back(e, grad);
    rnn_back(e, grad);
}
