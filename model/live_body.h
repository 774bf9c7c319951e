/* What live.c and live_query.c share. */
#ifndef DSGD_LIVE_BODY_H
#define DSGD_LIVE_BODY_H

#include "live.h"
#include "live_early.h"
#include "live_outlook.h"
#include "live_table.h"

/* Up to so many workers decide at each arrival too; more do at ticks and at
 * what a plan waits for, an arrival or a time between ticks. */
enum { LIVE_SMALL_N = 64 };

enum part {
    RUNNING, /* at work since start_s */
    LATER,   /* not free yet: start_s is a guess */
    ARRIVED,
    OUT
};

struct live {
    struct live_table table;
    struct live_early early;
    size_t n, n_nodes;
    double min_share;
    size_t min_count;
    enum live_late mode;
    bool planned;         /* there is a predictive */
    size_t *first;        /* [n_nodes + 1] first worker of each node */
    uint8_t *part;        /* [n] enum part */
    double *start_s;      /* [n] */
    double *median_s;     /* [n] of those LATER, else unset */
    double *density;      /* [n_nodes][LIVE_LANES] log density of the arrived */
    float *evidence;      /* [n_nodes][LIVE_LANES] log joint, lanes of a node */
    float *posterior;     /* [n_nodes][LIVE_LANES] p(g, m | so far) */
    float *column;        /* [n][LIVE_LANES] survivals now */
    uint32_t *listed;     /* workers that a look adds up, node by node: those
                         expected yet, or what differs from the early sums */
    size_t *listed_first; /* [n_nodes + 1] where each node's begin */
    uint8_t *summed;      /* [n_nodes] the early sums are taken */
    float *late;          /* [BLOCKS][COLS][WIDE] late workers at later ticks */
    float *sum;           /* [COLS][LIVE_LANES] the same */
    size_t arrived, waiting; /* waiting: RUNNING or LATER */
    size_t next;             /* the tick to decide at next */
    size_t col;              /* the tick last decided at */
    size_t counts;           /* arrivals ahead that plans are made for; 0: for
                                ticks alone, as the modelling prototype did */
    bool now_is_tick;        /* the last look was at one */
    bool decided; /* there is a decision in this step, and posterior holds */
    struct live_outlook outlook; /* of the last one, */
    double price;                /* made for this lambda */
    size_t ask_at;               /* arrivals at which its plan closes, */
    double ask_s;                /* or when, between ticks; INFINITY */
    double quiet_s;              /* no tick before this is looked at */
    double planned_s, expected, elapsed_s;
    double close_s; /* running close */
    struct live_pace pace;
    double faster;               /* what it was when the step began */
    struct live_paced step_pace; /* of this step */
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

/* Condition on what is known at now_s, and expect: fills posterior, column and
 * outlook, with the ticks that may matter to lambda. */
void live_look(struct live *l, double now_s, double lambda);

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
