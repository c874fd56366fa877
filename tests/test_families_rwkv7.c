// RWKV-7 in flash-linear-attention's layout: names old and new, sizes from tensors, settings that are
// refused, and what must not change a loss. Models are reference dumps with tensors renamed, joined
// or changed.
#include "kernels/cpu/cpu.h"
#include "tests/dumps.h"
#include "tests/files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const mixes[] = {"x_r", "x_w", "x_k", "x_v", "x_a", "x_g"};

// Rows of x_x in the order given.
static void join_mixes(tiny_model *t, int L, const int order[6]) {
    char name[128];
    int64_t D = tiny_get(t, "model.norm.weight")->n, dims[] = {6, D};
    snprintf(name, sizeof name, "model.layers.%d.attn.x_x", L);
    tiny_add(t, name, 2, dims);
    for (int i = 0; i < 6; i++) {
        tiny_tensor *from = tiny_get(t, "model.layers.%d.attn.%s", L, mixes[order[i]]);
        memcpy(tiny_get(t, "%s", name)->v + i * D, from->v, (size_t)D * sizeof(double));
    }
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "model.layers.%d.attn.%s", L, mixes[i]);
        tiny_drop(t, name);
    }
}

static void B20_the_old_token_shift_tensor_holds_r_w_k_v_a_g(void **state) {
    (void)state;
    dump d = dump_open(KEPT "rwkv7-smallkey");
    const int right[] = {0, 1, 2, 3, 4, 5}, wrong[] = {0, 2, 1, 3, 4, 5};
    tiny_model *t = tiny_load(d.folder);
    join_mixes(t, 0, right);
    join_mixes(t, 1, right);
    dump_same(t, &d, "x_x holds the token-shift weights r, w, k, v, a, g");
    tiny_free(t);
    double got[DUMP_T];
    t = tiny_load(d.folder);
    join_mixes(t, 0, wrong);
    join_mixes(t, 1, wrong);
    dump_losses(tiny_save(t, "model"), PRECISION_F64, d.ids, "x_x", got);
    assert_true(dump_away(got, d.nll, DUMP_T - 1) > 1e-2);
    tiny_free(t);
    dump_free(&d);
}

static void B25_num_heads_may_be_null_and_value_dim_absent(void **state) {
    (void)state;
    dump d = dump_open(KEPT "rwkv7-smallkey");
    tiny_model *t = tiny_load(d.folder);
    assert_true(json_is_null(json_object_get(t->config, "num_heads")));
    assert_null(json_object_get(t->config, "value_dim"));
    dump_same(t, &d, NULL);
    tiny_set(t, "head_dim", NULL); // the other way round
    tiny_set(t, "num_heads", json_integer(3));
    tiny_set(t, "value_dim", json_pack("[i,i]", 48, 48));
    dump_same(t, &d, NULL);
    tiny_set(t, "value_dim", json_pack("[i]", 48));
    REFUSED(t, ERR_INPUT, "value_dim", "layer 1");
    tiny_set(t, "value_dim", json_integer(48));
    tiny_set(t, "num_heads", json_integer(5));
    REFUSED(t, ERR_INPUT, "num_heads 5", "hidden_size 48");
    tiny_set(t, "num_heads", json_integer(0));
    REFUSED(t, ERR_INPUT, "num_heads");
    tiny_free(t);
    dump_free(&d);
}

static void B59_fuse_norm_decides_the_eps_of_the_removal_key(void **state) {
    (void)state;
    dump d = dump_open(KEPT "rwkv7-smallkey");
    double *plain = dump_numbers(d.folder, "nll_nofuse.npy"), got[DUMP_T];
    tiny_model *t = tiny_load(d.folder);
    dump_same(t, &d, NULL);
    tiny_set(t, "fuse_norm", json_false());
    dump_losses(tiny_save(t, "model"), PRECISION_F64, d.ids, NULL, got);
    double worst = dump_away(got, plain, DUMP_T - 1), apart = dump_away(plain, d.nll, DUMP_T - 1);
    print_message("measured rwkv7 fuse_norm false: nll %.1e from its reference; the two settings "
                  "are up to %.2f nat apart\n",
                  worst, apart);
    assert_true(worst <= 1e-9);
    assert_true(apart > 0.1);
    free(plain);
    tiny_free(t);
    dump_free(&d);
}

// Key 0: 0 / 0 without an eps. kappa = 0 means nothing is erased, with either form of the norm.
static void B59_a_zero_removal_key_is_finite_in_both_forms(void **state) {
    (void)state;
    dump d = dump_open(KEPT "rwkv7-smallkey");
    double fused[DUMP_T], plain[DUMP_T];
    tiny_model *t = tiny_load(d.folder);
    for (int L = 0; L < 2; L++)
        memset(tiny_get(t, "model.layers.%d.attn.k_k", L)->v, 0, 48 * sizeof(double));
    for (int i = 0; i < 48; i++) // and a token without an embedding
        tiny_get(t, "model.embeddings.weight")->v[d.ids[5] * 48 + i] = 0;
    dump_losses(tiny_save(t, "model"), PRECISION_F64, d.ids, NULL, fused);
    tiny_set(t, "fuse_norm", json_false());
    dump_losses(tiny_save(t, "model"), PRECISION_F64, d.ids, NULL, plain);
    for (int i = 0; i < DUMP_T - 1; i++)
        assert_true(isfinite(fused[i]));
    assert_true(dump_away(fused, plain, DUMP_T - 1) == 0);
    dump_losses(tiny_save(t, "model"), PRECISION_F32, d.ids, NULL, plain);
    assert_true(dump_away(fused, plain, DUMP_T - 1) <
                1e-4); // float32 losses, as in the parity tests
    tiny_free(t);
    dump_free(&d);
}

static void B106_value_residual_tensors_of_layer_0_are_dead_and_listed(void **state) {
    (void)state;
    dump d = dump_open(KEPT "rwkv7-smallkey");
    tiny_model *t = tiny_load(d.folder);
    dump_add(t, "model.layers.0.attn.v_lora.lora.0.weight", 2, (int64_t[]){6, 48}, 0.7);
    dump_add(t, "model.layers.0.attn.v_lora.lora.2.weight", 2, (int64_t[]){48, 6}, 0.3);
    dump_add(t, "model.layers.0.attn.v_lora.lora.2.bias", 1, (int64_t[]){48}, 2);
    dump_same(t, &d, "model.layers.0.attn.v_lora.lora.0.weight is in the file and unused");
    tiny_drop(t, "model.layers.1.attn.v_lora.lora.2.bias"); // there it is alive
    REFUSED(t, ERR_MISSING, "model.layers.1.attn.v_lora.lora.2.bias", "rwkv7", "layer 1");
    tiny_free(t);
    dump_free(&d);
}

static void B107_older_rwkv_key_sets_are_told_by_their_tensors(void **state) {
    (void)state;
    static const struct {
        const char *tensor, *what;
    } sets[] = {
        {"blocks.0.att.time_maa_w1", "RWKV-6"}, {"model.layers.0.attn.x_proj.0.weight", "RWKV-6"},
        {"blocks.0.att.time_mix_k", "RWKV-5"},  {"blocks.0.att.time_faaaa", "RWKV-5 or RWKV-6"},
        {"blocks.0.att.r_k", "native names"},
    };
    dump d = dump_open(KEPT "rwkv7-smallkey");
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        tiny_model *t = tiny_load(d.folder);
        dump_add(t, sets[i].tensor, 1, (int64_t[]){48}, 0);
        REFUSED(t, ERR_UNSUPPORTED, "rwkv7", sets[i].tensor, sets[i].what);
        tiny_free(t);
    }
    tiny_model *t = tiny_load(d.folder);
    tiny_set(t, "model_type", json_string("rwkv6"));
    REFUSED(t, ERR_UNSUPPORTED, "\"rwkv6\" is not known here", "rwkv7");
    tiny_set(t, "model_type", json_string("rwkv5"));
    REFUSED(t, ERR_UNSUPPORTED, "\"rwkv5\" is not known here", "rwkv7");
    tiny_free(t);
    dump_free(&d);
}

// One more row and column of zeros for a low-rank pair: another rank, the same function.
static void widen(tiny_model *t, const char *stem) {
    tiny_tensor *down = tiny_get(t, "%s.0.weight", stem), *up = tiny_get(t, "%s.2.weight", stem);
    int64_t r = down->dims[0], D = down->dims[1], out = up->dims[0];
    down->v = realloc(down->v, (size_t)((r + 1) * D) * sizeof *down->v);
    double *v = calloc((size_t)(out * (r + 1)), sizeof *v);
    assert_non_null(down->v);
    assert_non_null(v);
    for (int64_t i = 0; i < D; i++)
        down->v[r * D + i] = 0.25; // reaches zeros only
    for (int64_t i = 0; i < out; i++)
        memcpy(v + i * (r + 1), up->v + i * r, (size_t)r * sizeof *v);
    free(up->v);
    up->v = v;
    down->dims[0] = up->dims[1] = r + 1;
    down->n = (r + 1) * D;
    up->n = out * (r + 1);
}

static void B109_low_ranks_come_from_the_shapes(void **state) {
    (void)state;
    dump d = dump_open(KEPT "rwkv7-smallkey");
    tiny_model *t = tiny_load(d.folder);
    for (int L = 0; L < 2; L++)
        for (int i = 0; i < 4; i++) {
            char stem[128];
            snprintf(stem, sizeof stem, "model.layers.%d.attn.%c_lora.lora", L, "wagv"[i]);
            for (int k = 0; k <= i && (L > 0 || i < 3); k++)
                widen(t, stem);
        }
    dump_same(t, &d, "decay_low_rank_dim is 8 in the config; the tensors have rank 9 and count");
    static const char *const keys[] = {"decay_low_rank_dim", "a_low_rank_dim", "gate_low_rank_dim",
                                       "v_low_rank_dim"};
    for (int i = 0; i < 4; i++) // silent configs have nothing to contradict
        tiny_set(t, keys[i], NULL);
    dump_same(t, &d, NULL);
    tiny_free(t);
    dump_free(&d);
}

static void B109_stray_keys_are_listed_and_holes_are_errors(void **state) {
    (void)state;
    dump d = dump_open(KEPT "rwkv7-smallkey");
    tiny_model *t = tiny_load(d.folder);
    dump_add(t, "blocks.extra.x", 1, (int64_t[]){4}, 0);
    dump_add(t, "model.layers.extra.attn.r_k", 1, (int64_t[]){4}, 0);
    err e = {0};
    double got[DUMP_T];
    backend *be = cpu_open(PRECISION_F64, 1, &e);
    model *m = model_open(tiny_save(t, "model"), be, &e);
    assert_non_null(m);
    assert_int_equal(m->info.n_layers, 2);
    assert_int_equal(m->leftover.n, 2);
    assert_string_equal(m->leftover.v[0], "blocks.extra.x");
    assert_string_equal(m->leftover.v[1], "model.layers.extra.attn.r_k");
    dump_read(m, d.ids, DUMP_T, 64, NULL, got);
    assert_true(dump_away(got, d.nll, DUMP_T - 1) <= 1e-9);
    model_free(m);
    backend_close(be);
    for (int i = 0; i < t->n; i++) { // layers 0 and 2
        char *at = strstr(t->t[i].name, "layers.1.");
        if (at)
            at[7] = '2';
    }
    tiny_set(t, "num_hidden_layers", json_integer(3));
    REFUSED(t, ERR_MISSING, "model.layers.1.", "layer 1");
    tiny_free(t);
    dump_free(&d);
}

static void B110_more_embedding_rows_than_the_config_says_are_refused(void **state) {
    (void)state;
    dump d = dump_open(KEPT "rwkv7-smallkey");
    tiny_model *t = tiny_load(d.folder);
    join_mixes(t, 0, (int[]){0, 1, 2, 3, 4, 5});
    join_mixes(t, 1, (int[]){0, 1, 2, 3, 4, 5});
    tiny_set(t, "vocab_size", json_integer(158));
    REFUSED(t, ERR_INPUT, "model.embeddings.weight", "[160, 48]", "[158, 48]");
    tiny_free(t);
    dump_free(&d);
}

static void pre_norm_and_norm_biases_follow_the_config(void **state) {
    (void)state;
    dump d = dump_open(KEPT "rwkv7-smallkey");
    tiny_model *t = tiny_load(d.folder);
    tiny_set(t, "norm_first", json_false());
    REFUSED(t, ERR_INPUT, "norm_first false", "pre_norm.weight");
    tiny_set(t, "norm_first", NULL); // the file tells
    dump_same(t, &d, NULL);
    tiny_set(t, "norm_first", json_true());
    tiny_drop(t, "model.layers.0.pre_norm.weight");
    REFUSED(t, ERR_MISSING, "norm_first true", "pre_norm.weight");
    tiny_free(t);
    t = tiny_load(d.folder);
    tiny_drop(t, "model.norm.bias");
    REFUSED(t, ERR_MISSING, "model.norm.bias");
    // Without norm_bias no norm of the residual stream has one.
    tiny_free(t);
    t = tiny_load(d.folder);
    for (int i = t->n - 1; i >= 0; i--)
        if (strstr(t->t[i].name, "norm.bias") && !strstr(t->t[i].name, "g_norm"))
            tiny_drop(t, t->t[i].name);
    tiny_set(t, "norm_bias", json_false());
    dump_differs(t, &d, 1e-3);
    tiny_free(t);
    dump_free(&d);
}

static void a_hybrid_of_rwkv7_needs_values_in_layer_0(void **state) {
    (void)state;
    dump d = dump_open(KEPT "rwkv7-smallkey");
    tiny_model *t = tiny_load(d.folder);
    for (int i = t->n - 1; i >= 0; i--)
        if (strstr(t->t[i].name, "layers.0.attn."))
            tiny_drop(t, t->t[i].name);
    static const char *const names[] = {"q", "k", "v", "o"};
    for (int i = 0; i < 4; i++) {
        char name[128];
        snprintf(name, sizeof name, "model.layers.0.attn.%s_proj.weight", names[i]);
        dump_add(t, name, 2, (int64_t[]){48, 48}, 0.01);
    }
    tiny_set(t, "attn", json_pack("{s:[i], s:i}", "layers", 0, "num_heads", 4));
    REFUSED(t, ERR_UNSUPPORTED, "values of layer 0");
    tiny_free(t);
    dump_free(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(B20_the_old_token_shift_tensor_holds_r_w_k_v_a_g),
        cmocka_unit_test(B25_num_heads_may_be_null_and_value_dim_absent),
        cmocka_unit_test(B59_fuse_norm_decides_the_eps_of_the_removal_key),
        cmocka_unit_test(B59_a_zero_removal_key_is_finite_in_both_forms),
        cmocka_unit_test(B106_value_residual_tensors_of_layer_0_are_dead_and_listed),
        cmocka_unit_test(B107_older_rwkv_key_sets_are_told_by_their_tensors),
        cmocka_unit_test(B109_low_ranks_come_from_the_shapes),
        cmocka_unit_test(B109_stray_keys_are_listed_and_holes_are_errors),
        cmocka_unit_test(B110_more_embedding_rows_than_the_config_says_are_refused),
        cmocka_unit_test(pre_norm_and_norm_biases_follow_the_config),
        cmocka_unit_test(a_hybrid_of_rwkv7_needs_values_in_layer_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
