// Kimi Linear in the layout of Hugging Face: Kimi Delta Attention against the plain loops of
// tests/naive_model.c, latent attention against those below, which expand every key and value; lists
// that count from 1, two spellings of keys, names that transformers writes itself.
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

static tiny_model *kda(int L, uint64_t seed) {
    tiny_model *t =
        tiny_hf((tiny_spec){.family = "kda", .L = L, .H = 2, .K = 6, .V = 6, .seed = seed});
    for (int i = 0; i < t->n; i++)
        if (strstr(t->t[i].name, "g_proj.1.bias")) // FLA's only
            memset(t->t[i].v, 0, (size_t)t->t[i].n * sizeof(double));
    return t;
}

static void delta_layers_agree_with_plain_loops(void **state) {
    (void)state;
    double want[HF_T];
    tiny_model *t = kda(2, 1);
    hf_wanted(t, want);
    tiny_to_kimi(t);
    hf_same(t, want);
    // As published: [1, 1, H, 1].
    tiny_tensor *a = tiny_get(t, "model.layers.1.self_attn.A_log");
    a->rank = 4;
    memcpy(a->dims, (int64_t[]){1, 1, 2, 1}, sizeof a->dims);
    hf_same(t, want);
    tiny_free(t);
}

// Latent attention -----------------------------------------------------------------------------

enum { D = 12, HEADS = 2, NOPE = 4, V = 3, RANK = 5 };

// One layer of latent attention and its MLP. q_rank 0: q_proj alone.
static tiny_model *latent(int rope, int q_rank) {
    static const char p[] = "model.layers.0.self_attn";
    tiny_model *t = kda(1, 2);
    tiny_to_kimi(t);
    for (int i = t->n - 1; i >= 0; i--)
        if (strstr(t->t[i].name, "self_attn"))
            tiny_drop(t, t->t[i].name);
    int64_t nq = HEADS * (NOPE + rope);
    if (q_rank) {
        tiny_put(t, hf_name("%s.q_a_proj.weight", p), q_rank, D, 0, 0.3);
        tiny_put(t, hf_name("%s.q_a_layernorm.weight", p), q_rank, 0, 1, 0.2);
        tiny_put(t, hf_name("%s.q_b_proj.weight", p), nq, q_rank, 0, 0.6);
        tiny_set(t, "q_lora_rank", json_integer(q_rank));
    } else {
        tiny_put(t, hf_name("%s.q_proj.weight", p), nq, D, 0, 0.5);
    }
    tiny_put(t, hf_name("%s.kv_a_proj_with_mqa.weight", p), RANK + rope, D, 0, 0.5);
    tiny_put(t, hf_name("%s.kv_a_layernorm.weight", p), RANK, 0, 1, 0.2);
    tiny_put(t, hf_name("%s.kv_b_proj.weight", p), HEADS * (NOPE + V), RANK, 0, 0.6);
    tiny_put(t, hf_name("%s.o_proj.weight", p), D, HEADS * V, 0, 0.6);
    tiny_set(t, "qk_rope_head_dim", json_integer(rope));
    tiny_set(t, "rms_norm_eps", json_real(1e-2)); // unlike that inside latent attention
    json_t *lists = json_object_get(t->config, "linear_attn_config");
    json_object_set_new(lists, "kda_layers", json_array());
    json_object_set_new(lists, "full_attn_layers", json_pack("[i]", 1));
    return t;
}

static void times(const tiny_tensor *w, const double *x, double *y) {
    for (int64_t i = 0; i < w->dims[0]; i++) {
        y[i] = 0;
        for (int64_t j = 0; j < w->dims[1]; j++)
            y[i] += w->v[i * w->dims[1] + j] * x[j];
    }
}

static void norm(const double *x, const tiny_tensor *w, int64_t n, double eps, double *y) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] / sqrt(sum / (double)n + eps) * w->v[i];
}

#define GET(name) tiny_get(t, "model.layers.0." name)

// Query, keys and values of all heads of one token: the key is nope numbers from the latent vector and
// the shared, unturned rest.
static void project(const tiny_model *t, const double *x, int rope, int q_rank, double *q,
                    double *k, double *v) {
    double low[16], c[16], b[64];
    int wide = NOPE + rope;
    if (q_rank) {
        times(GET("self_attn.q_a_proj.weight"), x, low);
        norm(low, GET("self_attn.q_a_layernorm.weight"), q_rank, 1e-6, low);
        times(GET("self_attn.q_b_proj.weight"), low, q);
    } else {
        times(GET("self_attn.q_proj.weight"), x, q);
    }
    times(GET("self_attn.kv_a_proj_with_mqa.weight"), x, low);
    norm(low, GET("self_attn.kv_a_layernorm.weight"), RANK, 1e-6, c);
    times(GET("self_attn.kv_b_proj.weight"), c, b);
    for (int h = 0; h < HEADS; h++) {
        memcpy(k + h * wide, b + h * (NOPE + V), NOPE * sizeof *k);
        memcpy(k + h * wide + NOPE, low + RANK, (size_t)rope * sizeof *k);
        memcpy(v + h * V, b + h * (NOPE + V) + NOPE, V * sizeof *v);
    }
}

static void plain(const tiny_model *t, int rope, int q_rank, double *loss) {
    const tiny_tensor *embed = tiny_get(t, "model.embed_tokens.weight");
    const tiny_tensor *head = tiny_get(t, "lm_head.weight");
    static double q[HF_T][32], k[HF_T][32], v[HF_T][8];
    int wide = NOPE + rope;
    for (int i = 0; i < HF_T - 1; i++) {
        double x[D], n[D], y[D], o[HEADS * V] = {0}, p[HF_T], g[16], u[16], logits[64], sum = 0;
        memcpy(x, embed->v + hf_ids[i] * D, sizeof x);
        norm(x, GET("input_layernorm.weight"), D, 1e-2, n);
        project(t, n, rope, q_rank, q[i], k[i], v[i]);
        for (int h = 0; h < HEADS; h++) {
            double all = 0;
            for (int j = 0; j <= i; j++) {
                double dot = 0;
                for (int c = 0; c < wide; c++)
                    dot += q[i][h * wide + c] * k[j][h * wide + c];
                all += p[j] = exp(dot / sqrt(wide));
            }
            for (int j = 0; j <= i; j++)
                for (int c = 0; c < V; c++)
                    o[h * V + c] += p[j] / all * v[j][h * V + c];
        }
        times(GET("self_attn.o_proj.weight"), o, y);
        for (int c = 0; c < D; c++)
            x[c] += y[c];
        norm(x, GET("post_attention_layernorm.weight"), D, 1e-2, n);
        times(GET("mlp.gate_proj.weight"), n, g);
        times(GET("mlp.up_proj.weight"), n, u);
        for (int c = 0; c < 16; c++)
            u[c] *= g[c] / (1 + exp(-g[c]));
        times(GET("mlp.down_proj.weight"), u, y);
        for (int c = 0; c < D; c++)
            x[c] += y[c];
        norm(x, tiny_get(t, "model.norm.weight"), D, 1e-2, n);
        times(head, n, logits);
        for (int c = 0; c < head->dims[0]; c++)
            sum += exp(logits[c]);
        loss[i] = log(sum) - logits[hf_ids[i + 1]];
    }
}

// With and without the shared part, with and without a low-rank query, in blocks that cut anywhere:
// the past is kept as latent vectors, the plain loops keep keys and values.
static void latent_attention_agrees_with_expanded_keys_and_values(void **state) {
    (void)state;
    const int64_t blocks[] = {1, 7, 40};
    for (int way = 0; way < 4; way++) {
        int rope = way % 2 ? 2 : 0, q_rank = way / 2 ? 7 : 0;
        double want[HF_T], got[HF_T], worst = 0;
        tiny_model *t = latent(rope, q_rank);
        plain(t, rope, q_rank, want);
        const char *folder = tiny_save(t, "model");
        for (int i = 0; i < 3; i++) {
            hf_read(folder, hf_ids, HF_T, PRECISION_F64, blocks[i], got);
            worst = fmax(worst, hf_away(want, got, HF_T - 1));
        }
        print_message("measured rope %d, query rank %d: %.1e nats\n", rope, q_rank, worst);
        assert_true(worst <= 1e-11);
        hf_read(folder, hf_ids, HF_T, PRECISION_F32, 16, got);
        assert_true(hf_away(want, got, HF_T - 1) <= 1e-4);
        tiny_free(t);
    }
}

// What is carried is as long as the latent vector and the shared part, not as keys and values.
static void only_latent_vectors_are_carried(void **state) {
    (void)state;
    tiny_model *t = latent(2, 0);
    model *m = hf_inspected(t);
    const module *a = m->layers[0].branch[0].body;
    assert_string_equal(a->kind, "latent attention");
    assert_int_equal(a->n_carry, 1);
    assert_int_equal(a->carry[0].cols, RANK + 2);
    assert_null(model_mixer(m, 0));
    model_free(m);
    tiny_free(t);
}

// Lists ----------------------------------------------------------------------------------------

static json_t *lists(tiny_model *t, json_t *linear, json_t *full) {
    json_t *c = json_object_get(t->config, "linear_attn_config");
    json_object_set_new(c, "kda_layers", linear);
    json_object_set_new(c, "full_attn_layers", full);
    return c;
}

// B26: kda_layers [1, 2, 3] and full_attn_layers [4]: layer 3, counted from 0, is attention.
static void b26_layers_are_counted_from_one(void **state) {
    (void)state;
    tiny_model *t = kda(4, 3), *part = latent(2, 0);
    tiny_to_kimi(t);
    for (int i = t->n - 1; i >= 0; i--)
        if (strstr(t->t[i].name, "layers.3.self_attn"))
            tiny_drop(t, t->t[i].name);
    for (int i = 0; i < part->n; i++) {
        const char *tail = strstr(part->t[i].name, "self_attn");
        if (tail) {
            tiny_tensor *to =
                tiny_add(t, hf_name("model.layers.3.%s", tail), part->t[i].rank, part->t[i].dims);
            memcpy(to->v, part->t[i].v, (size_t)to->n * sizeof *to->v);
        }
    }
    lists(t, json_pack("[i, i, i]", 1, 2, 3), json_pack("[i]", 4));
    model *m = hf_inspected(t);
    assert_int_equal(m->missing.n, 0);
    assert_int_equal(m->leftover.n, 0);
    for (int L = 0; L < 4; L++)
        assert_true((model_mixer(m, L) != NULL) == (L < 3));
    model_free(m);
    double loss[HF_T];
    hf_losses(t, loss);
    assert_true(isfinite(loss[0]) && isfinite(loss[HF_T - 2]));
    tiny_free(part);
    tiny_free(t);
}

static void b26_lists_that_do_not_fit_are_refused(void **state) {
    (void)state;
    tiny_model *t = kda(2, 4);
    tiny_to_kimi(t);
    lists(t, json_pack("[i, i]", 0, 1), json_array());
    REFUSED(t, ERR_INPUT, "linear_attn_config.kda_layers", "no layer from 1 to 2");
    lists(t, json_pack("[i]", 1), json_pack("[i]", 3));
    REFUSED(t, ERR_INPUT, "linear_attn_config.full_attn_layers", "no layer from 1 to 2");
    lists(t, json_pack("[i, i]", 1, 2), json_pack("[i]", 2));
    REFUSED(t, ERR_INPUT, "layer 2 (counted from 1) is in both");
    lists(t, json_pack("[i]", 2), json_array());
    REFUSED(t, ERR_INPUT, "layer 1 (counted from 1) is in neither");
    lists(t, json_string("all"), json_array());
    REFUSED(t, ERR_INPUT, "kda_layers is no list");
    tiny_set(t, "linear_attn_config", NULL);
    REFUSED(t, ERR_MISSING, "linear_attn_config is absent");
    tiny_free(t);
}

// MLPs and experts -----------------------------------------------------------------------------

// transformers 5.24 writes dense MLPs under the name of the mixtures.
static void resaved_names_of_dense_layers_load(void **state) {
    (void)state;
    static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};
    double want[HF_T];
    tiny_model *t = kda(2, 5);
    hf_wanted(t, want);
    tiny_to_kimi(t);
    for (int i = 0; i < 3; i++)
        tiny_rename(t, hf_name("model.layers.0.mlp.%s.weight", parts[i]),
                    hf_name("model.layers.0.block_sparse_moe.%s.weight", parts[i]));
    hf_same(t, want);
    tiny_free(t);
}

// One expert behind a router that divides by the sum of what it chose, in both spellings of the keys.
// routed_scaling_factor 2 makes good for halved weights; the shared experts say nothing.
static void one_expert_is_a_plain_mlp_in_both_spellings(void **state) {
    (void)state;
    static const char *const names[2][5] = {
        {"num_experts", "num_experts_per_token", "moe_renormalize", "num_expert_group",
         "num_shared_experts"},
        {"n_routed_experts", "num_experts_per_tok", "norm_topk_prob", "n_group",
         "n_shared_experts"},
    };
    static const char *const parts[][2] = {
        {"gate_proj", "w1"}, {"up_proj", "w3"}, {"down_proj", "w2"}};
    for (int way = 0; way < 2; way++) {
        double want[HF_T];
        tiny_model *t = kda(2, 6);
        hf_wanted(t, want);
        tiny_to_kimi(t);
        for (int i = 0; i < 3; i++) {
            const char *w =
                hf_name("model.layers.1.block_sparse_moe.experts.0.%s.weight", parts[i][1]);
            tiny_rename(t, hf_name("model.layers.1.mlp.%s.weight", parts[i][0]), w);
            tiny_tensor *x = tiny_get(t, "%s", w);
            for (int64_t j = 0; i == 2 && j < x->n; j++)
                x->v[j] /= 2;
            tiny_put(
                t, hf_name("model.layers.1.block_sparse_moe.shared_experts.%s.weight", parts[i][0]),
                i < 2 ? 32 : 12, i < 2 ? 12 : 32, 0, i < 2 ? 0.3 : 0);
        }
        tiny_put(t, "model.layers.1.block_sparse_moe.gate.weight", 1, 12, 0, 1);
        tiny_put(t, "model.layers.1.block_sparse_moe.gate.e_score_correction_bias", 1, 0, 3, 0);
        tiny_set(t, names[way][0], json_integer(1));
        tiny_set(t, names[way][1], json_integer(1));
        tiny_set(t, names[way][2], json_true());
        tiny_set(t, names[way][3], json_integer(1));
        tiny_set(t, names[way][4], json_integer(2));
        tiny_set(t, "moe_intermediate_size", json_integer(16));
        tiny_set(t, "routed_scaling_factor", json_real(2));
        tiny_set(t, "first_k_dense_replace", json_integer(1));
        hf_same(t, want);
        tiny_set(t, "moe_router_activation_func", json_string("softmax"));
        REFUSED(t, ERR_UNSUPPORTED, "moe_router_activation_func \"softmax\"");
        tiny_free(t);
    }
}

static void rotated_latent_attention_is_refused(void **state) {
    (void)state;
    tiny_model *t = latent(2, 0);
    tiny_set(t, "mla_use_nope", json_false());
    REFUSED(t, ERR_UNSUPPORTED, "mla_use_nope false");
    tiny_free(t);
}

static void the_training_length_has_another_name(void **state) {
    (void)state;
    tiny_model *t = kda(1, 7);
    tiny_to_kimi(t);
    tiny_set(t, "max_position_embeddings", NULL);
    tiny_set(t, "model_max_length", json_integer(99));
    model *m = hf_inspected(t);
    assert_int_equal(m->info.train_length, 99);
    model_free(m);
    tiny_free(t);
}

static void every_failing_allocation_is_an_error(void **state) {
    (void)state;
    tiny_model *t = kda(1, 8);
    tiny_to_kimi(t);
    hf_every_allocation(t);
    tiny_free(t);
    t = latent(2, 7);
    hf_every_allocation(t);
    tiny_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delta_layers_agree_with_plain_loops),
        cmocka_unit_test(latent_attention_agrees_with_expanded_keys_and_values),
        cmocka_unit_test(only_latent_vectors_are_carried),
        cmocka_unit_test(b26_layers_are_counted_from_one),
        cmocka_unit_test(b26_lists_that_do_not_fit_are_refused),
        cmocka_unit_test(resaved_names_of_dense_layers_load),
        cmocka_unit_test(one_expert_is_a_plain_mlp_in_both_spellings),
        cmocka_unit_test(rotated_latent_attention_is_refused),
        cmocka_unit_test(the_training_length_has_another_name),
        cmocka_unit_test(every_failing_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
