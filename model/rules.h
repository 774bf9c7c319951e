/* The rules that turn a predictive into a cutoff, and their names.
 *
 *   paper    argmax c / E[x_(c)]            (Teng & Wood 2018, equation 1)
 *   ratio    argmax E[c / x_(c)]
 *   renewal  argmax c - lambda E[x_(c)]     (renewal reward)
 *   live     decided anew at each arrival or tick: live.h
 *
 * x_(c) is the c-th arrival, the overhead o included throughout.  The first
 * three fix c when the step starts. */
#ifndef DSGD_RULES_H
#define DSGD_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"
#include "predictive.h"

enum rule { RULE_PAPER, RULE_RATIO, RULE_RENEWAL, RULE_LIVE };

#define RULE_NAMES "paper|ratio|renewal|live"

/* Read a rule's name; NULL and "" mean live.
 *   name  in   where the text came from, for the message ("DSGD_RULE")
 *   rule  out  untouched on error
 * Errors: DSGD_E_USAGE. */
enum dsgd_err rule_parse(const char *name, const char *text, enum rule *rule,
                         struct dsgd_error *err);
const char *rule_name(enum rule rule);

/* Draw joint samples of all durations, stratified over the cluster atoms, so
 * that few samples do.
 *   seed, step  in   the same two give the same samples
 *   n_samples   in   >= 1
 *   x_s         out  [n_samples][n] seconds
 * Local, no allocation. */
void rule_sample(const struct predictive *p, uint64_t seed, uint64_t step,
                 size_t n_samples, double *x_s);

/* Sort each row of samples [n_samples][n], ascending.  False: some sample is
 * not a positive number. */
bool rule_sort(size_t n, size_t n_samples, double *x_s);

/* The cutoff that a rule gives, from sorted samples of the arrival times.
 *   rule        in   not RULE_LIVE
 *   x_s         in   [n_samples][n] seconds, rows ascending (one row: expected
 *                    order statistics)
 *   overhead_s  in   o >= 0
 *   lambda      in   contributors a second, for RULE_RENEWAL
 *   c           out  1..n, the larger one of equals; untouched on error
 * Local, no allocation.  Errors: DSGD_E_RANGE (n or n_samples < 1, NaN, a time
 * <= 0; RULE_LIVE). */
enum dsgd_err rule_pick(enum rule rule, size_t n, size_t n_samples,
                        const double *x_s, double overhead_s, double lambda,
                        size_t *c, struct dsgd_error *err);

#endif
