// kernels/cpu/real.h - the floating-point type a *.real.c file is being compiled for.
//
// Such a file is compiled twice: with REAL_F32 (real = float, names end in _f32) and with REAL_F64.
// FN(dense_linear) is the function's name for the current type.
#ifndef DELTOP_REAL_H
#define DELTOP_REAL_H

#include "core/backend.h"

#include <math.h>
#include <string.h>

#ifdef REAL_F32
typedef float real;
#define FN(name)  name##_f32
#define REAL_GEMM cblas_sgemm
#else
typedef double real;
#define FN(name)  name##_f64
#define REAL_GEMM cblas_dgemm
#endif

static inline real *row_of(mat m, int64_t i) {
    return (real *)m.p + i * m.ld;
}

// exp that a loop can vectorise: the float version is a polynomial after range reduction (error
// below 1.5 ulp on [-87.3, 88.7228]: 0.98 measured by tests/test_pointwise.c); below, it returns 0
// (no subnormal results), above the range of float infinity. The double version is libm's.
static inline real real_exp(real x) {
#ifdef REAL_F32
    const float top = 88.7228317f; // the largest whose exponential is a float
    const float log2e = 1.44269504f, hi = 0.693359375f, lo = -2.12194440e-4f;
    float clamped = x < -87.3f ? -87.3f : x > top ? top : x;
    // Adding 1.5 x 2^23 rounds to the nearest whole number and leaves it in the low bits.
    float shifted = clamped * log2e + 12582912.0f;
    int32_t n;
    memcpy(&n, &shifted, sizeof n);
    float whole = shifted - 12582912.0f;
    float r = (clamped - whole * hi) - whole * lo;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = (p * r) * r + r + 1.0f;
    // 2^n in two halves: n reaches 128, which no float exponent holds.
    int32_t k = n - 0x4b400000, half = k >> 1;
    uint32_t b1 = (uint32_t)(half + 127) << 23, b2 = (uint32_t)(k - half + 127) << 23;
    float s1, s2;
    memcpy(&s1, &b1, sizeof s1);
    memcpy(&s2, &b2, sizeof s2);
    float y = p * s1 * s2;
    y = x < -87.3f ? 0.0f : x > top ? INFINITY : y;
    return x != x ? x : y;
#else
    return exp(x);
#endif
}

static inline real real_sigmoid(real x) {
    return 1 / (1 + real_exp(-x));
}

// ln(1 + e^x) without overflow and without losing small values.
static inline real real_softplus(real x) {
#ifdef REAL_F32
    return (x > 0 ? x : 0) + log1pf(expf(-fabsf(x)));
#else
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
#endif
}

#endif
