/* The deciding half of the synchronous parameter server: opens and closes
 * steps, hands out samples, publishes means, keeps the record.  Runs in the
 * aggregator thread of rank 0, or in that rank's own, one at a time; nothing
 * here blocks, but the flush of the record at the end. */
#ifndef DSGD_COORDINATOR_H
#define DSGD_COORDINATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "cutoff.h"
#include "dsgd.h"
#include "exchange.h"
#include "node.h"
#include "record.h"
#include "record_replay.h"
#include "sys.h"
#include "transport.h"

struct coordinator;
struct timing_model;

struct coordinator_config {
    const struct dsgd_options *opt;
    const struct cutoff_spec *cutoff;
    uint32_t n_workers, n_nodes;
    const uint32_t *worker_node; /* [n_workers]; node 0 is the coordinator's */
    const struct timing_model *model; /* for dynamic and dry; else NULL */
    struct node *node;                /* node 0 */
    struct transport *transport;      /* NULL when there is one node */
    struct exchange *exchange;        /* NULL when there is one node */
    struct own_clock *clock;          /* the aggregator's */
};

/* Arrays of the configuration are copied, pointers to objects are kept.
 * Errors: those of cutoff_create and sampler_create, DSGD_E_NOMEM. */
enum dsgd_err coordinator_create(const struct coordinator_config *config,
                                 struct coordinator **c,
                                 struct dsgd_error *err);
void coordinator_destroy(struct coordinator *c);

/* Keep a record, or NULL; before the first tick.  The coordinator closes it. */
void coordinator_record(struct coordinator *c, struct record *record);

/* Do what a record says, which is taken over; before the first tick. */
void coordinator_replay(struct coordinator *c, struct record_replay *replay);

/* What nodes say.  now_s is the aggregator's own clock. */
void coordinator_events(struct coordinator *c, uint32_t node,
                        const struct msg_event *events, uint32_t count,
                        double now_s);
/* value: [DSGD_N_TELEMETRY] the node's load, NaN: not valid. */
void coordinator_telemetry(struct coordinator *c, uint32_t node,
                           const float *value);
void coordinator_life(struct coordinator *c, uint32_t node,
                      const float *silent_s, const struct msg *m, double now_s);
/* The node has shown this mean to its workers. */
void coordinator_has(struct coordinator *c, uint32_t node, uint64_t published);
/* stuck: [workers of the node] who never came to the end of the run. */
void coordinator_bye(struct coordinator *c, uint32_t node,
                     const uint8_t *stuck);
void coordinator_done(struct coordinator *c, uint32_t node);

/* A node's answer to MSG_REVOKE. */
void coordinator_returned(struct coordinator *c, uint32_t node,
                          const struct msg *m, double now_s);

/* Decide what there is to decide.  Returns whether anything was done. */
bool coordinator_tick(struct coordinator *c, double now_s);

/* The record is complete: node 0 may reap, and no more is to come. */
bool coordinator_may_reap(const struct coordinator *c);
bool coordinator_finished(const struct coordinator *c);

/* Own clock at which coordinator_tick has something to do if nothing happens
 * before; INFINITY. */
double coordinator_next_s(const struct coordinator *c);

/* Nothing has come of the open step: until something does a tick only finds who
 * is lost. */
bool coordinator_rests(const struct coordinator *c);

/* Seconds without a sign of life after which a worker or node is lost. */
double coordinator_hard_timeout_s(const struct coordinator *c);

#endif
