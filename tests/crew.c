#include "crew.h"

#include <stdlib.h>

bool crew_create(struct crew *c, uint32_t n, size_t floats)
{
    *c = (struct crew){.n = n};
    return segment_create(n, floats, 2, CREW_RING_BYTES, &c->seg, c->name,
                          NULL) == DSGD_OK &&
           node_create(&c->seg, &c->node, NULL) == DSGD_OK;
}

bool crew_join(struct crew *c, uint32_t w, const struct dsgd_options *opt)
{
    struct segment own;

    return segment_attach(c->name, &own, NULL) == DSGD_OK &&
           client_create(opt, &own, w, NULL, &c->d[w], NULL) == DSGD_OK;
}

bool crew_join_all(struct crew *c, const struct dsgd_options *opt)
{
    bool good = true;

    for (uint32_t w = 0; w < c->n; w++)
        good = good && crew_join(c, w, opt);
    segment_unlink(c->name);
    return good;
}

void crew_destroy(struct crew *c)
{
    for (uint32_t w = 0; w < c->n; w++)
        client_destroy(c->d[w]);
    node_destroy(c->node);
    segment_detach(&c->seg);
    if (*c->name)
        segment_unlink(c->name);
}

void crew_pool(struct crew *c, uint64_t step, uint32_t flags, uint64_t part,
               const struct msg_range *range, uint32_t n_ranges,
               uint64_t tokens)
{
    struct msg m = {
        .kind = MSG_POOL, .flags = flags, .count = n_ranges, .step = step};

    m.u.pool.part = part;
    m.u.pool.tokens = tokens;
    node_message(c->node, &m, range, n_ranges * sizeof *range);
}

void crew_tokens(struct crew *c, uint64_t step, uint64_t tokens)
{
    struct msg m = {.kind = MSG_TOKENS, .step = step};

    m.u.pool.tokens = tokens;
    node_message(c->node, &m, NULL, 0);
}

enum dsgd_err crew_deposit(struct crew *c, uint32_t w)
{
    const struct dsgd_part *part = &c->d[w]->work.part;
    size_t floats = c->seg.h->grad_elems;
    float *grad = calloc(floats, sizeof *grad);

    for (uint64_t i = 0; grad && i < part->n_samples; i++)
        grad[(part->first_sample + i) % floats] += 1;
    enum dsgd_err rc =
        grad ? dsgd_deposit(c->d[w], grad, floats, part->n_samples)
             : DSGD_E_NOMEM;
    free(grad);
    return rc;
}
