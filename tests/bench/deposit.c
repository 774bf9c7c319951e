/* What a part costs a worker beside its computation: a claim and a deposit,
 * next to what the C library and OpenBLAS need for the same floats: a first
 * deposit is a memcpy, and those after it add two vectors into a third, about a
 * saxpy.  With late parts carried a deposit is copied, too.  Own deposits are
 * those of a worker's own batch, of which each counts at once.
 * Usage: deposit [repeats] */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../crew.h"
#include "measure.h"

enum kind { SHARED, CARRIED, OWN };

struct bench {
    size_t floats, parts;
    enum kind kind;
    struct crew crew; /* of one */
    float *grad, *out;
    double *claim, *deposit, *copy, *saxpy; /* [parts] us */
};

static float *some_floats(size_t n)
{
    float *x = malloc(n * sizeof *x);

    for (size_t i = 0; x && i < n; i++)
        x[i] = (float)(i % 7);
    return x;
}

static bool make(struct bench *b)
{
    const struct dsgd_options opt = {
        .grad_elems = b->floats,
        .work = b->kind == OWN ? DSGD_WORK_OWN : DSGD_WORK_SHARED,
        .deposits = b->kind == OWN,
        .late = b->kind == CARRIED ? DSGD_LATE_CARRY : DSGD_LATE_REQUEUE,
        .batch = b->kind == OWN ? b->parts : 1,
        .parts = b->kind == OWN ? (uint32_t)b->parts : 1};

    b->grad = some_floats(b->floats);
    b->out = some_floats(b->floats);
    b->claim = calloc(b->parts, sizeof *b->claim);
    b->deposit = calloc(b->parts, sizeof *b->deposit);
    b->copy = calloc(b->parts, sizeof *b->copy);
    b->saxpy = calloc(b->parts, sizeof *b->saxpy);
    return b->grad && b->out && b->claim && b->deposit && b->copy && b->saxpy &&
           crew_create(&b->crew, 1, b->floats) && crew_join_all(&b->crew, &opt);
}

static void drop(struct bench *b)
{
    crew_destroy(&b->crew);
    free(b->grad);
    free(b->out);
    free(b->claim);
    free(b->deposit);
    free(b->copy);
    free(b->saxpy);
}

/* The peers, on the same vectors. */
static void peers(struct bench *b, size_t i)
{
    double start = now_us();
    memcpy(b->out, b->grad, b->floats * sizeof *b->out);
    b->copy[i] = now_us() - start;
    start = now_us();
    cblas_saxpy((int)b->floats, 1, b->grad, 1, b->out, 1);
    b->saxpy[i] = now_us() - start;
}

/* What the node does, and the coordinator's answer to a deposit. */
static void answer(struct bench *b)
{
    struct msg m = {.kind = MSG_KNOWN, .count = 1, .step = 1};
    struct msg_event e;

    while (node_event(b->crew.node, &e)) {
        uint32_t deposits = (uint32_t)(e.value >> 32);
        if (e.kind == SEG_EVENT_DEPOSIT)
            node_message(b->crew.node, &m, &deposits, sizeof deposits);
    }
}

static bool measure(struct bench *b)
{
    const struct msg_range range = {0, b->parts};
    struct msg_share share = {.count = b->kind == OWN ? b->parts : 0};
    struct dsgd_step step;
    struct dsgd_part part;

    if (b->kind != OWN)
        crew_pool(&b->crew, 1, 0, 1, &range, 1, b->parts);
    node_start(b->crew.node, 1, &share);
    if (dsgd_step_begin(b->crew.d[0], &step) != DSGD_OK)
        return false;
    for (size_t i = 0; i < b->parts; i++) {
        peers(b, i);
        double start = now_us();
        if (dsgd_claim(b->crew.d[0], &part) != DSGD_OK)
            return false;
        b->claim[i] = now_us() - start;
        start = now_us();
        if (dsgd_deposit(b->crew.d[0], b->grad, b->floats, 1) != DSGD_OK)
            return false;
        b->deposit[i] = now_us() - start;
        answer(b);
    }
    return true;
}

static bool run(struct bench *b, size_t floats, size_t repeats, enum kind kind)
{
    size_t parts = 20000000 / floats * repeats;

    *b = (struct bench){.floats = floats, .kind = kind};
    b->parts = parts < 20 ? 20 : parts > 1000 ? 1000 : parts;
    if (make(b) && measure(b))
        return true;
    fprintf(stderr, "deposit: %s\n",
            b->crew.d[0] ? dsgd_error_text(b->crew.d[0]) : "no memory");
    return false;
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {10000, 100000, 1000000, 10000000};
    size_t repeats = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;

    openblas_set_num_threads(1);
    printf("floats      claim us  deposit us  memcpy us  saxpy us  "
           "deposit/saxpy  carry us  own: claim us  deposit us\n");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double claim[3], deposit[3], copy = 0, saxpy = 0;
        for (enum kind kind = SHARED; kind <= OWN; kind++) {
            struct bench b;
            if (!run(&b, sizes[i], repeats, kind))
                return 1;
            claim[kind] = median(b.claim, b.parts);
            deposit[kind] = median(b.deposit, b.parts);
            if (kind == SHARED) {
                copy = median(b.copy, b.parts);
                saxpy = median(b.saxpy, b.parts);
            }
            drop(&b);
        }
        printf("%-10zu %9.2f %11.1f %10.1f %9.1f %14.2f %9.1f %14.2f %11.1f\n",
               sizes[i], claim[SHARED], deposit[SHARED], copy, saxpy,
               deposit[SHARED] / saxpy, deposit[CARRIED], claim[OWN],
               deposit[OWN]);
    }
    return 0;
}
