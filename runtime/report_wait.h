/* Whom a step waited for. */
#ifndef DSGD_REPORT_WAIT_H
#define DSGD_REPORT_WAIT_H

#include <stdbool.h>
#include <stddef.h>

/* Charge the wait of one step to the workers that caused it.  From the moment
 * when the lower half of the contributors has arrived, every moment is divided
 * equally among those that have not.  The charges add up to the wait, and
 * equally slow workers share it (the Shapley value of the latest arrival;
 * Littlechild and Owen 1973).
 *   n          in      workers
 *   arrival_s  in      [n] since the step's start; NaN: not a contributor
 *   vain       in      [n] waited for until the close, in vain; NULL: none
 *   close_s    in      when the wait ended, for those
 *   order      scratch [n]
 *   waited_s   in out  [n] added to
 * Local, no allocation. */
void report_wait(size_t n, const double *arrival_s, const bool *vain,
                 double close_s, size_t *order, double *waited_s);

#endif
