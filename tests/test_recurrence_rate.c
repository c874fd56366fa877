// Microseconds per token and head of the step form and the chunk form, erase by key with decay per
// head, float32: the figures behind recurrence_run's choice (kernels/cpu/recurrence.real.c). One
// thread and its processor time, so that a busy machine does not decide; with more threads the step
// form has H * V/32 pieces of work to hand out, the chunk form H * V/256.
// Only agreement is asserted: timings on shared machines decide nothing.
#include "kernels/cpu/cpu.h"
#include "tests/chunk_cases.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct bench {
    backend *be;
    steps s;
    mat start, state, o;
} bench;

static mat mat_of(backend *be, const double *from, int64_t rows, int64_t cols) {
    mat m = be->op->alloc(be, rows, cols);
    assert_false(mat_none(m));
    if (from)
        be->op->write(be, from, m);
    return m;
}

static bench bench_new(backend *be, const inputs *x) {
    const head_shape *p = &x->p.s;
    int64_t T = x->p.T, M = T * p->n_h;
    return (bench){
        .be = be,
        .s = {.s = *p,
              .T = T,
              .q = mat_of(be, x->q, T, p->Hk * p->K),
              .k = mat_of(be, x->k, M, p->Hk * p->K),
              .v = mat_of(be, x->v, M, p->H * p->V),
              .beta = mat_of(be, x->beta, M, p->H),
              .decay = mat_of(be, x->decay, T, p->decay == DECAY_CHANNEL ? p->H * p->K : p->H),
              .a = mat_of(be, x->a, T, p->H * p->K),
              .b = mat_of(be, x->b, T, p->Hk * p->K)},
        .start = mat_of(be, x->state, p->H * p->K, p->V),
        .state = mat_of(be, NULL, p->H * p->K, p->V),
        .o = mat_of(be, NULL, T, p->H * p->V)};
}

static void bench_free(bench *b) {
    mat all[] = {b->s.q, b->s.k, b->s.v,   b->s.beta, b->s.decay,
                 b->s.a, b->s.b, b->start, b->state,  b->o};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        b->be->op->free(b->be, all[i]);
}

// Seconds of one pass from the same state; o (NULL: not wanted) receives the read-outs.
static double pass(bench *b, recurrence_form form, double *o) {
    b->be->recurrence = form;
    b->be->op->copy(b->be, b->start, b->state);
    double start = now();
    b->be->op->recurrence(b->be, &b->s, b->state, b->o);
    double took = now() - start;
    if (o)
        b->be->op->read(b->be, b->o, o);
    return took;
}

static void measure(backend *be, erase_kind erase, decay_kind decay, int n, int n_h, int H) {
    enum { TURNS = 2 };
    // About equal work for every size, and a few chunks at least.
    int64_t T = 1000000 / ((int64_t)n * n * n_h * H);
    T = T < 64 ? 64 : T > 2048 ? 2048 : T;
    plan p = {.s = {.H = H,
                    .Hk = H,
                    .K = n,
                    .V = n,
                    .n_h = n_h,
                    .decay = decay,
                    .erase = erase,
                    .scale = 1 / sqrt(n),
                    .beta_max = 2},
              .T = T,
              .beta = BETA_RANDOM,
              .decay = -0.05};
    inputs x = inputs_new(p, 11, false);
    bench b = bench_new(be, &x);
    size_t size = (size_t)(T * H) * (size_t)n;
    double *o = malloc(2 * size * sizeof *o), step = 0, chunk = 0;
    pass(&b, RECURRENCE_STEP, o); // the first pass touches the memory
    pass(&b, RECURRENCE_CHUNK, o + size);
    double apart = error_all(o + size, o, size);
    for (int i = 0; i < TURNS; i++) {
        step += pass(&b, RECURRENCE_STEP, NULL);
        chunk += pass(&b, RECURRENCE_CHUNK, NULL);
    }
    double per = 1e6 / (TURNS * (double)(T * H));
    static const char *const erases[] = {"none", "key", "pair"}, *const decays[] = {"none", "head",
                                                                                    "channel"};
    printf("measured recurrence erase %s, decay %s, K=V=%-3d n_h=%d H=%-2d: step %7.3f, chunk "
           "%7.3f us per token-head; "
           "chunk/step %.2f; apart %.0e\n",
           erases[erase], decays[decay], n, n_h, H, step * per, chunk * per, chunk / step, apart);
    assert_true(apart <= 1e-5); // two float32 forms, random keys
    free(o);
    bench_free(&b);
    inputs_free(&x);
}

static void both_forms_agree_at_every_size(void **state) {
    (void)state;
    static const int sizes[] = {16, 32, 64, 128, 256}, heads[] = {1, 16};
    err e = {0};
    backend *be = cpu_open(PRECISION_F32, 1, &e);
    assert_non_null(be);
    for (int i = 0; i < 5; i++)
        for (int n_h = 1; n_h <= 3; n_h++)
            for (int h = 0; h < 2; h++)
                measure(be, ERASE_KEY, DECAY_HEAD, sizes[i], n_h, heads[h]);
    static const int kinds[][2] = {{ERASE_NONE, DECAY_HEAD}, {ERASE_NONE, DECAY_CHANNEL},
                                   {ERASE_KEY, DECAY_NONE},  {ERASE_KEY, DECAY_CHANNEL},
                                   {ERASE_PAIR, DECAY_HEAD}, {ERASE_PAIR, DECAY_CHANNEL}};
    for (int i = 0; i < 6; i++)
        for (int n = 64; n <= 256; n *= 2)
            measure(be, (erase_kind)kinds[i][0], (decay_kind)kinds[i][1], n, 1, 4);
    backend_close(be);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_agree_at_every_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
