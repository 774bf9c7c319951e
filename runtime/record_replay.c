#include "record_replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "record_read.h"
#include "replay_script.h"

struct checksum {
    uint64_t step, value;
    uint32_t worker;
};

struct record_replay {
    char path[256];
    struct script *script;
    const struct record_facts *facts;
    uint64_t n_steps;
    struct checksum *checksum; /* [n_checksums] by step and worker */
    size_t n_checksums;
};

static enum dsgd_err refuse(const struct record_replay *r, const char *why,
                            struct dsgd_error *err)
{
    return error_set(err, DSGD_E_USAGE, "replay:%s: %s", r->path, why);
}

static enum dsgd_err number_differs(const struct record_replay *r,
                                    const char *what, uint64_t got,
                                    uint64_t want, struct dsgd_error *err)
{
    return error_set(err, DSGD_E_USAGE,
                     "replay:%s: recorded with %s %llu, and this run has %llu: "
                     "a replay needs the same",
                     r->path, what, (unsigned long long)got,
                     (unsigned long long)want);
}

static enum dsgd_err compare_numbers(const struct record_replay *r,
                                     const struct record_job *want,
                                     struct dsgd_error *err)
{
    const struct record_job *got = &r->facts->job;
    const struct {
        const char *what;
        uint64_t got, want;
    } pairs[] = {
        {"workers:", got->n_workers, want->n_workers},
        {"nodes:", got->n_nodes, want->n_nodes},
        {"a batch of", got->batch, want->batch},
        {"samples:", got->n_samples, want->n_samples},
        {"gradient elements:", got->grad_elems, want->grad_elems},
    };

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (pairs[i].got != pairs[i].want)
            return number_differs(r, pairs[i].what, pairs[i].got, pairs[i].want,
                                  err);
    }
    return DSGD_OK;
}

/* With the same numbers of workers and nodes. */
static enum dsgd_err compare_places(const struct record_replay *r,
                                    const struct record_job *want,
                                    struct dsgd_error *err)
{
    const struct record_job *got = &r->facts->job;

    for (uint32_t w = 0; w < want->n_workers; w++) {
        if (got->worker_node[w] != want->worker_node[w])
            return error_set(err, DSGD_E_USAGE,
                             "replay:%s: worker %u was on node %u, and is on "
                             "node %u: a replay needs the same placement",
                             r->path, w, got->worker_node[w],
                             want->worker_node[w]);
    }
    for (uint32_t i = 0; i < want->n_nodes; i++) {
        const char *kernel = got->node_kernel[i] ? got->node_kernel[i] : "?";
        if (strcmp(kernel, want->node_kernel[i]) != 0)
            return error_set(err, DSGD_E_USAGE,
                             "replay:%s: node %u (%s) computed with kernel %s, "
                             "and node %s has %s: set OPENBLAS_CORETYPE to the "
                             "recorded one",
                             r->path, i, got->node_name[i], kernel,
                             want->node_name[i], want->node_kernel[i]);
    }
    return DSGD_OK;
}

static enum dsgd_err compare_work(const struct record_replay *r, bool shared,
                                  struct dsgd_error *err)
{
    static const char *const word[] = {"own", "shared"};
    bool then = r->facts->shared;

    if (then == shared)
        return DSGD_OK;
    return error_set(err, DSGD_E_USAGE,
                     "replay:%s: recorded with --dsgd-work=%s, and this run "
                     "has %s: give it --dsgd-work=%s",
                     r->path, word[then], word[shared], word[then]);
}

static enum dsgd_err compare(const struct record_replay *r,
                             const struct record_job *want, bool shared,
                             struct dsgd_error *err)
{
    const char *program = r->facts->job.program;

    if (strcmp(program ? program : "", want->program) != 0)
        return error_set(err, DSGD_E_USAGE,
                         "replay:%s: a run of \"%.60s\", and this is \"%.60s\"",
                         r->path, program ? program : "", want->program);
    enum dsgd_err rc = compare_work(r, shared, err);
    if (rc == DSGD_OK)
        rc = compare_numbers(r, want, err);
    if (rc == DSGD_OK)
        rc = compare_places(r, want, err);
    if (rc != DSGD_OK)
        return rc;
    if (!want->n_samples)
        return refuse(r,
                      "a program with a data loader of its own can't be "
                      "replayed: the record does not say what it gave out",
                      err);
    if (r->facts->dropped_rows)
        return refuse(r,
                      "rows are missing, dropped while it could not be "
                      "written",
                      err);
    if (r->facts->resumed_step)
        return error_set(err, DSGD_E_USAGE,
                         "replay:%s: it begins after step %llu, from a "
                         "checkpoint: only a run from its beginning can be "
                         "replayed",
                         r->path, (unsigned long long)r->facts->resumed_step);
    return DSGD_OK;
}

static enum dsgd_err read_checksums(struct record_replay *r,
                                    struct dsgd_error *err)
{
    struct checksum sum;
    size_t room = 0;
    enum dsgd_err rc;

    while ((rc = record_read_checksum(script_reader(r->script), &sum.step,
                                      &sum.worker, &sum.value, err)) ==
           DSGD_OK) {
        if (r->n_checksums == room) {
            room = room ? 2 * room : 256;
            struct checksum *more =
                realloc(r->checksum, room * sizeof *r->checksum);
            if (!more)
                return error_set(err, DSGD_E_NOMEM, "replay:%s: no memory",
                                 r->path);
            r->checksum = more;
        }
        r->checksum[r->n_checksums++] = sum;
    }
    return rc == DSGD_END ? DSGD_OK : rc;
}

/* Read all steps once, so that what can't be done is known before anything
 * was. */
static enum dsgd_err count_steps(struct record_replay *r, const char *path,
                                 struct dsgd_error *err)
{
    struct script *script;
    enum dsgd_err rc = script_open(path, &script, err);

    if (rc != DSGD_OK)
        return rc;
    while ((rc = script_next(script, err)) == DSGD_OK)
        r->n_steps++;
    size_t most = script_most(script);
    script_close(script);
    if (rc == DSGD_END)
        rc = r->n_steps ? script_reserve(r->script, most, err)
                        : refuse(r, "it has no steps", err);
    return rc;
}

enum dsgd_err record_replay_next(struct record_replay *r,
                                 struct dsgd_error *err)
{
    if (record_replay_last(r))
        return DSGD_OK;
    enum dsgd_err rc = script_next(r->script, err);
    return rc == DSGD_END ? refuse(r, "it has become shorter", err) : rc;
}

static enum dsgd_err start(struct record_replay *r, struct dsgd_error *err)
{
    enum dsgd_err rc = read_checksums(r, err);

    return rc == DSGD_OK ? record_replay_next(r, err) : rc;
}

enum dsgd_err record_replay_open(const char *path,
                                 const struct record_job *want, bool shared,
                                 struct record_replay **out,
                                 struct dsgd_error *err)
{
    struct record_replay *r = calloc(1, sizeof *r);

    *out = NULL;
    if (!r)
        return error_set(err, DSGD_E_NOMEM, "replay:%.200s: no memory", path);
    snprintf(r->path, sizeof r->path, "%s", path);
    enum dsgd_err rc = script_open(path, &r->script, err);
    if (rc == DSGD_OK) {
        r->facts = record_read_facts(script_reader(r->script));
        rc = compare(r, want, shared, err);
    }
    if (rc == DSGD_OK)
        rc = count_steps(r, path, err);
    if (rc == DSGD_OK)
        rc = start(r, err);
    if (rc != DSGD_OK) {
        record_replay_close(r);
        return rc;
    }
    *out = r;
    return DSGD_OK;
}

void record_replay_close(struct record_replay *r)
{
    if (!r)
        return;
    script_close(r->script);
    free(r->checksum);
    free(r);
}

const char *record_replay_description(const struct record_replay *r)
{
    return r->facts->job.description;
}

const struct record_step *record_replay_step(const struct record_replay *r)
{
    return script_step(r->script);
}

const struct script_worker *record_replay_worker(const struct record_replay *r,
                                                 uint32_t worker)
{
    return &script_workers(r->script)[worker];
}

bool record_replay_last(const struct record_replay *r)
{
    return script_step(r->script)->step >= r->n_steps;
}

static int compare_checksums(const void *a, const void *b)
{
    const struct checksum *x = a, *y = b;

    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return (x->worker > y->worker) - (x->worker < y->worker);
}

bool record_replay_checksum(const struct record_replay *r, uint64_t step,
                            uint32_t worker, uint64_t *value)
{
    struct checksum key = {.step = step, .worker = worker};
    const struct checksum *found = NULL;

    if (r->n_checksums)
        found = bsearch(&key, r->checksum, r->n_checksums, sizeof key,
                        compare_checksums);
    if (found)
        *value = found->value;
    return found != NULL;
}
