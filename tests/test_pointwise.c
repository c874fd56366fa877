// The small operations of the CPU kernels: exponentials, activations, gates, norms, convolution,
// attention and loss, each against closed forms in (long) double.
#define REAL_F32
#include "kernels/cpu/real.h"

#include "kernels/cpu/cpu.h"
#include "tests/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static double ulp_of(double x) { // of a float near x, normal range
    int exponent;
    frexp(x, &exponent);
    return ldexp(1, exponent - 24);
}

// Largest error of exp over [lo, hi], in units of the float result's last place. Walks the bits of
// floats, so that every binade is seen alike.
static double walk(float (*f)(float), float lo, float hi, uint32_t step, float *at) {
    double worst = 0;
    for (int sign = 0; sign < 2; sign++) {
        float from = sign ? (hi < 0 ? -hi : 0) : (lo > 0 ? lo : 0), to = sign ? -lo : hi;
        uint32_t a, b;
        if (to < from)
            continue;
        memcpy(&a, &from, 4);
        memcpy(&b, &to, 4);
        for (uint32_t u = a; u <= b; u += u + step < b || u == b ? step : b - u) {
            float x;
            memcpy(&x, &u, 4);
            x = sign ? -x : x;
            double want = exp((double)x), d = fabs((double)f(x) - want) / ulp_of(want);
            if (!(d <= worst)) {
                worst = d;
                *at = x;
            }
        }
    }
    return worst;
}

static float exp_here(float x) {
    return real_exp(x);
}

static void the_float_exponential_is_within_its_bound(void **state) {
    (void)state;
    float at = 0;
    double worst = walk(exp_here, -87.3f, 88.72283f, 97, &at);
    print_message("measured real_exp on [-87.3, 88.7228]: %.3f ulp at %.9g\n", worst, (double)at);
    assert_true(worst < 1.5);
    for (float x = 88.5f; x < 88.72283f; x = nextafterf(x, 100)) // the last stretch, every float
        assert_true(fabs((double)real_exp(x) / exp((double)x) - 1) < 2e-7);
    assert_true(isfinite(real_exp(88.7228317f)));
    assert_true(real_exp(88.72284f) == INFINITY); // e^88.722839... is the largest float
    assert_true(real_exp(INFINITY) == INFINITY);
    assert_true(real_exp(1e30f) == INFINITY);
    assert_true(real_exp(-INFINITY) == 0);
    assert_true(real_exp(-88) == 0);
    assert_true(real_exp(0) == 1);
    assert_true(isnan(real_exp(NAN)));
    // Never falls.
    float before = 0;
    for (float x = -88; x < 88.8f; x += 0.0137f) {
        float y = real_exp(x);
        assert_true(y >= before);
        before = y;
    }
}

typedef struct ops {
    backend *be;
    err e;
} ops;

static ops begin(precision p) {
    ops o = {0};
    o.be = cpu_open(p, 1, &o.e);
    assert_non_null(o.be);
    return o;
}

static mat put(ops *o, const double *v, int64_t rows, int64_t cols) {
    mat m = o->be->op->alloc(o->be, rows, cols);
    if (v)
        o->be->op->write(o->be, v, m);
    return m;
}

static void get(ops *o, mat m, double *v) {
    o->be->op->read(o->be, m, v);
    if (!backend_check(o->be, &o->e))
        fail_msg("%s", o->e.text);
    o->be->op->free(o->be, m);
}

// The exponential as the kernels are compiled (fused multiply-add, vector code): elu(x) + 1 is
// exp(x) below zero.
static void the_compiled_kernel_keeps_the_bound(void **state) {
    (void)state;
    enum { N = 1 << 16 };
    static double x[N], y[N];
    ops o = begin(PRECISION_F32);
    uint64_t seed = 5;
    for (int i = 0; i < N; i++)
        x[i] = (float)(-43.6 * (1 + tiny_uniform(&seed)));
    mat m = put(&o, x, 64, N / 64);
    o.be->op->activate(o.be, m, ACT_ELU1, 1);
    get(&o, m, y);
    double worst = 0;
    for (int i = 0; i < N; i++)
        worst = fmax(worst, fabs(y[i] - exp(x[i])) / ulp_of(exp(x[i])));
    print_message("measured exponential in the compiled kernel: %.3f ulp\n", worst);
    assert_true(worst < 1.5);
    backend_close(o.be);
}

// -3.4e38 .. 3.4e38 through every activation: finite or the right infinity, never NaN.
static void activations_hold_at_the_ends(void **state) {
    (void)state;
    static const double x[] = {-3e38, -1000, -100, -88, -20, -1,   -1e-30, 0,
                               1e-30, 1,     20,   88,  100, 1000, 3e38,   17};
    enum { N = 16 };
    for (int p = 0; p < 2; p++) {
        ops o = begin(p ? PRECISION_F64 : PRECISION_F32);
        double bound = p ? 1e-15 : 5e-7;
        for (int act = ACT_NONE; act <= ACT_ELU1; act++) {
            double y[N];
            mat m = put(&o, x, 2, N / 2);
            o.be->op->activate(o.be, m, (activation)act, 2);
            get(&o, m, y);
            for (int i = 0; i < N; i++) {
                double a = (double)(float)x[i], s = 1 / (1 + exp(-a));
                a = p ? x[i] : a;
                double want = act == ACT_NONE      ? a
                              : act == ACT_SILU    ? a * s
                              : act == ACT_SIGMOID ? s
                              : act == ACT_RELU    ? fmax(a, 0)
                              : a > 0              ? a + 1
                                                   : exp(a);
                if (!p && fabs(2 * want) > 3.4e38)
                    want = copysign(INFINITY, want);
                assert_true(y[i] == 2 * want ||
                            fabs(y[i] - 2 * want) <= bound * fabs(2 * want) + 1e-37);
            }
        }
        backend_close(o.be);
    }
}

// B41: log decays are natural logs, never positive, finite for finite inputs (B40).
static void log_decays_are_never_positive(void **state) {
    (void)state;
    static const double x[] = {-1e30, -200, -20, -1, 0, 1, 20, 200}, A[] = {-3, 2};
    static const double dt[] = {0.1, -0.2, 0.3, 0.4, -0.5, 0.6, 0.7, -0.8};
    for (int p = 0; p < 2; p++)
        for (int bounded = 0; bounded < 2; bounded++) {
            ops o = begin(p ? PRECISION_F64 : PRECISION_F32);
            double y[8];
            mat m = put(&o, x, 1, 8), a = put(&o, A, 1, 2), d = put(&o, dt, 1, 8);
            o.be->op->log_decay(o.be, m, a, d, bounded ? -5 : NAN);
            o.be->op->free(o.be, a);
            o.be->op->free(o.be, d);
            get(&o, m, y);
            for (int i = 0; i < 8; i++) {
                double z = x[i] + dt[i], rate = exp(A[i / 4]);
                double want = bounded ? -5 / (1 + exp(-rate * z))
                                      : -rate * (z > 0 ? z + log1p(exp(-z)) : log1p(exp(z)));
                assert_true(y[i] <= 0 && isfinite(y[i]));
                assert_true(fabs(y[i] - want) <= (p ? 1e-14 : 2e-6) * fabs(want) + 1e-37);
            }
            backend_close(o.be);
        }
}

// B59: a zero head stays zero under L2. L1 is the plain sum with its sign, and its eps.
static void norms_of_heads(void **state) {
    (void)state;
    static const double x[] = {0, 0, 0, 3, -4, 0, 1, 2, -1};
    double y[9];
    ops o = begin(PRECISION_F64);
    mat m = put(&o, x, 1, 9);
    o.be->op->normalize_heads(o.be, m, 3, HEAD_NORM_L2, 1e-6);
    get(&o, m, y);
    for (int i = 0; i < 3; i++) {
        assert_true(y[i] == 0);
        assert_true(fabs(y[3 + i] - x[3 + i] / sqrt(25 + 1e-6)) < 1e-15);
        assert_true(fabs(y[6 + i] - x[6 + i] / sqrt(6 + 1e-6)) < 1e-15);
    }
    m = put(&o, x + 6, 1, 3);
    o.be->op->normalize_heads(o.be, m, 3, HEAD_NORM_L1, 0);
    get(&o, m, y);
    for (int i = 0; i < 3; i++)
        assert_true(y[i] == x[6 + i] / 2);
    backend_close(o.be);
}

// Values that a type holds and whose squares (L1: whose sum) it does not: NaN, never the 0 of a division by
// infinity (15). The row beside them is as it would be alone.
static void norms_that_overflow_are_no_numbers(void **state) {
    (void)state;
    for (int p = 0; p < 2; p++) {
        const double huge = p ? 1.5e308 : 3e38;
        const double x[] = {huge, 1, huge, 2, 3, 4, 1, 2};
        for (int which = 0; which < 5; which++) {
            if (which == 4 && p == 0)
                continue; // float32 LayerNorm sums in double, which has room
            ops o = begin(p ? PRECISION_F64 : PRECISION_F32);
            const backend_ops *op = o.be->op;
            double y[8];
            mat m = put(&o, x, 2, 4);
            if (which == 0)
                op->rms_norm(o.be, m, MAT_NONE, 1e-6, m);
            else if (which == 4)
                op->layer_norm(o.be, m, MAT_NONE, MAT_NONE, 4, 1e-6, m);
            else
                op->normalize_heads(o.be, m, 4,
                                    which == 1   ? HEAD_NORM_L2
                                    : which == 2 ? HEAD_NORM_L2_FLOOR
                                                 : HEAD_NORM_L1,
                                    1e-6);
            get(&o, m, y);
            for (int i = 0; i < 4; i++)
                if (!isnan(y[i]) || !isfinite(y[4 + i]) || y[5] == 0)
                    fail_msg("norm %d in f%d: %g, and %g beside it", which, p ? 64 : 32, y[i],
                             y[4 + i]);
            backend_close(o.be);
        }
    }
}

// Blocks of every size from 1 to the row's length, widths 1 to 6, give the convolution of the row.
static void the_convolution_does_not_depend_on_the_block(void **state) {
    (void)state;
    enum { T = 23, D = 5 };
    uint64_t seed = 6;
    double x[T * D], bias[D], W[D * 6], y[T * D];
    for (int i = 0; i < T * D; i++)
        x[i] = tiny_normal(&seed);
    for (int i = 0; i < D * 6; i++)
        W[i] = tiny_normal(&seed);
    for (int i = 0; i < D; i++)
        bias[i] = tiny_normal(&seed);
    ops o = begin(PRECISION_F64);
    const backend_ops *op = o.be->op;
    for (int w = 1; w <= 6; w++)
        for (int block = 1; block <= T; block++) {
            mat all = put(&o, x, T, D), out = put(&o, NULL, T, D), k = put(&o, W, D, w);
            mat b = put(&o, bias, 1, D), tail = put(&o, NULL, w > 1 ? w - 1 : 1, D);
            for (int t = 0; t < T; t += block) {
                int n = T - t < block ? T - t : block;
                op->short_conv(o.be, mat_rows(all, t, n), k, w % 2 ? b : MAT_NONE, tail, ACT_SILU,
                               mat_rows(out, t, n));
            }
            get(&o, out, y);
            op->free(o.be, all), op->free(o.be, k), op->free(o.be, b), op->free(o.be, tail);
            for (int t = 0; t < T; t++)
                for (int d = 0; d < D; d++) {
                    double sum = w % 2 ? bias[d] : 0;
                    for (int i = 0; i < w; i++)
                        if (t - (w - 1) + i >= 0)
                            sum += W[d * w + i] * x[(t - (w - 1) + i) * D + d];
                    sum = sum / (1 + exp(-sum));
                    assert_true(fabs(y[t * D + d] - sum) < 1e-13);
                }
        }
    backend_close(o.be);
}

// Scores of +-1e4: a softmax without its maximum taken out would overflow.
static void attention_survives_large_scores(void **state) {
    (void)state;
    enum { T = 150, D = 4 };
    static double q[T * D], k[T * D], v[T * D], got[T * D];
    uint64_t seed = 8;
    for (int i = 0; i < T * D; i++) {
        q[i] = (float)(100 * tiny_normal(&seed));
        k[i] = (float)(100 * tiny_normal(&seed));
        v[i] = (float)tiny_normal(&seed);
    }
    for (int p = 0; p < 2; p++)
        for (int window = 0; window < 100; window = window * 2 + 1) {
            ops o = begin(p ? PRECISION_F64 : PRECISION_F32);
            mat a = put(&o, q, T, D), b = put(&o, k, T, D), c = put(&o, v, T, D);
            mat out = put(&o, NULL, T, D);
            o.be->op->attention(o.be, a, b, c, D, 0, window, out);
            get(&o, out, got);
            o.be->op->free(o.be, a), o.be->op->free(o.be, b), o.be->op->free(o.be, c);
            double worst = 0;
            for (int t = 0; t < T; t++) {
                int first = window && t + 1 > window ? t + 1 - window : 0;
                double s[T], top = -INFINITY, sum = 0, want[D] = {0};
                for (int j = first; j <= t; j++) {
                    s[j] = 0;
                    for (int i = 0; i < D; i++)
                        s[j] += q[t * D + i] * k[j * D + i] / 2;
                    top = fmax(top, s[j]);
                }
                for (int j = first; j <= t; j++) {
                    sum += exp(s[j] - top);
                    for (int i = 0; i < D; i++)
                        want[i] += exp(s[j] - top) * v[j * D + i];
                }
                for (int i = 0; i < D; i++)
                    worst = fmax(worst, fabs(want[i] / sum - got[t * D + i]));
            }
            // float32: a score of 1e4 has steps of 1e-3, and so has a weight.
            assert_true(worst < (p ? 1e-11 : 2e-2));
            backend_close(o.be);
        }
}

// Losses over more words than a tile of logits holds, extreme logits, ties, absent targets.
static void losses_and_likeliest_words(void **state) {
    (void)state;
    enum { N = 9001, T = 67 };
    uint64_t seed = 9;
    static double head[N], x[T];
    double loss[T];
    int32_t target[T], best[T];
    for (int j = 0; j < N; j++)
        head[j] = (float)tiny_normal(&seed);
    head[8200] = head[17] = 9; // equal largest ones in two tiles: the lower word counts
    for (int t = 0; t < T; t++) {
        x[t] = (float)((t - 20) * 1.7);
        target[t] = t == 5 ? -1 : (int32_t)(tiny_next(&seed) % N);
    }
    target[6] = N - 1;
    for (int p = 0; p < 2; p++) {
        ops o = begin(p ? PRECISION_F64 : PRECISION_F32);
        mat a = put(&o, x, T, 1), w = put(&o, head, N, 1);
        o.be->op->losses(o.be, a, w, target, loss, best);
        assert_true(backend_check(o.be, &o.e));
        double worst = 0;
        for (int t = 0; t < T; t++) {
            long double top = -INFINITY, sum = 0;
            for (int j = 0; j < N; j++)
                top = fmaxl(top, (long double)x[t] * head[j]);
            for (int j = 0; j < N; j++)
                sum += expl((long double)x[t] * head[j] - top);
            if (t == 5) {
                assert_true(isnan(loss[t]));
                continue;
            }
            double want = (double)(logl(sum) + top - (long double)x[t] * head[target[t]]);
            worst = fmax(worst, fabs(loss[t] - want) / fmax(1, fabs(want)));
            if (x[t] > 0)
                assert_int_equal(best[t], 17);
        }
        print_message("measured loss over %d words, %s: %.1e of its value\n", N, p ? "f64" : "f32",
                      worst);
        assert_true(worst < (p ? 1e-14 : 3e-7));
        // A NaN or infinite feature gives NaN, not a number that looks like a loss.
        double bad[] = {NAN, INFINITY};
        mat b = put(&o, bad, 2, 1);
        o.be->op->losses(o.be, b, w, target, loss, best);
        assert_true(isnan(loss[0]) && !isfinite(loss[1]));
        o.be->op->free(o.be, a), o.be->op->free(o.be, b), o.be->op->free(o.be, w);
        backend_close(o.be);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_float_exponential_is_within_its_bound),
        cmocka_unit_test(the_compiled_kernel_keeps_the_bound),
        cmocka_unit_test(activations_hold_at_the_ends),
        cmocka_unit_test(log_decays_are_never_positive),
        cmocka_unit_test(norms_of_heads),
        cmocka_unit_test(norms_that_overflow_are_no_numbers),
        cmocka_unit_test(the_convolution_does_not_depend_on_the_block),
        cmocka_unit_test(attention_survives_large_scores),
        cmocka_unit_test(losses_and_likeliest_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
