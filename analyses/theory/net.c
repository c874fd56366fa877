#include "analyses/theory/net.h"

#include <math.h>
#include <stddef.h>

static double silu(double z) {
    return z / (1 + exp(-z));
}

double silu_inverse(double y) {
    double lo = -1.2784645427610738, hi = fmax(y, 0) + 1.3; // silu(y + 1.2784645) >= y for y >= 0
    for (int i = 0; i < 200; i++) {
        double mid = 0.5 * (lo + hi);
        if (silu(mid) < y)
            lo = mid;
        else
            hi = mid;
    }
    return y == 0 ? 0 : 0.5 * (lo + hi);
}

void silu_vector(const double *x, int n, bool either_sign, double *z) {
    double most = 0, least = 0;
    for (int i = 0; i < n; i++) {
        most = fmax(most, x[i]);
        least = fmin(least, x[i]);
    }
    double sign = 1;
    if (either_sign && -least > most) {
        double t = most;
        sign = -1;
        most = -least;
        least = -t;
    }
    // An entry that is zero but for rounding is no reason to keep the vector small.
    bool negative = least < -1e-12 * most;
    double scale = negative ? SILU_LOW / -least : SILU_HIGH / most;
    if (scale * most > SILU_HIGH)
        scale = SILU_HIGH / most;
    for (int i = 0; i < n; i++)
        z[i] = fabs(x[i]) <= 1e-12 * most ? 0 : silu_inverse(sign * scale * x[i]);
}

double net_weight(const source *s, double z) {
    return z * sqrt(s->ms + PRODUCT_EPS) / s->value;
}

void net_add(const product_model *m, float *w, int64_t row, const source *s, double z) {
    w[row * m->s.D + s->at] += (float)net_weight(s, z);
}

void net_query(product_model *m, int L, int head, const source *s, const double *q) {
    double z[64];
    silu_vector(q, m->s.K, false, z);
    for (int i = 0; i < m->s.K; i++)
        net_add(m, m->layer[L].q, (int64_t)head * m->s.K + i, s, z[i]);
}

void net_micro(product_model *m, int L, int head, int j, const source *s, const micro *x) {
    const product_sizes *p = &m->s;
    int64_t at = (int64_t)j * p->H + head;
    double z[64];
    if (x->beta > 0) {
        silu_vector(x->key, p->K, x->v == NULL, z); // k v^T knows k's sign
        for (int i = 0; i < p->K; i++)
            net_add(m, m->layer[L].k, at * p->K + i, s, z[i]);
    }
    for (int i = 0; x->v && i < p->V; i++)
        net_add(m, m->layer[L].v, at * p->V + i, s, silu_inverse(x->v[i]));
    double b = x->beta >= 2 ? BETA_TWO : x->beta > 0 ? BETA_ONE : BETA_ZERO;
    net_add(m, m->layer[L].b, at, s, b);
}

void net_wipe(product_model *m, int L, int head, const source *s) {
    net_add(m, m->layer[L].a, head, s, GATE_WIPE - GATE_KEEP);
}

void net_gate_bias(product_model *m, int L) {
    for (int h = 0; h < m->s.H; h++)
        m->layer[L].dt[h] = (float)GATE_KEEP;
}

void net_output(product_model *m, int L, int head, int at, int n) {
    int64_t cols = (int64_t)m->s.H * m->s.V;
    for (int i = 0; i < n; i++)
        m->layer[L].o[(at + i) * cols + (int64_t)head * m->s.V + i] = 1;
}

void net_template(product_model *m, int id, int at, const double *x, int n, double scale,
                  double ms) {
    for (int i = 0; i < n; i++)
        m->head[(int64_t)id * m->s.D + at + i] = (float)(scale * x[i] * sqrt(ms + PRODUCT_EPS));
}

void net_embed(product_model *m) {
    for (int id = 0; id < m->s.n_vocab; id++)
        m->embed[(int64_t)id * m->s.D + id] = (float)sqrt(m->s.D);
}

double net_worst_cosine(const double *x, int n, int d) {
    double worst = -1;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < a; b++) {
            double dot = 0;
            for (int i = 0; i < d; i++)
                dot += x[a * d + i] * x[b * d + i];
            worst = fmax(worst, dot);
        }
    return worst;
}
