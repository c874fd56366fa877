// Singular values of states on a GPU (kernels/cuda/states.cu) against the CPU backend and dgesdd.
// Needs build/tests/deltop-cuda.so (a link to the built one) and a device; skips without.
#include "analyses/rank.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cuda_open.h"
#include "tests/tiny_steps.h"

#include <lapacke.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static backend *gpu, *cpu;

static int open_both(void **state) {
    (void)state;
    err e = {0};
    gpu = cuda_open(0, PRECISION_F32, 0, &e);
    if (!gpu) {
        printf("SKIP: %s\n", e.text);
        return e.code == ERR_DEVICE ? 0 : -1;
    }
    printf("device %s\n", gpu->device);
    cpu = cpu_open(PRECISION_F32, 0, &e);
    return cpu ? 0 : -1;
}

static int close_both(void **state) {
    (void)state;
    if (gpu)
        backend_close(gpu);
    if (cpu)
        backend_close(cpu);
    return 0;
}

#define NEEDS_GPU()                                                                                \
    do {                                                                                           \
        if (!gpu)                                                                                  \
            skip();                                                                                \
    } while (0)

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- one set of steps on one backend ------------------------------------------------------------

typedef struct loaded {
    steps s;
    mat state, o;
} loaded;

static mat put(backend *be, const double *from, int64_t rows, int64_t cols, bool exact) {
    if (!from)
        return MAT_NONE;
    mat m = exact ? be->op->alloc_exact(be, rows, cols) : be->op->alloc(be, rows, cols);
    be->op->write(be, from, m);
    return m;
}

static loaded load(backend *be, const tiny_steps *x) {
    const head_shape *p = &x->s;
    int64_t T = x->T, micro = T * p->n_h;
    loaded l = {0};
    l.s.s = *p;
    l.s.T = T;
    l.s.q = put(be, x->q, T, (int64_t)p->Hk * p->K, false);
    l.s.k = put(be, x->k, micro, (int64_t)p->Hk * p->K, false);
    l.s.v = put(be, x->v, micro, (int64_t)p->H * p->V, false);
    l.s.beta = put(be, x->beta, micro, p->H, true);
    l.s.decay = put(be, x->decay, T, (int64_t)p->H * (p->decay == DECAY_CHANNEL ? p->K : 1), true);
    l.s.a = put(be, x->a, T, (int64_t)p->H * p->K, false);
    l.s.b = put(be, x->b, T, (int64_t)p->Hk * p->K, false);
    l.state = put(be, x->start, (int64_t)p->H * p->K, p->V, true);
    l.o = be->op->alloc(be, T, (int64_t)p->H * p->V);
    return l;
}

static void unload(backend *be, loaded *l) {
    mat all[] = {l->s.q, l->s.k, l->s.v, l->s.beta, l->s.decay, l->s.a, l->s.b, l->state, l->o};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!mat_none(all[i]))
            be->op->free(be, all[i]);
}

// ---- comparison ---------------------------------------------------------------------------------

typedef struct worst {
    double sigma, rank_start, rank, fro;
    int64_t matrices;
} worst;

// The largest of both, NaN counts as larger.
static double larger(double a, double b) {
    return isnan(b) ? INFINITY : a > b ? a : b;
}

static void show(const char *name, const double *sv, int n) {
    printf("    %s:", name);
    for (int i = 0; i < n && i < 6; i++)
        printf(" %.9g", sv[i]);
    if (n > 6)
        printf(" ... %.9g %.9g", sv[n - 2], sv[n - 1]);
    printf("\n");
}

// Compares one set of values; prints the first that is off and fails. `early`: fewer micro-steps
// than the state is wide, from a zero state.
static bool compare(const char *what, const tiny_steps *x, int head, int64_t micro, bool early,
                    const double *got, const double *want, int n, double fro, double want_fro,
                    worst *w) {
    double top = want[0] > 0 ? want[0] : 1, sigma = 0, rank = 0;
    for (int i = 0; i < n; i++)
        sigma = larger(sigma, fabs(got[i] - want[i]) / top);
    bool falling = true;
    for (int i = 0; i + 1 < n; i++)
        falling = falling && got[i] >= got[i + 1];
    if (want[0] > 0) {
        double r = rank_effective(want, n, RANK_CUT);
        rank = larger(0, fabs(rank_effective(got, n, RANK_CUT) - r) / r);
    }
    double f = larger(0, fabs(fro - want_fro) / (want_fro > 0 ? want_fro : 1));
    w->sigma = larger(w->sigma, sigma);
    w->fro = larger(w->fro, f);
    double *worst_rank = early ? &w->rank_start : &w->rank;
    *worst_rank = larger(*worst_rank, rank);
    w->matrices++;
    // float32 states of two devices differ in the last bits of sums: a few 1e-7 of sigma_1.
    if (falling && sigma <= 2e-6 && rank <= (early ? 1e-5 : 1e-6) && f <= 2e-6)
        return true;
    const head_shape *p = &x->s;
    printf("  first failure, against %s: K %d V %d n_h %d decay %d erase %d, %lld tokens, head %d, "
           "after %lld micro-steps: sigma error %.3g, rank error %.3g, fro %.9g (wanted %.9g)%s\n",
           what, p->K, p->V, p->n_h, (int)p->decay, (int)p->erase, (long long)x->T, head,
           (long long)micro, sigma, rank, fro, want_fro, falling ? "" : ", not in falling order");
    show("got   ", got, n);
    show("wanted", want, n);
    return false;
}

static double *numbers(int64_t n) {
    double *p = malloc((size_t)n * sizeof *p);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++)
        p[i] = NAN; // what is not written must not pass
    return p;
}

// Every `every`-th micro-step of all heads against the CPU, and the last state, as the device's own
// recurrence leaves it, against dgesdd.
static bool check(const tiny_steps *x, bool carried, int64_t every, const int *heads, int n_heads,
                  worst *w) {
    err e = {0};
    const head_shape *p = &x->s;
    int rank = p->K < p->V ? p->K : p->V;
    int64_t last = x->T * p->n_h, n = last / every + 2, count = 0;
    int64_t *at = malloc((size_t)n * sizeof *at);
    for (int64_t m = 0; m < last; m += every)
        at[count++] = m;
    at[count++] = last;
    loaded g = load(gpu, x), c = load(cpu, x);
    double *sv = numbers(n_heads * count * rank), *fro = numbers(n_heads * count);
    double *sv2 = numbers(n_heads * count * rank), *fro2 = numbers(n_heads * count);
    bool ok = gpu->op->state_svals(gpu, &g.s, g.state, heads, n_heads, at, count, sv, fro, &e) &&
              cpu->op->state_svals(cpu, &c.s, c.state, heads, n_heads, at, count, sv2, fro2, &e);
    if (!ok)
        printf("  K %d V %d: %s\n", p->K, p->V, e.text);
    for (int i = 0; ok && i < n_heads; i++)
        for (int64_t j = 0; ok && j < count; j++) {
            int64_t r = i * count + j;
            ok = compare("CPU", x, heads[i], at[j], !carried && at[j] < rank, sv + r * rank,
                         sv2 + r * rank, rank, fro[r], fro2[r], w);
        }
    if (ok) {
        int64_t size = (int64_t)p->K * p->V;
        double *end = numbers(p->H * size), *s = numbers(rank);
        gpu->op->recurrence(gpu, &g.s, g.state, g.o);
        gpu->op->read(gpu, g.state, end);
        for (int i = 0; ok && i < n_heads; i++) {
            double *S = end + heads[i] * size, norm = 0;
            for (int64_t j = 0; j < size; j++)
                norm += S[j] * S[j];
            assert_int_equal(
                LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'N', p->V, p->K, S, p->V, s, NULL, 1, NULL, 1), 0);
            int64_t r = i * count + count - 1;
            ok = compare("dgesdd", x, heads[i], last, !carried && last < rank, sv + r * rank, s,
                         rank, fro[r], sqrt(norm), w);
        }
        free(end);
        free(s);
    }
    unload(gpu, &g);
    unload(cpu, &c);
    double *all[] = {sv, fro, sv2, fro2};
    for (int i = 0; i < 4; i++)
        free(all[i]);
    free(at);
    return ok;
}

static void report(const char *name, const worst *w) {
    printf("measured %s: %lld matrices, sigma error %.2g sigma_1, rank error %.2g (t < d %.2g), "
           "fro error %.2g\n",
           name, (long long)w->matrices, w->sigma, w->rank, w->rank_start, w->fro);
}

static void zero(double *x, int64_t n) {
    memset(x, 0, (size_t)n * sizeof *x);
}

static void run_shape(int K, int V, int n_h, decay_kind decay, erase_kind erase, bool carried,
                      int64_t T, int64_t every, worst *w) {
    head_shape s = {.H = 4, .Hk = 2, .K = K, .V = V, .n_h = n_h, .decay = decay, .erase = erase};
    tiny_steps x = tiny_steps_new(s, T, (uint64_t)(K * 1000 + V * 10 + n_h));
    if (!carried)
        zero(x.start, (int64_t)s.H * K * V);
    // Mild gates: a state that forgets most of itself each token has few singular values to look at.
    for (int64_t i = 0; x.decay && i < T * s.H * (decay == DECAY_CHANNEL ? K : 1); i++)
        x.decay[i] = (float)(x.decay[i] * 0.1);
    const int heads[] = {3, 0};
    bool ok = check(&x, carried, every, heads, 2, w);
    tiny_steps_free(&x);
    assert_true(ok);
}

static void square_states_at_every_micro_step_match_the_cpu(void **state) {
    (void)state;
    NEEDS_GPU();
    const int sizes[] = {16, 24, 32, 64, 80, 128};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        worst w = {0};
        for (int n_h = 1; n_h <= 2; n_h++)
            for (int gated = 0; gated < 2; gated++)
                for (int carried = 0; carried < 2; carried++)
                    run_shape(sizes[i], sizes[i], n_h, gated ? DECAY_HEAD : DECAY_NONE, ERASE_KEY,
                              carried, sizes[i] > 64 ? 140 : 100, 1, &w);
        char name[64];
        snprintf(name, sizeof name, "%d x %d", sizes[i], sizes[i]);
        report(name, &w);
    }
}

static void rectangular_states_match_the_cpu(void **state) {
    (void)state;
    NEEDS_GPU();
    const int sizes[][2] = {{16, 32},  {32, 16},  {24, 128}, {128, 24}, {64, 128}, {128, 64},
                            {80, 128}, {128, 80}, {1, 5},    {5, 1},    {33, 65}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        worst w = {0};
        for (int n_h = 1; n_h <= 2; n_h++)
            for (int carried = 0; carried < 2; carried++)
                run_shape(sizes[i][0], sizes[i][1], n_h, carried ? DECAY_HEAD : DECAY_NONE,
                          ERASE_KEY, carried, 40, 1, &w);
        char name[64];
        snprintf(name, sizeof name, "%d x %d", sizes[i][0], sizes[i][1]);
        report(name, &w);
    }
}

static void every_kind_of_step_matches_the_cpu(void **state) {
    (void)state;
    NEEDS_GPU();
    worst w = {0};
    run_shape(64, 64, 1, DECAY_CHANNEL, ERASE_NONE, true, 50, 1, &w);
    run_shape(64, 64, 1, DECAY_HEAD, ERASE_NONE, false, 50, 1, &w);
    run_shape(64, 64, 3, DECAY_CHANNEL, ERASE_KEY, true, 50, 1, &w);
    run_shape(64, 64, 1, DECAY_CHANNEL, ERASE_PAIR, true, 50, 1, &w);
    run_shape(128, 64, 1, DECAY_CHANNEL, ERASE_PAIR, true, 50, 1, &w);
    report("kinds of steps", &w);
}

static void sparse_positions_match_the_cpu(void **state) {
    (void)state;
    NEEDS_GPU();
    worst w = {0};
    run_shape(64, 64, 2, DECAY_HEAD, ERASE_KEY, false, 1000, 37, &w);
    run_shape(128, 128, 1, DECAY_NONE, ERASE_KEY, false, 1000, 64, &w);
    run_shape(128, 128, 3, DECAY_HEAD, ERASE_KEY, true, 500, 299, &w);
    report("sparse positions", &w);
}

// Longer than a round of the device, so that rounds hand the state on.
static void many_positions_match_the_cpu(void **state) {
    (void)state;
    NEEDS_GPU();
    worst w = {0};
    run_shape(16, 16, 1, DECAY_HEAD, ERASE_KEY, false, 40000, 1, &w);
    run_shape(16, 24, 2, DECAY_NONE, ERASE_KEY, true, 20001, 1, &w);
    report("several rounds", &w);
}

static void larger_sizes_go_to_the_host(void **state) {
    (void)state;
    NEEDS_GPU();
    worst w = {0};
    run_shape(64, 160, 1, DECAY_HEAD, ERASE_KEY, false, 20, 3, &w);
    report("64 x 160", &w);
}

static void size_is_taken_out_and_not_finite_states_give_nan(void **state) {
    (void)state;
    NEEDS_GPU();
    const int all[] = {0};
    const double factors[] = {1e-20, 1e20};
    for (int i = 0; i < 2; i++) {
        head_shape s = {.H = 1, .Hk = 1, .K = 64, .V = 64, .n_h = 1, .erase = ERASE_KEY};
        tiny_steps x = tiny_steps_new(s, 20, 5);
        worst w = {0};
        for (int64_t j = 0; j < 20 * 64; j++)
            x.v[j] = (float)(x.v[j] * factors[i]);
        zero(x.start, 64 * 64);
        bool ok = check(&x, false, 1, all, 1, &w);
        tiny_steps_free(&x);
        report(i ? "size 1e20" : "size 1e-20", &w);
        assert_true(ok);
    }
    for (int bad = 0; bad < 2; bad++) {
        head_shape s = {.H = 1, .Hk = 1, .K = 64, .V = 64, .n_h = 1, .erase = ERASE_KEY};
        tiny_steps x = tiny_steps_new(s, 4, 5);
        err e = {0};
        zero(x.start, 64 * 64);
        x.v[2 * 64 + 7] = bad ? INFINITY : NAN; // enters with token 2
        loaded g = load(gpu, &x);
        const int64_t at[] = {0, 1, 2, 3, 4};
        double sv[5 * 64], fro[5];
        assert_true(gpu->op->state_svals(gpu, &g.s, g.state, all, 1, at, 5, sv, fro, &e));
        unload(gpu, &g);
        tiny_steps_free(&x);
        assert_true(sv[0] == 0 && sv[63] == 0 && fro[0] == 0);
        assert_true(sv[2 * 64] > 0 && isfinite(fro[2]));
        assert_true(isnan(sv[3 * 64]) && isnan(sv[3 * 64 + 63]) && isnan(fro[3]));
        assert_true(isnan(sv[4 * 64]) && isnan(fro[4]));
    }
}

static void rate(int d, int64_t T) {
    head_shape s = {
        .H = 8, .Hk = 8, .K = d, .V = d, .n_h = 1, .decay = DECAY_HEAD, .erase = ERASE_KEY};
    tiny_steps x = tiny_steps_new(s, T, 9);
    err e = {0};
    for (int64_t i = 0; i < T * 8; i++)
        x.decay[i] = (float)(x.decay[i] * 0.01);
    const int heads[] = {0, 1, 2, 3, 4, 5, 6, 7};
    int64_t *at = malloc((size_t)T * sizeof *at);
    for (int64_t t = 0; t < T; t++)
        at[t] = t + 1;
    double *sv = numbers(8 * T * d), *fro = numbers(8 * T);
    loaded g = load(gpu, &x);
    bool ok = true;
    for (int pass = 0; ok && pass < 3; pass++) {
        double start = seconds();
        ok = gpu->op->state_svals(gpu, &g.s, g.state, heads, 8, at, T, sv, fro, &e);
        double took = seconds() - start;
        printf("measured rate %d x %d, %lld positions x 8 heads, pass %d%s: %.4f s, %.3f million "
               "matrices/s\n",
               d, d, (long long)T, pass, pass ? "" : " (warm-up)", took, 8e-6 * (double)T / took);
    }
    if (!ok)
        printf("  %s\n", e.text);
    for (int64_t i = 0; ok && i < 8 * T; i++)
        ok = isfinite(fro[i]) && isfinite(sv[i * d]) && isfinite(sv[i * d + d - 1]);
    unload(gpu, &g);
    tiny_steps_free(&x);
    free(sv);
    free(fro);
    free(at);
    assert_true(ok);
}

static void rates_are_measured(void **state) {
    (void)state;
    NEEDS_GPU();
    rate(64, 16384);
    rate(128, 16384);
}

int main(int argc, char **argv) {
    if (argc > 1) // one test alone (scripts/gpu_check.sh)
        cmocka_set_test_filter(argv[1]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(square_states_at_every_micro_step_match_the_cpu),
        cmocka_unit_test(rectangular_states_match_the_cpu),
        cmocka_unit_test(every_kind_of_step_matches_the_cpu),
        cmocka_unit_test(sparse_positions_match_the_cpu),
        cmocka_unit_test(many_positions_match_the_cpu),
        cmocka_unit_test(larger_sizes_go_to_the_host),
        cmocka_unit_test(size_is_taken_out_and_not_finite_states_give_nan),
        cmocka_unit_test(rates_are_measured),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
