// Two models on the same tokens: divergences against plain sums over their logits, losses against those of
// `deltop loss`, a head that was lost (B113), and `deltop diff` with a document.
#include "analyses/contrast.h"
#include "core/npy.h"
#include "kernels/cpu/cpu.h"
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

static void near(double got, double want, double allowed) {
    if (!(fabs(got - want) <= allowed))
        fail_msg("%.17g, not %.17g", got, want);
}

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

#define DIFF(code, ...) run_command(code, 60, "diff", (const char *const[]){__VA_ARGS__, NULL})

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
    run_holds(r.out, "lm_head.weight");
    run_holds(r.out, "same weights, stored once in B, as model.embeddings.weight");
    run_holds(r.out, "0.0000");
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
    run_holds(r.err,
              "the tokenizers of A and B cut examples/text_kjv.txt into other ids from token");
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
        cmocka_unit_test(divergences_are_sums_over_the_vocabulary),
        cmocka_unit_test(a_model_does_not_differ_from_itself),
        cmocka_unit_test(other_vocabularies_have_no_divergence),
        cmocka_unit_test(B113_a_lost_head_changes_no_loss),
        cmocka_unit_test(models_that_read_other_tokens_are_refused),
        cmocka_unit_test(losses_are_those_of_loss),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
