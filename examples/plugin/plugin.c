/* A kernel of one's own inside `deltop bench`: the gated delta rule in float32 on one CPU core, in plain
 * loops. From the project's folder:
 *
 *     cc -O2 -shared -fPIC -I. -o examples/plugin/plain.so examples/plugin/plugin.c -lm
 *     ./deltop bench --plugin examples/plugin/plain.so --case gdn --case deltanet
 */
#include "bench/plugin.h"

#include <math.h>
#include <stddef.h>

static const float *row(const deltop_matrix *m, int64_t i) {
    return (const float *)m->data + i * m->stride;
}

/* Delta rules with a decay per head or none; whatever the sizes. */
static int supports(const deltop_recurrence *r) {
    return r->erase_kind == DELTOP_ERASE_KEY && r->decay_kind != DELTOP_DECAY_CHANNEL;
}

/* One micro-step of one head: S <- (I - beta k k^T) S + beta k v^T, row by row of S [K, V]. */
static void micro_step(const deltop_recurrence *r, float *S, int64_t stride, const float *k,
                       const float *v, float beta) {
    for (int j = 0; j < r->value_size; j++) {
        float u = v[j];
        for (int i = 0; i < r->key_size; i++)
            u -= k[i] * S[i * stride + j];
        u *= beta;
        for (int i = 0; i < r->key_size; i++)
            S[i * stride + j] += k[i] * u;
    }
}

static int run(const deltop_recurrence *r) {
    int K = r->key_size, V = r->value_size, n = r->micro_steps;
    for (int h = 0; h < r->value_heads; h++) {
        int hk = h / (r->value_heads / r->key_heads);
        float *S = (float *)r->state.data + (int64_t)h * K * r->state.stride;
        for (int64_t t = 0; t < r->tokens; t++) {
            if (r->decay_kind == DELTOP_DECAY_HEAD) {
                float g = expf(row(&r->decay, t)[h]);
                for (int i = 0; i < K; i++)
                    for (int j = 0; j < V; j++)
                        S[i * r->state.stride + j] *= g;
            }
            for (int64_t m = t * n; m < (t + 1) * n; m++)
                micro_step(r, S, r->state.stride, row(&r->k, m) + hk * K, row(&r->v, m) + h * V,
                           r->beta.data ? row(&r->beta, m)[h] : 1.0f);
            const float *q = row(&r->q, t) + hk * K;
            float *o = (float *)r->o.data + t * r->o.stride + h * V;
            for (int j = 0; j < V; j++) {
                float sum = 0;
                for (int i = 0; i < K; i++)
                    sum += q[i] * S[i * r->state.stride + j];
                o[j] = (float)r->scale * sum;
            }
        }
    }
    return 0;
}

static const deltop_kernel kernels[] = {
    {"loops", DELTOP_CPU, DELTOP_F32, supports, run},
};

static const deltop_plugin plugin = {DELTOP_PLUGIN_ABI, "plain", "1.0", 1, kernels};

const deltop_plugin *deltop_plugin_get(void) {
    return &plugin;
}
