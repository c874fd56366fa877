// Which experts a token goes to, and with what weights.
#include "core/modules/moe.h"

#include <math.h>

// The largest of v[0..n) that is above every NaN and -inf; the lowest index among equals. -1: none.
static int64_t largest(const double *v, int64_t n) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if (v[i] > -INFINITY && (best < 0 || v[i] > v[best]))
            best = i;
    return best;
}

// Scores outside of the best groups become -inf.
static void keep_groups(const router *r, double *v) {
    int64_t per = r->experts / r->groups;
    double sum[256];
    for (int64_t g = 0; g < r->groups; g++) {
        double a = -INFINITY, b = -INFINITY;
        for (int64_t i = g * per; i < (g + 1) * per; i++)
            if (v[i] > a) {
                b = a;
                a = v[i];
            } else if (v[i] > b) {
                b = v[i];
            }
        sum[g] = per > 1 ? a + b : a;
    }
    bool kept[256] = {false};
    for (int64_t j = 0; j < r->top_groups; j++) {
        int64_t g = largest(sum, r->groups);
        if (g < 0)
            break;
        kept[g] = true;
        sum[g] = -INFINITY;
    }
    for (int64_t i = 0; i < r->experts; i++)
        if (!kept[i / per])
            v[i] = -INFINITY;
}

void moe_route(const router *r, const double *logits, const double *bias, double *score,
               int32_t *expert, double *weight) {
    int64_t E = r->experts;
    double *p = score, *choice = score + E, top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < E; i++)
        top = logits[i] > top ? logits[i] : top;
    for (int64_t i = 0; i < E; i++) {
        p[i] = r->kind == ROUTER_SIGMOID ? 1 / (1 + exp(-logits[i])) : exp(logits[i] - top);
        sum += p[i];
    }
    for (int64_t i = 0; i < E; i++) {
        if (r->kind == ROUTER_SOFTMAX)
            p[i] /= sum;
        // Exponentials of far apart logits may all be zero; logits keep their order.
        choice[i] = (r->kind == ROUTER_CHOSEN_SOFTMAX ? logits[i] : p[i]) + (bias ? bias[i] : 0);
    }
    if (r->groups > 1)
        keep_groups(r, choice);
    sum = 0;
    for (int64_t j = 0; j < r->top_k; j++) {
        int64_t best = largest(choice, E);
        expert[j] = (int32_t)(best < 0 ? 0 : best);
        weight[j] = best < 0 ? NAN : p[best];
        sum += weight[j];
        if (best >= 0)
            choice[best] = -INFINITY;
    }
    bool divide = r->renormalize || r->kind == ROUTER_CHOSEN_SOFTMAX;
    for (int64_t j = 0; j < r->top_k; j++)
        weight[j] *= (r->scaling != 0 ? r->scaling : 1) / (divide ? sum : 1);
}
