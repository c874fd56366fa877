// Mixture of experts: which experts a token goes to, by hand, and a layer of Nemotron-H's experts
// (which no reference dump holds) against plain loops. Granite's experts are in test_parity.c.
#include "core/forward.h"
#include "core/modules/moe.h"
#include "kernels/cpu/cpu.h"
#include "tests/files.h"
#include "tests/tiny_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void routed(const router *r, const double *logits, const double *bias, const int32_t *expert,
                   const double *weight) {
    double score[32], w[16];
    int32_t e[16];
    moe_route(r, logits, bias, score, e, w);
    for (int64_t j = 0; j < r->top_k; j++) {
        assert_int_equal(e[j], expert[j]);
        assert_true(fabs(w[j] - weight[j]) <= 1e-15);
    }
}

// Logits are logs of whole numbers, so that softmax gives fractions.
static void softmax_routers_differ_in_what_they_divide_by(void **state) {
    (void)state;
    const double logits[] = {log(1), log(4), log(3), log(2)};
    router r = {.kind = ROUTER_SOFTMAX, .experts = 4, .top_k = 2};
    routed(&r, logits, NULL, (int32_t[]){1, 2}, (double[]){0.4, 0.3});
    r.renormalize = true;
    routed(&r, logits, NULL, (int32_t[]){1, 2}, (double[]){4 / 7.0, 3 / 7.0});
    r.scaling = 2.5;
    routed(&r, logits, NULL, (int32_t[]){1, 2}, (double[]){10 / 7.0, 7.5 / 7.0});
    router chosen = {.kind = ROUTER_CHOSEN_SOFTMAX, .experts = 4, .top_k = 3};
    routed(&chosen, logits, NULL, (int32_t[]){1, 2, 3}, (double[]){4 / 9.0, 3 / 9.0, 2 / 9.0});
}

static void a_bias_chooses_and_does_not_weigh(void **state) {
    (void)state;
    const double logits[] = {log(1), log(3), log(1 / 3.0)}; // p = 1/2, 3/4, 1/4
    const double bias[] = {0, -1, 0.5};
    router r = {.kind = ROUTER_SIGMOID, .experts = 3, .top_k = 2};
    routed(&r, logits, NULL, (int32_t[]){1, 0}, (double[]){0.75, 0.5});
    routed(&r, logits, bias, (int32_t[]){2, 0}, (double[]){0.25, 0.5});
    r.renormalize = true;
    r.scaling = 3;
    routed(&r, logits, bias, (int32_t[]){2, 0}, (double[]){1, 2});
}

// Two of three groups by the sum of their two best: {5, 0}, {3, 3}, {4, 1} keep the last two.
static void groups_are_ranked_by_the_sum_of_their_two_best(void **state) {
    (void)state;
    const double p[] = {0.5, 0.01, 0.3, 0.31, 0.4, 0.2};
    double logits[6];
    for (int i = 0; i < 6; i++)
        logits[i] = log(p[i] / (1 - p[i]));
    router r = {.kind = ROUTER_SIGMOID, .experts = 6, .top_k = 3, .groups = 3, .top_groups = 2};
    routed(&r, logits, NULL, (int32_t[]){4, 3, 2}, (double[]){0.4, 0.31, 0.3});
    r.groups = r.top_groups = 1;
    routed(&r, logits, NULL, (int32_t[]){0, 4, 3}, (double[]){0.5, 0.4, 0.31});
}

static void equal_scores_go_to_the_lower_expert_and_nan_to_none(void **state) {
    (void)state;
    const double equal[] = {0, 0, 0, 0}, far[] = {-2000, -1000, 0, 2000};
    double bad[] = {NAN, 1, NAN, NAN}, score[8], w[2];
    int32_t e[2];
    router r = {.kind = ROUTER_CHOSEN_SOFTMAX, .experts = 4, .top_k = 2};
    routed(&r, equal, NULL, (int32_t[]){0, 1}, (double[]){0.5, 0.5});
    routed(&r, far, NULL, (int32_t[]){3, 2}, (double[]){1, 0}); // exp(-2000) is 0, the order stays
    moe_route(&r, bad, NULL, score, e, w);
    assert_int_equal(e[0], 1);
    assert_true(e[1] >= 0 && e[1] < 4 && isnan(w[1]));
}

// One layer of experts --------------------------------------------------------------------------

enum { D = 8, E = 6, K = 2, W = 5, S = 7, N = 20, T = 30 };

static tiny_tensor *put(tiny_model *m, const char *name, int64_t rows, int64_t cols, double mean,
                        double deviation) {
    const int64_t dims[] = {rows, cols};
    tiny_tensor *t = tiny_add(m, name, cols ? 2 : 1, dims);
    for (int64_t i = 0; i < t->n; i++)
        t->v[i] = (float)(mean + deviation * tiny_normal(&m->s.seed));
    return t;
}

static tiny_model *experts_model(void) {
    tiny_model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->s.seed = 5;
    put(m, "backbone.embeddings.weight", N, D, 0, 1);
    put(m, "backbone.norm_f.weight", D, 0, 1, 0.2);
    put(m, "lm_head.weight", N, D, 0, 1);
    put(m, "backbone.layers.0.norm.weight", D, 0, 1, 0.2);
    put(m, "backbone.layers.0.mixer.gate.weight", E, D, 0, 0.5);
    put(m, "backbone.layers.0.mixer.gate.e_score_correction_bias", E, 0, 0, 0.3);
    for (int e = 0; e < E; e++) {
        char name[128];
        snprintf(name, sizeof name, "backbone.layers.0.mixer.experts.%d.up_proj.weight", e);
        put(m, name, W, D, 0, 0.5);
        snprintf(name, sizeof name, "backbone.layers.0.mixer.experts.%d.down_proj.weight", e);
        put(m, name, D, W, 0, 0.5);
    }
    put(m, "backbone.layers.0.mixer.shared_experts.up_proj.weight", S, D, 0, 0.5);
    put(m, "backbone.layers.0.mixer.shared_experts.down_proj.weight", D, S, 0, 0.5);
    m->config = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:i, s:i}",
                          "model_type", "nemotron_h", "hybrid_override_pattern", "E", "hidden_size",
                          D, "vocab_size", N, "num_attention_heads", 2, "n_routed_experts", E,
                          "num_experts_per_tok", K, "moe_intermediate_size", W,
                          "moe_shared_expert_intermediate_size", S, "n_shared_experts", 1,
                          "routed_scaling_factor", 1.5, "n_group", 3, "topk_group", 2);
    assert_non_null(m->config);
    return m;
}

static void norm(const double *x, const double *w, double *y) {
    double sum = 0;
    for (int i = 0; i < D; i++)
        sum += x[i] * x[i];
    for (int i = 0; i < D; i++)
        y[i] = x[i] / sqrt(sum / D + 1e-5) * w[i];
}

// y += weight W_down relu(W_up x)^2
static void plain_mlp(const tiny_tensor *up, const tiny_tensor *down, const double *x,
                      double weight, double *y) {
    int64_t n = up->dims[0];
    for (int64_t i = 0; i < n; i++) {
        double a = 0;
        for (int j = 0; j < D; j++)
            a += up->v[i * D + j] * x[j];
        a = a > 0 ? a * a : 0;
        for (int j = 0; j < D; j++)
            y[j] += weight * down->v[j * n + i] * a;
    }
}

// Choice by sorting all pairs of an allowed group: no code in common with moe_route.
static void plain_experts(const tiny_model *m, const double *x, double *y) {
    const double *gate = tiny_get(m, "backbone.layers.0.mixer.gate.weight")->v;
    const double *bias = tiny_get(m, "backbone.layers.0.mixer.gate.e_score_correction_bias")->v;
    double p[E], c[E], group[3];
    for (int e = 0; e < E; e++) {
        double l = 0;
        for (int j = 0; j < D; j++)
            l += gate[e * D + j] * x[j];
        p[e] = 1 / (1 + exp(-l));
        c[e] = p[e] + bias[e];
    }
    for (int g = 0; g < 3; g++) // groups of two: the two best are both
        group[g] = c[2 * g] + c[2 * g + 1];
    int worst = group[0] < group[1] ? (group[0] < group[2] ? 0 : 2) : (group[1] < group[2] ? 1 : 2);
    int best = -1, second = -1;
    for (int e = 0; e < E; e++) {
        if (e / 2 == worst)
            continue;
        if (best < 0 || c[e] > c[best]) {
            second = best;
            best = e;
        } else if (second < 0 || c[e] > c[second]) {
            second = e;
        }
    }
    const int chosen[] = {best, second};
    for (int i = 0; i < 2; i++)
        plain_mlp(tiny_get(m, "backbone.layers.0.mixer.experts.%d.up_proj.weight", chosen[i]),
                  tiny_get(m, "backbone.layers.0.mixer.experts.%d.down_proj.weight", chosen[i]), x,
                  1.5 * p[chosen[i]] / (p[best] + p[second]), y);
    plain_mlp(tiny_get(m, "backbone.layers.0.mixer.shared_experts.up_proj.weight"),
              tiny_get(m, "backbone.layers.0.mixer.shared_experts.down_proj.weight"), x, 1, y);
}

static bool on_loss(void *ctx, int64_t t0, int64_t n, const double *loss, const int32_t *best,
                    err *e) {
    (void)best, (void)e;
    memcpy((double *)ctx + t0, loss, (size_t)n * sizeof *loss);
    return true;
}

static void a_layer_of_experts_equals_plain_loops(void **state) {
    (void)state;
    err e = {0};
    int32_t ids[T];
    double got[T], worst = 0;
    uint64_t seed = 9;
    for (int t = 0; t < T; t++)
        ids[t] = (int32_t)(tiny_next(&seed) % N);
    tiny_model *t = experts_model();
    backend *be = cpu_open(PRECISION_F64, 1, &e);
    model *m = model_open(tiny_save(t, "experts"), be, &e);
    if (!m)
        fail_msg("%s", e.text);
    assert_int_equal(m->leftover.n, 0);
    probe watch = {.ctx = got, .on_loss = on_loss};
    const probe *probes[] = {&watch};
    fwd *f = fwd_new(m, 7, T, &e);
    assert_true(fwd_row(f, ids, T, NULL, probes, 1, NULL, NULL, &e));
    fwd_free(f);
    for (int i = 0; i + 1 < T; i++) {
        double x[D], n[D], y[D] = {0}, sum = 0, at = 0;
        memcpy(x, tiny_get(t, "backbone.embeddings.weight")->v + ids[i] * D, sizeof x);
        norm(x, tiny_get(t, "backbone.layers.0.norm.weight")->v, n);
        plain_experts(t, n, y);
        for (int j = 0; j < D; j++)
            x[j] += y[j];
        norm(x, tiny_get(t, "backbone.norm_f.weight")->v, n);
        for (int v = 0; v < N; v++) {
            double l = 0;
            for (int j = 0; j < D; j++)
                l += tiny_get(t, "lm_head.weight")->v[v * D + j] * n[j];
            sum += exp(l);
            at = v == ids[i + 1] ? l : at;
        }
        worst = fmax(worst, fabs(log(sum) - at - got[i]));
    }
    print_message("measured experts against plain loops: %.1e nats\n", worst);
    assert_true(worst <= 1e-12);
    model_free(m);
    backend_close(be);
    tiny_free(t);
}

static void experts_that_are_not_there_are_named(void **state) {
    (void)state;
    err e = {0};
    tiny_model *t = experts_model();
    backend *be = cpu_open(PRECISION_F64, 1, &e);
    tiny_drop(t, "backbone.layers.0.mixer.experts.4.down_proj.weight");
    assert_null(model_open(tiny_save(t, "experts"), be, &e));
    files_assert_error_holds(&e, ERR_MISSING, "mixer.experts.4.down_proj.weight");
    tiny_set(t, "moe_latent_size", json_integer(4));
    err_clear(&e);
    assert_null(model_open(tiny_save(t, "experts"), be, &e));
    files_assert_error_holds(&e, ERR_UNSUPPORTED, "moe_latent_size");
    backend_close(be);
    tiny_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_routers_differ_in_what_they_divide_by),
        cmocka_unit_test(a_bias_chooses_and_does_not_weigh),
        cmocka_unit_test(groups_are_ranked_by_the_sum_of_their_two_best),
        cmocka_unit_test(equal_scores_go_to_the_lower_expert_and_nan_to_none),
        cmocka_unit_test(a_layer_of_experts_equals_plain_loops),
        cmocka_unit_test(experts_that_are_not_there_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
