// Names, layouts, element types and configs of the delta families: what loads, with which loss, and
// what is refused with which words. Losses are those of tests/naive_model.c.
#include "core/families/family.h"
#include "core/forward.h"
#include "core/mem.h"
#include "kernels/cpu/cpu.h"
#include "tests/files.h"
#include "tests/hf_check.h"
#include "tests/tiny_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { T = 40 };
static const int32_t ids[T] = {1, 5, 2, 7, 7, 3, 9, 22, 0, 4, 4, 4, 11, 12, 1, 5, 2, 7, 8, 6,
                               1, 5, 2, 7, 7, 3, 9, 21, 0, 4, 4, 4, 11, 12, 1, 5, 2, 7, 8, 6};

static bool on_loss(void *ctx, int64_t t0, int64_t n, const double *loss, const int32_t *best,
                    err *e) {
    (void)best, (void)e;
    memcpy((double *)ctx + t0, loss, (size_t)n * sizeof *loss);
    return true;
}

static bool run(const model *m, double *loss, err *e) {
    probe p = {.ctx = loss, .on_loss = on_loss};
    const probe *probes[] = {&p};
    fwd *f = fwd_new(m, 16, T, e);
    bool ok = f && fwd_row(f, ids, T, NULL, probes, 1, NULL, NULL, e);
    fwd_free(f);
    return ok;
}

// Opens and reads; the model must leave no tensor unread. notes: how many remarks it makes.
static void losses(const tiny_model *t, precision p, int notes, double *loss) {
    err e = {0};
    backend *be = cpu_open(p, 1, &e);
    model *m = model_open(tiny_save(t, "model"), be, &e);
    if (!m)
        fail_msg("%s", e.text);
    for (size_t i = 0; i < m->leftover.n; i++)
        fail_msg("%s was not read", m->leftover.v[i]);
    for (size_t i = 0; notes >= 0 && (int)m->notes.n != notes && i <= m->notes.n; i++)
        fail_msg("%zu notes, want %d: %s", m->notes.n, notes, m->notes.n ? m->notes.v[0] : "-");
    if (!run(m, loss, &e))
        fail_msg("%s", e.text);
    model_free(m);
    backend_close(be);
}

// The loss of plain loops, which know today's layout only: asked before a test renames anything.
static void wanted(const tiny_model *t, double *loss) {
    naive r = naive_run(t, ids, T);
    memcpy(loss, r.loss, (T - 1) * sizeof *loss);
    naive_free(&r);
}

static void same_loss(const tiny_model *t, const double *want, int notes) {
    double got[T];
    losses(t, PRECISION_F64, notes, got);
    assert_true(hf_away(want, got, T - 1) <= 1e-11);
}

// NAME's rows cut into n tensors FMT(0) ..., of equal size; NAME goes.
static void cut(tiny_model *t, const char *name, int n, const char *stem, const char *tail) {
    tiny_tensor from = *tiny_get(t, "%s", name);
    int64_t dims[4] = {from.dims[0] / n, from.dims[1], from.dims[2]}, size = from.n / n;
    for (int i = 0; i < n; i++) {
        tiny_tensor *to = tiny_add(t, hf_name("%s.%d%s", stem, i, tail), from.rank, dims);
        memcpy(to->v, tiny_get(t, "%s", name)->v + i * size, (size_t)size * sizeof *to->v);
    }
    tiny_drop(t, name);
}

static tiny_model *deltaproduct3(void) {
    tiny_spec s = {.family = "gated_deltaproduct",
                   .n_h = 3,
                   .conv = 4,
                   .neg = true,
                   .gate = true,
                   .forget = true,
                   .V = 5,
                   .seed = 30};
    return tiny_new(s);
}

// B17: the pre-norms were attn.norm and mlp.norm, with a key norm_first of either value.
static void older_names_of_the_pre_norms_load(void **state) {
    (void)state;
    // The second model has one head as wide as the model, so that attn.norm could also be the
    // output norm by its length.
    const tiny_spec specs[] = {
        {.family = "delta_net", .conv = 4, .V = 4, .seed = 1},
        {.family = "delta_net", .conv = 4, .H = 1, .K = 6, .V = 12, .seed = 2}};
    for (int z = 0; z < 2; z++)
        for (int first = 0; first < 2; first++) {
            double want[T];
            tiny_model *t = tiny_new(specs[z]);
            wanted(t, want);
            for (int L = 0; L < 2; L++) {
                tiny_rename(t, hf_name("model.layers.%d.attn_norm.weight", L),
                            hf_name("model.layers.%d.attn.norm.weight", L));
                tiny_rename(t, hf_name("model.layers.%d.mlp_norm.weight", L),
                            hf_name("model.layers.%d.mlp.norm.weight", L));
            }
            tiny_set(t, "norm_first", json_boolean(first));
            same_loss(t, want, -1);
            tiny_free(t);
        }
}

// C2, before 2024-06: attn.norm was the output norm.
static void the_oldest_name_of_the_output_norm_loads(void **state) {
    (void)state;
    double want[T];
    tiny_model *t = tiny_new((tiny_spec){.family = "delta_net", .conv = 4, .V = 4, .seed = 3});
    wanted(t, want);
    for (int L = 0; L < 2; L++)
        tiny_rename(t, hf_name("model.layers.%d.attn.o_norm.weight", L),
                    hf_name("model.layers.%d.attn.norm.weight", L));
    same_loss(t, want, 1);
    tiny_free(t);
}

// B18: gate rows, then up rows in one gate_proj.
static void a_fused_gate_of_the_mlp_loads(void **state) {
    (void)state;
    double want[T];
    tiny_model *t = tiny_new((tiny_spec){.family = "gated_deltanet", .conv = 4, .seed = 4});
    wanted(t, want);
    for (int L = 0; L < 2; L++) {
        tiny_tensor g = *tiny_get(t, "model.layers.%d.mlp.gate_proj.weight", L);
        const int64_t dims[] = {2 * g.dims[0], g.dims[1]};
        double *rows = malloc((size_t)(2 * g.n) * sizeof *rows);
        memcpy(rows, g.v, (size_t)g.n * sizeof *rows);
        memcpy(rows + g.n, tiny_get(t, "model.layers.%d.mlp.up_proj.weight", L)->v,
               (size_t)g.n * sizeof *rows);
        tiny_drop(t, hf_name("model.layers.%d.mlp.gate_proj.weight", L));
        tiny_drop(t, hf_name("model.layers.%d.mlp.up_proj.weight", L));
        tiny_tensor *f = tiny_add(t, hf_name("model.layers.%d.mlp.gate_proj.weight", L), 2, dims);
        memcpy(f->v, rows, (size_t)f->n * sizeof *rows);
        free(rows);
    }
    same_loss(t, want, 1);
    tiny_free(t);
}

// B19: fused; lists; fused projections with lists of convolutions. Rows are step-major.
static void three_layouts_of_deltaproduct_load(void **state) {
    (void)state;
    static const char *const parts[] = {"k_proj", "v_proj", "b_proj", "k_conv1d", "v_conv1d"};
    for (int layout = 0; layout < 3; layout++) {
        double want[T];
        tiny_model *t = deltaproduct3();
        wanted(t, want);
        for (int L = 0; L < 2 && layout > 0; L++) {
            for (int i = layout == 1 ? 0 : 3; i < 5; i++)
                cut(t, hf_name("model.layers.%d.attn.%s.weight", L, parts[i]), 3,
                    hf_name("model.layers.%d.attn.%ss", L, parts[i]), ".weight");
            tiny_rename(t, hf_name("model.layers.%d.attn.q_conv1d.weight", L),
                        hf_name("model.layers.%d.attn.q_conv1ds.0.weight", L));
            // The other two hold other numbers and are dead.
            for (int j = 1; j < 3; j++) {
                const tiny_tensor live = *tiny_get(t, "model.layers.%d.attn.q_conv1ds.0.weight", L);
                tiny_tensor *dead = tiny_add(
                    t, hf_name("model.layers.%d.attn.q_conv1ds.%d.weight", L, j), 3, live.dims);
                for (int64_t i = 0; i < dead->n; i++)
                    dead->v[i] = 7 + j;
            }
        }
        same_loss(t, want, -1);
        tiny_free(t);
    }
}

static void a_hole_in_a_list_is_an_error(void **state) {
    (void)state;
    tiny_model *t = deltaproduct3();
    cut(t, "model.layers.1.attn.v_proj.weight", 3, "model.layers.1.attn.v_projs", ".weight");
    tiny_drop(t, "model.layers.1.attn.v_projs.2.weight");
    REFUSED(t, ERR_MISSING, "gated_deltaproduct", "layer 1",
            "model.layers.1.attn.v_projs.2.weight");
    tiny_free(t);
}

// B21: use_gate is the old name of use_output_gate; what it says must be what the file holds.
static void the_old_name_of_the_output_gate_counts(void **state) {
    (void)state;
    double want[T];
    tiny_spec s = {.family = "gated_deltaproduct", .n_h = 2, .conv = 4, .seed = 5};
    tiny_model *t = tiny_new(s);
    wanted(t, want);
    tiny_set(t, "use_output_gate", NULL);
    tiny_set(t, "use_forget_gate", NULL);
    tiny_set(t, "use_gate", json_false());
    same_loss(t, want, 0);
    tiny_set(t, "use_gate", json_true());
    REFUSED(t, ERR_MISSING, "use_gate", "model.layers.0.attn.g_proj.weight");
    tiny_free(t);

    s.gate = true;
    t = tiny_new(s);
    wanted(t, want);
    tiny_set(t, "use_output_gate", NULL);
    same_loss(t, want, 0); // silent config: the tensor decides
    tiny_set(t, "use_gate", json_true());
    same_loss(t, want, 0);
    tiny_set(t, "use_gate", json_false());
    REFUSED(t, ERR_INPUT, "use_gate", "false", "model.layers.0.attn.g_proj.weight");
    tiny_free(t);
}

// B22: beta reaches beyond 1 with the flag, and only then.
static bool largest_beta(void *ctx, int layer, int64_t t0, const steps *s, mat S, backend *be,
                         err *e) {
    (void)layer, (void)t0, (void)S, (void)e;
    double *b = malloc((size_t)(s->beta.rows * s->beta.cols) * sizeof *b);
    be->op->read(be, s->beta, b);
    for (int64_t i = 0; i < s->beta.rows * s->beta.cols; i++)
        *(double *)ctx = fmax(*(double *)ctx, b[i]);
    free(b);
    return true;
}

static void allow_neg_eigval_doubles_beta(void **state) {
    (void)state;
    for (int neg = 0; neg < 2; neg++)
        for (int learned = 0; learned < 2; learned++) {
            double want[T], top = 0;
            tiny_spec s = {.family = "delta_net", .conv = 4, .neg = neg, .seed = 6};
            tiny_model *t = tiny_new(s);
            if (!learned) { // use_beta false: 1, or 2 with the flag
                tiny_set(t, "use_beta", json_false());
                for (int L = 0; L < 2; L++)
                    tiny_drop(t, hf_name("model.layers.%d.attn.b_proj.weight", L));
            }
            wanted(t, want);
            same_loss(t, want, 0);
            err e = {0};
            backend *be = cpu_open(PRECISION_F64, 1, &e);
            model *m = model_open(tiny_save(t, "model"), be, &e);
            assert_non_null(m);
            double expect = neg ? 2 : learned ? 1 : 0;
            assert_true(model_mixer(m, 0)->heads.beta_max == expect);
            if (expect > 0) {
                probe p = {.ctx = &top, .on_steps = largest_beta};
                const probe *probes[] = {&p};
                fwd *f = fwd_new(m, 16, T, &e);
                assert_true(fwd_row(f, ids, T, NULL, probes, 1, NULL, NULL, &e));
                fwd_free(f);
                assert_true(neg ? top > 1 && top <= 2 : top < 1);
            }
            model_free(m);
            backend_close(be);
            tiny_free(t);
        }
}

// B23, B24: sizes that clash, are null or missing.
static void a_wrong_hidden_size_names_both_numbers(void **state) {
    (void)state;
    tiny_model *t = tiny_new((tiny_spec){.family = "gated_deltanet", .conv = 4, .seed = 7});
    tiny_set(t, "hidden_size", json_integer(4096));
    REFUSED(t, ERR_INPUT, "model.embeddings.weight", "[23, 12]", "4096");
    tiny_set(t, "hidden_size", json_null());
    REFUSED(t, ERR_MISSING, "config.json", "hidden_size is null");
    tiny_set(t, "hidden_size", NULL);
    REFUSED(t, ERR_MISSING, "config.json", "hidden_size is absent");
    tiny_set(t, "hidden_size", json_integer(0));
    REFUSED(t, ERR_INPUT, "hidden_size is 0");
    tiny_set(t, "hidden_size", json_integer(12));
    tiny_set(t, "head_dim", json_integer(7));
    REFUSED(t, ERR_INPUT, "layer 0", "attn.q_proj.weight", "[12, 12]", "[14, 12]");
    tiny_set(t, "head_dim", json_integer(6));
    tiny_set(t, "intermediate_size", json_integer(17));
    REFUSED(t, ERR_INPUT, "16 columns", "intermediate_size 17");
    tiny_set(t, "intermediate_size", json_integer(16));
    tiny_set(t, "num_v_heads", json_integer(3));
    REFUSED(t, ERR_INPUT, "num_v_heads 3", "num_heads 2");
    tiny_set(t, "num_v_heads", json_null());
    double loss[T];
    losses(t, PRECISION_F32, 0, loss); // null: as many as num_heads
    tiny_free(t);
}

// Keys that are absent have the values of FLA's config classes.
// What is multiplied into a size must give one, on every machine.
static void ratios_that_give_no_size_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *key;
        double value;
        const char *word;
    } bad[] = {{"hidden_ratio", -4, "hidden_ratio -4"}, {"hidden_ratio", 0, "hidden_ratio 0"},
               {"hidden_ratio", 1e300, "hidden_ratio"}, {"expand_k", 1e300, "num_heads 2"},
               {"expand_v", -1, "num_heads 2"},         {"expand_k", 0, "num_heads 2"},
               {"norm_eps", -1e-6, "norm_eps -1e-06"},  {"norm_eps", 1, "norm_eps 1"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tiny_model *t = tiny_new((tiny_spec){.family = "delta_net", .conv = 4, .seed = 31});
        tiny_set(t, "intermediate_size", NULL);
        tiny_set(t, bad[i].key, json_real(bad[i].value));
        REFUSED(t, ERR_INPUT, bad[i].word, "config.json");
        tiny_free(t);
    }
}

static void absent_keys_have_the_defaults_of_the_config_classes(void **state) {
    (void)state;
    double want[T];
    tiny_spec s = {.family = "delta_net", .conv = 4, .D = 16, .H = 16, .K = 1, .V = 1, .seed = 22};
    tiny_model *t = tiny_new(s);
    wanted(t, want);
    static const char *const gone[] = {"num_heads",        "expand_k",  "expand_v",
                                       "use_gate",         "conv_size", "use_short_conv",
                                       "allow_neg_eigval", "norm_eps",  "tie_word_embeddings"};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        tiny_set(t, gone[i], NULL);
    same_loss(t, want, 0);
    tiny_free(t);
    s = (tiny_spec){.family = "kda", .conv = 4, .H = 16, .K = 128, .V = 128, .L = 1, .seed = 23};
    t = tiny_new(s);
    wanted(t, want);
    static const char *const kda[] = {"num_heads", "num_v_heads", "head_dim", "expand_v"};
    for (size_t i = 0; i < sizeof kda / sizeof *kda; i++)
        tiny_set(t, kda[i], NULL);
    same_loss(t, want, 0);
    tiny_free(t);
}

// B27: rank 3 with a middle of 1, or rank 2; nothing else.
static void convolutions_of_rank_two_and_three_are_the_same(void **state) {
    (void)state;
    double want[T];
    tiny_model *t = tiny_new((tiny_spec){.family = "gated_deltanet", .conv = 4, .seed = 8});
    wanted(t, want);
    same_loss(t, want, 0);
    tiny_tensor *w = tiny_get(t, "model.layers.1.attn.k_conv1d.weight");
    w->rank = 2;
    w->dims[1] = 4;
    same_loss(t, want, 0);
    w->rank = 3;
    w->dims[2] = 1;
    REFUSED(t, ERR_INPUT, "layer 1", "k_conv1d", "[12, 4, 1]");
    w->rank = 1;
    w->dims[0] = 48;
    REFUSED(t, ERR_INPUT, "layer 1", "k_conv1d", "[48]");
    tiny_free(t);
}

// B33, B108: a missing gate is an error that says family, why, tensor, layer and the nearest name.
static void a_missing_gate_is_never_a_default(void **state) {
    (void)state;
    static const char *const all[] = {"gated_deltanet", "gated_deltaproduct", "kda", "comba"};
    for (int i = 0; i < 4; i++)
        for (int which = 0; which < 2; which++) {
            const char *part = which ? "dt_bias" : "A_log";
            tiny_spec s = {.family = all[i], .conv = 4, .forget = true, .seed = 9};
            tiny_model *t = tiny_new(s);
            const char *gone = hf_name("model.layers.1.attn.%s", part);
            tiny_drop(t, gone);
            const char *nearest = hf_name("the closest name is model.layers.0.attn.%s", part);
            REFUSED(t, ERR_MISSING, all[i], "layer 1", gone, nearest, "model_type is");
            tiny_free(t);
        }
}

// B34: with lower_bound another gate than without; both as the loops say. B35: no A_log then.
static void the_gate_of_kda_follows_lower_bound(void **state) {
    (void)state;
    double plain[T], bounded[T], none[T];
    tiny_spec s = {.family = "kda", .conv = 4, .seed = 10};
    tiny_model *t = tiny_new(s);
    wanted(t, plain);
    same_loss(t, plain, 0);
    tiny_free(t);
    s.lower_bound = -5;
    t = tiny_new(s);
    wanted(t, bounded);
    same_loss(t, bounded, 0);
    assert_true(hf_away(plain, bounded, T - 1) > 1e-3);
    for (int L = 0; L < 2; L++)
        tiny_drop(t, hf_name("model.layers.%d.attn.A_log", L));
    wanted(t, none);
    same_loss(t, none, 0);
    assert_true(hf_away(none, bounded, T - 1) > 1e-6);
    tiny_set(t, "lower_bound", json_real(0.5));
    REFUSED(t, ERR_INPUT, "lower_bound 0.5 is not below zero");
    tiny_free(t);
}

// B11, B113: tie flag and lm_head, four cases and a contradiction.
static void the_head_is_what_flag_and_file_agree_on(void **state) {
    (void)state;
    double want[T], tied[T], got[T];
    tiny_spec s = {.family = "delta_net", .conv = 4, .tied = true, .seed = 11};
    tiny_model *t = tiny_new(s);
    wanted(t, tied);
    same_loss(t, tied, 0); // true, absent
    const tiny_tensor E = *tiny_get(t, "model.embeddings.weight");
    tiny_tensor *head = tiny_add(t, "lm_head.weight", 2, E.dims);
    memcpy(head->v, E.v, (size_t)E.n * sizeof *E.v);
    losses(t, PRECISION_F64, 1, got); // true, a second copy: the same loss, and a remark
    assert_true(hf_away(tied, got, T - 1) <= 1e-11);
    head->v[5] = (float)(head->v[5] + 1);
    REFUSED(t, ERR_INPUT, "tie_word_embeddings true", "lm_head.weight differs");
    tiny_set(t, "tie_word_embeddings", json_false());
    wanted(t, want);
    same_loss(t, want, 0); // false, present
    assert_true(hf_away(want, tied, T - 1) > 1e-6);
    tiny_drop(t, "lm_head.weight");
    REFUSED(t, ERR_MISSING, "lm_head.weight", "delta_net"); // false, absent
    tiny_free(t);
}

// B15: NaN and Inf are counted and named; no loss is printed.
// B8: without a backend the two copies of a tied embedding are the only data that is looked at.
static void a_file_that_shrinks_under_the_comparison_of_heads_is_an_error(void **state) {
    (void)state;
    tiny_spec s = {.family = "delta_net", .conv = 4, .tied = true, .seed = 11, .n_vocab = 4096};
    tiny_model *t = tiny_new(s);
    const tiny_tensor E = *tiny_get(t, "model.embeddings.weight");
    tiny_tensor *head = tiny_add(t, "lm_head.weight", 2, E.dims);
    memcpy(head->v, E.v, (size_t)E.n * sizeof *E.v);
    const char *folder = tiny_save(t, "model");
    char file[1200];
    snprintf(file, sizeof file, "%s/model.safetensors", folder);
    err e = {0};
    ckpt *c = ckpt_open(folder, &e);
    config *cfg = config_open(folder, &e);
    assert_true(c && cfg);
    model *m = model_load(c, cfg, NULL, &e);
    if (!m)
        fail_msg("%s", e.text);
    model_free(m);
    assert_int_equal(truncate(file, 4096), 0);
    assert_null(model_load(c, cfg, NULL, &e));
    files_assert_error_holds(&e, ERR_IO, "model.safetensors: file changed while it was in use");
    config_close(cfg);
    ckpt_close(c);
    tiny_free(t);
}

static void bad_numbers_in_a_tensor_are_named_and_counted(void **state) {
    (void)state;
    static const char *const types[] = {"F32", "BF16", "F64"};
    for (int i = 0; i < 3; i++) {
        tiny_model *t = tiny_new((tiny_spec){.family = "gated_deltanet", .conv = 4, .seed = 12});
        tiny_dtype(t, types[i]);
        tiny_tensor *b = tiny_get(t, "model.layers.1.attn.b_proj.weight");
        b->v[3] = NAN;
        REFUSED(t, ERR_NUMERIC, "layer 1", "model.layers.1.attn.b_proj.weight",
                "1 NaN and 0 Inf among 24 values");
        b->v[4] = INFINITY;
        b->v[5] = -INFINITY;
        REFUSED(t, ERR_NUMERIC, "1 NaN and 2 Inf among 24 values");
        tiny_free(t);
    }
}

// B57, B55, B16: element types. A half read as the other half's bits would be nats away.
static void element_types_give_the_loss_of_their_rounding(void **state) {
    (void)state;
    double want[T], got[T];
    tiny_model *t = tiny_new((tiny_spec){.family = "gated_deltanet", .conv = 4, .seed = 13});
    wanted(t, want);
    tiny_dtype(t, "F64");
    same_loss(t, want, 0);
    static const char *const halves[] = {"F16", "BF16"};
    // 11 and 8 bits of mantissa; a loss is some ten roundings of that, times logits of size 3.
    static const double bounds[] = {0.03, 0.25};
    for (int i = 0; i < 2; i++) {
        tiny_dtype(t, halves[i]);
        losses(t, PRECISION_F64, 0, got);
        double d = hf_away(want, got, T - 1);
        print_message("measured %s file against F32 file: %.1e nats at most\n", halves[i], d);
        assert_true(d > 1e-6 && d < bounds[i]);
    }
    tiny_free(t);
}

static void narrow_and_whole_numbers_are_refused_by_name(void **state) {
    (void)state;
    static const char *const types[] = {"F8_E4M3", "F8_E5M2", "I16", "U16"};
    for (int i = 0; i < 4; i++) {
        tiny_model *t = tiny_new((tiny_spec){.family = "delta_net", .conv = 4, .seed = 14});
        tiny_get(t, "model.layers.0.attn.k_proj.weight")->dtype = types[i];
        REFUSED(t, ERR_UNSUPPORTED, "model.layers.0.attn.k_proj.weight", types[i]);
        tiny_free(t);
    }
    tiny_model *t = tiny_new((tiny_spec){.family = "delta_net", .conv = 4, .seed = 14});
    tiny_set(t, "quantization_config", json_pack("{s:s}", "quant_method", "fp8"));
    REFUSED(t, ERR_UNSUPPORTED, "quantised");
    tiny_free(t);
}

// B114: A_log and dt_bias in F32 beside BF16 matrices stay as they are.
static void gates_in_float32_are_never_rounded(void **state) {
    (void)state;
    double want[T], got[T], rounded[T];
    tiny_model *t = tiny_new((tiny_spec){.family = "gated_deltanet", .conv = 4, .seed = 15});
    tiny_dtype(t, "BF16");
    for (int i = 0; i < t->n; i++) {
        tiny_tensor *x = &t->t[i];
        bool gate = strstr(x->name, "A_log") || strstr(x->name, "dt_bias");
        for (int64_t j = 0; j < x->n && !gate; j++) // a number that BF16 holds: 8 bits
            x->v[j] = (double)(int)(x->v[j] * 64) / 64;
        if (gate)
            x->dtype = "F32";
    }
    wanted(t, want); // the loops see the unrounded gates
    losses(t, PRECISION_F64, 0, got);
    assert_true(hf_away(want, got, T - 1) <= 1e-11);
    tiny_dtype(t, "BF16");
    losses(t, PRECISION_F64, 0, rounded);
    print_message("measured A_log and dt_bias rounded to BF16: %.1e nats\n",
                  hf_away(want, rounded, T - 1));
    assert_true(hf_away(want, rounded, T - 1) > 1e-6);
    tiny_free(t);
}

static void an_unknown_family_names_the_closest(void **state) {
    (void)state;
    tiny_model *t = tiny_new((tiny_spec){.family = "delta_net", .conv = 4, .seed = 16});
    tiny_set(t, "model_type", json_string("gated_deltanett"));
    REFUSED(t, ERR_UNSUPPORTED, "model_type \"gated_deltanett\"",
            "the closest known name is gated_deltanet");
    tiny_set(t, "model_type", NULL);
    REFUSED(t, ERR_INPUT, "no model_type");
    tiny_set(t, "model_type", json_integer(3));
    REFUSED(t, ERR_INPUT, "model_type");
    tiny_free(t);
    const char *nearest = NULL;
    assert_null(family_find("deltanet", &nearest));
    assert_string_equal(nearest, "delta_net");
    assert_non_null(family_find("gated_delta_product", NULL)); // two published configs say so
}

// B29: what nobody reads is listed.
static void leftover_tensors_are_listed(void **state) {
    (void)state;
    tiny_model *t = tiny_new((tiny_spec){.family = "delta_net", .conv = 4, .seed = 17});
    const int64_t dims[] = {3, 3};
    tiny_add(t, "model.layers.0.attn.in_proj_qkvz.weight", 2, dims);
    tiny_add(t, "mtp.head.weight", 2, dims);
    err e = {0};
    backend *be = cpu_open(PRECISION_F32, 1, &e);
    model *m = model_open(tiny_save(t, "model"), be, &e);
    assert_non_null(m);
    assert_int_equal(m->leftover.n, 2);
    assert_string_equal(m->leftover.v[0], "model.layers.0.attn.in_proj_qkvz.weight");
    assert_string_equal(m->leftover.v[1], "mtp.head.weight");
    model_free(m);
    backend_close(be);
    tiny_free(t);
}

// Without a backend all that is missing is listed, and nothing is computed.
static void missing_tensors_are_listed_without_a_backend(void **state) {
    (void)state;
    static const char *const all[] = {"delta_net", "gated_deltanet", "gated_deltaproduct", "kda",
                                      "comba"};
    for (int i = 0; i < 5; i++) {
        tiny_spec s = {.family = all[i], .conv = 4, .gate = true, .forget = true, .seed = 18};
        tiny_model *t = tiny_new(s);
        err e = {0};
        model *m = model_open(tiny_save(t, "model"), NULL, &e);
        if (!m)
            fail_msg("%s", e.text);
        assert_int_equal(m->missing.n, 0);
        assert_int_equal(m->leftover.n, 0);
        assert_int_equal(model_state_bytes(m), 2 * 2 * 6 * 6 * 4);
        model_free(m);
        tiny_drop(t, "model.layers.0.attn.q_proj.weight");
        tiny_drop(t, "model.layers.1.mlp.down_proj.weight");
        tiny_drop(t, "model.norm.weight");
        m = model_open(tiny_save(t, "model"), NULL, &e);
        if (!m)
            fail_msg("%s", e.text);
        assert_int_equal(m->missing.n, 3);
        assert_string_equal(m->missing.v[0], "model.norm.weight");
        assert_string_equal(m->missing.v[1], "model.layers.0.attn.q_proj.weight");
        assert_string_equal(m->missing.v[2], "model.layers.1.mlp.down_proj.weight");
        model_free(m);
        // What could not be noted for want of memory is an error, not a shorter list.
        const char *path = tiny_save(t, "model");
        ckpt *c = ckpt_open(path, &e);
        config *cfg = config_open(path, &e);
        for (int n = 1; n < 1000; n++) {
            mem_fail_after(n);
            m = model_load(c, cfg, NULL, &e);
            mem_fail_after(0);
            assert_true((m != NULL) == (e.code == ERR_NONE));
            err_clear(&e);
            if (m)
                break;
        }
        assert_non_null(m);
        assert_int_equal(m->missing.n, 3);
        model_free(m);
        config_close(cfg);
        ckpt_close(c);
        tiny_free(t);
    }
}

// B117: n_h does not enlarge the state; V = 2 K does.
static void state_bytes_count_the_state_alone(void **state) {
    (void)state;
    tiny_spec s = {.family = "gated_deltaproduct", .n_h = 3, .conv = 4, .V = 12, .seed = 19};
    tiny_model *t = tiny_new(s);
    err e = {0};
    model *m = model_open(tiny_save(t, "model"), NULL, &e);
    assert_non_null(m);
    assert_int_equal(model_state_bytes(m), 2 * 2 * 6 * 12 * 4);
    // With the tails of q, k, v: 3 rows of 12, 3 x 12 and 3 x 24 channels.
    assert_int_equal(model_carry_bytes(m, 4), 2 * 4 * (2 * 6 * 12 + 3 * (12 + 36 + 72)));
    model_free(m);
    tiny_free(t);
}

// Norms of q and k in a hybrid's attention have FLA's own eps, which shows at small activations.
static void norms_of_q_and_k_in_a_hybrid(void **state) {
    (void)state;
    double want[T];
    tiny_spec s = {.family = "gated_deltanet",
                   .conv = 4,
                   .D = 16,
                   .heads = 4,
                   .kv = 2,
                   .window = 5,
                   .seed = 20};
    tiny_model *t = tiny_new(s);
    static const char *const parts[] = {"q", "k"};
    for (int i = 0; i < 2; i++) {
        const int64_t dims[] = {4};
        tiny_tensor *n =
            tiny_add(t, hf_name("model.layers.1.attn.%s_norm.weight", parts[i]), 1, dims);
        for (int j = 0; j < 4; j++)
            n->v[j] = 1 + 0.25 * j;
        tiny_tensor *w = tiny_get(t, "model.layers.1.attn.%s_proj.weight", parts[i]);
        tiny_tensor *b = tiny_get(t, "model.layers.1.attn.%s_proj.bias", parts[i]);
        for (int64_t j = 0; j < w->n; j++)
            w->v[j] = (float)(w->v[j] * 1e-2);
        for (int64_t j = 0; j < b->n; j++)
            b->v[j] = 0;
    }
    json_object_set_new(json_object_get(t->config, "attn"), "qk_norm", json_true());
    wanted(t, want);
    same_loss(t, want, 0);
    tiny_free(t);
}

static void contradictions_in_the_attn_key_are_refused(void **state) {
    (void)state;
    tiny_spec s = {.family = "gated_deltanet", .conv = 4, .D = 16, .heads = 4, .kv = 2, .seed = 21};
    tiny_model *t = tiny_new(s);
    json_t *attn = json_object_get(t->config, "attn");
    json_object_set_new(attn, "num_kv_heads", json_integer(3));
    REFUSED(t, ERR_INPUT, "attn.num_heads 4", "3 key/value heads");
    json_object_set_new(attn, "num_kv_heads", json_integer(2));
    json_object_set_new(attn, "rope_theta", json_integer(0));
    REFUSED(t, ERR_INPUT, "attn.rope_theta 0");
    json_object_del(attn, "rope_theta");
    json_object_set_new(attn, "num_heads", json_integer(16));
    json_object_set_new(attn, "num_kv_heads", json_integer(16));
    REFUSED(t, ERR_INPUT, "heads of 1 numbers");
    json_object_set_new(attn, "num_heads", json_integer(4));
    json_object_set_new(attn, "num_kv_heads", json_integer(2));
    json_object_set_new(attn, "layers", json_string("1"));
    REFUSED(t, ERR_INPUT, "layers");
    json_object_set_new(attn, "layers", json_pack("[s]", "1"));
    REFUSED(t, ERR_INPUT, "attn.layers");
    tiny_set(t, "attn", json_array());
    REFUSED(t, ERR_UNSUPPORTED, "attn");
    tiny_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(older_names_of_the_pre_norms_load),
        cmocka_unit_test(the_oldest_name_of_the_output_norm_loads),
        cmocka_unit_test(a_fused_gate_of_the_mlp_loads),
        cmocka_unit_test(three_layouts_of_deltaproduct_load),
        cmocka_unit_test(a_hole_in_a_list_is_an_error),
        cmocka_unit_test(the_old_name_of_the_output_gate_counts),
        cmocka_unit_test(allow_neg_eigval_doubles_beta),
        cmocka_unit_test(a_wrong_hidden_size_names_both_numbers),
        cmocka_unit_test(ratios_that_give_no_size_are_refused),
        cmocka_unit_test(absent_keys_have_the_defaults_of_the_config_classes),
        cmocka_unit_test(convolutions_of_rank_two_and_three_are_the_same),
        cmocka_unit_test(a_missing_gate_is_never_a_default),
        cmocka_unit_test(the_gate_of_kda_follows_lower_bound),
        cmocka_unit_test(the_head_is_what_flag_and_file_agree_on),
        cmocka_unit_test(a_file_that_shrinks_under_the_comparison_of_heads_is_an_error),
        cmocka_unit_test(bad_numbers_in_a_tensor_are_named_and_counted),
        cmocka_unit_test(element_types_give_the_loss_of_their_rounding),
        cmocka_unit_test(narrow_and_whole_numbers_are_refused_by_name),
        cmocka_unit_test(gates_in_float32_are_never_rounded),
        cmocka_unit_test(an_unknown_family_names_the_closest),
        cmocka_unit_test(leftover_tensors_are_listed),
        cmocka_unit_test(missing_tensors_are_listed_without_a_backend),
        cmocka_unit_test(state_bytes_count_the_state_alone),
        cmocka_unit_test(norms_of_q_and_k_in_a_hybrid),
        cmocka_unit_test(contradictions_in_the_attn_key_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
