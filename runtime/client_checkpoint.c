/* A worker's part in checkpoints: asking for one, giving its state for one, and
 * going on from one. */
#include <string.h>

#include "client.h"
#include "error.h"
#include "sys.h"

bool client_copy_state(const struct dsgd *d, struct state_copy *copy)
{
    size_t at = 0;

    if (state_make(d->state_bytes, copy, NULL) != DSGD_OK)
        return false;
    for (size_t i = 0; i < d->n_parts; i++) {
        memcpy(copy->data + at, d->parts[i].memory, d->parts[i].bytes);
        at += d->parts[i].bytes;
    }
    return true;
}

void client_give_checkpoint(struct dsgd *d)
{
    struct seg_header *h = d->seg.h;
    struct state_copy copy;
    uint64_t due = d->applied;

    if (d->checkpoint.fd >= 0 && !atomic_load(&h->checkpoint.step))
        state_drop(&d->checkpoint); /* the coordinator has it */
    if (!due || atomic_load(&h->checkpoint_due) != due ||
        !atomic_compare_exchange_strong(&h->checkpoint_due, &due, 0) ||
        !client_copy_state(d, &copy))
        return;
    state_announce(&h->checkpoint, &copy, d->applied);
    state_drop(&d->checkpoint);
    d->checkpoint = copy;
    sys_futex_ring(&h->agg_bell);
}

/* Whoever finds the copy gone is as one that fell behind: it is given another
 * worker's state. */
enum dsgd_err client_resume(struct dsgd *d)
{
    uint64_t step = atomic_load(&d->seg.h->resumed);
    struct state_copy copy;

    if (!step || state_open(&d->seg.h->state, SIZE_MAX, &copy, &step, NULL))
        return DSGD_OK;
    size_t bytes = copy.bytes;
    if (bytes == d->state_bytes)
        client_take_copy(d, &copy, step);
    state_drop(&copy);
    if (bytes != d->state_bytes)
        return error_set(&d->error, DSGD_E_FORMAT,
                         "the checkpoint of step %llu has a registered state "
                         "of %zu bytes, and this program registers %zu: give "
                         "it a checkpoint directory of its own",
                         (unsigned long long)step, bytes, d->state_bytes);
    d->check_due = true;
    return DSGD_OK;
}

enum dsgd_err dsgd_checkpoint(struct dsgd *d, bool end)
{
    if (!d->has_checkpoints)
        return error_set(&d->error, DSGD_E_STATE,
                         "dsgd_checkpoint: the run keeps none: name a "
                         "directory with DSGD_CHECKPOINT_DIR");
    atomic_fetch_or(&d->seg.h->request,
                    SEG_REQUEST_CHECKPOINT | (end ? SEG_REQUEST_END : 0));
    sys_futex_ring(&d->seg.h->agg_bell);
    return DSGD_OK;
}
