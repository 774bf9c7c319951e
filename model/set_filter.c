#include "set_filter.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "ops.h"
#include "timing.h"

enum { WORKER_STATE = 7, CUT_OFTEN = 6 };

/* One arena of doubles, the state first: it is saved as it lies. */
struct set_filter {
    size_t n, n_nodes, n_telemetry;
    enum set_flags flags;
    uint32_t *node;   /* [n] */
    double *arena;    /* what follows */
    double *slow;     /* [n] */
    double *fast;     /* [n] */
    double *var;      /* [n] */
    double *last;     /* [n] as observed, or what took its place */
    double *weight;   /* [n] 1 exact, .7 progress, 0 censored or nothing */
    double *age;      /* [n] steps since it was observed */
    double *heard;    /* [n] 1: there was ever an observation */
    double *tele;     /* [n_nodes][n_telemetry] moving means, NaN: none yet */
    double *steps;    /* [1] */
    double *now;      /* [n_nodes][n_telemetry] as last seen, NaN: not valid */
    double *per_node; /* [n_nodes] workers; no state from now on */
    double *sum;      /* [n_nodes] */
    double *mass;     /* [n_nodes] */
};

static size_t state_size(const struct set_filter *f)
{
    return WORKER_STATE * f->n + f->n_nodes * f->n_telemetry + 1;
}

size_t set_node_features(size_t n_telemetry, enum set_flags flags)
{
    return 2 * n_telemetry + 2 + (flags == SET_FLAGS_ONE ? 1 : n_telemetry);
}

static void lay_out(struct set_filter *f)
{
    double *at = f->arena;
    double **per_worker[WORKER_STATE] = {
        &f->slow, &f->fast, &f->var, &f->last, &f->weight, &f->age, &f->heard};

    for (size_t i = 0; i < WORKER_STATE; i++, at += f->n)
        *per_worker[i] = at;
    f->tele = at;
    f->steps = at + f->n_nodes * f->n_telemetry;
    f->now = f->steps + 1;
    f->per_node = f->now + f->n_nodes * f->n_telemetry;
    f->sum = f->per_node + f->n_nodes;
    f->mass = f->sum + f->n_nodes;
    for (size_t i = 0; i < f->n_nodes * f->n_telemetry; i++)
        f->tele[i] = f->now[i] = NAN;
    for (size_t j = 0; j < f->n; j++)
        f->per_node[f->node[j]]++;
}

enum dsgd_err set_filter_create(size_t n, size_t n_nodes, const uint32_t *node,
                                size_t n_telemetry, enum set_flags flags,
                                struct set_filter **out, struct dsgd_error *err)
{
    struct set_filter *f = calloc(1, sizeof *f);

    *out = NULL;
    if (f) {
        *f = (struct set_filter){.n = n,
                                 .n_nodes = n_nodes,
                                 .n_telemetry = n_telemetry,
                                 .flags = flags};
        f->node = calloc(n, sizeof *f->node);
        f->arena = calloc(state_size(f) + n_nodes * (3 + n_telemetry),
                          sizeof *f->arena);
    }
    if (!f || !f->node || !f->arena) {
        set_filter_free(f);
        return error_set(err, DSGD_E_NOMEM, "no memory for %zu workers", n);
    }
    memcpy(f->node, node, n * sizeof *node);
    lay_out(f);
    *out = f;
    return DSGD_OK;
}

void set_filter_free(struct set_filter *f)
{
    if (!f)
        return;
    free(f->node);
    free(f->arena);
    free(f);
}

static double clip(double x, double limit)
{
    return fmax(-limit, fmin(x, limit));
}

/* Values, changes and flags of node i's telemetry; returns where they end. */
static float *telemetry_features(struct set_filter *f, size_t i,
                                 const float *telemetry, float *out)
{
    size_t n = f->n_telemetry;
    const double *mean = f->tele + i * n;
    double *now = f->now + i * n;
    bool any = false;

    for (size_t c = 0; c < n; c++) {
        now[c] = telemetry ? telemetry[i * n + c] : NAN;
        bool valid = isfinite(now[c]), known = valid && !isnan(mean[c]);
        now[c] = valid ? now[c] : NAN;
        out[c] = valid ? (float)clip(now[c], 6) : 0;
        out[n + c] = known ? (float)clip(now[c] - mean[c], 6) : 0;
        if (f->flags == SET_FLAGS_EACH)
            out[2 * n + c] = valid;
        any |= valid;
    }
    if (f->flags == SET_FLAGS_EACH)
        return out + 3 * n;
    out[2 * n] = any;
    return out + 2 * n + 1;
}

static void update_telemetry(struct set_filter *f)
{
    for (size_t i = 0; i < f->n_nodes * f->n_telemetry; i++) {
        if (isnan(f->now[i]))
            continue;
        if (isnan(f->tele[i]))
            f->tele[i] = f->now[i];
        f->tele[i] += .15 * (f->now[i] - f->tele[i]);
        f->now[i] = NAN;
    }
}

/* f->sum becomes each node's mean residual; returns the cluster's, clipped. */
static double mean_residuals(struct set_filter *f)
{
    double sum = 0, mass = 0;

    memset(f->sum, 0, f->n_nodes * sizeof *f->sum);
    memset(f->mass, 0, f->n_nodes * sizeof *f->mass);
    for (size_t j = 0; j < f->n; j++) {
        double w = f->weight[j] + 1e-3, residual = f->last[j] - f->slow[j];
        f->sum[f->node[j]] += w * residual;
        f->mass[f->node[j]] += w;
        sum += w * clip(residual, .5);
        mass += w;
    }
    for (size_t i = 0; i < f->n_nodes; i++)
        f->sum[i] /= f->mass[i];
    return sum / mass;
}

static void worker_features(const struct set_filter *f, size_t j, double level,
                            double cluster, float *out, float *anchor,
                            float *log_sd)
{
    double sd = sqrt(f->var[j]), node = f->sum[f->node[j]];
    double slow = f->slow[j], fast = f->fast[j], y = f->last[j];
    double residual = y - slow;
    const double value[SET_WORKER_FEATURES] = {
        y - level,
        residual,
        fast - slow,
        log(sd) + 2.5,
        f->weight[j],
        node,
        cluster,
        residual - node,
        slow - level,
        fmin(*f->steps, 40) / 40,
        fmin(f->age[j], 20) / 20,
        (y - fast) / (sd + .01) * .3,
    };

    for (size_t i = 0; i < SET_WORKER_FEATURES; i++)
        out[i] = (float)clip(value[i], 6);
    anchor[0] = (float)slow;
    anchor[1] = (float)fast;
    anchor[2] = (float)y;
    anchor[3] = (float)(slow + node);
    *log_sd = (float)log(sd);
}

void set_filter_features(struct set_filter *f, const float *telemetry,
                         float *worker, float *node, float *anchor,
                         float *log_sd)
{
    size_t width = set_node_features(f->n_telemetry, f->flags);
    bool first = *f->steps == 0;
    double level = 0, cluster = first ? 0 : mean_residuals(f);

    for (size_t j = 0; j < f->n; j++)
        level += f->slow[j] / (double)f->n;
    for (size_t i = 0; i < f->n_nodes; i++) {
        float *rest = telemetry_features(f, i, telemetry, node + i * width);
        rest[0] = first ? 0 : (float)clip(f->sum[i], 6);
        rest[1] = (float)(log(f->per_node[i]) / 4);
    }
    if (first) {
        memset(worker, 0, f->n * SET_WORKER_FEATURES * sizeof *worker);
        memset(anchor, 0, f->n * SET_ANCHORS * sizeof *anchor);
        for (size_t j = 0; j < f->n; j++)
            log_sd[j] = -2.5f;
        return;
    }
    for (size_t j = 0; j < f->n; j++)
        worker_features(f, j, level, cluster, worker + j * SET_WORKER_FEATURES,
                        anchor + j * SET_ANCHORS, &log_sd[j]);
}

static void start_worker(struct set_filter *f, size_t j, double y)
{
    f->slow[j] = f->fast[j] = f->last[j] = y;
    f->var[j] = .01;
    f->age[j] = 0;
}

/* The moving variance takes in that of y itself as well: of a worker that is
 * cut whenever it is slow, how slow is not forgotten. */
static void spread(struct set_filter *f, size_t j, double y, double var)
{
    double k = *f->steps + 1, surprise = y - f->fast[j];
    double limit = 3 * sqrt(f->var[j]) + .1;
    double square = fmin(surprise * surprise + var, limit * limit);

    f->var[j] += fmax(.05, 1 / (k + 2)) * (square - f->var[j]);
    f->var[j] = fmax(f->var[j], 2.5e-5);
}

static void move(struct set_filter *f, size_t j, double y)
{
    double k = *f->steps + 1;

    f->slow[j] += fmax(.05, 1 / k) * clip(y - f->slow[j], 3);
    f->fast[j] += fmax(.35, 1 / k) * (y - f->fast[j]);
    f->last[j] = y;
}

static void update_worker(struct set_filter *f, size_t j, double y)
{
    spread(f, j, y, 0);
    move(f, j, y);
    f->age[j] = 0;
}

/* Of a worker that is cut time and again nothing new is known while the bound
 * is below what it was thought to take.  The mean beyond the bound is above
 * that, by the predictive's tail, and would be higher every time: of two nodes
 * that took 1.7 s and were cut at 1.1, 3.4 came to be expected.  Of a batch
 * that goes on over several steps the bound rises, and its end is heard of. */
static double not_slower(const struct set_filter *f, size_t j, double bound,
                         double y)
{
    double known = fmax(f->fast[j], f->last[j]);

    return f->age[j] >= CUT_OFTEN && bound < known ? fmin(y, known) : y;
}

static void update_censored(struct set_filter *f, size_t j, double bound,
                            const struct set_imputed *imputed)
{
    if (imputed && isfinite(imputed->mean[j] + imputed->var[j])) {
        double y = not_slower(f, j, bound, imputed->mean[j]);
        spread(f, j, y, imputed->var[j]);
        move(f, j, y);
    } else {
        double sd = sqrt(f->var[j]);
        move(f, j,
             f->fast[j] + sd * ops_normal_beyond((bound - f->fast[j]) / sd));
    }
    f->age[j]++;
}

/* A worker of which nothing was heard in this step stays where it is. */
static void skip_worker(struct set_filter *f, size_t j)
{
    f->last[j] = f->fast[j];
    f->weight[j] = 0;
    f->age[j]++;
}

/* Whoever was never heard of starts from the mean of the others, again and
 * again until it is. */
static void start_silent(struct set_filter *f)
{
    double sum = 0, n = 0;

    for (size_t j = 0; j < f->n; j++) {
        sum += f->heard[j] * f->fast[j];
        n += f->heard[j];
    }
    for (size_t j = 0; j < f->n; j++) {
        double age = f->age[j];
        if (f->heard[j] > 0)
            continue;
        start_worker(f, j, sum / n);
        f->weight[j] = 0;
        f->age[j] = age + 1;
    }
}

void set_filter_update(struct set_filter *f, const float *log_s,
                       const uint8_t *status, const struct set_imputed *imputed)
{
    static const double weight[] = {
        [TIMING_CENSORED] = 0, [TIMING_PROGRESS] = .7, [TIMING_EXACT] = 1};
    size_t silent = 0;

    update_telemetry(f);
    for (size_t j = 0; j < f->n; j++) {
        if (status[j] > TIMING_EXACT || !isfinite(log_s[j])) {
            if (f->heard[j] > 0)
                skip_worker(f, j);
            else
                silent++;
            continue;
        }
        if (!(f->heard[j] > 0))
            start_worker(f, j, log_s[j]);
        else if (status[j] == TIMING_CENSORED)
            update_censored(f, j, log_s[j], imputed);
        else
            update_worker(f, j, log_s[j]);
        f->heard[j] = 1;
        f->weight[j] = weight[status[j]];
    }
    if (silent == f->n)
        return;
    if (silent)
        start_silent(f);
    ++*f->steps;
}

uint64_t set_filter_steps(const struct set_filter *f)
{
    return (uint64_t)*f->steps;
}

double *set_filter_state(struct set_filter *f, size_t *n)
{
    *n = state_size(f);
    return f->arena;
}

/* Position in the state of a worker's variance. */
enum { VARIANCE = 2 };

bool set_filter_valid(const struct set_filter *f, const void *state)
{
    size_t workers = WORKER_STATE * f->n, size = state_size(f);
    const char *at = state;
    double x = 0;

    for (size_t i = 0; i < size; i++) {
        bool mean = i >= workers && i + 1 < size; /* NaN: none yet */
        memcpy(&x, at + i * sizeof x, sizeof x);
        if (isinf(x) || (isnan(x) && !mean))
            return false;
    }
    bool begun = x > 0;
    for (size_t j = VARIANCE * f->n; j < (VARIANCE + 1) * f->n; j++) {
        memcpy(&x, at + j * sizeof x, sizeof x);
        if (!(x >= 0) || (begun && x == 0))
            return false;
    }
    return true;
}
