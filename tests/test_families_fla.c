// Linear attention, RetNet, GLA and HGRN2 in flash-linear-attention's layout, and what holds for every
// family beside the delta rules: names, sizes, settings that are refused, and what must not change a
// loss. Models are reference dumps with tensors renamed, joined or changed.
#include "core/mem.h"
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

static const char *const every_dump[] = {
    "rwkv7-smallkey", "gla-ek05",   "retnet-old-bf16", "rwkv7-fuse",  "rwkv7-nofuse",    "gla-gqa",
    "hgrn2",          "hgrn2-conv", "retnet",          "linear_attn", "linear_attn-elu", NULL,
};

// Linear attentions -------------------------------------------------------------------------------

static void B37_of_two_eps_keys_norm_eps_counts(void **state) {
    (void)state;
    dump d = dump_open(KEPT "retnet-old-bf16");
    double got[DUMP_T];
    dump_losses(d.folder, PRECISION_F64, d.ids,
                "norm_eps 1e-06 and rms_norm_eps 1e-05: norm_eps counts", got);
    assert_true(dump_away(got, d.nll, DUMP_T - 1) <= 1e-9);
    tiny_model *t = tiny_load(d.folder);
    tiny_set(t, "rms_norm_eps", json_real(1e-6)); // the same: nothing to say about it
    dump_losses(tiny_save(t, "model"), PRECISION_F64, d.ids, "older MLP layout", got);
    assert_true(dump_away(got, d.nll, DUMP_T - 1) <= 1e-9);
    tiny_set(t, "norm_eps", NULL); // the older key alone
    dump_same(t, &d, "older MLP layout");
    tiny_set(t, "rms_norm_eps", json_real(-1e-6));
    REFUSED(t, ERR_INPUT, "norm_eps -1e-06");
    tiny_free(t);
    dump_free(&d);
}

static void the_output_norm_is_the_same_fused_and_plain(void **state) {
    (void)state;
    dump d = dump_open(KEPT "gla-ek05");
    tiny_model *t = tiny_load(d.folder);
    tiny_rename(t, "model.layers.0.attn.g_norm_swish_gate.weight",
                "model.layers.0.attn.g_norm.weight");
    dump_same(t, &d, NULL);
    tiny_drop(t, "model.layers.0.attn.g_norm.weight");
    REFUSED(t, ERR_MISSING, "model.layers.0.attn.g_norm_swish_gate.weight", "gla", "layer 0");
    tiny_free(t);
    dump_free(&d);
}

static void gates_of_gla_follow_their_settings(void **state) {
    (void)state;
    dump d = dump_open(KEPT "gla-ek05");
    tiny_model *t = tiny_load(d.folder);
    tiny_set(t, "clamp_min", json_real(-100));
    dump_same(t, &d, NULL);
    tiny_set(t, "clamp_min", json_real(-0.01));
    dump_differs(t, &d, 1e-3);
    tiny_set(t, "clamp_min", NULL);
    tiny_set(t, "gate_logit_normalizer", json_integer(16));
    dump_same(t, &d, NULL);
    tiny_set(t, "gate_logit_normalizer", json_integer(0));
    REFUSED(t, ERR_UNSUPPORTED, "gate_logit_normalizer 0", "16");
    tiny_set(t, "gate_logit_normalizer", NULL);
    tiny_set(t, "use_gv", json_true());
    REFUSED(t, ERR_UNSUPPORTED, "use_gv true");
    tiny_set(t, "use_gv", NULL);
    tiny_set(t, "use_output_gate", json_false());
    REFUSED(t, ERR_INPUT, "use_output_gate false", "g_proj.weight");
    tiny_set(t, "use_output_gate", json_true());
    tiny_set(t, "use_short_conv", json_true());
    REFUSED(t, ERR_MISSING, "use_short_conv true", "q_conv1d.weight");
    tiny_free(t);
    dump_free(&d);
}

// Key/value head j serves the query heads j g .. j g + g - 1: writing its rows g times is the same.
static void repeated_heads_are_what_grouped_heads_mean(void **state) {
    (void)state;
    dump d = dump_shared("gla-gqa");
    tiny_model *t = tiny_load(d.folder);
    static const char *const names[] = {"k_proj.weight",  "v_proj.weight",   "gk_proj.1.weight",
                                        "gk_proj.1.bias", "k_conv1d.weight", "v_conv1d.weight"};
    for (int L = 0; L < 2; L++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            tiny_tensor *x = tiny_get(t, "model.layers.%d.attn.%s", L, names[i]);
            int64_t head = x->n / 2;
            double *v = malloc((size_t)(2 * x->n) * sizeof *v);
            for (int h = 0; h < 4; h++)
                memcpy(v + h * head, x->v + h / 2 * head, (size_t)head * sizeof *v);
            free(x->v);
            x->v = v;
            x->n *= 2;
            x->dims[0] *= 2;
        }
    tiny_set(t, "num_kv_heads", NULL);
    dump_same(t, &d, NULL);
    tiny_set(t, "num_kv_heads", json_integer(3));
    REFUSED(t, ERR_INPUT, "num_heads 4", "num_kv_heads 3");
    tiny_free(t);
    dump_free(&d);
}

static void names_of_activations_and_maps_that_are_not_known_are_refused(void **state) {
    (void)state;
    dump d = dump_open(KEPT "gla-ek05");
    tiny_model *t = tiny_load(d.folder);
    tiny_set(t, "feature_map", json_string("taylor"));
    REFUSED(t, ERR_UNSUPPORTED, "feature_map \"taylor\"", "relu");
    tiny_set(t, "feature_map", json_string("identity"));
    dump_same(t, &d, NULL);
    tiny_set(t, "feature_map", NULL);
    tiny_set(t, "hidden_act", json_string("mish"));
    REFUSED(t, ERR_UNSUPPORTED, "hidden_act \"mish\"");
    tiny_set(t, "hidden_act", json_string("silu")); // another name of swish
    dump_same(t, &d, NULL);
    tiny_set(t, "elementwise_affine", json_false());
    REFUSED(t, ERR_UNSUPPORTED, "elementwise_affine");
    tiny_free(t);
    dump_free(&d);
    d = dump_open(KEPT "rwkv7-smallkey");
    t = tiny_load(d.folder);
    tiny_set(t, "hidden_act", json_string("gelu"));
    REFUSED(t, ERR_UNSUPPORTED, "hidden_act \"gelu\"");
    tiny_set(t, "hidden_act", json_string("relu2"));
    dump_same(t, &d, NULL);
    tiny_set(t, "intermediate_size", json_integer(96));
    REFUSED(t, ERR_INPUT, "ffn.key.weight", "[96, 48]");
    tiny_free(t);
    dump_free(&d);
}

static void sizes_that_do_not_divide_are_refused(void **state) {
    (void)state;
    dump d = dump_open(KEPT "gla-ek05");
    tiny_model *t = tiny_load(d.folder);
    tiny_set(t, "expand_k", json_real(0.51)); // 32.64: cut to 32, as in FLA
    dump_same(t, &d, NULL);
    tiny_set(t, "expand_k", json_real(0.52)); // 33 channels for 2 heads
    REFUSED(t, ERR_INPUT, "num_heads 2", "33 key");
    tiny_set(t, "expand_k", json_real(-1));
    REFUSED(t, ERR_INPUT, "key");
    tiny_set(t, "expand_k", json_real(0.25));
    REFUSED(t, ERR_INPUT, "q_proj.weight", "[16, 64]");
    tiny_free(t);
    dump_free(&d);
}

// Softmax over layers forgets what is added to a whole channel; layer 0 has no bound; a bound moves
// the others.
static void lower_bounds_of_hgrn2_are_a_softmax_over_layers(void **state) {
    (void)state;
    dump d = dump_shared("hgrn2");
    tiny_model *t = tiny_load(d.folder);
    tiny_tensor *x = tiny_get(t, "model.lower_bounds");
    for (int l = 0; l < 3; l++)
        for (int c = 0; c < 48; c++)
            x->v[l * 48 + c] += 3 * c - 70; // up to 71: exp alone would overflow a float
    x->dtype = "F64";
    dump_same(t, &d, NULL);
    for (int c = 0; c < 48; c++)
        x->v[2 * 48 + c] += 5;
    dump_differs(t, &d, 1e-2);
    tiny_set(t, "use_lower_bound", json_false());
    REFUSED(t, ERR_INPUT, "use_lower_bound false", "model.lower_bounds");
    tiny_free(t);
    t = tiny_load(d.folder);
    tiny_set(t, "num_heads", NULL); // expand_ratio alone, then num_heads alone
    dump_same(t, &d, NULL);
    tiny_set(t, "num_heads", json_integer(3));
    tiny_set(t, "expand_ratio", NULL);
    dump_same(t, &d, NULL);
    tiny_set(t, "expand_ratio", json_integer(24));
    REFUSED(t, ERR_INPUT, "expand_ratio 24", "num_heads 3");
    tiny_set(t, "expand_ratio", NULL);
    tiny_set(t, "num_heads", json_integer(64)); // more heads than channels: none of size 0
    REFUSED(t, ERR_INPUT, "num_heads 64", "hidden_size 48");
    tiny_free(t);
    dump_free(&d);
}

static void set_square(tiny_model *t, const char *name, int64_t n, double diagonal) {
    tiny_tensor *x = tiny_find(t, "%s", name);
    if (!x)
        x = tiny_add(t, name, 2, (int64_t[]){n, n});
    for (int64_t i = 0; i < x->n; i++)
        x->v[i] = i % (n + 1) == 0 ? diagonal : 0;
}

// Maps with weights chosen so that another map comes out.
static void feature_maps_agree_where_they_must(void **state) {
    (void)state;
    dump d = dump_shared("linear_attn");
    double want[DUMP_T], got[DUMP_T];
    tiny_model *t = tiny_load(d.folder), *plain = tiny_load(d.folder);
    char name[128];
    for (int L = 0; L < 2; L++) // identity x 1
        for (int i = 0; i < 2; i++) {
            const char *stem = i ? "feature_map_k" : "feature_map_q";
            for (int k = 1; k <= 2; k++) {
                snprintf(name, sizeof name, "model.layers.%d.attn.%s.layer%d.weight", L, stem, k);
                set_square(t, name, 16, k == 1 ? 1 : 0);
                tiny_drop(plain, name);
                snprintf(name, sizeof name, "model.layers.%d.attn.%s.layer%d.bias", L, stem, k);
                for (int c = 0; c < 16; c++)
                    tiny_get(t, "%s", name)->v[c] = k == 1 ? 0 : 1;
                tiny_drop(plain, name);
            }
        }
    tiny_set(plain, "feature_map", json_string("identity"));
    dump_losses(tiny_save(plain, "model"), PRECISION_F64, d.ids, NULL, want);
    dump_losses(tiny_save(t, "model"), PRECISION_F64, d.ids, NULL, got);
    assert_true(dump_away(want, got, DUMP_T - 1) <= 1e-12);
    assert_true(dump_away(want, d.nll, DUMP_T - 1) > 1e-2);
    // One stored copy of a tied map.
    tiny_set(t, "tie_feature_map_qk", json_true());
    for (int i = t->n - 1; i >= 0; i--)
        if (strstr(t->t[i].name, "feature_map_k"))
            tiny_drop(t, t->t[i].name);
    dump_losses(tiny_save(t, "model"), PRECISION_F64, d.ids, NULL, got);
    assert_true(dump_away(want, got, DUMP_T - 1) <= 1e-12);
    tiny_set(t, "tie_feature_map_qk", json_false());
    REFUSED(t, ERR_MISSING, "feature_map_k.layer1.weight");
    // relu(I x) = relu(x)
    tiny_set(plain, "feature_map", json_string("relu"));
    dump_losses(tiny_save(plain, "model"), PRECISION_F64, d.ids, NULL, want);
    for (int L = 0; L < 2; L++)
        for (int i = 0; i < 2; i++) {
            snprintf(name, sizeof name, "model.layers.%d.attn.feature_map_%c.layer.weight", L,
                     "qk"[i]);
            set_square(plain, name, 16, 1);
        }
    tiny_set(plain, "feature_map", json_string("t2r"));
    dump_losses(tiny_save(plain, "model"), PRECISION_F64, d.ids, NULL, got);
    assert_true(dump_away(want, got, DUMP_T - 1) <= 1e-12);
    tiny_set(plain, "feature_map", json_string("hedgehog"));
    REFUSED(plain, ERR_UNSUPPORTED, "feature_map \"hedgehog\"", "elementwise_product");
    tiny_set(plain, "feature_map", json_string("t2r"));
    tiny_set(plain, "output_norm", json_string("layernorm"));
    REFUSED(plain, ERR_UNSUPPORTED, "output_norm \"layernorm\"");
    tiny_free(t);
    tiny_free(plain);
    dump_free(&d);
}

// All families ------------------------------------------------------------------------------------

// B54: later blocks start from states, shifted rows, key sums and positions that are not zero.
static void B54_blocks_do_not_change_a_loss(void **state) {
    (void)state;
    static const int64_t blocks[] = {1, 7, 65, 200};
    dump d;
    for (int i = 0; dump_next(every_dump, &i, &d);) {
        err e = {0};
        double got[DUMP_T], worst = 0;
        backend *be = cpu_open(PRECISION_F64, 1, &e);
        model *m = model_open(d.folder, be, &e);
        assert_non_null(m);
        for (int b = 0; b < 4; b++) {
            dump_read(m, d.ids, DUMP_T, blocks[b], NULL, got);
            worst = fmax(worst, dump_away(got, d.nll, DUMP_T - 1));
        }
        print_message("measured %s in blocks of 1, 7, 65, 200: nll %.1e\n", d.folder, worst);
        assert_true(worst <= 1e-9);
        model_free(m);
        backend_close(be);
        dump_free(&d);
    }
}

static void a_reset_forgets_states_shifts_sums_and_positions(void **state) {
    (void)state;
    dump d;
    for (int i = 0; dump_next(every_dump, &i, &d);) {
        err e = {0};
        int32_t twice[2 * DUMP_T];
        double got[2 * DUMP_T];
        const int64_t start = DUMP_T;
        row_options opt = {.reset_id = -1, .starts = &start, .n_starts = 1};
        memcpy(twice, d.ids, sizeof twice / 2);
        memcpy(twice + DUMP_T, d.ids, sizeof twice / 2);
        backend *be = cpu_open(PRECISION_F64, 1, &e);
        model *m = model_open(d.folder, be, &e);
        assert_non_null(m);
        dump_read(m, twice, 2 * DUMP_T, 64, &opt, got);
        assert_true(dump_away(got, d.nll, DUMP_T - 1) <= 1e-9);
        assert_true(dump_away(got + DUMP_T, d.nll, DUMP_T - 1) <= 1e-9);
        model_free(m);
        backend_close(be);
        dump_free(&d);
    }
}

// B55: what BF16 on disk costs, as a number; float32 and float64 in a file stay what they are.
static void B55_a_bf16_copy_differs_by_a_reported_amount(void **state) {
    (void)state;
    dump d;
    for (int i = 0; dump_next(every_dump, &i, &d);) {
        double got[DUMP_T], mean = 0;
        tiny_model *t = tiny_load(d.folder);
        bool old = strstr(d.folder, "retnet-old") != NULL;
        for (int k = 0; k < t->n; k++)
            if (!strstr(t->t[k].name, "norm"))
                t->t[k].dtype = "BF16";
        dump_losses(tiny_save(t, "model"), PRECISION_F64, d.ids, old ? "MLP" : NULL, got);
        for (int k = 0; k < DUMP_T - 1; k++)
            mean += (got[k] - d.nll[k]) / (DUMP_T - 1);
        print_message("measured %s: a BF16 copy moves losses by up to %.1e, %+.1e in the mean\n",
                      d.folder, dump_away(got, d.nll, DUMP_T - 1), mean);
        if (old) // it was BF16 before
            assert_true(dump_away(got, d.nll, DUMP_T - 1) <= 1e-9);
        else
            assert_true(dump_away(got, d.nll, DUMP_T - 1) > 1e-6 && fabs(mean) < 0.1);
        tiny_free(t);
        dump_free(&d);
    }
}

// Layer 1 of a two-layer model as windowed attention: loads, reads the same in any blocks, and is no
// linear mixer.
static void hybrids_read_the_same_in_any_blocks(void **state) {
    (void)state;
    static const char *const names[] = {"rwkv7-smallkey", "gla-ek05", "hgrn2-conv",
                                        "linear_attn",    "retnet",   NULL};
    static const char *const parts[] = {"q", "k", "v", "o"};
    dump d;
    for (int i = 0; dump_next(names, &i, &d);) {
        tiny_model *t = tiny_load(d.folder);
        int64_t D = tiny_get(t, "model.norm.weight")->n;
        uint64_t seed = 7;
        for (int k = t->n - 1; k >= 0; k--)
            if (strstr(t->t[k].name, "layers.1.attn."))
                tiny_drop(t, t->t[k].name);
        for (int k = 0; k < 4; k++) {
            char name[128];
            int64_t half = k == 1 || k == 2 ? D / 2 : D;
            snprintf(name, sizeof name, "model.layers.1.attn.%s_proj.weight", parts[k]);
            tiny_tensor *x = tiny_add(t, name, 2, (int64_t[]){half, D});
            for (int64_t j = 0; j < x->n; j++)
                x->v[j] = (float)(0.2 * tiny_normal(&seed));
        }
        tiny_set(t, "attn",
                 json_pack("{s:[i], s:i, s:i, s:i}", "layers", 1, "num_heads", 4, "num_kv_heads", 2,
                           "window_size", 9));
        err e = {0};
        double whole[DUMP_T], cut[DUMP_T];
        backend *be = cpu_open(PRECISION_F64, 1, &e);
        model *m = model_open(tiny_save(t, "model"), be, &e);
        if (!m)
            fail_msg("%s: %s", d.folder, e.text);
        assert_int_equal(m->leftover.n, 0);
        assert_non_null(model_mixer(m, 0));
        assert_null(model_mixer(m, 1));
        dump_read(m, d.ids, DUMP_T, DUMP_T, NULL, whole);
        dump_read(m, d.ids, DUMP_T, 11, NULL, cut);
        assert_true(dump_away(whole, cut, DUMP_T - 1) <= 1e-11);
        assert_true(dump_away(whole, d.nll, DUMP_T - 1) > 1e-2);
        model_free(m);
        backend_close(be);
        tiny_free(t);
        dump_free(&d);
    }
}

static void missing_tensors_are_listed_without_a_backend(void **state) {
    (void)state;
    dump d;
    for (int i = 0; dump_next(every_dump, &i, &d);) {
        err e = {0};
        tiny_model *t = tiny_load(d.folder);
        tiny_drop(t, "model.layers.1.attn.o_proj.weight");
        model *m = model_open(tiny_save(t, "model"), NULL, &e);
        if (!m)
            fail_msg("%s: %s", d.folder, e.text);
        assert_int_equal(m->missing.n, 1);
        assert_string_equal(m->missing.v[0], "model.layers.1.attn.o_proj.weight");
        assert_int_equal(m->leftover.n, 0);
        model_free(m);
        tiny_free(t);
        dump_free(&d);
    }
}

// Every allocation of opening and reading may fail: an error, nothing lost, nothing kept.
static void failing_allocations_are_errors(void **state) {
    (void)state;
    static const char *const names[] = {"rwkv7-smallkey", "gla-ek05",        "retnet-old-bf16",
                                        "hgrn2",          "linear_attn-elu", NULL};
    dump d;
    for (int i = 0; dump_next(names, &i, &d);) {
        long n = 1;
        for (bool whole = false; !whole && n < 5000; n++) {
            err e = {0};
            backend *be = cpu_open(PRECISION_F32, 1, &e);
            mem_fail_after(n);
            model *m = model_open(d.folder, be, &e);
            fwd *f = m ? fwd_new(m, 8, 20, &e) : NULL;
            whole = f && fwd_row(f, d.ids, 20, NULL, NULL, 0, NULL, NULL, &e);
            mem_fail_after(0);
            assert_true(whole || e.code == ERR_NOMEM);
            fwd_free(f);
            model_free(m);
            backend_close(be);
        }
        assert_true(n > 40 && n < 5000);
        dump_free(&d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(B37_of_two_eps_keys_norm_eps_counts),
        cmocka_unit_test(the_output_norm_is_the_same_fused_and_plain),
        cmocka_unit_test(gates_of_gla_follow_their_settings),
        cmocka_unit_test(repeated_heads_are_what_grouped_heads_mean),
        cmocka_unit_test(names_of_activations_and_maps_that_are_not_known_are_refused),
        cmocka_unit_test(sizes_that_do_not_divide_are_refused),
        cmocka_unit_test(lower_bounds_of_hgrn2_are_a_softmax_over_layers),
        cmocka_unit_test(feature_maps_agree_where_they_must),
        cmocka_unit_test(B54_blocks_do_not_change_a_loss),
        cmocka_unit_test(a_reset_forgets_states_shifts_sums_and_positions),
        cmocka_unit_test(B55_a_bf16_copy_differs_by_a_reported_amount),
        cmocka_unit_test(hybrids_read_the_same_in_any_blocks),
        cmocka_unit_test(missing_tensors_are_listed_without_a_backend),
        cmocka_unit_test(failing_allocations_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
