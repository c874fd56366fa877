// What is different between two checkpoints: classes, numbers, files in any order (B118), weights that
// are stored once (B113), rounded decays (B114), configs, names that nobody can print.
#include "analyses/diff.h"
#include "core/mem.h"
#include "tests/files.h"
#include "tests/run.h"
#include "tests/tiny_model.h"

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

// As users run it ---------------------------------------------------------------------------------

#define DIFF(code, ...) run_command(code, 60, "diff", (const char *const[]){__VA_ARGS__, NULL})

// B118: only --strict makes a difference an exit code.
static void B118_strict_alone_fails(void **state) {
    (void)state;
    const item a[] = {{"w", "F32", "[2]", 2, {1, 2}}}, b[] = {{"w", "BF16", "[2]", 2, {1, 2}}};
    char x[600], y[600];
    snprintf(x, sizeof x, "%s", save("a.safetensors", a, 1));
    snprintf(y, sizeof y, "%s", save("b.safetensors", b, 1));
    run r = DIFF(0, x, x, "--strict");
    run_holds(r.out, "no tensor differs");
    run_free(&r);
    r = DIFF(0, x, y);
    run_holds(r.out, "same values\n      re-typed: F32 [2] -> BF16 [2]");
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
    run_holds(r.out, "bell\\x07");
    run_holds(r.out, "\\u{202e}evil \\x0a");
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
    run_holds(r.out, "no tensor differs");
    run_free(&r);
    r = DIFF(0, a, files_path("cb"));
    run_holds(r.out, "inner.eps");
    run_holds(r.out, "1e-05 -> 1e-06");
    run_holds(r.out, "hi\\x07");
    run_free(&r);
    // A glob that takes nothing is a mistake; one that chooses keys of the configs does take something.
    r = DIFF(1, a, files_path("cb"), "--strict", "--include", "*.w");
    run_holds(r.err, "option --include: fits no tensor's name");
    run_free(&r);
    r = DIFF(0, a, files_path("cb"), "--strict", "--exclude", "*");
    run_free(&r);
    r = DIFF(4, a, files_path("cb"), "--strict", "--exclude", "w");
    run_holds(r.out, "inner.eps");
    assert_null(strstr(r.out, "no tensor differs"));
    run_free(&r);
    r = DIFF(0, a, files_path("cb"), "--strict", "--include", "config:rope_theta");
    run_free(&r);
    files_text(files_path("cb/config.json"), "{\"a\": ");
    r = DIFF(1, a, files_path("cb"));
    run_free(&r);
}

// Finite weights whose product is not: losses, ranks and divergences are told, and what cannot be.
static void a_model_that_overflows_is_compared_without_spectra(void **state) {
    (void)state;
    const char *from = "examples/small-deltanet";
    tiny_model *m = tiny_load(from);
    tiny_get(m, "model.layers.1.attn.v_proj.weight")->v[5] = 3e38f;
    tiny_get(m, "model.layers.1.attn_norm.weight")->v[5] = 1e10f;
    char model[600], tokenizer[600];
    snprintf(model, sizeof model, "%s", tiny_save(m, "overflows"));
    tiny_free(m);
    size_t n = 0;
    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer.json", from);
    char *text = files_read(tokenizer, &n);
    files_write(files_path("overflows/tokenizer.json"), text, n);
    free(text);
    char out[600];
    snprintf(out, sizeof out, "%s", files_path("overflows-out"));
    run r = DIFF(0, from, model, "examples/text_kjv.txt", "--length", "128", "--out", out);
    run_holds(r.out, "  no spectra: overflows: layer ");
    if (strstr(r.out, "-nan") || strstr(r.out, "+nan"))
        fail_msg("a sign of what is no number: %s", r.out);
    run_free(&r);
    json_error_t why;
    json_t *v = json_load_file(files_path("overflows-out/diff.json"), 0, &why);
    const json_t *b = json_object_get(v, "behaviour"), *heads = json_object_get(b, "heads"),
                 *all = json_array_get(json_object_get(b, "stretches"),
                                       json_array_size(json_object_get(b, "stretches")) - 1);
    assert_true(json_is_string(json_object_get(b, "no_spectra")));
    assert_true(json_is_null(json_object_get(b, "no_kl")));
    // A's loss is that of a text it was trained on; B's is no number.
    double loss = json_number_value(json_array_get(json_object_get(all, "loss"), 0));
    assert_true(loss > 1 && loss < 6);
    assert_true(json_is_null(json_array_get(json_object_get(all, "loss"), 1)));
    assert_int_equal(json_array_size(heads), 16);
    // Layer 0 is the same in both.
    const json_t *rank = json_object_get(json_array_get(heads, 0), "erank");
    assert_true(json_number_value(json_array_get(rank, 0)) > 1);
    assert_true(json_equal(json_array_get(rank, 0), json_array_get(rank, 1)));
    json_decref(v);
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
    run_holds(r.out, "layers.#.w [10] 1-6,8-11 ");
    run_holds(r.out, " 1.1 in 11 at [0]: 3 -> 4.1");
    run_free(&r);
    r = DIFF(0, x, y, "--full");
    run_holds(r.out, "layers.7.w");
    run_holds(r.out, "layers.10.w ");
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
        cmocka_unit_test(B118_strict_alone_fails),
        cmocka_unit_test(names_that_cannot_be_printed_are_escaped),
        cmocka_unit_test(configs_are_compared_key_by_key),
        cmocka_unit_test(a_model_that_overflows_is_compared_without_spectra),
        cmocka_unit_test(layers_are_folded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
