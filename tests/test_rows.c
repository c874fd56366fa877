// Rows of different lengths in one call, and boundary states (core/rows.h): against plain loops in
// double, row by row, and against separate calls.
#include "core/rows.h"
#include "kernels/cpu/cpu.h"
#include "tests/chunk_cases.h"
#include "tests/worst.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 8, MOST = 1000 };
static const int64_t lengths[ROWS] = {0, 200, 1, 64, 2, 1000, 63, 65};

// Rows behind each other, as a backend has them and as double.
typedef struct packed {
    plan p; // T: of all rows
    int64_t starts[ROWS + 1];
    inputs row[ROWS];
    mat q, k, v, beta, decay, a, b, state, o;
} packed;

// The same part of every row's inputs, one behind the other.
static mat join(backend *be, const packed *x, size_t part, int64_t per_token, int64_t cols,
                bool per_row) {
    int64_t rows = (per_row ? ROWS : x->p.T) * per_token;
    mat m = be->op->alloc(be, rows, cols);
    for (int64_t i = 0; i < ROWS; i++) {
        const double *from = *(double *const *)((const char *)&x->row[i] + part);
        int64_t first = per_row ? i : x->starts[i], n = per_row ? 1 : lengths[i];
        be->op->write(be, from, mat_rows(m, first * per_token, n * per_token));
    }
    return m;
}

static packed packed_new(backend *be, plan p, uint64_t seed) {
    packed x = {.p = p};
    const head_shape *s = &p.s;
    for (int i = 0; i < ROWS; i++) {
        p.T = lengths[i];
        x.row[i] = inputs_new(p, seed + (uint64_t)i, true);
        x.starts[i + 1] = x.starts[i] + lengths[i];
    }
    x.p.T = x.starts[ROWS];
    x.q = join(be, &x, offsetof(inputs, q), 1, s->Hk * s->K, false);
    x.k = join(be, &x, offsetof(inputs, k), s->n_h, s->Hk * s->K, false);
    x.v = join(be, &x, offsetof(inputs, v), s->n_h, s->H * s->V, false);
    x.beta = join(be, &x, offsetof(inputs, beta), s->n_h, s->H, false);
    if (s->decay != DECAY_NONE)
        x.decay = join(be, &x, offsetof(inputs, decay), 1,
                       s->decay == DECAY_CHANNEL ? s->H * s->K : s->H, false);
    if (s->erase == ERASE_PAIR) {
        x.a = join(be, &x, offsetof(inputs, a), 1, s->H * s->K, false);
        x.b = join(be, &x, offsetof(inputs, b), 1, s->Hk * s->K, false);
    }
    x.state = join(be, &x, offsetof(inputs, state), s->H * s->K, s->V, true);
    x.o = be->op->alloc(be, x.p.T, s->H * s->V);
    return x;
}

static void packed_free(backend *be, packed *x) {
    mat all[] = {x->q, x->k, x->v, x->beta, x->decay, x->a, x->b, x->state, x->o};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        be->op->free(be, all[i]);
    for (int i = 0; i < ROWS; i++)
        inputs_free(&x->row[i]);
}

// n tokens from `first` on
static steps part(const packed *x, int64_t first, int64_t n) {
    steps all = {.s = x->p.s,
                 .T = x->p.T,
                 .q = x->q,
                 .k = x->k,
                 .v = x->v,
                 .beta = x->beta,
                 .decay = x->decay,
                 .a = x->a,
                 .b = x->b};
    return steps_part(&all, first, n);
}

static double *numbers(int64_t n) {
    double *x = malloc((size_t)(n > 0 ? n : 1) * sizeof *x);
    assert_non_null(x);
    return x;
}

static double *read(backend *be, mat m) {
    double *x = numbers(m.rows * m.cols);
    be->op->read(be, m, x);
    return x;
}

static void assert_sound(backend *be) {
    err e = {0};
    if (!backend_check(be, &e))
        fail_msg("%s", e.text);
}

// n tokens of a row from token t on, lent; the state is the caller's.
static inputs stretch(const inputs *x, int64_t t, int64_t n, double *state) {
    const head_shape *s = &x->p.s;
    inputs y = *x;
    y.p.T = n;
    y.q += t * s->Hk * s->K;
    y.k += t * s->n_h * s->Hk * s->K;
    y.v += t * s->n_h * s->H * s->V;
    y.beta += t * s->n_h * s->H;
    y.decay += t * s->H * (s->decay == DECAY_CHANNEL ? s->K : 1);
    y.a += t * s->H * s->K;
    y.b += t * s->Hk * s->K;
    y.state = state;
    return y;
}

// Outputs, end states and boundary states against loops over each row alone, from boundary to boundary.
static double off_by(backend *be, const packed *x, int64_t every, mat states) {
    const head_shape *s = &x->p.s;
    int64_t size = (int64_t)s->H * s->K * s->V, width = s->H * s->V, boundary = 0;
    double *o = read(be, x->o), *end = read(be, x->state), *way = read(be, states), worst = 0;
    double *want = numbers(MOST * width), *S = numbers(size), *next = numbers(size);
    for (int64_t i = 0; i < ROWS; i++) {
        memcpy(S, x->row[i].state, (size_t)size * sizeof *S);
        for (int64_t t = 0; t < lengths[i]; t += every, boundary++) {
            int64_t n = lengths[i] - t < every ? lengths[i] - t : every;
            inputs some = stretch(&x->row[i], t, n, S);
            worst = worse(worst, error_all(way + boundary * size, S, (size_t)size));
            inputs_loop(&some, want, next);
            memcpy(S, next, (size_t)size * sizeof *S);
            worst =
                worse(worst, error_all(o + (x->starts[i] + t) * width, want, (size_t)(n * width)));
        }
        worst = worse(worst, error_all(end + i * size, S, (size_t)size));
    }
    assert_int_equal(boundary * s->H * s->K, states.rows);
    free(o), free(end), free(way), free(want), free(S), free(next);
    return worst;
}

// float64: a thousand roundings of 1e-16 a number; float32 the same at 6e-8, and the chunk form's solves.
static void every_kind_agrees_with_loops_over_each_row(void **state) {
    (void)state;
    static const int64_t every[] = {64, 1, 48, 5000};
    err e = {0};
    for (int p = 0; p < 2; p++)
        for (int chunk = 0; chunk < 2; chunk++) {
            backend *be = cpu_open(p ? PRECISION_F32 : PRECISION_F64, 2, &e);
            double worst = 0, bound = p ? 2e-5 : 1e-12;
            be->recurrence = chunk ? RECURRENCE_CHUNK : RECURRENCE_STEP;
            for (int kind = 0; kind < 9; kind++) {
                plan q = plan_of(kind, 0, 8, 7, 4, 2, 1 + kind % 3);
                packed x = packed_new(be, q, (uint64_t)(100 * kind));
                int64_t step = every[(kind + chunk) % 4];
                step_rows r = {.starts = x.starts, .n = ROWS, .every = step};
                r.states = be->op->alloc_exact(be, rows_states(&r, x.p.T) * q.s.H * q.s.K, q.s.V);
                steps all = part(&x, 0, x.p.T);
                rows_recurrence(be, &all, &r, x.state, x.o);
                assert_sound(be);
                double d = off_by(be, &x, step, r.states);
                if (!(d <= bound))
                    fail_msg("kind %d in %s: off by %g", kind, precision_name(be->prec), d);
                worst = worse(worst, d);
                be->op->free(be, r.states);
                packed_free(be, &x);
            }
            print_message("measured rows of 0 to 1000 tokens, %s form, %s: %.1e\n",
                          chunk ? "chunk" : "step", precision_name(be->prec), worst);
            backend_close(be);
        }
}

static void assert_same(backend *be, mat a, mat b) {
    double *x = read(be, a), *y = read(be, b);
    assert_memory_equal(x, y, (size_t)(a.rows * a.cols) * sizeof *x);
    free(x), free(y);
}

// One call, and one for each row by hand: the same to the last bit. Without boundary states too.
static void rows_in_one_call_are_separate_calls(void **state) {
    (void)state;
    err e = {0};
    backend *be = cpu_open(PRECISION_F32, 2, &e);
    for (int kind = 0; kind < 9; kind++) {
        plan p = plan_of(kind, 0, 24, 20, 4, 2, 2);
        packed x = packed_new(be, p, 7), y = packed_new(be, p, 7);
        step_rows r = {.starts = x.starts, .n = ROWS};
        steps all = part(&x, 0, x.p.T);
        int64_t heads = p.s.H * p.s.K;
        rows_recurrence(be, &all, &r, x.state, x.o);
        for (int i = 0; i < ROWS; i++) {
            steps one = part(&y, y.starts[i], lengths[i]);
            be->op->recurrence(be, &one, mat_rows(y.state, i * heads, heads),
                               mat_rows(y.o, y.starts[i], lengths[i]));
        }
        assert_sound(be);
        assert_same(be, x.o, y.o);
        assert_same(be, x.state, y.state);
        packed_free(be, &x);
        packed_free(be, &y);
    }
    backend_close(be);
}

// Of one row without a list of starts: the states of calls that are cut at the boundaries.
static void boundary_states_are_those_of_cut_calls(void **state) {
    (void)state;
    enum { EVERY = 50 };
    err e = {0};
    backend *be = cpu_open(PRECISION_F32, 2, &e);
    plan p = plan_of(3 * ERASE_KEY + DECAY_HEAD, 0, 24, 20, 4, 2, 2);
    packed x = packed_new(be, p, 11), y = packed_new(be, p, 11);
    int64_t heads = p.s.H * p.s.K, T = x.p.T, n = (T + EVERY - 1) / EVERY;
    step_rows r = {.every = EVERY};
    assert_int_equal(rows_states(&r, T), n);
    r.states = be->op->alloc_exact(be, n * heads, p.s.V);
    steps all = part(&x, 0, T);
    mat S = mat_rows(x.state, 0, heads), cut = mat_rows(y.state, 0, heads);
    rows_recurrence(be, &all, &r, S, x.o);
    for (int64_t i = 0; i < n; i++) {
        assert_same(be, mat_rows(r.states, i * heads, heads), cut);
        int64_t left = T - i * EVERY < EVERY ? T - i * EVERY : EVERY;
        steps one = part(&y, i * EVERY, left);
        be->op->recurrence(be, &one, cut, mat_rows(y.o, i * EVERY, left));
    }
    assert_sound(be);
    assert_same(be, S, cut);
    assert_same(be, x.o, y.o);
    be->op->free(be, r.states);
    packed_free(be, &x);
    packed_free(be, &y);
    backend_close(be);
}

static void boundaries_are_counted_row_by_row(void **state) {
    (void)state;
    static const int64_t starts[] = {0, 0, 1, 65, 129, 194};
    step_rows r = {.starts = starts, .n = 5, .every = 64};
    assert_int_equal(rows_states(&r, 194), 0 + 1 + 1 + 1 + 2);
    r.every = 0;
    assert_int_equal(rows_states(&r, 194), 0);
    r = (step_rows){.every = 64};
    assert_int_equal(rows_states(&r, 0), 0);
    assert_int_equal(rows_states(&r, 64), 1);
    assert_int_equal(rows_states(&r, 65), 2);
}

static int asked;
static bool not_for_these(backend *be, const steps *s, const step_rows *r, mat state, mat o) {
    (void)be, (void)s, (void)r, (void)state, (void)o;
    asked++;
    return false;
}
static void what_a_backend_refuses_is_run_row_by_row(void **state) {
    (void)state;
    err e = {0};
    backend *be = cpu_open(PRECISION_F32, 1, &e);
    const backend_ops *own = be->op;
    backend_ops with = *own;
    with.recurrence_rows = not_for_these;
    plan p = plan_of(3 * ERASE_KEY, 0, 8, 8, 4, 2, 1);
    packed x = packed_new(be, p, 5), y = packed_new(be, p, 5);
    step_rows r = {.starts = x.starts, .n = ROWS};
    steps a = part(&x, 0, x.p.T), b = part(&y, 0, y.p.T);
    rows_recurrence(be, &a, &r, x.state, x.o);
    be->op = &with;
    rows_recurrence(be, &b, &r, y.state, y.o);
    be->op = own;
    assert_int_equal(asked, 1);
    assert_same(be, x.o, y.o);
    assert_same(be, x.state, y.state);
    packed_free(be, &x);
    packed_free(be, &y);
    backend_close(be);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_agrees_with_loops_over_each_row),
        cmocka_unit_test(rows_in_one_call_are_separate_calls),
        cmocka_unit_test(boundary_states_are_those_of_cut_calls),
        cmocka_unit_test(boundaries_are_counted_row_by_row),
        cmocka_unit_test(what_a_backend_refuses_is_run_row_by_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
