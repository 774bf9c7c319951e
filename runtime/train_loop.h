/* The training loop: gradients in, means out, tests between epochs. */
#ifndef DSGD_TRAIN_LOOP_H
#define DSGD_TRAIN_LOOP_H

#include <stdbool.h>

#include "dsgd.h"
#include "train_data.h"
#include "train_net.h"
#include "train_options.h"
#include "train_report.h"

struct train_job {
    const struct train_options *opt;
    struct train_schedule_spec schedule;
    struct train_data data;
    struct train_net *net;
    uint8_t *labels; /* [train_net_capacity], of the images in its input */
    /* The replicated state. */
    float *params, *velocity; /* [train_net_params] */
    struct train_counters counters;
    bool in_parts; /* steps are computed and given part by part */
    size_t micro;  /* samples of a micro-batch */
    float *grad;   /* [train_net_params + 1] of a part, and its loss */
};

/* Read the data, build the model and draw its parameters.
 *   opt        in   kept, must outlive the job
 *   with_test  in   this worker tests the model
 *   job        out  frees with train_job_free, also after an error
 * Local.  Errors: those of train_data_read and train_net_create. */
enum dsgd_err train_job_prepare(const struct train_options *opt, bool with_test,
                                struct train_job *job, struct dsgd_error *err);
void train_job_free(struct train_job *job);

/* Fill in what the run is: sizes, limits, description.
 *   run  in out  from dsgd_options_init */
void train_job_options(struct train_job *job, struct dsgd_options *run);

/* Train until the run is over.
 *   report      in   NULL: this worker reports and tests nothing
 *   everywhere  out  an error that every worker finds at the same step, so that
 *                    one line will do and the run can be left in order
 * Blocks.  Errors: DSGD_E_NUMERIC (the loss is not a number), and what dsgd_*
 * return. */
enum dsgd_err train_run(struct dsgd *d, struct train_job *job,
                        struct train_report *report, bool *everywhere,
                        struct dsgd_error *err);

/* A hash of the parameters, FNV-1a of 64 bits over their bytes. */
uint64_t train_checksum(const float *params, size_t n);

#endif
