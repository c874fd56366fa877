#include "core/dtype.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} types[] = {
    [DT_F64] = {"F64", 8},   [DT_F32] = {"F32", 4},         [DT_F16] = {"F16", 2},
    [DT_BF16] = {"BF16", 2}, [DT_I64] = {"I64", 8},         [DT_I32] = {"I32", 4},
    [DT_I16] = {"I16", 2},   [DT_I8] = {"I8", 1},           [DT_U64] = {"U64", 8},
    [DT_U32] = {"U32", 4},   [DT_U16] = {"U16", 2},         [DT_U8] = {"U8", 1},
    [DT_BOOL] = {"BOOL", 1}, [DT_F8_E4M3] = {"F8_E4M3", 1}, [DT_F8_E5M2] = {"F8_E5M2", 1},
    [DT_UNKNOWN] = {"?", 0},
};

size_t dtype_size(dtype d) {
    return types[d].size;
}

const char *dtype_name(dtype d) {
    return types[d].name;
}

dtype dtype_from_name(const char *name) {
    for (int d = 0; d < DT_UNKNOWN; d++)
        if (strcmp(types[d].name, name) == 0)
            return (dtype)d;
    return DT_UNKNOWN;
}

bool dtype_is_weight(dtype d) {
    return d == DT_F64 || d == DT_F32 || d == DT_F16 || d == DT_BF16;
}

static inline float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline float bf16(uint16_t h) {
    return float_of((uint32_t)h << 16);
}

// Exponent and fraction of a half, moved to their places in a float, mean a number 2^112 times too
// small; the multiplication is exact and also normalises the subnormals. Infinity and NaN get the
// float's full exponent. No branch, so that the loops below become vector code.
static inline float half(uint16_t h) {
    uint32_t body = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16, bits;
    float f = float_of(body << 13) * 0x1p112f;
    memcpy(&bits, &f, sizeof bits);
    bits |= sign | (body >= 0x7c00u ? 0x7f800000u : 0u);
    return float_of(bits);
}

// `omp simd` asks for vector code at -O2; memcpy of one element is an unaligned load.
#define CONVERT(from, to, value)                                                                   \
    do {                                                                                           \
        _Pragma("omp simd") for (size_t i = 0; i < n; i++) {                                       \
            from x;                                                                                \
            memcpy(&x, s + i * sizeof x, sizeof x);                                                \
            dst[i] = (to)(value);                                                                  \
        }                                                                                          \
    } while (0)

void dtype_to_f64(dtype d, const void *src, size_t n, double *dst) {
    const unsigned char *s = src;
    assert(dtype_is_weight(d));
    if (n == 0)
        return;
    if (d == DT_F64)
        memcpy(dst, s, n * sizeof *dst);
    else if (d == DT_F32)
        CONVERT(float, double, x);
    else if (d == DT_F16)
        CONVERT(uint16_t, double, half(x));
    else if (d == DT_BF16)
        CONVERT(uint16_t, double, bf16(x));
}

void dtype_to_f32(dtype d, const void *src, size_t n, float *dst) {
    const unsigned char *s = src;
    assert(dtype_is_weight(d));
    if (n == 0)
        return;
    if (d == DT_F32)
        memcpy(dst, s, n * sizeof *dst);
    else if (d == DT_F64)
        CONVERT(double, float, x);
    else if (d == DT_F16)
        CONVERT(uint16_t, float, half(x));
    else if (d == DT_BF16)
        CONVERT(uint16_t, float, bf16(x));
}
