/* Tokens are worth the batch, whatever is granted, returned and lost, and go to
 * those who use them. */
#include "rng.h"
#include "tap.h"
#include "tokens.h"

static uint64_t worth(const struct tokens *t)
{
    uint64_t sum = t->reserve;

    for (uint32_t i = 0; i < t->n; i++)
        sum += t->node[i].given;
    return sum;
}

static void open_all(struct tokens *t, uint64_t part, uint64_t batch,
                     const uint32_t *workers)
{
    tokens_open(t, part, batch, workers);
    for (uint32_t i = 0; i < t->n; i++)
        tokens_grant(t, i, tokens_first(t, i));
}

static void first(void)
{
    static const uint32_t workers[] = {4, 4, 0, 8}, alone[] = {0, 3, 0, 0};
    struct tokens t;

    is_int(tokens_create(&t, 4, NULL), DSGD_OK, "created");
    open_all(&t, 4, 512, workers);
    ok(t.node[0].given == 96 && t.node[1].given == 96 && !t.node[2].given &&
           t.node[3].given == 192 && t.reserve == 128,
       "three quarters at first, by the workers that live");
    t.node[0].rate = 300;
    t.node[1].rate = 50;
    t.node[3].rate = 50;
    open_all(&t, 4, 512, workers);
    ok(t.node[0].given == 288 && t.node[1].given == 48 && t.node[3].given == 48,
       "by their rates, once known");
    open_all(&t, 4, 40, workers);
    ok(worth(&t) == 40 && t.reserve == 0, "no more than there are");
    open_all(&t, 4, 96, alone);
    ok(t.node[1].given == 96 && t.reserve == 0, "all to the only one");
    tokens_free(&t);
}

static void wants(void)
{
    static const uint32_t workers[] = {2, 2};
    struct tokens t;
    uint64_t most = 0;

    tokens_create(&t, 2, NULL);
    open_all(&t, 4, 128, workers);
    is_int((long long)t.node[0].given, 48, "48 of 128 each");
    is_int((long long)tokens_want(&t, 0, .1, .001), 0, "which will do");
    tokens_accept(&t, 0, 44, .1);
    is_int((long long)tokens_want(&t, 0, .1, .001), 8,
           "a part for each worker ahead, or half of its share of the rest");
    is_int((long long)tokens_want(&t, 0, .1, .05), 20, "or for so long ahead");
    tokens_grant(&t, 0, 32);
    tokens_accept(&t, 0, 36, .2);
    is_int(tokens_revoke(&t, .2, &most), 2, "nobody waits: none are revoked");
    t.node[0].waits = 4;
    is_int(tokens_revoke(&t, .2, &most), 1, "of the other, which has 48");
    is_int((long long)most, 24, "half");
    is_int(tokens_revoke(&t, .2, &most), 2, "not again before it answers");
    tokens_return(&t, 1, 24);
    is_int((long long)tokens_want(&t, 0, .2, .001), 12, "they are wanted");
    tokens_lose(&t, 1);
    ok(worth(&t) == 128 && t.node[1].given == 0, "a lost node's come back");
    tokens_accept(&t, 1, 0, .3);
    tokens_close(&t);
    near(t.node[0].rate, 400, 1e-9, "80 samples in .2 s");
    tokens_free(&t);
}

/* Nobody gives up tokens for who has died, and those of a node without workers
 * are used elsewhere. */
static void leaves(void)
{
    static const uint32_t workers[] = {2, 2};
    struct tokens t;
    uint64_t most;

    tokens_create(&t, 2, NULL);
    open_all(&t, 4, 128, workers);
    tokens_accept(&t, 0, 48, .1);
    tokens_grant(&t, 1, t.reserve);
    t.node[0].waits = 4;
    tokens_leave(&t, 0, 4);
    is_int(tokens_revoke(&t, .1, &most), 2, "its offer died with it");
    tokens_leave(&t, 0, 0);
    tokens_return(&t, 1, 32);
    is_int((long long)tokens_want(&t, 0, .1, .001), 0, "nobody is left");
    tokens_grant(&t, 0, 32);
    tokens_accept(&t, 1, 48, .2);
    t.node[1].waits = 4;
    is_int(tokens_revoke(&t, .2, &most), 0, "who has 32");
    is_int((long long)most, 16, "half of them");
    tokens_free(&t);
}

/* Anything may happen; in parts, and worth the batch. */
static void at_random(void)
{
    enum { N = 5 };
    uint32_t workers[N], wrong = 0, revoked = 0;
    struct tokens t;
    struct rng rng;

    rng_seed(&rng, 1, 0);
    tokens_create(&t, N, NULL);
    for (int step = 0; step < 2000; step++) {
        uint64_t part = 1 + rng_below(&rng, 8), most;
        uint64_t batch = part * (1 + rng_below(&rng, 200));
        for (uint32_t i = 0; i < N; i++)
            workers[i] = (uint32_t)rng_below(&rng, 5);
        open_all(&t, part, batch, workers);
        for (int k = 0; k < 60; k++) {
            double now_s = .01 * (k + 1);
            uint32_t i = (uint32_t)rng_below(&rng, N);
            uint64_t left = tokens_left(&t, i), want = 0;
            if (left >= part)
                tokens_accept(&t, i, part, now_s);
            else if (workers[i])
                t.node[i].waits = part;
            want = tokens_want(&t, i, now_s, .002);
            wrong += want > t.reserve || want % part;
            tokens_grant(&t, i, want);
            if (tokens_left(&t, i))
                t.node[i].waits = 0;
            i = tokens_revoke(&t, now_s, &most);
            if (i < N) {
                left = tokens_left(&t, i);
                wrong += most > left || most < part || most % part;
                tokens_return(&t, i, most < left ? most : left);
                revoked++;
            }
            if (rng_below(&rng, 400) == 0)
                tokens_lose(&t, (uint32_t)rng_below(&rng, N));
            wrong += worth(&t) != batch;
        }
        tokens_close(&t);
    }
    ok(!wrong && revoked > 1000, "worth the batch in 2000 steps, %u revoked",
       revoked);
    tokens_free(&t);
}

int main(void)
{
    first();
    wants();
    leaves();
    at_random();
    return done();
}
