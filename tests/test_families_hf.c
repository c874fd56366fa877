// Qwen3-Next, Qwen3.5 and OLMo hybrid in the layouts of Hugging Face: the same numbers in other
// tensors give the loss of plain loops; what is refused, skipped or left over, and with which words.
// The reference dumps are read in tests/test_parity.c.
#include "kernels/cpu/cpu.h"
#include "tests/files.h"
#include "tests/hf_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static tiny_model *gated(int Hk, int H, int K, int V, uint64_t seed) {
    return tiny_hf(
        (tiny_spec){.family = "gated_deltanet", .Hk = Hk, .H = H, .K = K, .V = V, .seed = seed});
}

// Losses ---------------------------------------------------------------------------------------

// B30, B32, B115: fused per key head (with b, a) and split, with as many value heads as key heads,
// twice and three times as many.
static void b115_fused_and_split_projections_give_the_same_loss(void **state) {
    (void)state;
    for (int r = 1; r <= 3; r++)
        for (int fused = 0; fused < 2; fused++) {
            double want[HF_T];
            tiny_model *t = gated(2, 2 * r, 6, 5, 10 + r);
            hf_wanted(t, want);
            tiny_to_qwen(t, fused ? "qwen3_next" : "qwen3_5_text", "model.");
            hf_same(t, want);
            tiny_free(t);
        }
}

// B53, B63: head sizes below 16, no powers of two, above 128; heads x size unlike the width of the
// model.
static void b53_every_head_size_is_right(void **state) {
    (void)state;
    const int sizes[] = {1, 3, 8, 24, 80, 96, 160, 192, 256};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double want[HF_T], got[HF_T];
        tiny_model *t = gated(1, 2, sizes[i], sizes[i] % 2 ? 7 : 20, 20 + i);
        hf_wanted(t, want);
        tiny_to_qwen(t, "qwen3_next", "model.");
        hf_losses(t, got);
        double d = hf_away(want, got, HF_T - 1);
        print_message("measured K %d: %.1e nats\n", sizes[i], d);
        assert_true(d <= 1e-11);
        tiny_free(t);
    }
}

// B30: b and a of a token, whatever the number of tokens.
static void b30_rows_of_two_and_nine_tokens(void **state) {
    (void)state;
    const int64_t lengths[] = {2, 9};
    for (int i = 0; i < 2; i++) {
        double got[HF_T];
        tiny_model *t = gated(2, 4, 6, 6, 30);
        naive r = naive_run(t, hf_ids, lengths[i]);
        tiny_to_qwen(t, "qwen3_next", "model.");
        hf_read(tiny_save(t, "model"), hf_ids, lengths[i], PRECISION_F64, 16, got);
        assert_true(hf_away(r.loss, got, lengths[i] - 1) <= 1e-11);
        naive_free(&r);
        tiny_free(t);
    }
}

// Attention with a gate per head, offset norms of q and k, biases, rotation; B66: far beyond
// max_position_embeddings (16).
static void b66_a_hybrid_agrees_beyond_its_position_limit(void **state) {
    (void)state;
    for (int fused = 0; fused < 2; fused++) {
        double want[HF_T];
        tiny_model *t = tiny_hf((tiny_spec){.family = "gated_deltanet",
                                            .D = 16,
                                            .L = 3,
                                            .heads = 4,
                                            .kv = 2,
                                            .qk_eps = 1e-6,
                                            .seed = 40});
        hf_wanted(t, want);
        tiny_to_qwen(t, fused ? "qwen3_next" : "qwen3_5_text", "model.");
        hf_same(t, want);
        // The same by the interval, when there is no list.
        tiny_set(t, "layer_types", NULL);
        tiny_set(t, "full_attention_interval", json_integer(2));
        hf_same(t, want);
        tiny_free(t);
    }
}

// B31: offsets of 0 and a plain norm of 1 are both the identity scale.
static void b31_offset_norms_of_zero_and_a_plain_norm_of_one(void **state) {
    (void)state;
    double want[HF_T];
    tiny_model *t = gated(2, 4, 6, 5, 50);
    for (int i = 0; i < t->n; i++)
        for (int64_t j = 0; strstr(t->t[i].name, "norm") && j < t->t[i].n; j++)
            t->t[i].v[j] = 1;
    hf_wanted(t, want);
    tiny_to_qwen(t, "qwen3_5_text", "model.");
    for (int i = 0; i < t->n; i++)
        if (strstr(t->t[i].name, "norm"))
            assert_true(t->t[i].v[0] == (strstr(t->t[i].name, "linear_attn") ? 1 : 0));
    hf_same(t, want);
    tiny_free(t);
}

typedef struct norms {
    double head[2][4]; // largest number of the state of layer, value head
} norms;

static bool on_final_state(void *ctx, int layer, mat s, backend *be, err *e) {
    (void)e;
    norms *n = ctx;
    double v[4 * 6 * 5];
    be->op->read(be, s, v);
    for (int i = 0; i < 4 * 6 * 5; i++)
        n->head[layer][i / 30] = fmax(n->head[layer][i / 30], fabs(v[i]));
    return true;
}

// B32: value heads 2 and 3 read key head 1.
static void b32_a_key_head_of_zeros_empties_exactly_its_value_heads(void **state) {
    (void)state;
    err e = {0};
    norms n = {0};
    tiny_model *t = gated(2, 4, 6, 5, 60);
    for (int L = 0; L < 2; L++) {
        tiny_tensor *k = tiny_get(t, "model.layers.%d.attn.k_proj.weight", L);
        memset(k->v + 6 * 12, 0, 6 * 12 * sizeof *k->v);
    }
    tiny_to_qwen(t, "qwen3_next", "model.");
    backend *be = cpu_open(PRECISION_F64, 1, &e);
    model *m = model_open(tiny_save(t, "model"), be, &e);
    assert_non_null(m);
    probe p = {.ctx = &n, .on_final_state = on_final_state};
    const probe *probes[] = {&p};
    fwd *f = fwd_new(m, 16, HF_T, &e);
    assert_true(fwd_row(f, hf_ids, HF_T, NULL, probes, 1, NULL, NULL, &e));
    for (int L = 0; L < 2; L++)
        for (int h = 0; h < 4; h++)
            assert_true(h < 2 ? n.head[L][h] > 1e-3 : n.head[L][h] == 0);
    fwd_free(f);
    model_free(m);
    backend_close(be);
    tiny_free(t);
}

// B28: linear layers of OLMo hybrid; beta up to 2 is the default, 1e-5 the eps of the output norm.
static void b28_linear_layers_of_olmo_hybrid(void **state) {
    (void)state;
    for (int thirds = 0; thirds < 2; thirds++)
        for (int neg = 0; neg < 2; neg++) {
            double want[HF_T];
            // 2 x 12 + 20 = 44 channels: thirds of 15, 15 and 14 rows.
            tiny_model *t = tiny_hf((tiny_spec){.family = "gated_deltanet",
                                                .Hk = 2,
                                                .H = 4,
                                                .K = 6,
                                                .V = 5,
                                                .neg = neg,
                                                .o_eps = 1e-5,
                                                .seed = 70});
            hf_wanted(t, want);
            tiny_to_olmo(t, thirds);
            if (neg)
                tiny_set(t, "linear_allow_neg_eigval", NULL);
            hf_same(t, want);
            model *m = hf_inspected(t);
            assert_int_equal(hf_noted(m, "three equal parts"), thirds);
            model_free(m);
            tiny_free(t);
        }
}

// An OLMo model of one attention layer; D 8, two heads of 4.
static tiny_model *olmo_attention(void) {
    tiny_model *t = tiny_hf((tiny_spec){.family = "gated_deltanet", .D = 8, .L = 1, .seed = 80});
    tiny_to_olmo(t, false);
    for (int i = t->n - 1; i >= 0; i--)
        if (strstr(t->t[i].name, "linear_attn"))
            tiny_drop(t, t->t[i].name);
    tiny_rename(t, "model.layers.0.attention_layer_norm.weight",
                "model.layers.0.post_attention_layernorm.weight");
    tiny_rename(t, "model.layers.0.feedforward_layer_norm.weight",
                "model.layers.0.post_feedforward_layernorm.weight");
    for (int i = 0; i < 4; i++)
        tiny_put(t, hf_name("model.layers.0.self_attn.%c_proj.weight", "qkvo"[i]),
                 i == 1 || i == 2 ? 4 : 8, i == 3 ? 8 : 8, 0, 0.5);
    tiny_put(t, "model.layers.0.self_attn.q_norm.weight", 8, 0, 1, 0.2);
    tiny_put(t, "model.layers.0.self_attn.k_norm.weight", 4, 0, 1, 0.2);
    tiny_set(t, "layer_types", json_pack("[s]", "full_attention"));
    return t;
}

// B28: without rope_theta nothing turns, and an attention layer that turns nothing cannot tell in
// which order the tokens before came.
static void b28_no_rope_theta_no_rotation(void **state) {
    (void)state;
    int32_t swapped[HF_T];
    memcpy(swapped, hf_ids, sizeof swapped);
    swapped[1] = hf_ids[4];
    swapped[4] = hf_ids[1];
    tiny_model *t = olmo_attention();
    for (int way = 0; way < 4; way++) {
        double a[HF_T], b[HF_T];
        const bool turns = way >= 2;
        tiny_set(t, "rope_theta", way == 3 ? json_real(10000) : NULL);
        tiny_set(t, "rope_parameters",
                 way == 0   ? json_null()
                 : way == 1 ? json_pack("{s:n, s:s}", "rope_theta", "rope_type", "default")
                 : way == 2 ? json_pack("{s:f, s:s}", "rope_theta", 10000.0, "rope_type", "default")
                            : json_null());
        const char *folder = tiny_save(t, "model");
        hf_read(folder, hf_ids, HF_T, PRECISION_F64, 16, a);
        hf_read(folder, swapped, HF_T, PRECISION_F64, 16, b);
        double d = hf_away(a + 5, b + 5, HF_T - 6);
        print_message("measured %s: two earlier tokens swapped, losses %.1e apart\n",
                      turns ? "rotation" : "no rotation", d);
        assert_true(turns ? d > 1e-4 : d < 1e-13);
    }
    // transformers 5.24 writes the first norm under the name that linear layers have.
    double a[HF_T], b[HF_T];
    hf_losses(t, a);
    tiny_rename(t, "model.layers.0.post_attention_layernorm.weight",
                "model.layers.0.feedforward_layer_norm.weight");
    hf_losses(t, b);
    assert_true(hf_away(a, b, HF_T - 1) == 0);
    tiny_free(t);
}

// Containers, leftovers, heads -----------------------------------------------------------------

// The config of a text model moved into text_config.
static void contain(tiny_model *t, const char *type) {
    json_t *text = t->config;
    t->config = json_pack("{s:s, s:o}", "model_type", type, "text_config", text);
}

// B38
static void b38_tensors_of_other_parts_are_skipped_with_a_count(void **state) {
    (void)state;
    double want[HF_T];
    tiny_model *t = gated(2, 4, 6, 5, 90);
    hf_wanted(t, want);
    tiny_to_qwen(t, "qwen3_5_text", "model.language_model.");
    contain(t, "qwen3_5");
    tiny_put(t, "model.visual.patch_embed.proj.weight", 3, 4, 0, 1);
    tiny_put(t, "model.visual.blocks.0.norm1.weight", 4, 0, 0, 1);
    tiny_put(t, "mtp.fc.weight", 3, 4, 0, 1);
    hf_same(t, want);
    model *m = hf_inspected(t);
    assert_true(hf_noted(m, "2 tensors model.visual.* "));
    assert_true(hf_noted(m, "1 tensors mtp.* "));
    assert_int_equal(m->leftover.n, 0);
    model_free(m);
    // What belongs to no part that is known stays a leftover.
    tiny_put(t, "model.audio.proj.weight", 3, 4, 0, 1);
    m = hf_inspected(t);
    assert_int_equal(m->leftover.n, 1);
    assert_string_equal(m->leftover.v[0], "model.audio.proj.weight");
    model_free(m);
    tiny_free(t);
}

// B11 in a container: where both flags stand and differ, the file decides.
static void tie_flags_of_a_container(void **state) {
    (void)state;
    for (int tied = 0; tied < 2; tied++)
        for (int inner = -1; inner < 2; inner++)
            for (int outer = -1; outer < 2; outer++) {
                if ((inner >= 0 && inner != tied && outer != tied) || (inner < 0 && outer < 0))
                    continue;
                if ((inner < 0 && outer != tied) || (outer < 0 && inner != tied))
                    continue;
                double want[HF_T], got[HF_T];
                tiny_model *t =
                    tiny_hf((tiny_spec){.family = "gated_deltanet", .tied = tied, .seed = 91});
                hf_wanted(t, want);
                tiny_to_qwen(t, "qwen3_5_text", "model.language_model.");
                tiny_set(t, "tie_word_embeddings", inner < 0 ? NULL : json_boolean(inner));
                contain(t, "qwen3_5");
                if (outer >= 0)
                    tiny_set(t, "tie_word_embeddings", json_boolean(outer));
                hf_losses(t, got);
                assert_true(hf_away(want, got, HF_T - 1) <= 1e-11);
                tiny_free(t);
            }
}

static void token_ids_of_the_text_config_count(void **state) {
    (void)state;
    tiny_model *t = gated(2, 4, 6, 5, 92);
    tiny_to_qwen(t, "qwen3_5_text", "model.language_model.");
    tiny_set(t, "bos_token_id", json_null());
    tiny_set(t, "eos_token_id", json_integer(7));
    contain(t, "qwen3_5");
    model *m = hf_inspected(t);
    assert_int_equal(m->info.bos, -1);
    assert_int_equal(m->info.eos, 7);
    assert_int_equal(m->info.train_length, 16);
    assert_int_equal(m->info.n_layers, 2);
    model_free(m);
    json_t *text = json_object_get(t->config, "text_config"); // a list: the first, there as well
    json_object_set_new(text, "eos_token_id", json_pack("[i,i]", 9, 7));
    m = hf_inspected(t);
    assert_int_equal(m->info.eos, 9);
    model_free(m);
    json_object_set_new(text, "eos_token_id", json_pack("[I]", (json_int_t)1 << 32));
    REFUSED(t, ERR_INPUT, "eos_token_id lists something that is no token id");
    tiny_free(t);
}

// B29, B115: a tensor nobody asked for is listed, and one family's file under the other's name is
// refused by the name of what is missing.
static void b29_nothing_in_a_known_layer_is_dropped(void **state) {
    (void)state;
    tiny_model *t = gated(2, 4, 6, 5, 100);
    tiny_to_qwen(t, "qwen3_5_text", "model.");
    tiny_put(t, "model.layers.1.linear_attn.in_proj_qkvz.weight", 3, 4, 0, 1);
    model *m = hf_inspected(t);
    assert_int_equal(m->leftover.n, 1);
    assert_string_equal(m->leftover.v[0], "model.layers.1.linear_attn.in_proj_qkvz.weight");
    model_free(m);
    tiny_drop(t, "model.layers.1.linear_attn.in_proj_qkvz.weight");
    tiny_set(t, "model_type", json_string("qwen3_next"));
    tiny_set(t, "num_experts", json_integer(0));
    REFUSED(t, ERR_MISSING, "model.layers.0.linear_attn.in_proj_qkvz.weight", "in_proj_qkv.weight",
            "qwen3_next, layer 0");
    // Inspection lists the four tensors that are not there and the eight nobody reads.
    m = hf_inspected(t);
    assert_int_equal(m->leftover.n, 8);
    assert_true(m->missing.n >= 4);
    model_free(m);
    tiny_free(t);
}

// B116: the family comes from the config; a gate of another shape is an error, whatever it may fit.
static void b116_a_gate_of_another_shape_is_an_error(void **state) {
    (void)state;
    tiny_model *t = gated(2, 4, 4, 4, 110);
    tiny_to_qwen(t, "qwen3_5_text", "model.");
    tiny_drop(t, "model.layers.0.linear_attn.in_proj_a.weight");
    tiny_put(t, "model.layers.0.linear_attn.in_proj_a.weight", 16, 12, 0, 1);
    REFUSED(t, ERR_INPUT, "in_proj_a.weight has shape [16, 12]", "[4, 12]");
    tiny_free(t);
}

static void a_wrong_number_of_rows_is_an_error(void **state) {
    (void)state;
    tiny_model *t = gated(2, 4, 6, 5, 111);
    tiny_to_qwen(t, "qwen3_next", "model.");
    tiny_set(t, "linear_num_value_heads", json_integer(2));
    REFUSED(t, ERR_INPUT, "in_proj_qkvz.weight has shape [64, 12]", "[44, 12]");
    tiny_set(t, "linear_num_value_heads", json_integer(3));
    REFUSED(t, ERR_INPUT, "linear_num_value_heads 3 is no multiple of linear_num_key_heads 2");
    tiny_free(t);
    // OLMo's convolutions: neither the true widths nor thirds.
    t = gated(2, 4, 6, 5, 112);
    tiny_to_olmo(t, true);
    tiny_drop(t, "model.layers.1.linear_attn.v_conv1d.weight");
    tiny_put(t, "model.layers.1.linear_attn.v_conv1d.weight", 13, 4, 0, 1);
    REFUSED(t, ERR_INPUT, "43 rows together", "asks for 44", "layer 1");
    tiny_free(t);
}

// Settings that nobody here knows are refused by name.
static void unknown_settings_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *type, *key, *json, *word;
    } row[] = {
        {"qwen3_5_text", "hidden_act", "\"gelu\"", "hidden_act \"gelu\""},
        {"qwen3_5_text", "hidden_act", "\"relu\"", "hidden_act"},
        {"qwen3_5_text", "attn_output_gate", "false", "attn_output_gate"},
        {"qwen3_5_text", "use_sliding_window", "true", "use_sliding_window"},
        {"qwen3_next", "quantization_config", "{\"bits\": 4}", "quantised"},
        {"qwen3_next", "layer_types", "[\"linear_attention\", \"mamba\"]", "\"mamba\""},
        {"qwen3_next", "rope_parameters", "{\"rope_type\": \"yarn\", \"factor\": 4}", "yarn"},
        {"olmo_hybrid", "layer_types", "[\"linear_attention\", \"sliding_attention\"]",
         "\"sliding_attention\""},
        {"olmo_hybrid", "hidden_act", "\"gelu\"", "hidden_act \"gelu\""},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        tiny_model *t = gated(2, 4, 6, 5, 120);
        if (strcmp(row[i].type, "olmo_hybrid") == 0)
            tiny_to_olmo(t, false);
        else
            tiny_to_qwen(t, row[i].type, "model.");
        tiny_set(t, row[i].key, json_loads(row[i].json, JSON_DECODE_ANY, NULL));
        REFUSED(t, ERR_UNSUPPORTED, row[i].word, "config.json");
        tiny_free(t);
    }
}

static void a_quarter_of_a_head_must_be_even(void **state) {
    (void)state;
    tiny_model *t = gated(2, 4, 6, 5, 121);
    tiny_to_qwen(t, "qwen3_5_text", "model.");
    tiny_set(t, "rope_parameters", NULL); // a quarter of heads of 6: one number
    REFUSED(t, ERR_INPUT, "partial_rotary_factor 0.25", "of 6 numbers");
    tiny_free(t);
}

// Experts --------------------------------------------------------------------------------------

// One expert, chosen always and weighed by 1, and a shared expert that a gate halves.
static void one_expert_is_a_plain_mlp(void **state) {
    (void)state;
    for (int layout = 0; layout < 2; layout++) {
        double want[HF_T];
        tiny_model *t = gated(2, 4, 6, 5, 130);
        hf_wanted(t, want);
        tiny_to_qwen(t, layout ? "qwen3_5_text" : "qwen3_next", "model.");
        if (layout)
            tiny_set(t, "model_type", json_string("qwen3_5_moe_text"));
        for (int L = 0; L < 2; L++) {
            static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};
            if (layout == 0 && L == 1) // in mlp_only_layers
                continue;
            if (layout) {
                const int64_t both[] = {1, 32, 12}, one[] = {1, 12, 16};
                tiny_tensor *g =
                    tiny_add(t, hf_name("model.layers.%d.mlp.experts.gate_up_proj", L), 3, both);
                memcpy(g->v, tiny_get(t, "model.layers.%d.mlp.gate_proj.weight", L)->v,
                       16 * 12 * sizeof *g->v);
                memcpy(g->v + 16 * 12, tiny_get(t, "model.layers.%d.mlp.up_proj.weight", L)->v,
                       16 * 12 * sizeof *g->v);
                tiny_tensor *d =
                    tiny_add(t, hf_name("model.layers.%d.mlp.experts.down_proj", L), 3, one);
                memcpy(d->v, tiny_get(t, "model.layers.%d.mlp.down_proj.weight", L)->v,
                       16 * 12 * sizeof *d->v);
            }
            for (int i = 0; i < 3; i++) {
                const char *old = hf_name("model.layers.%d.mlp.%s.weight", L, parts[i]);
                if (layout)
                    tiny_drop(t, old);
                else
                    tiny_rename(t, old,
                                hf_name("model.layers.%d.mlp.experts.0.%s.weight", L, parts[i]));
                tiny_put(t, hf_name("model.layers.%d.mlp.shared_expert.%s.weight", L, parts[i]),
                         i < 2 ? 8 : 12, i < 2 ? 12 : 8, 0, i < 2 ? 0.3 : 0);
            }
            tiny_put(t, hf_name("model.layers.%d.mlp.gate.weight", L), 1, 12, 0, 1);
            tiny_put(t, hf_name("model.layers.%d.mlp.shared_expert_gate.weight", L), 1, 12, 0, 1);
        }
        tiny_set(t, "num_experts", json_integer(1));
        tiny_set(t, "num_experts_per_tok", json_integer(1));
        tiny_set(t, "moe_intermediate_size", json_integer(16));
        tiny_set(t, "shared_expert_intermediate_size", json_integer(8));
        tiny_set(t, "mlp_only_layers", layout ? json_array() : json_pack("[i]", 1));
        hf_same(t, want);
        if (layout) {
            tiny_set(t, "norm_topk_prob", json_false());
            REFUSED(t, ERR_UNSUPPORTED, "norm_topk_prob false");
        } else {
            tiny_set(t, "mlp_only_layers", json_pack("[i]", 2));
            REFUSED(t, ERR_INPUT, "mlp_only_layers", "no layer below 2");
            tiny_set(t, "num_experts_per_tok", json_integer(2));
            tiny_set(t, "mlp_only_layers", json_array());
            REFUSED(t, ERR_INPUT, "2 experts per token of 1");
        }
        tiny_free(t);
    }
}

static void every_failing_allocation_is_an_error(void **state) {
    (void)state;
    tiny_model *t =
        tiny_hf((tiny_spec){.family = "gated_deltanet", .D = 16, .heads = 4, .kv = 2, .seed = 140});
    tiny_to_qwen(t, "qwen3_next", "model.");
    hf_every_allocation(t);
    tiny_free(t);
    t = gated(2, 4, 6, 5, 141);
    tiny_to_olmo(t, true);
    hf_every_allocation(t);
    tiny_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b115_fused_and_split_projections_give_the_same_loss),
        cmocka_unit_test(b53_every_head_size_is_right),
        cmocka_unit_test(b30_rows_of_two_and_nine_tokens),
        cmocka_unit_test(b66_a_hybrid_agrees_beyond_its_position_limit),
        cmocka_unit_test(b31_offset_norms_of_zero_and_a_plain_norm_of_one),
        cmocka_unit_test(b32_a_key_head_of_zeros_empties_exactly_its_value_heads),
        cmocka_unit_test(b28_linear_layers_of_olmo_hybrid),
        cmocka_unit_test(b28_no_rope_theta_no_rotation),
        cmocka_unit_test(b38_tensors_of_other_parts_are_skipped_with_a_count),
        cmocka_unit_test(tie_flags_of_a_container),
        cmocka_unit_test(token_ids_of_the_text_config_count),
        cmocka_unit_test(b29_nothing_in_a_known_layer_is_dropped),
        cmocka_unit_test(b116_a_gate_of_another_shape_is_an_error),
        cmocka_unit_test(a_wrong_number_of_rows_is_an_error),
        cmocka_unit_test(unknown_settings_are_refused),
        cmocka_unit_test(a_quarter_of_a_head_must_be_even),
        cmocka_unit_test(one_expert_is_a_plain_mlp),
        cmocka_unit_test(every_failing_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
