/* Inside shares.c and the files that begin with its name. */
#ifndef DSGD_SHARES_PRIV_H
#define DSGD_SHARES_PRIV_H

#include "live_table.h"
#include "shares.h"

enum { POINTS = 16 /* quantiles of a duration */ };

/* The plan's accuracy, relative. */
#define ACCURACY 1e-3

enum state {
    GONE,
    LAGGING, /* with an older claim, expected to be free at start_s */
    FREE,
    RUNNING /* k units since start_s */
};

struct share {
    enum state state;
    double start_s;
    double unit_s; /* known in this step, or by_last before; NaN: not */
    double work_s; /* that units took in this step */
    size_t units;
    size_t k;
    size_t first;  /* of the points, those not outrun */
    bool given;    /* a claim of this step */
    double chance; /* of its claim to be in by the close, by the plan */
};

struct shares {
    struct shares_spec spec;
    struct share *share; /* [n] */
    double *point_s;     /* [n][POINTS] ascending; by_last: none */
    double *speed; /* [n][POINTS + 1] sums of the first so many 1 / point_s */
    double level[POINTS]; /* the points' quantiles, as those of a normal */
    struct live_table table;
    bool has_table, predicted;
    double take;    /* share of what fits */
    double close_s; /* planned */
    double now_s;
    double variance; /* of the log of a rate, from claim to claim */
    double margin;   /* by_last: a part takes so much more or less, of itself */
    size_t nominal, deposited;
    double reserved; /* units that running claims are expected to bring */
    size_t events;   /* since the plan was made */
};

/* shares_points.c: the points of a worker's predicted duration. */
void shares_find_points(struct shares *s, size_t worker);

/* shares_plan.c */

/* When a claim ends at so much a unit; with the known rate. */
double shares_end_s(const struct shares *s, const struct share *w,
                    double unit_s);
double shares_known_end_s(const struct shares *s, const struct share *w);

double shares_whole_units(double seconds, double unit_s);

/* Units that are expected to be in by then. */
double shares_expected_by(const struct shares *s, double by_s);

/* Of the durations predicted for a running claim, those that it has outrun. */
void shares_outrun(const struct shares *s, size_t worker);

/* That a running claim is in by the close: where rates are only predicted, 1 if
 * that is more likely than not. */
double shares_chance(const struct shares *s, size_t worker);

/* The plan as of s->now_s; whether it is older than it may be. */
void shares_make_plan(struct shares *s);
bool shares_is_stale(const struct shares *s);

#endif
