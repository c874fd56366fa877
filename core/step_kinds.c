#include "core/step_kinds.h"

mat step_matrix(const double *x, int64_t rows, int64_t cols) {
    // A mat has no const; nobody writes to the inputs of a recurrence.
    return x ? (mat){(void *)x, rows, cols, cols, sizeof *x} : MAT_NONE;
}

double longhorn_strength(const double *k, int K, double beta) {
    double kk = 0;
    for (int i = 0; i < K; i++)
        kk += k[i] * k[i];
    return beta / (1 + beta * kk);
}

static steps common(const step_inputs *x, erase_kind erase, decay_kind decay) {
    head_shape s = {.H = 1, .Hk = 1, .K = x->K, .V = x->V, .n_h = 1};
    s.erase = erase;
    s.decay = decay;
    s.scale = x->scale;
    return (steps){
        .s = s,
        .T = x->T,
        .q = step_matrix(x->q, x->T, x->K),
        .k = step_matrix(x->k, x->T, x->K),
        .v = step_matrix(x->v, x->T, x->V),
    };
}

steps step_longhorn(const step_inputs *x, double *eps) {
    for (int64_t t = 0; t < x->T; t++)
        eps[t] = longhorn_strength(x->k + t * x->K, x->K, x->beta[t]);
    steps s = common(x, ERASE_KEY, DECAY_NONE);
    s.beta = step_matrix(eps, x->T, 1);
    return s;
}

steps step_dplr(const step_inputs *x) {
    steps s = common(x, ERASE_PAIR, DECAY_CHANNEL);
    s.decay = step_matrix(x->w_log, x->T, x->K);
    s.a = step_matrix(x->a, x->T, x->K);
    s.b = step_matrix(x->b, x->T, x->K);
    return s;
}
