#include "policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cutoff.h"
#include "error.h"
#include "ewma.h"
#include "oracle.h"
#include "order_stats.h"
#include "sort.h"

enum { ROLLING = 10, ELFVING = 20, LAMBDA_STEPS = 300, SEED_STEPS = 15 };

struct policy {
    enum policy_kind kind;
    size_t n, steps, warmup, fixed;
    double overhead_s;
    enum live_late late;
    double micro_batches;
    size_t window;        /* steps looked back at, 0: none */
    double *rows;         /* [window][n] arrivals as they became known */
    double *known;        /* [n] what is known of each worker's duration */
    double *order;        /* [n] expected arrivals; scratch */
    double *draws;        /* [EWMA_ROWS][n] scratch */
    double count, time_s; /* lambda, discounted */
    bool *all;            /* [n] true */
    struct ewma *ewma;
    struct cutoff *cutoff;
    struct dynamic *dynamic;
};

static const char *const names[N_POLICIES] = {
    "full",      "static-best",  "static-tuned", "elfving",     "order",
    "last",      "rolling",      "ewma",         "dmm",         "dynamic",
    "parts-own", "parts-shared", "parts-last",   "parts-model", "no-idle"};

const char *policy_name(enum policy_kind kind)
{
    return names[kind];
}

enum policy_kind policy_parse(const char *name, size_t length)
{
    int kind = 0;

    while (kind < N_POLICIES && (strlen(names[kind]) != length ||
                                 memcmp(names[kind], name, length) != 0))
        kind++;
    return (enum policy_kind)kind;
}

bool policy_in_parts(enum policy_kind kind)
{
    return kind == POLICY_PARTS_OWN || kind == POLICY_PARTS_SHARED ||
           kind == POLICY_PARTS_LAST || kind == POLICY_PARTS_MODEL;
}

enum policy_model policy_model(enum policy_kind kind)
{
    switch (kind) {
    case POLICY_DMM:
        return POLICY_NEEDS_DMM;
    case POLICY_DYNAMIC:
    case POLICY_PARTS_OWN:
    case POLICY_PARTS_MODEL:
        return POLICY_NEEDS_SET;
    default:
        return POLICY_NEEDS_NONE;
    }
}

/* Best fixed count of the last 50 warm-up steps and its throughput: the seed of
 * lambda, never taken from a model. */
static enum dsgd_err tune(struct policy *p, const struct policy_setup *s,
                          struct dsgd_error *err)
{
    struct trace head = *s->trace;
    struct oracle o;

    if (!s->warmup) {
        p->fixed = p->n;
        return DSGD_OK;
    }
    head.steps = s->warmup;
    size_t from = s->warmup > 50 ? s->warmup - 50 : 0;
    double *sorted = oracle_sort(&head, from);
    if (!sorted)
        return error_set(err, DSGD_E_NOMEM, "policy: no memory");
    oracle_find(s->warmup - from, p->n, sorted, p->overhead_s, NULL, &o);
    free(sorted);
    p->fixed = o.best_c;
    p->count = o.best_static * SEED_STEPS;
    p->time_s = SEED_STEPS;
    return DSGD_OK;
}

static enum dsgd_err create_dynamic(struct policy *p,
                                    const struct policy_setup *s,
                                    struct dsgd_error *err)
{
    struct dynamic_spec spec;

    dynamic_spec_init(&spec);
    spec.n = p->n;
    spec.n_nodes = s->trace->n_nodes;
    spec.node = s->trace->node;
    spec.rule = s->rule;
    spec.late = s->late;
    spec.warmup = s->warmup;
    spec.seed = s->seed;
    return dynamic_create(&spec, s->model, &p->dynamic, err);
}

static enum dsgd_err create_parts(struct policy *p,
                                  const struct policy_setup *s,
                                  struct dsgd_error *err)
{
    static const struct cutoff_spec order = {.mode = CUTOFF_ORDER};

    switch (p->kind) {
    case POLICY_STATIC_BEST:
        p->fixed = s->best_c;
        return DSGD_OK;
    case POLICY_STATIC_TUNED:
        return tune(p, s, err);
    case POLICY_ORDER:
        return cutoff_create(&order, p->n, 0, 0, &p->cutoff, err);
    case POLICY_EWMA:
        p->draws = calloc(p->n, EWMA_ROWS * sizeof *p->draws);
        if (!p->draws)
            return error_set(err, DSGD_E_NOMEM, "policy: no memory");
        if (tune(p, s, err) != DSGD_OK)
            return DSGD_E_NOMEM;
        return ewma_create(p->n, &p->ewma, err);
    case POLICY_DMM:
    case POLICY_DYNAMIC:
        return create_dynamic(p, s, err);
    default:
        return DSGD_OK;
    }
}

enum dsgd_err policy_create(enum policy_kind kind, const struct policy_setup *s,
                            struct policy **out, struct dsgd_error *err)
{
    size_t n = s->trace->n;
    struct policy *p = calloc(1, sizeof *p);

    *out = NULL;
    if (!p)
        return error_set(err, DSGD_E_NOMEM, "policy: no memory");
    *p = (struct policy){.kind = kind,
                         .n = n,
                         .fixed = n,
                         .warmup = s->warmup,
                         .overhead_s = s->overhead_s,
                         .late = s->late,
                         .micro_batches = (double)s->micro_batches};
    p->window = kind == POLICY_LAST      ? 1
                : kind == POLICY_ROLLING ? ROLLING
                : kind == POLICY_ELFVING ? ELFVING
                                         : 0;
    p->rows = calloc(p->window ? p->window : 1, n * sizeof *p->rows);
    p->known = calloc(n, sizeof *p->known);
    p->order = calloc(n, sizeof *p->order);
    p->all = malloc(n * sizeof *p->all);
    enum dsgd_err rc = p->rows && p->known && p->order && p->all
                           ? create_parts(p, s, err)
                           : error_set(err, DSGD_E_NOMEM,
                                       "policy: no memory for %zu workers", n);
    if (rc != DSGD_OK) {
        policy_free(p);
        return rc;
    }
    memset(p->all, true, n * sizeof *p->all);
    *out = p;
    return DSGD_OK;
}

void policy_free(struct policy *p)
{
    if (!p)
        return;
    free(p->rows);
    free(p->known);
    free(p->order);
    free(p->draws);
    free(p->all);
    ewma_free(p->ewma);
    cutoff_destroy(p->cutoff);
    dynamic_free(p->dynamic);
    free(p);
}

struct dynamic *policy_dynamic(struct policy *p)
{
    return p->dynamic;
}

/* argmax c / (E[x_(c)] + o) of the expected arrivals. */
static size_t pick_ratio(const struct policy *p)
{
    size_t c = p->n;
    cutoff_pick(p->n, p->order, p->overhead_s, &c, NULL);
    return c;
}

static size_t rows_kept(const struct policy *p)
{
    return p->steps < p->window ? p->steps : p->window;
}

static size_t begin_rolling(struct policy *p)
{
    size_t rows = rows_kept(p), n = p->n;

    if (!rows)
        return n;
    for (size_t k = 0; k < n; k++) {
        double sum = 0;
        for (size_t r = 0; r < rows; r++)
            sum += p->rows[r * n + k];
        p->order[k] = sum / (double)rows;
    }
    return pick_ratio(p);
}

static size_t begin_elfving(struct policy *p)
{
    size_t cells = rows_kept(p) * p->n;
    double mean = 0, squares = 0, least = INFINITY;

    if (!cells)
        return p->n;
    for (size_t i = 0; i < cells; i++) {
        double delta = p->rows[i] - mean;
        mean += delta / (double)(i + 1);
        squares += delta * (p->rows[i] - mean);
        least = fmin(least, p->rows[i]);
    }
    double sd = sqrt(squares / (double)cells);
    for (size_t k = 0; k < p->n; k++) /* the formula may go below zero */
        p->order[k] = fmax(least, mean + sd * elfving(k + 1, p->n));
    return pick_ratio(p);
}

/* How long a worker that is still busy is expected to be. */
static double expected_lag(const struct policy *p, size_t j)
{
    if (p->late == LIVE_POLL)
        return fmax(0, p->known[j] / p->micro_batches - p->overhead_s) / 2;
    return .15 * p->known[j];
}

static size_t begin_ewma(struct policy *p, const bool *busy)
{
    size_t rows = ewma_predict(p->ewma, p->draws), n = p->n, best = n;

    if (!rows || !(p->time_s > 0))
        return n;
    memset(p->order, 0, n * sizeof *p->order);
    for (size_t r = 0; r < rows; r++) {
        double *x = p->draws + r * n;
        for (size_t j = 0; j < n; j++)
            x[j] += busy[j] ? expected_lag(p, j) : 0;
        sort_doubles(n, x);
        for (size_t k = 0; k < n; k++)
            p->order[k] += x[k] / (double)rows;
    }
    double lambda = p->count / p->time_s, most = -INFINITY;
    for (size_t c = 1; c <= n; c++) {
        double value = (double)c - lambda * p->order[c - 1];
        if (value > most) {
            most = value;
            best = c;
        }
    }
    return best;
}

size_t policy_begin(struct policy *p, const bool *busy)
{
    if (p->steps < p->warmup)
        return p->n;
    switch (p->kind) {
    case POLICY_ELFVING:
        return begin_elfving(p);
    case POLICY_LAST:
    case POLICY_ROLLING:
        return begin_rolling(p);
    case POLICY_EWMA:
        return begin_ewma(p, busy);
    case POLICY_ORDER:
        return cutoff_begin(p->cutoff, p->all, p->overhead_s);
    default:
        return p->fixed;
    }
}

/* A cut worker's bound counts only where it says more than what is known. */
static void learn(struct policy *p, const float *log_s, const uint8_t *status)
{
    for (size_t j = 0; j < p->n; j++) {
        double x = exp(log_s[j]);
        if (status[j] == TIMING_EXACT || status[j] == TIMING_PROGRESS)
            p->known[j] = x;
        else if (status[j] == TIMING_CENSORED)
            p->known[j] = fmax(p->known[j], x);
        if (p->cutoff && status[j] != TIMING_NONE)
            cutoff_observe(p->cutoff, j, p->known[j]);
    }
}

void policy_end(struct policy *p, size_t contributors, double elapsed_s,
                const double *start_s, const float *log_s,
                const uint8_t *status)
{
    learn(p, log_s, status);
    if (p->cutoff)
        cutoff_end(p->cutoff);
    if (p->ewma)
        ewma_observe(p->ewma, log_s, status);
    if (p->window) {
        double *row = p->rows + p->steps % p->window * p->n;
        for (size_t j = 0; j < p->n; j++)
            row[j] = start_s[j] + p->known[j];
        sort_doubles(p->n, row);
    }
    if (p->steps >= p->warmup) {
        double keep = 1 - 1.0 / LAMBDA_STEPS;
        p->count = keep * p->count + (double)contributors;
        p->time_s = keep * p->time_s + elapsed_s + p->overhead_s;
    }
    p->steps++;
}
