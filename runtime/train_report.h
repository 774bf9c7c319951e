/* What a training run tells: progress, a line an epoch, a CSV line a step and a
 * JSON summary.  One worker has a report, the others pass NULL, which every
 * function here takes for "say nothing". */
#ifndef DSGD_TRAIN_REPORT_H
#define DSGD_TRAIN_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "dsgd.h"
#include "train_optim.h"
#include "train_options.h"

struct train_report;

/* Facts of a run that only its end knows. */
struct train_facts {
    const char *cutoff;
    size_t parameters;
    uint32_t workers, nodes;
    const char *blas_kernel;
    unsigned blas_threads;
    uint64_t checksum; /* of the parameters */
};

/* Open the files that opt asks for, so that one that can't be written is known
 * before the training and not after it.
 *   opt       in   kept, must outlive the report
 *   schedule  in   copied
 *   report    out  NULL on error; ends with train_report_close
 * Errors: DSGD_E_IO (the text names the option and the file), DSGD_E_NOMEM. */
enum dsgd_err train_report_open(const struct train_options *opt,
                                const struct train_schedule_spec *schedule,
                                struct train_report **report,
                                struct dsgd_error *err);

/* The run goes on from a checkpoint, with so much done. */
void train_report_resume(struct train_report *report,
                         const struct dsgd_progress *progress);

/* A mean was applied.
 *   counters  in  with this mean counted
 *   loss      in  mean training loss over the contributing samples
 *   workers   in  of the run
 *   progress  in  from dsgd_progress
 *   now_s     in  a monotonic clock */
void train_report_step(struct train_report *report,
                       const struct dsgd_mean *mean,
                       const struct train_counters *counters, double loss,
                       uint32_t workers, const struct dsgd_progress *progress,
                       double now_s);

/* The model was tested, at the end of an epoch or of the run. */
struct train_test {
    double accuracy; /* 0..1 */
    double loss;     /* mean */
    double time_s;
};
void train_report_test(struct train_report *report, uint64_t epoch,
                       const struct train_test *test,
                       const struct dsgd_progress *progress);

/* Write the summary, close the files and free.
 *   facts  in  NULL: the run broke off, write no summary
 * Errors: DSGD_E_IO (a file could not be written, the text names it). */
enum dsgd_err train_report_close(struct train_report *report,
                                 const struct train_facts *facts,
                                 struct dsgd_error *err);

#endif
