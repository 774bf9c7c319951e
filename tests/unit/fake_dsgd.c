#include "fake_dsgd.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"

struct dsgd {
    struct dsgd_options opt;
    struct fake_plan plan;
    struct fake_seen seen;
    float *slot, *mean;
    uint64_t step, epoch, position; /* position: samples handed out */
    uint64_t share, samples;        /* of the step at hand */
    uint64_t claimed, given;        /* of the share, in parts */
    bool in_step, mean_due, abandoned, resynced, epoch_ended, over;
    uint64_t published, unique;
};

void fake_open(const struct dsgd_options *opt, const struct fake_plan *plan,
               struct dsgd **out)
{
    struct dsgd *d = calloc(1, sizeof *d);

    d->opt = *opt;
    if (plan)
        d->plan = *plan;
    d->slot = calloc(opt->grad_elems, sizeof *d->slot);
    d->mean = calloc(opt->grad_elems, sizeof *d->mean);
    *out = d;
}

const struct fake_seen *fake_seen(const struct dsgd *d)
{
    return &d->seen;
}

static bool hits(uint64_t every, uint64_t step)
{
    return every && step % every == 0;
}

enum dsgd_err dsgd_register(struct dsgd *d, void *state, size_t bytes,
                            struct dsgd_error *err)
{
    (void)err;
    d->seen.registered += state && bytes;
    return DSGD_OK;
}

enum dsgd_err dsgd_step_begin(struct dsgd *d, struct dsgd_step *step)
{
    d->seen.wrong_order += d->in_step || d->mean_due;
    if (d->over)
        return DSGD_END;
    uint64_t left = d->opt.n_samples - d->position;
    d->step++;
    d->share = left < d->opt.batch ? left : d->opt.batch;
    if (hits(d->plan.empty_every, d->step))
        d->share = 0;
    d->claimed = d->given = 0;
    d->in_step = true;
    d->abandoned = d->epoch_ended = false;
    *step = (struct dsgd_step){.index = d->step,
                               .epoch = d->epoch,
                               .first_sample = d->position,
                               .n_samples = d->share};
    return DSGD_OK;
}

enum dsgd_err dsgd_poll(struct dsgd *d, uint64_t done, uint64_t total)
{
    uint64_t all = d->claimed ? d->claimed : d->share;

    d->seen.wrong_order += !d->in_step || done >= total || total != all;
    d->seen.polls++;
    if (d->claimed) /* dsgd_deposit says so */
        return DSGD_GO_ON;
    if (!hits(d->plan.abandon_every, d->step))
        return DSGD_GO_ON;
    d->seen.abandoned++;
    d->abandoned = true;
    return DSGD_ABANDON;
}

float *dsgd_grad_buffer(struct dsgd *d)
{
    return d->slot;
}

enum dsgd_err dsgd_reduce(struct dsgd *d, const float *grad, size_t n,
                          uint64_t samples)
{
    d->seen.wrong_order += !d->in_step || n != d->opt.grad_elems ||
                           samples > d->share ||
                           (samples < d->share && !d->abandoned);
    if (d->step == d->plan.fail_at)
        return DSGD_E_MPI;
    d->in_step = false;
    d->mean_due = true;
    d->samples = d->abandoned ? d->share : samples;
    d->seen.reduced_samples += d->abandoned ? 0 : samples;
    memset(d->mean, 0, n * sizeof *d->mean);
    for (size_t i = 0; i < n && samples && !d->abandoned; i++)
        d->mean[i] = grad[i] / (float)samples;
    d->position += d->samples;
    d->unique += d->samples;
    return DSGD_OK;
}

enum dsgd_err dsgd_claim(struct dsgd *d, struct dsgd_part *part)
{
    uint64_t left = d->share - d->given;

    d->seen.wrong_order += !d->in_step || d->claimed;
    if (!left) {
        enum dsgd_err rc = dsgd_reduce(d, d->slot, d->opt.grad_elems, d->share);
        return rc == DSGD_OK ? DSGD_ABANDON : rc;
    }
    d->claimed = left < d->plan.part ? left : d->plan.part;
    *part = (struct dsgd_part){d->position + d->given, d->claimed};
    return DSGD_OK;
}

enum dsgd_err dsgd_deposit(struct dsgd *d, const float *grad, size_t n,
                           uint64_t samples)
{
    d->seen.wrong_order += !d->in_step || samples != d->claimed ||
                           n != d->opt.grad_elems || grad == d->slot;
    d->seen.parts++;
    if (hits(d->plan.abandon_every, d->step)) {
        d->abandoned = true;
        d->seen.abandoned++;
        enum dsgd_err rc = dsgd_reduce(d, d->slot, n, 0);
        return rc == DSGD_OK ? DSGD_ABANDON : rc;
    }
    for (size_t i = 0; i < n; i++)
        d->slot[i] = grad[i] + (d->given ? d->slot[i] : 0);
    d->given += samples;
    d->claimed = 0;
    return DSGD_OK;
}

enum dsgd_err dsgd_next_mean(struct dsgd *d, struct dsgd_mean *mean)
{
    d->seen.wrong_order += d->in_step;
    if (!d->mean_due)
        return d->epoch_ended ? DSGD_EPOCH_END : DSGD_UP_TO_DATE;
    if (d->step == d->plan.resync_at && !d->resynced) {
        d->resynced = true;
        return DSGD_RESYNCED;
    }
    d->mean_due = false;
    d->published = d->step;
    d->epoch_ended = d->position >= d->opt.n_samples;
    *mean = (struct dsgd_mean){.grad = d->mean,
                               .step = d->step,
                               .epoch = d->epoch,
                               .samples = d->samples,
                               .contributors = 1,
                               .lr_scale = d->plan.standstill ? 0 : 1,
                               .epoch_end = d->epoch_ended};
    if (d->epoch_ended) {
        d->epoch++;
        d->position = 0;
    }
    d->over = (d->opt.epochs && d->epoch >= d->opt.epochs) ||
              (d->opt.max_steps && d->step >= d->opt.max_steps);
    return DSGD_OK;
}

enum dsgd_err dsgd_close(struct dsgd *d)
{
    if (d) {
        free(d->slot);
        free(d->mean);
    }
    free(d);
    return DSGD_OK;
}

uint32_t dsgd_rank(const struct dsgd *d)
{
    (void)d;
    return 0;
}

uint32_t dsgd_size(const struct dsgd *d)
{
    (void)d;
    return 1;
}

uint32_t dsgd_nodes(const struct dsgd *d)
{
    (void)d;
    return 1;
}

/* An order that is good enough: a step through [0, n) by a number that has no
 * factor in common with it. */
uint64_t dsgd_shuffle(uint64_t seed, uint64_t epoch, uint64_t n,
                      uint64_t position)
{
    uint64_t stride = 1000003 % n ? 1000003 : 1;

    return (position * stride + seed + 7919 * epoch) % n;
}

void dsgd_progress(const struct dsgd *d, struct dsgd_progress *progress)
{
    *progress = (struct dsgd_progress){.steps = d->published,
                                       .unique_samples = d->unique,
                                       .elapsed_s = 0.001 * (double)d->step};
}

const char *dsgd_error_text(const struct dsgd *d)
{
    (void)d;
    return "as planned";
}
