/* The drop-in for MPI_Allreduce: a step and its mean in one call. */
#include <string.h>

#include "client.h"
#include "error.h"

enum dsgd_err dsgd_allreduce(struct dsgd *d, float *grad, size_t n,
                             uint64_t samples)
{
    struct dsgd_step step;
    struct dsgd_mean mean;
    enum dsgd_err rc = DSGD_OK;

    if (d->sampler != DSGD_SAMPLER_NONE)
        return error_set(&d->error, DSGD_E_STATE,
                         "dsgd_allreduce: needs DSGD_SAMPLER_NONE");
    do {
        rc = DSGD_OK;
        if (d->applied >= d->reduced) { /* not taking means that were missed */
            rc = dsgd_step_begin(d, &step);
            if (rc == DSGD_OK)
                rc = dsgd_reduce(d, grad, n, d->stale ? 0 : samples);
        }
        if (rc == DSGD_OK)
            rc = dsgd_next_mean(d, &mean);
    } while (rc == DSGD_UP_TO_DATE); /* a step without contributors */
    if (rc != DSGD_OK)
        return rc;
    memcpy(grad, mean.grad, n * sizeof *grad);
    if (atomic_load(&d->seg.h->published) <= d->applied)
        return DSGD_OK;
    d->reduced = d->applied + 1;
    return DSGD_BEHIND;
}
