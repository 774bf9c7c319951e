/* The end of a step: what became of it, and the scores; and the saved state. */
#include <math.h>
#include <string.h>

#include "dynamic.h"
#include "dynamic_priv.h"
#include "error.h"
#include "sort.h"

enum {
    SEED_STEPS = 15, /* that the warm-up's throughput counts as */
    BLIND_STEPS = 5  /* before the model has seen enough to be counted */
};

/* Throughput of closing with c at t over that of all n at all_s, less 1. */
static double gain(const struct dynamic *d, double c, double t, double n,
                   double all_s)
{
    double got = c / (t + d->overhead_s), full = n / (all_s + d->overhead_s);
    return full > 0 && isfinite(got) ? got / full - 1 : 0;
}

void dynamic_predict_gain(struct dynamic *d)
{
    if (!d->gain_due)
        return;
    d->gain_due = false;
    if (d->policy == EXPERTS && d->predicted && d->spec.rule == RULE_LIVE)
        d->record.predicted_gain =
            gain(d, (double)d->record.would, d->record.would_s,
                 (double)d->working, live_all_s(d->live));
    else if (d->guard && d->policy != EXPERT_FULL)
        d->record.predicted_gain = guard_throughput(d->guard, d->policy) /
                                       guard_throughput(d->guard, EXPERT_FULL) -
                                   1;
    if (!isfinite(d->record.predicted_gain))
        d->record.predicted_gain = 0;
}

/* The arrival of a worker, had it been waited for: known, estimated or
 * expected; NaN when nothing is known, or it is not one of those that the
 * counts are of.  Of cut workers each gets another of the quantiles in turn:
 * with the median for all, waiting for more of them looks cheaper than it is,
 * and the guard leaves the model for it. */
static double estimate_arrival(struct dynamic *d, size_t i, double log_s,
                               uint8_t status)
{
    struct worker *w = &d->worker[i];

    if (w->part == WORKER_ABSENT)
        return NAN;
    if (w->part == WORKER_ARRIVED)
        return w->at_s;
    if (status == TIMING_EXACT || status == TIMING_PROGRESS)
        return w->start_s + exp(log_s);
    if (status == TIMING_CENSORED && w->part == WORKER_RUNNING) {
        double s = w->points_s[(i + d->core.step) % LIVE_POINTS];
        return w->start_s + (isfinite(s) ? s : exp(log_s));
    }
    return w->last_s;
}

/* Fill arrival_s, and sorted_s with those known; the rest repeats the last.
 * Returns how many are known, 0 when none. */
static size_t sort_arrivals(struct dynamic *d, const float *log_s,
                            const uint8_t *status)
{
    size_t n = d->spec.n, count = 0;

    for (size_t i = 0; i < n; i++) {
        double at = estimate_arrival(d, i, log_s[i], status[i]);
        bool known = at > 0 && isfinite(at);
        d->arrival_s[i] = known ? at : NAN;
        if (known)
            d->sorted_s[count++] = at;
    }
    sort_doubles(count, d->sorted_s);
    for (size_t i = count; count && i < n; i++)
        d->sorted_s[i] = d->sorted_s[count - 1];
    return count;
}

static void end_workers(struct dynamic *d, double elapsed_s, const float *log_s,
                        const uint8_t *status)
{
    for (size_t i = 0; i < d->spec.n; i++) {
        struct worker *w = &d->worker[i];
        bool known = status[i] == TIMING_EXACT || status[i] == TIMING_PROGRESS;
        if (w->part == WORKER_BUSY) {
            w->busy_s += elapsed_s + d->overhead_s;
        } else if (w->part == WORKER_RUNNING) {
            w->busy_s = elapsed_s - w->start_s + d->overhead_s;
            if (d->spec.late == LIVE_BUSY || !known)
                live_residual(d->live, i, w->points_s);
        }
        if (known && isfinite(log_s[i]))
            w->last_s = exp((double)log_s[i]);
    }
}

/* Fill coming with the running workers in the order in which they would have
 * come; returns how many. */
static size_t sort_coming(struct dynamic *d)
{
    size_t count = 0;

    for (size_t i = 0; i < d->spec.n; i++) {
        if (d->worker[i].part == WORKER_RUNNING && !isnan(d->arrival_s[i]))
            d->coming[count++] = (uint32_t)i;
    }
    sort_indices(count, d->arrival_s, d->coming);
    return count;
}

/* Another policy closed the step before the model would have: let it go on as
 * it would have, until the model closes it. */
static void play_on(struct dynamic *d, double now_s)
{
    double next_s = INFINITY;
    size_t count = sort_coming(d), at = 0;

    dynamic_model_closes(d, now_s, &next_s);
    while (isnan(d->would_s) && at < count) {
        size_t next = d->coming[at];
        bool tick = next_s < d->arrival_s[next];
        now_s = fmax(now_s, tick ? next_s : d->arrival_s[next]);
        if (!tick) {
            dynamic_arrive(d, next, now_s - d->worker[next].start_s, now_s);
            at++;
        }
        dynamic_model_closes(d, now_s, &next_s);
    }
}

/* What the model's policy got, or would have got had it decided. */
static void model_score(struct dynamic *d, double *count, double *time_s)
{
    if (isnan(d->would_s) && d->predicted)
        play_on(d, d->record.elapsed_s);
    if (isnan(d->would_s)) {
        *count = (double)(d->working ? d->working : 1);
        *time_s = d->sorted_s[d->spec.n - 1] + d->overhead_s;
        return;
    }
    *count = (double)d->would;
    *time_s = d->would_s + d->overhead_s;
}

static void score_caution(struct dynamic *d, double all, double all_s)
{
    double count = all, time_s = all_s;

    if (!isnan(d->careful_s)) {
        count = (double)d->careful;
        time_s = d->careful_s + d->overhead_s;
    }
    guard_caution_score(&d->caution, count - all, time_s - all_s, d->lambda,
                        all);
}

static void score_experts(struct dynamic *d, const float *log_s,
                          const uint8_t *status)
{
    double count[EXPERTS + 1], time_s[EXPERTS + 1];

    for (size_t e = 0; e < EXPERTS; e++) {
        size_t c = d->cut[e] < d->working ? d->cut[e] : d->working;
        c = c ? c : 1;
        count[e] = (double)c;
        time_s[e] = d->sorted_s[c - 1] + d->overhead_s;
    }
    model_score(d, &count[EXPERTS], &time_s[EXPERTS]);
    guard_score(d->guard, count, time_s, d->lambda);
    if (d->cautious && d->core.step >= BLIND_STEPS)
        score_caution(d, count[EXPERT_FULL], time_s[EXPERT_FULL]);
    if (d->core.step >= BLIND_STEPS && d->core.step < d->spec.warmup &&
        d->working)
        lambda_add(&d->core.foregone, count[EXPERTS] / (double)d->working,
                   time_s[EXPERTS]);
    experts_end(d->experts, d->sorted_s, log_s, status);
}

/* The running throughput: the warm-up's first, by the best static count or by
 * what the policy would have got, then what each step got. */
static void count_lambda(struct dynamic *d, double got, double got_s)
{
    struct dynamic_core *c = &d->core;
    double n = (double)d->spec.n;

    if (c->step < d->spec.warmup) {
        for (size_t i = 0; i < d->spec.n; i++)
            d->order_sum_s[i] += d->sorted_s[i];
        c->rows++;
    }
    if (c->step + 1 < d->spec.warmup)
        return;
    if (!(c->lambda.time_s > 0) && c->rows) {
        double rows = (double)c->rows;
        double best =
            lambda_best_static(d->spec.n, d->order_sum_s, rows * d->overhead_s);
        lambda_seed(&c->lambda, best * rows / n, SEED_STEPS, got_s);
        if (lambda_get(&c->foregone) > lambda_get(&c->lambda))
            c->lambda = c->foregone;
    }
    if (c->step >= d->spec.warmup && d->working)
        lambda_add(&c->lambda, got / (double)d->working, got_s);
}

void dynamic_end(struct dynamic *d, double elapsed_s, const float *log_s,
                 const uint8_t *status)
{
    struct dynamic_record *r = &d->record;
    double got = (double)d->arrived, got_s = elapsed_s;

    dynamic_predict_gain(d);
    live_end(d->live, elapsed_s);
    end_workers(d, elapsed_s, log_s, status);
    r->contributors = d->arrived;
    r->elapsed_s = elapsed_s;
    if (d->spec.dry && !isnan(r->would_s)) {
        got = (double)r->would;
        got_s = r->would_s;
    } else {
        r->would = d->arrived;
        r->would_s = elapsed_s;
    }
    if (sort_arrivals(d, log_s, status)) {
        double all_s = fmax(d->sorted_s[d->spec.n - 1], d->last_at_s);
        if (got < (double)d->working)
            r->realised_gain = gain(d, got, got_s, (double)d->working, all_s);
        if (d->core.step >= d->spec.warmup && !isnan(d->would_s))
            guard_carry_score(&d->core.carry, (double)d->would,
                              d->would_s + d->overhead_s, (double)d->working,
                              all_s + d->overhead_s);
        else if (d->core.step >= d->spec.warmup)
            guard_carry_score(&d->core.carry, got, got_s + d->overhead_s,
                              (double)d->working, all_s + d->overhead_s);
        if (d->guard)
            score_experts(d, log_s, status);
        count_lambda(d, got, got_s + d->overhead_s);
    }
    if (d->timing)
        timing_observe(d->timing, log_s, status);
    d->core.step++;
}

/* ---- state ---- */

#define STATE_MAGIC 0x33306e79u /* "yn03" */

struct state_head {
    uint32_t magic;
    uint32_t n, n_nodes;
    uint32_t timing_bytes;
};

static struct state_head state_head(const struct dynamic *d)
{
    return (struct state_head){
        STATE_MAGIC, (uint32_t)d->spec.n, (uint32_t)d->spec.n_nodes,
        d->timing ? (uint32_t)timing_state_bytes(d->timing) : 0};
}

size_t dynamic_state_bytes(const struct dynamic *d)
{
    struct state_head head = state_head(d);
    return sizeof head + sizeof d->core +
           d->spec.n * (sizeof *d->worker + sizeof *d->order_sum_s) +
           head.timing_bytes;
}

void dynamic_state_save(const struct dynamic *d, void *out)
{
    struct state_head head = state_head(d);
    struct dynamic_core core = d->core;
    char *at = out;

    core.live = live_state(d->live);
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    memcpy(at, &core, sizeof core);
    at += sizeof core;
    memcpy(at, d->worker, d->spec.n * sizeof *d->worker);
    at += d->spec.n * sizeof *d->worker;
    memcpy(at, d->order_sum_s, d->spec.n * sizeof *d->order_sum_s);
    at += d->spec.n * sizeof *d->order_sum_s;
    if (d->timing)
        timing_state_save(d->timing, at);
}

static bool is_time_or_nan(double x_s)
{
    return !(x_s < 0);
}

static bool is_finite_or_nan(double x)
{
    return !isinf(x);
}

/* Of a saved state. */
static bool is_core(const struct dynamic_core *c)
{
    const struct live_state *l = &c->live;

    return lambda_valid(&c->lambda) && lambda_valid(&c->foregone) &&
           guard_carry_valid(&c->carry) && is_time_or_nan(c->lag_s) &&
           is_finite_or_nan(c->lag_s) && is_time_or_nan(l->close_s) &&
           is_finite_or_nan(l->close_s) && is_finite_or_nan(l->log_low) &&
           is_finite_or_nan(l->log_high) && live_pace_valid(&l->pace);
}

/* What of a worker outlives a step; the rest dynamic_begin sets. */
static bool is_worker(const struct worker *w)
{
    bool good = isfinite(w->busy_s) && is_time_or_nan(w->last_s);

    for (size_t i = 0; i < LIVE_POINTS; i++)
        good = good && is_time_or_nan(w->points_s[i]);
    return good;
}

/* The records of n workers, and their n sums; neither need be aligned. */
static enum dsgd_err check_workers(const char *worker, const char *order_sum_s,
                                   size_t n, struct dsgd_error *err)
{
    for (size_t i = 0; i < n; i++) {
        struct worker w;
        double sum_s;
        memcpy(&sum_s, order_sum_s + i * sizeof sum_s, sizeof sum_s);
        if (!(sum_s >= 0) || isinf(sum_s))
            return error_set(err, DSGD_E_FORMAT,
                             "dynamic: the saved state's sum of arrivals %zu "
                             "is %g s",
                             i + 1, sum_s);
        memcpy(&w, worker + i * sizeof w, sizeof w);
        if (!is_worker(&w))
            return error_set(err, DSGD_E_FORMAT,
                             "dynamic: the saved state has times of worker %zu "
                             "that cannot be: busy for %g s, last %g s",
                             i, w.busy_s, w.last_s);
    }
    return DSGD_OK;
}

enum dsgd_err dynamic_state_load(struct dynamic *d, const void *in,
                                 size_t bytes, struct dsgd_error *err)
{
    struct state_head head = state_head(d);
    const char *at = in;
    size_t n = d->spec.n, workers = n * sizeof *d->worker;
    size_t body = workers + n * sizeof *d->order_sum_s;
    struct dynamic_core core;

    if (bytes != dynamic_state_bytes(d) || memcmp(in, &head, sizeof head) != 0)
        return error_set(err, DSGD_E_FORMAT,
                         "dynamic: the saved state of %zu bytes is not one of "
                         "%zu workers on %zu nodes and this model",
                         bytes, n, d->spec.n_nodes);
    at += sizeof head;
    memcpy(&core, at, sizeof core);
    at += sizeof core;
    if (!is_core(&core))
        return error_set(err, DSGD_E_FORMAT,
                         "dynamic: the saved state has sums of times or "
                         "contributors that cannot be");
    enum dsgd_err rc = check_workers(at, at + workers, n, err);
    if (rc == DSGD_OK && d->timing)
        rc = timing_state_load(d->timing, at + body, head.timing_bytes, err);
    if (rc != DSGD_OK)
        return rc;
    memcpy(&d->core, &core, sizeof core);
    memcpy(d->worker, at, workers);
    memcpy(d->order_sum_s, at + workers, n * sizeof *d->order_sum_s);
    live_set_state(d->live, &d->core.live);
    return DSGD_OK;
}
