#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "report_slow.h"
#include "report_stats.h"

/* Telemetry that explains a slow node: others used that much of it. */
static const double busy_share = .1;
enum { OTHER_CPU = 0 }; /* first of DSGD_TELEMETRY_FEATURES */

static enum dsgd_err no_memory(struct dsgd_error *err)
{
    return error_set(err, DSGD_E_NOMEM, "no memory");
}

/* Append an empty piece of advice. */
static struct report_advice *append(struct report *r,
                                    enum report_advice_kind kind)
{
    void *more = reallocarray(r->advice, r->n_advice + 1, sizeof *r->advice);

    if (!more)
        return NULL;
    r->advice = more;
    struct report_advice *a = &r->advice[r->n_advice++];
    *a = (struct report_advice){.kind = kind, .rank = NAN, .ratio = NAN};
    return a;
}

__attribute__((format(printf, 2, 3))) static void say(struct report_advice *a,
                                                      const char *format, ...)
{
    size_t used = strlen(a->text);
    va_list ap;

    va_start(ap, format);
    vsnprintf(a->text + used, sizeof a->text - used, format, ap);
    va_end(ap);
}

static int compare_length(const void *a, const void *b)
{
    float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);
    return (x > y) - (x < y);
}

/* The median; of an even number, the geometric mean of the middle two, so that
 * nodes with more or fewer workers compare.  Negative, as they are, when it is
 * only known to be at least so long.  Reorders x. */
static float median(float *x, size_t n)
{
    if (n == 0)
        return NAN;
    qsort(x, n, sizeof *x, compare_length);
    float low = x[(n - 1) / 2], high = x[n / 2];
    float m = low == high ? fabsf(low) : sqrtf(fabsf(low) * fabsf(high));
    return low < 0 || high < 0 ? -m : m;
}

/* A row's median of each node's workers. */
static void node_medians(const struct report *r, const float *duration_s,
                         float *median_s, float *scratch)
{
    const size_t *member = r->member;

    for (size_t k = 0; k < r->n_nodes; k++) {
        size_t n = 0;
        for (size_t i = (size_t)r->node[k].workers; i > 0; i--, member++)
            if (!isnan(duration_s[*member]))
                scratch[n++] = duration_s[*member];
        median_s[k] = median(scratch, n);
    }
}

/* "n3 is slow: its workers' median step takes 2.9 times …" */
static void say_slow(const struct report *r, struct report_advice *a,
                     const struct report_unit *u, const struct report_slow *s)
{
    bool is_node = a->kind == REPORT_SLOW_NODE;

    a->node = u->node;
    a->rank = u->rank;
    a->ratio = s->ratio;
    a->steps = s->steps;
    a->slower = s->slower;
    a->first_step = r->step[s->first];
    a->last_step = r->step[s->last];
    if (is_node)
        say(a, "%.64s is slow", u->node);
    else
        say(a, "Worker %.0f (%.64s) is slow", u->rank, u->node);
    if (s->first != 0 || s->last + 1 != r->n_steps)
        say(a, " from step %" PRIu64 " to %" PRIu64, a->first_step,
            a->last_step);
    say(a,
        ": its %s takes %.3g times that of the other %s (%.3g s against "
        "%.3g s; %.0f worker%s, slower in %" PRIu64 " of %" PRIu64 " steps).",
        is_node ? "workers' median step" : "median step", s->ratio,
        is_node ? "nodes" : "workers", s->median_s, s->others_s, u->workers,
        u->workers == 1 ? "" : "s", s->slower, s->steps);
    say(a,
        " It was cut %" PRIu64 " times in %" PRIu64
        " %s, and the others waited %.3f s for it.",
        u->cut, u->wanted, is_node ? "worker-steps" : "steps", u->waited_s);
    if (u->telemetry[OTHER_CPU] >= busy_share)
        say(a, " At launch, others used %.2f of its CPU time.",
            u->telemetry[OTHER_CPU]);
}

static void say_slowest(struct report_advice *a, const struct report_unit *u,
                        const struct report_slow *s)
{
    if (isnan(u->rank))
        say(a, "No slow node: the slowest, %.64s,", u->node);
    else
        say(a, "No slow worker: the slowest, %.0f (%.64s),", u->rank, u->node);
    say(a,
        " takes %.2f times the median of the others (slower in %" PRIu64
        " of %" PRIu64 " steps).",
        s->ratio, s->slower, s->steps);
}

/* Nobody is slow: say how near the nearest came, or that it can't be told. */
static enum dsgd_err say_none(struct report *r, const struct report_slow *s,
                              size_t units, bool is_node,
                              struct dsgd_error *err)
{
    const char *unit = is_node ? "node" : "worker";
    size_t most = 0;
    bool enough = false;

    for (size_t u = 0; u < units; u++) {
        enough |= s[u].enough;
        if (s[u].ratio > s[most].ratio || isnan(s[most].ratio))
            most = u;
    }
    struct report_advice *a =
        append(r, enough ? REPORT_NONE_SLOW : REPORT_TOO_FEW);
    if (!a)
        return no_memory(err);
    a->steps = r->n_steps;
    if (units < 2)
        say(a, "One %s: there is none to compare it with.", unit);
    else if (!enough)
        say(a,
            "No slow %s can be told from chance: %" PRIu64
            " steps are too few.",
            unit, r->n_steps);
    else
        say_slowest(a, is_node ? &r->node[most] : &r->worker[most], &s[most]);
    return DSGD_OK;
}

/* Say who is slow of the units tested.
 *   none  in  say so when nobody is */
static enum dsgd_err say_all(struct report *r, const struct report_slow *s,
                             const struct report_unit *unit, size_t units,
                             enum report_advice_kind kind, bool none,
                             struct dsgd_error *err)
{
    size_t found = 0;

    for (size_t u = 0; u < units; u++) {
        if (!s[u].slow)
            continue;
        struct report_advice *a = append(r, kind);
        if (!a)
            return no_memory(err);
        say_slow(r, a, &unit[u], &s[u]);
        found++;
    }
    if (found > 0 || !none)
        return DSGD_OK;
    return say_none(r, s, units, kind == REPORT_SLOW_NODE, err);
}

/* A node is slow when most of its workers are: else they are named alone.
 *   column  scratch [n_steps] */
static bool most_are_slow(const struct report *r, const size_t *member,
                          size_t workers, const struct report_slow *s,
                          float *column)
{
    size_t slow = 0;

    for (size_t i = 0; i < workers; i++) {
        size_t n = 0;
        for (size_t row = s->first; row <= s->last; row++) {
            float x = r->duration_s[row * r->n_tasks + member[i]];
            if (!isnan(x))
                column[n++] = fabsf(x);
        }
        slow +=
            report_quantile(column, n, .5) >= REPORT_SLOW_RATIO * s->others_s;
    }
    return 2 * slow > workers;
}

/* Test the nodes.
 *   s  out  [n_nodes] */
static enum dsgd_err test_nodes(const struct report *r, struct report_slow *s,
                                struct dsgd_error *err)
{
    const size_t *member = r->member;
    size_t room = r->n_steps > r->n_tasks ? r->n_steps : r->n_tasks;
    float *median_s = malloc((r->n_steps * r->n_nodes + 1) * sizeof *median_s);
    float *scratch = malloc((room + 1) * sizeof *scratch);
    enum dsgd_err rc = median_s && scratch ? DSGD_OK : no_memory(err);

    for (size_t row = 0; rc == DSGD_OK && row < r->n_steps; row++)
        node_medians(r, r->duration_s + row * r->n_tasks,
                     median_s + row * r->n_nodes, scratch);
    if (rc == DSGD_OK)
        rc = report_slow(r->n_steps, r->n_nodes, median_s, s, err);
    for (size_t k = 0; rc == DSGD_OK && k < r->n_nodes; k++) {
        size_t workers = (size_t)r->node[k].workers;
        if (s[k].slow)
            s[k].slow = most_are_slow(r, member, workers, &s[k], scratch);
        member += workers;
    }
    free(median_s);
    free(scratch);
    return rc;
}

/* Test the workers on nodes that are not slow.
 *   s  out  [n_tasks] */
static enum dsgd_err test_workers(const struct report *r,
                                  const struct report_slow *node,
                                  struct report_slow *s, struct dsgd_error *err)
{
    size_t n = r->n_steps * r->n_tasks;
    float *duration_s = malloc((n + 1) * sizeof *duration_s);
    enum dsgd_err rc = duration_s ? DSGD_OK : no_memory(err);

    for (size_t i = 0; rc == DSGD_OK && i < n; i++)
        duration_s[i] =
            node[r->worker_node[i % r->n_tasks]].slow ? NAN : r->duration_s[i];
    if (rc == DSGD_OK)
        rc = report_slow(r->n_steps, r->n_tasks, duration_s, s, err);
    free(duration_s);
    return rc;
}

static enum dsgd_err slow_advice(struct report *r, struct dsgd_error *err)
{
    struct report_slow *node = calloc(r->n_nodes, sizeof *node);
    struct report_slow *worker = calloc(r->n_tasks, sizeof *worker);
    enum dsgd_err rc = node && worker ? DSGD_OK : no_memory(err);
    bool one_node = r->n_nodes == 1;

    if (rc == DSGD_OK && !one_node)
        rc = test_nodes(r, node, err);
    if (rc == DSGD_OK && !one_node)
        rc = say_all(r, node, r->node, r->n_nodes, REPORT_SLOW_NODE, true, err);
    if (rc == DSGD_OK)
        rc = test_workers(r, node, worker, err);
    if (rc == DSGD_OK)
        rc = say_all(r, worker, r->worker, r->n_tasks, REPORT_SLOW_WORKER,
                     one_node, err);
    free(node);
    free(worker);
    return rc;
}

enum { MAX_NAMED = 3 }; /* of many that are lost, so many are named */

static bool is_missing(const struct report_unit *u,
                       enum report_advice_kind kind)
{
    if (kind == REPORT_LEFT)
        return u->is_left;
    return !u->is_left && (u->is_lost || u->is_node_lost);
}

static void say_missing(const struct report *r, struct report_advice *a,
                        const struct report_unit *u)
{
    uint64_t last = r->n_steps ? r->step[r->n_steps - 1] : 0;

    a->node = u->node;
    a->rank = u->rank;
    a->last_step = u->last_step;
    if (isnan(u->rank))
        say(a, "Node %.64s", u->node);
    else
        say(a, "Worker %.0f (%.64s)", u->rank, u->node);
    if (a->kind == REPORT_LEFT)
        say(a, " was left behind: it was stuck when the run ended.");
    else
        say(a, " was lost: it gave no sign of life for one hard timeout.");
    if (u->last_step)
        say(a, " Its last contribution was to step %" PRIu64 " of %" PRIu64 ".",
            u->last_step, last);
    else
        say(a, " It contributed to none of %" PRIu64 " steps.", r->n_steps);
}

/* The workers or nodes that were left behind or lost. */
static enum dsgd_err missing(struct report *r, const struct report_unit *unit,
                             size_t n, enum report_advice_kind kind,
                             struct dsgd_error *err)
{
    size_t found = 0;

    for (size_t u = 0; u < n; u++) {
        if (!is_missing(&unit[u], kind) || ++found > MAX_NAMED)
            continue;
        struct report_advice *a = append(r, kind);
        if (!a)
            return no_memory(err);
        say_missing(r, a, &unit[u]);
    }
    if (found > MAX_NAMED) {
        struct report_advice *a = append(r, kind);
        if (!a)
            return no_memory(err);
        say(a, "So %s %zu more.", found == MAX_NAMED + 1 ? "was" : "were",
            found - MAX_NAMED);
    }
    return DSGD_OK;
}

static enum dsgd_err other_advice(struct report *r, struct dsgd_error *err)
{
    struct report_advice *a;

    if (r->differ_step) {
        if (!(a = append(r, REPORT_DIFFERS)))
            return no_memory(err);
        a->first_step = r->differ_step;
        say(a,
            "Replicas differ since step %" PRIu64
            " at the latest: do all nodes have the same processor and BLAS?",
            r->differ_step);
    }
    if (strcmp(r->state, "INCOMPLETE") == 0) {
        if (!(a = append(r, REPORT_INCOMPLETE)))
            return no_memory(err);
        say(a, "The run was broken off, or the end of its record could not be "
               "written.");
    }
    if (r->dropped_rows) {
        if (!(a = append(r, REPORT_INCOMPLETE)))
            return no_memory(err);
        say(a,
            "The record has holes: %" PRIu64
            " rows were dropped while it could not be written.",
            r->dropped_rows);
    }
    return DSGD_OK;
}

enum dsgd_err report_advise(struct report *r, struct dsgd_error *err)
{
    enum dsgd_err rc = slow_advice(r, err);

    if (rc == DSGD_OK)
        rc = missing(r, r->worker, r->n_tasks, REPORT_LEFT, err);
    if (rc == DSGD_OK)
        rc = missing(r, r->worker, r->n_tasks, REPORT_LOST, err);
    if (rc == DSGD_OK)
        rc = missing(r, r->node, r->n_nodes, REPORT_LOST, err);
    if (rc == DSGD_OK)
        rc = other_advice(r, err);
    return rc;
}
