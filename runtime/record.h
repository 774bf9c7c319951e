/* The record of a run: one SQLite database a job step.  The schema is in
 * dsgd-formats(5).
 *
 * Written by the coordinator alone.  The coordinator's thread only copies rows
 * into a bounded queue; a thread of the record writes them in batches, so that
 * a reader's lock or a full disk delays or stops the record, never the run. */
#ifndef DSGD_RECORD_H
#define DSGD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "dsgd_names.h"

struct record;

/* Facts about the run.  Strings are copied; NULL means unknown. */
struct record_job {
    const char *job_id;  /* "123", or "mpirun-<pid>" without Slurm */
    const char *step_id; /* "0" */
    uint32_t restart;    /* SLURM_RESTART_COUNT */
    const char *job_name;
    const char *user;
    const char *program;
    const char *description;
    const char *cutoff; /* as given */
    const char *late;   /* requeue | drop | carry */
    size_t min_contributors;
    uint64_t grad_elems;
    uint64_t n_samples;
    uint64_t batch;
    double start_unix_s; /* when the run was opened */
    uint32_t n_workers;
    uint32_t n_nodes;
    const char *const *node_name;   /* [n_nodes] */
    const char *const *node_kernel; /* [n_nodes] BLAS kernel of the node */
    const uint32_t *worker_node;    /* [n_workers] node index of a worker */
    /* Telemetry at launch, [n_nodes][DSGD_N_TELEMETRY]; NaN: not valid. */
    const float *telemetry;
    /* Other options, as given or by default; not read back. */
    const struct record_setting *setting; /* [n_settings] */
    size_t n_settings;
    uint64_t resumed_step;    /* the run goes on after it; 0: from its start */
    const char *resumed_from; /* job.step.restart that wrote the checkpoint */
};

struct record_setting {
    const char *name;
    char value[32];
};

/* One published step.  Arrays are [n_workers]. */
struct record_step {
    uint64_t step;  /* from 1 */
    uint64_t epoch; /* from 0 */
    uint32_t attempt;
    uint32_t target;       /* contributors that the rule wanted; 0: all */
    uint32_t contributors; /* bits set in mask */
    uint32_t alive;        /* workers not lost and not departed */
    bool epoch_end;
    uint64_t samples; /* contributed */
    double start_s;   /* since the run's first step started, pauses at step
                         boundaries included */
    double close_s;   /* from the step's start to the decision to close */
    double publish_s; /* from the step's start to the published mean */
    double lr_scale;
    const uint8_t *mask;     /* 1: contributed */
    const float *duration_s; /* own duration; NaN: not known when published */
    const float *lag_s;      /* own start after the step's; NaN: not begun */
    const uint64_t *first;   /* range assigned */
    const uint32_t *count;   /* its length; 0: none */
};

/* Samples in a step's mean of which mask and ranges do not tell: fewer (or,
 * without ranges, more) than a contributor was given, when from == step; or a
 * carried gradient of step from == step - 1.  With shared work: parts that the
 * worker added one after the other, of samples that follow each other. */
struct record_contribution {
    uint64_t step, from;
    uint32_t worker;
    uint64_t first, samples;
    uint32_t nth;  /* the row's place among its worker's in the step, from 0 */
    uint32_t part; /* samples of each part but for the last, which may have
                      fewer; 0: no shared work */
};

/* What became known of a cut worker after its step was published. */
struct record_late {
    uint64_t step;
    uint32_t worker;
    float duration_s; /* own duration of the whole batch; estimated when
                         fraction < 1 */
    float lag_s;
    float fraction; /* of the batch processed: 1 all, less: abandoned */
};

/* What the timing model decided in a step, and what that was worth. */
struct record_decision {
    uint64_t step;
    char policy[16];  /* who decided: warm-up, live, a guard's policy */
    double planned_s; /* the close as planned before the first arrival */
    double expected;  /* contributors expected at it */
    double would_s;   /* when the step was, or (dry) would have been closed */
    uint32_t would;   /* with so many contributors */
    double predicted_gain; /* throughput over that of waiting for all, less 1 */
    double realised_gain;
    double lambda;    /* contributors a second, running */
    double hidden_us; /* predicting and observing, beside the compute */
    double tick_us;   /* the longest re-decision of the step */
};

/* A node's load at a step's start; [DSGD_N_TELEMETRY], NaN: not valid. */
struct record_telemetry {
    uint64_t step;
    uint32_t node;
    float value[DSGD_N_TELEMETRY];
};

enum record_event_kind {
    RECORD_EVENT_NOTE = 0,
    RECORD_EVENT_LOST = 1,      /* no sign of life for one hard timeout */
    RECORD_EVENT_BACK = 2,      /* a lost worker was heard of again */
    RECORD_EVENT_RESYNC = 3,    /* a worker's state was overwritten */
    RECORD_EVENT_CHECKSUM = 4,  /* a replica's checksum differs */
    RECORD_EVENT_LEFT = 5,      /* left behind, stuck, at the end of the run */
    RECORD_EVENT_NODE_LOST = 6, /* a node did not deliver in time */
    RECORD_EVENT_NODE_BACK = 7,
    RECORD_EVENT_SAVED = 8,    /* a checkpoint is complete: its path */
    RECORD_EVENT_PREEMPTED = 9 /* the run was ended early, at a checkpoint */
};
struct record_event {
    enum record_event_kind kind;
    uint64_t step;
    int32_t worker; /* -1: none */
    int32_t node;   /* -1: none */
    double at_s;    /* since the run's first step started */
    char text[128];
};

/* Create a record, replacing nothing: a file that exists is an error.  While it
 * is open a status file for live views lies beside it.
 *   path  in   parent directories are not created
 *   job   in   copied
 *   r     out  NULL on error
 * Starts a thread.  Errors: DSGD_E_IO (the text names the path and reason),
 * DSGD_E_NOMEM. */
enum dsgd_err record_create(const char *path, const struct record_job *job,
                            struct record **r, struct dsgd_error *err);

/* Queue a row.  Copies, never blocks on the disk.  When the queue is full the
 * row is dropped and counted.  Safe from one thread.  r == NULL: no effect. */
void record_put_step(struct record *r, const struct record_step *step);
void record_put_contribution(struct record *r,
                             const struct record_contribution *row);
void record_put_late(struct record *r, const struct record_late *late);
void record_put_event(struct record *r, const struct record_event *event);
void record_put_decision(struct record *r, const struct record_decision *d);
void record_put_telemetry(struct record *r, const struct record_telemetry *t);
/* Replica checksums at a boundary: worker w holds value after step. */
void record_put_checksum(struct record *r, uint64_t step, uint32_t worker,
                         uint64_t value);

/* How far the queue has come, and whether all up to there is stored.  Asking
 * makes the writer hurry.  r == NULL, or a record that has stopped: stored. */
uint64_t record_mark(struct record *r);
bool record_stored(const struct record *r, uint64_t mark);

/* Why the record has stopped or is behind, once per cause: fills text and
 * returns true when there is something new to warn of.  Any thread. */
bool record_warning(struct record *r, struct dsgd_error *text);

/* Write what is queued and the end facts, wait up to timeout_s for it, and
 * free.  r == NULL is fine.
 *   completed  in  the run came to its end (as opposed to being broken off)
 *   end_s      in  since the run's first step started
 * Errors: DSGD_E_TIMEOUT, DSGD_E_IO: the record is incomplete, and says so. */
enum dsgd_err record_close(struct record *r, bool completed, double end_s,
                           double timeout_s, struct dsgd_error *err);

#endif
