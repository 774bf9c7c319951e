/* A node's aggregator: a thread that carries events, sums and means between the
 * node's segment and the coordinator, and on node 0 the coordinator too. */
#ifndef DSGD_AGGREGATOR_H
#define DSGD_AGGREGATOR_H

#include "checkpoint_store.h"
#include "coordinator.h"
#include "node.h"
#include "transport.h"

struct aggregator;

struct aggregator_config {
    const struct segment *seg;
    uint32_t node_index, n_nodes;
    struct transport *transport;      /* NULL when there is one node; owned */
    struct timing_model *model;       /* the coordinator's, or NULL; owned */
    struct coordinator_config *coord; /* node 0: NULL elsewhere; its node,
                                         transport and clock are filled in */
};

/* Errors: DSGD_E_NOMEM, those of coordinator_create. */
enum dsgd_err aggregator_create(struct aggregator_config *config,
                                struct aggregator **a, struct dsgd_error *err);

/* Give the coordinator a record to keep, or NULL; before the start. */
void aggregator_record(struct aggregator *a, struct record *record);

/* Have the coordinator do what a record says, which is taken over; before the
 * start. */
void aggregator_replay(struct aggregator *a, struct record_replay *replay);

/* Keep checkpoints in store, which is taken over, and go on from c; both may be
 * NULL.  The coordinator's, before the start.
 *   state  in  the aggregator of any node: the registered state after step,
 *              which is taken over */
enum dsgd_err aggregator_checkpoints(struct aggregator *a,
                                     struct checkpoint_store *store,
                                     const struct checkpoint_read *c,
                                     struct dsgd_error *err);
void aggregator_resume(struct aggregator *a, struct state_copy *state,
                       uint64_t step, uint64_t run_samples, double run_s);

/* Start the thread.  Until then the coordinator can still be given up by
 * aggregator_destroy.  Errors: DSGD_E_NOMEM. */
enum dsgd_err aggregator_start(struct aggregator *a, struct dsgd_error *err);

/* A worker whose process carries the aggregator, and waits, does the aggregator's
 * work itself: on the way from the last gradient to the mean nobody waits then for
 * a thread that must be given a core.  The worker's thread alone; it must not have
 * a mean pinned.
 *
 * aggregator_let_drive says, before the start, that there is such a worker.
 *
 * aggregator_drive works until *bell differs from seen, for 50 us at most; returns
 * whether it does.  Where the work is not for workers it is sys_futex_spin.
 *
 * Between aggregator_enter and aggregator_leave the worker posts an event, for
 * which there must be room (segment_has_room); the latter does what is to be done
 * about it.  With false the thread does that: post it all the same.
 *   computes  in  the worker commits next: others' commits wait for that where a
 *                 step needs all of them */
void aggregator_let_drive(struct aggregator *a);
bool aggregator_drive(struct aggregator *a, const _Atomic uint32_t *bell,
                      uint32_t seen);
bool aggregator_enter(struct aggregator *a);
void aggregator_leave(struct aggregator *a, bool computes);

/* Wait for the end of the run, as this node sees it.  Safe to call from the
 * main thread or the helper thread, once. */
void aggregator_join(struct aggregator *a);
void aggregator_destroy(struct aggregator *a); /* NULL is fine */

#endif
