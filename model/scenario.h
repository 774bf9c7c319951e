/* Synthetic clusters: run-times and telemetry of n workers on N nodes, composed
 * of effects that can be switched on one by one.
 *
 *     NAME[:key=value,…]      mix:n=158,N=4,T=600,seed=1,hiccup_p=.02
 *
 * Nine compositions have names: iid, hetero, regimes, cotenant, hiccup,
 * periodic, drift, bimodal, mix.  Log durations add up; an effect is on when
 * its first parameter is above 0. */
#ifndef DSGD_SCENARIO_H
#define DSGD_SCENARIO_H

#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "rng.h"
#include "trace.h"

enum scenario_noise {
    NOISE_NORMAL,
    NOISE_RIGHT,   /* exponential: skewed to the right */
    NOISE_STUDENT, /* df degrees of freedom, unit variance */
    NOISE_GAMMA,   /* gamma(4): mildly skewed */
    NOISE_LEFT,
    N_NOISES
};

/* Every field is a key of the same name, all of them numbers. */
struct scenario {
    char name[16];
    double n, N, T; /* workers, nodes (0: by n), steps */
    double seed;
    double step_s; /* typical step, seconds: the unit of the durations */
    double cv, shape, df;
    double war, warn; /* AR(1) of a worker's noise, and white noise on top */
    double wvar;      /* sd of fixed worker offsets */
    double cvspread;  /* sd of the log of worker spreads */
    double hetero;    /* half of the nodes slower by this factor */
    double ar, rho;   /* AR(1) of the whole cluster */
    /* a node (w: a worker) turns slow by lo..hi with probability in a step and
     * recovers with out */
    double regimes_in, regimes_out, regimes_lo, regimes_hi;
    double wregimes_in, wregimes_out, wregimes_lo, wregimes_hi;
    /* jobs a node and step, their typical length in steps, slow-down a load */
    double cotenant_rate, cotenant_steps, cotenant_slow;
    /* share of slow steps, mean length; factor base + Pareto(alpha) */
    double hiccup_p, hiccup_burst, hiccup_base, hiccup_alpha;
    /* every so many steps, for so many, a share of the nodes, by a factor */
    double periodic_every, periodic_for, periodic_share, periodic_factor;
    double drift_factor, drift_steps; /* the cluster, up to, over a period */
    double bimodal_p, bimodal_share, bimodal_factor; /* a share of the workers
                                                        in a step */
    double levels; /* probability of a new level of cluster and workers */
    /* telemetry: background load, the job's own load a CPU, shares of jobs
     * seen as steal and as throttling, features valid on this cluster, looks
     * that failed */
    double bgload, own_load, job_steal, job_throttle, valid, missed;
};

enum scenario_telemetry {
    SCENARIO_FEATURES, /* telemetry_names.h */
    SCENARIO_LAB3 /* the prototype's three, without names (u0, u1, u2): load
                          over 1 step, over 8 steps, a distractor */
};

size_t scenario_names(void);
const char *scenario_name(size_t i);

/* Read NAME[:key=value,…].  Errors: DSGD_E_USAGE (unknown name or key, naming
 * the valid ones; a value outside its range). */
enum dsgd_err scenario_parse(const char *text, struct scenario *s,
                             struct dsgd_error *err);

/* Domain randomisation: any mixture of effects, broader than the named ones.
 * Sets all but n, N, T and seed, which become 16, 4, 600 and 1. */
void scenario_random(struct rng *r, struct scenario *s);

/* Make the cluster's trace: the same parameters give the same bits.
 *   out  out  trace_free; node ids are block-wise; NULL on error
 * Errors: DSGD_E_RANGE, DSGD_E_NOMEM. */
enum dsgd_err scenario_make(const struct scenario *s,
                            enum scenario_telemetry telemetry,
                            struct trace **out, struct dsgd_error *err);

#endif
