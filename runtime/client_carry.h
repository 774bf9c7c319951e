/* What a worker computed too late for its step: it keeps the gradients of parts
 * that were not accepted, and offers them in the next step before anything else
 * (dsgd_late CARRY with shared work, and a replay of such a run). */
#ifndef DSGD_CLIENT_CARRY_H
#define DSGD_CLIENT_CARRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct client_kept {
    uint32_t entry; /* of its step's pool */
    uint64_t samples;
    float spent_s;
    const float *grad; /* [grad_elems] */
};

/* The gradient of the last offer is kept until it is known whether it was
 * accepted, and that of the part after it when the step is over then. */
struct client_carry {
    struct client_kept part[2];
    float *room[2]; /* of their gradients */
    uint32_t n;     /* of part: to be offered in the step after theirs */
    uint64_t step;  /* … of which they are */
    uint64_t now;   /* that was begun last */
    bool is_on;
    bool offered; /* part[0] is what was offered last */
};

/* Errors: false, no memory; then and after the use carry_free. */
bool carry_create(struct client_carry *c, size_t grad_elems);
void carry_free(struct client_carry *c);

/* A step begins. */
void carry_begin(struct client_carry *c, uint64_t step);

/* Something is kept of the step before. */
bool carry_is_due(const struct client_carry *c);

/* A part of this step is offered: its gradient may be of use later. */
void carry_offered(struct client_carry *c, const struct client_kept *part,
                   size_t grad_elems);

/* The step is over.
 *   accepted  in  the last offer was
 *   part      in  that was not offered any more, or NULL */
void carry_over(struct client_carry *c, bool accepted,
                const struct client_kept *part, size_t grad_elems);

/* Keep a part of this step. */
void carry_keep(struct client_carry *c, const struct client_kept *part,
                size_t grad_elems);

/* The first of those that were kept was offered, in the next step. */
void carry_drop_first(struct client_carry *c);

#endif
