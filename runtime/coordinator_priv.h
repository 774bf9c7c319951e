/* Inside the coordinator: shared by coordinator.c (decisions), peers.c (what
 * other nodes are sent) and coordinator_log.c (the record). */
#ifndef DSGD_COORDINATOR_PRIV_H
#define DSGD_COORDINATOR_PRIV_H

#include "coordinator.h"
#include "record_replay.h"
#include "sampler.h"
#include "state_transfer.h"

/* The end of a run waits so long for a record that can't be written. */
#define RECORD_FLUSH_S 20.0

enum phase {
    PHASE_BOUNDARY, /* waits until all who live are ready for step `step` */
    PHASE_OPEN,     /* step `step` runs */
    PHASE_CLOSING,  /* sums of step `step` are on their way */
    PHASE_ENDING,   /* waits for the nodes' last word */
    PHASE_REAPING   /* the record is complete */
};

/* A gradient of the step before the open one, or what may still become one. */
struct carry {
    struct sample_range range; /* count 0: none */
    uint64_t samples;          /* 0: has not come */
    uint32_t buf;
    bool taken; /* part of the closing step */
};

struct worker {
    uint32_t node, local;
    bool lost, left, stuck;
    bool died;    /* its process has ended: lost, until another is ready */
    bool working; /* expected to contribute to the open step */
    bool arrived;
    bool fresh;       /* not busy with an older step when this one started */
    bool waited_for;  /* its range was cut too often */
    uint64_t ready;   /* step it is ready for */
    double life_s;    /* own clock, last sign of life */
    double owes_s;    /* … since when it owes a gradient, or its readiness */
    double lost_s;    /* … when it was lost */
    double latency_s; /* arrival less own duration, running mean */
    uint64_t samples;
    uint32_t buf; /* of its slot, where its gradient lies */
    struct sample_range range;
    float duration_s, lag_s;
    bool late; /* committed, but is no part of the sum: came when the step was
                  closing, or its node was taken out */
    uint32_t late_buf;
    uint64_t late_samples;
    struct carry carry;
    /* Of its share of the open step, see coordinator_deposits.h. */
    uint32_t n_deposits, deposit_buf;
    uint64_t deposited;   /* samples */
    double deposit_s;     /* when the last came, had it started with the step */
    bool cut_short;       /* arrived with what it had deposited at the close */
    uint64_t steps, cuts; /* since it lives */
    uint64_t cut_run;     /* cuts in a row */
    uint64_t checksum_step, checksum;
};

struct peer {
    uint32_t n_local;
    uint32_t *worker; /* [n_local] global index */
    uint8_t *mask;    /* [n_local] enum msg_take of the closing step */
    bool contributes;
    bool lost;
    bool bye, done;
    bool reap_sent;
    uint8_t role;    /* in the closing step: enum exchange_role */
    double heard_s;  /* own clock when it was last heard of */
    uint64_t has;    /* last mean that it has shown to its workers */
    uint64_t pieces; /* last mean that it gets in pieces */
    double pieces_s; /* … own clock when it was told to show it */
    double load_s;   /* own clock when its load was recorded last */
    uint64_t sent;   /* last mean sent */
    uint64_t state_bytes;
    bool wants_state;
    struct state_sender state;
    uint64_t unstarted; /* the step that it could not be told to begin */
    uint64_t early;     /* … whose sum it was told to send early */
    bool end_sent;
};

struct coordinator {
    struct dsgd_options opt;
    uint32_t n_workers, n_nodes;
    struct worker *worker; /* [n_workers] */
    struct peer *peer;     /* [n_nodes]; 0: this node */
    struct node *node;
    struct transport *transport;
    struct exchange *exchange;
    struct record *record;
    struct cutoff *cutoff;
    struct record_replay *replay;    /* NULL: this is no replay */
    bool replay_differs;             /* from its record, and that was told */
    struct checkpoints *checkpoints; /* NULL: none are kept */
    struct dyn *dyn;           /* NULL: the cutoff is neither dynamic nor dry */
    struct deal *deal;         /* NULL: every worker computes its own batch */
    struct deposits *deposits; /* NULL: … which counts as a whole */
    struct sizes *sizes;       /* NULL: parts are not sized by the model */
    struct loads *loads;       /* NULL: there is no model */
    struct sampler *sampler;

    struct own_clock *clock;
    enum phase phase;
    double now_s;  /* own clock of this tick */
    uint64_t step; /* open, or next */
    uint64_t published;
    uint64_t resumed; /* the step of the checkpoint it went on from, or 0 */
    uint32_t attempt, target, n_arrived;
    /* When the open step may close is looked at only when enough has happened,
     * for many workers: each that arrives, gives nothing or is lost counts,
     * also twice, as when it was lost, is back and arrives. */
    uint32_t n_working, n_settled;
    double look_s;     /* own clock from which on to look for lost workers */
    double ask_s;      /* … to ask for a state again */
    uint32_t ask_next; /* … of which node, when this one has none */
    bool timed_out;    /* the closing step waited for one hard timeout */
    uint32_t final_attempt; /* of the last published step */
    bool last;              /* the last published step ended the run */
    bool preempted;         /* … early, at a checkpoint */
    bool broken;            /* no worker is left to end it */
    bool whole;             /* sampler_assign had a batch for all */
    double phase_s;         /* own clock when the phase began */
    double step_s;          /* … when the open step started */
    double close_s;         /* … when it was closed */
    double wait_s;          /* … when this attempt to sum began */
    double origin_s;        /* … when the first step started */
    double run_s;           /* sum of step times, boundaries left out */
    double overhead_s;      /* publish - close, low running quantile */
    uint64_t run_samples;
    struct msg own_mean; /* the last mean, for this node's workers */
    bool own_waits;      /* … who have not seen it yet */
    double published_s;  /* own clock when it was complete */
    bool spread;         /* the closing step's pieces have many owners */
    struct {
        bool able;     /* early sums may be of use in this run */
        bool used;     /* … and were in the step that is closing */
        uint64_t step; /* whose early sums are wanted, or 0 */
    } early;

    /* Scratch, [n_workers]. */
    bool *flag_a, *flag_b;
    struct sample_range *range;
    struct msg_share *share; /* [largest n_local] */
    uint8_t *close_body;     /* [n_workers + n_nodes] */
    uint8_t *row_mask;
    float *row_duration, *row_lag;
    uint64_t *row_first;
    uint32_t *row_count;
};

/* What the sum over the contributors is multiplied with. */
float coordinator_factor(const struct coordinator *c);

/* coordinator_nodes.c */

/* A node has something to give to the closing step. */
bool coordinator_gives(const struct coordinator *c);
/* The node has given no sign of life for a while. */
bool coordinator_silent(const struct coordinator *c, uint32_t node);
/* One hard timeout after its close, the step waits for this node. */
bool coordinator_late(const struct coordinator *c, uint32_t node);

/* coordinator_early.c */

void early_create(struct coordinator *c, enum cutoff_mode mode);
/* A step has been opened: are early sums wanted? */
void early_open(struct coordinator *c);
/* What flags say of that in the message that lets a node begin the step. */
uint32_t early_flag(struct coordinator *c, uint32_t node);
/* The step is being closed: with nothing but what was sent early. */
bool early_accepts(struct coordinator *c);
/* Early sums of the open step must not keep nodes from sending anything
 * else. */
void early_refuse(struct coordinator *c);

/* peers.c */

/* From so many nodes that take part on, large gradients are exchanged by
 * all. */
#define PEERS_SPREAD_NODES 3

/* Shares of the node's workers for the open step, in c->share. */
void peers_shares(struct coordinator *c, const struct peer *p);
/* Let every node's workers begin the open step. */
void peers_start(struct coordinator *c);
/* Tell a node from when on its busy workers should sit the open step out. */
void peers_latest(struct coordinator *c, uint32_t node, const float *latest_s);
/* Have the nodes exchange their sums; again after a node was taken out. */
void peers_close(struct coordinator *c);
/* The mean of c->published is in the ring. */
void peers_committed(struct coordinator *c);
/* Send each node what it lacks and can take.  Returns whether it did. */
bool peers_pump(struct coordinator *c);
/* Every node that could be sent the last mean has taken it. */
bool peers_taken(struct coordinator *c);
/* The message that announces a mean of the ring. */
struct msg peers_mean(const struct coordinator *c, uint64_t step,
                      const struct seg_mean *about);

/* coordinator_loss.c */

/* Neither lost nor gone for good. */
bool loss_alive(const struct worker *w);
/* A worker gave a sign of life at that time; a lost one is back. */
void loss_life(struct coordinator *c, uint32_t w, double at_s);
/* Who owes something and has given no sign of life for too long is lost.  With
 * many workers it takes a while to look. */
void loss_find(struct coordinator *c);
/* A node did not deliver. */
void loss_node(struct coordinator *c, uint32_t node, const char *why);
/* A worker's process has ended.
 *   value  in  of SEG_EVENT_DIED */
void loss_died(struct coordinator *c, uint32_t w, uint64_t value);
/* A worker takes part: if its process had died, another is there now. */
void loss_back(struct coordinator *c, uint32_t w);
/* Why the run can't go on, or NULL. */
const char *loss_of_all(const struct coordinator *c);

/* coordinator_log.c; without a record nothing is written. */

void log_event(struct coordinator *c, enum record_event_kind kind,
               int32_t worker, int32_t node, const char *text);
/* The step that is being published. */
void log_step(struct coordinator *c, bool epoch_end, uint64_t samples,
              double lr_scale);
/* Samples in the step that is being published of which its mask and ranges do
 * not tell. */
void log_contribution(struct coordinator *c, uint32_t worker, uint64_t from,
                      const struct sample_range *range, uint64_t samples);
void log_late(struct coordinator *c, uint32_t worker,
              const struct msg_event *e);
/* A worker's checksum; says so when it differs from another's. */
void log_checksum(struct coordinator *c, uint32_t worker,
                  const struct msg_event *e);

#endif
