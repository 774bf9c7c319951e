#include "dsgd.h"

/* One round's keyed mixing of half an index (the finalizer of splitmix64). */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t dsgd_shuffle(uint64_t seed, uint64_t epoch, uint64_t n,
                      uint64_t position)
{
    unsigned half = 1;
    while (half < 31 && (UINT64_C(1) << (2 * half)) < n)
        half++;
    uint64_t mask = (UINT64_C(1) << half) - 1, key = mix(seed ^ mix(epoch));
    uint64_t x = position;

    if (n < 2 || position >= n)
        return position;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t next =
                left ^ (mix(key + round * 0x632be5ab + right) & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= n);
    return x;
}
