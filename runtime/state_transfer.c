#include "state_transfer.h"

#include <string.h>

bool state_send(struct state_sender *s, struct transport *t, uint32_t node,
                size_t piece_bytes)
{
    size_t left = s->copy.bytes - s->sent;
    struct msg m = {.kind = MSG_STATE, .step = s->step};

    m.u.state.offset = s->sent;
    m.u.state.total = s->copy.bytes;
    m.u.state.bytes = left < piece_bytes ? left : piece_bytes;
    if (left <= piece_bytes)
        m.flags |= MSG_LAST;
    t->ops->bulk(t, node, &m, NULL, 0, s->copy.data + s->sent, m.u.state.bytes);
    s->sent += m.u.state.bytes;
    if (s->sent < s->copy.bytes)
        return false;
    state_drop(&s->copy);
    s->sent = 0;
    return true;
}

bool state_receive(struct state_receiver *r, uint32_t node, const struct msg *m,
                   const void *body, size_t bytes)
{
    size_t at = m->u.state.offset, total = m->u.state.total;

    if (at == 0) {
        state_drop(&r->copy);
        if (state_make(total, &r->copy, NULL) != DSGD_OK)
            return false;
        r->node = node;
        r->step = m->step;
        r->got = 0;
    }
    if (r->copy.fd < 0 || r->node != node || r->step != m->step ||
        r->got != at || r->copy.bytes != total || bytes != m->u.state.bytes ||
        bytes > total - at)
        return false;
    memcpy(r->copy.data + at, body, bytes);
    r->got += bytes;
    return r->got == total;
}
