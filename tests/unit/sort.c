/* Sorting, against qsort. */
#include "sort.h"

#include <stdlib.h>
#include <string.h>

#include "rng.h"
#include "tap.h"

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Every fifth value is there several times. */
static void sorting(void)
{
    enum { MOST = 3000 };
    static float lanes[MOST * SORT_LANES];
    double x[MOST], y[MOST];
    struct rng r;
    bool good = true, side_by_side = true;

    rng_seed(&r, 1, 1);
    for (size_t n = 0; n <= MOST; n = n < 20 ? n + 1 : n * 2 + 1) {
        for (size_t i = 0; i < n; i++) {
            y[i] = x[i] = i % 5 ? (float)rng_normal(&r) : (double)(i % 3);
            for (size_t l = 0; l < SORT_LANES; l++)
                lanes[i * SORT_LANES + l] = (float)x[i] * (l % 2 ? -1 : 1);
        }
        sort_doubles(n, x);
        qsort(y, n, sizeof *y, ascending);
        good &= memcmp(x, y, n * sizeof *x) == 0;
        sort_lanes(n, lanes);
        for (size_t i = 0; i < n * SORT_LANES; i++) {
            size_t at = i / SORT_LANES;
            side_by_side &= lanes[i] == (i % 2 ? -x[n - 1 - at] : x[at]);
        }
    }
    ok(good, "sort_doubles");
    ok(side_by_side, "sort_lanes");

    uint32_t index[300];
    for (uint32_t i = 0; i < 300; i++) {
        x[i] = (double)rng_below(&r, 40);
        index[i] = 299 - i;
    }
    sort_indices(300, x, index);
    for (size_t i = 1; i < 300; i++)
        good &= x[index[i - 1]] < x[index[i]] ||
                (x[index[i - 1]] == x[index[i]] && index[i - 1] < index[i]);
    ok(good, "sort_indices, with ties");
}

static void nth(void)
{
    enum { MOST = 60 };
    float x[MOST];
    double y[MOST];
    struct rng r;
    size_t wrong = 0;

    rng_seed(&r, 2, 1);
    for (size_t n = 1; n <= MOST; n++) {
        for (size_t k = 0; k < n; k++) {
            for (size_t i = 0; i < n; i++)
                y[i] = x[i] = (float)rng_below(&r, k % 3 ? 5 : 1000);
            sort_doubles(n, y);
            wrong += (double)sort_nth(n, x, k) != y[k];
        }
    }
    is_int((long long)wrong, 0, "sort_nth, with ties");
}

int main(void)
{
    sorting();
    nth();
    return done();
}
