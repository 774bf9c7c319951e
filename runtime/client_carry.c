#include "client_carry.h"

#include <stdlib.h>
#include <string.h>

bool carry_create(struct client_carry *c, size_t grad_elems)
{
    bool good = true;

    c->is_on = true;
    for (int i = 0; i < 2; i++) {
        c->room[i] = calloc(grad_elems, sizeof(float));
        good = good && c->room[i];
    }
    return good;
}

void carry_free(struct client_carry *c)
{
    free(c->room[0]);
    free(c->room[1]);
}

void carry_begin(struct client_carry *c, uint64_t step)
{
    c->offered = false;
    c->now = step;
    if (c->step != step - 1)
        c->n = 0;
}

bool carry_is_due(const struct client_carry *c)
{
    return c->n && c->step != c->now;
}

static void copy(struct client_carry *c, uint32_t i,
                 const struct client_kept *part, size_t grad_elems)
{
    memcpy(c->room[i], part->grad, grad_elems * sizeof(float));
    c->part[i] = *part;
    c->part[i].grad = c->room[i];
}

void carry_offered(struct client_carry *c, const struct client_kept *part,
                   size_t grad_elems)
{
    c->offered = true;
    copy(c, 0, part, grad_elems);
}

void carry_over(struct client_carry *c, bool accepted,
                const struct client_kept *part, size_t grad_elems)
{
    if (!c->offered && !part)
        return;
    c->n = c->offered && !accepted;
    c->step = c->now;
    if (part)
        carry_keep(c, part, grad_elems);
}

void carry_keep(struct client_carry *c, const struct client_kept *part,
                size_t grad_elems)
{
    if (c->n == 2)
        return;
    copy(c, c->n++, part, grad_elems);
    c->offered = false;
    c->step = c->now;
}

void carry_drop_first(struct client_carry *c)
{
    float *room = c->room[0];

    c->part[0] = c->part[1];
    c->room[0] = c->room[1];
    c->room[1] = room;
    c->n--;
}
