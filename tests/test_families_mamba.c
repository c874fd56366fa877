// Mamba-2 and the hybrids with it: layouts, sizes, limits, groups, and what is refused with which
// words. Losses are those of plain loops (tests/tiny_mamba.h); the reference dumps are read in
// tests/test_parity.c.
#include "core/families/family.h"
#include "core/forward.h"
#include "core/mem.h"
#include "kernels/cpu/cpu.h"
#include "tests/files.h"
#include "tests/hf_check.h"
#include "tests/tiny_mamba.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void read_row(const char *folder, precision p, recurrence_form form, int64_t block,
                     double *loss) {
    err e = {0};
    backend *be = cpu_open(p, 1, &e);
    be->recurrence = form;
    model *m = model_open(folder, be, &e);
    if (!m)
        fail_msg("%s", e.text);
    for (size_t i = 0; i < m->leftover.n; i++)
        fail_msg("%s was not read", m->leftover.v[i]);
    probe watch = {.ctx = loss, .on_loss = on_loss};
    const probe *probes[] = {&watch};
    fwd *f = fwd_new(m, block, T, &e);
    if (!f || !fwd_row(f, ids, T, NULL, probes, 1, NULL, NULL, &e))
        fail_msg("%s", e.text);
    fwd_free(f);
    model_free(m);
    backend_close(be);
}

static void losses(const tiny_model *t, double *loss) {
    read_row(tiny_save(t, "model"), PRECISION_F64, RECURRENCE_AUTO, 16, loss);
}

static void same_loss(const tiny_model *t, const double *want) {
    double got[T];
    losses(t, got);
    assert_true(hf_away(want, got, T - 1) <= 1e-11);
}

// Losses ---------------------------------------------------------------------------------------

// B122: with one group the mistake is invisible.
static void b122_the_gated_norm_runs_over_each_group(void **state) {
    (void)state;
    const int groups[] = {1, 2, 8};
    for (int i = 0; i < 3; i++) {
        double want[T], whole[T], modulo[T];
        tiny_mamba_spec s = {.H = 8, .G = groups[i], .seed = 11};
        tiny_model *t = tiny_mamba(s);
        tiny_mamba_run(t, s, ids, T, RIGHT, want);
        tiny_mamba_run(t, s, ids, T, WHOLE_WIDTH_NORM, whole);
        tiny_mamba_run(t, s, ids, T, GROUP_MODULO, modulo);
        same_loss(t, want);
        print_message("measured %d groups: a norm over the whole width is off by %.1e nats, heads "
                      "on group h mod G by %.1e\n",
                      groups[i], hf_away(want, whole, T - 1), hf_away(want, modulo, T - 1));
        assert_true(groups[i] == 1 ? hf_away(want, whole, T - 1) < 1e-12
                                   : hf_away(want, whole, T - 1) > 0.05);
        // With as many groups as heads, div and mod are the same.
        assert_true(groups[i] == 2 ? hf_away(want, modulo, T - 1) > 0.05
                                   : hf_away(want, modulo, T - 1) < 1e-12);
        err e = {0};
        model *m = model_open(tiny_save(t, "model"), NULL, &e);
        assert_non_null(m);
        bool said = false;
        for (size_t k = 0; k < m->notes.n; k++)
            said |= strstr(m->notes.v[k], "the gated norm runs over") != NULL;
        assert_int_equal(said, groups[i] > 1);
        model_free(m);
        tiny_free(t);
    }
}

// B61: several chunks, and limits that bite on both sides.
static void b61_limits_of_the_time_step_hold_across_chunks(void **state) {
    (void)state;
    tiny_mamba_spec s = {.lo = 0.3, .hi = 0.7, .seed = 12};
    double want[T], free_dt[T];
    tiny_model *t = tiny_mamba(s);
    tiny_mamba_run(t, s, ids, T, RIGHT, want);
    tiny_mamba_run(t, s, ids, T, NO_LIMITS, free_dt);
    print_message("measured without limits: %.1e nats off\n", hf_away(want, free_dt, T - 1));
    assert_true(hf_away(want, free_dt, T - 1) > 0.05);
    const char *folder = tiny_save(t, "model");
    const recurrence_form forms[] = {RECURRENCE_STEP, RECURRENCE_CHUNK};
    const int64_t blocks[] = {1, 7, 16, T};
    for (int f = 0; f < 2; f++)
        for (int b = 0; b < 4; b++) {
            double got[T];
            read_row(folder, PRECISION_F64, forms[f], blocks[b], got);
            assert_true(hf_away(want, got, T - 1) <= 1e-11);
            // float32 carries 6e-8 a step; the logits here are of order 5.
            read_row(folder, PRECISION_F32, forms[f], blocks[b], got);
            assert_true(hf_away(want, got, T - 1) <= 1e-4);
        }
    // Hugging Face's word for the same pair, and for eps.
    tiny_set(t, "time_step_limit", json_incref(json_object_get(t->config, "dt_limit")));
    tiny_set(t, "dt_limit", NULL);
    tiny_set(t, "layer_norm_epsilon", json_real(1e-5));
    tiny_set(t, "norm_eps", NULL);
    same_loss(t, want);
    tiny_free(t);
}

static void gate_and_norm_come_in_the_order_that_the_config_says(void **state) {
    (void)state;
    tiny_mamba_spec specs[] = {{.norm_first = true, .seed = 13},
                               {.plain = true, .seed = 14},
                               {.bias = true, .tied = true, .seed = 15}};
    for (int i = 0; i < 3; i++) {
        double want[T];
        tiny_model *t = tiny_mamba(specs[i]);
        tiny_mamba_run(t, specs[i], ids, T, RIGHT, want);
        same_loss(t, want);
        tiny_free(t);
    }
}

static void with_config_text(const char *folder, const char *old, const char *text) {
    size_t n = 0;
    char *all = files_read(files_path("%s/config.json", strrchr(folder, '/') + 1), &n);
    char *at = strstr(all, old);
    assert_non_null(at);
    char *edited = malloc(n + strlen(text) + 1);
    sprintf(edited, "%.*s%s%s", (int)(at - all), all, text, at + strlen(old));
    files_text(files_path("%s/config.json", strrchr(folder, '/') + 1), edited);
    free(edited);
    free(all);
}

// B36: JSON has no infinity; three spellings of it are about.
static void b36_an_infinite_limit_is_read_in_three_spellings(void **state) {
    (void)state;
    static const char *const spelled[] = {"Infinity", "{\"__float__\": \"Infinity\"}",
                                          "\"Infinity\""};
    double want[T], got[T];
    tiny_mamba_spec s = {.lo = 0.3, .seed = 16};
    tiny_model *t = tiny_mamba(s);
    tiny_mamba_run(t, s, ids, T, RIGHT, want);
    tiny_set(t, "dt_limit", json_string("HERE"));
    for (int i = 0; i < 3; i++) {
        char text[64];
        const char *folder = tiny_save(t, "model");
        snprintf(text, sizeof text, "[0.3, %s]", spelled[i]);
        with_config_text(folder, "\"HERE\"", text);
        read_row(folder, PRECISION_F64, RECURRENCE_AUTO, 16, got);
        assert_true(hf_away(want, got, T - 1) <= 1e-11);
    }
    static const char *const bad[] = {"[0.3, NaN]", "[0.3, 1e400]", "[0.3, -Infinity]",
                                      "[Infinity, 1]"};
    for (int i = 0; i < 4; i++) {
        err e = {0};
        const char *folder = tiny_save(t, "model");
        with_config_text(folder, "\"HERE\"", bad[i]);
        assert_null(model_open(folder, NULL, &e));
        files_assert_error_holds(&e, ERR_INPUT, "config.json");
    }
    tiny_free(t);
}

// Names ----------------------------------------------------------------------------------------

static json_t *authors_config(const tiny_mamba_spec *s) {
    json_t *c =
        json_pack("{s:i, s:i, s:i, s:i, s:b, s:b, s:[], s:i, s:{s:s, s:i, s:i, s:i, s:[f,f]}}",
                  "d_model", s->D, "n_layer", s->L, "vocab_size", s->n_vocab - 3,
                  "pad_vocab_size_multiple", 8, "tie_embeddings", 1, "rms_norm", 1,
                  "attn_layer_idx", "d_intermediate", 0, "ssm_cfg", "layer", "Mamba2", "d_state",
                  s->N, "headdim", s->V, "ngroups", s->G, "dt_limit", s->lo, s->hi);
    assert_non_null(c);
    return c;
}

static tiny_model *authors_model(const tiny_mamba_spec *s) {
    tiny_model *t = tiny_mamba(*s);
    tiny_rename(t, "backbone.embeddings.weight", "backbone.embedding.weight");
    json_decref(t->config);
    t->config = authors_config(s);
    return t;
}

// Their vocabulary is the tokenizer's; the embedding has rows up to a multiple of 8.
static void the_authors_names_and_padded_vocabulary_load(void **state) {
    (void)state;
    double want[T];
    tiny_mamba_spec s = {.D = 12,
                         .L = 2,
                         .N = 5,
                         .V = 3,
                         .G = 2,
                         .n_vocab = 24,
                         .lo = 0.1,
                         .hi = 0.6,
                         .tied = true,
                         .seed = 17};
    tiny_model *t = tiny_mamba(s);
    tiny_mamba_run(t, s, ids, T, RIGHT, want);
    tiny_free(t);
    t = authors_model(&s);
    same_loss(t, want);
    json_object_set_new(json_object_get(t->config, "ssm_cfg"), "layer", json_string("Mamba1"));
    REFUSED(t, ERR_UNSUPPORTED, "config.json", "ssm_cfg.layer \"Mamba1\"");
    json_object_del(json_object_get(t->config, "ssm_cfg"), "layer"); // Mamba-1 is their default
    REFUSED(t, ERR_UNSUPPORTED, "ssm_cfg.layer \"Mamba1\"");
    tiny_free(t);
    t = authors_model(&s);
    tiny_set(t, "attn_layer_idx", json_pack("[i]", 1));
    REFUSED(t, ERR_UNSUPPORTED, "attn_layer_idx");
    tiny_free(t);
}

// Sizes ----------------------------------------------------------------------------------------

static void b23_a_width_that_the_weights_do_not_have_is_refused_with_both_numbers(void **state) {
    (void)state;
    tiny_model *t = tiny_mamba((tiny_mamba_spec){.seed = 18});
    tiny_set(t, "hidden_size", json_integer(4096));
    REFUSED(t, ERR_INPUT, "backbone.embeddings.weight has shape [24, 12]",
            "the config asks for [24, 4096]");
    tiny_free(t);
}

static void b24_sizes_that_are_null_are_never_zero(void **state) {
    (void)state;
    static const char *const keys[] = {"hidden_size", "num_hidden_layers", "vocab_size"};
    for (int i = 0; i < 3; i++) {
        tiny_model *t = tiny_mamba((tiny_mamba_spec){.seed = 19});
        tiny_set(t, keys[i], json_null());
        REFUSED(t, ERR_MISSING, keys[i], "is null, need a whole number");
        tiny_set(t, keys[i], NULL);
        REFUSED(t, ERR_MISSING, keys[i], "is absent, need a whole number");
        tiny_free(t);
    }
    tiny_model *t = tiny_mamba((tiny_mamba_spec){.seed = 19});
    tiny_set(t, "model_type", json_string("gpt_mamba"));
    REFUSED(t, ERR_UNSUPPORTED, "model_type \"gpt_mamba\" is not known here");
    tiny_set(t, "model_type", NULL);
    REFUSED(t, ERR_INPUT, "no model_type");
    tiny_free(t);
}

// B111: what the config leaves open is in the shapes; groups and state size only as a product.
static void b111_sizes_that_the_config_lacks_come_from_the_tensors(void **state) {
    (void)state;
    static const char *const open[] = {"num_heads", "head_dim", "conv_kernel",  "n_groups",
                                       "use_bias",  "rmsnorm",  "use_conv_bias"};
    double want[T];
    tiny_mamba_spec s = {.seed = 20};
    tiny_model *t = tiny_mamba(s);
    tiny_mamba_run(t, s, ids, T, RIGHT, want);
    for (int i = 0; i < 7; i++) {
        tiny_set(t, open[i], i % 2 ? json_null() : NULL);
        same_loss(t, want);
    }
    tiny_set(t, "n_groups", json_integer(2));
    tiny_set(t, "state_size", NULL);
    same_loss(t, want);
    tiny_set(t, "n_groups", NULL);
    REFUSED(t, ERR_MISSING, "config.json", "leaves sizes of the Mamba-2 layers open");
    tiny_free(t);
    s = (tiny_mamba_spec){.N = 128, .H = 4, .G = 2, .L = 1, .seed = 21}; // the authors' default
    t = tiny_mamba(s);
    tiny_mamba_run(t, s, ids, T, RIGHT, want);
    tiny_set(t, "n_groups", NULL);
    tiny_set(t, "state_size", NULL);
    same_loss(t, want);
    tiny_free(t);
}

static void b111_a_size_that_clashes_is_one_line_with_its_cause(void **state) {
    (void)state;
    tiny_model *t = tiny_mamba((tiny_mamba_spec){.L = 3, .seed = 22});
    err e = {0};
    tiny_set(t, "state_size", json_integer(7));
    REFUSED(t, ERR_INPUT, "mamba2, layer 0", "in_proj.weight has shape", "the config asks for");
    assert_null(model_open(tiny_save(t, "model"), NULL, &e));
    assert_null(strchr(e.text, '\n'));
    tiny_set(t, "state_size", json_integer(5));
    tiny_set(t, "n_groups", json_integer(3));
    REFUSED(t, ERR_INPUT, "4 heads do not fall into 3 groups");
    tiny_free(t);
}

// B117: the state is heads x K x V x 4 bytes, whatever the width of the convolution or the groups.
static void b117_state_bytes_are_heads_times_state_times_head_dim(void **state) {
    (void)state;
    tiny_mamba_spec s = {.D = 12, .L = 3, .H = 4, .V = 3, .G = 2, .N = 5, .width = 4, .seed = 23};
    err e = {0};
    tiny_model *t = tiny_mamba(s);
    model *m = model_open(tiny_save(t, "model"), NULL, &e);
    assert_non_null(m);
    assert_int_equal(model_state_bytes(m), 3 * 4 * 5 * 3 * 4);
    // The convolution keeps three rows of x, B and C.
    assert_int_equal(model_carry_bytes(m, 4) - model_state_bytes(m), 3 * 3 * (12 + 2 * 2 * 5) * 4);
    const module *x = model_mixer(m, 1);
    assert_true(x->heads.H == 4 && x->heads.Hk == 2 && x->heads.K == 5 && x->heads.V == 3);
    assert_true(x->heads.n_h == 1 && x->heads.decay == DECAY_HEAD && x->heads.erase == ERASE_NONE);
    model_free(m);
    tiny_free(t);
}

// B115, as far as it applies here: another spelling of the same layout loads, a transposed one is
// refused.
static void b115_shapes_that_say_the_same_load_and_transposed_ones_are_refused(void **state) {
    (void)state;
    double want[T];
    tiny_mamba_spec s = {.seed = 24};
    tiny_model *t = tiny_mamba(s);
    tiny_mamba_run(t, s, ids, T, RIGHT, want);
    tiny_tensor *conv = tiny_get(t, "backbone.layers.0.mixer.conv1d.weight");
    conv->rank = 2;
    conv->dims[1] = conv->dims[2];
    same_loss(t, want);
    conv->rank = 3;
    conv->dims[2] = 1; // [channels, width, 1]
    REFUSED(t, ERR_INPUT, "conv1d.weight has shape [32, 4, 1]");
    tiny_free(t);
    t = tiny_mamba(s);
    tiny_tensor *in = tiny_get(t, "backbone.layers.1.mixer.in_proj.weight");
    int64_t rows = in->dims[0];
    in->dims[0] = in->dims[1];
    in->dims[1] = rows;
    REFUSED(t, ERR_INPUT, "layer 1", "in_proj.weight has shape [12, 48]",
            "the config asks for [48, 12]");
    tiny_free(t);
}

static void b33_a_missing_weight_is_never_filled(void **state) {
    (void)state;
    static const char *const names[] = {"A_log", "D", "dt_bias", "norm.weight", "conv1d.weight"};
    for (int i = 0; i < 5; i++) {
        char full[96];
        tiny_model *t = tiny_mamba((tiny_mamba_spec){.seed = 25});
        snprintf(full, sizeof full, "backbone.layers.1.mixer.%s", names[i]);
        tiny_drop(t, full);
        REFUSED(t, ERR_MISSING, full);
        tiny_free(t);
    }
}

static void settings_that_are_not_known_are_refused_by_name(void **state) {
    (void)state;
    struct {
        const char *key;
        json_t *value;
        const char *word;
    } bad[] = {{"hidden_act", json_string("gelu"), "hidden_act \"gelu\""},
               {"D_has_hdim", json_true(), "D_has_hdim"},
               {"quantization_config", json_pack("{s:i}", "bits", 4), "quantised"},
               {"attn", json_pack("{s:[i]}", "layers", 1), "attn"},
               {"rms_norm", json_false(), "LayerNorm"}};
    for (int i = 0; i < 5; i++) {
        tiny_model *t = tiny_mamba((tiny_mamba_spec){.seed = 26});
        tiny_set(t, bad[i].key, bad[i].value);
        REFUSED(t, ERR_UNSUPPORTED, bad[i].word);
        tiny_free(t);
    }
}

// Hybrids: reference dumps with an edited config ---------------------------------------------------

// A copy of a dump's model with KEY set to VALUE (NULL: removed) opened without a backend.
static model *edited(const char *name, const char *key, json_t *value, err *e) {
    const char *from = files_shared(name);
    if (!from)
        return NULL;
    size_t n = 0;
    char path[1024];
    json_error_t je;
    files_clear();
    files_mkdir(files_path("hybrid"));
    snprintf(path, sizeof path, "%s/model.safetensors", from);
    char *data = files_read(path, &n);
    files_write(files_path("hybrid/model.safetensors"), data, n);
    free(data);
    snprintf(path, sizeof path, "%s/config.json", from);
    json_t *c = json_load_file(path, 0, &je);
    assert_non_null(c);
    if (value)
        json_object_set_new(c, key, value);
    else
        json_object_del(c, key);
    assert_int_equal(json_dump_file(c, files_path("hybrid/config.json"), 0), 0);
    json_decref(c);
    return model_open(files_path("hybrid"), NULL, e);
}

static void hybrids_refuse_by_name_what_they_do_not_know(void **state) {
    (void)state;
    struct {
        const char *name, *key;
        json_t *value;
        err_code code;
        const char *word;
    } bad[] = {
        {"golden/hf-bamba", "rope_scaling", json_pack("{s:s}", "rope_type", "yarn"),
         ERR_UNSUPPORTED, "positions scaled by \"yarn\""},
        {"golden/hf-bamba", "rope_parameters", json_pack("{s:f}", "partial_rotary_factor", 0.01),
         ERR_INPUT, "turns 0 of"},
        {"golden/hf-bamba", "hidden_act", json_string("gelu"), ERR_UNSUPPORTED, "\"gelu\""},
        {"golden/hf-bamba", "rms_norm_eps", json_real(-1e-5), ERR_INPUT, "rms_norm_eps -1e-05"},
        {"golden/hf-bamba", "attn_layer_indices", json_pack("[i]", 3), ERR_INPUT,
         "attn_layer_indices"},
        {"golden/hf-granitemoehybrid", "position_embedding_type", json_string("alibi"),
         ERR_UNSUPPORTED, "\"alibi\""},
        {"golden/hf-granitemoehybrid", "num_experts_per_tok", json_integer(5), ERR_INPUT,
         "5 experts per token of 4"},
        {"golden/hf-granitemoehybrid", "num_local_experts", json_integer(8), ERR_INPUT,
         "router.layer.weight has shape [4, 64]"},
        {"golden/hf-falcon-h1", "ssm_multipliers", json_pack("[f,f]", 1.0, 2.0), ERR_INPUT,
         "ssm_multipliers is no list of 5"},
        {"golden/hf-falcon-h1", "mamba_rms_norm", json_false(), ERR_INPUT, "mamba_rms_norm"},
        {"golden/hf-nemotron-h", "layers_block_type",
         json_pack("[s,s,s,s]", "mamba", "mlp", "conv", "mamba"), ERR_UNSUPPORTED,
         "layer 2 is of the kind \"conv\""},
        {"golden/hf-nemotron-h", "num_hidden_layers", json_integer(5), ERR_INPUT,
         "num_hidden_layers 5, but 4 layers are described"},
        {"golden/hf-nemotron-h", "layers_block_type", NULL, ERR_MISSING, "hybrid_override_pattern"},
        {"golden/hf-nemotron-h", "mlp_hidden_act", json_string("gelu"), ERR_UNSUPPORTED,
         "mlp_hidden_act \"gelu\""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err e = {0};
        if (!files_shared(bad[i].name))
            skip();
        model *m = edited(bad[i].name, bad[i].key, bad[i].value, &e);
        assert_null(m);
        files_assert_error_holds(&e, bad[i].code, bad[i].word);
    }
}

// Half of a head turns in Bamba also when nobody says so: the dump names the factor, and must read
// the same without it. The letter pattern and the list are two spellings of one thing.
static void hybrids_have_the_defaults_of_their_library(void **state) {
    (void)state;
    struct {
        const char *name, *key;
        json_t *value;
    } same[] = {
        {"golden/hf-bamba", "rope_parameters", NULL},
        {"golden/hf-bamba", "layer_types",
         json_pack("[s,s,s]", "linear_attention", "full_attention", "mamba")},
        {"golden/hf-bamba", "mamba_d_head", json_string("auto")},
        {"golden/hf-nemotron-h", "hybrid_override_pattern", json_string("M-*M")},
        {"golden/hf-granitemoehybrid", "position_embedding_type", json_string("nope")},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        err e = {0};
        double want[T], got[T];
        const char *from = files_shared(same[i].name);
        if (!from)
            skip();
        model *m = edited(same[i].name, same[i].key, same[i].value, &e);
        if (!m)
            fail_msg("%s", e.text);
        assert_int_equal(m->missing.n, 0);
        model_free(m);
        read_row(from, PRECISION_F64, RECURRENCE_AUTO, 16, want);
        read_row(files_path("hybrid"), PRECISION_F64, RECURRENCE_AUTO, 16, got);
        assert_true(hf_away(want, got, T - 1) <= 1e-12);
    }
}

// Every allocation fails once: an error, never a crash or a leak (the sanitizers look).
static void out_of_memory_is_an_error_wherever_it_happens(void **state) {
    (void)state;
    static const char *const dumps[] = {NULL, "golden/hf-falcon-h1", "golden/hf-granitemoehybrid"};
    tiny_model *t = tiny_mamba((tiny_mamba_spec){.bias = true, .seed = 27});
    for (int i = 0; i < 3; i++) {
        const char *folder = dumps[i] ? files_shared(dumps[i]) : tiny_save(t, "model");
        double loss[T];
        bool done = false;
        long n = 0;
        // Every failure at first, then some: there are thousands in the larger dumps.
        for (n = 1; folder && !done; n += n < 200 ? 1 : 17) {
            err e = {0};
            probe watch = {.ctx = loss, .on_loss = on_loss};
            const probe *probes[] = {&watch};
            backend *be = cpu_open(PRECISION_F32, 1, &e);
            mem_fail_after(n);
            model *m = model_open(folder, be, &e);
            fwd *f = m ? fwd_new(m, 16, T, &e) : NULL;
            done = f && fwd_row(f, ids, T, NULL, probes, 1, NULL, NULL, &e);
            mem_fail_after(0);
            if (!done)
                assert_int_equal(e.code, ERR_NOMEM);
            fwd_free(f);
            model_free(m);
            backend_close(be);
        }
        print_message("measured %s: some %ld allocations\n", dumps[i] ? dumps[i] : "mamba2", n);
    }
    tiny_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b122_the_gated_norm_runs_over_each_group),
        cmocka_unit_test(b61_limits_of_the_time_step_hold_across_chunks),
        cmocka_unit_test(gate_and_norm_come_in_the_order_that_the_config_says),
        cmocka_unit_test(b36_an_infinite_limit_is_read_in_three_spellings),
        cmocka_unit_test(the_authors_names_and_padded_vocabulary_load),
        cmocka_unit_test(b23_a_width_that_the_weights_do_not_have_is_refused_with_both_numbers),
        cmocka_unit_test(b24_sizes_that_are_null_are_never_zero),
        cmocka_unit_test(b111_sizes_that_the_config_lacks_come_from_the_tensors),
        cmocka_unit_test(b111_a_size_that_clashes_is_one_line_with_its_cause),
        cmocka_unit_test(b117_state_bytes_are_heads_times_state_times_head_dim),
        cmocka_unit_test(b115_shapes_that_say_the_same_load_and_transposed_ones_are_refused),
        cmocka_unit_test(b33_a_missing_weight_is_never_filled),
        cmocka_unit_test(settings_that_are_not_known_are_refused_by_name),
        cmocka_unit_test(hybrids_refuse_by_name_what_they_do_not_know),
        cmocka_unit_test(hybrids_have_the_defaults_of_their_library),
        cmocka_unit_test(out_of_memory_is_an_error_wherever_it_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
