#include "replay_script.h"

#include <stdio.h>
#include <stdlib.h>

#include "error.h"
#include "replay_parts.h"

struct script {
    char path[256];
    struct record_read *read;
    uint32_t n_workers;
    uint64_t n_samples;
    struct record_step step;
    struct script_worker *worker; /* [n_workers] */
    /* Contributions are read up to those of the step after the one at hand:
     * they say what was carried out of it. */
    struct record_contribution row; /* the first that was not looked at */
    bool has_row;
    struct record_contribution *own; /* [n_workers] a part of the range of the
                                        step to come; samples 0: none */
    bool shared;
    struct script_parts parts; /* with shared work */
    size_t most;
};

static enum dsgd_err read_row(struct script *s, struct dsgd_error *err)
{
    enum dsgd_err rc = record_read_contribution(s->read, &s->row, err);

    s->has_row = rc == DSGD_OK;
    return rc == DSGD_END ? DSGD_OK : rc;
}

enum dsgd_err script_open(const char *path, struct script **out,
                          struct dsgd_error *err)
{
    struct script *s = calloc(1, sizeof *s);

    *out = NULL;
    if (!s)
        return error_set(err, DSGD_E_NOMEM, "replay:%.200s: no memory", path);
    snprintf(s->path, sizeof s->path, "%s", path);
    enum dsgd_err rc = record_read_open(path, &s->read, err);
    if (rc == DSGD_OK) {
        s->n_workers = record_read_facts(s->read)->job.n_workers;
        s->n_samples = record_read_facts(s->read)->job.n_samples;
        s->shared = record_read_facts(s->read)->shared;
        s->worker = calloc(s->n_workers, sizeof *s->worker);
        s->own = calloc(s->n_workers, sizeof *s->own);
        rc = s->worker && s->own
                 ? read_row(s, err)
                 : error_set(err, DSGD_E_NOMEM, "replay:%s: no memory", path);
    }
    if (rc != DSGD_OK) {
        script_close(s);
        return rc;
    }
    *out = s;
    return DSGD_OK;
}

void script_close(struct script *s)
{
    if (!s)
        return;
    record_read_close(s->read);
    script_parts_free(&s->parts);
    free(s->worker);
    free(s->own);
    free(s);
}

struct record_read *script_reader(struct script *s)
{
    return s->read;
}

enum dsgd_err script_reserve(struct script *s, size_t rows,
                             struct dsgd_error *err)
{
    return script_parts_reserve(&s->parts, rows, err);
}

size_t script_most(const struct script *s)
{
    return s->most;
}

/* It is of the first samples of the range that its worker was given in the step
 * at hand.
 *   own  in  in time for that step, or carried into the next */
static enum dsgd_err take(struct script *s, const struct record_step *rows,
                          const struct record_contribution *row, bool own,
                          struct dsgd_error *err)
{
    struct script_worker *w = &s->worker[row->worker];

    if ((rows->mask[row->worker] != 0) != own || !row->samples ||
        row->first != rows->first[row->worker] ||
        row->samples > rows->count[row->worker])
        return error_set(err, DSGD_E_FORMAT,
                         "replay:%s: what worker %u contributed to step %llu "
                         "is not of the range that it had in step %llu",
                         s->path, row->worker, (unsigned long long)row->step,
                         (unsigned long long)row->from);
    w->first = row->first;
    w->count = rows->count[row->worker];
    w->given = row->samples;
    w->late = !own;
    return DSGD_OK;
}

/* Of the step at hand, or of the one after it. */
static enum dsgd_err look_at_row(struct script *s,
                                 const struct record_step *rows,
                                 struct dsgd_error *err)
{
    const struct record_contribution *row = &s->row;

    if (row->from == rows->step)
        return take(s, rows, row, row->step == rows->step, err);
    if (row->step == rows->step + 1 && row->from == row->step) {
        s->own[row->worker] = *row;
        return DSGD_OK;
    }
    return error_set(
        err, DSGD_E_FORMAT, "replay:%s: a gradient of step %llu in step %llu",
        s->path, (unsigned long long)row->from, (unsigned long long)row->step);
}

static enum dsgd_err take_rows(struct script *s, const struct record_step *rows,
                               struct dsgd_error *err)
{
    enum dsgd_err rc = DSGD_OK;

    for (uint32_t w = 0; rc == DSGD_OK && w < s->n_workers; w++) {
        if (s->own[w].samples)
            rc = take(s, rows, &s->own[w], true, err);
        s->own[w].samples = 0;
    }
    while (rc == DSGD_OK && s->has_row && s->row.step <= rows->step + 1) {
        rc = look_at_row(s, rows, err);
        if (rc == DSGD_OK)
            rc = read_row(s, err);
    }
    return rc;
}

/* The rows of the next step, of shared work. */
static enum dsgd_err read_parts(struct script *s, uint64_t step,
                                struct dsgd_error *err)
{
    enum dsgd_err rc = DSGD_OK;

    script_parts_turn(&s->parts);
    while (rc == DSGD_OK && s->has_row && s->row.step <= step) {
        rc = script_parts_add(&s->parts, &s->row, err);
        if (rc == DSGD_OK)
            rc = read_row(s, err);
    }
    s->most = s->parts.next.n > s->most ? s->parts.next.n : s->most;
    return rc;
}

static enum dsgd_err take_parts(struct script *s, struct dsgd_error *err)
{
    uint64_t step = s->step.step;
    enum dsgd_err rc = step == 1 ? read_parts(s, 1, err) : DSGD_OK;

    if (rc == DSGD_OK)
        rc = read_parts(s, step + 1, err);
    if (rc != DSGD_OK)
        return rc;
    const char *wrong = script_parts_join(&s->parts, step, s->n_samples,
                                          s->worker, s->n_workers);
    if (!wrong)
        return DSGD_OK;
    return error_set(err, DSGD_E_USAGE,
                     "replay:%s: what a worker contributed to step %llu %s",
                     s->path, (unsigned long long)step, wrong);
}

/* Can the step's sum be made again from what is told of it? */
static enum dsgd_err check(const struct script *s, struct dsgd_error *err)
{
    unsigned long long number = s->step.step;
    uint64_t samples = 0;
    uint32_t contributors = 0;

    for (uint32_t i = 0; i < s->n_workers; i++) {
        const struct script_worker *w = &s->worker[i];
        if (w->first + w->count < w->first ||
            w->first + w->count > s->n_samples)
            return error_set(err, DSGD_E_FORMAT,
                             "replay:%s: the range of worker %u in step %llu "
                             "is not one of the data set",
                             s->path, i, number);
        samples += w->carried + (w->late ? 0 : w->given);
        contributors += (w->given && !w->late) || (s->shared && w->carried);
    }
    if (samples == s->step.samples && contributors == s->step.contributors)
        return DSGD_OK;
    return error_set(err, DSGD_E_USAGE,
                     "replay:%s: in step %llu %llu samples of %u workers "
                     "contributed, and its ranges tell of %llu of %u",
                     s->path, number, (unsigned long long)s->step.samples,
                     s->step.contributors, (unsigned long long)samples,
                     contributors);
}

enum dsgd_err script_next(struct script *s, struct dsgd_error *err)
{
    struct record_step rows;
    uint64_t number = s->step.step + 1;
    enum dsgd_err rc = record_read_step(s->read, &rows, err);

    if (rc != DSGD_OK)
        return rc;
    if (rows.step != number)
        return error_set(err, DSGD_E_USAGE, "replay:%s: step %llu is missing",
                         s->path, (unsigned long long)number);
    for (uint32_t i = 0; i < s->n_workers; i++) {
        struct script_worker *w = &s->worker[i];
        *w = (struct script_worker){.carried = w->late ? w->given : 0};
        if (!rows.mask[i])
            continue;
        w->first = rows.first[i];
        w->count = w->given = rows.count[i];
    }
    s->step = rows;
    s->step.mask = NULL;
    s->step.duration_s = s->step.lag_s = NULL;
    s->step.first = NULL;
    s->step.count = NULL;
    rc = s->shared ? take_parts(s, err) : take_rows(s, &rows, err);
    return rc == DSGD_OK ? check(s, err) : rc;
}

const struct record_step *script_step(const struct script *s)
{
    return &s->step;
}

const struct script_worker *script_workers(const struct script *s)
{
    return s->worker;
}
