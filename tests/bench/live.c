/* What live stopping costs: planning a step, hidden behind the compute, and a
 * tick, which is not.  Usage: live [repeats] */
#include <stdio.h>
#include <stdlib.h>

#include "live.h"
#include "measure.h"
#include "predictive_make.h"

struct arrival {
    double at_s;
    size_t worker;
};

static int earlier(const void *a, const void *b)
{
    return ascending(a, b);
}

/* One step; returns the ticks that it took. */
static size_t step(struct live *l, const struct made *m, struct arrival *a,
                   uint64_t *state, double *plan_us, double *tick_us)
{
    size_t n = m->p.n, i = 0, ticks = 0;
    double next_s, start = now_us();

    live_plan(l, &m->p, LIVE_FRESH);
    *plan_us = now_us() - start;
    for (size_t j = 0; j < n; j++)
        a[j] = (struct arrival){made_duration(m, j, state), j};
    qsort(a, n, sizeof *a, earlier);
    live_close(l, 0, 1, &next_s);
    for (bool closed = false; !closed;) {
        double at = fmin(next_s, i < n ? a[i].at_s : INFINITY);
        for (; i < n && a[i].at_s <= at; i++)
            live_arrive(l, a[i].worker, a[i].at_s);
        start = now_us();
        closed = live_close(l, at, .9 * (double)n, &next_s);
        double us = now_us() - start;
        if (us > .5 && ticks < 100)
            tick_us[ticks++] = us;
    }
    live_end(l, 1);
    return ticks;
}

static void bench(size_t n, size_t nodes, size_t repeats)
{
    struct made m;
    struct live *l;
    uint64_t state = 3;
    size_t ticks = 0;
    double *plan = malloc(repeats * sizeof *plan);
    double *tick = malloc(100 * repeats * sizeof *tick);
    struct arrival *a = malloc(n * sizeof *a);

    made_init(&m, n, nodes, .06);
    if (plan && tick && a &&
        live_create(n, nodes, m.node, .1, 0, &l, NULL) == DSGD_OK) {
        for (size_t r = 0; r < repeats; r++)
            ticks += step(l, &m, a, &state, plan + r, tick + ticks);
        printf("n %6zu on %4zu nodes:", n, nodes);
        show("plan", plan, repeats);
        show("tick", tick, ticks);
        printf("  (%zu ticks)\n", ticks);
        live_free(l);
    }
    made_free(&m);
    free(plan);
    free(tick);
    free(a);
}

int main(int argc, char **argv)
{
    size_t repeats = argc > 1 ? strtoul(argv[1], NULL, 10) : 30;

    if (repeats < 1)
        repeats = 1;
    bench(16, 4, repeats);
    bench(158, 4, repeats);
    bench(2175, 68, repeats);
    bench(10000, 156, repeats / 5 + 1);
    return 0;
}
