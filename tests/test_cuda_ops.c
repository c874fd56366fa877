// Every operation of a forward pass on the GPU against the CPU in float64, on the same inputs:
// matrices in the precision's element between exact ones (float32), rows with gaps and NaN all
// around, sizes that divide nothing (B62). Errors are those of kernels/cuda: inputs are equal on both
// sides. The bounds 1e-5 (f32), 2e-3 (tf32: products of 11 bits) and 2e-2 (bf16: results of 8 bits,
// so 4e-3 for a value near its largest) are relative to the largest entry.
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
static const int64_t rows_of[] = {1, 2, 63, 64, 65, 511};
static const int64_t cols_of[] = {1, 24, 52, 64, 128, 255, 1468};
enum { ROWS = sizeof rows_of / sizeof *rows_of, COLS = sizeof cols_of / sizeof *cols_of };

#define EACH(i) for (int i = 0; i < 2; i++)

static double allowed(const both *b) {
    precision p = b->be[0]->prec;
    return p == PRECISION_F32 ? 1e-5 : p == PRECISION_TF32 ? 2e-3 : 2e-2;
}

static void note(both *b, const char *what, const pair *y) {
    pair_note(b, what, y, pair_error(b, y), allowed(b));
}

// A sum of n products of random factors in (-1, 1): over sqrt(n), three times its usual size, so that
// a result near zero is not asked for digits that its terms do not have.
static void note_sum(both *b, const char *what, const pair *y, int64_t n) {
    pair_note(b, what, y, pair_error_each(b, y, sqrt((double)n)), allowed(b));
}

// A value held in float32 has every entry right, not only the large ones; bfloat16 has 8 bits.
static void note_each(both *b, const char *what, const pair *y) {
    bool exact = y->at[0].esize == 4;
    pair_note(b, what, y, pair_error_each(b, y, 1e-30), exact ? 1e-5 : 1e-2);
}

// Runs `body` in every precision on every shape.
static void over_shapes(void (*body)(both *b, int64_t rows, int64_t cols)) {
    for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++) {
        both b;
        both_open(&b, precisions[p]);
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLS; c++) {
                b.seed = (uint64_t)(100 * r + c + 1);
                body(&b, rows_of[r], cols_of[c]);
                both_reset(&b);
            }
        pair_print_worst(&b);
        both_close(&b);
    }
}

// The largest head dimension of 1, 8, 12, 16 that divides cols.
static int64_t head_of(int64_t cols) {
    return cols % 16 == 0 ? 16 : cols % 12 == 0 ? 12 : cols % 8 == 0 ? 8 : cols % 5 == 0 ? 5 : 1;
}

static void memory(both *b, int64_t rows, int64_t cols) {
    pair x = pair_new(b, rows, cols, false, -1, 1), y = pair_new(b, rows, cols, false, -1, 1);
    pair z = pair_new(b, rows, cols, true, -1, 1);
    EACH(i) b->be[i]->op->copy(b->be[i], x.at[i], y.at[i]);
    pair_note(b, "copy", &y, pair_error(b, &y), 0);
    EACH(i) b->be[i]->op->copy(b->be[i], x.at[i], z.at[i]);
    pair_note(b, "copy to exact", &z, pair_error(b, &z), 0);
    z = pair_new(b, rows, cols, true, -1, 1);
    EACH(i) b->be[i]->op->copy(b->be[i], z.at[i], y.at[i]);
    pair_note(b, "copy from exact", &y, pair_error(b, &y),
              b->be[0]->prec == PRECISION_BF16 ? 0x1p-8 : 0);
    EACH(i) b->be[i]->op->zero(b->be[i], y.at[i]);
    pair_note(b, "zero", &y, pair_error_each(b, &y, 1), 0);
}

static void dense(both *b, int64_t rows, int64_t cols) {
    static const int64_t outs[] = {1, 24, 201};
    pair x = pair_new(b, rows, cols, false, -1, 1);
    for (int j = 0; j < 3; j++) {
        pair w = pair_new(b, outs[j], cols, false, -1, 1);
        pair bias = pair_new(b, 1, outs[j], true, -1, 1);
        pair y = pair_new(b, rows, outs[j], false, -1, 1);
        pair z = pair_new(b, rows, outs[j], true, -1, 1);
        EACH(i) b->be[i]->op->linear(b->be[i], x.at[i], w.at[i], bias.at[i], y.at[i]);
        note_sum(b, "linear", &y, cols);
        EACH(i) b->be[i]->op->linear(b->be[i], x.at[i], w.at[i], bias.at[i], z.at[i]);
        note_sum(b, "linear, exact result", &z, cols);
        EACH(i) b->be[i]->op->linear(b->be[i], x.at[i], w.at[i], MAT_NONE, y.at[i]);
        note_sum(b, "linear without bias", &y, cols);
    }
    // A matrix of one row is stored in float32 (one head, the gate of shared experts).
    pair row = pair_new(b, 1, cols, true, -1, 1), gate = pair_new(b, rows, 1, false, -1, 1);
    EACH(i) b->be[i]->op->linear(b->be[i], x.at[i], row.at[i], MAT_NONE, gate.at[i]);
    note_sum(b, "linear, one exact row", &gate, cols);
    pair y = pair_new(b, rows, cols, false, -1, 1);
    EACH(i) b->be[i]->op->add(b->be[i], x.at[i], -0.75, y.at[i]);
    note(b, "add", &y);
    int32_t *ids = malloc((size_t)rows * sizeof *ids);
    double *scale = malloc((size_t)rows * sizeof *scale);
    for (int64_t t = 0; t < rows; t++) {
        ids[t] = (int32_t)(t * 7 % 201);
        scale[t] = both_uniform(b, -1, 1);
    }
    pair table = pair_new(b, 201, cols, false, -1, 1);
    EACH(i) b->be[i]->op->embed(b->be[i], table.at[i], ids, y.at[i]);
    pair_note(b, "embed", &y, pair_error(b, &y), 0);
    for (int64_t t = 0; t < rows; t++)
        ids[t] = (int32_t)(rows - 1 - t);
    pair many = pair_new(b, rows + 2, cols, false, -1, 1);
    EACH(i) b->be[i]->op->add_rows(b->be[i], x.at[i], ids, scale, many.at[i]);
    note(b, "add_rows", &many);
    free(ids);
    free(scale);
}

static void norms(both *b, int64_t rows, int64_t cols) {
    int64_t d = head_of(cols), groups = rows % 2 == 0 ? 2 : 1;
    pair x = pair_new(b, rows, cols, false, -2, 2), y = pair_new(b, rows, cols, false, -1, 1);
    pair w = pair_new(b, 1, cols, true, -1, 1), bias = pair_new(b, 1, cols, true, -1, 1);
    pair wide = pair_new(b, groups, cols, false, -1, 1);
    EACH(i) b->be[i]->op->rms_norm(b->be[i], x.at[i], w.at[i], 1e-6, y.at[i]);
    note(b, "rms_norm", &y);
    EACH(i) b->be[i]->op->rms_norm(b->be[i], x.at[i], wide.at[i], 1e-6, y.at[i]);
    note(b, "rms_norm of groups", &y);
    EACH(i) b->be[i]->op->rms_norm(b->be[i], x.at[i], MAT_NONE, 1e-5, y.at[i]);
    note(b, "rms_norm without weight", &y);
    EACH(i) b->be[i]->op->layer_norm(b->be[i], x.at[i], w.at[i], bias.at[i], cols, 1e-5, y.at[i]);
    note(b, "layer_norm", &y);
    EACH(i)
    b->be[i]->op->layer_norm(b->be[i], x.at[i], w.at[i], bias.at[i], d, 1e-5, x.at[i]);
    note(b, "layer_norm of groups, in place", &x);
    static const struct {
        const char *name;
        head_norm kind;
        double eps, lo;
    } kinds[] = {{"heads L2", HEAD_NORM_L2, 1e-6, -1},
                 {"heads L2 floor", HEAD_NORM_L2_FLOOR, 1e-12, -1},
                 {"heads L1", HEAD_NORM_L1, 0, 0.1}};
    for (int k = 0; k < 3; k++) {
        x = pair_new(b, rows, cols, false, kinds[k].lo, 1);
        if (kinds[k].kind != HEAD_NORM_L1) { // a zero head stays zero (B59)
            EACH(i) b->be[i]->op->zero(b->be[i], mat_cols(x.at[i], 0, d));
        }
        EACH(i) b->be[i]->op->normalize_heads(b->be[i], x.at[i], d, kinds[k].kind, kinds[k].eps);
        note(b, kinds[k].name, &x);
    }
    EACH(i) b->be[i]->op->rms_norm(b->be[i], x.at[i], w.at[i], 1e-6, x.at[i]);
    note(b, "rms_norm in place", &x);
}

static void acts(both *b, int64_t rows, int64_t cols) {
    static const char *const names[] = {"act none",  "act silu", "act sigmoid", "act relu",
                                        "act elu+1", "act tanh", "act relu^2",  "act 1-exp"};
    static const char *const gates[] = {"gate none",  "gate silu", "gate sigmoid", "gate relu",
                                        "gate elu+1", "gate tanh", "gate relu^2",  "gate 1-exp"};
    for (int a = ACT_NONE; a <= ACT_ONE_MINUS_EXP; a++) {
        double far = a == ACT_ONE_MINUS_EXP ? 0 : 100; // of a log decay: never positive
        pair x = pair_new(b, rows, cols, false, -8, fmin(8, far));
        pair y = pair_new(b, rows, cols, false, -1, 1);
        EACH(i) b->be[i]->op->multiply(b->be[i], x.at[i], (activation)a, y.at[i]);
        note(b, gates[a], &y);
        EACH(i) b->be[i]->op->activate(b->be[i], x.at[i], (activation)a, 0.5);
        note(b, names[a], &x);
        if (a < 4 || a == ACT_TANH) {
            double *edge = malloc((size_t)(rows * cols) * sizeof *edge);
            static const double values[] = {-100, 100, 0, -1e-6, 1e-6, -30};
            for (int64_t j = 0; j < rows * cols; j++)
                edge[j] = values[j % 6];
            pair_write(b, &x, edge);
            EACH(i) b->be[i]->op->activate(b->be[i], x.at[i], (activation)a, 1);
            // 1e-30: e^-100 is a subnormal float
            note_each(b, "activations at the edges", &x);
            free(edge);
        }
        both_reset(b);
    }
}

static void heads(both *b, int64_t rows, int64_t cols) {
    int64_t d = head_of(cols), H = cols / d;
    pair x = pair_new(b, rows, cols, false, -1, 1), y = pair_new(b, rows, cols, false, -1, 1);
    pair z = pair_new(b, rows, cols, false, -1, 1);
    pair s = pair_new(b, rows, H, true, -1, 1), one = pair_new(b, 1, H, true, -1, 1);
    pair twice = pair_new(b, rows, 2 * cols, false, -1, 1);
    pair w = pair_new(b, 1, cols, true, -1, 1), sum = pair_new(b, rows, H, false, -1, 1);
    pair precise = pair_new(b, rows, H, true, -1, 1);
    EACH(i) b->be[i]->op->scale_heads(b->be[i], x.at[i], s.at[i], -2, d, y.at[i]);
    note(b, "scale_heads", &y);
    EACH(i) b->be[i]->op->scale_heads(b->be[i], x.at[i], one.at[i], 1, d, y.at[i]);
    note(b, "scale_heads, one row", &y);
    EACH(i) b->be[i]->op->scale_heads(b->be[i], x.at[i], MAT_NONE, 1, d, twice.at[i]);
    note(b, "scale_heads, repeated", &twice);
    pair decay = pair_new(b, rows, cols, true, -1, 0);
    EACH(i) b->be[i]->op->scale_heads(b->be[i], decay.at[i], MAT_NONE, 1, d, twice.at[i]);
    note(b, "scale_heads, repeated exact", &twice);
    EACH(i) b->be[i]->op->scale_heads(b->be[i], x.at[i], s.at[i], 1, d, x.at[i]);
    note(b, "scale_heads in place", &x);
    EACH(i) b->be[i]->op->dot_heads(b->be[i], x.at[i], z.at[i], w.at[i], d, sum.at[i]);
    note(b, "dot_heads", &sum);
    EACH(i) b->be[i]->op->dot_heads(b->be[i], x.at[i], z.at[i], MAT_NONE, d, precise.at[i]);
    note(b, "dot_heads, exact result", &precise);
    pair by = pair_new(b, rows, H, true, 0.5, 2);
    EACH(i) b->be[i]->op->divide_heads(b->be[i], by.at[i], 1e-6, d, z.at[i]);
    note(b, "divide_heads", &z);
    EACH(i) b->be[i]->op->broadcast(b->be[i], w.at[i], y.at[i]);
    note(b, "broadcast", &y);
}

static void shifts(both *b, int64_t rows, int64_t cols) {
    pair x = pair_new(b, rows, cols, false, -1, 1), y = pair_new(b, rows, cols, false, -1, 1);
    pair tail = pair_new(b, 1, cols, false, -1, 1), d = pair_new(b, rows, cols, false, -1, 1);
    pair m = pair_new(b, 1, cols, true, -1, 1), each = pair_new(b, rows, cols, false, -1, 1);
    for (int again = 0; again < 2; again++) { // the second block starts from the first one's tail
        EACH(i) b->be[i]->op->token_shift(b->be[i], x.at[i], tail.at[i], y.at[i]);
        note(b, "token_shift", &y);
        pair_note(b, "token_shift's tail", &tail, pair_error(b, &tail), 0);
    }
    EACH(i) b->be[i]->op->mix(b->be[i], x.at[i], d.at[i], m.at[i], y.at[i]);
    note(b, "mix", &y);
    EACH(i) b->be[i]->op->mix(b->be[i], MAT_NONE, d.at[i], each.at[i], y.at[i]);
    note(b, "mix without x, rows of m", &y);
    EACH(i) b->be[i]->op->mix(b->be[i], x.at[i], d.at[i], m.at[i], d.at[i]);
    note(b, "mix into d", &d);
    EACH(i) b->be[i]->op->mix(b->be[i], x.at[i], d.at[i], each.at[i], x.at[i]);
    note(b, "mix into x", &x);
    x = pair_new(b, rows, cols, false, -1, 1); // both sides equal again
    static const int64_t widths[] = {1, 2, 4, 8, 9};
    for (int j = 0; j < 5; j++) {
        int64_t width = widths[j];
        // Weights are in the precision's element, a bias is a vector and exact.
        pair w = pair_new(b, cols, width, false, -1, 1), bias = pair_new(b, 1, cols, true, -1, 1);
        pair past = pair_new(b, width > 1 ? width - 1 : 1, cols, false, -1, 1);
        for (int again = 0; again < 2; again++) {
            mat none = again ? (mat){0} : bias.at[0], none64 = again ? (mat){0} : bias.at[1];
            EACH(i)
            b->be[i]->op->short_conv(b->be[i], x.at[i], w.at[i], i ? none64 : none,
                                     width > 1 ? past.at[i] : MAT_NONE, again ? ACT_NONE : ACT_SILU,
                                     y.at[i]);
            note(b, again ? "short_conv without bias" : "short_conv", &y);
            pair_note(b, "short_conv's tail", &past, pair_error(b, &past), 0);
        }
    }
}

static void decays(both *b, int64_t rows, int64_t cols) {
    int64_t d = head_of(cols), H = cols / d;
    pair a = pair_new(b, 1, H, true, -2, 2), dt = pair_new(b, 1, cols, true, -1, 1);
    pair least = pair_new(b, 1, cols, true, 0, 0.9);
    for (int exact = 0; exact < 2; exact++) {
        // softplus and sigmoid from -60 (e^-60: all of it is the small part) to 100
        pair x = pair_new(b, rows, cols, exact, -60, 100);
        EACH(i) b->be[i]->op->log_decay(b->be[i], x.at[i], a.at[i], dt.at[i], NAN);
        note_each(b, "log_decay", &x);
        x = pair_new(b, rows, cols, exact, -100, 100);
        EACH(i) b->be[i]->op->log_decay(b->be[i], x.at[i], MAT_NONE, MAT_NONE, NAN);
        note(b, "log_decay at +-100", &x);
        x = pair_new(b, rows, cols, exact, -5, 5);
        EACH(i) b->be[i]->op->log_decay(b->be[i], x.at[i], a.at[i], dt.at[i], -5);
        // e^(rate x) doubles float32's relative error of rate x, which is up to 40 here
        note(b, "log_decay, bounded", &x);
        x = pair_new(b, rows, cols, exact, -60, 60);
        EACH(i) b->be[i]->op->log_forget(b->be[i], x.at[i], MAT_NONE, 16, -INFINITY);
        note_each(b, "log_forget", &x);
        x = pair_new(b, rows, cols, exact, -60, 60);
        EACH(i) b->be[i]->op->log_forget(b->be[i], x.at[i], least.at[i], 1, -0.15);
        note_each(b, "log_forget with bounds", &x);
        x = pair_new(b, rows, cols, exact, -60, 100);
        EACH(i) b->be[i]->op->time_step(b->be[i], x.at[i], MAT_NONE, 0, INFINITY);
        note_each(b, "time_step", &x);
        x = pair_new(b, rows, cols, exact, -100, 100);
        EACH(i) b->be[i]->op->time_step(b->be[i], x.at[i], dt.at[i], 0.01, 20);
        note(b, "time_step with limits", &x);
        both_reset(b);
        a = pair_new(b, 1, H, true, -2, 2);
        dt = pair_new(b, 1, cols, true, -1, 1);
        least = pair_new(b, 1, cols, true, 0, 0.9);
    }
}

static void averages(both *b, int64_t rows, int64_t cols) {
    pair k = pair_new(b, rows, cols, false, -20, 20), v = pair_new(b, rows, cols, false, -1, 1);
    pair u = pair_new(b, 1, cols, true, -3, 3), w = pair_new(b, 1, cols, true, -4, -1e-3);
    pair state = pair_new(b, 3, cols, true, -1, 1), o = pair_new(b, rows, cols, false, -1, 1);
    EACH(i) b->be[i]->op->zero(b->be[i], state.at[i]);
    for (int again = 0; again < 2; again++) {
        EACH(i)
        b->be[i]->op->wkv(b->be[i], k.at[i], v.at[i], u.at[i], w.at[i], state.at[i], o.at[i]);
        // A weight is e^x with x up to some 2000 (511 tokens of -4): float keeps 24 bits of x.
        pair_note(b, "wkv", &o, pair_error(b, &o), b->be[0]->prec == PRECISION_BF16 ? 2e-2 : 2e-4);
    }
}

static void copies_and_views_keep_to_their_matrix(void **state) {
    (void)state;
    over_shapes(memory);
}

static void matrix_products_and_sums_agree(void **state) {
    (void)state;
    over_shapes(dense);
}

static void norms_agree(void **state) {
    (void)state;
    over_shapes(norms);
}

static void activations_and_gates_agree(void **state) {
    (void)state;
    over_shapes(acts);
}

static void operations_on_heads_agree(void **state) {
    (void)state;
    over_shapes(heads);
}

static void shifts_and_convolutions_agree(void **state) {
    (void)state;
    over_shapes(shifts);
}

static void log_decays_and_time_steps_agree(void **state) {
    (void)state;
    over_shapes(decays);
}

static void running_averages_agree(void **state) {
    (void)state;
    over_shapes(averages);
}

static void rotary_positions_and_attention_agree(void **state) {
    (void)state;
    static const struct {
        int64_t rows, first, window, d, c, q_heads, kv_heads, turned;
    } cases[] = {
        {1, 0, 0, 16, 16, 1, 1, 16},     {65, 0, 0, 24, 24, 4, 2, 24},
        {63, 130, 0, 64, 64, 3, 3, 32},  {64, 100, 16, 16, 16, 4, 2, 16},
        {2, 511, 64, 128, 128, 6, 2, 2}, {33, 40, 1, 52, 36, 2, 1, 52},
        {65, 7, 0, 255, 192, 2, 2, 254}, {17, 90, 0, 512, 512, 1, 1, 512},
    };
    for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++) {
        both b;
        both_open(&b, precisions[p]);
        for (size_t j = 0; j < sizeof cases / sizeof *cases; j++) {
            int64_t T = cases[j].rows, past = cases[j].first, d = cases[j].d, c = cases[j].c;
            int64_t kv = cases[j].kv_heads;
            pair q = pair_new(&b, T, cases[j].q_heads * d, false, -2, 2);
            pair k = pair_new(&b, past + T, kv * d, false, -2, 2);
            pair v = pair_new(&b, past + T, kv * c, false, -1, 1);
            pair o = pair_new(&b, T, cases[j].q_heads * c, false, -1, 1);
            EACH(i) {
                const backend_ops *op = b.be[i]->op;
                op->attention(b.be[i], q.at[i], k.at[i], v.at[i], d, past, cases[j].window,
                              o.at[i]);
                // B45: positions far out; turned < d leaves the rest alone
                op->rotate(b.be[i], q.at[i], d, cases[j].turned, past + 100000, 10000);
                op->rotate(b.be[i], k.at[i], d, cases[j].turned, past, 1e6);
            }
            note(&b, "attention", &o);
            note(&b, "rotate", &q);
            note(&b, "rotate", &k);
            both_reset(&b);
        }
        pair_print_worst(&b);
        both_close(&b);
    }
}

static double logit(const double *x, const double *w, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * w[i];
    return sum;
}

// The likeliest token may differ from float64's only where two logits are as near as the product's
// own error.
static void losses_and_likeliest_tokens_agree(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {
        {1, 24, 1}, {65, 64, 201}, {1025, 52, 8193}, {2, 255, 40000}};
    for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++) {
        both b;
        double worst_loss = 0;
        // Logits reach 25. Products of bf16 numbers are exact in float32: no more is lost than in f32.
        double bound = precisions[p] == PRECISION_TF32 ? 5e-2 : 1e-4;
        both_open(&b, precisions[p]);
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            int64_t T = sizes[j][0], D = sizes[j][1], V = sizes[j][2];
            pair x = pair_new(&b, T, D, false, -1, 1), w = pair_new(&b, V, D, false, -1, 1);
            double *loss[2], *X = pair_read(&b, &x, 1), *W = pair_read(&b, &w, 1);
            int32_t *best[2], *target = malloc((size_t)T * sizeof *target);
            for (int64_t t = 0; t < T; t++)
                target[t] = t % 5 == 4 ? -1 : (int32_t)both_uniform(&b, 0, (double)V);
            if (V > 1)
                target[0] = (int32_t)V - 1;
            EACH(i) {
                loss[i] = malloc((size_t)T * sizeof *loss[i]);
                best[i] = malloc((size_t)T * sizeof *best[i]);
                b.be[i]->op->losses(b.be[i], x.at[i], w.at[i], target, loss[i], best[i]);
            }
            both_check(&b, "losses");
            for (int64_t t = 0; t < T; t++) {
                assert_int_equal(isnan(loss[0][t]), target[t] < 0);
                if (target[t] >= 0)
                    worst_loss = fmax(worst_loss, fabs(loss[0][t] - loss[1][t]));
                assert_true(best[0][t] >= 0 && best[0][t] < V);
                double lost = logit(X + t * D, W + best[1][t] * D, D) -
                              logit(X + t * D, W + best[0][t] * D, D);
                assert_true(lost <= bound);
            }
            EACH(i) {
                free(loss[i]);
                free(best[i]);
            }
            free(target);
            free(X);
            free(W);
            both_reset(&b);
        }
        printf("measured cuda %-4s losses                       worst %.1e nats (allowed %.0e)\n",
               precision_name(precisions[p]), worst_loss, bound);
        assert_true(worst_loss <= bound);
        both_close(&b);
    }
}

// Rows 100..199 of the head repeat 0..99, and all numbers are small integers, so that sums in any
// order are exact: the lowest of equals wins.
static void the_lowest_of_equal_logits_is_the_likeliest(void **state) {
    (void)state;
    both b;
    both_open(&b, PRECISION_F32);
    enum { T = 130, D = 64, V = 200 };
    pair x = pair_new(&b, T, D, false, -1, 1), w = pair_new(&b, V, D, false, -1, 1);
    double *W = pair_read(&b, &w, 0), loss[T];
    int32_t best[T], target[T] = {0};
    for (int i = 0; i < V / 2 * D; i++)
        W[i] = W[V / 2 * D + i] = rint(8 * W[i]);
    pair_write(&b, &w, W);
    double *X = pair_read(&b, &x, 0);
    for (int i = 0; i < T * D; i++)
        X[i] = rint(8 * X[i]);
    pair_write(&b, &x, X);
    free(X);
    b.be[0]->op->losses(b.be[0], x.at[0], w.at[0], target, loss, best);
    both_check(&b, "losses");
    for (int t = 0; t < T; t++)
        assert_in_range(best[t], 0, V / 2 - 1);
    free(W);
    both_close(&b);
}

// What is not a number must reach the losses and be flagged there (B124).
static void a_nan_stays_a_nan(void **state) {
    (void)state;
    for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++) {
        both b;
        both_open(&b, precisions[p]);
        double nan[5] = {NAN, NAN, NAN, NAN, NAN};
        for (int which = 0; which < 5; which++) {
            pair x = pair_new(&b, 1, 5, false, 0, 1), w = pair_new(&b, 1, 5, true, 0.1, 0.5);
            pair y = pair_new(&b, 1, 5, false, 0, 1);
            pair_write(&b, &x, nan);
            backend *be = b.be[0];
            const backend_ops *op = be->op;
            mat at = x.at[0];
            if (which == 0)
                op->time_step(be, at, w.at[0], 0.001, 0.1);
            else if (which == 1)
                op->log_forget(be, at, w.at[0], 1, -0.15);
            else if (which == 2)
                op->log_decay(be, at, MAT_NONE, w.at[0], NAN);
            else if (which == 3)
                op->rms_norm(be, at, w.at[0], 1e-6, at);
            else
                op->multiply(be, y.at[0], ACT_SILU, at);
            both_check(&b, "an operation");
            double *back = pair_read(&b, &x, 0);
            for (int i = 0; i < 5; i++)
                if (!isnan(back[i]))
                    fail_msg("operation %d turns NaN into %g", which, back[i]);
            free(back);
            both_reset(&b);
        }
        both_close(&b);
    }
}

// 1e25 squared is no float, nor a few times 3e38: divided by an infinite norm all of a row would become 0, which no report would notice.
static void sums_of_squares_that_overflow_give_nan(void **state) {
    (void)state;
    static const int64_t widths[] = {5, 128};
    static const struct {
        head_norm kind; // none: RMS
        double huge;
    } kinds[] = {{HEAD_NORM_L2, 1e25},
                 {HEAD_NORM_L2_FLOOR, 1e25},
                 {HEAD_NORM_NONE, 1e25},
                 {HEAD_NORM_L1, 3e38},
                 {HEAD_NORM_L1, -3e38}};
    for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++)
        for (int c = 0; c < 10; c++) {
            both b;
            both_open(&b, precisions[p]);
            const int64_t cols = widths[c % 2];
            double *huge = malloc((size_t)(3 * cols) * sizeof *huge);
            for (int64_t j = 0; j < 3 * cols; j++) // the second of three rows
                huge[j] = j / cols == 1 ? kinds[c / 2].huge : 0.5;
            pair x = pair_new(&b, 3, cols, false, 0, 1), w = pair_new(&b, 1, cols, true, 0.1, 0.5);
            pair_write(&b, &x, huge);
            const backend_ops *op = b.be[0]->op;
            if (kinds[c / 2].kind == HEAD_NORM_NONE)
                op->rms_norm(b.be[0], x.at[0], w.at[0], 1e-6, x.at[0]);
            else
                op->normalize_heads(b.be[0], x.at[0], cols, kinds[c / 2].kind, 1e-6);
            both_check(&b, "a norm");
            double *back = pair_read(&b, &x, 0);
            for (int64_t j = 0; j < 3 * cols; j++)
                if (j / cols == 1 ? !isnan(back[j]) : !(back[j] > 0 && back[j] < 1.5))
                    fail_msg("norm %d, %lld columns: number %lld is %g", c / 2, (long long)cols,
                             (long long)j, back[j]);
            free(back);
            free(huge);
            both_close(&b);
        }
}

static void memory_that_is_not_there_is_one_sentence(void **state) {
    (void)state;
    both b;
    both_open(&b, PRECISION_F32);
    err e = {0};
    backend *be = b.be[0];
    assert_true(mat_none(be->op->alloc(be, INT64_C(1) << 40, 1 << 10))); // 4 PiB
    assert_false(backend_check(be, &e));
    assert_int_equal(e.code, ERR_NOMEM);
    printf("measured: %s\n", e.text);
    assert_non_null(strstr(e.text, "memory"));
    assert_null(strchr(e.text, '\n'));
    err_clear(&e);
    assert_true(mat_none(be->op->alloc(be, INT64_MAX, 16))); // more bytes than a size_t counts
    assert_false(backend_check(be, &e));
    assert_int_equal(e.code, ERR_NOMEM);
    // and the device still works
    pair x = pair_new(&b, 3, 5, false, -1, 1);
    EACH(i) b.be[i]->op->activate(b.be[i], x.at[i], ACT_SILU, 1);
    assert_true(pair_error(&b, &x) <= 1e-6);
    both_close(&b);
}

static void a_device_opens_again_after_closing(void **state) {
    (void)state;

    for (int i = 0; i < 3; i++) // opening and closing again leaves nothing in the way
        backend_close(cuda_or_skip(PRECISION_BF16));
}

int main(int argc, char **argv) {
    if (argc > 1) // one test alone (scripts/gpu_check.sh)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_and_views_keep_to_their_matrix),
        cmocka_unit_test(matrix_products_and_sums_agree),
        cmocka_unit_test(norms_agree),
        cmocka_unit_test(activations_and_gates_agree),
        cmocka_unit_test(operations_on_heads_agree),
        cmocka_unit_test(shifts_and_convolutions_agree),
        cmocka_unit_test(log_decays_and_time_steps_agree),
        cmocka_unit_test(running_averages_agree),
        cmocka_unit_test(rotary_positions_and_attention_agree),
        cmocka_unit_test(losses_and_likeliest_tokens_agree),
        cmocka_unit_test(the_lowest_of_equal_logits_is_the_likeliest),
        cmocka_unit_test(a_nan_stays_a_nan),
        cmocka_unit_test(sums_of_squares_that_overflow_give_nan),
        cmocka_unit_test(memory_that_is_not_there_is_one_sentence),
        cmocka_unit_test(a_device_opens_again_after_closing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
