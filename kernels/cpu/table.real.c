// The CPU's table of operations for one precision.
#include "kernels/cpu/real.h"

#include "core/mem.h"
#include "kernels/attention.h"
#include "kernels/conv.h"
#include "kernels/cpu/cpu.h"
#include "kernels/dense.h"
#include "kernels/loss.h"
#include "kernels/norm.h"
#include "kernels/pointwise.h"
#include "kernels/recurrence.h"
#include "kernels/shift.h"
#include "kernels/states.h"
#include "kernels/wkv.h"

#include <stdlib.h>

static mat cpu_alloc(backend *be, int64_t rows, int64_t cols) {
    size_t n = 0;
    if (rows < 0 || cols < 0 || !mem_mul((size_t)rows, (size_t)cols, &n)) {
        err_set(&be->fail, ERR_NOMEM, "out of memory: %lld x %lld numbers", (long long)rows,
                (long long)cols);
        return MAT_NONE;
    }
    real *p = mem_aligned(n, sizeof *p, "weights and activations", &be->fail);
    return p ? (mat){p, rows, cols, cols, sizeof(real)} : MAT_NONE;
}

static void cpu_free(backend *be, mat m) {
    (void)be;
    free(m.p);
}

static void cpu_zero(backend *be, mat m) {
    (void)be;
    for (int64_t i = 0; i < m.rows; i++)
        memset(row_of(m, i), 0, (size_t)m.cols * sizeof(real));
}

static void cpu_copy(backend *be, mat from, mat to) {
    (void)be;
    for (int64_t i = 0; i < from.rows; i++)
        memmove(row_of(to, i), row_of(from, i), (size_t)from.cols * sizeof(real));
}

static void cpu_read(backend *be, mat from, double *to) {
    (void)be;
    for (int64_t i = 0; i < from.rows; i++)
        for (int64_t j = 0; j < from.cols; j++)
            to[i * from.cols + j] = (double)row_of(from, i)[j];
}

static void cpu_write(backend *be, const double *from, mat to) {
    (void)be;
    for (int64_t i = 0; i < to.rows; i++)
        for (int64_t j = 0; j < to.cols; j++)
            row_of(to, i)[j] = (real)from[i * to.cols + j];
}

const backend_ops FN(cpu_ops) = {
    .alloc = cpu_alloc,
    .alloc_exact = cpu_alloc,
    .free = cpu_free,
    .zero = cpu_zero,
    .copy = cpu_copy,
    .read = cpu_read,
    .write = cpu_write,
    .embed = FN(dense_embed),
    .linear = FN(dense_linear),
    .linear_exact = FN(dense_linear),
    .add = FN(dense_add),
    .rms_norm = FN(norm_rms),
    .normalize_heads = FN(norm_heads),
    .activate = FN(pointwise_activate),
    .multiply = FN(pointwise_multiply),
    .scale_heads = FN(pointwise_scale_heads),
    .log_decay = FN(pointwise_log_decay),
    .short_conv = FN(conv_short),
    .recurrence = FN(recurrence_run),
    .rotate = FN(attention_rotate),
    .attention = FN(attention_run),
    .losses = FN(loss_tokens),
    .layer_norm = FN(norm_layer),
    .head_norms = FN(norm_of_heads),
    .token_shift = FN(shift_tokens),
    .mix = FN(shift_mix),
    .dot_heads = FN(shift_dot_heads),
    .divide_heads = FN(shift_divide_heads),
    .broadcast = FN(shift_broadcast),
    .log_forget = FN(pointwise_log_forget),
    .add_rows = FN(dense_add_rows),
    .time_step = FN(pointwise_time_step),
    .wkv = FN(wkv_run),
    .state_svals = FN(states_svals),
    .window_spectrum = cpu_window_spectrum,
    .lyapunov = cpu_lyapunov,
    .ledger = cpu_ledger,
    .token_spectrum = cpu_token_spectrum,
    .mark = cpu_mark,
    .elapsed = cpu_elapsed,
    .wait = cpu_wait,
    .evict = cpu_evict,
    .queue = cpu_queue,
    .close = cpu_close,
};
