// Rows of different lengths in one call and boundary states (core/rows.h) on the GPU, against the CPU in
// float64 on the same inputs, and against separate calls on the GPU.
#include "core/rows.h"
#include "tests/chunk_cases.h"
#include "tests/cuda_pair.h"
#include "tests/worst.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 8 };
static const int64_t edges[ROWS] = {0, 200, 1, 64, 2, 1000, 63, 65};
static const int64_t documents[ROWS] = {27, 2001, 96, 0, 1715, 640, 63, 1000};

typedef struct call {
    plan p; // T: of all rows
    int64_t starts[ROWS + 1], every;
    pair q, k, v, beta, decay, a, b, state, o, states;
} call;

static pair given(both *b, const double *x, int64_t rows, int64_t cols, bool exact) {
    pair p = pair_new(b, rows, cols, exact, 0, 0);
    pair_write(b, &p, x);
    return p;
}

static call call_new(both *b, plan p, const int64_t *lengths, int64_t every, uint64_t seed) {
    call c = {.every = every};
    for (int i = 0; i < ROWS; i++)
        c.starts[i + 1] = c.starts[i] + lengths[i];
    p.T = c.starts[ROWS];
    c.p = p;
    const head_shape *s = &p.s;
    inputs x = inputs_new(p, seed, false);
    c.q = given(b, x.q, p.T, s->Hk * s->K, false);
    c.k = given(b, x.k, p.T * s->n_h, s->Hk * s->K, false);
    c.v = given(b, x.v, p.T * s->n_h, s->H * s->V, false);
    c.beta = given(b, x.beta, p.T * s->n_h, s->H, true);
    if (s->decay != DECAY_NONE)
        c.decay = given(b, x.decay, p.T, s->decay == DECAY_CHANNEL ? s->H * s->K : s->H, true);
    if (s->erase == ERASE_PAIR) {
        c.a = given(b, x.a, p.T, s->H * s->K, false);
        c.b = given(b, x.b, p.T, s->Hk * s->K, false);
    }
    inputs_free(&x);
    int gap = b->gap;
    b->gap = 0; // states have rows without gaps
    b->seed = seed;
    int64_t heads = s->H * s->K;
    step_rows r = {.starts = c.starts, .n = ROWS, .every = every};
    c.state = pair_new(b, ROWS * heads, s->V, true, -1, 1);
    if (every)
        c.states = pair_new(b, rows_states(&r, p.T) * heads, s->V, true, 0, 0);
    b->gap = gap;
    c.o = pair_new(b, p.T, s->H * s->V, false, 0, 0);
    return c;
}

static void run(both *b, const call *c, int side) {
    steps s = {.s = c->p.s,
               .T = c->p.T,
               .q = c->q.at[side],
               .k = c->k.at[side],
               .v = c->v.at[side],
               .beta = c->beta.at[side],
               .decay = c->decay.at[side],
               .a = c->a.at[side],
               .b = c->b.at[side]};
    step_rows r = {.starts = c->starts, .n = ROWS, .every = c->every, .states = c->states.at[side]};
    rows_recurrence(b->be[side], &s, &r, c->state.at[side], c->o.at[side]);
}

static const precision precisions[] = {PRECISION_F32, PRECISION_TF32, PRECISION_BF16};

// Over the largest entry, as for one row (tests/test_cuda_recurrence.c); the longest has 1000 tokens.
static double allowed(precision p, const plan *x) {
    if (p != PRECISION_F32)
        return p == PRECISION_BF16 ? 2e-2 : 5e-3;
    return 1e-5 + (x->s.decay == DECAY_NONE ? 0 : 1000 * 0x1p-24 * 1.5);
}

static void every_kind_agrees_on_rows_of_any_length(void **state) {
    (void)state;
    static const int64_t every[] = {0, 64, 50};
    for (int i = 0; i < 3; i++) {
        both b;
        both_open(&b, precisions[i]);
        double worst = 0;
        for (int kind = 0; kind < 9; kind++)
            for (int j = 0; j < 3; j++) {
                b.gap = j == 1 ? 3 : 8;
                plan p = plan_of(kind, 0, j ? 64 : 24, j ? 64 : 52, 4, 2, 1 + kind % 3);
                uint64_t seed = (uint64_t)(100 * i + 10 * kind + j);
                call c = call_new(&b, p, edges, every[j], seed);
                run(&b, &c, 0);
                run(&b, &c, 1);
                double off = worse(pair_error(&b, &c.o), pair_error(&b, &c.state));
                if (c.every)
                    off = worse(off, pair_error(&b, &c.states));
                if (!(off <= allowed(precisions[i], &p)))
                    fail_msg("%s, kind %d, boundaries every %lld: off by %g",
                             precision_name(precisions[i]), kind, (long long)every[j], off);
                worst = worse(worst, off);
                both_reset(&b);
            }
        printf("measured cuda %-4s rows of 0 to 1000 tokens: worst %.1e\n",
               precision_name(precisions[i]), worst);
        both_close(&b);
    }
}

static double l2(const double *x, const double *ref, int64_t n) {
    return error_all(x, ref, (size_t)n);
}

static double pair_l2(both *b, const pair *p) {
    double *x = pair_read(b, p, 0), *y = pair_read(b, p, 1);
    double e = l2(x, y, p->at[0].rows * p->at[0].cols);
    free(x), free(y);
    return e;
}

// What one kernel makes of all rows: bound as for a long row, 1.7e-3 is the rounding of the outputs. And the same
// kernel row by row, whose segments are cut elsewhere.
static void documents_on_tensor_cores_stay_within_5e_3(void **state) {
    (void)state;
    static const double decays[] = {-1e-4, -0.03, DECAY_RANDOM, DECAY_MIXED};
    both b;
    both_open(&b, PRECISION_BF16);
    b.gap = 8;
    const backend_ops *own = b.be[0]->op;
    backend_ops single = *own;
    single.recurrence_rows = NULL;
    double worst = 0, apart = 0;
    for (int i = 0; i < 10; i++) {
        int n_h = 1 + i % 3, decay = i < 3 ? DECAY_NONE : DECAY_HEAD;
        static const int64_t every[] = {0, 64, 96, 640};
        plan p = plan_of(3 * ERASE_KEY + decay, 0, 128, i == 4 ? 200 : 128, 2, 1 + i % 2, n_h);
        p.decay = decays[i % 4];
        call c = call_new(&b, p, documents, every[i % 4], (uint64_t)(1000 + i));
        run(&b, &c, 1);
        double *start = pair_read(&b, &c.state, 0);
        run(&b, &c, 0);
        char kernel[64];
        snprintf(kernel, sizeof kernel, "%s", b.be[0]->kernel);
        double in_o = pair_l2(&b, &c.o), in_state = pair_l2(&b, &c.state),
               on_way = c.every ? pair_l2(&b, &c.states) : 0;
        if (!(in_o <= 5e-3 && in_state <= 5e-3 && on_way <= 5e-3))
            fail_msg(
                "%s: decay %g, %d micro-steps, every %lld: o off by %g, states by %g, boundary "
                "states by %g (L2)",
                kernel, p.decay, n_h, (long long)c.every, in_o, in_state, on_way);
        worst = worse(worst, worse(in_o, worse(in_state, on_way)));
        double *at_once = pair_read(&b, &c.o, 0);
        b.be[0]->op->write(b.be[0], start, c.state.at[0]);
        b.be[0]->op = &single;
        run(&b, &c, 0);
        b.be[0]->op = own;
        double *one_by_one = pair_read(&b, &c.o, 0);
        apart = worse(apart, l2(at_once, one_by_one, c.o.at[0].rows * c.o.at[0].cols));
        free(start), free(at_once), free(one_by_one);
        both_reset(&b);
        if (i == 9)
            printf("measured cuda bf16 documents of 0 to 2001 tokens (%s): L2 error at most %.1e, "
                   "%.1e from row by row\n",
                   kernel, worst, apart);
    }
    assert_true(apart <= 2 * 5e-3); // each within 5e-3 of float64
    both_close(&b);
}

// Rows of one token, as in decoding, and rows of which all but one are empty.
static void single_tokens_and_empty_rows_agree(void **state) {
    (void)state;
    static const int64_t ones[ROWS] = {1, 1, 1, 1, 1, 1, 1, 1},
                         last[ROWS] = {0, 0, 0, 0, 0, 0, 0, 300};
    for (int i = 0; i < 3; i++) {
        both b;
        both_open(&b, precisions[i]);
        b.gap = 8;
        for (int j = 0; j < 4; j++) {
            plan p = plan_of(3 * ERASE_KEY + DECAY_HEAD, 0, 64, 64, 4, 2, j % 2 ? 16 : 1);
            call c = call_new(&b, p, j / 2 ? last : ones, 1 + 63 * (j / 2), (uint64_t)j);
            run(&b, &c, 0);
            run(&b, &c, 1);
            double off = worse(pair_error(&b, &c.o), pair_error(&b, &c.state));
            off = worse(off, pair_error(&b, &c.states));
            if (!(off <= allowed(precisions[i], &p)))
                fail_msg("%s, case %d: off by %g", precision_name(precisions[i]), j, off);
            both_reset(&b);
        }
        both_close(&b);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) // one test alone (scripts/gpu_check.sh)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_agrees_on_rows_of_any_length),
        cmocka_unit_test(documents_on_tensor_cores_stay_within_5e_3),
        cmocka_unit_test(single_tokens_and_empty_rows_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
