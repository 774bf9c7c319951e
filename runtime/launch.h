/* What a run knows of the job it belongs to, and the record that it opens. */
#ifndef DSGD_LAUNCH_H
#define DSGD_LAUNCH_H

#include "checkpoint_file.h"
#include "cutoff.h"
#include "dsgd.h"
#include "dsgd_names.h"
#include "record.h"
#include "record_replay.h"
#include "timing.h"

/* A node's facts, as its first rank knows them; passed around as bytes. */
struct launch_node {
    char name[64];
    char kernel[64]; /* of the BLAS library, or the processor's name */
    float telemetry[DSGD_N_TELEMETRY]; /* NaN: not valid */
};

/* Fill in this node's facts; telemetry from DSGD_LAUNCH_TELEMETRY. */
void launch_this_node(struct launch_node *node);

/* The BLAS kernel that this process computes with, or the processor's name. */
void launch_kernel(char *out, size_t size);

/* Read a DSGD_LAUNCH_TELEMETRY text; unknown or malformed fields are skipped.
 *   out  [DSGD_N_TELEMETRY]  NaN where nothing valid was found */
void launch_telemetry(const char *text, float *out);

/* What this run is called, as its record: job.step.restart. */
void launch_run_name(char *out, size_t size);

/* Check what does not depend on the number of workers.
 *   spec  out
 * Errors: DSGD_E_USAGE. */
enum dsgd_err launch_check(const struct dsgd_options *opt,
                           struct cutoff_spec *spec, struct dsgd_error *err);

/* Parts of a worker's batch. */
size_t launch_parts(const struct dsgd_options *opt);

/* What workers have deposited of their own shares counts when the step is
 * closed.  Not in a replay, which waits for it; nor where late gradients are
 * carried, whole. */
bool launch_deposits(const struct dsgd_options *opt);

/* Gradients that a worker's slot must hold: two where late ones are carried, or
 * work is shared, or given in parts. */
uint32_t launch_slot_bufs(const struct dsgd_options *opt);

/* Samples of a part of a worker's batch, >= 1. */
/* A worker keeps parts that were late for their step. */
bool launch_keeps_parts(const struct dsgd_options *opt);

uint64_t launch_part(const struct dsgd_options *opt);

/* What must not differ between the workers of a run.
 *   who  in  whose opt `first` is
 * Errors: DSGD_E_USAGE. */
enum dsgd_err launch_same_sizes(const struct dsgd_options *own,
                                const struct dsgd_options *first,
                                const char *who, struct dsgd_error *err);

/* Load the timing model that a dynamic or dry cutoff needs: opt->model, or the
 * installed one.
 *   m  out  NULL when none is needed
 * Errors: DSGD_E_NOMODEL (none is installed), those of timing_model_load. */
enum dsgd_err launch_model(const struct dsgd_options *opt,
                           const struct cutoff_spec *spec,
                           struct timing_model **m, struct dsgd_error *err);

/* Open the record that opt asks for, in the coordinator's process.
 *   worker_node  [n_workers]
 *   nodes        [n_nodes]
 *   resumed      the checkpoint that the run goes on from; NULL: none
 * Returns NULL when none is wanted, and when it can't be opened: that is a
 * warning (opt->warn), for the run goes on without it. */
struct record *launch_record(const struct dsgd_options *opt, uint32_t n_workers,
                             uint32_t n_nodes, const uint32_t *worker_node,
                             const struct launch_node *nodes,
                             const struct checkpoint_facts *resumed);

/* With a cutoff of replay:FILE, open that record for the coordinator.
 *   r  out  NULL when the cutoff is another
 * Errors: those of record_replay_open. */
enum dsgd_err launch_replay(const struct dsgd_options *opt,
                            const struct cutoff_spec *spec, uint32_t n_workers,
                            uint32_t n_nodes, const uint32_t *worker_node,
                            const struct launch_node *nodes,
                            struct record_replay **r, struct dsgd_error *err);

/* Warn of nodes whose arithmetic may differ: replicas would drift apart. */
void launch_compare_kernels(const struct dsgd_options *opt, uint32_t n_nodes,
                            const struct launch_node *nodes);

#endif
