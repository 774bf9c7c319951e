/* Branch-free float functions that gcc and clang turn into vector code inside
 * `#pragma omp simd` loops, without -ffast-math.
 *
 * Accuracy against the exact value, relative, tested in tests/unit/ops.c:
 *   vm_exp, vm_log, vm_sigmoid, vm_tanh, vm_softplus   3e-7
 *   vm_normal_sf   1e-6 for z <= 12.5; below 1e-35 further out
 *   vm_normal_log_sf   1e-6 and, absolute, 1e-7; its hazard 1e-6
 * NaN gives NaN.  The bits do not depend on the vector width, as long as
 * products and sums are not contracted (-ffp-contract=off). */
#ifndef DSGD_VMATH_H
#define DSGD_VMATH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* One version of a function for each kind of processor, chosen when the
 * program starts.  Not under the address and thread sanitizers, which do not
 * stand resolvers that run that early, nor by clang, whose names for the
 * versions do not fit callers in other files. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VM_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VM_CLONES
#endif

#define VM_INLINE static inline __attribute__((always_inline, unused))

VM_INLINE float vm_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

VM_INLINE uint32_t vm_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* c ? a : b in straight-line code: a conditional expression may become a
 * branch, which keeps a loop from being vectorised. */
VM_INLINE float vm_select(bool c, float a, float b)
{
    uint32_t mask = -(uint32_t)c;
    return vm_from_bits((vm_bits(a) & mask) | (vm_bits(b) & ~mask));
}

/* b when a is NaN */
VM_INLINE float vm_max(float a, float b)
{
    return vm_select(a > b, a, b);
}

/* exp(x + low), |low| <= .06: x reduced to |r| <= ln 2 / 2 (Cody & Waite), a
 * polynomial, a power of two.  0 below -87.3, 2.4e38 above 88.37. */
VM_INLINE float vm_exp_sum(float x, float low)
{
    const float round = 12582912.f; /* 1.5 * 2^23: the sum's low bits are n */
    float keep = vm_select(x < -87.3f, 0, 1);

    x = vm_select(x < -87.3f, -87.3f, x);
    x = vm_select(x > 88.37f, 88.37f, x);
    float shifted = x * 1.44269504f + round;
    float n = shifted - round;
    float r = ((x - n * .693359375f) - n * -2.12194440e-4f) + low;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + .5f;
    p = p * (r * r) + r + 1.f;
    uint32_t power = (vm_bits(shifted) << 23) + 0x3f800000u;
    return p * vm_from_bits(power) * keep;
}

VM_INLINE float vm_exp(float x)
{
    return vm_exp_sum(x, 0);
}

/* x > 0, normal and finite; smaller ones count as 1.2e-38. */
VM_INLINE float vm_log(float x)
{
    int32_t clipped = (int32_t)vm_bits(x);
    clipped = clipped < 0x800000 ? 0x800000 : clipped;
    /* m in [sqrt 1/2, sqrt 2) */
    uint32_t shifted = (uint32_t)clipped + (0x3f800000u - 0x3f3504f3u);
    float n = (float)(int32_t)(shifted >> 23) - 127.f;
    float m = vm_from_bits((shifted & 0x7fffffu) + 0x3f3504f3u) - 1.f;
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    float z = m * m;
    float y = m * z * p + n * -2.12194440e-4f - .5f * z;
    y = m + y + n * .693359375f;
    return y + (x - x);
}

VM_INLINE float vm_abs(float x)
{
    return vm_from_bits(vm_bits(x) & 0x7fffffffu);
}

VM_INLINE float vm_sigmoid(float x)
{
    return 1.f / (1.f + vm_exp(-x));
}

VM_INLINE float vm_tanh(float x)
{
    float a = vm_abs(x), z = x * x;
    float far = 1.f - 2.f / (vm_exp(2.f * a) + 1.f);
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    float near = p * z * x + x;
    return vm_select(a < .625f, near, vm_select(x < 0, -far, far));
}

/* log(1 + e^x) = max(x, 0) + log(1 + u), u = e^-|x|; what 1 + u loses by
 * rounding is added to first order. */
VM_INLINE float vm_softplus(float x)
{
    float u = vm_exp(-vm_abs(x)), w = 1.f + u;
    float lost = u - (w - 1.f);

    return vm_max(x, 0) + (vm_log(w) + lost / w);
}

/* Mills' ratio (1 - Phi(a)) / phi(a), a >= 0: a polynomial in (a - 3)/(a + 3)
 * over 1 + a. */
VM_INLINE float vm_mills(float a)
{
    float t = (a - 3.f) / (a + 3.f);
    float p = 0.00014969347f;
    p = p * t + 8.96748896e-05f;
    p = p * t - 0.00118815864f;
    p = p * t - 0.000915902377f;
    p = p * t + 0.00748653986f;
    p = p * t + 0.00291785002f;
    p = p * t - 0.0569617523f;
    p = p * t + 0.113207963f;
    p = p * t - 0.0411904498f;
    p = p * t - 0.241956655f;
    p = p * t + 1.21836121f;
    return p / (1.f + a);
}

/* phi(a), 0 <= a <= 14; a^2 is taken in two parts, or its rounding would show
 * in the exponential. */
VM_INLINE float vm_normal_pdf(float a)
{
    float high = vm_from_bits(vm_bits(a) & 0xfffff000u);

    return .39894228f *
           vm_exp_sum(-.5f * high * high, -.5f * (a - high) * (a + high));
}

/* 1 - Phi(z) */
VM_INLINE float vm_normal_sf(float z)
{
    float a = vm_abs(z);

    a = vm_select(a > 14.f, 14.f, a);
    float q = vm_normal_pdf(a) * vm_mills(a);
    return vm_select(z < 0, 1.f - q, q);
}

/* log(1 - Phi(z)) for any z, and phi(z) / (1 - Phi(z)). */
VM_INLINE float vm_normal_log_sf(float z, float *hazard)
{
    float a = vm_abs(z), mills = vm_mills(a);
    float phi = vm_normal_pdf(vm_select(a > 14.f, 14.f, a));
    float below = 1.f - phi * mills; /* for z < 0 */
    float far = -.5f * a * a - .918938533f + vm_log(mills);
    float near = vm_log(vm_select(z < 0, below, 1.f));
    *hazard = vm_select(z < 0, phi / below, 1.f / mills);
    return vm_select(z < 0, near, far);
}

#endif
