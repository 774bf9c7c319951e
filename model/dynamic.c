#include "dynamic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dynamic_priv.h"
#include "error.h"

enum {
    SAMPLES = 64,      /* of the fixed rules */
    LAMBDA_STEPS = 300 /* half-life of the running throughput */
};

/* Under carry-over a worker that is cut starts the next step late, which delays
 * that step's close, the more the fewer there are: less is charged for waiting.
 * Fitted on synthetic clusters of 16 and 158 workers. */
#define CARRY_PRICE 1.2

void dynamic_spec_init(struct dynamic_spec *spec)
{
    *spec = (struct dynamic_spec){.rule = RULE_LIVE,
                                  .late = LIVE_BUSY,
                                  .min_share = .1,
                                  .warmup = 10,
                                  .seed = 1,
                                  .guard = true};
}

static enum dsgd_err check(const struct dynamic_spec *s, struct dsgd_error *err)
{
    if (s->n < 1 || s->n > SIZE_MAX / (SAMPLES * sizeof(double)))
        return error_set(err, DSGD_E_RANGE, "dynamic: %zu workers", s->n);
    if (s->min > s->n)
        return error_set(err, DSGD_E_RANGE,
                         "dynamic: the minimum of %zu is more than the %zu "
                         "workers that there are",
                         s->min, s->n);
    return DSGD_OK;
}

static bool allocate(struct dynamic *d)
{
    size_t n = d->spec.n;
    bool all = true;
    struct {
        void **array;
        size_t each;
    } want[] = {
        {(void **)&d->node, sizeof *d->node},
        {(void **)&d->worker, sizeof *d->worker},
        {(void **)&d->arrival_s, sizeof *d->arrival_s},
        {(void **)&d->coming, sizeof *d->coming},
        {(void **)&d->sorted_s, sizeof *d->sorted_s},
        {(void **)&d->order_sum_s, sizeof *d->order_sum_s},
    };

    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        all &= (*want[i].array = calloc(n, want[i].each)) != NULL;
    if (d->spec.rule != RULE_LIVE)
        all &= (d->sample_s = calloc(n, SAMPLES * sizeof(double))) != NULL;
    return all;
}

static void set_nodes(struct dynamic *d)
{
    struct dynamic_spec *s = &d->spec;

    for (size_t i = 0; i < s->n; i++)
        d->node[i] = s->node ? s->node[i] : (uint32_t)i;
    if (!s->node)
        s->n_nodes = s->n;
    s->node = d->node;
}

static enum dsgd_err create_parts(struct dynamic *d,
                                  const struct timing_model *model,
                                  struct dsgd_error *err)
{
    const struct dynamic_spec *s = &d->spec;
    enum dsgd_err rc = live_create(s->n, s->n_nodes, d->node, s->min_share,
                                   s->min, &d->live, err);

    if (rc == DSGD_OK && model)
        rc = timing_create(model, s->n, s->n_nodes, d->node, &d->timing, err);
    if (rc != DSGD_OK || s->late != LIVE_FRESH || !s->guard)
        return rc;
    rc = experts_create(s->n, &d->experts, err);
    if (rc == DSGD_OK)
        rc = guard_create(EXPERTS + 1, model ? EXPERTS : EXPERT_EWMA,
                          EXPERT_FULL, &d->guard, err);
    return rc;
}

enum dsgd_err dynamic_create(const struct dynamic_spec *spec,
                             const struct timing_model *model,
                             struct dynamic **out, struct dsgd_error *err)
{
    *out = NULL;
    enum dsgd_err rc = check(spec, err);
    if (rc != DSGD_OK)
        return rc;
    struct dynamic *d = calloc(1, sizeof *d);
    if (!d)
        return error_set(err, DSGD_E_NOMEM, "dynamic: no memory");
    d->spec = *spec;
    if (allocate(d)) {
        set_nodes(d);
        rc = create_parts(d, model, err);
    } else {
        rc = error_set(err, DSGD_E_NOMEM, "dynamic: no memory for %zu workers",
                       spec->n);
    }
    if (rc != DSGD_OK) {
        dynamic_free(d);
        return rc;
    }
    lambda_init(&d->core.lambda, LAMBDA_STEPS);
    lambda_init(&d->core.foregone, LAMBDA_STEPS);
    guard_carry_init(&d->core.carry);
    d->core.lag_s = NAN;
    for (size_t i = 0; i < spec->n; i++)
        d->worker[i].last_s = NAN;
    d->record.policy = "none";
    *out = d;
    return DSGD_OK;
}

void dynamic_free(struct dynamic *d)
{
    if (!d)
        return;
    timing_free(d->timing);
    live_free(d->live);
    experts_free(d->experts);
    guard_free(d->guard);
    free(d->node);
    free(d->worker);
    free(d->arrival_s);
    free(d->coming);
    free(d->sorted_s);
    free(d->order_sum_s);
    free(d->sample_s);
    free(d);
}

/* lambda is kept per working worker, so that a lost one does not make the rest
 * look slow. */
static double lambda_now(const struct dynamic *d)
{
    double rows = (double)d->core.rows, n = (double)d->spec.n;

    if (d->core.lambda.time_s > 0)
        return lambda_get(&d->core.lambda) * (double)d->working;
    return lambda_best_static(d->spec.n, d->order_sum_s, rows * d->overhead_s) *
           rows * (double)d->working / n;
}

/* What a second costs live stopping. */
static double live_price(const struct dynamic *d)
{
    if (d->spec.late == LIVE_FRESH || !d->spec.guard)
        return d->lambda;
    return d->lambda / (1 + CARRY_PRICE / sqrt((double)d->spec.n));
}

/* A worker still busy at the step's start: when will it be free?  The part of
 * its predicted quantiles that lies ahead; else as long as others lagged. */
static double expected_lag(const struct dynamic *d, const struct worker *w)
{
    double sum = 0, count = 0;

    if (d->spec.late == LIVE_BUSY) {
        for (size_t i = 0; i < LIVE_POINTS; i++) {
            if (w->points_s[i] > w->busy_s) {
                sum += w->points_s[i] - w->busy_s;
                count++;
            }
        }
        if (count > 0)
            return sum / count;
    }
    return isnan(d->core.lag_s) ? 0 : d->core.lag_s;
}

static void begin_workers(struct dynamic *d, const uint8_t *part)
{
    d->working = d->waiting = 0;
    d->arrived = 0;
    d->last_at_s = 0;
    for (size_t i = 0; i < d->spec.n; i++) {
        struct worker *w = &d->worker[i];
        w->part = part[i] == DYNAMIC_BUSY    ? WORKER_BUSY
                  : part[i] == DYNAMIC_READY ? WORKER_RUNNING
                                             : WORKER_ABSENT;
        w->start_s = 0;
        w->at_s = NAN;
        if (w->part == WORKER_ABSENT) {
            live_absent(d->live, i);
            continue;
        }
        d->working++;
        d->waiting++;
        if (w->part == WORKER_BUSY)
            live_lagging(d->live, i, expected_lag(d, w));
        else
            w->busy_s = 0;
    }
}

/* Later than everybody, in whatever unit: who is absent counts as this late. */
static double never_s(const struct dynamic *d)
{
    double most_s = 0;

    for (size_t i = 0; i < SAMPLES * d->spec.n; i++)
        most_s = fmax(most_s, d->sample_s[i]);
    return 1e6 * most_s;
}

/* The cutoff of the fixed rules, from samples of the arrival times. */
static size_t fixed_cut(struct dynamic *d, const struct predictive *p,
                        double lambda)
{
    size_t n = d->spec.n, c = d->working;

    rule_sample(p, d->spec.seed, d->core.step, SAMPLES, d->sample_s);
    double absent_s = d->working < n ? never_s(d) : 0;
    for (size_t i = 0; i < n; i++) {
        const struct worker *w = &d->worker[i];
        double add = w->part == WORKER_BUSY     ? expected_lag(d, w)
                     : w->part == WORKER_ABSENT ? absent_s
                                                : 0;
        for (size_t s = 0; s < SAMPLES && add > 0; s++)
            d->sample_s[s * n + i] += add;
    }
    if (rule_sort(n, SAMPLES, d->sample_s))
        rule_pick(d->spec.rule, n, SAMPLES, d->sample_s, d->overhead_s, lambda,
                  &c, NULL);
    return c;
}

/* No policy closes below the limits, nor waits for more than there are. */
static size_t limit(const struct dynamic *d, size_t c)
{
    size_t least = (size_t)(d->spec.min_share * (double)d->spec.n);

    if (c < least)
        c = least;
    if (c < d->spec.min)
        c = d->spec.min;
    return c < d->working ? c : d->working;
}

/* Where cutting has not gained of late, live stopping cuts at a lower price of
 * a second only: a worker that suddenly takes three times as long is still cut.
 * Waiting for all until a gain shows would cost more than the small cuts do.
 * Under carry-over these cost more: at a half, live stopping lost .004 to
 * waiting for all on quiet clusters of 16, at a quarter .0002. */
#define CAUTIOUS_FRESH .5
#define CAUTIOUS_CARRY .25

static double cautious_price(const struct dynamic *d)
{
    return d->lambda * (d->guard ? CAUTIOUS_FRESH : CAUTIOUS_CARRY);
}

static void ask_guard(struct dynamic *d, bool live)
{
    if (d->guard) {
        d->policy = guard_pick(d->guard);
        d->cautious = live && d->policy == EXPERT_FULL;
        if (d->cautious && guard_caution_pays(&d->caution))
            d->policy = EXPERTS;
    } else {
        d->cautious = d->spec.guard && live && d->core.carry.cautious;
    }
}

static void choose_policy(struct dynamic *d)
{
    bool live = d->predicted && d->spec.rule == RULE_LIVE;

    d->policy = EXPERTS;
    if (d->core.step < d->spec.warmup) {
        d->policy = EXPERT_FULL;
        d->cautious = live && d->guard;
        d->record.policy = "warm-up";
        return;
    }
    ask_guard(d, live);
    if (d->policy < EXPERTS)
        d->record.policy = experts_name(d->policy);
    else if (!d->predicted)
        d->record.policy = "full";
    else if (d->cautious)
        d->record.policy = "cautious";
    else
        d->record.policy = rule_name(d->spec.rule);
}

void dynamic_begin(struct dynamic *d, const uint8_t *part,
                   const float *telemetry, double overhead_s)
{
    const struct predictive *p =
        d->timing ? timing_predict(d->timing, telemetry) : NULL;

    d->overhead_s = overhead_s >= 0 && isfinite(overhead_s) ? overhead_s : 0;
    d->predicted = p != NULL;
    d->record = (struct dynamic_record){.step = d->core.step,
                                        .planned_s = NAN,
                                        .expected = NAN,
                                        .would_s = NAN};
    d->would_s = d->careful_s = NAN;
    d->gain_due = false;
    live_plan(d->live, d->spec.rule == RULE_LIVE ? p : NULL, d->spec.late);
    begin_workers(d, part);
    d->lambda = lambda_now(d);
    d->record.lambda = d->lambda;
    if (d->experts)
        experts_begin(d->experts, d->overhead_s, d->lambda, d->cut);
    d->model_cut = d->working;
    if (p && d->spec.rule != RULE_LIVE)
        d->model_cut = limit(d, fixed_cut(d, p, d->lambda));
    choose_policy(d);
}

bool dynamic_start(struct dynamic *d, size_t worker, double at_s)
{
    struct worker *w = &d->worker[worker];

    dynamic_predict_gain(d);
    if (w->part != WORKER_BUSY)
        return w->part == WORKER_RUNNING;
    if (at_s >= 0 && isfinite(at_s)) {
        if (isnan(d->core.lag_s))
            d->core.lag_s = at_s;
        d->core.lag_s += .1 * (at_s - d->core.lag_s);
    }
    w->busy_s = 0;
    if (!live_start(d->live, worker, at_s) && d->core.step >= d->spec.warmup &&
        !d->spec.dry) {
        w->part = WORKER_OUT;
        d->waiting--;
        return false;
    }
    w->part = WORKER_RUNNING;
    w->start_s = at_s;
    return true;
}

double dynamic_latest_start_s(const struct dynamic *d, size_t worker)
{
    if (d->core.step < d->spec.warmup || d->spec.dry)
        return INFINITY;
    return live_latest_start_s(d->live, worker);
}

void dynamic_arrive(struct dynamic *d, size_t worker, double duration_s,
                    double at_s)
{
    struct worker *w = &d->worker[worker];

    dynamic_predict_gain(d);
    if (w->part != WORKER_RUNNING && w->part != WORKER_BUSY)
        return;
    if (w->part == WORKER_BUSY)
        w->start_s = fmax(at_s - duration_s, 0);
    w->part = WORKER_ARRIVED;
    w->at_s = at_s;
    w->busy_s = 0;
    d->arrived++;
    d->waiting--;
    d->last_at_s = fmax(d->last_at_s, at_s);
    live_arrive(d->live, worker, duration_s);
}

void dynamic_leave(struct dynamic *d, size_t worker)
{
    struct worker *w = &d->worker[worker];

    dynamic_predict_gain(d);
    if (w->part != WORKER_RUNNING && w->part != WORKER_BUSY)
        return;
    w->part = WORKER_OUT;
    d->waiting--;
    live_absent(d->live, worker);
}

bool dynamic_model_closes(struct dynamic *d, double now_s, double *next_s)
{
    bool close;

    if (!d->predicted)
        return false;
    if (d->spec.rule != RULE_LIVE) {
        close = d->arrived >= d->model_cut;
    } else {
        close = live_close(d->live, now_s, live_price(d), next_s);
        if (isnan(d->record.planned_s)) {
            d->record.planned_s = live_planned_s(d->live);
            d->record.expected = live_expected(d->live);
        }
    }
    if (close && isnan(d->would_s)) {
        d->would_s = now_s;
        d->would = d->arrived;
    }
    if (close && d->cautious) {
        close = live_recheck(d->live, cautious_price(d));
        if (close && isnan(d->careful_s)) {
            d->careful_s = now_s;
            d->careful = d->arrived;
        }
    }
    return close;
}

bool dynamic_close(struct dynamic *d, double now_s, double *next_s)
{
    bool close = false;

    dynamic_predict_gain(d);
    *next_s = INFINITY;
    if (!d->waiting)
        return true;
    /* the model is asked when it decides, or for the guard's sake */
    if (d->policy == EXPERTS || (d->cautious && isnan(d->careful_s)) ||
        (isnan(d->would_s) && (d->guard || d->spec.dry)))
        close = dynamic_model_closes(d, now_s, next_s);
    if (d->policy < EXPERTS)
        close =
            d->arrived >=
            limit(d, d->policy == EXPERT_FULL ? d->working : d->cut[d->policy]);
    if (close && isnan(d->record.would_s)) {
        d->record.would_s = now_s;
        d->record.would = d->arrived;
        d->gain_due = true;
    }
    return close && !d->spec.dry;
}

const struct dynamic_record *dynamic_record(const struct dynamic *d)
{
    return &d->record;
}
