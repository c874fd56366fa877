// What is different between two checkpoints: classes, numbers, files in any order (B118), weights that
// are stored once (B113), rounded decays (B114), names that nobody can print; and two models on the same
// tokens, with divergences against plain sums over their logits.
#include "analyses/contrast.h"
#include "analyses/diff.h"
#include "analyses/kl.h"
#include "core/mem.h"
#include "core/npy.h"
#include "kernels/cpu/cpu.h"
#include "tests/files.h"
#include "tests/run.h"
#include "tests/tiny_model.h"
#include "tests/worst.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

// Files -------------------------------------------------------------------------------------------

typedef struct item {
    const char *name, *dtype, *shape; // as in the header: "[2, 3]"; the name may hold escapes
    int n;
    double v[12];
} item;

static size_t put_number(unsigned char *to, const char *dtype, double v) {
    float f = (float)v;
    int32_t i = (int32_t)v;
    uint32_t bits;
    if (strcmp(dtype, "F64") == 0)
        return memcpy(to, &v, 8), 8;
    if (strcmp(dtype, "I32") == 0)
        return memcpy(to, &i, 4), 4;
    memcpy(&bits, &f, 4);
    if (strcmp(dtype, "BF16") == 0) { // to nearest, ties to even
        bits += 0x7fff + (bits >> 16 & 1);
        uint16_t half = (uint16_t)(bits >> 16);
        return memcpy(to, &half, 2), 2;
    }
    return memcpy(to, &bits, 4), 4;
}

static const char *save(const char *path, const item *t, int n) {
    static char header[8192];
    unsigned char data[2048];
    size_t at = 0, used = 0;
    for (int i = 0; i < n; i++) {
        size_t from = used;
        for (int k = 0; k < t[i].n; k++)
            used += put_number(data + used, t[i].dtype, t[i].v[k]);
        at +=
            (size_t)snprintf(header + at, sizeof header - at,
                             "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                             i ? "," : "{", t[i].name, t[i].dtype, t[i].shape, from, used);
    }
    snprintf(header + at, sizeof header - at, n ? "}" : "{}");
    const char *full = files_path("%s", path);
    files_safetensors(full, header, data, used);
    return full;
}

typedef struct pair_of {
    ckpt *a, *b;
    ckpt_diff d;
} pair_of;

static pair_of compare_with(const char *a, const char *b, const diff_options *o) {
    pair_of p;
    err e = {0};
    p.a = ckpt_open(a, &e);
    p.b = p.a ? ckpt_open(b, &e) : NULL;
    if (!p.b || !ckpt_diff_make(p.a, p.b, o, &p.d, &e))
        fail_msg("%s", e.text);
    return p;
}

static pair_of compare(const item *a, int n, const item *b, int m) {
    const diff_options all = {0};
    char first[600];
    snprintf(first, sizeof first, "%s", save("a.safetensors", a, n));
    return compare_with(first, save("b.safetensors", b, m), &all);
}

static void end(pair_of *p) {
    ckpt_diff_free(&p->d);
    ckpt_close(p->a);
    ckpt_close(p->b);
}

static const tensor_diff *get(const pair_of *p, const char *name) {
    for (size_t i = 0; i < p->d.n; i++)
        if (strcmp(p->d.v[i].name, name) == 0)
            return &p->d.v[i];
    fail_msg("no %s", name);
    return NULL;
}

#define SIZE(list)    ((int)(sizeof(list) / sizeof *(list)))
#define COMPARE(a, b) compare(a, SIZE(a), b, SIZE(b))

static void near(double got, double want, double allowed) {
    if (!(fabs(got - want) <= allowed))
        fail_msg("%.17g, not %.17g", got, want);
}

// Classes -----------------------------------------------------------------------------------------

static void tensors_fall_into_five_classes(void **state) {
    (void)state;
    const item a[] = {{"same", "F32", "[2]", 2, {1, 2}},
                      {"layers.10.w", "F32", "[2, 2]", 4, {3, 0, 0, 4}},
                      {"layers.2.w", "F32", "[3]", 3, {1, 2, 3}},
                      {"gone", "F32", "[1]", 1, {7}},
                      {"larger", "F32", "[2]", 2, {1, 2}},
                      {"ints", "I32", "[2]", 2, {1, 2}},
                      {"kinds", "I32", "[2]", 2, {1, 2}}};
    const item b[] = {{"kinds", "F32", "[2]", 2, {1, 2}},
                      {"ints", "I32", "[2]", 2, {1, 3}},
                      {"larger", "F32", "[3]", 3, {1, 2, 3}},
                      {"new", "F32", "[2, 1]", 2, {7, 8}},
                      {"layers.2.w", "F32", "[3]", 3, {1, 2, 3}},
                      {"layers.10.w", "F32", "[2, 2]", 4, {3, 0, 2, 3}},
                      {"same", "F32", "[2]", 2, {1, 2}}};
    pair_of p = COMPARE(a, b);
    static const char *const order[] = {"gone",       "ints",        "kinds", "larger",
                                        "layers.2.w", "layers.10.w", "new",   "same"};
    assert_int_equal(p.d.n, 8);
    for (int i = 0; i < 8; i++)
        assert_string_equal(p.d.v[i].name, order[i]);
    assert_int_equal(get(&p, "same")->how, DIFF_EQUAL);
    assert_int_equal(get(&p, "layers.2.w")->how, DIFF_EQUAL);
    assert_int_equal(get(&p, "gone")->how, DIFF_MISSING);
    assert_int_equal(get(&p, "new")->how, DIFF_EXTRA);
    assert_int_equal(get(&p, "larger")->how, DIFF_INCOMPATIBLE);
    assert_int_equal(get(&p, "kinds")->how, DIFF_INCOMPATIBLE);
    const tensor_diff *ints = get(&p, "ints"), *t = get(&p, "layers.10.w");
    assert_int_equal(ints->how, DIFF_DIFFERS);
    assert_false(ints->measured);
    // a = (3, 0, 0, 4), b = (3, 0, 2, 3): a.b = 21, |a| = 5, |b|^2 = 22, |a - b|^2 = 5
    assert_int_equal(t->how, DIFF_DIFFERS);
    near(t->v.l2, sqrt(5), 1e-15);
    near(t->v.cosine, 21 / (5 * sqrt(22)), 1e-15);
    near(t->v.norm_a, 5, 0);
    assert_true(t->v.largest == 2 && t->v.at == 2 && t->v.a_at == 0 && t->v.b_at == 2);
    assert_int_equal(t->v.changed, 2);
    assert_int_equal(p.d.count[DIFF_EQUAL], 2);
    assert_int_equal(p.d.count[DIFF_DIFFERS], 2);
    assert_int_equal(p.d.count[DIFF_INCOMPATIBLE], 2);
    assert_int_equal(p.d.elements[DIFF_EXTRA], 2);
    assert_false(ckpt_diff_same(&p.d));
    end(&p);
}

// B118: re-typed, reshaped, transposed.
static void B118_new_types_and_shapes_are_said(void **state) {
    (void)state;
    const item a[] = {{"exact", "F32", "[2]", 2, {1, -0.5}},
                      {"rounded", "F32", "[2]", 2, {1.001, 3}},
                      {"squeezed", "F32", "[2, 1, 2]", 4, {1, 2, 3, 4}},
                      {"turned", "F32", "[2, 3]", 6, {1, 2, 3, 4, 5, 6}},
                      {"nearly turned", "F32", "[2, 3]", 6, {1, 2, 3, 4, 5, 6}},
                      {"reread", "F32", "[2, 3]", 6, {1, 2, 3, 4, 5, 6}},
                      {"both", "F64", "[2]", 2, {1, 2}}};
    const item b[] = {{"exact", "BF16", "[2]", 2, {1, -0.5}},
                      {"rounded", "BF16", "[2]", 2, {1.001, 3}},
                      {"squeezed", "F32", "[2, 2]", 4, {1, 2, 3, 4}},
                      {"turned", "F32", "[3, 2]", 6, {1, 4, 2, 5, 3, 6}},
                      {"nearly turned", "F32", "[3, 2]", 6, {1, 4, 2, 5, 3, 7}},
                      {"reread", "F32", "[3, 2]", 6, {1, 2, 3, 4, 5, 6}},
                      {"both", "F32", "[2, 1]", 2, {1, 2}}};
    pair_of p = COMPARE(a, b);
    const tensor_diff *t = get(&p, "exact");
    assert_true(t->how == DIFF_DIFFERS && t->retyped && !t->reshaped && t->v.changed == 0);
    t = get(&p, "rounded");
    assert_true(t->retyped && t->v.changed == 1);
    near(t->v.largest, (double)1.001f - 1, 0); // 1.001 in BF16 is 1
    t = get(&p, "squeezed");
    assert_true(t->how == DIFF_DIFFERS && t->reshaped && !t->retyped && !t->measured);
    t = get(&p, "turned");
    assert_true(t->reshaped && t->transposed && t->v.changed == 0);
    t = get(&p, "nearly turned");
    assert_true(t->transposed && t->v.changed == 1 && t->v.at == 5 && t->v.largest == 1);
    t = get(&p, "reread");
    assert_true(t->reshaped && !t->transposed && !t->measured);
    t = get(&p, "both");
    assert_true(t->retyped && t->reshaped && t->v.changed == 0);
    assert_int_equal(p.d.retyped, 3);
    assert_int_equal(p.d.reshaped, 5);
    assert_int_equal(p.d.count[DIFF_EQUAL], 0);
    end(&p);
}

static void numbers_that_are_none_are_counted_and_left_out(void **state) {
    (void)state;
    const item a[] = {{"w", "F32", "[5]", 5, {NAN, 1, INFINITY, 3, 0}},
                      {"z", "F32", "[2]", 2, {0, 1}},
                      {"o", "F32", "[2]", 2, {0, 0}},
                      {"e", "F32", "[0]", 0, {0}}};
    const item b[] = {{"w", "F32", "[5]", 5, {NAN, NAN, INFINITY, 5, 0}},
                      {"z", "F32", "[2]", 2, {-0.0, 1}},
                      {"o", "F32", "[2]", 2, {3, 4}},
                      {"e", "F32", "[0]", 0, {0}}};
    pair_of p = COMPARE(a, b);
    const tensor_diff *t = get(&p, "w");
    assert_int_equal(t->v.not_finite, 3);
    assert_int_equal(t->v.changed, 2); // NaN and NaN are the same nothing
    assert_true(t->v.l2 == 2 && t->v.at == 3);
    t = get(&p, "z"); // other bits, the same numbers
    assert_true(t->how == DIFF_DIFFERS && t->v.changed == 0 && t->v.l2 == 0);
    t = get(&p, "o");
    assert_true(isnan(t->v.cosine) && t->v.l2 == 5);
    assert_int_equal(get(&p, "e")->how, DIFF_EQUAL);
    end(&p);
}

// Sums over many pieces, on one thread and on more: the same to the last bit.
static void large_tensors_are_compared_in_pieces(void **state) {
    (void)state;
    enum { N = 200003 };
    float *v = malloc(N * sizeof *v);
    char header[200], a[600];
    uint64_t seed = 5;
    double dd = 0;
    for (int i = 0; i < N; i++)
        v[i] = (float)tiny_normal(&seed);
    snprintf(header, sizeof header,
             "{\"w\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[0,%d]}}", N, 4 * N);
    snprintf(a, sizeof a, "%s", files_path("a.safetensors"));
    files_safetensors(a, header, v, N * sizeof *v);
    for (int i = 0; i < N; i += 1000) {
        float was = v[i];
        v[i] += 0.25f * (float)(i + 1) / N;
        dd += ((double)v[i] - was) * ((double)v[i] - was);
    }
    const char *b = files_path("b.safetensors");
    files_safetensors(b, header, v, N * sizeof *v);
    const diff_options all = {0};
    pair_of p = compare_with(a, b, &all), q = compare_with(a, b, &all);
    const value_diff *x = &get(&p, "w")->v;
    near(x->l2, sqrt(dd), 1e-12 * sqrt(dd));
    assert_int_equal(x->changed, 201);
    assert_int_equal(x->at, 200000);
    assert_true(x->cosine < 1 && x->cosine > 0.99);
    assert_memory_equal(x, &get(&q, "w")->v, sizeof *x);
    end(&p);
    end(&q);
    free(v);
}

static void globs_choose_tensors(void **state) {
    (void)state;
    const item a[] = {
        {"a.w", "F32", "[1]", 1, {1}}, {"a.b", "F32", "[1]", 1, {1}}, {"c", "F32", "[1]", 1, {1}}};
    const item b[] = {
        {"a.w", "F32", "[1]", 1, {2}}, {"a.b", "F32", "[1]", 1, {2}}, {"d", "F32", "[1]", 1, {1}}};
    const char *const in[] = {"a.*", "c"}, *const out[] = {"*.b"};
    diff_options o = {.include = in, .n_include = 2, .exclude = out, .n_exclude = 1};
    char first[600];
    snprintf(first, sizeof first, "%s", save("a.safetensors", a, 3));
    pair_of p = compare_with(first, save("b.safetensors", b, 3), &o);
    assert_int_equal(p.d.n, 2);
    assert_int_equal(p.d.left_out, 2);
    assert_int_equal(get(&p, "c")->how, DIFF_MISSING);
    end(&p);
}

// Files -------------------------------------------------------------------------------------------

// B118: the same tensors in one file and in shards, in another order.
static void B118_files_and_their_order_do_not_matter(void **state) {
    (void)state;
    const item all[] = {{"a", "F32", "[2]", 2, {1, 2}},
                        {"b", "BF16", "[1]", 1, {3}},
                        {"layers.2.c", "F32", "[1]", 1, {4}}};
    const item one[] = {all[2]}, two[] = {all[1], all[0]};
    char whole[600];
    snprintf(whole, sizeof whole, "%s", save("whole.safetensors", all, 3));
    files_mkdir(files_path("shards"));
    save("shards/model-00001-of-00002.safetensors", one, 1);
    save("shards/model-00002-of-00002.safetensors", two, 2);
    files_text(
        files_path("shards/model.safetensors.index.json"),
        "{\"weight_map\":{\"layers.2.c\":\"model-00001-of-00002.safetensors\","
        "\"b\":\"model-00002-of-00002.safetensors\",\"a\":\"model-00002-of-00002.safetensors\"}}");
    const diff_options every = {0};
    pair_of p = compare_with(whole, files_path("shards"), &every);
    assert_true(ckpt_diff_same(&p.d));
    assert_int_equal(p.d.n, 3);
    end(&p);
}

// B113: a head that shares the embedding's weights, stored once; B118: other names.
static void B113_twins_are_named(void **state) {
    (void)state;
    const item a[] = {{"model.embed.weight", "F32", "[2, 2]", 4, {1, 2, 3, 4}},
                      {"lm_head.weight", "F32", "[2, 2]", 4, {1, 2, 3, 4}},
                      {"model.layers.0.norm", "F32", "[2]", 2, {1, 1}},
                      {"model.layers.1.norm", "F32", "[2]", 2, {1, 1}},
                      {"model.layers.0.up", "F32", "[2]", 2, {5, 6}},
                      {"model.lost", "F32", "[2]", 2, {8, 8}}};
    const item b[] = {{"model.embed.weight", "F32", "[2, 2]", 4, {1, 2, 3, 4}},
                      {"backbone.layers.1.norm", "F32", "[2]", 2, {1, 1}},
                      {"backbone.layers.0.norm", "F32", "[2]", 2, {1, 1}},
                      {"backbone.layers.0.gate", "F32", "[2]", 2, {5, 6}},
                      {"fresh", "F32", "[2]", 2, {9, 8}}};
    pair_of p = COMPARE(a, b);
    const tensor_diff *t = get(&p, "lm_head.weight");
    assert_int_equal(t->how, DIFF_MISSING);
    assert_non_null(t->twin);
    assert_string_equal(t->twin->name, "model.embed.weight");
    assert_true(t->stored_once);
    t = get(&p, "model.layers.0.norm"); // of two with these bits the one whose name ends alike
    assert_string_equal(t->twin->name, "backbone.layers.0.norm");
    assert_false(t->stored_once);
    assert_string_equal(get(&p, "model.layers.1.norm")->twin->name, "backbone.layers.1.norm");
    assert_string_equal(get(&p, "backbone.layers.1.norm")->twin->name, "model.layers.1.norm");
    assert_string_equal(get(&p, "model.layers.0.up")->twin->name, "backbone.layers.0.gate");
    assert_null(get(&p, "model.lost")->twin);
    assert_null(get(&p, "fresh")->twin);
    assert_int_equal(p.d.stored_once, 1);
    assert_int_equal(p.d.renamed, 3);
    end(&p);
    p = COMPARE(b, a); // the other way round: stored twice
    assert_int_equal(get(&p, "lm_head.weight")->how, DIFF_EXTRA);
    assert_true(get(&p, "lm_head.weight")->stored_once);
    assert_int_equal(p.d.stored_once, 1);
    end(&p);
}

static void files_that_are_cut_are_errors(void **state) {
    (void)state;
    const item a[] = {{"w", "F32", "[12]", 12, {1}}}, b[] = {{"w", "F32", "[12]", 12, {2}}};
    const diff_options all = {0};
    char first[600], second[600];
    snprintf(first, sizeof first, "%s", save("a.safetensors", a, 1));
    snprintf(second, sizeof second, "%s", save("b.safetensors", b, 1));
    err e = {0};
    ckpt *x = ckpt_open(first, &e), *y = ckpt_open(second, &e);
    ckpt_diff d;
    assert_non_null(x);
    assert_non_null(y);
    assert_int_equal(truncate(second, 100), 0);
    assert_false(ckpt_diff_make(x, y, &all, &d, &e));
    assert_non_null(strstr(e.text, "b.safetensors"));
    ckpt_close(x);
    ckpt_close(y);
}

static void failing_allocations_are_errors(void **state) {
    (void)state;
    const item a[] = {{"w", "F32", "[2]", 2, {1, 2}}, {"x", "F32", "[2]", 2, {1, 2}}};
    const item b[] = {{"w", "F32", "[2]", 2, {1, 3}}, {"y", "F32", "[2]", 2, {1, 2}}};
    const diff_options all = {0};
    pair_of p = COMPARE(a, b);
    int failed = 0;
    for (long n = 1; n < 20; n++) {
        ckpt_diff d;
        err e = {0};
        mem_fail_after(n);
        bool ok = ckpt_diff_make(p.a, p.b, &all, &d, &e);
        mem_fail_after(0);
        failed += !ok;
        assert_true(ok ? d.n == 3 : e.code == ERR_NOMEM && d.n == 0);
        ckpt_diff_free(&d);
    }
    assert_true(failed >= 3);
    end(&p);
}

// B114: the half-lives of rounded decays ------------------------------------------------------------

static void B114_rounded_decays_are_told_as_half_lives(void **state) {
    (void)state;
    // Heads forget ln g = -exp(A) softplus(dt) a token. In BF16 -5.3 becomes -5.3125, 1.2 1.203125.
    const item a[] = {{"l.A_log", "F32", "[2]", 2, {-5.3, 1.2}},
                      {"l.dt_bias", "F32", "[2]", 2, {-3, 0.5}},
                      {"m.A_log", "F32", "[1]", 1, {-2}},
                      {"m.dt_bias", "F32", "[2]", 2, {-1, -4}},
                      {"n.A_log", "F32", "[1]", 1, {0.7}}};
    item b[SIZE(a)];
    memcpy(b, a, sizeof a);
    for (int i = 0; i < SIZE(b); i++)
        b[i].dtype = "BF16";
    pair_of p = COMPARE(a, b);
    decay_diff d;
    bool ok = true;
    err e = {0};
    assert_true(decay_diff_make(p.a, p.b, get(&p, "l.A_log"), &d, &ok, &e));
    double slow = exp((double)-5.3f) * log1p(exp(-3)), fast = exp((double)1.2f) * log1p(exp(0.5));
    double slow_b = exp(-5.3125) * log1p(exp(-3)), fast_b = exp(1.203125) * log1p(exp(0.5));
    assert_int_equal(d.n, 2);
    near(d.longest_a, M_LN2 / slow, 1e-12 * d.longest_a);
    near(d.longest_b, M_LN2 / slow_b, 1e-12 * d.longest_b);
    near(d.median_a, M_LN2 / (0.5 * (slow + fast)), 1e-12 * d.median_a);
    near(d.kept, exp(16384 * (slow - slow_b)), 1e-10 * d.kept);
    near(d.largest, slow / slow_b - 1, 1e-12);
    assert_int_equal(d.at, 0);
    printf(
        "    measured: half-life %.6g becomes %.6g, fast %.3g becomes %.3g, kept at 16k x %.4g\n",
        d.longest_a, d.longest_b, M_LN2 / fast, M_LN2 / fast_b, d.kept);
    // One decay a channel; none without a bias beside it.
    assert_false(decay_diff_make(p.a, p.b, get(&p, "l.dt_bias"), &d, &ok, &e));
    assert_true(ok);
    assert_true(decay_diff_make(p.a, p.b, get(&p, "m.A_log"), &d, &ok, &e));
    assert_int_equal(d.n, 2);
    near(d.longest_a, M_LN2 / (exp(-2) * log1p(exp(-4))), 1e-12 * d.longest_a);
    near(d.kept, 1, 0); // -2, -1 and -4 are exact in BF16
    assert_true(decay_diff_make(p.a, p.b, get(&p, "n.A_log"), &d, &ok, &e));
    near(d.longest_a, 1 / exp((double)0.7f), 1e-12);
    end(&p);
}

// Two models on the same tokens -------------------------------------------------------------------

enum { TOKENS = 70, VOCAB = 4500 }; // more words than one tile of logits

static backend *be;
static int32_t ids[2 * TOKENS];

static model *open_tiny(const char *family, uint64_t seed, const char *name, int n_vocab) {
    tiny_model *t =
        tiny_new((tiny_spec){.family = family, .conv = 4, .n_vocab = n_vocab, .seed = seed});
    err e = {0};
    model *m = model_open(tiny_save(t, name), be, &e);
    tiny_free(t);
    if (!m)
        fail_msg("%s", e.text);
    return m;
}

static int open_backend(void **state) {
    (void)state;
    err e = {0};
    uint64_t seed = 3;
    be = cpu_open(PRECISION_F64, 2, &e);
    for (int i = 0; i < 2 * TOKENS; i++)
        ids[i] = (int32_t)(tiny_next(&seed) % 20);
    return be ? 0 : -1;
}

static int close_backend(void **state) {
    (void)state;
    backend_close(be);
    return 0;
}

static contrast run_both(const model *a, const model *b, int64_t rows, int64_t block) {
    static const int64_t windows[] = {1, 8};
    const model *const m[2] = {a, b};
    contrast_options o = {.block = block,
                          .every = 4,
                          .name = {"a", "b"},
                          .document = "d",
                          .spectrum = {.windows = windows, .n_windows = 2, .samples = 3},
                          .jump = 3,
                          .resamples = 20};
    contrast c;
    err e = {0};
    if (!contrast_run(m, ids, rows, TOKENS, NULL, &o, &c, &e))
        fail_msg("%s", e.text);
    return c;
}

typedef struct last {
    double *v;
    int64_t n;
} last;

static bool take_logits(void *ctx, int64_t t, const double *logits, int64_t n, err *e) {
    last *l = ctx;
    (void)t, (void)e;
    l->v = realloc(l->v, (size_t)n * sizeof *l->v);
    memcpy(l->v, logits, (size_t)n * sizeof *l->v);
    l->n = n;
    return true;
}

static last logits_after(const model *m, int64_t T) {
    last l = {0};
    err e = {0};
    fwd *f = fwd_new(m, 16, T, &e);
    probe p = {.ctx = &l, .on_logits = take_logits};
    const probe *probes[] = {&p};
    assert_true(f && fwd_row(f, ids, T, NULL, probes, 1, NULL, NULL, &e));
    fwd_free(f);
    return l;
}

// sum p (ln p - ln q), word by word.
static double plain_kl(const last *a, const last *b) {
    double za = 0, zb = 0, kl = 0;
    for (int64_t j = 0; j < a->n; j++) {
        za += exp(a->v[j]);
        zb += exp(b->v[j]);
    }
    for (int64_t j = 0; j < a->n; j++)
        kl += exp(a->v[j]) / za * ((a->v[j] - log(za)) - (b->v[j] - log(zb)));
    return kl;
}

static void divergences_are_sums_over_the_vocabulary(void **state) {
    (void)state;
    model *a = open_tiny("gated_deltanet", 1, "ma", VOCAB),
          *b = open_tiny("delta_net", 2, "mb", VOCAB);
    contrast c = run_both(a, b, 2, 16);
    static const int64_t at[] = {0, 1, 15, 16, 40, TOKENS - 2};
    double worst = 0;
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        last x = logits_after(a, at[i] + 1), y = logits_after(b, at[i] + 1);
        double want = plain_kl(&x, &y);
        assert_int_equal(x.n, VOCAB);
        assert_true(want > 1e-6);
        worst = fmax(worst, fabs(c.kl[at[i]] - want) / want);
        free(x.v);
        free(y.v);
    }
    printf("    measured: divergences against plain sums: %.2g (allowed 1e-9)\n", worst);
    assert_true(worst < 1e-9); // both in float64; sums of 4500 terms in another order
    // Another cut into blocks gives the same.
    contrast d = run_both(a, b, 2, 64);
    for (int64_t i = 0; i < 2 * c.n; i++)
        near(d.kl[i], c.kl[i], 1e-9 * c.kl[i] + 1e-12);
    assert_true(c.kl_largest >= c.kl[0] && c.kl[c.kl_row * c.n + c.kl_at] == c.kl_largest);
    // Both lists of heads are there, of two families.
    assert_true(c.n_heads > 0 && c.states[0] && c.states[1]);
    contrast_free(&c);
    contrast_free(&d);
    model_free(a);
    model_free(b);
}

static void a_model_does_not_differ_from_itself(void **state) {
    (void)state;
    model *a = open_tiny("kda", 4, "ma", 50), *b = open_tiny("kda", 4, "mb", 50);
    contrast c = run_both(a, b, 2, 16);
    for (int64_t i = 0; i < 2 * c.n; i++)
        assert_true(c.kl[i] == 0 && c.same_best[i]);
    const contrast_stretch *all = &c.stretch[c.n_stretches - 1];
    assert_true(all->change.mean == 0 && all->agree == 1 && all->kl == 0);
    assert_memory_equal(c.loss[0].loss, c.loss[1].loss, sizeof(double) * 2 * (size_t)c.n);
    for (size_t i = 0; i < c.n_heads; i++) {
        const contrast_head *h = &c.head[i];
        assert_true(h->erank[0] == h->erank[1] && h->norm[0] == h->norm[1]);
    }
    contrast_free(&c);
    model_free(a);
    model_free(b);
}

static void other_vocabularies_have_no_divergence(void **state) {
    (void)state;
    model *a = open_tiny("delta_net", 1, "ma", 50), *b = open_tiny("delta_net", 1, "mb", 60);
    contrast c = run_both(a, b, 1, 16);
    assert_null(c.kl);
    assert_non_null(strstr(c.why_no_kl, "50 and 60 words"));
    assert_true(isnan(c.kl_largest) && isnan(c.stretch[0].kl));
    assert_true(isfinite(c.stretch[0].change.mean));
    contrast_free(&c);
    model_free(a);
    model_free(b);
}

// As users run it ---------------------------------------------------------------------------------

static run diff(int code, const char *const *words) {
    const char *argv[20] = {"diff"};
    run r = {.argv = argv, .timeout = 60};
    for (int i = 0; words[i] && i < 18; i++)
        argv[i + 1] = words[i];
    assert_true(run_program(&r));
    if (r.code != code)
        fail_msg("exit code %d, not %d: %s%s", r.code, code, r.out, r.err);
    return r;
}

#define DIFF(code, ...) diff(code, (const char *const[]){__VA_ARGS__, NULL})

static void says(const char *text, const char *part) {
    if (!strstr(text, part))
        fail_msg("\"%s\" does not hold \"%s\"", text, part);
}

// B118: only --strict makes a difference an exit code.
static void B118_strict_alone_fails(void **state) {
    (void)state;
    const item a[] = {{"w", "F32", "[2]", 2, {1, 2}}}, b[] = {{"w", "BF16", "[2]", 2, {1, 2}}};
    char x[600], y[600];
    snprintf(x, sizeof x, "%s", save("a.safetensors", a, 1));
    snprintf(y, sizeof y, "%s", save("b.safetensors", b, 1));
    run r = DIFF(0, x, x, "--strict");
    says(r.out, "no tensor differs");
    run_free(&r);
    r = DIFF(0, x, y);
    says(r.out, "same values\n      re-typed: F32 [2] -> BF16 [2]");
    run_free(&r);
    r = DIFF(4, x, y, "--strict");
    run_free(&r);
    r = DIFF(0, x, y, "--strict", "--exclude", "w");
    run_free(&r);
    r = DIFF(2, x);
    run_free(&r);
    r = DIFF(1, x, files_path("nothing.safetensors"));
    run_free(&r);
}

static void names_that_cannot_be_printed_are_escaped(void **state) {
    (void)state;
    const item a[] = {{"bell\\u0007", "F32", "[1]", 1, {1}},
                      {"\\u202eevil \\n", "F32", "[1]", 1, {1}}};
    const item b[] = {{"bell\\u0007", "F32", "[1]", 1, {2}}, {"<b>&\\\"", "F32", "[2]", 2, {1}}};
    char x[600];
    snprintf(x, sizeof x, "%s", save("a.safetensors", a, 2));
    run r = DIFF(0, x, save("b.safetensors", b, 2));
    says(r.out, "bell\\x07");
    says(r.out, "\\u{202e}evil \\x0a");
    for (const char *s = r.out; *s; s++)
        assert_true((unsigned char)*s >= 0x20 || *s == '\n');
    run_free(&r);
    r = DIFF(0, x, files_path("b.safetensors"), "--json");
    json_t *v = json_loads(r.out, 0, NULL);
    json_t *t = json_array_get(json_object_get(v, "tensors"), 0);
    assert_int_equal(json_array_size(json_object_get(v, "tensors")), 3);
    assert_string_equal(json_string_value(json_object_get(t, "name")), "<b>&\"");
    assert_string_equal(json_string_value(json_object_get(t, "class")), "extra");
    json_decref(v);
    run_free(&r);
}

static void configs_are_compared_key_by_key(void **state) {
    (void)state;
    const item w[] = {{"w", "F32", "[1]", 1, {1}}};
    char a[600];
    files_mkdir(files_path("ca"));
    files_mkdir(files_path("cb"));
    save("ca/model.safetensors", w, 1);
    save("cb/model.safetensors", w, 1);
    files_text(files_path("ca/config.json"),
               "{\"model_type\": \"x\", \"rope_theta\": 10000, \"gone\": true, \"none\": null, "
               "\"inner\": {\"eps\": 1e-5, \"list\": [1, 2]}, \"transformers_version\": \"4\", "
               "\"hi\\u0007\": 1}");
    files_text(
        files_path("cb/config.json"),
        "{\"rope_theta\": 1e4, \"inner\": {\"list\": [1, 2, 3], \"eps\": 1e-6}, \"model_type\": "
        "\"x\", \"new\": \"y\", \"transformers_version\": \"5\", \"hi\\u0007\": 2}");
    snprintf(a, sizeof a, "%s", files_path("ca"));
    run r = DIFF(4, a, files_path("cb"), "--strict", "--json");
    json_t *v = json_loads(r.out, 0, NULL), *list = json_object_get(v, "config");
    static const char *const keys[] = {"gone", "hi\a", "inner.eps", "inner.list", "new"};
    assert_int_equal(json_array_size(list), 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(json_string_value(json_object_get(json_array_get(list, i), "key")),
                            keys[i]);
    assert_true(json_is_null(json_object_get(json_array_get(list, 0), "b")));
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 4), "b")), "\"y\"");
    json_decref(v);
    run_free(&r);
    r = DIFF(0, a, files_path("cb"), "--strict", "--exclude", "config:*");
    says(r.out, "no tensor differs");
    run_free(&r);
    r = DIFF(0, a, files_path("cb"));
    says(r.out, "inner.eps");
    says(r.out, "1e-05 -> 1e-06");
    says(r.out, "hi\\x07");
    run_free(&r);
    files_text(files_path("cb/config.json"), "{\"a\": ");
    r = DIFF(1, a, files_path("cb"));
    run_free(&r);
}

static void layers_are_folded(void **state) {
    (void)state;
    item a[12], b[12];
    char name[12][40];
    for (int i = 0; i < 12; i++) {
        snprintf(name[i], sizeof name[i], "layers.%d.w", i);
        a[i] = b[i] = (item){name[i], "F32", "[2]", 2, {3, 4}};
        b[i].v[0] = i == 7 ? 3 : 3 + 0.1 * i;
    }
    char x[600];
    snprintf(x, sizeof x, "%s", save("a.safetensors", a, 12));
    const char *y = save("b.safetensors", b, 12);
    run r = DIFF(0, x, y);
    says(r.out, "layers.#.w [10] 1-6,8-11 ");
    says(r.out, " 1.1 in 11 at [0]: 3 -> 4.1");
    run_free(&r);
    r = DIFF(0, x, y, "--full");
    says(r.out, "layers.7.w");
    says(r.out, "layers.10.w ");
    run_free(&r);
    const diff_options all = {0};
    pair_of p = compare_with(x, y, &all);
    diff_groups g;
    err e = {0};
    assert_true(diff_fold(&p.d, false, &g, &e));
    assert_int_equal(g.n, 2);
    const diff_group *f = g.v[0].first->how == DIFF_EQUAL ? &g.v[1] : &g.v[0];
    double dd = 0;
    for (int i = 0; i < 12; i++)
        dd += i == 7 ? 0 : ((float)(3 + 0.1 * i) - 3.0) * ((float)(3 + 0.1 * i) - 3.0);
    near(f->l2, sqrt(dd), 1e-12);
    near(f->norm_a, sqrt(250), 1e-12);
    assert_int_equal(f->most_number, 11);
    diff_groups_free(&g);
    end(&p);
}

// B113: the original with a head of its own and the copy that lost it read alike.
static void B113_a_lost_head_changes_no_loss(void **state) {
    (void)state;
    tiny_model *t = tiny_new(
        (tiny_spec){.family = "gated_deltanet", .conv = 4, .n_vocab = 30, .seed = 9, .tied = true});
    char copy[600], ids_file[600], out[600];
    int64_t dims[] = {TOKENS};
    err e = {0};
    snprintf(copy, sizeof copy, "%s", tiny_save(t, "copy"));
    tiny_tensor *embed = tiny_get(t, "model.embeddings.weight");
    const int64_t shape[] = {embed->dims[0], embed->dims[1]};
    double *v = embed->v;
    tiny_tensor *head = tiny_add(t, "lm_head.weight", 2, shape);
    memcpy(head->v, v, (size_t)head->n * sizeof *v);
    const char *original = tiny_save(t, "original");
    snprintf(ids_file, sizeof ids_file, "%s", files_path("ids.npy"));
    snprintf(out, sizeof out, "%s", files_path("out"));
    assert_true(npy_write(ids_file, NPY_I4, 1, dims, ids, &e));
    run r = DIFF(0, original, copy, ids_file, "--precision", "f64", "--out", out);
    says(r.out, "lm_head.weight");
    says(r.out, "same weights, stored once in B, as model.embeddings.weight");
    says(r.out, "0.0000");
    run_free(&r);
    json_t *j = json_load_file(files_path("out/diff.json"), 0, NULL);
    json_t *all = json_object_get(j, "behaviour");
    json_t *s = json_array_get(json_object_get(all, "stretches"), 0);
    assert_true(json_number_value(json_object_get(s, "kl")) == 0);
    assert_true(json_number_value(json_object_get(s, "change")) == 0);
    assert_int_equal(json_integer_value(json_object_get(j, "stored_once")), 1);
    json_decref(j);
    assert_int_equal(access(files_path("out/kl.npy"), R_OK), 0);
    assert_int_equal(access(files_path("out/diff.png"), R_OK), 0);
    tiny_free(t);
}

static void models_that_read_other_tokens_are_refused(void **state) {
    (void)state;
    // The example with its tokenizer, and the same with two words of the vocabulary swapped.
    char folder[600], command[2000];
    snprintf(folder, sizeof folder, "%s", files_path("other"));
    snprintf(
        command, sizeof command,
        "mkdir -p '%s' && cp examples/small-deltanet/*.json examples/small-deltanet/*.safetensors "
        "'%s' && sed -i 's/\"e\": 71,/\"e\": 72,/;s/\"f\": 72,/\"f\": 71,/' '%s/tokenizer.json'",
        folder, folder, folder);
    assert_int_equal(system(command), 0);
    run r = DIFF(1, "examples/small-deltanet", folder, "examples/text_kjv.txt", "--length", "64");
    says(r.err, "the tokenizers of A and B cut examples/text_kjv.txt into other ids from token");
    run_free(&r);
}

// The losses are those of `deltop loss`.
static void losses_are_those_of_loss(void **state) {
    (void)state;
    run r = DIFF(0, "examples/small-deltanet", "examples/small-deltaproduct2",
                 "examples/text_kjv.txt", "--length", "300", "--rows", "2", "--json");
    json_t *v = json_loads(r.out, 0, NULL);
    run_free(&r);
    const char *argv[] = {"loss",
                          "examples/small-deltaproduct2",
                          "examples/text_kjv.txt",
                          "--length",
                          "300",
                          "--rows",
                          "2",
                          "--json",
                          NULL};
    run q = {.argv = argv, .timeout = 60};
    assert_true(run_program(&q));
    json_t *w = json_loads(q.out, 0, NULL);
    run_free(&q);
    json_t *b = json_object_get(v, "behaviour"), *list = json_object_get(b, "stretches");
    json_t *all = json_array_get(list, json_array_size(list) - 1);
    double got = json_number_value(json_array_get(json_object_get(all, "loss"), 1));
    double want = json_number_value(
        json_object_get(json_array_get(json_object_get(w, "results"), 0), "mean"));
    printf("    measured: mean loss %.9g, of loss %.9g\n", got, want);
    near(got, want, 1e-6); // float32, other blocks
    json_decref(v);
    json_decref(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_fall_into_five_classes),
        cmocka_unit_test(B118_new_types_and_shapes_are_said),
        cmocka_unit_test(numbers_that_are_none_are_counted_and_left_out),
        cmocka_unit_test(large_tensors_are_compared_in_pieces),
        cmocka_unit_test(globs_choose_tensors),
        cmocka_unit_test(B118_files_and_their_order_do_not_matter),
        cmocka_unit_test(B113_twins_are_named),
        cmocka_unit_test(files_that_are_cut_are_errors),
        cmocka_unit_test(failing_allocations_are_errors),
        cmocka_unit_test(B114_rounded_decays_are_told_as_half_lives),
        cmocka_unit_test(divergences_are_sums_over_the_vocabulary),
        cmocka_unit_test(a_model_does_not_differ_from_itself),
        cmocka_unit_test(other_vocabularies_have_no_divergence),
        cmocka_unit_test(B118_strict_alone_fails),
        cmocka_unit_test(names_that_cannot_be_printed_are_escaped),
        cmocka_unit_test(configs_are_compared_key_by_key),
        cmocka_unit_test(layers_are_folded),
        cmocka_unit_test(B113_a_lost_head_changes_no_loss),
        cmocka_unit_test(models_that_read_other_tokens_are_refused),
        cmocka_unit_test(losses_are_those_of_loss),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
