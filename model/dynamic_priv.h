/* What dynamic.c and dynamic_end.c share. */
#ifndef DSGD_DYNAMIC_PRIV_H
#define DSGD_DYNAMIC_PRIV_H

#include "dynamic.h"
#include "experts.h"
#include "guard.h"
#include "lambda.h"

enum worker_part {
    WORKER_ABSENT,  /* not of this step */
    WORKER_OUT,     /* left, or sits out */
    WORKER_RUNNING, /* since start_s */
    WORKER_BUSY,    /* with an older batch */
    WORKER_ARRIVED  /* at at_s */
};

struct worker {
    enum worker_part part;
    double start_s, at_s;
    double busy_s; /* how long its running batch had taken at the last close,
                       overhead included; 0: none */
    double last_s; /* last known duration, NaN */
    double
        points_s[LIVE_POINTS]; /* quantiles of the running batch's duration */
};

/* What outlives steps beside the parts' own states. */
struct dynamic_core {
    uint64_t step;
    uint64_t rows; /* whole rows seen in warm-up */
    struct lambda lambda;
    struct lambda foregone; /* what the policy would have got in warm-up */
    struct guard_carry carry;
    double lag_s;           /* running mean start lag of the busy, NaN */
    struct live_state live; /* when saved */
};

struct dynamic {
    struct dynamic_spec spec;
    struct timing *timing; /* NULL: no model */
    struct live *live;
    struct experts *experts; /* fresh starts and a guard, else NULL */
    struct guard *guard;     /* with them */
    struct guard_caution caution;
    struct dynamic_core core;
    uint32_t *node;        /* [n] */
    struct worker *worker; /* [n] */
    double *arrival_s;     /* [n] scratch: arrival of each, NaN: unknown */
    uint32_t *coming;      /* [n] scratch: who would have come, in order */
    double *sorted_s;      /* [n] scratch: the known ones, ascending */
    double *order_sum_s;   /* [n] sum of the warm-up's sorted arrivals */
    double *sample_s;      /* [SAMPLES][n] fixed rules only */
    /* of this step */
    size_t working, waiting, arrived;
    double overhead_s, lambda, last_at_s;
    bool predicted;
    size_t policy;    /* an expert, or EXPERTS: the model */
    bool cautious;    /* the model decides at a lower price, or would */
    size_t model_cut; /* of a fixed rule */
    size_t cut[EXPERTS];
    size_t would;   /* what the model's policy would have got, unguarded */
    double would_s; /* NaN: it has not closed */
    size_t careful; /* the same at the lower price */
    double careful_s;
    bool gain_due; /* the close's gain is not predicted yet */
    struct dynamic_record record;
};

/* What the model's policy says; the first yes is kept, for its score. */
bool dynamic_model_closes(struct dynamic *d, double now_s, double *next_s);

/* What the close decided on gains, as predicted then.  Left until something
 * else happens: not to be waited for before the step is closed. */
void dynamic_predict_gain(struct dynamic *d);

#endif
