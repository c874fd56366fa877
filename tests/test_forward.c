// The forward pass on tiny random models of every delta family: against plain loops in double
// (tests/naive_model.c), over block sizes, threads, resets and lengths.
#include "core/forward.h"
#include "core/mem.h"
#include "kernels/cpu/cpu.h"
#include "tests/files.h"
#include "tests/tiny_model.h"
#include "tests/worst.h"

#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

// Names keep what a case is about; sizes are odd on purpose.
static const tiny_spec zoo[] = {
    {.family = "delta_net", .conv = 4, .neg = true, .tied = true, .V = 10, .seed = 1},
    {.family = "delta_net", .conv = 0, .gate = true, .H = 3, .D = 12, .K = 4, .V = 8, .seed = 2},
    {.family = "gated_deltanet", .conv = 4, .gate = true, .H = 4, .Hk = 2, .V = 9, .seed = 3},
    {.family = "gated_deltanet", .conv = 1, .H = 1, .K = 5, .V = 2, .seed = 4},
    {.family = "gated_deltaproduct", .conv = 3, .n_h = 2, .neg = true, .K = 7, .seed = 5},
    {.family = "gated_deltaproduct",
     .conv = 4,
     .n_h = 3,
     .neg = true,
     .forget = true,
     .gate = true,
     .H = 4,
     .Hk = 2,
     .V = 5,
     .seed = 6},
    {.family = "kda", .conv = 4, .H = 4, .Hk = 2, .K = 5, .V = 8, .seed = 7},
    {.family = "kda", .conv = 4, .neg = true, .lower_bound = -5, .seed = 8},
    {.family = "comba", .conv = 4, .gate = true, .H = 4, .Hk = 2, .V = 11, .seed = 9},
    {.family = "gated_deltanet",
     .conv = 4,
     .heads = 4,
     .kv = 2,
     .window = 8,
     .D = 16,
     .L = 3,
     .seed = 10},
    {.family = "gated_deltaproduct",
     .conv = 4,
     .n_h = 2,
     .heads = 2,
     .kv = 1,
     .window = 0,
     .D = 16,
     .seed = 11},
};
enum { ZOO = sizeof zoo / sizeof *zoo };

// What one pass gives.
typedef struct seen {
    double *loss;
    double **state;
    int64_t T, told, blocks;
    int L;
    int H, K, V;
} seen;

static bool on_loss(void *ctx, int64_t t0, int64_t n, const double *loss, const int32_t *best,
                    err *e) {
    (void)best, (void)e;
    seen *s = ctx;
    assert_int_equal(t0, s->told);
    memcpy(s->loss + t0, loss, (size_t)n * sizeof *loss);
    s->told += n;
    s->blocks++;
    return true;
}

static bool on_final_state(void *ctx, int layer, mat state, backend *be, err *e) {
    be->op->read(be, state, ((seen *)ctx)->state[layer]);
    return backend_check(be, e);
}

static seen seen_new(const tiny_model *m, int64_t T) {
    seen s = {.T = T, .L = m->s.L, .H = m->s.H, .K = m->s.K, .V = m->s.V};
    s.loss = calloc((size_t)T + 1, sizeof *s.loss);
    s.state = calloc((size_t)s.L, sizeof *s.state);
    for (int L = 0; L < s.L; L++)
        s.state[L] = calloc((size_t)(s.H * s.K * s.V), sizeof(double));
    return s;
}

static void seen_free(seen *s) {
    free(s->loss);
    for (int L = 0; L < s->L; L++)
        free(s->state[L]);
    free(s->state);
}

typedef struct bench {
    backend *be;
    model *m;
} bench;

static bench open_model(const tiny_model *t, precision p, int threads) {
    err e = {0};
    bench b = {.be = cpu_open(p, threads, &e)};
    assert_non_null(b.be);
    b.m = model_open(tiny_save(t, "model"), b.be, &e);
    if (!b.m)
        fail_msg("%s", e.text);
    assert_int_equal(b.m->leftover.n, 0);
    return b;
}

static void close_model(bench *b) {
    model_free(b->m);
    backend_close(b->be);
}

static seen pass(const tiny_model *t, const bench *b, const int32_t *ids, int64_t T, int64_t block,
                 const row_options *opt) {
    err e = {0};
    seen s = seen_new(t, T);
    probe p = {.ctx = &s, .on_loss = on_loss, .on_final_state = on_final_state};
    const probe *probes[] = {&p};
    fwd *f = fwd_new(b->m, block, T, &e);
    if (!f || !fwd_row(f, ids, T, opt, probes, 1, NULL, NULL, &e))
        fail_msg("%s", e.text);
    fwd_free(f);
    return s;
}

static int32_t *random_ids(const tiny_model *t, int64_t T, uint64_t seed) {
    int32_t *ids = calloc((size_t)T + 1, sizeof *ids);
    for (int64_t i = 0; i < T; i++)
        ids[i] = (int32_t)(tiny_next(&seed) % (uint64_t)t->s.n_vocab);
    return ids;
}

// Largest difference; states relative to the largest entry of the layer.
static double differ(const tiny_model *t, const double *loss, double *const *state, const seen *s) {
    double worst = 0;
    for (int64_t i = 0; i + 1 < s->T; i++) {
        double d = fabs(loss[i] - s->loss[i]);
        worst = d <= worst ? worst : d; // a NaN wins
    }
    for (int L = 0; L < s->L; L++) {
        if (!state[L] || (t->s.heads && L == 1))
            continue;
        double top = 0, d = 0;
        for (int i = 0; i < s->H * s->K * s->V; i++) {
            top = fmax(top, fabs(state[L][i]));
            double x = fabs(state[L][i] - s->state[L][i]);
            d = x <= d ? d : x;
        }
        d = top > 0 ? d / top : d;
        worst = d <= worst ? worst : d;
    }
    return worst;
}

// float64: rounding of some hundred tokens, 1e-15 each, grown by the layers. float32 the same at
// 6e-8: random models with beta near 2 and normed read-outs grow it a thousandfold, whoever
// computes; two float32 runs differ by as much as each differs from the loops.
static double bound(precision p) {
    return p == PRECISION_F64 ? 1e-12 : 1e-4;
}

// B44: rows of 1 to 8 tokens (convolution of 4); B43: tails of blocks; B49.
static void short_rows_agree_with_plain_loops(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 2, 3, 4, 7, 8, 63, 64, 65};
    double worst[2] = {0};
    for (int z = 0; z < ZOO; z++) {
        tiny_model *t = tiny_new(zoo[z]);
        for (int p = 0; p < 2; p++) {
            precision prec = p ? PRECISION_F64 : PRECISION_F32;
            bench b = open_model(t, prec, 1);
            for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
                int32_t *ids = random_ids(t, lengths[i], 50 + i);
                naive want = naive_run(t, ids, lengths[i]);
                seen got = pass(t, &b, ids, lengths[i], 64, NULL);
                double d = differ(t, want.loss, want.state, &got);
                worst[p] = worse(worst[p], d);
                if (!(d <= bound(prec)))
                    fail_msg("%s (case %d), %lld tokens in %s: off by %g", zoo[z].family, z,
                             (long long)lengths[i], precision_name(prec), d);
                seen_free(&got);
                naive_free(&want);
                free(ids);
            }
            close_model(&b);
        }
        tiny_free(t);
    }
    print_message("measured short rows against plain loops: f32 %.1e, f64 %.1e\n", worst[0],
                  worst[1]);
}

// B49, B123: how a row is cut changes nothing but rounding. The loops say what is right.
static void block_sizes_do_not_change_the_result(void **state) {
    (void)state;
    static const int64_t blocks[] = {1, 7, 63, 64, 65, 512};
    const int64_t T = 300;
    double worst[2] = {0};
    for (int z = 0; z < ZOO; z++) {
        tiny_model *t = tiny_new(zoo[z]);
        int32_t *ids = random_ids(t, T, 5);
        naive want = naive_run(t, ids, T);
        for (int p = 0; p < 2; p++) {
            precision prec = p ? PRECISION_F64 : PRECISION_F32;
            bench b = open_model(t, prec, 1);
            seen whole = pass(t, &b, ids, T, T, NULL);
            double off = differ(t, want.loss, want.state, &whole);
            if (!(off <= bound(prec)))
                fail_msg("%s (case %d) in %s: off by %g", zoo[z].family, z, precision_name(prec),
                         off);
            for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
                seen got = pass(t, &b, ids, T, blocks[i], NULL);
                assert_int_equal(got.told, T);
                assert_int_equal(got.blocks, (T + blocks[i] - 1) / blocks[i]);
                double d = differ(t, whole.loss, whole.state, &got);
                worst[p] = worse(worst[p], d);
                if (!(d <= bound(prec)))
                    fail_msg("%s (case %d), blocks of %lld in %s: off by %g", zoo[z].family, z,
                             (long long)blocks[i], precision_name(prec), d);
                seen_free(&got);
            }
            seen_free(&whole);
            close_model(&b);
        }
        naive_free(&want);
        free(ids);
        tiny_free(t);
    }
    print_message("measured blocks 1 to 512 against one block: f32 %.1e, f64 %.1e\n", worst[0],
                  worst[1]);
}

// A cut at any place: a start list that names no place is not a cut, so random blocks come from
// random block sizes.
static void random_blocks_do_not_change_the_result(void **state) {
    (void)state;
    uint64_t seed = 99;
    for (int z = 0; z < ZOO; z++) {
        tiny_model *t = tiny_new(zoo[z]);
        int32_t *ids = random_ids(t, 150, 6);
        bench b = open_model(t, PRECISION_F64, 1);
        seen whole = pass(t, &b, ids, 150, 150, NULL);
        for (int i = 0; i < 6; i++) {
            int64_t block = 2 + (int64_t)(tiny_next(&seed) % 140);
            seen got = pass(t, &b, ids, 150, block, NULL);
            assert_true(differ(t, whole.loss, whole.state, &got) <= 1e-12);
            seen_free(&got);
        }
        seen_free(&whole);
        close_model(&b);
        free(ids);
        tiny_free(t);
    }
}

static void threads_do_not_change_the_result(void **state) {
    (void)state;
    double worst = 0;
    for (int z = 0; z < ZOO; z++) {
        tiny_model *t = tiny_new(zoo[z]);
        int32_t *ids = random_ids(t, 300, 7);
        bench one = open_model(t, PRECISION_F32, 1);
        seen a = pass(t, &one, ids, 300, 256, NULL);
        close_model(&one);
        bench two = open_model(t, PRECISION_F32, 2);
        seen b = pass(t, &two, ids, 300, 256, NULL);
        close_model(&two);
        worst = worse(worst, differ(t, a.loss, a.state, &b));
        seen_free(&a);
        seen_free(&b);
        free(ids);
        tiny_free(t);
    }
    print_message("measured one thread against two, f32: %.1e\n", worst);
    assert_true(worst <= 2e-5);
}

// B66: a window counts the token itself.
static void windows_count_the_token_itself(void **state) {
    (void)state;
    static const int windows[] = {1, 2, 8}, lengths[] = {7, 8, 9, 300};
    for (int w = 0; w < 3; w++) {
        tiny_spec s = zoo[9];
        s.window = windows[w];
        tiny_model *t = tiny_new(s);
        bench b = open_model(t, PRECISION_F64, 1);
        assert_int_equal(b.m->layers[1].branch[0].body->window, windows[w]);
        assert_null(model_mixer(b.m, 1));
        for (int i = 0; i < 4; i++) {
            int32_t *ids = random_ids(t, lengths[i], 8);
            naive want = naive_run(t, ids, lengths[i]);
            for (int64_t block = 1; block <= 64; block = block * 3 + 2) {
                seen got = pass(t, &b, ids, lengths[i], block, NULL);
                assert_true(differ(t, want.loss, want.state, &got) <= 1e-12);
                seen_free(&got);
            }
            naive_free(&want);
            free(ids);
        }
        close_model(&b);
        tiny_free(t);
    }
}

// B45: no tokens: no losses, no NaN, no crash; one token: a row without a loss.
static void an_empty_row_and_a_row_of_one_token(void **state) {
    (void)state;
    for (int z = 0; z < ZOO; z++) {
        tiny_model *t = tiny_new(zoo[z]);
        bench b = open_model(t, PRECISION_F32, 1);
        const int32_t one[] = {3};
        seen none = pass(t, &b, one, 0, 16, NULL);
        assert_int_equal(none.told, 0);
        seen s = pass(t, &b, one, 1, 16, NULL);
        assert_int_equal(s.told, 1);
        assert_true(isnan(s.loss[0])); // there is no next token
        for (int i = 0; i < s.H * s.K * s.V; i++)
            assert_true(isfinite(s.state[0][i]));
        seen_free(&none);
        seen_free(&s);
        close_model(&b);
        tiny_free(t);
    }
}

// B47: 524,288 tokens, and 65,536 and 262,144 on the way; the loops' final state and all losses.
static void a_long_row_ends_where_the_loops_end(void **state) {
    (void)state;
    const int64_t T = 524288;
    tiny_spec s = {.family = "gated_deltaproduct",
                   .D = 6,
                   .L = 1,
                   .H = 1,
                   .K = 4,
                   .n_h = 2,
                   .conv = 4,
                   .neg = true,
                   .forget = true,
                   .n_vocab = 11,
                   .inter = 5,
                   .seed = 12};
    tiny_model *t = tiny_new(s);
    int32_t *ids = random_ids(t, T, 13);
    naive want = naive_run(t, ids, T);
    bench b = open_model(t, PRECISION_F64, 1);
    seen got = pass(t, &b, ids, T, 2048, NULL);
    double d64 = differ(t, want.loss, want.state, &got);
    seen_free(&got);
    close_model(&b);
    b = open_model(t, PRECISION_F32, 1);
    got = pass(t, &b, ids, T, 2048, NULL);
    double d32 = differ(t, want.loss, want.state, &got);
    seen_free(&got);
    close_model(&b);
    print_message("measured 524288 tokens against plain loops: f32 %.1e, f64 %.1e\n", d32, d64);
    assert_true(d64 <= 1e-11);
    assert_true(d32 <= 1e-3);
    naive_free(&want);
    free(ids);
    tiny_free(t);
}

// B64, B121: two documents in one row. Swapping the first leaves the second's losses alone, bit
// for bit: state, convolution tails, attention window and positions are all emptied.
static void a_reset_hides_the_document_before(void **state) {
    (void)state;
    enum { FIRST = 37, SECOND = 50, T = FIRST + SECOND };
    for (int z = 0; z < ZOO; z++) {
        tiny_model *t = tiny_new(zoo[z]);
        bench b = open_model(t, PRECISION_F32, 1);
        int32_t *x = random_ids(t, T, 20), *y = random_ids(t, T, 21);
        memcpy(y + FIRST, x + FIRST, SECOND * sizeof *x);
        const int64_t start[] = {0, FIRST};
        row_options opt = {.reset_id = -1, .starts = start, .n_starts = 2};
        seen a = pass(t, &b, x, T, 16, &opt), c = pass(t, &b, y, T, 16, &opt);
        assert_memory_equal(a.loss + FIRST, c.loss + FIRST, (SECOND - 1) * sizeof(double));
        // B120: alone, and as what follows filler.
        seen alone = pass(t, &b, x + FIRST, SECOND, 16, NULL);
        assert_memory_equal(a.loss + FIRST, alone.loss, (SECOND - 1) * sizeof(double));
        assert_true(differ(t, alone.loss, alone.state, &alone) == 0);
        for (int L = 0; L < t->s.L; L++)
            assert_memory_equal(a.state[L], alone.state[L],
                                (size_t)(a.H * a.K * a.V) * sizeof(double));
        // Without the reset the first document is felt, or this test proves nothing.
        seen open = pass(t, &b, x, T, 16, NULL);
        assert_true(fabs(open.loss[FIRST] - alone.loss[0]) > 1e-6);
        seen_free(&a), seen_free(&c), seen_free(&alone), seen_free(&open);
        free(x), free(y);
        close_model(&b);
        tiny_free(t);
    }
}

// The same by an id in the row (the token that opens a document).
static void a_reset_id_starts_a_document(void **state) {
    (void)state;
    enum { T = 60 };
    for (int z = 0; z < ZOO; z++) {
        tiny_model *t = tiny_new(zoo[z]);
        bench b = open_model(t, PRECISION_F64, 1);
        int32_t *ids = random_ids(t, T, 30);
        for (int i = 0; i < T; i++)
            ids[i] = ids[i] == 0 ? 1 : ids[i];
        ids[0] = ids[10] = ids[11] = ids[33] = 0;
        const int64_t starts[] = {10, 11, 33};
        // B45: empty documents (a start twice) and one at the row's end change nothing.
        const int64_t doubled[] = {0, 0, 10, 10, 11, 33, 33, 33, T, T + 5};
        row_options by_id = {.reset_id = 0},
                    by_list = {.reset_id = -1, .starts = starts, .n_starts = 3},
                    empty = {.reset_id = -1, .starts = doubled, .n_starts = 10};
        seen a = pass(t, &b, ids, T, 16, &by_id), c = pass(t, &b, ids, T, 16, &by_list);
        seen d = pass(t, &b, ids, T, 16, &empty);
        assert_memory_equal(a.loss, d.loss, (T - 1) * sizeof(double));
        seen_free(&d);
        assert_memory_equal(a.loss, c.loss, (T - 1) * sizeof(double));
        naive want = naive_run(t, ids + 33, T - 33);
        double worst = 0;
        for (int i = 0; i < T - 34; i++)
            worst = worse(worst, fabs(want.loss[i] - a.loss[33 + i]));
        assert_true(worst <= 1e-12);
        naive_free(&want);
        seen_free(&a), seen_free(&c);
        free(ids);
        close_model(&b);
        tiny_free(t);
    }
}

// B121 taken apart: convolution without a state to speak of (beta near 0), and state without
// convolution, so that neither can hide a leak of the other.
static void conv_and_state_are_reset_each(void **state) {
    (void)state;
    enum { FIRST = 9, T = 20 };
    for (int conv = 0; conv < 2; conv++) {
        tiny_spec s = {.family = "delta_net", .L = 1, .conv = conv ? 4 : 0, .seed = 40};
        tiny_model *t = tiny_new(s);
        bench b = open_model(t, PRECISION_F64, 1);
        int32_t *x = random_ids(t, T, 41), *y = random_ids(t, T, 42);
        memcpy(y + FIRST, x + FIRST, (T - FIRST) * sizeof *x);
        const int64_t start[] = {FIRST};
        row_options opt = {.reset_id = -1, .starts = start, .n_starts = 1};
        seen a = pass(t, &b, x, T, 64, &opt), c = pass(t, &b, y, T, 64, &opt);
        assert_memory_equal(a.loss + FIRST, c.loss + FIRST, (T - FIRST - 1) * sizeof(double));
        seen d = pass(t, &b, x, T, 64, NULL), f = pass(t, &b, y, T, 64, NULL);
        assert_true(fabs(d.loss[FIRST] - f.loss[FIRST]) > 1e-9);
        seen_free(&a), seen_free(&c), seen_free(&d), seen_free(&f);
        free(x), free(y);
        close_model(&b);
        tiny_free(t);
    }
}

// B43: a pass leaves nothing behind that the next one sees, not even NaN in stale scratch.
static void a_row_does_not_see_the_row_before(void **state) {
    (void)state;
    for (int z = 0; z < ZOO; z++) {
        tiny_model *t = tiny_new(zoo[z]);
        bench b = open_model(t, PRECISION_F32, 1);
        int32_t *x = random_ids(t, 100, 60), *y = random_ids(t, 93, 61);
        seen fresh = pass(t, &b, y, 93, 32, NULL), again = seen_new(t, 93);
        err e = {0};
        fwd *f = fwd_new(b.m, 32, 100, &e);
        assert_non_null(f);
        probe p = {.ctx = &again, .on_loss = on_loss, .on_final_state = on_final_state};
        const probe *probes[] = {&p};
        assert_true(fwd_row(f, x, 100, NULL, NULL, 0, NULL, NULL, &e));
        // Spoils what stays in scratch and in the carries.
        mat stale = fwd_tmp(f, 8, 64);
        memset(stale.p, 0xff, 8 * 64 * sizeof(float));
        for (int i = 0; i < f->n_modules * MODULE_MAX_CARRY; i++)
            if (!mat_none(f->carry[i]))
                memset(f->carry[i].p, 0xff,
                       (size_t)(f->carry[i].rows * f->carry[i].cols) * sizeof(float));
        assert_true(fwd_row(f, y, 93, NULL, probes, 1, NULL, NULL, &e));
        assert_memory_equal(fresh.loss, again.loss, 92 * sizeof(double));
        fwd_free(f);
        seen_free(&fresh), seen_free(&again);
        free(x), free(y);
        close_model(&b);
        tiny_free(t);
    }
}

// B39 in a whole model: one token 300 times over.
static void one_token_again_and_again_is_finite(void **state) {
    (void)state;
    for (int z = 0; z < ZOO; z++) {
        tiny_model *t = tiny_new(zoo[z]);
        bench b = open_model(t, PRECISION_F32, 1);
        int32_t ids[300];
        for (int i = 0; i < 300; i++)
            ids[i] = 4;
        naive want = naive_run(t, ids, 300);
        seen got = pass(t, &b, ids, 300, 64, NULL);
        assert_true(differ(t, want.loss, want.state, &got) <= 1e-4);
        naive_free(&want);
        seen_free(&got);
        close_model(&b);
        tiny_free(t);
    }
}

// B59: the embedding of one token is all zero: its key is zero, the state stays as it is.
static void a_zero_embedding_row_is_finite(void **state) {
    (void)state;
    for (int z = 0; z < ZOO; z++) {
        tiny_model *t = tiny_new(zoo[z]);
        tiny_tensor *E = tiny_get(t, "model.embeddings.weight");
        memset(E->v + 2 * t->s.D, 0, (size_t)t->s.D * sizeof *E->v);
        bench b = open_model(t, PRECISION_F32, 1);
        const int32_t ids[] = {2, 2, 5, 2, 2, 2, 2, 2, 7, 2};
        naive want = naive_run(t, ids, 10);
        seen got = pass(t, &b, ids, 10, 64, NULL);
        assert_true(differ(t, want.loss, want.state, &got) <= 1e-4);
        naive_free(&want);
        seen_free(&got);
        close_model(&b);
        tiny_free(t);
    }
}

// B77: an id beyond the embedding, or below zero, is named with its place.
static void an_id_beyond_the_embedding_is_an_error(void **state) {
    (void)state;
    tiny_model *t = tiny_new(zoo[0]);
    bench b = open_model(t, PRECISION_F32, 1);
    err e = {0};
    fwd *f = fwd_new(b.m, 8, 8, &e);
    const int32_t high[] = {1, 2, 23, 4}, low[] = {-1};
    assert_false(fwd_row(f, high, 4, NULL, NULL, 0, NULL, NULL, &e));
    files_assert_error_holds(&e, ERR_INPUT, "token 2 has id 23, but the embedding has 23 rows");
    err_clear(&e);
    assert_false(fwd_row(f, low, 1, NULL, NULL, 0, NULL, NULL, &e));
    files_assert_error_holds(&e, ERR_INPUT, "token 0 has id -1");
    fwd_free(f);
    close_model(&b);
    tiny_free(t);
}

static bool stop_at_once(void *ctx, int64_t done, int64_t all) {
    (void)ctx, (void)done, (void)all;
    return false;
}

static bool refuse(void *ctx, int layer, int64_t t0, const steps *s, mat state, backend *be,
                   err *e) {
    (void)ctx, (void)t0, (void)s, (void)state, (void)be;
    return layer == 0 || err_set(e, ERR_NUMERIC, "enough");
}

static void a_pass_can_be_stopped_by_progress_and_by_a_probe(void **state) {
    (void)state;
    tiny_model *t = tiny_new(zoo[2]);
    bench b = open_model(t, PRECISION_F32, 1);
    err e = {0};
    fwd *f = fwd_new(b.m, 8, 40, &e);
    int32_t *ids = random_ids(t, 40, 70);
    assert_false(fwd_row(f, ids, 40, NULL, NULL, 0, stop_at_once, NULL, &e));
    files_assert_error_holds(&e, ERR_CANCELLED, "stopped at token 8 of 40");
    err_clear(&e);
    probe p = {.on_steps = refuse};
    const probe *probes[] = {&p};
    assert_false(fwd_row(f, ids, 40, NULL, probes, 1, NULL, NULL, &e));
    files_assert_error_holds(&e, ERR_NUMERIC, "layer 1: enough");
    err_clear(&e);
    assert_true(fwd_row(f, ids, 40, NULL, NULL, 0, NULL, NULL, &e)); // and goes on living
    fwd_free(f);
    free(ids);
    close_model(&b);
    tiny_free(t);
}

// Every allocation of opening and reading may fail: an error, nothing lost, nothing kept.
static void failing_allocations_are_errors(void **state) {
    (void)state;
    const tiny_spec specs[] = {zoo[5], zoo[6], zoo[8], zoo[9]};
    for (int z = 0; z < 4; z++) {
        tiny_model *t = tiny_new(specs[z]);
        const char *folder = tiny_save(t, "failing");
        int32_t ids[20] = {0};
        long n = 1;
        for (bool whole = false; !whole && n < 5000; n++) {
            err e = {0};
            backend *be = cpu_open(PRECISION_F32, 1, &e);
            mem_fail_after(n);
            model *m = model_open(folder, be, &e);
            fwd *f = m ? fwd_new(m, 8, 20, &e) : NULL;
            whole = f && fwd_row(f, ids, 20, NULL, NULL, 0, NULL, NULL, &e);
            mem_fail_after(0);
            assert_true(whole || e.code == ERR_NOMEM);
            assert_true(whole || strstr(e.text, "out of memory"));
            fwd_free(f);
            model_free(m);
            backend_close(be);
        }
        assert_true(n > 40 && n < 5000);
        tiny_free(t);
    }
}

// B82: a vocabulary of 248,320 words needs no [tokens x vocabulary] array: 512 tokens would take
// 485 MB of float logits. Measured in a child, whose peak is its own; the weights are 8 MB.
static void a_large_vocabulary_needs_little_memory(void **state) {
    (void)state;
    tiny_spec s = {.family = "delta_net",
                   .D = 8,
                   .L = 1,
                   .H = 1,
                   .K = 4,
                   .V = 8,
                   .tied = true,
                   .n_vocab = 248320,
                   .conv = 4,
                   .seed = 80};
    tiny_model *t = tiny_new(s);
    const char *folder = tiny_save(t, "large");
    int32_t *ids = random_ids(t, 512, 81);
    int pipe_to[2];
    assert_int_equal(pipe(pipe_to), 0);
    pid_t child = fork();
    if (child == 0) {
        struct rusage used;
        err e = {0};
        double out[2] = {-1, NAN};
        backend *be = cpu_open(PRECISION_F32, 1, &e);
        model *m = model_open(folder, be, &e);
        seen got = seen_new(t, 512);
        probe p = {.ctx = &got, .on_loss = on_loss};
        const probe *probes[] = {&p};
        fwd *f = m ? fwd_new(m, 512, 512, &e) : NULL;
        if (f && fwd_row(f, ids, 512, NULL, probes, 1, NULL, NULL, &e)) {
            getrusage(RUSAGE_SELF, &used);
            out[0] = (double)used.ru_maxrss / 1024;
            out[1] = got.loss[100];
        }
        _exit(write(pipe_to[1], out, sizeof out) == sizeof out ? 0 : 1);
    }
    close(pipe_to[1]);
    double out[2] = {-1, NAN};
    assert_int_equal(read(pipe_to[0], out, sizeof out), sizeof out);
    close(pipe_to[0]);
    int status = 0;
    waitpid(child, &status, 0);
    print_message("measured 512 tokens x 248320 words: peak %.0f MB (all logits: %.0f MB)\n",
                  out[0], 512 * 248320 * 4.0 / 1048576);
    assert_true(out[0] >= 0);
    assert_true(out[0] < 300);
    naive want = naive_run(t, ids, 102);
    assert_true(fabs(want.loss[100] - out[1]) < 1e-4);
    naive_free(&want);
    free(ids);
    tiny_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        // First: forks before OpenMP has threads.
        cmocka_unit_test(a_large_vocabulary_needs_little_memory),
        cmocka_unit_test(short_rows_agree_with_plain_loops),
        cmocka_unit_test(block_sizes_do_not_change_the_result),
        cmocka_unit_test(random_blocks_do_not_change_the_result),
        cmocka_unit_test(threads_do_not_change_the_result),
        cmocka_unit_test(windows_count_the_token_itself),
        cmocka_unit_test(an_empty_row_and_a_row_of_one_token),
        cmocka_unit_test(a_long_row_ends_where_the_loops_end),
        cmocka_unit_test(a_reset_hides_the_document_before),
        cmocka_unit_test(a_reset_id_starts_a_document),
        cmocka_unit_test(conv_and_state_are_reset_each),
        cmocka_unit_test(a_row_does_not_see_the_row_before),
        cmocka_unit_test(one_token_again_and_again_is_finite),
        cmocka_unit_test(a_zero_embedding_row_is_finite),
        cmocka_unit_test(an_id_beyond_the_embedding_is_an_error),
        cmocka_unit_test(a_pass_can_be_stopped_by_progress_and_by_a_probe),
        cmocka_unit_test(failing_allocations_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
