/* The simple policies beside the timing model: what each would wait for in the
 * coming step, were every worker to start fresh.
 *
 *   full      all
 *   last      argmax c / x_(c) of the last step
 *   roll10    argmax c / mean x_(c) over the last 10 steps; roll20
 *   ewma      renewal rule on the moving averages of ewma.h; ewma-ratio
 *   order     Elfving's formula on the logs of the last 20 steps
 *   50% …     static shares of the workers */
#ifndef DSGD_EXPERTS_H
#define DSGD_EXPERTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"

enum {
    EXPERT_FULL,
    EXPERT_LAST,
    EXPERT_ROLL10,
    EXPERT_ROLL20,
    EXPERT_EWMA,
    EXPERT_EWMA_RATIO,
    EXPERT_ORDER,
    EXPERT_STATIC, /* the first of ten */
    EXPERTS = EXPERT_STATIC + 10
};

struct experts;

/* Errors: DSGD_E_NOMEM, DSGD_E_RANGE (n < 1). */
enum dsgd_err experts_create(size_t n, struct experts **e,
                             struct dsgd_error *err);
void experts_free(struct experts *e);

const char *experts_name(size_t expert);

/* The coming step's cutoffs.
 *   lambda  in   contributors a second, not NaN after the first step
 *   cut     out  [EXPERTS] 1..n */
void experts_begin(struct experts *e, double overhead_s, double lambda,
                   size_t *cut);

/* The step is over.
 *   sorted_s  in  [n] arrival times of all, ascending, the unknown estimated
 *   log_s, status  in  as in timing_observe */
void experts_end(struct experts *e, const double *sorted_s, const float *log_s,
                 const uint8_t *status);

#endif
