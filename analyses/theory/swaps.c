// S_n in one layer with n_h = n - 1: every permutation as reflections that swap two coordinates
// (T01, DeltaProduct Theorem 1; science.md 3.1, 3.2).
#include "analyses/theory/single.h"

#include <math.h>

// Row j (1 to n-1) of the Helmert basis: an orthonormal basis of the complement of (1, .., 1).
static void helmert(int j, int n, double *x) {
    for (int i = 0; i < n; i++)
        x[i] = (i < j ? 1 : i == j ? -j : 0) / sqrt((double)j * (j + 1));
}

// BOS: n - 1 micro-steps with beta = 1 write v_j = c k_j: H = c (I - 11^T / n), the centred identity.
static void write_start(single *s, int bos) {
    int n = s->K;
    double c = SILU_LOW / sqrt((n - 1.0) / n); // the most negative entry of all k_j
    for (int j = 1; j < n; j++) {
        double k[8], v[8];
        helmert(j, n, k);
        for (int i = 0; i < n; i++)
            v[i] = c * k[i];
        single_set(s, bos, j - 1, 1, k, v);
    }
}

static void write_element(single *s, int a) {
    int swaps[8][2], count = group_swaps(s->task->g, a, swaps);
    for (int j = 0; j < count; j++) {
        double k[8] = {0};
        k[swaps[j][0]] = 1;
        k[swaps[j][1]] = -1;
        single_set(s, a, j, 2, k, NULL);
    }
}

// o = H^T q with H = c P_y (I - 11^T / n), q ~ (1 .. n): entry i is q[y(i)] less the mean.
static void write_answers(single *s) {
    int n = s->K;
    for (int a = 0; a < s->task->n_states; a++)
        for (int i = 0; i < n; i++)
            s->answer[a * n + i] = group_perm(s->task->g, a)[i] + 1 - (n + 1) / 2.0;
}

bool theory_symmetric(int n, theory_built *b, err *e) {
    single s;
    char name[8] = {'S', (char)('0' + n), 0};
    group *g = group_named(name, e);
    word_task *t = g ? task_of_group(g, true, 1, e) : NULL;
    size_t vectors = t ? (size_t)(t->n_inputs + 2) * (size_t)n * (size_t)n : 0;
    if (!single_init(&s, t, n, n, n - 1, vectors, e))
        return false;
    write_start(&s, t->prefix[0]);
    for (int a = 0; a < t->n_inputs; a++)
        write_element(&s, a);
    for (int i = 0; i < n; i++)
        s.q[i] = i + 1;
    write_answers(&s);
    return single_build(&s, b, e);
}
