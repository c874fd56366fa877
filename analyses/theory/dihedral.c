// Dihedral groups D_m in two layers with n_h = 1 (T05, DeltaProduct Theorem 7; science.md 3.5, whose
// derivation this is).
//
// One token applies one reflection, so the product of t of them has the wrong determinant whenever
// the number e of rotation tokens so far is odd. Layer 0 keeps the sign (-1)^e; layer 1 keeps the
// twisted product P_t = S^e y_t, for which every token is a reflection with mirror angle
// (-1)^e alpha, and reads it with S^e q: o_t = y_t^T q.
//
//     layer 0   BOS writes 1; rotations beta = 2, reflections beta = 0; o = (-1)^e
//     MLP 0     (token one-hot) x (-1)^e: gate c x one-hot, up the sign
//     layer 1   key (-(-1)^e sin(alpha/2), cos(alpha/2)), beta = 2; two prefix tokens write I_2
#include "analyses/theory/net.h"
#include "analyses/theory/theory.h"

#include <math.h>

enum { GATE = 20 }; // pre-activation of the open gates of the MLP

typedef struct places {
    int m, n_vocab, sign, product, out; // coordinates
    double ms[2][2];                    // layer 1, final; of prefix and word tokens
} places;

static double silu_of_gate(void) {
    return GATE / (1 + exp(-GATE));
}

static void count_parity(product_model *m, const places *p) {
    const double one[2] = {1, 0}, large[2] = {8, 0}; // o_norm's eps does not show then
    for (int id = 0; id < p->n_vocab; id++) {
        source s = {id, sqrt(m->s.D), 1};
        micro x = {id < p->m ? 2 : 0, one, NULL};
        if (id == 2 * p->m)
            x = (micro){1, one, large};
        net_micro(m, 0, 0, 0, &s, &x);
        net_query(m, 0, 0, &s, one);
    }
    net_output(m, 0, 0, p->sign, 1);
}

// Hidden unit t: silu(GATE x token t) x sign; 0 at every other token.
static void multiply(product_model *m, const places *p) {
    const product_layer *l = &m->layer[0];
    double ms = 1 + 2.0 / m->s.D;
    for (int t = 0; t < 2 * p->m; t++) {
        net_add(m, l->gate, t, &(source){t, sqrt(m->s.D), ms}, GATE);
        net_add(m, l->up, t, &(source){p->sign, sqrt(2), ms}, 1);
        l->down[(int64_t)(p->product + t) * m->s.inter + t] =
            (float)(sqrt(m->s.D) / silu_of_gate());
    }
}

// z(sign) = mean + half difference x sign, from the token's coordinate and its product's.
static void by_sign(product_model *m, float *w, int64_t row, const places *p, int t, double plus,
                    double minus) {
    double ms = p->ms[0][1];
    net_add(m, w, row, &(source){t, sqrt(m->s.D), ms}, (plus + minus) / 2);
    net_add(m, w, row, &(source){p->product + t, sqrt(m->s.D), ms}, (plus - minus) / 2);
}

static void reflect(product_model *m, const places *p, const double *q) {
    for (int t = 0; t < 2 * p->m; t++) {
        double a = M_PI * (t % p->m) / p->m, key[2][2], query[2][2];
        for (int i = 0; i < 2; i++) {
            double sign = i ? -1 : 1;
            silu_vector((double[]){-sign * sin(a), cos(a)}, 2, true, key[i]);
            silu_vector((double[]){q[0], sign * q[1]}, 2, false, query[i]);
        }
        for (int i = 0; i < 2; i++) {
            by_sign(m, m->layer[1].k, i, p, t, key[0][i], key[1][i]);
            by_sign(m, m->layer[1].q, i, p, t, query[0][i], query[1][i]);
        }
        net_add(m, m->layer[1].b, 0, &(source){t, sqrt(m->s.D), p->ms[0][1]}, BETA_TWO);
    }
    for (int j = 0; j < 2; j++) {
        const double unit[2] = {j == 0, j == 1};
        source s = {2 * p->m + j, sqrt(m->s.D), p->ms[0][0]};
        net_micro(m, 1, 0, 0, &s, &(micro){1, unit, unit});
        net_query(m, 1, 0, &s, q);
    }
    net_output(m, 1, 0, p->out, 2);
}

bool theory_dihedral(int n, theory_built *b, err *e) {
    char name[16];
    *b = (theory_built){0};
    snprintf(name, sizeof name, "D%d", n);
    group *g = group_named(name, e);
    word_task *t = g ? task_of_group(g, true, 2, e) : NULL;
    if (!t)
        return false;
    places p = {.m = n, .n_vocab = 2 * n + 2};
    p.sign = p.n_vocab;
    p.product = p.sign + 1;
    p.out = p.product + 2 * n;
    product_sizes s = {.D = (p.out + 2 + 15) / 16 * 16,
                       .n_vocab = p.n_vocab,
                       .n_layers = 2,
                       .H = 1,
                       .K = 2,
                       .V = 2,
                       .n_h = 1,
                       .inter = (2 * n + 15) / 16 * 16,
                       .bos = 2 * n,
                       .train_length = 4096};
    for (int word = 0; word < 2; word++) {
        p.ms[0][word] = 1 + 2.0 / s.D + word;
        p.ms[1][word] = p.ms[0][word] + 2.0 / s.D;
    }
    product_model *m = product_new(&s, e);
    if (!m) {
        task_free(t);
        return false;
    }
    const double q[2] = {cos(M_PI / (2 * n)), sin(M_PI / (2 * n))};
    net_embed(m);
    count_parity(m, &p);
    multiply(m, &p);
    reflect(m, &p, q);
    b->margin = 1 - cos(M_PI / n); // a regular 2n-gon
    for (int a = 0; a < 2 * n; a++) {
        double c = cos(2 * M_PI * (a % n) / n), d = sin(2 * M_PI * (a % n) / n);
        double answer[2] = {c * q[0] + d * q[1],
                            a < n ? -d * q[0] + c * q[1] : d * q[0] - c * q[1]};
        net_template(m, a, p.out, answer, 2, 14 / (b->margin * sqrt(2)), p.ms[1][1]);
    }
    t->train_length = s.train_length;
    b->m = m;
    b->task = t;
    return true;
}
