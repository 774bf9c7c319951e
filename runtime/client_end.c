/* How a worker's process learns that the run is over. */
#include <unistd.h>

#include "client.h"
#include "error.h"
#include "sys.h"

/* The end of a run has been seen: from here on this process ends by itself.
 * Unless its helper was first: then it is as good as gone. */
void client_answer_end(struct dsgd *d)
{
    uint32_t none = SEG_EXIT_NONE;
    if (client_is_worker(d) &&
        !atomic_compare_exchange_strong(&client_self(d)->exit, &none,
                                        SEG_EXIT_OWN) &&
        none == SEG_EXIT_REAPED)
        for (;;)
            pause();
}

/* This worker lacks means of a run that has ended, which do not come any more:
 * what it has is no replica.  Its process is ended for it. */
static void wait_for_end(struct dsgd *d)
{
    uint32_t none = SEG_EXIT_NONE;

    atomic_compare_exchange_strong(&client_self(d)->exit, &none,
                                   SEG_EXIT_BEHIND);
    sys_futex_ring(&d->seg.h->agg_bell);
    for (;;)
        pause();
}

static enum dsgd_err end_run(struct dsgd *d)
{
    bool lacks =
        client_is_worker(d) && d->applied < atomic_load(&d->seg.h->last);

    if (lacks && !d->replaces)
        wait_for_end(d);
    client_answer_end(d);
    if (!lacks)
        return DSGD_END;
    return error_set(&d->error, DSGD_E_STATE,
                     "the run ended before worker %u, which took the place of "
                     "one that had died, was given its state",
                     d->rank);
}

/* DSGD_OK while the run goes on.  A run ends after its last mean was published:
 * whoever saw it running before it looked for means may have missed some. */
enum dsgd_err client_check_run(struct dsgd *d)
{
    switch (atomic_load(&d->seg.h->run)) {
    case SEG_RUNNING:
        return DSGD_OK;
    case SEG_BROKEN:
        client_answer_end(d);
        return error_set(&d->error, DSGD_E_MPI, "the run broke off: %s",
                         d->seg.h->broken);
    default:
        return end_run(d);
    }
}
