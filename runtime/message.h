/* What aggregators and the coordinator say to each other.
 *
 * Control messages are small and copied by the transport; bulk messages carry a
 * gradient, and a peer is sent the next one only when it has taken the last.
 * Both start with a struct msg.  All nodes have the same byte order. */
#ifndef DSGD_MESSAGE_H
#define DSGD_MESSAGE_H

#include <stdint.h>

#include "segment.h"

enum msg_kind {
    /* node to coordinator, control */
    MSG_EVENTS = 1,   /* struct msg_event[count] */
    MSG_LIFE = 2,     /* float[count]: seconds since each worker's last sign */
    MSG_BYE = 3,      /* uint8_t[count]: who never came to the end of the run */
    MSG_DONE = 10,    /* the node's aggregator sends no more */
    MSG_LOAD = 12,    /* float[count]: the node's telemetry */
    MSG_REQUEST = 14, /* flags: enum seg_request */
    /* any node to any node, bulk: pieces, see exchange.h */
    MSG_SUM = 4,   /* float[count]: sum over the node's contributors */
    MSG_MEAN = 20, /* float[count] */
    /* coordinator to node, control */
    MSG_CLOSE = 5,   /* uint8_t[count]: enum msg_take of each worker's sums;
                      * then uint8_t[nodes]: enum exchange_role */
    MSG_SHOW = 21,   /* struct msg_share[count]: the mean is whole, and on its
                      * way to this node in pieces */
    MSG_START = 6,   /* struct msg_share[count]: step may begin */
    MSG_END = 7,     /* the run is over, once mean `step` is published */
    MSG_REAP = 11,   /* the record is complete: end stuck processes */
    MSG_LATEST = 13, /* float[count]: latest start of step, s after its start */
    MSG_GIVE = 15,   /* send a STATE of that step or a later one */
    MSG_POOL = 22,   /* struct msg_range[count]: parts to compute */
    MSG_TOKENS = 23, /* samples more that may be accepted */
    MSG_REVOKE = 24, /* … that may not */
    MSG_SCRIPT = 26, /* struct msg_script[count]: parts as recorded */
    MSG_KNOWN = 28,  /* uint32_t[count]: deposits of each worker */
    /* node to coordinator, control */
    MSG_RETURN = 25, /* the answer to REVOKE, after all that was accepted */
    /* coordinator to node, bulk */
    MSG_PUBLISH = 8, /* struct msg_share[count], then float[grad_elems] */
    /* both ways, bulk */
    MSG_STATE = 9 /* a piece of the registered state */
};

enum msg_flag {
    MSG_EPOCH_END = 1,  /* PUBLISH, SHOW: the last step of its epoch */
    MSG_STARTS = 2,     /* PUBLISH, SHOW: the next step may begin */
    MSG_LAST = 4,       /* STATE: the last piece */
    MSG_CHECKPOINT = 8, /* PUBLISH, SHOW: one is made of the state after it */
    MSG_PREEMPTED = 16, /* END: early, at a checkpoint */
    MSG_BROKEN = 32,    /* END: no worker is left */
    MSG_SPREAD = 64,    /* CLOSE: exchange_plan.spread */
    MSG_EARLY = 128,    /* PUBLISH, SHOW, START: what all workers of the node
                           have given to the step that begins is wanted as
                           soon as it is there, as attempt EXCHANGE_EARLY */
    MSG_CARRIES = 256,  /* POOL, SCRIPT: parts of the step before count, too */
    MSG_FIXED = 512     /* POOL: its first ranges are first parts, one for each
                         * worker; REVOKE, RETURN: of such a part */
};

/* In the number of a part, of PART: it is one of the step before. */
#define MSG_CARRIED_PART (UINT32_C(1) << 31)

/* What of a worker's slot goes into a sum: the gradient of the step that is
 * closed, and that of the step before. */
enum msg_take {
    MSG_OWN = 1,
    MSG_OWN_BUF = 2, /* it lies in buffer 1 */
    MSG_CARRIED = 4,
    MSG_CARRIED_BUF = 8
};

struct msg {
    uint32_t kind;
    uint32_t flags;
    uint32_t count;   /* of what follows */
    uint32_t attempt; /* CLOSE, SUM, MEAN, SHOW */
    uint64_t step;
    union {
        struct { /* PUBLISH, SHOW */
            uint64_t epoch, samples;
            uint64_t run_samples, run_ns; /* so far: for dsgd_progress */
            uint32_t contributors, pad;
            double lr_scale;
        } mean;
        struct { /* CLOSE */
            float factor;
        } close;
        struct { /* SUM, MEAN */
            uint32_t index;
        } piece;
        struct {             /* POOL, TOKENS, REVOKE, RETURN */
            uint64_t part;   /* POOL: samples of a part; REVOKE, RETURN with
                                MSG_FIXED: whose first part, local index */
            uint64_t tokens; /* samples; REVOKE: at most, UINT64_MAX: all, and
                                no more is accepted in this step */
        } pool;
        struct { /* END */
            double hard_timeout_s;
            uint64_t last; /* step of the run; a node may never get its mean */
        } end;
        struct { /* STATE */
            uint64_t offset, bytes, total;
        } state;
        struct {                  /* LIFE, EVENTS */
            uint64_t published;   /* last step in the node's ring */
            uint64_t state_bytes; /* registered by its workers */
            uint32_t wants_state;
        } node;
    } u;
};

/* A worker's event, seen by its aggregator. */
struct msg_event {
    uint32_t worker; /* local index */
    uint32_t kind;   /* enum seg_event_kind */
    uint64_t step;
    uint64_t value;   /* PART, KEPT, DEPOSIT: its number << 32 | samples; WAITS:
                         samples */
    float duration_s; /* COMMIT, DEPOSIT: its own so far; PART: of that part;
                         BEGIN: 0 */
    float lag_s;      /* BEGIN, COMMIT: after the step's start on its node */
    float fraction;
    uint32_t buf; /* COMMIT, PART, DEPOSIT: of its slot */
};

/* Samples of an epoch.  A node cuts the ranges that it is given in parts, in
 * order, the last of a range being what is left of it, and numbers the parts of
 * a step from 0.  With MSG_FIXED the first ranges are not cut: range i is the
 * first part of worker i, and has tokens of its own; count 0: it has none. */
struct msg_range {
    uint64_t first, count;
};

/* Ranges in a MSG_POOL, at most, and one for each worker with MSG_FIXED. */
#define MSG_RANGES 64

/* In a replay: parts that one worker computes, in this order. */
struct msg_script {
    uint64_t first;
    uint32_t samples, part; /* of all of them; of each but for the last */
    uint32_t worker;        /* local index */
    uint32_t late;          /* they are kept for the next step */
};

/* Of them in a MSG_SCRIPT, at most. */
#define MSG_SCRIPTS 42

/* A worker's share of the next step. */
struct msg_share {
    uint64_t epoch, first, count;
    uint64_t limit; /* samples after which to stop; 0: none */
};

#endif
