/* Cutoff policies: how many gradients a step waits for.
 *
 * A policy sees what the coordinator sees: when a step starts, who arrives
 * when, and what became known of durations later.  It says when to close. */
#ifndef DSGD_CUTOFF_H
#define DSGD_CUTOFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"

enum cutoff_mode {
    CUTOFF_FULL,    /* everybody alive */
    CUTOFF_STATIC,  /* the first min(K, alive) (Chen et al. 2016) */
    CUTOFF_ORDER,   /* Elfving's formula on a rolling window */
    CUTOFF_DYNAMIC, /* the timing model's predictive, live */
    CUTOFF_DRY,     /* everybody, recording what dynamic would have done */
    CUTOFF_REPLAY   /* recorded masks */
};

struct cutoff_spec {
    enum cutoff_mode mode;
    size_t k;       /* CUTOFF_STATIC with a count, else 0 */
    double percent; /* CUTOFF_STATIC with a percentage, else 0 */
    char file[256]; /* CUTOFF_REPLAY */
};

/* The modes, for messages: "full|static:K|static:P%|order|…". */
#define CUTOFF_MODES "full|static:K|static:P%|order|dynamic|dry|replay:FILE"

/* Read a mode as users write it.
 *   name  in   what the value came from, for the message ("--dsgd-cutoff")
 *   text  in   NULL and "" mean full
 *   spec  out  untouched on error
 * Local.  Errors: DSGD_E_USAGE (unknown mode; K < 1 or not a number; P not in
 * (0, 100]; replay without a file). */
enum dsgd_err cutoff_parse(const char *name, const char *text,
                           struct cutoff_spec *spec, struct dsgd_error *err);

/* Contributors wanted of n workers by a static spec: K, or P % rounded up, at
 * least 1.  n_workers >= 1. */
size_t cutoff_static_k(const struct cutoff_spec *spec, size_t n_workers);

struct cutoff;

/* Create the policy of a run.
 *   spec       in   copied
 *   n_workers  in   >= 1
 *   min        in   a step is never cut below; 0: no limit
 *   window     in   steps that `order` looks back at; 0: the default, 10
 *   c          out  NULL on error; frees with cutoff_destroy
 * dynamic and dry wait for all here: dynamic.h decides; so does replay, with
 * those working who contributed then.
 * Errors: DSGD_E_USAGE (K or min larger than n_workers), DSGD_E_NOMEM,
 * DSGD_E_RANGE. */
enum dsgd_err cutoff_create(const struct cutoff_spec *spec, size_t n_workers,
                            size_t min, size_t window, struct cutoff **c,
                            struct dsgd_error *err);
void cutoff_destroy(struct cutoff *c);

/* A step starts.
 *   working     in  [n_workers] true: this worker is expected to contribute
 *   overhead_s  in  measured cost of close, reduce, publish and update
 * Local, no allocation.  Returns the number of contributors wanted, in
 * 1..(number of working), or 0 when none is working. */
size_t cutoff_begin(struct cutoff *c, const bool *working, double overhead_s);

/* What became known of a worker's whole batch, exact or estimated from its
 * progress; also from steps that are over.  Values that are not finite and
 * positive are ignored.  Local, no allocation. */
void cutoff_observe(struct cutoff *c, size_t worker, double duration_s);

/* The step is closed: durations observed since the last call make up one row of
 * the rolling window; a worker not observed keeps its last duration. */
void cutoff_end(struct cutoff *c);

/* Median over the window of all known durations, seconds; NaN before the first
 * step ended.  Used for the hard timeout. */
double cutoff_median_s(struct cutoff *c);

/* Steps ended so far. */
uint64_t cutoff_steps(const struct cutoff *c);

#endif
