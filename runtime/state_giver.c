#include "state_giver.h"

#include <math.h>

bool state_giver_pump(struct state_giver *g, struct node *node,
                      struct transport *t, double now_s)
{
    const double again_s = .1;
    const struct seg_state *box = node_state_box(node);
    struct state_sender *s = &g->sender;
    uint64_t announced = atomic_load(&box->step);

    if (!g->asked || !t->ops->bulk_idle(t, 0))
        return false;
    if (s->copy.fd < 0 &&
        (announced <= g->least || !node_state_serves(node, announced - 1) ||
         state_open(box, SIZE_MAX, &s->copy, &s->step, NULL) != DSGD_OK)) {
        if (now_s >= g->ask_s)
            node_ask_state(node, g->least);
        g->ask_s = fmax(g->ask_s, now_s + again_s);
        return false;
    }
    if (state_send(s, t, 0, node_grad_elems(node) * sizeof(float)))
        g->asked = false;
    return true;
}
