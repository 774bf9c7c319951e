#include "fit_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "error.h"
#include "fit_checkpoint.h"

enum { MOST_BAD = 20 }; /* updates in a row without a finite gradient */

struct run {
    struct fit_learner *learner;
    const struct fit_plan *plan;
    struct fit_state state;
    struct fit_status status;
    float *memory, *grad;
    double started_s; /* clock when this process began, less earlier work */
    unsigned bad;     /* gradients in a row that were not finite */
};

static double clock_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static enum dsgd_err set_up(struct run *r, struct dsgd_error *err)
{
    size_t n = r->learner->n;

    r->memory = calloc(n, 4 * sizeof *r->memory);
    if (!r->memory)
        return error_set(err, DSGD_E_NOMEM, "no memory to train %zu parameters",
                         n);
    struct fit_state *s = &r->state;
    adam_init(&s->adam, n, r->memory);
    s->adam.clip = r->plan->clip;
    s->params = r->learner->params;
    s->best = r->memory + 2 * n;
    r->grad = r->memory + 3 * n;
    memcpy(s->best, s->params, n * sizeof *s->best);
    s->best_loss = INFINITY;
    s->train_loss = NAN;
    fit_state_fingerprint(s, r->learner, r->plan);
    if (r->plan->resume)
        return fit_checkpoint_load(r->plan->checkpoint, s, err);
    return DSGD_OK;
}

/* Share done, by steps or by time. */
static double done(const struct run *r)
{
    const struct fit_plan *p = r->plan;
    double share = p->steps ? (double)r->state.step / (double)p->steps
                            : r->state.elapsed_s / p->seconds;

    return fmin(1, share);
}

static enum dsgd_err update(struct run *r, struct dsgd_error *err)
{
    struct fit_state *s = &r->state;
    const struct fit_plan *p = r->plan;
    double at = done(r);
    double loss = r->learner->loss(r->learner->self, s->step, at, r->grad);
    double rise =
        p->warmup > 0 ? fmin(1, ((double)s->step + 1) / p->warmup) : 1;
    enum dsgd_err rc = DSGD_OK;

    if (isnan(loss) && r->learner->failed)
        rc = r->learner->failed(r->learner->self, err);
    if (rc != DSGD_OK)
        return rc;
    double norm = adam_step(&s->adam, s->params, r->grad,
                            rise * adam_cosine(p->lr, p->floor, 0, at, 1));

    s->step++;
    r->bad = isfinite(loss) && isfinite(norm) ? 0 : r->bad + 1;
    if (r->bad >= MOST_BAD)
        return error_set(err, DSGD_E_NUMERIC,
                         "the loss is not finite since step %llu: try a lower "
                         "--lr than %g",
                         (unsigned long long)(s->step - MOST_BAD), p->lr);
    if (r->bad == 0)
        s->train_loss =
            isnan(s->train_loss) ? loss : .98 * s->train_loss + .02 * loss;
    return DSGD_OK;
}

static void validate(struct run *r)
{
    struct fit_state *s = &r->state;

    r->status.loss = r->learner->validate(r->learner->self);
    r->status.validated = true;
    s->last_loss = r->status.loss;
    if (done(r) < r->plan->watch_from)
        return;
    s->looks++;
    if (!(r->status.loss < s->best_loss))
        return;
    s->best_loss = r->status.loss;
    s->best_step = s->step;
    s->looks = 0;
    memcpy(s->best, s->params, r->learner->n * sizeof *s->best);
}

static bool report(struct run *r)
{
    struct fit_status *t = &r->status;
    double at = done(r);

    t->step = r->state.step;
    t->steps = r->plan->steps;
    t->done = at;
    t->elapsed_s = r->state.elapsed_s;
    t->eta_s = at > 0 ? r->state.elapsed_s * (1 - at) / at : NAN;
    t->train_loss = r->state.train_loss;
    t->best_loss = r->state.best_loss;
    return !r->plan->report || r->plan->report(r->plan->context, t);
}

static enum dsgd_err keep(const struct run *r, struct dsgd_error *err)
{
    return r->plan->checkpoint
               ? fit_checkpoint_save(r->plan->checkpoint, &r->state, err)
               : DSGD_OK;
}

static bool out_of_patience(const struct run *r)
{
    return r->plan->patience && r->state.looks >= r->plan->patience;
}

static enum dsgd_err train(struct run *r, struct fit_result *result,
                           struct dsgd_error *err)
{
    const struct fit_plan *p = r->plan;
    enum dsgd_err rc = DSGD_OK;

    if (r->state.step == 0)
        validate(r); /* what it starts from may be the best */
    result->early = out_of_patience(r);
    while (rc == DSGD_OK && done(r) < 1 && !result->stopped && !result->early) {
        rc = update(r, err);
        if (rc != DSGD_OK)
            break;
        r->state.elapsed_s = clock_s() - r->started_s;
        r->status.validated = false;
        bool last = !(done(r) < 1);
        if (last || r->state.step % p->every == 0)
            validate(r);
        result->early = out_of_patience(r);
        result->stopped = !report(r) && !last;
        if (result->stopped || r->status.validated)
            rc = keep(r, err);
    }
    return rc;
}

enum dsgd_err fit_run(struct fit_learner *learner, const struct fit_plan *plan,
                      struct fit_result *result, struct dsgd_error *err)
{
    struct run r = {.learner = learner, .plan = plan};
    enum dsgd_err rc = set_up(&r, err);

    *result = (struct fit_result){.stopped = false};
    r.status.loss = NAN;
    r.started_s = clock_s() - r.state.elapsed_s;
    if (rc == DSGD_OK)
        rc = train(&r, result, err);
    if (rc == DSGD_OK) {
        struct fit_state *s = &r.state;
        result->facts = (struct fit_facts){.seed = plan->seed,
                                           .steps = s->step,
                                           .best_step = s->best_step,
                                           .loss = s->last_loss,
                                           .best_loss = s->best_loss,
                                           .elapsed_s = s->elapsed_s};
        if (isfinite(s->best_loss))
            memcpy(learner->params, s->best, learner->n * sizeof *s->best);
    }
    free(r.memory);
    return rc;
}
