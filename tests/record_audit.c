/* Does a record add up?  Prints one line:
 *
 *     steps S epochs E carried C parts P doubled D missing M wrong W differ R
 *         cuts L share F compared C
 *
 * Of several records, each run went on from a checkpoint of an earlier one:
 * what it did is counted up to the step that a later one went on from.
 * carried and parts count gradients, and ranges of shared work; doubled and
 * missing are samples of an epoch that contributed more than once, and never
 * (of epochs that ended); wrong are steps whose samples are not the sum of
 * their parts, and steps that are not there; differ are steps after which
 * replicas were not the same, of C after which more than one was looked at; L
 * is the longest row of steps in which a worker was given samples and gave
 * none, F the largest share of such steps, in per cent.  0 when the records can
 * be read, whatever they say. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "record_read.h"

struct audit {
    struct record_read *r;
    uint64_t n_samples;
    uint32_t n_workers;
    uint8_t *times; /* [n_samples] of this epoch */
    uint64_t *part; /* [n_workers] samples of a contributor; UINT64_MAX: all */
    struct cuts {
        uint64_t row, cuts, steps;
        bool carried; /* its gradient of the step before */
    } * cuts;         /* [n_workers] */
    uint64_t longest;
    struct record_contribution next;
    bool has_next;
    uint64_t last;   /* step that counts */
    uint64_t before; /* the step before */
    uint64_t steps, epochs, carried, parts, doubled, missing, wrong, differ,
        compared;
    struct dsgd_error err;
};

static enum dsgd_err next_contribution(struct audit *a)
{
    enum dsgd_err rc = record_read_contribution(a->r, &a->next, &a->err);

    a->has_next = rc == DSGD_OK;
    return rc == DSGD_END ? DSGD_OK : rc;
}

static void count(struct audit *a, uint64_t first, uint64_t n)
{
    for (uint64_t i = first; i < first + n && i < a->n_samples; i++) {
        a->doubled += a->times[i] > 0;
        a->times[i] = 1;
    }
}

/* The rows that belong to the step.  Returns the carried samples. */
static uint64_t take_contributions(struct audit *a,
                                   const struct record_step *about,
                                   enum dsgd_err *rc)
{
    uint64_t samples = 0, step = about->step;

    while (*rc == DSGD_OK && a->has_next && a->next.step <= step) {
        const struct record_contribution *c = &a->next;
        if (c->step == step && c->from == step && !about->count[c->worker]) {
            a->parts++; /* of shared work */
            a->wrong += !about->mask[c->worker];
            samples += c->samples;
            count(a, c->first, c->samples);
        } else if (c->step == step && c->from == step) {
            a->part[c->worker] = c->samples;
            a->parts++;
        } else if (c->step == step) {
            a->carried++;
            a->cuts[c->worker].carried = true;
            a->wrong += c->from + 1 != step;
            samples += c->samples;
            count(a, c->first, c->samples);
        }
        *rc = next_contribution(a);
    }
    return samples;
}

/* A carried gradient is no cut. */
static void count_cuts(struct audit *a, const struct record_step *step,
                       uint32_t n)
{
    for (uint32_t w = 0; w < n; w++) {
        struct cuts *c = &a->cuts[w];
        if (c->carried) {
            c->row = 0;
            c->cuts -= c->cuts > 0;
        }
        c->carried = false;
        if (!step->count[w])
            continue;
        c->steps++;
        c->cuts += !step->mask[w];
        c->row = step->mask[w] ? 0 : c->row + 1;
        if (c->row > a->longest)
            a->longest = c->row;
    }
}

static double largest_share(const struct audit *a, uint32_t n)
{
    double largest = 0;

    for (uint32_t w = 0; w < n; w++) {
        double share = (double)a->cuts[w].cuts / (double)(a->cuts[w].steps + 1);
        largest = share > largest ? share : largest;
    }
    return 100 * largest;
}

static void end_epoch(struct audit *a)
{
    a->epochs++;
    for (uint64_t i = 0; i < a->n_samples; i++)
        a->missing += !a->times[i];
    memset(a->times, 0, a->n_samples);
}

static enum dsgd_err read_steps(struct audit *a)
{
    uint32_t n = record_read_facts(a->r)->job.n_workers;
    struct record_step step;
    enum dsgd_err rc = next_contribution(a);

    while (rc == DSGD_OK &&
           (rc = record_read_step(a->r, &step, &a->err)) == DSGD_OK) {
        if (step.step > a->last)
            break;
        a->wrong += step.step != a->before + 1;
        a->before = step.step;
        a->steps++;
        for (uint32_t w = 0; w < n; w++)
            a->part[w] = UINT64_MAX;
        uint64_t samples = take_contributions(a, &step, &rc);
        for (uint32_t w = 0; w < n; w++) {
            if (!step.mask[w])
                continue;
            uint64_t part =
                a->part[w] < UINT64_MAX ? a->part[w] : step.count[w];
            count(a, step.first[w], part);
            samples += part;
        }
        count_cuts(a, &step, n);
        a->wrong += samples != step.samples;
        if (step.epoch_end)
            end_epoch(a);
    }
    return rc == DSGD_END ? DSGD_OK : rc;
}

static enum dsgd_err read_checksums(struct audit *a)
{
    uint64_t step, value, last_step = 0, last = 0, counted = 0, compared = 0;
    uint32_t worker;
    enum dsgd_err rc;

    while ((rc = record_read_checksum(a->r, &step, &worker, &value, &a->err)) ==
           DSGD_OK) {
        if (step == last_step && value != last && step != counted) {
            a->differ++;
            counted = step;
        }
        if (step == last_step && step != compared) {
            a->compared++;
            compared = step;
        }
        last_step = step;
        last = value;
    }
    return rc == DSGD_END ? DSGD_OK : rc;
}

/* Open a record; the first one says how many samples and workers there are. */
static enum dsgd_err open_record(struct audit *a, const char *path)
{
    enum dsgd_err rc = record_read_open(path, &a->r, &a->err);

    if (rc != DSGD_OK)
        return rc;
    const struct record_job *job = &record_read_facts(a->r)->job;
    if (!a->times) {
        a->n_samples = job->n_samples;
        a->n_workers = job->n_workers;
        a->before = record_read_facts(a->r)->resumed_step;
        a->times = calloc(a->n_samples + 1, 1);
        a->part = calloc(a->n_workers, sizeof *a->part);
        a->cuts = calloc(a->n_workers, sizeof *a->cuts);
    }
    if (!a->times || !a->part || !a->cuts)
        return error_set(&a->err, DSGD_E_NOMEM, "no memory");
    if (job->n_samples != a->n_samples || job->n_workers != a->n_workers)
        return error_set(&a->err, DSGD_E_RANGE, "%s: of another run", path);
    return DSGD_OK;
}

/* Nothing that a run did after the step that a later one went on from counts.
 */
static enum dsgd_err find_last(struct audit *a, int n, char **path)
{
    enum dsgd_err rc = DSGD_OK;

    a->last = UINT64_MAX;
    for (int i = 0; i < n && rc == DSGD_OK; i++) {
        rc = record_read_open(path[i], &a->r, &a->err);
        if (rc != DSGD_OK)
            break;
        uint64_t resumed = record_read_facts(a->r)->resumed_step;
        a->last = resumed < a->last ? resumed : a->last;
        record_read_close(a->r);
        a->r = NULL;
    }
    return rc;
}

static enum dsgd_err audit(struct audit *a, int n, char **path)
{
    enum dsgd_err rc = DSGD_OK;

    for (int i = 0; i < n && rc == DSGD_OK; i++) {
        rc = find_last(a, n - i - 1, path + i + 1);
        if (rc == DSGD_OK)
            rc = open_record(a, path[i]);
        if (rc == DSGD_OK)
            rc = read_steps(a);
        if (rc == DSGD_OK)
            rc = read_checksums(a);
        record_read_close(a->r);
        a->r = NULL;
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct audit a = {0};

    if (argc < 2) {
        fprintf(stderr, "usage: record_audit FILE...\n");
        return DSGD_E_USAGE;
    }
    enum dsgd_err rc = audit(&a, argc - 1, argv + 1);
    if (rc == DSGD_OK)
        printf("steps %" PRIu64 " epochs %" PRIu64 " carried %" PRIu64
               " parts %" PRIu64 " doubled %" PRIu64 " missing %" PRIu64
               " wrong %" PRIu64 " differ %" PRIu64 " cuts %" PRIu64
               " share %.1f compared %" PRIu64 "\n",
               a.steps, a.epochs, a.carried, a.parts, a.doubled, a.missing,
               a.wrong, a.differ, a.longest, largest_share(&a, a.n_workers),
               a.compared);
    else
        fprintf(stderr, "record_audit: %s\n", a.err.text);
    free(a.times);
    free(a.part);
    free(a.cuts);
    return (int)rc;
}
