// Operations that a device does in one pass, and the kernels that move 16 bytes at a time, against the
// plain composition on the CPU in float64. Rows are aligned here (a gap of 8 numbers) and sizes are
// whole words, so that the wide kernels are the ones that run; tests/test_cuda_ops.c has the others.
// Bounds as there: 1e-5 (f32), 2e-3 (tf32: products alone), 2e-2 (bf16), relative to the largest entry.
#include "tests/cuda_pair.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const precision precisions[] = {PRECISION_F32, PRECISION_TF32, PRECISION_BF16};
enum { PRECISIONS = sizeof precisions / sizeof *precisions };

#define EACH(i) for (int i = 0; i < 2; i++)

static double allowed(const both *b, bool product) {
    precision p = b->be[0]->prec;
    return p == PRECISION_BF16 ? 2e-2 : p == PRECISION_TF32 && product ? 2e-3 : 1e-5;
}

static void in_every_precision(void (*body)(both *b)) {
    for (int p = 0; p < PRECISIONS; p++) {
        both b;
        both_open(&b, precisions[p]);
        b.gap = 8;
        body(&b);
        pair_print_worst(&b);
        both_close(&b);
    }
}

// Convolutions --------------------------------------------------------------------------------

typedef struct conv_case {
    int64_t rows, width, q, k, v; // columns of three parts; v 0: one part, k 0: two
    int64_t head_dim;
    head_norm norm;
    activation act;
    bool bias;
} conv_case;

// What core/forward_ops.c composes.
static void compose(backend *be, mat x, const conv_part *part, int n) {
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        const conv_part *p = &part[i];
        be->op->short_conv(be, mat_cols(x, at, p->y.cols), p->w, p->bias, p->tail, p->act, p->y);
        be->op->normalize_heads(be, p->y, p->head_dim, p->norm, p->eps);
        at += p->y.cols;
    }
}

// Weights lie without gaps, as a model's do.
static void dense_weights(both *b, const pair *w, conv_part *on_device) {
    backend *be = b->be[0];
    on_device->w = be->op->alloc(be, w->at[0].rows, w->at[0].cols);
    be->op->copy(be, w->at[0], on_device->w);
    both_check(b, "weights");
}

static void one_convolution(both *b, const conv_case *c) {
    const int64_t cols[3] = {c->q, c->k, c->v};
    int n = c->v ? 3 : c->k ? 2 : 1;
    conv_part part[2][3] = {0};
    pair tail[3], y[3];
    pair x = pair_new(b, c->rows, c->q + c->k + c->v, false, -1, 1);
    for (int j = 0; j < n; j++) {
        bool normed = n < 3 || j < 2;
        pair w = pair_new(b, cols[j], c->width, false, -1, 1);
        pair bias = pair_new(b, 1, cols[j], true, -1, 1);
        tail[j] = pair_new(b, c->width - 1, cols[j], false, -1, 1);
        y[j] = pair_new(b, c->rows, cols[j], false, -1, 1);
        EACH(i)
        part[i][j] = (conv_part){.w = w.at[i],
                                 .bias = c->bias ? bias.at[i] : MAT_NONE,
                                 .tail = tail[j].at[i],
                                 .act = c->act,
                                 .norm = normed ? c->norm : HEAD_NORM_NONE,
                                 .head_dim = c->head_dim,
                                 .eps = c->norm == HEAD_NORM_L2 ? 1e-6 : 1e-12,
                                 .y = y[j].at[i]};
        dense_weights(b, &w, &part[0][j]);
    }
    if (c->norm == HEAD_NORM_L2_FLOOR) // a zero head stays zero (B59): zero rows behind zero rows
        EACH(i) {
            b->be[i]->op->zero(b->be[i], mat_cols(x.at[i], 0, c->head_dim));
            b->be[i]->op->zero(b->be[i], mat_cols(tail[0].at[i], 0, c->head_dim));
        }
    for (int again = 0; again < 2; again++) { // the second block starts from the first one's tails
        if (!b->be[0]->op->conv_heads(b->be[0], x.at[0], part[0], n))
            fail_msg("%lld rows of width %lld are not for the kernel", (long long)c->rows,
                     (long long)c->width);
        compose(b->be[1], x.at[1], part[1], n);
        for (int j = 0; j < n; j++) {
            pair_note(b, n == 1 ? "conv_heads, one part" : "conv_heads", &y[j],
                      pair_error(b, &y[j]), allowed(b, false));
            pair_note(b, "conv_heads' tails", &tail[j], pair_error(b, &tail[j]), 0);
        }
    }
    for (int j = 0; j < n; j++)
        b->be[0]->op->free(b->be[0], part[0][j].w);
    both_reset(b);
}

// A convolution's outputs past the root of what a float holds: NaN, as a norm alone has it (test_cuda_ops.c).
static void a_norm_that_overflows(both *b) {
    static const struct {
        head_norm norm;
        activation act;
        double size;
    } kinds[] = {{HEAD_NORM_L2, ACT_SILU, 1e25},
                 {HEAD_NORM_L2_FLOOR, ACT_SILU, 1e25},
                 {HEAD_NORM_L2, ACT_NONE, -1e25},
                 {HEAD_NORM_L1, ACT_SILU, 1e38},
                 {HEAD_NORM_L1, ACT_NONE, -1e38}};
    enum { ROWS = 40, COLS = 128, HEAD = 64, WIDTH = 4 };
    for (int k = 0; k < 5; k++) {
        const double size = kinds[k].size;
        pair x = pair_new(b, ROWS, COLS, false, fmin(size, 1.5 * size), fmax(size, 1.5 * size));
        pair w = pair_new(b, COLS, WIDTH, false, 0.1, 1), y = pair_new(b, ROWS, COLS, false, 0, 1);
        pair tail = pair_new(b, WIDTH - 1, COLS, false, 0, 1);
        conv_part part = {.w = w.at[0],
                          .bias = MAT_NONE,
                          .tail = tail.at[0],
                          .act = kinds[k].act,
                          .norm = kinds[k].norm,
                          .head_dim = HEAD,
                          .eps = 1e-6,
                          .y = y.at[0]};
        dense_weights(b, &w, &part);
        assert_true(b->be[0]->op->conv_heads(b->be[0], x.at[0], &part, 1));
        both_check(b, "a convolution");
        double *back = pair_read(b, &y, 0);
        for (int64_t j = 0; j < ROWS * COLS; j++)
            if (!isnan(back[j]))
                fail_msg("norm %d: number %lld is %g", k, (long long)j, back[j]);
        free(back);
        b->be[0]->op->free(b->be[0], part.w);
        both_reset(b);
    }
}

static void convolutions(both *b) {
    a_norm_that_overflows(b);

    static const int64_t rows[] = {1, 2, 3, 31, 32, 33, 64, 131};
    static const struct {
        int64_t q, k, v, head_dim;
    } shape[] = {{128, 256, 256, 128},
                 {64, 64, 24, 32},
                 {48, 96, 1040, 16},
                 {64, 0, 0, 64},
                 {2048, 1024, 0, 32}};
    static const struct {
        head_norm norm;
        activation act;
        bool bias;
    } how[] = {{HEAD_NORM_L2, ACT_SILU, false},
               {HEAD_NORM_L2_FLOOR, ACT_NONE, false},
               {HEAD_NORM_L1, ACT_SIGMOID, true},
               {HEAD_NORM_NONE, ACT_SILU, true},
               {HEAD_NORM_L2, ACT_RELU, true}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t s = 0; s < sizeof shape / sizeof *shape; s++)
            for (size_t h = 0; h < sizeof how / sizeof *how; h++) {
                b->seed = 1 + 100 * r + 10 * s + h;
                one_convolution(b, &(conv_case){rows[r], 2 + (int64_t)(r + h) % 3, shape[s].q,
                                                shape[s].k, shape[s].v, shape[s].head_dim,
                                                how[h].norm, how[h].act, how[h].bias});
            }
}

// Heads of 24 numbers, rows that are not aligned, a width of 5: left to the composition, untouched.
static void declined(both *b) {
    static const struct {
        int gap;
        int64_t cols, width, head_dim;
    } odd[] = {{8, 72, 4, 24}, {3, 64, 4, 32}, {8, 64, 5, 32}, {8, 64, 4, 7}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        b->gap = odd[i].gap;
        pair x = pair_new(b, 9, odd[i].cols, false, -1, 1);
        pair w = pair_new(b, odd[i].cols, odd[i].width, false, -1, 1);
        pair tail = pair_new(b, odd[i].width - 1, odd[i].cols, false, -1, 1);
        pair y = pair_new(b, 9, odd[i].cols, false, -1, 1);
        conv_part p = {.w = w.at[0],
                       .tail = tail.at[0],
                       .act = ACT_SILU,
                       .norm = HEAD_NORM_L2,
                       .head_dim = odd[i].head_dim,
                       .eps = 1e-6,
                       .y = y.at[0]};
        assert_false(b->be[0]->op->conv_heads(b->be[0], x.at[0], &p, 1));
        pair_note(b, "conv_heads declined", &y, pair_error(b, &y), 0);
        pair_note(b, "conv_heads declined", &tail, pair_error(b, &tail), 0);
        both_reset(b);
    }
    b->gap = 8;
}

// Products ------------------------------------------------------------------------------------

// The error of sums of n products of factors in (-1, 1), over their usual size.
static double sum_error(both *b, const pair *y, int64_t n) {
    return pair_error_each(b, y, sqrt((double)n));
}

static void products(both *b) {
    static const int64_t sizes[][3] = {{1, 64, 16},     {65, 128, 8},    {511, 96, 3},
                                       {512, 1024, 16}, {700, 64, 1024}, {1030, 256, 40},
                                       {1024, 2816, 64}};
    for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
        int64_t T = sizes[j][0], K = sizes[j][1], N = sizes[j][2];
        pair x = pair_new(b, T, K, false, -1, 1), w = pair_new(b, N, K, false, -1, 1);
        pair bias = pair_new(b, 1, N, true, -1, 1), y = pair_new(b, T, N, false, -1, 1);
        pair z = pair_new(b, T, N, true, -1, 1), sum = pair_new(b, T, N, false, -9, 9);
        EACH(i) b->be[i]->op->linear(b->be[i], x.at[i], w.at[i], bias.at[i], y.at[i]);
        pair_note(b, "linear", &y, sum_error(b, &y, K), allowed(b, true));
        // Gates are never rounded to TF32: each of these is right to float32.
        EACH(i) b->be[i]->op->linear_exact(b->be[i], x.at[i], w.at[i], bias.at[i], z.at[i]);
        pair_note(b, "linear_exact", &z, sum_error(b, &z, K), 1e-5);
        EACH(i) b->be[i]->op->linear_exact(b->be[i], x.at[i], w.at[i], MAT_NONE, z.at[i]);
        pair_note(b, "linear_exact", &z, sum_error(b, &z, K), 1e-5);
        for (int k = 0; k < 2; k++) {
            mat none = k ? bias.at[0] : MAT_NONE, none64 = k ? bias.at[1] : MAT_NONE;
            b->be[0]->op->linear_add(b->be[0], x.at[0], w.at[0], none, -0.5, sum.at[0]);
            b->be[1]->op->linear(b->be[1], x.at[1], w.at[1], none64, y.at[1]);
            b->be[1]->op->add(b->be[1], y.at[1], -0.5, sum.at[1]);
            pair_note(b, k ? "linear_add with bias" : "linear_add", &sum, sum_error(b, &sum, K),
                      allowed(b, true));
        }
        both_reset(b);
    }
}

// A device that is asked for one shape again and again tries several algorithms (DELTOP_CUDA_TRY: from
// the first call). They all add in one order: whichever call it is, the numbers are the same.
static void every_call_gives_the_same_numbers(void **state) {
    (void)state;
    enum { CALLS = 40, T = 2048, K = 1024, N = 640 };
    both b;
    setenv("DELTOP_CUDA_TRY", "1", 1);
    both_open(&b, PRECISION_BF16);
    b.gap = 8;
    pair x = pair_new(&b, T, K, false, -1, 1), w = pair_new(&b, N, K, false, -1, 1);
    pair y = pair_new(&b, T, N, false, -1, 1), start = pair_new(&b, T, N, false, -1, 1);
    double *first[2] = {NULL, NULL};
    int differ = 0;
    for (int i = 0; i < CALLS; i++)
        for (int add = 0; add < 2; add++) {
            backend *be = b.be[0];
            be->op->copy(be, start.at[0], y.at[0]);
            if (add)
                be->op->linear_add(be, x.at[0], w.at[0], MAT_NONE, 1, y.at[0]);
            else
                be->op->linear(be, x.at[0], w.at[0], MAT_NONE, y.at[0]);
            double *got = pair_read(&b, &y, 0);
            both_check(&b, "a product");
            if (!first[add]) {
                first[add] = got;
                continue;
            }
            differ += memcmp(got, first[add], sizeof(double) * T * N) != 0;
            free(got);
        }
    printf("measured cuda bf16 %d of %d repeated products differ in some bit\n", differ,
           2 * CALLS - 2);
    assert_int_equal(differ, 0);
    free(first[0]);
    free(first[1]);
    unsetenv("DELTOP_CUDA_TRY");
    both_close(&b);
}

// Products with what follows them ----------------------------------------------------------------

// Whether the device has the kernels that are for Hopper alone.
static bool on_hopper(const both *b) {
    const char *name = b->be[0]->device;
    return b->be[0]->prec == PRECISION_BF16 && (strstr(name, "H100") || strstr(name, "H200") ||
                                                strstr(name, "H800") || strstr(name, "H20"));
}

static void gated_products(both *b) {
    static const int64_t sizes[][3] = {{512, 1024, 128},   {513, 1000, 8},    {640, 768, 136},
                                       {1030, 1024, 2816}, {2049, 2816, 264}, {700, 705, 40}};
    for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
        int64_t T = sizes[j][0], K = sizes[j][1], N = sizes[j][2];
        bool aligned = K % 8 == 0;
        pair x = pair_new(b, T, K, false, -1, 1), w = pair_new(b, 2 * N, K, false, -0.1, 0.1);
        pair y = pair_new(b, T, N, false, -1, 1), z = pair_new(b, T, 2 * N, false, -1, 1);
        bool done = b->be[0]->op->linear_gated &&
                    b->be[0]->op->linear_gated(b->be[0], x.at[0], w.at[0], ACT_SILU, y.at[0]);
        assert_int_equal(done, on_hopper(b) && aligned);
        if (done) {
            backend *cpu = b->be[1];
            cpu->op->linear(cpu, x.at[1], w.at[1], MAT_NONE, z.at[1]);
            mat up = mat_cols(z.at[1], N, N);
            cpu->op->multiply(cpu, mat_cols(z.at[1], 0, N), ACT_SILU, up);
            cpu->op->copy(cpu, up, y.at[1]);
        }
        pair_note(b, done ? "linear_gated" : "linear_gated declined", &y, pair_error(b, &y),
                  done ? allowed(b, true) : 0);
        both_reset(b);
    }
}

static void one_projection(both *b, int64_t T, int64_t K, const conv_case *c) {
    const int64_t cols[3] = {c->q, c->k, c->v};
    conv_part part[2][3] = {0};
    pair tail[3], y[3];
    pair x = pair_new(b, T, K, false, -1, 1);
    pair w = pair_new(b, c->q + c->k + c->v, K, false, -0.1, 0.1);
    pair z = pair_new(b, T, c->q + c->k + c->v, false, -1, 1);
    EACH(i)
    if (c->norm == HEAD_NORM_L2_FLOOR) // a zero head stays zero (B59)
        b->be[i]->op->zero(b->be[i], mat_rows(w.at[i], 0, c->head_dim));
    for (int j = 0; j < 3; j++) {
        pair taps = pair_new(b, cols[j], c->width, false, -1, 1);
        pair bias = pair_new(b, 1, cols[j], true, -1, 1);
        tail[j] = pair_new(b, c->width - 1, cols[j], false, -2, 2);
        y[j] = pair_new(b, T, cols[j], false, -1, 1);
        EACH(i)
        if (c->norm == HEAD_NORM_L2_FLOOR && j == 0)
            b->be[i]->op->zero(b->be[i], mat_cols(tail[j].at[i], 0, c->head_dim));
        EACH(i)
        part[i][j] = (conv_part){.w = taps.at[i],
                                 .bias = c->bias ? bias.at[i] : MAT_NONE,
                                 .tail = tail[j].at[i],
                                 .act = c->act,
                                 .norm = j < 2 ? c->norm : HEAD_NORM_NONE,
                                 .head_dim = c->head_dim,
                                 .eps = c->norm == HEAD_NORM_L2 ? 1e-6 : 1e-12,
                                 .y = y[j].at[i]};
        dense_weights(b, &taps, &part[0][j]);
    }
    bool fits = c->width == 4 && c->act == ACT_SILU && c->norm != HEAD_NORM_L1 &&
                (c->head_dim == 128 || c->norm == HEAD_NORM_NONE);
    for (int again = 0; again < 2; again++) { // the second block starts from the first one's tails
        bool done = b->be[0]->op->linear_conv &&
                    b->be[0]->op->linear_conv(b->be[0], x.at[0], w.at[0], part[0], 3);
        assert_int_equal(done, fits && on_hopper(b));
        if (done) {
            b->be[1]->op->linear(b->be[1], x.at[1], w.at[1], MAT_NONE, z.at[1]);
            compose(b->be[1], z.at[1], part[1], 3);
        }
        for (int j = 0; j < 3; j++) {
            pair_note(
                b, done ? j < 2 ? "linear_conv" : "linear_conv, no norm" : "linear_conv declined",
                &y[j], pair_error(b, &y[j]), done ? allowed(b, true) : 0);
            pair_note(b, "linear_conv's tails", &tail[j], pair_error(b, &tail[j]),
                      done ? allowed(b, true) : 0);
        }
    }
    for (int j = 0; j < 3; j++)
        b->be[0]->op->free(b->be[0], part[0][j].w);
    both_reset(b);
}

static void projections(both *b) {
    static const int64_t rows[] = {512, 513, 515, 759, 760, 761, 1013};
    static const struct {
        int64_t q, k, v;
    } shape[] = {{128, 256, 256}, {256, 128, 384}, {128, 128, 128}};
    static const struct {
        head_norm norm;
        int64_t head_dim, width;
        activation act;
        bool bias;
    } how[] = {
        {HEAD_NORM_L2, 128, 4, ACT_SILU, false},   {HEAD_NORM_L2_FLOOR, 128, 4, ACT_SILU, true},
        {HEAD_NORM_NONE, 64, 4, ACT_SILU, true},   {HEAD_NORM_L2, 64, 4, ACT_SILU, false},
        {HEAD_NORM_L1, 128, 4, ACT_SILU, false},   {HEAD_NORM_L2, 128, 3, ACT_SILU, false},
        {HEAD_NORM_L2, 128, 4, ACT_SIGMOID, false}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t s = 0; s < sizeof shape / sizeof *shape; s++)
            for (size_t h = 0; h < sizeof how / sizeof *how; h++) {
                if (h >= 3 && (r || s)) // declined
                    continue;
                b->seed = 1 + 100 * r + 10 * s + h;
                one_projection(b, rows[r], 1024 - 24 * (int64_t)(r % 2) + 64 * (int64_t)s,
                               &(conv_case){0, how[h].width, shape[s].q, shape[s].k, shape[s].v,
                                            how[h].head_dim, how[h].norm, how[h].act, how[h].bias});
            }
}

// Losses of many tokens over many words. Every third word of the second half is one of the first again: the lowest of equals
// is the likeliest. One row is no number.
static void losses(both *b) {
    static const int64_t sizes[][3] = {
        {512, 64, 256}, {513, 256, 1031}, {1025, 1024, 2048}, {1300, 200, 8193}};
    // Products of bf16 numbers are exact in float32: no more is lost than in f32 (tests/test_cuda_ops.c).
    const double bound = b->be[0]->prec == PRECISION_TF32 ? 5e-2 : 1e-4;
    double worst = 0;
    for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
        const int64_t T = sizes[j][0], D = sizes[j][1], V = sizes[j][2];
        pair x = pair_new(b, T, D, false, -1, 1), w = pair_new(b, V, D, false, -0.5, 0.5);
        double *X = pair_read(b, &x, 0), *W = pair_read(b, &w, 0), *loss[2];
        int32_t *best[2], *target = malloc((size_t)T * sizeof *target);
        for (int64_t v = V / 2; v < V; v += 3)
            memcpy(W + v * D, W + (v - V / 2) * D, (size_t)D * sizeof *W);
        pair_write(b, &w, W);
        X[7 * D] = NAN;
        pair_write(b, &x, X);
        for (int64_t t = 0; t < T; t++)
            target[t] = t % 5 == 4 ? -1 : (int32_t)both_uniform(b, 0, (double)V);
        target[0] = (int32_t)V - 1;
        target[1] = 0;
        EACH(i) {
            loss[i] = malloc((size_t)T * sizeof *loss[i]);
            best[i] = malloc((size_t)T * sizeof *best[i]);
            b->be[i]->op->losses(b->be[i], x.at[i], w.at[i], target, loss[i], best[i]);
        }
        both_check(b, "losses");
        for (int64_t t = 0; t < T; t++) {
            assert_int_equal(isnan(loss[0][t]), target[t] < 0 || t == 7);
            assert_in_range(best[0][t], 0, V - 1);
            if (t == 7)
                continue;
            if (target[t] >= 0)
                worst = fmax(worst, fabs(loss[0][t] - loss[1][t]));
            double lost = 0;
            for (int64_t i = 0; i < D; i++)
                lost += X[t * D + i] * (W[best[1][t] * D + i] - W[best[0][t] * D + i]);
            assert_true(lost <= bound);
            if (on_hopper(b)) // one order of sums for all words
                assert_true(best[0][t] < V / 2 || (best[0][t] - V / 2) % 3 != 0);
        }
        EACH(i) {
            free(loss[i]);
            free(best[i]);
        }
        free(target);
        free(X);
        free(W);
        both_reset(b);
    }
    printf("measured cuda %-4s losses                             worst %.1e nats\n",
           precision_name(b->be[0]->prec), worst);
    assert_true(worst <= bound);
}

// Rows of whole words -------------------------------------------------------------------------

static void words(both *b) {
    static const int64_t rows_of[] = {1, 3, 64, 515},
                         cols_of[] = {8, 16, 40, 128, 256, 520, 1024, 2816, 4096, 4104};
    for (size_t r = 0; r < sizeof rows_of / sizeof *rows_of; r++)
        for (size_t c = 0; c < sizeof cols_of / sizeof *cols_of; c++) {
            int64_t rows = rows_of[r], cols = cols_of[c];
            b->seed = 1 + 100 * r + c;
            pair x = pair_new(b, rows, cols, false, -2, 2),
                 y = pair_new(b, rows, cols, false, -1, 1);
            pair w = pair_new(b, 1, cols, true, -1, 1);
            EACH(i) b->be[i]->op->rms_norm(b->be[i], x.at[i], w.at[i], 1e-6, y.at[i]);
            pair_note(b, "rms_norm", &y, pair_error(b, &y), allowed(b, false));
            EACH(i) b->be[i]->op->multiply(b->be[i], y.at[i], ACT_NONE, x.at[i]);
            pair_note(b, "multiply", &x, pair_error(b, &x), allowed(b, false));
            both_reset(b);
            x = pair_new(b, rows, 2 * cols, false, -8, 8); // gate and up side by side
            EACH(i)
            b->be[i]->op->multiply(b->be[i], mat_cols(x.at[i], 0, cols), ACT_SILU,
                                   mat_cols(x.at[i], cols, cols));
            pair_note(b, "SwiGLU in place", &x, pair_error(b, &x), allowed(b, false));
            y = pair_new(b, rows, cols, false, -1, 1);
            EACH(i) b->be[i]->op->add(b->be[i], mat_cols(x.at[i], 0, cols), -0.75, y.at[i]);
            pair_note(b, "add", &y, pair_error(b, &y), allowed(b, false));
            EACH(i) b->be[i]->op->rms_norm(b->be[i], y.at[i], MAT_NONE, 1e-5, y.at[i]);
            pair_note(b, "rms_norm in place, no weight", &y, pair_error(b, &y), allowed(b, false));
            int32_t *ids = malloc((size_t)rows * sizeof *ids);
            for (int64_t t = 0; t < rows; t++)
                ids[t] = (int32_t)(t * 7 % 13);
            pair table = pair_new(b, 13, cols, false, -1, 1);
            EACH(i) b->be[i]->op->embed(b->be[i], table.at[i], ids, y.at[i]);
            pair_note(b, "embed", &y, pair_error(b, &y), 0);
            free(ids);
            both_reset(b);
        }
}

// A matrix without gaps is one long row to an activation.
static void activations(both *b) {
    enum { ROWS = 24, COLS = 40, N = ROWS * COLS };
    static const double edge[] = {-100, 100, 0, -1e-6, 1e-6, -30, -87, 88};
    static double x[N], y[2][N];
    double bound = b->be[0]->prec == PRECISION_BF16 ? 1e-2 : 1e-5;
    for (int a = ACT_NONE; a < ACT_ONE_MINUS_EXP; a++) {
        double worst = 0;
        mat m[2];
        for (int k = 0; k < N; k++)
            x[k] = k % 5 == 0 ? edge[k / 5 % 8] : both_uniform(b, -8, 8);
        EACH(i) m[i] = b->be[i]->op->alloc(b->be[i], ROWS, COLS);
        b->be[0]->op->write(b->be[0], x, m[0]);
        b->be[0]->op->read(b->be[0], m[0], x); // as the device rounds it
        b->be[1]->op->write(b->be[1], x, m[1]);
        EACH(i) {
            b->be[i]->op->activate(b->be[i], m[i], (activation)a, 0.5);
            b->be[i]->op->read(b->be[i], m[i], y[i]);
            b->be[i]->op->free(b->be[i], m[i]);
        }
        both_check(b, "an activation");
        for (int k = 0; k < N; k++) { // 1e-30: e^-100 is a subnormal float
            double d = fabs(y[0][k] - y[1][k]) / fmax(fabs(y[1][k]), 1e-30);
            worst = d <= worst ? worst : d;
        }
        if (!(worst <= bound))
            fail_msg("activation %d in %s: off by %g", a, precision_name(b->be[0]->prec), worst);
    }
}

// Norms of a state's heads: 1e20 and 1e-20 among the numbers, then an infinity and a NaN.
static void states(both *b) {
    static const int64_t shape[][3] = {{1, 1, 1}, {3, 24, 40}, {8, 128, 128}, {2, 256, 512}};
    for (size_t j = 0; j < sizeof shape / sizeof *shape; j++)
        for (int odd = 0; odd < 3; odd++) {
            int64_t H = shape[j][0], n = H * shape[j][1] * shape[j][2];
            pair x = pair_new(b, H * shape[j][1], shape[j][2], true, -1, 1);
            pair y = pair_new(b, 1, H, true, -1, 1);
            double *numbers = pair_read(b, &x, 0);
            numbers[0] *= 1e20;
            numbers[n - 1] *= odd == 0 ? 1e-20 : odd == 1 ? INFINITY : NAN;
            pair_write(b, &x, numbers);
            free(numbers);
            EACH(i) b->be[i]->op->head_norms(b->be[i], x.at[i], y.at[i]);
            double *last = pair_read(b, &y, 0);
            assert_int_equal(isfinite(last[H - 1]) != 0, odd == 0);
            free(last);
            pair_note(b, "head_norms", &y, pair_error_each(b, &y, 1e-30), 1e-6);
            both_reset(b);
        }
}

static void norms_of_states_agree(void **state) {
    (void)state;
    in_every_precision(states);
}

static void convolutions_with_norms_agree(void **state) {
    (void)state;
    in_every_precision(convolutions);
}

static void what_the_kernel_is_not_for_is_left_alone(void **state) {
    (void)state;
    in_every_precision(declined);
}

static void products_agree(void **state) {
    (void)state;
    in_every_precision(products);
}

static void gated_products_agree(void **state) {
    (void)state;
    in_every_precision(gated_products);
}

static void projections_with_convolutions_agree(void **state) {
    (void)state;
    in_every_precision(projections);
}

static void losses_of_many_words_agree(void **state) {
    (void)state;
    in_every_precision(losses);
}

static void rows_of_whole_words_agree(void **state) {
    (void)state;
    in_every_precision(words);
}

static void activations_without_gaps_agree(void **state) {
    (void)state;
    in_every_precision(activations);
}

int main(int argc, char **argv) {
    if (argc > 1) // one test alone (scripts/gpu_check.sh)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_with_norms_agree),
        cmocka_unit_test(what_the_kernel_is_not_for_is_left_alone),
        cmocka_unit_test(products_agree),
        cmocka_unit_test(every_call_gives_the_same_numbers),
        cmocka_unit_test(gated_products_agree),
        cmocka_unit_test(projections_with_convolutions_agree),
        cmocka_unit_test(losses_of_many_words_agree),
        cmocka_unit_test(rows_of_whole_words_agree),
        cmocka_unit_test(activations_without_gaps_agree),
        cmocka_unit_test(norms_of_states_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
