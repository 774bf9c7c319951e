/* How many samples of a step each node may still give: tokens.  They are worth
 * the step's batch in all, whatever becomes of the nodes, so that the batch is
 * exact.  Some are kept in reserve and handed out as nodes need them; then slow
 * nodes are asked for theirs.  Only arithmetic: coordinator_parts.h sends the
 * messages and knows which samples they are for. */
#ifndef DSGD_TOKENS_H
#define DSGD_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "dsgd_error.h"

struct tokens_node {
    /* Kept from step to step: samples a second, running mean; 0: not known. */
    double rate;
    /* Of this step. */
    uint32_t workers;   /* that live; 0: no tokens for it */
    bool out;           /* it is lost: nothing of it counts */
    bool revoking;      /* it was asked for tokens and has not answered */
    uint64_t asked;     /* … for so many */
    uint64_t withdraws; /* … and for a first part of so many */
    uint64_t given;     /* tokens, less what came back, first parts' too */
    uint64_t fixed;     /* … for first parts that are not in, theirs alone */
    uint64_t accepted;  /* samples */
    uint64_t waits;     /* samples offered, without tokens */
    double last_s;      /* from the step's start to its last part */
};

struct tokens {
    struct tokens_node *node; /* [n] */
    uint32_t n;
    uint64_t part, batch, reserve, accepted;
    uint64_t fixed; /* of the batch, for first parts when the step started */
    double rate, rate_one; /* of all that can be given tokens; of a worker */
};

/* Errors: DSGD_E_NOMEM. */
enum dsgd_err tokens_create(struct tokens *t, uint32_t n,
                            struct dsgd_error *err);
void tokens_free(struct tokens *t);

/* A step of `batch` samples starts, in parts of `part`; all are in reserve.
 *   workers  in  [n] that live */
void tokens_open(struct tokens *t, uint64_t part, uint64_t batch,
                 const uint32_t *workers);

/* What a node gets at the step's start: by their rates, a quarter is kept
 * back. */
uint64_t tokens_first(const struct tokens *t, uint32_t node);

/* What it should be granted now, in multiples of part if the reserve is one;
 * often 0.
 *   elapsed_s  in  since the step's start
 *   ahead_s    in  a grant takes that long to have an effect */
uint64_t tokens_want(const struct tokens *t, uint32_t node, double elapsed_s,
                     double ahead_s);

/* Tokens leave the reserve; come back; were used. */
void tokens_grant(struct tokens *t, uint32_t node, uint64_t tokens);
void tokens_return(struct tokens *t, uint32_t node, uint64_t tokens);
void tokens_accept(struct tokens *t, uint32_t node, uint64_t samples,
                   double elapsed_s);

/* Tokens leave the reserve for a worker's first part; it is in, or else
 * withdrawn. */
void tokens_fix(struct tokens *t, uint32_t node, uint64_t tokens);
void tokens_first_in(struct tokens *t, uint32_t node, uint64_t samples);
void tokens_withdraw(struct tokens *t, uint32_t node, uint64_t tokens);

/* Samples offered beyond what is on its way to those who offer. */
uint64_t tokens_lack(const struct tokens *t);

/* Offers wait and the reserve is empty: the node that needs longest for what it
 * has gives up half of it.
 *   most  out  tokens to ask for; counts as under way until tokens_return
 * Returns the node, or n: nobody. */
uint32_t tokens_revoke(struct tokens *t, double elapsed_s, uint64_t *most);

/* The reserve is empty, and a node has used all that it had: who has most
 * beyond a part for each of its workers gives up half of that.  As
 * tokens_revoke. */
uint32_t tokens_level(struct tokens *t, uint64_t *most);

/* One of its workers will give no more, of which so much waited. */
void tokens_leave(struct tokens *t, uint32_t node, uint64_t waited);

/* The node is lost: all that it has is in reserve again. */
void tokens_lose(struct tokens *t, uint32_t node);

/* Samples that it may still give, first parts left out. */
uint64_t tokens_left(const struct tokens *t, uint32_t node);

/* The step is over: learn the rates. */
void tokens_close(struct tokens *t);

#endif
