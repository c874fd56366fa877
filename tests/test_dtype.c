#include "core/dtype.h"
#include "core/tensor.h"
#include "tests/files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void names_and_sizes_agree(void **state) {
    (void)state;
    static const size_t sizes[] = {8, 4, 2, 2, 8, 4, 2, 1, 8, 4, 2, 1, 1, 1, 1, 0};
    for (int d = 0; d <= DT_UNKNOWN; d++) {
        assert_int_equal(dtype_size((dtype)d), sizes[d]);
        assert_int_equal(dtype_from_name(dtype_name((dtype)d)), d);
    }
    assert_int_equal(dtype_from_name("F4"), DT_UNKNOWN);
    assert_int_equal(dtype_from_name("f32"), DT_UNKNOWN);
    assert_string_equal(dtype_name(DT_UNKNOWN), "?");
    int weights = 0;
    for (int d = 0; d <= DT_UNKNOWN; d++)
        weights += dtype_is_weight((dtype)d);
    assert_int_equal(weights, 4);
}

// IEEE 754 binary16, from its definition: (-1)^s 2^(e-15) (1 + f/1024), subnormals 2^-14 f/1024.
static double half_by_definition(unsigned h) {
    int e = (int)(h >> 10 & 31), f = (int)(h & 1023);
    double v = e == 0 ? ldexp(f, -24) : e == 31 ? (f ? NAN : INFINITY) : ldexp(1024 + f, e - 25);
    return h >> 15 ? -v : v;
}

static void every_half_and_bfloat16_is_exact(void **state) {
    (void)state;
    enum { N = 65536 };
    uint16_t *in = malloc(N * sizeof *in);
    double *d = malloc(N * sizeof *d);
    float *s = malloc(N * sizeof *s);
    for (unsigned i = 0; i < N; i++)
        in[i] = (uint16_t)i;
    dtype_to_f64(DT_F16, in, N, d);
    dtype_to_f32(DT_F16, in, N, s);
    for (unsigned i = 0; i < N; i++) {
        double want = half_by_definition(i);
        if (isnan(want)) {
            assert_true(isnan(d[i]) && isnan(s[i]));
            continue;
        }
        assert_memory_equal(&d[i], &want, sizeof want); // the sign of zero too
        assert_true((double)s[i] == want && !!signbit(s[i]) == (i >> 15));
    }
    dtype_to_f64(DT_BF16, in, N, d);
    dtype_to_f32(DT_BF16, in, N, s);
    for (unsigned i = 0; i < N; i++) {
        uint32_t bits = (uint32_t)i << 16;
        float want;
        memcpy(&want, &bits, sizeof want);
        if (isnan(want)) {
            assert_true(isnan(d[i]) && isnan(s[i])); // B15: a NaN stays one
            continue;
        }
        assert_memory_equal(&s[i], &want, sizeof want);
        assert_true(d[i] == (double)want);
    }
    free(in), free(d), free(s);
}

static void doubles_are_rounded_to_nearest(void **state) {
    (void)state;
    double in[] = {1.0 / 3, 1 + 0x1p-24, 1 + 0x1.8p-23, 1e300, -1e-300, -0.0};
    float out[6];
    dtype_to_f32(DT_F64, in, 6, out);
    assert_true(out[0] == 1.0f / 3);
    assert_true(out[1] == 1.0f);         // a tie goes to the even one
    assert_true(out[2] == 1 + 0x1p-22f); // so does this
    assert_true(isinf(out[3]) && out[4] == 0 && signbit(out[5]));
}

// B7
static void any_alignment_and_length_gives_the_same(void **state) {
    (void)state;
    enum { N = 131 };
    static const dtype types[] = {DT_F64, DT_F32, DT_F16, DT_BF16};
    unsigned char raw[N * 8 + 8];
    for (int k = 0; k < 4; k++) {
        size_t size = dtype_size(types[k]);
        double want[N], got[N];
        float want32[N], got32[N];
        unsigned char aligned[N * 8] __attribute__((aligned(64)));
        for (int i = 0; i < N; i++) { // plain numbers of each type
            double x = i * 0.25 - 7;
            float f = (float)x;
            uint32_t bits;
            memcpy(&bits, &f, 4);
            uint16_t b = (uint16_t)(bits >> 16), h = (uint16_t)(0x3c00 + i);
            const void *p[] = {&x, &f, &h, &b};
            memcpy(aligned + (size_t)i * size, p[k], size);
        }
        dtype_to_f64(types[k], aligned, N, want);
        dtype_to_f32(types[k], aligned, N, want32);
        for (size_t shift = 0; shift < 8; shift++)
            for (size_t n = 0; n <= N; n += shift + 1) {
                memcpy(raw + shift, aligned, n * size);
                got[n < N ? n : 0] = -99;
                dtype_to_f64(types[k], raw + shift, n, got);
                dtype_to_f32(types[k], raw + shift, n, got32);
                assert_memory_equal(got, want, n * sizeof *got);
                assert_memory_equal(got32, want32, n * sizeof *got32);
                if (n > 0 && n < N)
                    assert_true(got[n] == -99); // nothing written behind the end
            }
    }
}

static void conversion_keeps_up_with_memory(void **state) {
    (void)state;
    enum { N = 1 << 20 };
    uint16_t *in = calloc(N, sizeof *in);
    float *out = calloc(N, sizeof *out);
    static const dtype types[] = {DT_BF16, DT_F16};
    for (int k = 0; k < 2; k++) {
        double best = 1e9;
        for (int r = 0; r < 5; r++) {
            double t = files_seconds();
            dtype_to_f32(types[k], in, N, out);
            t = files_seconds() - t;
            best = t < best ? t : best;
        }
        print_message("measured %s to float: %.1f G elements/s\n", dtype_name(types[k]),
                      N / best / 1e9);
    }
    free(in), free(out);
}

static void shapes_are_written_as_lists(void **state) {
    (void)state;
    char buf[64];
    tensor t = {.rank = 3, .dims = {4, 1, 3}};
    assert_string_equal(tensor_shape_text(&t, buf, sizeof buf), "[4, 1, 3]");
    t.rank = 0;
    assert_string_equal(tensor_shape_text(&t, buf, sizeof buf), "[]");
    t.rank = 1;
    assert_string_equal(tensor_shape_text(&t, buf, sizeof buf), "[4]");
    t.rank = 3;
    for (size_t size = 1; size < 10; size++)
        assert_true(strlen(tensor_shape_text(&t, buf, size)) < size);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_sizes_agree),
        cmocka_unit_test(every_half_and_bfloat16_is_exact),
        cmocka_unit_test(doubles_are_rounded_to_nearest),
        cmocka_unit_test(any_alignment_and_length_gives_the_same),
        cmocka_unit_test(conversion_keeps_up_with_memory),
        cmocka_unit_test(shapes_are_written_as_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
