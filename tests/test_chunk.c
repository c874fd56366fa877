// The chunk form against plain loops in double and against the step form, in both precisions.
#include "core/mem.h"
#include "kernels/cpu/cpu.h"
#include "tests/chunk_cases.h"
#include "tests/spectrum_cases.h"

#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// kernels/cpu/chunk_impl.h, once per precision.
void chunk_solve_f32(int n, const float *M, float *X, int nv);
void chunk_solve_f64(int n, const double *M, double *X, int nv);

static backend *f32, *f64;

typedef struct worst {
    double loop64, step64, loop32, state64;
    int cases;
} worst;

static void note(double *worst, double e) {
    if (e > *worst || e != e)
        *worst = e;
}

// Rounding in double of a few thousand sums of up to 512 terms; 1e-12 is far below any wrong term.
static const double EXACT = 1e-12;

// Chunk against loop and step in double, and in float against the loop on the same rounded inputs.
static void check(plan p, uint64_t seed, const int64_t *cuts, int n_cuts, double tol32, worst *w) {
    inputs x = inputs_new(p, seed, true);
    const head_shape *s = &p.s;
    size_t n_o = (size_t)p.T * (size_t)(s->H * s->V), n_s = (size_t)(s->H * s->K) * (size_t)s->V;
    double *o = malloc(4 * sizeof *o * (n_o + n_s)), *S = o + n_o;
    double *o1 = S + n_s, *S1 = o1 + n_o, *o2 = S1 + n_s, *S2 = o2 + n_o;
    size_t rows = (size_t)p.T * (size_t)s->H, V = (size_t)s->V;
    inputs_loop(&x, o, S);
    inputs_run(&x, f64, RECURRENCE_CHUNK, cuts, n_cuts, o1, S1);
    inputs_run(&x, f64, RECURRENCE_STEP, cuts, n_cuts, o2, S2);
    double loop64 = error_row(o1, o, rows, V), step64 = error_row(o1, o2, rows, V);
    double state64 = error_all(S1, S, n_s);
    inputs_run(&x, f32, RECURRENCE_CHUNK, cuts, n_cuts, o1, S1);
    double loop32 = fmax(error_all(o1, o, n_o), error_all(S1, S, n_s));
    if (!(loop64 <= EXACT && step64 <= EXACT && state64 <= EXACT && loop32 <= tol32))
        fail_msg("erase %d decay %d H %d/%d K %d V %d n_h %d T %lld beta %g log decay %g keys %d: "
                 "f64 loop %.1e step %.1e state %.1e, f32 %.1e",
                 s->erase, s->decay, s->H, s->Hk, s->K, s->V, s->n_h, (long long)p.T, p.beta,
                 p.decay, p.keys, loop64, step64, state64, loop32);
    note(&w->loop64, loop64);
    note(&w->step64, step64);
    note(&w->state64, state64);
    note(&w->loop32, loop32);
    w->cases++;
    free(o);
    inputs_free(&x);
}

static void report(const char *what, const worst *w) {
    printf("measured chunk, %s (%d cases): f64 against loop %.1e (states %.1e), against step %.1e; "
           "f32 against f64 %.1e\n",
           what, w->cases, w->loop64, w->state64, w->step64, w->loop32);
}

static plan usual(erase_kind erase, decay_kind decay, int K, int V, int n_h, int64_t T) {
    return (plan){.s = {.H = 2,
                        .Hk = 1,
                        .K = K,
                        .V = V,
                        .n_h = n_h,
                        .decay = decay,
                        .erase = erase,
                        .scale = 1 / sqrt(K),
                        .beta_max = 2},
                  .T = T,
                  .beta = BETA_RANDOM,
                  .decay = DECAY_RANDOM};
}

static const int64_t lengths[] = {1, 2, 3, 4, 7, 8, 63, 64, 65, 111, 128, 129, 1500};
static const int sizes[] = {16, 24, 64, 80, 128};
enum { LENGTHS = sizeof lengths / sizeof *lengths, SIZES = sizeof sizes / sizeof *sizes };

// K01-K05; KDA, GLA and Mamba-2 likewise, and K09 for ERASE_PAIR.
static void every_kind_equals_the_loop_at_every_length(void **state) {
    (void)state;
    static const char *const erases[] = {"no erase", "erase by key", "erase by pair"};
    int turn = 0;
    for (int erase = ERASE_NONE; erase <= ERASE_PAIR; erase++) {
        worst w = {0};
        for (int decay = DECAY_NONE; decay <= DECAY_CHANNEL; decay++)
            for (int n_h = 1; n_h <= (erase == ERASE_PAIR ? 1 : 3); n_h++)
                for (int i = 0; i < LENGTHS; i++, turn++) {
                    int K = sizes[turn % SIZES], V = sizes[(turn / SIZES + 2 * turn) % SIZES];
                    if (lengths[i] > 1000)
                        K = 16, V = 24; // the loop's time, not the kernel's need
                    check(usual(erase, decay, K, V, n_h, lengths[i]), (uint64_t)turn, NULL, 0, 1e-5,
                          &w);
                }
        report(erases[erase], &w);
    }
}

static void odd_sizes_and_many_micro_steps(void **state) {
    (void)state;
    worst w = {0};
    static const int odd[][4] = {{1, 1, 1, 70},   {1, 5, 2, 40},   {17, 1, 1, 33}, {3, 33, 3, 50},
                                 {31, 7, 5, 29},  {16, 16, 63, 3}, {8, 9, 64, 2},  {8, 9, 65, 2},
                                 {512, 3, 1, 65}, {5, 512, 1, 65}, {6, 257, 2, 33}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        for (int decay = DECAY_NONE; decay <= DECAY_CHANNEL; decay++)
            check(usual(ERASE_KEY, decay, odd[i][0], odd[i][1], odd[i][2], odd[i][3]), i, NULL, 0,
                  1e-5, &w);
    report("odd sizes", &w);
}

static void beta_zero_one_and_two_are_exact(void **state) {
    (void)state;
    worst w = {0};
    for (int b = 0; b <= 2; b++)
        for (int n_h = 1; n_h <= 3; n_h++)
            for (int keys = KEYS_RANDOM; keys <= KEYS_ZERO; keys++)
                for (int decay = DECAY_NONE; decay <= DECAY_CHANNEL; decay++) {
                    plan p = usual(ERASE_KEY, decay, 24, 16, n_h, 129);
                    p.beta = b;
                    p.keys = keys;
                    p.decay = -1e-6;
                    check(p, (uint64_t)(b * 3 + keys), NULL, 0, keys == KEYS_SAME ? 1e-4 : 1e-5,
                          &w);
                }
    report("beta 0, 1, 2; random, same and zero keys", &w);
}

// B39: one token 64 times, beta near 1 and near 2, no decay. Near 2 a chunk form in float loses more
// than the step form: U holds up to 64 terms of alternating sign that cancel.
static void B39_one_key_for_all_tokens_stays_finite(void **state) {
    (void)state;
    worst w = {0};
    static const double betas[] = {0.999, 1, 1.999, 2, BETA_RANDOM};
    for (int i = 0; i < 5; i++)
        for (int n_h = 1; n_h <= 3; n_h++) {
            plan p = usual(ERASE_KEY, DECAY_NONE, 64, 64, n_h, 64);
            p.beta = betas[i];
            p.keys = KEYS_SAME;
            check(p, 39, NULL, 0, 1e-4, &w);
            p.keys = KEYS_CORRELATED;
            check(p, 40, NULL, 0, 1e-4, &w);
        }
    report("B39, the same and correlated keys", &w);
}

// B40: cumulative log decays reach -64 x 500 within a chunk.
static void B40_strong_decay_stays_finite_and_right(void **state) {
    (void)state;
    worst w = {0};
    static const double decays[] = {-1e-6, -1, -50, -500, -INFINITY, DECAY_MIXED, DECAY_RANDOM};
    for (size_t i = 0; i < sizeof decays / sizeof *decays; i++)
        for (int erase = ERASE_NONE; erase <= ERASE_PAIR; erase++)
            for (int decay = DECAY_HEAD; decay <= DECAY_CHANNEL; decay++)
                for (int n_h = 1; n_h <= (erase == ERASE_PAIR ? 1 : 3); n_h++) {
                    plan p = usual(erase, decay, 24, 24, n_h, 200);
                    p.decay = decays[i];
                    check(p, 100 + i, NULL, 0, 1e-5, &w);
                }
    report("B40, log decays -1e-6 .. -infinity and mixed", &w);
}

static void cuts_at_any_token_carry_the_state(void **state) {
    (void)state;
    worst w = {0};
    rng r = {77};
    omp_set_num_threads(2); // elsewhere one: waking a second thread costs more than these cases
    for (int turn = 0; turn < 24; turn++) {
        int erase = turn % 3, decay = turn / 3 % 3, n_h = erase == ERASE_PAIR ? 1 : 1 + turn % 4;
        int64_t cuts[5], T = 150;
        for (int i = 0; i < 5; i++)
            cuts[i] = (int64_t)(rng_uniform(&r) * (double)T);
        for (int i = 0; i < 5; i++) // ascending; equal cuts are empty blocks
            for (int j = i + 1; j < 5; j++)
                if (cuts[j] < cuts[i]) {
                    int64_t c = cuts[i];
                    cuts[i] = cuts[j];
                    cuts[j] = c;
                }
        plan p = usual(erase, decay, 24, 80, n_h, T);
        check(p, (uint64_t)turn, cuts, 5, 1e-5, &w);
    }
    omp_set_num_threads(1);
    report("cut at random tokens", &w);
}

static void pairs_with_several_micro_steps_fall_back_to_the_step_form(void **state) {
    (void)state;
    inputs x = inputs_new(usual(ERASE_PAIR, DECAY_HEAD, 8, 8, 2, 20), 5, false);
    double o[2][20 * 16], S[2][2 * 64];
    inputs_run(&x, f64, RECURRENCE_CHUNK, NULL, 0, o[0], S[0]);
    inputs_run(&x, f64, RECURRENCE_STEP, NULL, 0, o[1], S[1]);
    assert_memory_equal(o[0], o[1], sizeof *o);
    assert_memory_equal(S[0], S[1], sizeof *S);
    inputs_free(&x);
}

static void no_memory_is_reported(void **state) {
    (void)state;
    static double zeros[64 * 8];
    mat m = {zeros, 8, 8, 8, sizeof *zeros};
    steps s = {.s = usual(ERASE_KEY, DECAY_NONE, 8, 8, 1, 8).s, .T = 8, .q = m, .k = m, .v = m};
    s.s.H = 1;
    double S[64] = {0}, o[64];
    f64->recurrence = RECURRENCE_CHUNK;
    mem_fail_after(1);
    f64->op->recurrence(f64, &s, (mat){S, 8, 8, 8, 8}, (mat){o, 8, 8, 8, 8});
    mem_fail_after(0);
    err e = {0};
    assert_false(backend_check(f64, &e));
    assert_int_equal(e.code, ERR_NOMEM);
}

// L = tril(diag(beta) K K^T, -1) of unit keys, all the same when d = 0.
static void random_chunk(rng *r, int n, int d, double top, double *beta, double *M) {
    double k[65][64];
    for (int i = 0; i < n; i++) {
        beta[i] = top == 2 && d == 0 ? 2 : top * rng_uniform(r);
        if (d)
            rng_unit(r, k[i], d);
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double dot = d == 0;
            for (int c = 0; c < d; c++)
                dot += k[i][c] * k[j][c];
            M[i * n + j] = j < i ? beta[i] * dot : NAN; // nothing else may be read
        }
}

// K07 against substitution in long double, and T_ii = beta_i, |T_ij| <= beta_i beta_j (science 1C).
static void K07_block_solve_of_the_identity_is_exact_and_T_is_bounded(void **state) {
    (void)state;
    static double M[65 * 65], inv[65 * 65], beta[65];
    static float M32[65 * 65], inv32[65 * 65];
    static long double X[65][65];
    static const int dims[] = {64, 16, 4, 1, 0};
    rng r = {7};
    double worst64 = 0, worst32 = 0, bound = 0;
    for (int turn = 0; turn < 300; turn++) {
        int n = turn % 3 == 0 ? 64 : 1 + (turn * 7) % 65, d = dims[turn % 5];
        random_chunk(&r, n, d, turn % 2 ? 2 : 1, beta, M);
        for (int i = 0; i < n * n; i++)
            M[i] = M32[i] = (float)M[i];
        for (int i = 0; i < n * n; i++)
            inv[i] = inv32[i] = i % (n + 1) == 0;
        chunk_solve_f64(n, M, inv, n);
        chunk_solve_f32(n, M32, inv32, n);
        double big = 0, d64 = 0, d32 = 0;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                long double x = i == j;
                for (int l = j; l < i; l++)
                    x -= (long double)M[i * n + l] * X[l][j];
                X[i][j] = x;
                big = fmax(big, fabs((double)x));
                d64 = fmax(d64, fabs((double)(inv[i * n + j] - x)));
                d32 = fmax(d32, fabs((double)(inv32[i * n + j] - x)));
                if (j > i)
                    assert_true(inv[i * n + j] == 0 && inv32[i * n + j] == 0);
                if (j < i && beta[i] * beta[j] > 0.01)
                    bound = fmax(bound, fabs(inv[i * n + j]) / beta[i]);
            }
        worst64 = fmax(worst64, d64 / big);
        worst32 = fmax(worst32, d32 / big);
    }
    printf("measured chunk solve of the identity (K07), largest error / largest entry: f64 %.1e, "
           "f32 %.1e; "
           "largest |T_ij| / (beta_i beta_j) %.6f\n",
           worst64, worst32, bound);
    // 64 roundings of entries near 1 each way, with what correlated keys add.
    assert_true(worst64 <= 1e-14 && worst32 <= 5e-6);
    assert_true(bound <= 1 + 1e-5); // 1e-5: M was rounded to float, keys are no longer unit
}

static int open_backends(void **state) {
    (void)state;
    err e = {0};
    f32 = cpu_open(PRECISION_F32, 1, &e);
    f64 = cpu_open(PRECISION_F64, 1, &e);
    return f32 && f64 ? 0 : -1;
}

static int close_backends(void **state) {
    (void)state;
    backend_close(f32);
    backend_close(f64);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_equals_the_loop_at_every_length),
        cmocka_unit_test(odd_sizes_and_many_micro_steps),
        cmocka_unit_test(beta_zero_one_and_two_are_exact),
        cmocka_unit_test(B39_one_key_for_all_tokens_stays_finite),
        cmocka_unit_test(B40_strong_decay_stays_finite_and_right),
        cmocka_unit_test(cuts_at_any_token_carry_the_state),
        cmocka_unit_test(pairs_with_several_micro_steps_fall_back_to_the_step_form),
        cmocka_unit_test(no_memory_is_reported),
        cmocka_unit_test(K07_block_solve_of_the_identity_is_exact_and_T_is_bounded),
    };
    return cmocka_run_group_tests(tests, open_backends, close_backends);
}
