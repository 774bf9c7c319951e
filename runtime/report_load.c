#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "record_read.h"
#include "report_stats.h"
#include "report_wait.h"

/* Without a sign of life for so long a run is no longer RUNNING: the record is
 * stamped every ten seconds. */
static const double alive_s = 60;

/* What is needed while the steps go by. */
struct load {
    struct report *report;
    struct record_read *record;
    const struct record_facts *facts;
    size_t n; /* workers */

    struct record_event *event;
    size_t n_events, next_event;
    struct record_late late; /* the next one */
    bool has_late;
    struct record_contribution contribution; /* the next one */
    bool has_contribution;

    size_t room;                  /* steps allocated */
    float *step_s;                /* [room] */
    double *arrival_s, *waited_s; /* [n] */
    bool *wanted, *vain;          /* [n] */
    size_t *order;                /* [n] scratch */
    uint64_t *node_seen; /* [n_nodes] the row it was last wanted in, from 1 */

    uint64_t last_step;
    double last_start_s, last_publish_s;
    bool last_epoch_end;
};

static enum dsgd_err no_memory(const struct report *r, struct dsgd_error *err)
{
    return error_set(err, DSGD_E_NOMEM, "no memory for the record of %s",
                     r->id);
}

static enum dsgd_err read_events(struct load *l, struct dsgd_error *err)
{
    size_t room = 0;
    enum dsgd_err rc;

    for (;;) {
        if (l->n_events == room) {
            room = room ? 2 * room : 64;
            void *more = reallocarray(l->event, room, sizeof *l->event);
            if (!more)
                return no_memory(l->report, err);
            l->event = more;
        }
        rc = record_read_event(l->record, &l->event[l->n_events], err);
        if (rc != DSGD_OK)
            return rc == DSGD_END ? DSGD_OK : rc;
        l->n_events++;
    }
}

/* Lost and left workers and nodes, as of the beginning of step. */
static void apply_events(struct load *l, uint64_t step)
{
    struct report *r = l->report;

    for (; l->next_event < l->n_events; l->next_event++) {
        const struct record_event *e = &l->event[l->next_event];
        struct report_unit *w = e->worker < 0 ? NULL : &r->worker[e->worker];
        struct report_unit *n = e->node < 0 ? NULL : &r->node[e->node];
        if (e->step >= step)
            return;
        if (e->kind == RECORD_EVENT_CHECKSUM && !r->differ_step)
            r->differ_step = e->step;
        if (w && (e->kind == RECORD_EVENT_LOST || e->kind == RECORD_EVENT_BACK))
            w->is_lost = e->kind == RECORD_EVENT_LOST;
        if (w && e->kind == RECORD_EVENT_LEFT)
            w->is_left = true;
        if (w && e->kind == RECORD_EVENT_RESYNC)
            w->resyncs++;
        if (n && (e->kind == RECORD_EVENT_NODE_LOST ||
                  e->kind == RECORD_EVENT_NODE_BACK))
            n->is_node_lost = e->kind == RECORD_EVENT_NODE_LOST;
    }
}

static enum dsgd_err next_late(struct load *l, struct dsgd_error *err)
{
    enum dsgd_err rc = record_read_late(l->record, &l->late, err);

    l->has_late = rc == DSGD_OK;
    if (l->has_late)
        l->report->worker[l->late.worker].late++;
    return rc == DSGD_END ? DSGD_OK : rc;
}

static enum dsgd_err next_contribution(struct load *l, struct dsgd_error *err)
{
    enum dsgd_err rc =
        record_read_contribution(l->record, &l->contribution, err);

    l->has_contribution = rc == DSGD_OK;
    return rc == DSGD_END ? DSGD_OK : rc;
}

/* Samples that the step's mask and ranges do not tell of. */
static enum dsgd_err read_contributions(struct load *l,
                                        const struct record_step *step,
                                        struct dsgd_error *err)
{
    const struct record_contribution *c = &l->contribution;
    enum dsgd_err rc = DSGD_OK;

    while (rc == DSGD_OK && l->has_contribution && c->step <= step->step) {
        struct report_unit *u = &l->report->worker[c->worker];
        if (c->step == step->step) {
            u->samples += (double)c->samples;
            if (c->from == c->step)
                u->samples -= (double)step->count[c->worker];
            else
                u->carried++;
        }
        rc = next_contribution(l, err);
    }
    return rc;
}

static bool is_duration(float s)
{
    return s > 0 && isfinite(s);
}

/* The durations of a step: what was known when it was published, then what was
 * learned afterwards. */
static enum dsgd_err read_durations(struct load *l,
                                    const struct record_step *step, float *to,
                                    struct dsgd_error *err)
{
    enum dsgd_err rc = DSGD_OK;

    for (size_t w = 0; w < l->n; w++)
        to[w] = is_duration(step->duration_s[w]) ? step->duration_s[w] : NAN;
    while (rc == DSGD_OK && l->has_late && l->late.step <= step->step) {
        if (l->late.step == step->step && isnan(to[l->late.worker]) &&
            is_duration(l->late.duration_s))
            to[l->late.worker] = l->late.duration_s;
        rc = next_late(l, err);
    }
    return rc;
}

/* A worker is wanted that is not lost and was not given an empty share. */
static bool is_wanted(const struct load *l, const struct record_step *step,
                      size_t w)
{
    const struct report *r = l->report;
    bool idle = l->facts->job.n_samples > 0 && step->count[w] == 0;

    return step->mask[w] || !(r->worker[w].is_lost || r->worker[w].is_left ||
                              r->node[r->worker_node[w]].is_node_lost || idle);
}

/* Does the step's rule want more contributors than it got? */
static bool waits_in_vain(const struct record_step *step)
{
    return step->target == 0 || step->contributors < step->target;
}

static void count_worker(struct load *l, const struct record_step *step,
                         size_t w, float *duration_s)
{
    struct report_unit *u = &l->report->worker[w];
    float lag_s = step->lag_s[w];

    l->wanted[w] = is_wanted(l, step, w);
    l->vain[w] = false;
    l->arrival_s[w] = NAN;
    if (isfinite(lag_s)) {
        u->lag_sum_s += (double)lag_s;
        u->lags++;
    }
    if (!l->wanted[w])
        return;
    u->wanted++;
    u->steps++;
    if (step->mask[w]) {
        u->contributed++;
        u->last_step = step->step;
        u->samples += step->count[w] > 0
                          ? (double)step->count[w]
                          : (double)step->samples / (double)step->contributors;
        l->arrival_s[w] = (double)*duration_s + (double)lag_s;
        if (l->arrival_s[w] > step->close_s) /* with a part of its share */
            l->arrival_s[w] = step->close_s;
    } else {
        u->cut++;
        l->vain[w] = waits_in_vain(step);
        if (isnan(*duration_s) && step->publish_s > (double)lag_s)
            *duration_s = (float)((double)lag_s - step->publish_s);
    }
}

/* A step's time is that until the next one starts, or, when there is a pause or
 * a gap after it, until it is published. */
static void count_time(struct load *l, const struct record_step *step)
{
    double s = l->last_publish_s;

    if (step && step->step == l->last_step + 1 && !l->last_epoch_end &&
        step->start_s > l->last_start_s)
        s = step->start_s - l->last_start_s;
    if (l->report->n_steps > 0 && s > 0)
        l->report->time_s += s;
    if (!step)
        return;
    l->last_step = step->step;
    l->last_start_s = step->start_s;
    l->last_publish_s = step->publish_s;
    l->last_epoch_end = step->epoch_end;
}

static enum dsgd_err make_room(struct load *l, struct dsgd_error *err)
{
    struct report *r = l->report;
    size_t room = l->room ? 2 * l->room : 1024;

    if (r->n_steps < l->room)
        return DSGD_OK;
    if (room > SIZE_MAX / l->n)
        return no_memory(r, err);
    void *step = reallocarray(r->step, room, sizeof *r->step);
    if (step)
        r->step = step;
    void *step_s = reallocarray(l->step_s, room, sizeof *l->step_s);
    if (step_s)
        l->step_s = step_s;
    void *duration = reallocarray(r->duration_s, room * l->n, sizeof(float));
    if (duration)
        r->duration_s = duration;
    if (!step || !step_s || !duration)
        return no_memory(r, err);
    l->room = room;
    return DSGD_OK;
}

static void count_nodes(struct load *l)
{
    struct report *r = l->report;

    for (size_t w = 0; w < l->n; w++) {
        uint32_t node = r->worker_node[w];
        if (l->wanted[w] && l->node_seen[node] != r->n_steps) {
            l->node_seen[node] = r->n_steps;
            r->node[node].steps++;
        }
    }
}

static enum dsgd_err count_step(struct load *l, const struct record_step *step,
                                struct dsgd_error *err)
{
    struct report *r = l->report;
    enum dsgd_err rc = make_room(l, err);

    if (rc != DSGD_OK)
        return rc;
    float *duration_s = r->duration_s + r->n_steps * l->n;
    rc = read_durations(l, step, duration_s, err);
    if (rc != DSGD_OK)
        return rc;
    rc = read_contributions(l, step, err);
    if (rc != DSGD_OK)
        return rc;
    apply_events(l, step->step);
    for (size_t w = 0; w < l->n; w++)
        count_worker(l, step, w, &duration_s[w]);
    report_wait(l->n, l->arrival_s, l->vain, step->close_s, l->order,
                l->waited_s);
    count_time(l, step);
    r->step[r->n_steps] = step->step;
    l->step_s[r->n_steps] =
        isfinite(step->publish_s) ? (float)step->publish_s : 0;
    r->step_mean_s += (double)l->step_s[r->n_steps];
    r->lr_scale_mean += step->lr_scale;
    r->n_epochs += step->epoch_end;
    r->n_steps++;
    count_nodes(l);
    return DSGD_OK;
}

static enum dsgd_err read_steps(struct load *l, struct dsgd_error *err)
{
    struct record_step step;
    enum dsgd_err rc = next_late(l, err);

    if (rc == DSGD_OK)
        rc = next_contribution(l, err);
    if (rc != DSGD_OK)
        return rc;
    while ((rc = record_read_step(l->record, &step, err)) == DSGD_OK)
        if ((rc = count_step(l, &step, err)) != DSGD_OK)
            return rc;
    if (rc != DSGD_END)
        return rc;
    count_time(l, NULL);
    apply_events(l, UINT64_MAX);
    for (rc = DSGD_OK; rc == DSGD_OK && l->has_late;)
        rc = next_late(l, err);
    return rc;
}

/* Mean and p95 of the known durations of n workers. */
static void summarise(const struct report *r, struct report_unit *u,
                      const size_t *member, size_t n, float *scratch)
{
    size_t known = 0;
    double sum = 0;

    for (size_t row = 0; row < r->n_steps; row++) {
        for (size_t i = 0; i < n; i++) {
            float s = r->duration_s[row * r->n_tasks + member[i]];
            if (s > 0) {
                scratch[known++] = s;
                sum += (double)s;
            }
        }
    }
    u->duration_mean_s = known ? sum / (double)known : NAN;
    u->duration_p95_s = report_quantile(scratch, known, .95);
}

static void add(struct report_unit *to, const struct report_unit *from)
{
    to->workers += from->workers;
    to->wanted += from->wanted;
    to->contributed += from->contributed;
    to->cut += from->cut;
    to->late += from->late;
    to->carried += from->carried;
    to->resyncs += from->resyncs;
    to->samples += from->samples;
    to->waited_s += from->waited_s;
    to->lag_sum_s += from->lag_sum_s;
    to->lags += from->lags;
    if (from->last_step > to->last_step)
        to->last_step = from->last_step;
}

static void finish_unit(const struct report *r, struct report_unit *u)
{
    u->cut_share = u->wanted ? (double)u->cut / (double)u->wanted : NAN;
    u->lag_mean_s = u->lags ? u->lag_sum_s / (double)u->lags : NAN;
    u->contrib_mean =
        r->n_steps ? (double)u->contributed / (double)r->n_steps : NAN;
    u->unique_rate = r->time_s > 0 ? u->samples / r->time_s : NAN;
    if (u->is_left)
        u->state = "LEFT";
    else
        u->state = u->is_lost || u->is_node_lost ? "LOST" : r->state;
}

static enum dsgd_err finish_units(struct load *l, struct dsgd_error *err)
{
    struct report *r = l->report;
    size_t first = 0;
    float *scratch = malloc((r->n_steps * l->n + 1) * sizeof *scratch);

    if (!scratch)
        return no_memory(r, err);
    for (size_t w = 0; w < l->n; w++) {
        r->worker[w].waited_s = l->waited_s[w];
        add(&r->node[r->worker_node[w]], &r->worker[w]);
        summarise(r, &r->worker[w], &w, 1, scratch);
        finish_unit(r, &r->worker[w]);
    }
    for (size_t k = 0; k < r->n_nodes; k++) {
        size_t n = (size_t)r->node[k].workers;
        add(&r->total, &r->node[k]);
        summarise(r, &r->node[k], r->member + first, n, scratch);
        finish_unit(r, &r->node[k]);
        first += n;
    }
    r->total.steps = r->n_steps;
    summarise(r, &r->total, r->member, l->n, scratch);
    finish_unit(r, &r->total);
    free(scratch);
    return DSGD_OK;
}

static void finish_run(struct load *l)
{
    struct report *r = l->report;
    double published_s = l->last_start_s + l->last_publish_s;

    r->step_mean_s = r->n_steps ? r->step_mean_s / (double)r->n_steps : NAN;
    r->lr_scale_mean = r->n_steps ? r->lr_scale_mean / (double)r->n_steps : NAN;
    r->step_p95_s = report_quantile(l->step_s, r->n_steps, .95);
    r->elapsed_s = r->n_steps ? published_s : NAN;
    if (isfinite(l->facts->end_s))
        r->elapsed_s = l->facts->end_s;
}

static void set_facts(struct report *r, const struct record_facts *f,
                      double now_unix_s)
{
    const struct record_job *job = &f->job;
    bool closed = isfinite(f->end_s);

    r->job_id = job->job_id;
    r->step_id = job->step_id;
    r->job_name = job->job_name;
    r->user = job->user;
    r->program = job->program;
    r->description = job->description;
    r->cutoff = job->cutoff;
    r->late = job->late;
    r->version = f->version;
    r->restart = job->restart;
    r->n_nodes = job->n_nodes;
    r->n_tasks = job->n_workers;
    r->min_contributors = job->min_contributors;
    r->grad_elems = job->grad_elems;
    r->n_samples = job->n_samples;
    r->batch = job->batch;
    r->dropped_rows = f->dropped_rows;
    r->start_unix_s = job->start_unix_s;
    r->end_unix_s = f->heard_unix_s;
    r->worker_node = job->worker_node;
    r->state = closed && f->completed ? "COMPLETED" : "INCOMPLETE";
    if (!closed && now_unix_s - f->heard_unix_s < alive_s) {
        r->state = "RUNNING";
        r->end_unix_s = NAN;
    }
    snprintf(r->id, sizeof r->id, "%s.%s", r->job_id, r->step_id);
}

static void set_node(struct report_unit *u, const struct record_job *job,
                     size_t node)
{
    u->rank = NAN;
    u->node = job->node_name[node];
    u->kernel = job->node_kernel[node];
    for (int i = 0; i < DSGD_N_TELEMETRY; i++)
        u->telemetry[i] = (double)job->telemetry[node * DSGD_N_TELEMETRY + i];
}

/* Name the units, and sort the workers by node. */
static void set_units(struct load *l)
{
    struct report *r = l->report;
    uint64_t *next = l->node_seen; /* where a node's next member goes */

    r->total.rank = NAN;
    for (int i = 0; i < DSGD_N_TELEMETRY; i++)
        r->total.telemetry[i] = NAN;
    for (size_t w = 0; w < l->n; w++)
        if (r->worker_node[w] + 1 < r->n_nodes)
            next[r->worker_node[w] + 1]++;
    for (size_t k = 0; k < r->n_nodes; k++) {
        set_node(&r->node[k], &l->facts->job, k);
        next[k] += k ? next[k - 1] : 0;
    }
    for (size_t w = 0; w < l->n; w++) {
        r->worker[w] = r->node[r->worker_node[w]];
        r->worker[w].rank = (double)w;
        r->worker[w].workers = 1;
        r->member[next[r->worker_node[w]]++] = w;
    }
    memset(next, 0, r->n_nodes * sizeof *next);
}

static enum dsgd_err allocate(struct load *l, struct dsgd_error *err)
{
    struct report *r = l->report;
    size_t nodes = r->n_nodes;

    r->node = calloc(nodes, sizeof *r->node);
    r->worker = calloc(l->n, sizeof *r->worker);
    l->arrival_s = calloc(l->n, sizeof *l->arrival_s);
    l->waited_s = calloc(l->n, sizeof *l->waited_s);
    l->wanted = calloc(l->n, sizeof *l->wanted);
    l->vain = calloc(l->n, sizeof *l->vain);
    l->order = calloc(l->n, sizeof *l->order);
    r->member = calloc(l->n, sizeof *r->member);
    l->node_seen = calloc(nodes, sizeof *l->node_seen);
    if (r->node && r->worker && l->arrival_s && l->waited_s && l->wanted &&
        l->vain && l->order && r->member && l->node_seen)
        return DSGD_OK;
    return no_memory(r, err);
}

static void free_load(struct load *l)
{
    free(l->event);
    free(l->step_s);
    free(l->arrival_s);
    free(l->waited_s);
    free(l->wanted);
    free(l->vain);
    free(l->order);
    free(l->node_seen);
}

static enum dsgd_err load(struct load *l, struct dsgd_error *err)
{
    enum dsgd_err rc = allocate(l, err);

    if (rc != DSGD_OK)
        return rc;
    set_units(l);
    rc = read_events(l, err);
    if (rc == DSGD_OK)
        rc = read_steps(l, err);
    record_read_release(l->record);
    if (rc == DSGD_OK)
        rc = finish_units(l, err);
    finish_run(l);
    return rc;
}

enum dsgd_err report_load(const char *path, double now_unix_s,
                          struct report **out, struct dsgd_error *err)
{
    struct report *r = calloc(1, sizeof *r);
    enum dsgd_err rc;

    *out = NULL;
    if (!r)
        return error_set(err, DSGD_E_NOMEM, "%s: no memory", path);
    rc = record_read_open(path, &r->record, err);
    if (rc == DSGD_OK) {
        struct load l = {.report = r, .record = r->record};
        l.facts = record_read_facts(r->record);
        l.n = l.facts->job.n_workers;
        set_facts(r, l.facts, now_unix_s);
        rc = load(&l, err);
        free_load(&l);
    }
    if (rc != DSGD_OK) {
        report_destroy(r);
        return rc;
    }
    *out = r;
    return DSGD_OK;
}

void report_destroy(struct report *r)
{
    if (!r)
        return;
    record_read_close(r->record);
    free(r->node);
    free(r->worker);
    free(r->member);
    free(r->step);
    free(r->duration_s);
    free(r->advice);
    free(r);
}
