/* Run a policy in parts on a trace: a batch is deposited part by part, and a
 * step takes what is deposited at its close.
 *
 *   parts-own     each worker computes its own batch, in equal parts; the
 *                 timing model, live stopping and the guard see n times so many
 *                 arrivals
 *   parts-shared  parts of n batches are claimed one at a time by whoever is
 *                 free; the step closes when the n batches are in, whoever
 *                 computed them
 *   parts-last    the same, but that no part is begun that is not expected to be
 *                 in by then, at the rates that workers have shown themselves
 *                 (shares.h, by_last); under LIVE_FRESH, where beginning one
 *                 costs nothing, parts-shared
 *   parts-model   parts-shared with claims sized by the timing model (shares.h),
 *                 of which none is begun that is not expected to be in
 *
 * Claims go on until the batch is full, or a late one is given up by and by, so
 * that nobody waits for a straggler; what is in hand at the close is thrown
 * away, or with carry_parts, of parts-shared, counts in the next step, if it is
 * finished by then.  When a worker then
 * starts the next step: under LIVE_FRESH at once, under LIVE_BUSY when it has
 * finished what it has in hand, under LIVE_POLL at the next of the
 * micro-batches of that.  A worker's rate in a step is that of its row in the
 * trace, for all parts that it begins in that step. */
#ifndef DSGD_SIMULATE_PARTS_H
#define DSGD_SIMULATE_PARTS_H

#include "simulate.h"

/* spec->parts and part_cost_s count here.
 *   kind    in   one of those
 *   setup   in   as of policy_create
 *   result  out  simulate_result_free
 * Errors: those of simulate_run, shares_create and dynamic_create. */
enum dsgd_err simulate_parts(const struct simulate_spec *spec,
                             enum policy_kind kind,
                             const struct policy_setup *setup,
                             struct simulate_result *result,
                             struct dsgd_error *err);

/* Units of parts-model in a part. */
enum { PART_UNITS = 8 };

#endif
