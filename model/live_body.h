/* What live.c and live_query.c share. */
#ifndef DSGD_LIVE_BODY_H
#define DSGD_LIVE_BODY_H

#include "live.h"
#include "live_outlook.h"
#include "live_table.h"

enum part {
    RUNNING, /* at work since start_s */
    LATER,   /* not free yet: start_s is a guess */
    ARRIVED,
    OUT
};

struct live {
    struct live_table table;
    size_t n, n_nodes;
    double min_share;
    size_t min_count;
    enum live_late mode;
    bool planned;     /* there is a predictive */
    size_t *first;    /* [n_nodes + 1] first worker of each node */
    uint8_t *part;    /* [n] enum part */
    double *start_s;  /* [n] */
    double *median_s; /* [n] of those LATER, else unset */
    double *density;  /* [n_nodes][LIVE_LANES] log density of the arrived */
    float *evidence;  /* [n_nodes][LIVE_LANES] log joint, lanes of a node */
    float *posterior; /* [n_nodes][LIVE_LANES] p(g, m | so far) */
    float *column;    /* [n][LIVE_LANES] survivals now */
    float *late;      /* [BLOCKS][COLS][WIDE] late workers at later ticks */
    float *sum;       /* [COLS][LIVE_LANES] the same */
    size_t arrived, waiting; /* waiting: RUNNING or LATER */
    size_t next;             /* the tick to decide at next */
    size_t col;              /* the tick last decided at */
    size_t counts;           /* arrivals ahead that plans are made for */
    bool decided; /* there is a decision in this step, and posterior holds */
    struct live_outlook outlook; /* of the last one */
    size_t ask_at;               /* arrivals at which its plan closes */
    double quiet_s;              /* no tick before this is looked at */
    double planned_s, expected, elapsed_s;
    double close_s; /* running close */
};

/* A worker that starts at at_s comes too late for the planned close, and would
 * be late again after it. */
static inline bool live_sits_out(const struct live *l, size_t worker,
                                 double at_s)
{
    return at_s > live_latest_start_s(l, worker);
}

/* One that is expected to come yet. */
static inline bool live_is_late(const struct live *l, size_t j)
{
    return l->part[j] == RUNNING ||
           (l->part[j] == LATER && !live_sits_out(l, j, l->start_s[j]));
}

/* Posterior probability of a block of lanes that is taken for none. */
#define LIVE_NEGLIGIBLE 1e-7f

/* A block of lanes at a node that is worth reading: what all its lanes together
 * could add of a worker is lost in the rounding of the sum otherwise. */
static inline bool live_matters(const float *posterior)
{
    float sum = 0;

    for (size_t i = 0; i < LIVE_WIDE; i++)
        sum += posterior[i];
    return !(sum < LIVE_NEGLIGIBLE);
}

#endif
