// The recurrence kernel of the CPU against plain loops in double, and against values known by hand.
//
// Offsets (B46): rows and heads are multiplied as int64_t in kernels/cpu/recurrence.real.c (row_of,
// (int64_t)h * K, micro-step numbers); arrays above 2^31 elements are not built here.
#include "core/mem.h"
#include "kernels/cpu/cpu.h"
#include "tests/tiny_model.h"
#include "tests/tiny_steps.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const erases[] = {"none", "key", "pair"}, *const decays[] = {"none", "head",
                                                                                "channel"};

// float64: some hundred roundings of 1e-16; float32 the same at 6e-8 (K up to 80 terms a sum).
static double bound(precision p) {
    return p == PRECISION_F64 ? 1e-13 : 1e-5;
}

static void beta_of_kind(tiny_steps *x, int kind) {
    int64_t n = x->T * x->s.n_h * x->s.H;
    if (kind == 2) { // absent: 1 throughout
        free(x->beta);
        x->beta = NULL;
    }
    for (int64_t i = 0; kind == 1 && i < n; i++)
        x->beta[i] = (double)(i % 3); // exactly 0, 1, 2
}

static double sweep(precision p, erase_kind erase, decay_kind decay, int n_h) {
    static const int Ks[] = {1, 5, 16, 24, 33, 64, 80}, Vs[] = {1, 7, 16, 31, 32, 33, 65};
    static const int groups[][2] = {{4, 2}, {3, 1}, {2, 2}};
    double worst = 0;
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 7; j++) {
            int z = i + j;
            head_shape s = {.H = groups[z % 3][0],
                            .Hk = groups[z % 3][1],
                            .K = Ks[i],
                            .V = Vs[j],
                            .n_h = n_h,
                            .decay = decay,
                            .erase = erase};
            tiny_steps x = tiny_steps_new(s, 7, (uint64_t)(1000 + 49 * n_h + 7 * i + j));
            beta_of_kind(&x, (i + 2 * j) % 3);
            double d = tiny_steps_error(&x, p, z % 2 ? 7 : 3);
            if (!(d <= bound(p)))
                fail_msg("erase %s, decay %s, n_h %d, K %d, V %d in %s: off by %g", erases[erase],
                         decays[decay], n_h, s.K, s.V, precision_name(p), d);
            worst = fmax(worst, d);
            tiny_steps_free(&x);
        }
    return worst;
}

static void every_shape(precision p) {
    double worst = 0;
    for (int erase = ERASE_NONE; erase <= ERASE_PAIR; erase++)
        for (int decay = DECAY_NONE; decay <= DECAY_CHANNEL; decay++)
            for (int n_h = 1; n_h <= (erase == ERASE_PAIR ? 1 : 3); n_h++)
                worst = fmax(worst, sweep(p, erase, decay, n_h));
    print_message("measured recurrence, 1029 shapes, %s: %.1e\n", precision_name(p), worst);
}

static void every_kind_and_shape_agrees_with_loops_in_float64(void **state) {
    (void)state;
    every_shape(PRECISION_F64);
}

static void every_kind_and_shape_agrees_with_loops_in_float32(void **state) {
    (void)state;
    every_shape(PRECISION_F32);
}

// B39: one key 64 times over with beta near 1 and no decay.
static void repeated_keys_stay_finite_and_right(void **state) {
    (void)state;
    head_shape s = {.H = 2, .Hk = 1, .K = 24, .V = 20, .n_h = 1, .erase = ERASE_KEY};
    tiny_steps x = tiny_steps_new(s, 64, 3);
    for (int64_t t = 1; t < 64; t++)
        memcpy(x.k + t * 24, x.k, 24 * sizeof *x.k);
    for (int64_t i = 0; i < 64 * 2; i++)
        x.beta[i] = (float)(1 - 1e-4 * (double)(i % 7));
    assert_true(tiny_steps_error(&x, PRECISION_F64, 64) <= bound(PRECISION_F64));
    assert_true(tiny_steps_error(&x, PRECISION_F32, 64) <= bound(PRECISION_F32));
    tiny_steps_free(&x);
}

// B59: a zero key leaves the state alone, bit for bit.
static void zero_keys_leave_the_state_alone(void **state) {
    (void)state;
    head_shape s = {.H = 2, .Hk = 2, .K = 9, .V = 5, .n_h = 2, .erase = ERASE_KEY};
    tiny_steps x = tiny_steps_new(s, 10, 4);
    memset(x.k, 0, (size_t)(20 * 2 * 9) * sizeof *x.k);
    for (int p = 0; p < 2; p++) {
        tiny_steps_kernel(&x, p ? PRECISION_F64 : PRECISION_F32, 4);
        assert_memory_equal(x.end, x.start, (size_t)(2 * 9 * 5) * sizeof *x.end);
    }
    tiny_steps_free(&x);
}

// B40: decays from almost none to total. B42: a tail of a block in [0.99, 1).
static void extreme_decays_are_finite_and_right(void **state) {
    (void)state;
    static const double logs[] = {-1e-6, -0.005, -50, -500, 0};
    static const int lengths[] = {65, 111, 192};
    for (int kind = DECAY_HEAD; kind <= DECAY_CHANNEL; kind++)
        for (int i = 0; i < 5; i++)
            for (int erase = ERASE_NONE; erase <= ERASE_PAIR; erase++) {
                head_shape s = {
                    .H = 2, .Hk = 1, .K = 17, .V = 9, .n_h = 1, .decay = kind, .erase = erase};
                int64_t T = lengths[i % 3], n = T * 2 * (kind == DECAY_CHANNEL ? 17 : 1);
                tiny_steps x = tiny_steps_new(s, T, (uint64_t)(9 + i));
                for (int64_t j = 0; j < n; j++)
                    x.decay[j] = (float)(logs[i] * (1 + 0.1 * (double)(j % 5)));
                assert_true(tiny_steps_error(&x, PRECISION_F64, 64) <= 1e-12);
                assert_true(tiny_steps_error(&x, PRECISION_F32, 64) <= 1e-5);
                tiny_steps_free(&x);
            }
}

// B58: a gate of exactly 1 is no gate.
static void a_gate_of_one_is_the_plain_delta_rule(void **state) {
    (void)state;
    for (int p = 0; p < 2; p++)
        for (int kind = DECAY_HEAD; kind <= DECAY_CHANNEL; kind++) {
            head_shape s = {.H = 2, .Hk = 2, .K = 12, .V = 10, .n_h = 2, .erase = ERASE_KEY};
            tiny_steps plain = tiny_steps_new(s, 30, 5);
            s.decay = kind;
            tiny_steps gated = tiny_steps_new(s, 30, 5);
            memcpy(gated.start, plain.start, (size_t)(2 * 12 * 10) * sizeof(double));
            memset(gated.decay, 0,
                   (size_t)(30 * 2 * (kind == DECAY_CHANNEL ? 12 : 1)) * sizeof(double));
            tiny_steps_kernel(&plain, p ? PRECISION_F64 : PRECISION_F32, 30);
            tiny_steps_kernel(&gated, p ? PRECISION_F64 : PRECISION_F32, 30);
            assert_memory_equal(plain.o, gated.o, (size_t)(30 * 20) * sizeof(double));
            assert_memory_equal(plain.end, gated.end, (size_t)(2 * 120) * sizeof(double));
            tiny_steps_free(&plain);
            tiny_steps_free(&gated);
        }
}

// B65, G02: two reflections 60 degrees apart turn by 120 degrees; the second one is on the left.
static void two_reflections_multiply_newest_on_the_left(void **state) {
    (void)state;
    head_shape s = {.H = 1,
                    .Hk = 1,
                    .K = 2,
                    .V = 2,
                    .n_h = 2,
                    .decay = DECAY_HEAD,
                    .erase = ERASE_KEY,
                    .scale = 1};
    tiny_steps x = tiny_steps_new(s, 3, 1);
    const double h = sqrt(3) / 2, keys[] = {1, 0, 0.5, h}, eye[] = {1, 0, 0, 1};
    for (int t = 0; t < 3; t++)
        memcpy(x.k + 4 * t, keys, sizeof keys);
    for (int i = 0; i < 6; i++)
        x.beta[i] = 2;
    memset(x.v, 0, 12 * sizeof *x.v);
    memset(x.decay, 0, 3 * sizeof *x.decay);
    memcpy(x.start, eye, sizeof eye);
    const double turn[] = {-0.5, -h, h, -0.5};
    int64_t T = x.T;
    x.T = 1;
    tiny_steps_kernel(&x, PRECISION_F64, 1);
    assert_true(tiny_difference(turn, x.end, 4) < 1e-15);
    // The gate applies once per token, not once per micro-step.
    x.decay[0] = log(0.5);
    tiny_steps_kernel(&x, PRECISION_F64, 1);
    for (int i = 0; i < 4; i++)
        assert_true(fabs(x.end[i] - turn[i] / 2) < 1e-15);
    x.decay[0] = 0;
    x.T = T;
    tiny_steps_kernel(&x, PRECISION_F64, 2);
    assert_true(tiny_difference(eye, x.end, 4) < 3e-15); // the cube is the identity
    tiny_steps_free(&x);
}

// B51: K = V = 2, a gate per channel, three tokens, computed by hand. Decay comes first; after the
// correction instead, the last state would be [[0, 3/32], [0, -3/16]].
static void channel_decay_comes_before_the_correction(void **state) {
    (void)state;
    head_shape s = {.H = 1,
                    .Hk = 1,
                    .K = 2,
                    .V = 2,
                    .n_h = 1,
                    .decay = DECAY_CHANNEL,
                    .erase = ERASE_KEY,
                    .scale = 1};
    tiny_steps x = tiny_steps_new(s, 3, 1);
    const double k[] = {1, 0, 0, 1, 1, 1}, v[] = {2, 4, 1, -1, 0, 0}, beta[] = {0.5, 1, 0.5};
    const double g[] = {log(0.5), log(0.5), log(0.5), log(0.25), log(0.25), log(0.5)};
    const double q[] = {1, 1, 1, 2, 2, 1};
    memcpy(x.k, k, sizeof k), memcpy(x.v, v, sizeof v), memcpy(x.beta, beta, sizeof beta);
    memcpy(x.decay, g, sizeof g), memcpy(x.q, q, sizeof q);
    memset(x.start, 0, 4 * sizeof *x.start);
    // [[1,2],[0,0]] -> [[1/2,1],[1,-1]] -> decayed [[1/8,1/4],[1/2,-1/2]], read (5/8,-1/4).
    const double end[] = {-0.1875, 0.375, 0.1875, -0.375};
    const double o[] = {1, 2, 2.5, -1, -0.1875, 0.375};
    for (int p = 0; p < 2; p++) {
        tiny_steps_kernel(&x, p ? PRECISION_F64 : PRECISION_F32, 3);
        assert_true(tiny_difference(end, x.end, 4) < (p ? 1e-15 : 3e-7));
        assert_true(tiny_difference(o, x.o, 6) < (p ? 1e-15 : 3e-7));
    }
    tiny_steps_free(&x);
}

// B32, B52: two key heads for four value heads; an all-zero key head 1 changes value heads 2 and 3
// only.
static void a_key_head_serves_neighbouring_value_heads(void **state) {
    (void)state;
    for (int decay = DECAY_NONE; decay <= DECAY_CHANNEL; decay++) {
        head_shape s = {
            .H = 4, .Hk = 2, .K = 6, .V = 3, .n_h = 1, .decay = decay, .erase = ERASE_KEY};
        tiny_steps x = tiny_steps_new(s, 20, 6), y = tiny_steps_new(s, 20, 6);
        for (int64_t t = 0; t < 20; t++)
            memset(y.k + t * 12 + 6, 0, 6 * sizeof *y.k);
        tiny_steps_kernel(&x, PRECISION_F64, 20);
        tiny_steps_kernel(&y, PRECISION_F64, 20);
        assert_memory_equal(x.end, y.end, 2 * 18 * sizeof(double));
        for (int h = 2; h < 4; h++)
            assert_true(tiny_difference(x.end + 18 * h, y.end + 18 * h, 18) > 1e-3);
        tiny_steps_free(&x);
        tiny_steps_free(&y);
    }
}

// B50: a state that differs from its transpose, K = V and K != V: row i is what query e_i reads.
static void a_query_reads_a_row_of_the_state(void **state) {
    (void)state;
    static const int sizes[][2] = {{64, 128}, {16, 16}, {3, 40}};
    for (int z = 0; z < 3; z++) {
        int K = sizes[z][0], V = sizes[z][1];
        head_shape s = {.H = 1, .Hk = 1, .K = K, .V = V, .n_h = 1, .erase = ERASE_KEY, .scale = 1};
        tiny_steps x = tiny_steps_new(s, K, 7);
        memset(x.k, 0, (size_t)(K * K) * sizeof *x.k);
        memset(x.q, 0, (size_t)(K * K) * sizeof *x.q);
        for (int i = 0; i < K; i++) {
            x.q[i * K + i] = 1;
            for (int c = 0; c < V; c++)
                x.start[i * V + c] = 1000 * i + c;
        }
        tiny_steps_kernel(&x, PRECISION_F32, 5);
        assert_memory_equal(x.o, x.start, (size_t)(K * V) * sizeof(double));
        tiny_steps_free(&x);
    }
}

// With a unit key and beta 1 the state gives back the value it was told (science R06).
static void a_unit_key_with_beta_one_reads_back_its_value(void **state) {
    (void)state;
    head_shape s = {.H = 3, .Hk = 3, .K = 20, .V = 11, .n_h = 1, .erase = ERASE_KEY, .scale = 1};
    tiny_steps x = tiny_steps_new(s, 40, 8);
    memcpy(x.q, x.k, (size_t)(40 * 60) * sizeof *x.q);
    for (int i = 0; i < 120; i++)
        x.beta[i] = 1;
    tiny_steps_kernel(&x, PRECISION_F64, 40);
    double d = tiny_difference(x.v, x.o, 40 * 33);
    print_message("measured value read back through a float-rounded unit key: %.1e\n", d);
    assert_true(d < 1e-6); // |k|^2 - 1 of keys rounded to float, times the state
    tiny_steps_free(&x);
}

// B60: beta exactly 2 and unit keys, 100,000 reflections in float32: the product stays near the
// orthogonal group. Its largest singular value bounds the spectral radius.
static void a_hundred_thousand_reflections_do_not_grow(void **state) {
    (void)state;
    enum { K = 8, T = 100000 };
    head_shape s = {.H = 1, .Hk = 1, .K = K, .V = K, .n_h = 1, .erase = ERASE_KEY, .scale = 1};
    tiny_steps x = tiny_steps_new(s, T, 9);
    memset(x.v, 0, (size_t)(T * K) * sizeof *x.v);
    memset(x.start, 0, K * K * sizeof *x.start);
    for (int i = 0; i < K; i++)
        x.start[i * K + i] = 1;
    for (int i = 0; i < T; i++)
        x.beta[i] = 2;
    tiny_steps_kernel(&x, PRECISION_F32, 4096);
    double y[K], z[K], norm = 0;
    for (int i = 0; i < K; i++)
        y[i] = 1 + 0.1 * i;
    for (int n = 0; n < 2000; n++) { // power iteration on P^T P
        double sum = 0;
        for (int i = 0; i < K; i++) {
            z[i] = 0;
            for (int j = 0; j < K; j++)
                z[i] += x.end[i * K + j] * y[j];
        }
        for (int j = 0; j < K; j++) {
            y[j] = 0;
            for (int i = 0; i < K; i++)
                y[j] += x.end[i * K + j] * z[i];
            sum += y[j] * y[j];
        }
        norm = sqrt(sqrt(sum));
        for (int j = 0; j < K; j++)
            y[j] /= sqrt(sum);
    }
    print_message("measured |product of 100000 reflections|_2 - 1 in float32: %.1e\n", norm - 1);
    assert_true(fabs(norm - 1) < 1e-4);
    tiny_steps_free(&x);
}

static void no_tokens_leave_the_state_alone(void **state) {
    (void)state;
    head_shape s = {.H = 2, .Hk = 2, .K = 4, .V = 4, .n_h = 1, .erase = ERASE_KEY};
    err e = {0};
    backend *be = cpu_open(PRECISION_F64, 2, &e);
    mat S = be->op->alloc(be, 8, 4), none = be->op->alloc(be, 0, 8), o = be->op->alloc(be, 0, 8);
    double one[32], after[32];
    for (int i = 0; i < 32; i++)
        one[i] = i;
    be->op->write(be, one, S);
    steps st = {.s = s, .T = 0, .q = none, .k = none, .v = none};
    be->op->recurrence(be, &st, S, o);
    be->op->read(be, S, after);
    assert_true(backend_check(be, &e));
    assert_memory_equal(one, after, sizeof one);
    be->op->free(be, S), be->op->free(be, none), be->op->free(be, o);
    backend_close(be);
}

static void a_failing_allocation_is_reported(void **state) {
    (void)state;
    head_shape s = {.H = 1, .Hk = 1, .K = 4, .V = 4, .n_h = 1, .erase = ERASE_KEY};
    err e = {0};
    backend *be = cpu_open(PRECISION_F32, 1, &e);
    mat S = be->op->alloc(be, 4, 4), x = be->op->alloc(be, 2, 4), o = be->op->alloc(be, 2, 4);
    steps st = {.s = s, .T = 2, .q = x, .k = x, .v = x};
    mem_fail_after(1);
    be->op->recurrence(be, &st, S, o);
    mem_fail_after(0);
    assert_false(backend_check(be, &e));
    assert_int_equal(e.code, ERR_NOMEM);
    err_clear(&e);
    assert_true(backend_check(be, &e)); // reported once
    be->op->free(be, S), be->op->free(be, x), be->op->free(be, o);
    backend_close(be);
}

// A tile of so many keys does not fit the stack; a replay without it would leave the states where
// they were and give their ranks to other tokens.
static void a_failing_allocation_of_a_replay_is_reported(void **state) {
    (void)state;
    enum { K = 700, V = 2 };
    head_shape s = {.H = 1, .Hk = 1, .K = K, .V = V, .n_h = 1, .erase = ERASE_NONE, .scale = 1};
    err e = {0};
    backend *be = cpu_open(PRECISION_F32, 1, &e);
    mat S = be->op->alloc(be, K, V), k = be->op->alloc(be, 1, K), v = be->op->alloc(be, 1, V);
    steps st = {.s = s, .T = 1, .q = k, .k = k, .v = v};
    int head = 0, failures = 0;
    bool told = false; // by the replay itself, not by what comes after it
    int64_t at = 1;
    double sv[V], fro;
    for (;; failures++) {
        mem_fail_after(failures + 1);
        bool ok = be->op->state_svals(be, &st, S, &head, 1, &at, 1, sv, &fro, &e);
        mem_fail_after(0);
        if (ok)
            break;
        assert_int_equal(e.code, ERR_NOMEM);
        told |= strstr(e.text, "a state tile") != NULL;
        err_clear(&e);
        assert_true(failures < 100);
    }
    assert_true(told);
    be->op->free(be, S), be->op->free(be, k), be->op->free(be, v);
    backend_close(be);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_and_shape_agrees_with_loops_in_float64),
        cmocka_unit_test(every_kind_and_shape_agrees_with_loops_in_float32),
        cmocka_unit_test(repeated_keys_stay_finite_and_right),
        cmocka_unit_test(zero_keys_leave_the_state_alone),
        cmocka_unit_test(extreme_decays_are_finite_and_right),
        cmocka_unit_test(a_gate_of_one_is_the_plain_delta_rule),
        cmocka_unit_test(two_reflections_multiply_newest_on_the_left),
        cmocka_unit_test(channel_decay_comes_before_the_correction),
        cmocka_unit_test(a_key_head_serves_neighbouring_value_heads),
        cmocka_unit_test(a_query_reads_a_row_of_the_state),
        cmocka_unit_test(a_unit_key_with_beta_one_reads_back_its_value),
        cmocka_unit_test(a_hundred_thousand_reflections_do_not_grow),
        cmocka_unit_test(no_tokens_leave_the_state_alone),
        cmocka_unit_test(a_failing_allocation_is_reported),
        cmocka_unit_test(a_failing_allocation_of_a_replay_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
