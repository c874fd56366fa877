// The parallel forms of science.md 1C, written out in double here: each must reproduce what the
// step-by-step kernel gives. They share no code with it and no arithmetic order.
#include "tests/tiny_steps.h"

#include <lapacke.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { K = 7, V = 5, C = 12 }; // C: positions of a chunk

// float64 forms of a dozen positions: some thousand roundings.
static const double close_enough = 1e-12;

static tiny_steps one_head(decay_kind decay, int n_h, int64_t T, uint64_t seed) {
    head_shape s = {
        .H = 1, .Hk = 1, .K = K, .V = V, .n_h = n_h, .decay = decay, .erase = ERASE_KEY};
    return tiny_steps_new(s, T, seed);
}

static double dot(const double *a, const double *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

// gamma_i = product of the decays up to and with position i; 1 without decay.
static void cumulative(const tiny_steps *x, double *gamma) {
    double sum = 0;
    for (int i = 0; i < x->T; i++) {
        sum += x->decay ? x->decay[i] : 0;
        gamma[i] = exp(sum);
    }
}

// K03, K04: T = (I + tril(diag(beta) (Gamma . K K^T), -1))^-1 diag(beta), Gamma_ij = gamma_i/gamma_j,
// by LAPACK's triangular inverse. T [n, n].
static void ut_transform(const tiny_steps *x, const double *gamma, double *T) {
    int n = (int)x->T;
    memset(T, 0, (size_t)(n * n) * sizeof *T);
    for (int i = 0; i < n; i++) {
        T[i * n + i] = 1;
        for (int j = 0; j < i; j++)
            T[i * n + j] = x->beta[i] * gamma[i] / gamma[j] * dot(x->k + i * K, x->k + j * K, K);
    }
    assert_int_equal(LAPACKE_dtrtri(LAPACK_ROW_MAJOR, 'L', 'U', n, T, n), 0);
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            T[i * n + j] *= x->beta[j];
}

// y [n, m] = T [n, n] x [n, m]
static void times(const double *T, const double *x, int n, int m, double *y) {
    memset(y, 0, (size_t)(n * m) * sizeof *y);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int c = 0; c < m; c++)
                y[i * m + c] += T[i * n + j] * x[j * m + c];
}

// K01: n_h micro-steps are n_h tokens with gates (g, 1, 1) and a query at the last one.
static void K01_micro_steps_are_tokens_of_an_expanded_sequence(void **state) {
    (void)state;
    for (int n_h = 2; n_h <= 3; n_h++) {
        tiny_steps x = one_head(DECAY_HEAD, n_h, C, 21), y = one_head(DECAY_HEAD, 1, C * n_h, 22);
        memcpy(y.k, x.k, (size_t)(C * n_h * K) * sizeof *x.k);
        memcpy(y.v, x.v, (size_t)(C * n_h * V) * sizeof *x.v);
        memcpy(y.beta, x.beta, (size_t)(C * n_h) * sizeof *x.beta);
        memcpy(y.start, x.start, K * V * sizeof *x.start);
        memset(y.q, 0, (size_t)(C * n_h * K) * sizeof *y.q);
        memset(y.decay, 0, (size_t)(C * n_h) * sizeof *y.decay);
        for (int t = 0; t < C; t++) {
            y.decay[t * n_h] = x.decay[t];
            memcpy(y.q + ((t + 1) * n_h - 1) * K, x.q + t * K, K * sizeof *x.q);
        }
        tiny_steps_kernel(&x, PRECISION_F64, 5);
        tiny_steps_kernel(&y, PRECISION_F64, C * n_h);
        double worst = tiny_difference(x.end, y.end, K * V);
        for (int t = 0; t < C; t++)
            worst = fmax(worst, tiny_difference(x.o + t * V, y.o + ((t + 1) * n_h - 1) * V, V));
        print_message("measured K01, n_h %d: %.1e\n", n_h, worst);
        assert_true(worst <= close_enough);
        tiny_steps_free(&x);
        tiny_steps_free(&y);
    }
}

// K02: F_r .. F_1 = I - K^T W and H = K^T U, w and u by their recurrences.
static void wy(const tiny_steps *x, double *W, double *U) {
    for (int r = 0; r < x->T; r++) {
        memcpy(W + r * K, x->k + r * K, K * sizeof *W);
        memcpy(U + r * V, x->v + r * V, V * sizeof *U);
        for (int j = 0; j < r; j++) {
            double kk = dot(x->k + r * K, x->k + j * K, K);
            for (int i = 0; i < K; i++)
                W[r * K + i] -= kk * W[j * K + i];
            for (int c = 0; c < V; c++)
                U[r * V + c] -= kk * U[j * V + c];
        }
        for (int i = 0; i < K; i++)
            W[r * K + i] *= x->beta[r];
        for (int c = 0; c < V; c++)
            U[r * V + c] *= x->beta[r];
    }
}

// P H_0 + K^T U with P = I - K^T W, against the kernel's state.
static double state_of(tiny_steps *x, const double *W, const double *U) {
    double want[K * V];
    for (int i = 0; i < K; i++)
        for (int c = 0; c < V; c++) {
            double sum = x->start[i * V + c];
            for (int r = 0; r < x->T; r++) {
                double wh = 0;
                for (int j = 0; j < K; j++)
                    wh += W[r * K + j] * x->start[j * V + c];
                sum += x->k[r * K + i] * (U[r * V + c] - wh);
            }
            want[i * V + c] = sum;
        }
    tiny_steps_kernel(x, PRECISION_F64, x->T);
    return tiny_difference(want, x->end, K * V);
}

static void K02_the_WY_form_gives_the_state(void **state) {
    (void)state;
    tiny_steps x = one_head(DECAY_NONE, 1, C, 23);
    double W[C * K], U[C * V];
    wy(&x, W, U);
    double d = state_of(&x, W, U);
    print_message("measured K02: %.1e\n", d);
    assert_true(d <= close_enough);
    tiny_steps_free(&x);
}

static void K03_the_UT_transform_gives_W_and_U(void **state) {
    (void)state;
    tiny_steps x = one_head(DECAY_NONE, 1, C, 24);
    double W[C * K], U[C * V], W2[C * K], U2[C * V], T[C * C], gamma[C];
    wy(&x, W, U);
    cumulative(&x, gamma);
    ut_transform(&x, gamma, T);
    times(T, x.k, C, K, W2);
    times(T, x.v, C, V, U2);
    double d = fmax(tiny_difference(W, W2, C * K), tiny_difference(U, U2, C * V));
    d = fmax(d, state_of(&x, W2, U2));
    print_message("measured K03: %.1e\n", d);
    assert_true(d <= close_enough);
    // T_ii = beta_i and |T_ij| <= beta_i beta_j for unit keys (1C, bound for mixed precision).
    for (int i = 0; i < C; i++)
        for (int j = 0; j <= i; j++)
            assert_true(fabs(T[i * C + j]) <=
                        (i == j ? x.beta[i] : x.beta[i] * x.beta[j]) * (1 + 1e-6));
    tiny_steps_free(&x);
}

// K04: W<- = T_gated (gamma K) = gamma . (T_plain K).
static void K04_both_gated_forms_of_W_agree(void **state) {
    (void)state;
    tiny_steps x = one_head(DECAY_HEAD, 1, C, 25);
    double gamma[C], ones[C], T[C * C], plain[C * C], gk[C * K], a[C * K], b[C * K];
    cumulative(&x, gamma);
    for (int i = 0; i < C; i++)
        ones[i] = 1;
    ut_transform(&x, gamma, T);
    ut_transform(&x, ones, plain);
    for (int i = 0; i < C * K; i++)
        gk[i] = gamma[i / K] * x.k[i];
    times(T, gk, C, K, a);
    times(plain, x.k, C, K, b);
    for (int i = 0; i < C * K; i++)
        b[i] *= gamma[i / K];
    double d = tiny_difference(a, b, C * K);
    print_message("measured K04: %.1e\n", d);
    assert_true(d <= close_enough);
    tiny_steps_free(&x);
}

// K05: one chunk with a state H that comes in. `mask` instead of Gamma in O is erratum E19.
static void chunk(const tiny_steps *x, const double *H, bool mask, double *O, double *end) {
    int n = (int)x->T;
    double gamma[C], T[C * C], W[C * K], U[C * V], gk[C * K];
    cumulative(x, gamma);
    ut_transform(x, gamma, T);
    for (int i = 0; i < n * K; i++)
        gk[i] = gamma[i / K] * x->k[i];
    times(T, gk, n, K, W);
    times(T, x->v, n, V, U);
    for (int i = 0; i < n; i++) // V~ = U - W<- H
        for (int c = 0; c < V; c++)
            for (int j = 0; j < K; j++)
                U[i * V + c] -= W[i * K + j] * H[j * V + c];
    for (int i = 0; i < n; i++)
        for (int c = 0; c < V; c++) {
            double sum = 0;
            for (int j = 0; j < K; j++)
                sum += gamma[i] * x->q[i * K + j] * H[j * V + c];
            for (int j = 0; j <= i; j++)
                sum += dot(x->q + i * K, x->k + j * K, K) * (mask ? 1 : gamma[i] / gamma[j]) *
                       U[j * V + c];
            O[i * V + c] = x->s.scale * sum;
        }
    for (int i = 0; i < K; i++)
        for (int c = 0; c < V; c++) {
            double sum = gamma[n - 1] * H[i * V + c];
            for (int j = 0; j < n; j++)
                sum += gamma[n - 1] / gamma[j] * x->k[j * K + i] * U[j * V + c];
            end[i * V + c] = sum;
        }
}

static void K05_the_chunk_step_gives_outputs_and_state(void **state) {
    (void)state;
    for (int decay = DECAY_NONE; decay <= DECAY_HEAD; decay++) {
        tiny_steps x = one_head(decay, 1, C, 26);
        double O[C * V], end[K * V], wrong[C * V];
        chunk(&x, x.start, false, O, end);
        chunk(&x, x.start, true, wrong, (double[K * V]){0});
        tiny_steps_kernel(&x, PRECISION_F64, 5);
        double d = fmax(tiny_difference(O, x.o, C * V), tiny_difference(end, x.end, K * V));
        print_message("measured K05, %s: %.1e\n", decay ? "gated" : "no gate", d);
        assert_true(d <= close_enough);
        if (decay)
            assert_true(tiny_difference(wrong, x.o, C * V) > 0.05); // E19
        tiny_steps_free(&x);
    }
}

// K06: o = ((Q K^T . Gamma) T) V from an empty state: the attention map of a delta rule.
static void K06_the_attention_map_gives_the_outputs(void **state) {
    (void)state;
    tiny_steps x = one_head(DECAY_HEAD, 1, C, 27);
    double gamma[C], T[C * C], QK[C * C] = {0}, att[C * C], O[C * V];
    memset(x.start, 0, K * V * sizeof *x.start);
    cumulative(&x, gamma);
    ut_transform(&x, gamma, T);
    for (int i = 0; i < C; i++)
        for (int j = 0; j <= i; j++)
            QK[i * C + j] = x.s.scale * gamma[i] / gamma[j] * dot(x.q + i * K, x.k + j * K, K);
    times(QK, T, C, C, att);
    times(att, x.v, C, V, O);
    tiny_steps_kernel(&x, PRECISION_F64, C);
    double d = tiny_difference(O, x.o, C * V), worst = 0;
    // One entry of the map is what a value 1 at j alone gives at i: beta_j q_i^T A_i .. A_{j+1} k_j.
    for (int j = 0; j < C; j++) {
        tiny_steps y = one_head(DECAY_HEAD, 1, C, 27);
        memset(y.start, 0, K * V * sizeof *y.start);
        memset(y.v, 0, C * V * sizeof *y.v);
        y.v[j * V] = 1;
        tiny_steps_kernel(&y, PRECISION_F64, C);
        for (int i = 0; i < C; i++)
            worst = fmax(worst, fabs(y.o[i * V] - att[i * C + j]));
        tiny_steps_free(&y);
    }
    print_message("measured K06: outputs %.1e, map %.1e\n", d, worst);
    assert_true(d <= close_enough);
    assert_true(worst <= close_enough);
    tiny_steps_free(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(K01_micro_steps_are_tokens_of_an_expanded_sequence),
        cmocka_unit_test(K02_the_WY_form_gives_the_state),
        cmocka_unit_test(K03_the_UT_transform_gives_W_and_U),
        cmocka_unit_test(K04_both_gated_forms_of_W_agree),
        cmocka_unit_test(K05_the_chunk_step_gives_outputs_and_state),
        cmocka_unit_test(K06_the_attention_map_gives_the_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
