// LayerNorm and GroupNorm, token shift, channel mixes, head products and forget gates, in both
// precisions, against plain loops in double.
#include "kernels/cpu/cpu.h"
#include "tests/tiny_model.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 13, HEADS = 3, DIM = 7, COLS = HEADS * DIM };

typedef struct bench {
    backend *be;
    double unit; // rounding of one element
    uint64_t seed;
} bench;

static bench bench_open(precision p) {
    err e = {0};
    bench b = {cpu_open(p, 2, &e), p == PRECISION_F32 ? FLT_EPSILON : DBL_EPSILON, 5};
    assert_non_null(b.be);
    return b;
}

// A random mat; its numbers, as they are stored, go to v.
static mat fill(bench *b, int64_t rows, int64_t cols, double mean, double spread, double *v) {
    mat m = b->be->op->alloc(b->be, rows, cols);
    assert_false(mat_none(m));
    for (int64_t i = 0; i < rows * cols; i++)
        v[i] = mean + spread * tiny_normal(&b->seed);
    b->be->op->write(b->be, v, m);
    b->be->op->read(b->be, m, v);
    return m;
}

static double worst(bench *b, mat m, const double *want) {
    double *got = calloc((size_t)(m.rows * m.cols), sizeof *got), most = 0;
    b->be->op->read(b->be, m, got);
    for (int64_t i = 0; i < m.rows * m.cols; i++) {
        double d = fabs(got[i] - want[i]) / fmax(1, fabs(want[i]));
        if (!(d <= most))
            most = isnan(d) ? INFINITY : d;
    }
    free(got);
    return most;
}

static void layer(const double *x, const double *w, const double *bias, int64_t group, double eps,
                  double *y) {
    for (int64_t i = 0; i < ROWS * COLS; i += group) {
        long double mean = 0, var = 0;
        for (int64_t k = 0; k < group; k++)
            mean += (long double)x[i + k] / group;
        for (int64_t k = 0; k < group; k++)
            var += (x[i + k] - mean) * (x[i + k] - mean) / group;
        for (int64_t k = 0; k < group; k++)
            y[i + k] = (double)((x[i + k] - mean) / sqrtl(var + eps) * (w ? w[(i + k) % COLS] : 1) +
                                (bias ? bias[(i + k) % COLS] : 0));
    }
}

// Sums are in double: float results are off by their own rounding, double ones by that of a mean of
// 1000 (up to 21 additions of it) in a stream whose spread is 1.
static void layer_and_group_norms(void **state) {
    (void)state;
    for (int p = 0; p < 2; p++) {
        bench b = bench_open(p ? PRECISION_F64 : PRECISION_F32);
        double x[ROWS * COLS], w[COLS], c[COLS], want[ROWS * COLS];
        double allowed = (p ? 21000 : 2) * b.unit;
        mat mx = fill(&b, ROWS, COLS, 1000, 1, x), mw = fill(&b, 1, COLS, 1, 0.5, w);
        mat mc = fill(&b, 1, COLS, 0, 1, c), my = b.be->op->alloc(b.be, ROWS, COLS);
        for (int k = 0; k < 4; k++) {
            int64_t group = k & 1 ? DIM : COLS;
            bool plain = k & 2;
            b.be->op->layer_norm(b.be, mx, plain ? MAT_NONE : mw, plain ? MAT_NONE : mc, group,
                                 1e-5, my);
            layer(x, plain ? NULL : w, plain ? NULL : c, group, 1e-5, want);
            double off = worst(&b, my, want);
            print_message("measured layer norm, groups of %d: %.1e (%.1f units)\n", (int)group, off,
                          off / b.unit);
            assert_true(off <= allowed);
        }
        b.be->op->layer_norm(b.be, mx, mw, mc, COLS, 1e-5, mx); // in place
        layer(x, w, c, COLS, 1e-5, want);
        assert_true(worst(&b, mx, want) <= allowed);
        mat all[] = {mx, mw, mc, my};
        for (int i = 0; i < 4; i++)
            b.be->op->free(b.be, all[i]);
        backend_close(b.be);
    }
}

static void a_constant_row_gives_the_bias(void **state) {
    (void)state;
    bench b = bench_open(PRECISION_F32);
    double x[COLS], c[COLS];
    mat mx = fill(&b, 1, COLS, 3, 0, x), mc = fill(&b, 1, COLS, 0, 1, c);
    b.be->op->layer_norm(b.be, mx, MAT_NONE, mc, COLS, 0, mx); // 0 / 0 without care
    double got[COLS];
    b.be->op->read(b.be, mx, got);
    for (int i = 0; i < COLS; i++)
        assert_true(isnan(got[i]) || got[i] == c[i]); // eps 0 is what the config may say
    b.be->op->write(b.be, x, mx);
    b.be->op->layer_norm(b.be, mx, MAT_NONE, mc, COLS, 1e-30, mx);
    assert_true(worst(&b, mx, c) == 0);
    b.be->op->free(b.be, mx);
    b.be->op->free(b.be, mc);
    backend_close(b.be);
}

// In one piece and in pieces of 1, 4 and 8 rows, the tail carrying over.
static void token_shift_is_the_row_before_less_the_row(void **state) {
    (void)state;
    for (int p = 0; p < 2; p++) {
        bench b = bench_open(p ? PRECISION_F64 : PRECISION_F32);
        double x[ROWS * COLS], want[ROWS * COLS];
        mat mx = fill(&b, ROWS, COLS, 0, 1, x), my = b.be->op->alloc(b.be, ROWS, COLS);
        mat tail = b.be->op->alloc(b.be, 1, COLS);
        for (int i = 0; i < ROWS * COLS; i++)
            want[i] = (i >= COLS ? x[i - COLS] : 0) - x[i];
        b.be->op->token_shift(b.be, mx, tail, my);
        assert_true(worst(&b, my, want) <= b.unit);
        assert_true(worst(&b, tail, x + (ROWS - 1) * COLS) == 0);
        b.be->op->zero(b.be, tail);
        b.be->op->zero(b.be, my);
        const int64_t cuts[] = {0, 1, 5, 13};
        for (int i = 0; i < 3; i++)
            b.be->op->token_shift(b.be, mat_rows(mx, cuts[i], cuts[i + 1] - cuts[i]), tail,
                                  mat_rows(my, cuts[i], cuts[i + 1] - cuts[i]));
        assert_true(worst(&b, my, want) <= b.unit);
        b.be->op->token_shift(b.be, mat_rows(mx, 0, 0), tail, mat_rows(my, 0, 0)); // nothing
        assert_true(worst(&b, tail, x + (ROWS - 1) * COLS) == 0);
        b.be->op->free(b.be, mx);
        b.be->op->free(b.be, my);
        b.be->op->free(b.be, tail);
        backend_close(b.be);
    }
}

static void mixes_and_head_products(void **state) {
    (void)state;
    for (int p = 0; p < 2; p++) {
        bench b = bench_open(p ? PRECISION_F64 : PRECISION_F32);
        const backend_ops *op = b.be->op;
        double x[ROWS * COLS], d[ROWS * COLS], m[ROWS * COLS], w[COLS], s[ROWS * HEADS];
        double want[ROWS * COLS];
        mat mx = fill(&b, ROWS, COLS, 0, 1, x), md = fill(&b, ROWS, COLS, 0, 1, d);
        mat mm = fill(&b, ROWS, COLS, 0, 1, m), mw = fill(&b, 1, COLS, 0, 1, w);
        mat ms = fill(&b, ROWS, HEADS, 3, 0.5, s), my = op->alloc(b.be, ROWS, COLS);
        double tol = 20 * b.unit; // a handful of operations, sums of 7

        for (int i = 0; i < ROWS * COLS; i++)
            want[i] = x[i] + d[i] * m[i];
        op->mix(b.be, mx, md, mm, my);
        assert_true(worst(&b, my, want) <= tol);
        for (int i = 0; i < ROWS * COLS; i++)
            want[i] = d[i] * w[i % COLS];
        op->mix(b.be, MAT_NONE, md, mw, my);
        assert_true(worst(&b, my, want) <= tol);

        for (int i = 0; i < ROWS * HEADS; i++) {
            want[i] = 0;
            for (int k = 0; k < DIM; k++)
                want[i] += w[i % HEADS * DIM + k] * x[i * DIM + k] * d[i * DIM + k];
        }
        mat sums = op->alloc(b.be, ROWS, HEADS);
        op->dot_heads(b.be, mx, md, mw, DIM, sums);
        assert_true(worst(&b, sums, want) <= tol);
        for (int i = 0; i < ROWS * HEADS; i++) {
            want[i] = 0;
            for (int k = 0; k < DIM; k++)
                want[i] += x[i * DIM + k] * d[i * DIM + k];
        }
        op->dot_heads(b.be, mx, md, MAT_NONE, DIM, sums);
        assert_true(worst(&b, sums, want) <= tol);

        for (int i = 0; i < ROWS * COLS; i++)
            want[i] = m[i] / (s[i / DIM] + 0.25);
        op->divide_heads(b.be, ms, 0.25, DIM, mm);
        assert_true(worst(&b, mm, want) <= tol);

        for (int i = 0; i < ROWS * COLS; i++)
            want[i] = w[i % COLS];
        op->broadcast(b.be, mw, my);
        assert_true(worst(&b, my, want) == 0);

        // scale_heads without a scale repeats: head h is head h / 3 of a narrower row.
        for (int i = 0; i < ROWS * COLS; i++)
            want[i] = x[i / COLS * COLS + i % DIM];
        op->scale_heads(b.be, mat_cols(mx, 0, DIM), MAT_NONE, 1, DIM, my);
        assert_true(worst(&b, my, want) == 0);
        mat all[] = {mx, md, mm, mw, ms, my, sums};
        for (int i = 0; i < 7; i++)
            op->free(b.be, all[i]);
        backend_close(b.be);
    }
}

// ln(l + (1 - l) sigmoid(x)) by long double, far into both tails.
static void forget_gates_keep_their_value_when_nearly_shut_and_nearly_open(void **state) {
    (void)state;
    static const double at[] = {-700, -90, -40, -10, -1, 0, 1, 10, 40, 90, 700};
    static const double least[] = {0, 1e-30, 1e-6, 0.3, 0.999};
    enum { N = sizeof at / sizeof *at };
    for (int p = 0; p < 2; p++) {
        bench b = bench_open(p ? PRECISION_F64 : PRECISION_F32);
        double off = 0;
        for (int l = 0; l <= 5; l++) {
            double v[N], bound[N], got[N];
            mat mx = b.be->op->alloc(b.be, 1, N), ml = b.be->op->alloc(b.be, 1, N);
            for (int i = 0; i < N; i++)
                bound[i] = l < 5 ? least[l] : 0;
            b.be->op->write(b.be, at, mx);
            b.be->op->write(b.be, bound, ml);
            b.be->op->read(b.be, ml, bound);
            b.be->op->log_forget(b.be, mx, l < 5 ? ml : MAT_NONE, 16, -40);
            b.be->op->read(b.be, mx, got);
            for (int i = 0; i < N; i++) {
                long double z = at[i], open = z < 0 ? expl(z) / (1 + expl(z)) : 1 / (1 + expl(-z));
                long double shut = z < 0 ? 1 / (1 + expl(z)) : expl(-z) / (1 + expl(-z));
                long double part = (1 - (long double)bound[i]) * shut; // 1 - w
                v[i] =
                    (double)(part < 0.5L ? log1pl(-part) : logl(bound[i] + (1 - bound[i]) * open));
                v[i] = fmax(v[i] / 16, -40);
                off = fmax(off, fabs(got[i] - v[i]) / fmax(fabs(v[i]), 1e-30));
                assert_true(got[i] <= 0);
            }
            b.be->op->free(b.be, mx);
            b.be->op->free(b.be, ml);
        }
        print_message("measured log_forget %s: %.1e relative\n", p ? "f64" : "f32", off);
        // Float: exp(-90) in the tail of the softplus is a float subnormal, hence the second term.
        assert_true(off <= (p ? 1e-12 : 2e-6));
        backend_close(b.be);
    }
}

static void activations_of_the_other_families(void **state) {
    (void)state;
    for (int p = 0; p < 2; p++) {
        bench b = bench_open(p ? PRECISION_F64 : PRECISION_F32);
        double x[ROWS * COLS], want[ROWS * COLS];
        static const activation acts[] = {ACT_TANH, ACT_RELU2, ACT_ONE_MINUS_EXP};
        for (int a = 0; a < 3; a++) {
            mat m = fill(&b, ROWS, COLS, 0, 2, x);
            for (int i = 0; i < ROWS * COLS; i++)
                want[i] = 1.5 * (a == 0   ? tanh(x[i])
                                 : a == 1 ? (x[i] > 0 ? x[i] * x[i] : 0)
                                          : -expm1(x[i]));
            b.be->op->activate(b.be, m, acts[a], 1.5);
            assert_true(worst(&b, m, want) <= 4 * b.unit);
            b.be->op->free(b.be, m);
        }
        backend_close(b.be);
    }
}

// F.normalize: x / max(|x|, eps); the plain sum with its eps.
static void norms_of_heads_with_a_floor(void **state) {
    (void)state;
    for (int p = 0; p < 2; p++) {
        bench b = bench_open(p ? PRECISION_F64 : PRECISION_F32);
        double x[ROWS * COLS], want[ROWS * COLS];
        for (int k = 0; k < 2; k++) {
            mat m = fill(&b, ROWS, COLS, k ? 1 : 0, 1, x);
            memset(x, 0, DIM * sizeof *x); // a zero head stays zero (B59)
            for (int i = DIM; i < 2 * DIM; i++)
                x[i] = 1e-14;
            b.be->op->write(b.be, x, m);
            b.be->op->read(b.be, m, x);
            for (int i = 0; i < ROWS * COLS; i += DIM) {
                double sum = 0;
                for (int c = 0; c < DIM; c++)
                    sum += k ? x[i + c] : x[i + c] * x[i + c];
                for (int c = 0; c < DIM; c++)
                    want[i + c] = x[i + c] / (k ? sum + 1e-4 : fmax(sqrt(sum), 1e-12));
            }
            b.be->op->normalize_heads(b.be, m, DIM, k ? HEAD_NORM_L1 : HEAD_NORM_L2_FLOOR,
                                      k ? 1e-4 : 1e-12);
            // Sums of either sign come near zero and lose what cancels: 1000 units.
            assert_true(worst(&b, m, want) <= 1000 * b.unit);
            b.be->op->free(b.be, m);
        }
        backend_close(b.be);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_and_group_norms),
        cmocka_unit_test(a_constant_row_gives_the_bias),
        cmocka_unit_test(token_shift_is_the_row_before_less_the_row),
        cmocka_unit_test(mixes_and_head_products),
        cmocka_unit_test(forget_gates_keep_their_value_when_nearly_shut_and_nearly_open),
        cmocka_unit_test(activations_of_the_other_families),
        cmocka_unit_test(norms_of_heads_with_a_floor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
