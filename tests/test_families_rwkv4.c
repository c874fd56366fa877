// RWKV-4 against plain loops that keep every token: sums of exponentials over the whole past in long
// double, no running maximum. The reference dump is read in tests/test_parity.c.
#include "core/families/family.h"
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

enum { D = 6, C = 8, WIDE = 10, L = 2, N = 24 };

// key_scale: how large keys get.
static tiny_model *rwkv4(double key_scale, double eps, bool tied, uint64_t seed) {
    static const char *const mixes[] = {"receptance", "key", "value"};
    tiny_model *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->s.seed = seed;
    tiny_put(t, "rwkv.embeddings.weight", N, D, 0, 0.8);
    if (!tied)
        tiny_put(t, "head.weight", N, D, 0, 0.5);
    tiny_put(t, "rwkv.ln_out.weight", D, 0, 1, 0.2);
    tiny_put(t, "rwkv.ln_out.bias", D, 0, 0, 0.2);
    for (int b = 0; b < L; b++) {
        for (int i = b == 0 ? 0 : 1; i < 3; i++) {
            static const char *const norms[] = {"pre_ln", "ln1", "ln2"};
            tiny_put(t, hf_name("rwkv.blocks.%d.%s.weight", b, norms[i]), D, 0, 1, 0.2);
            tiny_put(t, hf_name("rwkv.blocks.%d.%s.bias", b, norms[i]), D, 0, 0, 0.2);
        }
        for (int i = 0; i < 3; i++) {
            const int64_t one[] = {1, 1, D};
            tiny_tensor *m =
                tiny_add(t, hf_name("rwkv.blocks.%d.attention.time_mix_%s", b, mixes[i]), 3, one);
            for (int j = 0; j < D; j++)
                m->v[j] = (float)(0.5 + 0.3 * tiny_normal(&t->s.seed));
            tiny_put(t, hf_name("rwkv.blocks.%d.attention.%s.weight", b, mixes[i]), C, D, 0,
                     i == 1 ? key_scale : 0.6);
        }
        for (int i = 0; i < 2; i++) {
            const int64_t one[] = {1, 1, D};
            tiny_tensor *m = tiny_add(
                t, hf_name("rwkv.blocks.%d.feed_forward.time_mix_%s", b, mixes[i]), 3, one);
            for (int j = 0; j < D; j++)
                m->v[j] = (float)(0.5 + 0.3 * tiny_normal(&t->s.seed));
        }
        tiny_put(t, hf_name("rwkv.blocks.%d.attention.output.weight", b), D, C, 0, 0.5);
        tiny_put(t, hf_name("rwkv.blocks.%d.attention.time_decay", b), C, 0, -1, 1);
        tiny_put(t, hf_name("rwkv.blocks.%d.attention.time_first", b), C, 0, 0, 1);
        tiny_put(t, hf_name("rwkv.blocks.%d.feed_forward.receptance.weight", b), D, D, 0, 0.6);
        tiny_put(t, hf_name("rwkv.blocks.%d.feed_forward.key.weight", b), WIDE, D, 0, 0.6);
        tiny_put(t, hf_name("rwkv.blocks.%d.feed_forward.value.weight", b), D, WIDE, 0, 0.4);
    }
    t->config =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:i, s:b}", "model_type", "rwkv",
                  "hidden_size", D, "attention_hidden_size", C, "intermediate_size", WIDE,
                  "num_hidden_layers", L, "vocab_size", N, "context_length", 64,
                  "layer_norm_epsilon", eps, "rescale_every", 6, "tie_word_embeddings", tied);
    assert_non_null(t->config);
    return t;
}

static void times(const tiny_tensor *w, const double *x, double *y) {
    for (int64_t i = 0; i < w->dims[0]; i++) {
        y[i] = 0;
        for (int64_t j = 0; j < w->dims[1]; j++)
            y[i] += w->v[i * w->dims[1] + j] * x[j];
    }
}

static void layer_norm(const tiny_model *t, const char *name, const double *x, double eps,
                       double *y) {
    const double *w = tiny_get(t, "%s.weight", name)->v, *b = tiny_get(t, "%s.bias", name)->v;
    double mean = 0, var = 0;
    for (int i = 0; i < D; i++)
        mean += x[i] / D;
    for (int i = 0; i < D; i++)
        var += (x[i] - mean) * (x[i] - mean) / D;
    for (int i = 0; i < D; i++)
        y[i] = (x[i] - mean) / sqrt(var + eps) * w[i] + b[i];
}

// W (x m + before (1 - m)) of PART ("attention.key").
static void shifted(const tiny_model *t, int b, const char *half, const char *part, const double *x,
                    const double *before, double *y) {
    double in[D];
    const double *m = tiny_get(t, "rwkv.blocks.%d.%s.time_mix_%s", b, half, part)->v;
    for (int i = 0; i < D; i++)
        in[i] = x[i] * m[i] + before[i] * (1 - m[i]);
    times(tiny_get(t, "rwkv.blocks.%d.%s.%s.weight", b, half, part), in, y);
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static void plain(const tiny_model *t, double eps, double *loss) {
    static double n1[HF_T + 1][D], n2[HF_T + 1][D], k[HF_T][C], v[HF_T][C], x[HF_T][D];
    const tiny_tensor *embed = tiny_get(t, "rwkv.embeddings.weight");
    const tiny_tensor *head = tiny_find(t, "head.weight");
    for (int i = 0; i < HF_T; i++)
        layer_norm(t, "rwkv.blocks.0.pre_ln", embed->v + hf_ids[i] * D, eps, x[i]);
    for (int b = 0; b < L; b++) {
        const double *w = tiny_get(t, "rwkv.blocks.%d.attention.time_decay", b)->v;
        const double *u = tiny_get(t, "rwkv.blocks.%d.attention.time_first", b)->v;
        for (int i = 0; i < HF_T; i++) {
            double r[C], o[C], y[D], wide[WIDE];
            layer_norm(t, hf_name("rwkv.blocks.%d.ln1", b), x[i], eps, n1[i + 1]);
            shifted(t, b, "attention", "receptance", n1[i + 1], n1[i], r);
            shifted(t, b, "attention", "key", n1[i + 1], n1[i], k[i]);
            shifted(t, b, "attention", "value", n1[i + 1], n1[i], v[i]);
            for (int c = 0; c < C; c++) {
                long double num = 0, den = 0;
                for (int j = 0; j <= i; j++) {
                    long double at =
                        j == i ? (long double)u[c] + k[i][c] : k[j][c] - (i - 1 - j) * expl(w[c]);
                    num += expl(at) * v[j][c];
                    den += expl(at);
                }
                o[c] = sigmoid(r[c]) * (double)(num / den);
            }
            times(tiny_get(t, "rwkv.blocks.%d.attention.output.weight", b), o, y);
            for (int c = 0; c < D; c++)
                x[i][c] += y[c];
            layer_norm(t, hf_name("rwkv.blocks.%d.ln2", b), x[i], eps, n2[i + 1]);
            shifted(t, b, "feed_forward", "key", n2[i + 1], n2[i], wide);
            shifted(t, b, "feed_forward", "receptance", n2[i + 1], n2[i], r);
            for (int c = 0; c < WIDE; c++)
                wide[c] = wide[c] > 0 ? wide[c] * wide[c] : 0;
            times(tiny_get(t, "rwkv.blocks.%d.feed_forward.value.weight", b), wide, y);
            for (int c = 0; c < D; c++)
                x[i][c] += sigmoid(r[c]) * y[c];
        }
    }
    for (int i = 0; i + 1 < HF_T; i++) {
        double n[D], logits[N], sum = 0;
        layer_norm(t, "rwkv.ln_out", x[i], 1e-5, n);
        times(head ? head : embed, n, logits);
        for (int c = 0; c < N; c++)
            sum += exp(logits[c]);
        loss[i] = log(sum) - logits[hf_ids[i + 1]];
    }
}

// Keys of ordinary size, and of up to some thousand, whose exponentials no float or double holds; in
// blocks that cut anywhere.
static void losses_agree_with_sums_over_the_whole_past(void **state) {
    (void)state;
    const double scales[] = {0.6, 40, 600};
    const int64_t blocks[] = {1, 7, 40};
    for (int s = 0; s < 3; s++) {
        double want[HF_T], got[HF_T], worst = 0;
        tiny_model *t = rwkv4(scales[s], 1e-5, s == 1, 10 + s);
        plain(t, 1e-5, want);
        const char *folder = tiny_save(t, "model");
        for (int i = 0; i < 3; i++) {
            hf_read(folder, hf_ids, HF_T, PRECISION_F64, blocks[i], got);
            worst = fmax(worst, hf_away(want, got, HF_T - 1));
        }
        hf_read(folder, hf_ids, HF_T, PRECISION_F32, 16, got);
        double single = hf_away(want, got, HF_T - 1);
        print_message("measured keys x %g: %.1e nats in float64, %.1e in float32\n", scales[s],
                      worst, single);
        assert_true(worst <= 1e-11 && single <= 1e-4);
        tiny_free(t);
    }
}

// layer_norm_epsilon reaches every norm but the last.
static void the_last_norm_has_its_own_eps(void **state) {
    (void)state;
    double want[HF_T];
    tiny_model *t = rwkv4(0.6, 1e-1, false, 20);
    plain(t, 1e-1, want);
    hf_same(t, want);
    tiny_free(t);
}

static void there_is_no_matrix_to_look_at(void **state) {
    (void)state;
    tiny_model *t = rwkv4(0.6, 1e-5, false, 21);
    model *m = hf_inspected(t);
    for (int b = 0; b < L; b++)
        assert_null(model_mixer(m, b));
    assert_int_equal(model_state_bytes(m), 0);
    // Token before (twice) and three rows of averages, in float32.
    assert_int_equal(model_carry_bytes(m, 4), L * 4 * (2 * D + 3 * C));
    assert_int_equal(m->info.train_length, 64);
    model_free(m);
    tiny_free(t);
}

static void what_is_missing_is_named(void **state) {
    (void)state;
    tiny_model *t = rwkv4(0.6, 1e-5, false, 22);
    tiny_drop(t, "rwkv.blocks.1.attention.time_first");
    REFUSED(t, ERR_MISSING, "rwkv.blocks.1.attention.time_first", "rwkv, layer 1");
    tiny_drop(t, "rwkv.blocks.0.feed_forward.time_mix_receptance");
    model *m = hf_inspected(t);
    assert_int_equal(m->missing.n, 2);
    model_free(m);
    tiny_free(t);
    t = rwkv4(0.6, 1e-5, false, 23);
    tiny_set(t, "attention_hidden_size", json_integer(7));
    REFUSED(t, ERR_INPUT, "has shape [8]", "[1, 7]");
    tiny_free(t);
}

static void every_failing_allocation_is_an_error(void **state) {
    (void)state;
    tiny_model *t = rwkv4(0.6, 1e-5, false, 24);
    hf_every_allocation(t);
    tiny_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_agree_with_sums_over_the_whole_past),
        cmocka_unit_test(the_last_norm_has_its_own_eps),
        cmocka_unit_test(there_is_no_matrix_to_look_at),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(every_failing_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
