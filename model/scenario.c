/* The effects of synthetic clusters, each adding to log durations. */
#include "scenario_priv.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "detmath.h"
#include "error.h"
#include "telemetry_names.h"

static const char *const features8[] = {MODEL_FEATURES};
static const char *const features3[] = {"u0", "u1", "u2"};

/* A trace in the making: duration_s holds log durations. */
struct making {
    const struct scenario *s;
    struct trace *t;
    struct jobs jobs;
    double *a, *b;   /* [n] scratch */
    uint32_t *order; /* [n] scratch */
};

static uint64_t hash_name(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    while (*name)
        h = (h ^ (unsigned char)*name++) * 0x100000001b3u;
    return h;
}

void scenario_stream(const struct scenario *s, enum stream what, struct rng *r)
{
    uint64_t stream = hash_name(s->name) ^ ((uint64_t)s->n << 8);
    rng_seed(r, (uint64_t)s->seed, stream + (uint64_t)what);
}

static double *row(struct making *m, size_t step)
{
    return m->t->duration_s + step * m->t->n;
}

static double noise(const struct scenario *s, struct rng *r)
{
    switch ((enum scenario_noise)s->shape) {
    case NOISE_RIGHT:
        return rng_exponential(r) - 1;
    case NOISE_STUDENT:
        return rng_student(r, s->df) * sqrt((s->df - 2) / s->df);
    case NOISE_GAMMA:
        return (rng_gamma(r, 4) - 4) / 2;
    case NOISE_LEFT:
        return 1 - rng_exponential(r);
    default:
        return rng_normal(r);
    }
}

static void add_noise(struct making *m)
{
    const struct scenario *s = m->s;
    size_t n = m->t->n;
    double fresh = sqrt(1 - s->war * s->war);
    struct rng r;

    scenario_stream(s, STREAM_NOISE, &r);
    for (size_t t = 0; t < m->t->steps; t++) {
        for (size_t j = 0; j < n; j++) {
            double e = noise(s, &r);
            if (s->war > 0)
                e = m->a[j] = t ? s->war * m->a[j] + fresh * e : e;
            if (s->war > 0 && s->warn > 0)
                e += s->warn * rng_normal(&r);
            row(m, t)[j] = s->cv * e;
        }
    }
}

/* Fixed offsets; then spreads, which scale the offsets too. */
static void add_offsets(struct making *m)
{
    size_t n = m->t->n;
    struct rng r;

    scenario_stream(m->s, STREAM_OFFSETS, &r);
    for (size_t j = 0; j < n; j++) {
        m->a[j] = m->s->wvar * rng_normal(&r);
        m->b[j] = det_exp(m->s->cvspread * rng_normal(&r));
    }
    for (size_t t = 0; t < m->t->steps; t++) {
        for (size_t j = 0; j < n; j++)
            row(m, t)[j] = (row(m, t)[j] + m->a[j]) * m->b[j];
    }
}

static void add_hetero(struct making *m)
{
    size_t n_nodes = m->t->n_nodes;
    double slow = det_log(m->s->hetero);
    struct rng r;

    scenario_stream(m->s, STREAM_HETERO, &r);
    rng_permutation(&r, n_nodes, m->order);
    for (size_t t = 0; t < m->t->steps; t++) {
        for (size_t j = 0; j < m->t->n; j++) {
            if (m->order[m->t->node[j]] % 2)
                row(m, t)[j] += slow;
        }
    }
}

static void add_ar(struct making *m)
{
    double rho = m->s->rho, fresh = sqrt(1 - rho * rho) * m->s->ar, v;
    struct rng r;

    scenario_stream(m->s, STREAM_AR, &r);
    v = m->s->ar * rng_normal(&r);
    for (size_t t = 0; t < m->t->steps; t++) {
        v = rho * v + fresh * rng_normal(&r);
        for (size_t j = 0; j < m->t->n; j++)
            row(m, t)[j] += v;
    }
}

struct regimes {
    double in, out, lo, hi;
};

static double enter(const struct regimes *g, struct rng *r)
{
    return det_log(rng_range(r, g->lo, g->hi));
}

/* One step of `count` two-state chains; state[i]: log slow-down, 0 when
 * fast. */
static void regimes_step(const struct regimes *g, size_t count, double *state,
                         struct rng *r)
{
    for (size_t i = 0; i < count; i++) {
        double u = rng_uniform(r);
        if (state[i] != 0)
            state[i] = u < g->out ? 0 : state[i];
        else if (u < g->in)
            state[i] = enter(g, r);
    }
}

static void add_regimes(struct making *m, const struct regimes *g, bool nodes)
{
    size_t count = nodes ? m->t->n_nodes : m->t->n;
    struct rng r;

    scenario_stream(m->s, nodes ? STREAM_REGIMES : STREAM_WREGIMES, &r);
    for (size_t i = 0; i < count; i++)
        m->a[i] = rng_uniform(&r) < g->in / (g->in + g->out) ? enter(g, &r) : 0;
    for (size_t t = 0; t < m->t->steps; t++) {
        regimes_step(g, count, m->a, &r);
        for (size_t j = 0; j < m->t->n; j++)
            row(m, t)[j] += m->a[nodes ? m->t->node[j] : j];
    }
}

static void add_cotenant(struct making *m)
{
    size_t n_nodes = m->t->n_nodes;

    for (size_t t = 0; t < m->t->steps; t++) {
        for (size_t i = 0; i < n_nodes; i++) {
            double load = 0;
            for (size_t k = 0; k < PARTS; k++)
                load += m->jobs.slow[(t * PARTS + k) * n_nodes + i];
            m->a[i] = det_log(1 + m->s->cotenant_slow * load / PARTS);
        }
        for (size_t j = 0; j < m->t->n; j++)
            row(m, t)[j] += m->a[m->t->node[j]];
    }
}

static void add_hiccup(struct making *m)
{
    const struct scenario *s = m->s;
    double begin = s->hiccup_p / s->hiccup_burst;
    double *left = m->a; /* slow steps to go */
    struct rng r;

    scenario_stream(s, STREAM_HICCUP, &r);
    memset(left, 0, m->t->n * sizeof *left);
    for (size_t t = 0; t < m->t->steps; t++) {
        for (size_t j = 0; j < m->t->n; j++) {
            if (left[j] == 0 && rng_uniform(&r) < begin)
                left[j] = (double)rng_geometric(&r, 1 / s->hiccup_burst);
            if (left[j] == 0)
                continue;
            double factor = s->hiccup_base + rng_pareto(&r, s->hiccup_alpha);
            row(m, t)[j] += det_log(factor < 60 ? factor : 60);
            left[j]--;
        }
    }
}

static void add_periodic(struct making *m)
{
    size_t every = (size_t)m->s->periodic_every, n_nodes = m->t->n_nodes;
    size_t groups = (size_t)rint(1 / m->s->periodic_share);
    double slow = det_log(m->s->periodic_factor);
    struct rng r;

    scenario_stream(m->s, STREAM_PERIODIC, &r);
    size_t offset = rng_below(&r, every);
    for (size_t t = 0; t < m->t->steps; t++) {
        size_t phase = t + offset, turn = phase / every % groups;
        if (phase % every >= (size_t)m->s->periodic_for)
            continue;
        for (size_t j = 0; j < m->t->n; j++) {
            size_t i = m->t->node[j];
            size_t group =
                n_nodes >= groups ? i * groups / n_nodes : i % groups;
            if (group == turn)
                row(m, t)[j] += slow;
        }
    }
}

static void add_drift(struct making *m)
{
    double period = m->s->drift_steps;
    struct rng r;

    scenario_stream(m->s, STREAM_DRIFT, &r);
    double phase = rng_uniform(&r);
    for (size_t t = 0; t < m->t->steps; t++) {
        double wave = (1 + det_sin_turns((double)t / period + phase)) / 2;
        double v = det_log(1 + (m->s->drift_factor - 1) * wave);
        for (size_t j = 0; j < m->t->n; j++)
            row(m, t)[j] += v;
    }
}

static void add_bimodal(struct making *m)
{
    size_t n = m->t->n, hit = (size_t)rint(m->s->bimodal_share * (double)n);
    double slow = det_log(m->s->bimodal_factor);
    struct rng r;

    scenario_stream(m->s, STREAM_BIMODAL, &r);
    for (size_t t = 0; t < m->t->steps; t++) {
        if (!(rng_uniform(&r) < m->s->bimodal_p))
            continue;
        rng_permutation(&r, n, m->order);
        for (size_t k = 0; k < hit; k++)
            row(m, t)[m->order[k]] += slow;
    }
}

/* Another job or configuration: a new level of all and of each. */
static void add_levels(struct making *m)
{
    static const double spreads[] = {.02, .1, .4, .8};
    double level = 0;
    struct rng r;

    scenario_stream(m->s, STREAM_LEVELS, &r);
    memset(m->a, 0, m->t->n * sizeof *m->a);
    for (size_t t = 0; t < m->t->steps; t++) {
        if (rng_uniform(&r) < m->s->levels) {
            double spread = spreads[rng_below(&r, 4)];
            level = .7 * rng_normal(&r);
            for (size_t j = 0; j < m->t->n; j++)
                m->a[j] = spread * rng_normal(&r);
        }
        for (size_t j = 0; j < m->t->n; j++)
            row(m, t)[j] += level + m->a[j];
    }
}

static void add_effects(struct making *m)
{
    const struct scenario *s = m->s;
    struct regimes nodes = {s->regimes_in, s->regimes_out, s->regimes_lo,
                            s->regimes_hi};
    struct regimes workers = {s->wregimes_in, s->wregimes_out, s->wregimes_lo,
                              s->wregimes_hi};

    add_noise(m);
    if (s->wvar > 0 || s->cvspread > 0)
        add_offsets(m);
    if (s->hetero > 0)
        add_hetero(m);
    if (s->ar > 0)
        add_ar(m);
    if (s->regimes_in > 0)
        add_regimes(m, &nodes, true);
    if (s->wregimes_in > 0)
        add_regimes(m, &workers, false);
    if (s->cotenant_rate > 0)
        add_cotenant(m);
    if (s->hiccup_p > 0)
        add_hiccup(m);
    if (s->periodic_every > 0)
        add_periodic(m);
    if (s->drift_factor > 0)
        add_drift(m);
    if (s->bimodal_p > 0)
        add_bimodal(m);
    if (s->levels > 0)
        add_levels(m);
}

static size_t nodes_of(const struct scenario *s)
{
    size_t n = (size_t)s->n;

    if (s->N > 0)
        return (size_t)s->N;
    if (n == 16 || n == 158) /* the sizes of the published figures */
        return 4;
    if (n == 2175)
        return 68;
    return n / 32 ? n / 32 : 1;
}

static double duration(const struct scenario *s, double log_x)
{
    double x = s->step_s * det_exp(log_x);

    return fmin(fmax(x, TRACE_SHORTEST), TRACE_LONGEST);
}

static bool make(struct making *m, enum scenario_telemetry kind,
                 struct dsgd_error *err)
{
    size_t n = m->t->n, cells = m->t->steps * n;
    double *scratch = calloc(m->t->n_nodes, LOOK_STATES * sizeof *scratch);

    m->a = calloc(n, sizeof *m->a);
    m->b = calloc(n, sizeof *m->b);
    m->order = calloc(n, sizeof *m->order);
    m->t->name = strdup(m->s->name);
    bool good = m->a && m->b && m->order && m->t->name && scratch;
    if (!good)
        error_set(err, DSGD_E_NOMEM, "scenario: no memory for %zu workers", n);
    else if (jobs_create(m->s, m->t->steps, m->t->n_nodes, &m->jobs, err))
        good = false;
    if (good) {
        add_effects(m);
        for (size_t i = 0; i < cells; i++)
            m->t->duration_s[i] = duration(m->s, m->t->duration_s[i]);
        scenario_look(m->s, kind, &m->jobs, m->t, scratch);
    }
    free(scratch);
    free(m->a);
    free(m->b);
    free(m->order);
    jobs_free(&m->jobs);
    return good;
}

enum dsgd_err scenario_make(const struct scenario *s,
                            enum scenario_telemetry kind, struct trace **out,
                            struct dsgd_error *err)
{
    bool lab = kind == SCENARIO_LAB3;
    struct making m = {.s = s};

    *out = NULL;
    enum dsgd_err rc = trace_create((size_t)s->T, (size_t)s->n, nodes_of(s),
                                    lab ? 3 : N_FEATURES, &m.t, err);
    if (rc != DSGD_OK)
        return rc;
    m.t->feature = lab ? features3 : features8;
    if (!make(&m, kind, err)) {
        trace_free(m.t);
        return DSGD_E_NOMEM;
    }
    *out = m.t;
    return DSGD_OK;
}
