/* What a handle knows of its run. */
#include "client.h"

uint32_t dsgd_rank(const struct dsgd *d)
{
    return d->rank;
}

uint32_t dsgd_size(const struct dsgd *d)
{
    return d->size;
}

uint32_t dsgd_nodes(const struct dsgd *d)
{
    return d->nodes;
}

void dsgd_progress(const struct dsgd *d, struct dsgd_progress *progress)
{
    const struct seg_header *h = d->seg.h;
    progress->preempted = atomic_load(&h->preempted);
    progress->steps = atomic_load(&h->progress_steps);
    progress->unique_samples = atomic_load(&h->progress_samples);
    progress->elapsed_s = (double)atomic_load(&h->progress_ns) * 1e-9;
}

const char *dsgd_error_text(const struct dsgd *d)
{
    return d->error.text;
}
