/* What a record says about a run: the figures of the job step, of every node
 * and of every worker, and what to do about them. */
#ifndef DSGD_REPORT_H
#define DSGD_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "dsgd_names.h"

struct record_read;

enum report_level { REPORT_STEP, REPORT_NODE, REPORT_WORKER, REPORT_N_LEVELS };

/* The figures of a job step, a node or a worker.  NaN: not known. */
struct report_unit {
    const char *node;     /* NULL for a job step */
    const char *kernel;   /* BLAS kernel of a node, may be NULL */
    const char *state;    /* COMPLETED, INCOMPLETE, RUNNING, LOST, LEFT */
    double rank;          /* NaN unless a worker */
    double workers;       /* how many */
    uint64_t steps;       /* in which it was wanted */
    uint64_t wanted;      /* worker-steps: not lost, and with work to do */
    uint64_t contributed; /* worker-steps */
    uint64_t cut;         /* worker-steps wanted and not contributed */
    uint64_t late;        /* durations that were learned afterwards */
    uint64_t carried;     /* gradients that came into the next step's mean */
    uint64_t resyncs;
    double samples;    /* contributed */
    double waited_s;   /* others waited so long for it, see report_wait */
    double lag_mean_s; /* own start after the step's */
    double duration_mean_s, duration_p95_s;
    double cut_share;                   /* cut / wanted */
    double contrib_mean;                /* contributing workers a step */
    double unique_rate;                 /* samples per second of training */
    double telemetry[DSGD_N_TELEMETRY]; /* of a node, at launch */
    uint64_t last_step;                 /* contributed to; 0: none */
    bool is_lost, is_left, is_node_lost;
    double lag_sum_s;
    uint64_t lags; /* in that sum */
};

enum report_advice_kind {
    REPORT_SLOW_NODE,
    REPORT_SLOW_WORKER,
    REPORT_NONE_SLOW,
    REPORT_TOO_FEW,   /* too few steps to tell */
    REPORT_LEFT,      /* a worker was left behind, stuck, at the end */
    REPORT_LOST,      /* a worker or a node was lost */
    REPORT_DIFFERS,   /* replicas differ */
    REPORT_INCOMPLETE /* the record has no end, or holes */
};

struct report_advice {
    enum report_advice_kind kind;
    const char *node;               /* NULL: none */
    double rank;                    /* NaN: none */
    double ratio;                   /* of slow ones, else NaN */
    uint64_t first_step, last_step; /* where it was seen; 0: none */
    uint64_t steps, slower;         /* compared in, and slower in */
    char text[400];                 /* a sentence or two */
};

struct report {
    struct record_read *record; /* holds the strings */
    char id[128];               /* "123.0" */
    const char *job_id, *step_id, *job_name, *user, *program, *description;
    const char *cutoff, *late, *state, *version;
    uint64_t restart, n_nodes, n_tasks, min_contributors, grad_elems, n_samples,
        batch, dropped_rows;
    double start_unix_s, end_unix_s; /* the end may be that of the record */
    double elapsed_s;

    uint64_t n_steps, n_epochs;
    double step_mean_s, step_p95_s; /* from start to publication */
    double lr_scale_mean;
    double time_s; /* of training, see dsgd-report(1) */
    struct report_unit total;
    struct report_unit *node;   /* [n_nodes] */
    struct report_unit *worker; /* [n_tasks] */

    uint64_t differ_step; /* where replicas were seen to differ; 0: never */

    /* For the analysis of who is slow. */
    const uint32_t *worker_node; /* [n_tasks] */
    size_t *member;              /* [n_tasks] workers, sorted by node */
    uint64_t *step;              /* [n_steps] their numbers */
    float *duration_s; /* [n_steps][n_tasks] NaN: not known; negative: at least
                          so long */

    struct report_advice *advice;
    size_t n_advice;
};

/* Read a record and work out its figures.
 *   path        in
 *   now_unix_s  in   tells RUNNING from INCOMPLETE
 *   report      out  ends with report_destroy; NULL on error
 * The record is let go of before it returns.  Errors: those of
 * record_read_open and record_read_step. */
enum dsgd_err report_load(const char *path, double now_unix_s,
                          struct report **report, struct dsgd_error *err);
void report_destroy(struct report *report);

/* Fill report->advice, from the figures.  Errors: DSGD_E_NOMEM. */
enum dsgd_err report_advise(struct report *report, struct dsgd_error *err);

#endif
