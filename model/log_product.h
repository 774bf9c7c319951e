/* The logarithm of a long product of survivals, lane by lane.  They are at
 * least 1e-12, so three of them do not underflow: then the powers of two are
 * put away. */
#ifndef DSGD_LOG_PRODUCT_H
#define DSGD_LOG_PRODUCT_H

#include <stddef.h>
#include <stdint.h>

#include "live_table.h"
#include "vmath.h"

struct log_product {
    float product[LIVE_LANES]; /* [1, 2) after normalise */
    int32_t power[LIVE_LANES];
    size_t factors;
};

VM_INLINE void log_product_init(struct log_product *p)
{
    for (size_t i = 0; i < LIVE_LANES; i++) {
        p->product[i] = 1;
        p->power[i] = 0;
    }
    p->factors = 0;
}

VM_INLINE void log_product_normalise(struct log_product *p)
{
#pragma omp simd
    for (size_t i = 0; i < LIVE_LANES; i++) {
        uint32_t bits = vm_bits(p->product[i]);
        p->power[i] += (int32_t)(bits >> 23) - 127;
        p->product[i] = vm_from_bits((bits & 0x7fffffu) | 0x3f800000u);
    }
    p->factors = 0;
}

VM_INLINE void log_product_take(struct log_product *p, const float *s)
{
#pragma omp simd
    for (size_t i = 0; i < LIVE_LANES; i++)
        p->product[i] *= s[i];
    if (++p->factors == 3)
        log_product_normalise(p);
}

VM_INLINE void log_product_get(struct log_product *p, float *out)
{
    log_product_normalise(p);
#pragma omp simd
    for (size_t i = 0; i < LIVE_LANES; i++)
        out[i] = (float)p->power[i] * .69314718f + vm_log(p->product[i]);
}

#endif
