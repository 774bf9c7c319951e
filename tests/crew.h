/* A node and its workers, all in this process; the test is in the coordinator's
 * place. */
#ifndef DSGD_TESTS_CREW_H
#define DSGD_TESTS_CREW_H

#include "client.h"
#include "node.h"

enum { CREW_MOST = 4, CREW_RING_BYTES = 1 << 20 };

struct crew {
    uint32_t n;
    struct segment seg;
    struct node *node;
    char name[SEGMENT_NAME];
    struct dsgd *d[CREW_MOST];
};

/* Two buffers a worker; nobody has joined.  crew_destroy also after a
 * failure. */
bool crew_create(struct crew *c, uint32_t n, size_t floats);
bool crew_join(struct crew *c, uint32_t w, const struct dsgd_options *opt);
/* Nobody else can join then. */
bool crew_join_all(struct crew *c, const struct dsgd_options *opt);
void crew_destroy(struct crew *c);

/* POOL and TOKENS, as message.h has them. */
void crew_pool(struct crew *c, uint64_t step, uint32_t flags, uint64_t part,
               const struct msg_range *range, uint32_t n_ranges,
               uint64_t tokens);
void crew_tokens(struct crew *c, uint64_t step, uint64_t tokens);

/* Give the part in hand: float i counts its samples that are i modulo the
 * gradient's length. */
enum dsgd_err crew_deposit(struct crew *c, uint32_t w);

#endif
