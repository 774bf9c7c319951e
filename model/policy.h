/* Cutoff policies under one interface, to be scored on the same traces:
 *
 *   full          waits for all
 *   static-best   the best fixed count in hindsight
 *   static-tuned  the fixed count that was best in the warm-up
 *   elfving       Elfving's formula on 20 steps, never below what was observed
 *   order         the same on log durations, as --dsgd-cutoff=order decides
 *   last          the order statistics of the last step
 *   rolling       their mean over 10 steps
 *   ewma          moving averages and residual rows, renewal reward (ewma.h)
 *   dmm           the timing model of that kind, as dynamic
 *   dynamic       timing model, live stopping and guard (dynamic.h)
 *
 * and those that are not for policy_create:
 *
 *   parts-own, parts-shared, parts-last, parts-model   simulate_parts.h
 *   no-idle       the bound of these (oracle.h)
 *
 * Times are seconds since the step's start. */
#ifndef DSGD_POLICY_H
#define DSGD_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "dynamic.h"
#include "trace.h"

enum policy_kind {
    POLICY_FULL,
    POLICY_STATIC_BEST,
    POLICY_STATIC_TUNED,
    POLICY_ELFVING,
    POLICY_ORDER,
    POLICY_LAST,
    POLICY_ROLLING,
    POLICY_EWMA,
    POLICY_DMM,
    POLICY_DYNAMIC,
    POLICY_PARTS_OWN,
    POLICY_PARTS_SHARED,
    POLICY_PARTS_LAST,
    POLICY_PARTS_MODEL,
    POLICY_NO_IDLE,
    N_POLICIES
};

#define POLICY_NAMES                                                     \
    "full|static-best|static-tuned|elfving|order|last|rolling|ewma|dmm|" \
    "dynamic|parts-own|parts-shared|parts-last|parts-model|no-idle"

const char *policy_name(enum policy_kind kind);

/* The kind of that name; N_POLICIES: none. */
enum policy_kind policy_parse(const char *name, size_t length);

/* In parts, for simulate_parts. */
bool policy_in_parts(enum policy_kind kind);

/* Which kind of timing model a policy can't do without. */
enum policy_model { POLICY_NEEDS_NONE, POLICY_NEEDS_DMM, POLICY_NEEDS_SET };
enum policy_model policy_model(enum policy_kind kind);

struct policy_setup {
    const struct trace *trace; /* workers and nodes; its warm-up rows */
    size_t warmup;             /* steps that wait for all */
    double overhead_s;
    enum live_late late;
    size_t micro_batches;             /* of LIVE_POLL */
    size_t best_c;                    /* of static-best */
    const struct timing_model *model; /* of dmm and dynamic; may be NULL */
    enum rule rule;
    uint64_t seed;
};

struct policy;

/* Errors: those of dynamic_create; DSGD_E_NOMEM. */
enum dsgd_err policy_create(enum policy_kind kind,
                            const struct policy_setup *setup, struct policy **p,
                            struct dsgd_error *err);
void policy_free(struct policy *p);

/* What decides in the course of a step, instead of a count; NULL: a count. */
struct dynamic *policy_dynamic(struct policy *p);

/* A step starts.  Returns how many contributors it waits for, 1..n.
 *   busy  in  [n] still with an older batch; its lag is not known
 * Not for policies with a policy_dynamic.  Local, no allocation. */
size_t policy_begin(struct policy *p, const bool *busy);

/* A step is over.
 *   start_s          in  [n] when each could start its batch, at most elapsed_s
 *   log_s, status    in  [n] as in timing_observe
 * As above. */
void policy_end(struct policy *p, size_t contributors, double elapsed_s,
                const double *start_s, const float *log_s,
                const uint8_t *status);

#endif
