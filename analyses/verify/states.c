// S01-S07: what singular values, errors and gates say about a state.
#include "analyses/verify/verify.h"

#include "analyses/rank.h"
#include "analyses/verify/on_backend.h"
#include "analyses/verify/small.h"
#include "core/mem.h"
#include "core/random.h"

#include <math.h>
#include <stdlib.h>

// Singular values of one state [n, n], by the backend's own operation, at the start of a block.
static bool state_values(backend *be, const double *H, int n, double *sv, double *fro, err *e) {
    double zero[64] = {0};
    int64_t at = 0;
    int head = 0;
    steps s = {.s = {.H = 1, .Hk = 1, .K = n, .V = n, .n_h = 1, .erase = ERASE_KEY, .scale = 1},
               .T = 1};
    s.q = on_backend_put(be, zero, 1, n, false);
    s.k = on_backend_put(be, zero, 1, n, false);
    s.v = on_backend_put(be, zero, 1, n, false);
    mat state = on_backend_put(be, H, n, n, true);
    bool ok =
        backend_check(be, e) && be->op->state_svals(be, &s, state, &head, 1, &at, 1, sv, fro, e);
    mat all[] = {s.q, s.k, s.v, state};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        be->op->free(be, all[i]);
    return ok;
}

// diag(d) turned by two random orthogonal matrices (products of reflections).
static void turned(const double *d, int n, uint64_t seed, double *H) {
    double k[64], T[64 * 64];
    for (int i = 0; i < n * n; i++)
        H[i] = i % (n + 1) == 0 ? d[i / (n + 1)] : 0;
    for (int side = 0; side < 2; side++) {
        for (int j = 0; j < n; j++) {
            small_unit(k, n, &seed);
            small_reflect(H, n, n, k, 2);
        }
        small_transpose(H, n, n, T);
        for (int i = 0; i < n * n; i++)
            H[i] = T[i];
    }
}

// Effective ranks with known values: 3/4^(1/3), 8, 4 (powers of 1/2, nearly), 2, 2.6004900060.
static bool effective_rank(const verify_case *c, double *error, err *e) {
    const struct {
        int n;
        double d[8], want;
    } known[] = {
        {2, {2, 1}, 3 / cbrt(4)},
        {8, {1, 1, 1, 1, 1, 1, 1, 1}, 8},
        {4, {5, 5, 0, 0}, 2},
        {3, {4, 2, 1}, 2.6004900060},
    };
    *error = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int n = known[i].n;
        double H[64], sv[8], fro;
        turned(known[i].d, n, c->env->seed + i, H);
        if (!state_values(c->be, H, n, sv, &fro, e))
            return false;
        *error = small_max(*error, fabs(rank_effective(sv, n, RANK_CUT) - known[i].want));
        *error = small_max(*error, fabs(fro - small_norm(known[i].d, n)));
    }
    return true;
}

// 1 <= erank <= rank, and erank(c H) = erank(H) for c = 1e-20, 1e20, -3.
static bool bounds(const verify_case *c, double *error, err *e) {
    const double scale[] = {1e-20, 1e20, -3};
    double H[64], X[64], sv[8], fro, rank;
    uint64_t seed = c->env->seed + 2;
    small_normals(H, 64, &seed);
    if (!state_values(c->be, H, 8, sv, &fro, e))
        return false;
    rank = rank_effective(sv, 8, RANK_CUT);
    *error = rank >= 1 && rank <= 8 ? 0 : 1;
    for (int i = 0; i < 3; i++) {
        for (int n = 0; n < 64; n++)
            X[n] = scale[i] * H[n];
        if (!state_values(c->be, X, 8, sv, &fro, e))
            return false;
        *error = small_max(*error, fabs(rank_effective(sv, 8, RANK_CUT) - rank));
    }
    return true;
}

static bool zero_state(const verify_case *c, double *error, err *e) {
    double H[16] = {0}, sv[4], fro;
    if (!state_values(c->be, H, 4, sv, &fro, e))
        return false;
    *error =
        isnan(rank_effective(sv, 4, RANK_CUT)) && fro == 0 && rank_effective_authors(sv, 4) == 0
            ? 0
            : 1;
    return true;
}

// diag(4, 2, 1): |H|_F, |H|_2, stable rank, nuclear norm, condition, energies.
static bool companions(const verify_case *c, double *error, err *e) {
    const double d[] = {4, 2, 1};
    double H[9], sv[3], fro;
    turned(d, 3, c->env->seed + 4, H);
    if (!state_values(c->be, H, 3, sv, &fro, e))
        return false;
    const double got[] = {fro,
                          rank_spectral(sv, 3),
                          rank_stable(sv, 3),
                          rank_nuclear(sv, 3),
                          rank_condition(sv, 3),
                          rank_energy(sv, 3, 1),
                          rank_energy(sv, 3, 2)};
    const double want[] = {sqrt(21), 4, 21.0 / 16, 7, 4, 16.0 / 21, 20.0 / 21};
    *error = small_difference(got, want, 7);
    return true;
}

// A write with unit key and beta = 1 reads back its value: H^T k = v whatever H was.
static bool read_back(const verify_case *c, double *error, err *e) {
    enum { K = 8, V = 6 };
    uint64_t seed = c->env->seed + 5;
    double k[K], v[V], H[K * V], o[V], beta = 1;
    small_unit(k, K, &seed);
    small_normals(v, V, &seed);
    small_normals(H, K * V, &seed);
    steps s = {.s = {.H = 1,
                     .Hk = 1,
                     .K = K,
                     .V = V,
                     .n_h = 1,
                     .erase = ERASE_KEY,
                     .scale = 1,
                     .beta_max = 1},
               .T = 1,
               .q = {k, 1, K, K, sizeof *k},
               .k = {k, 1, K, K, sizeof *k},
               .v = {v, 1, V, V, sizeof *v},
               .beta = {&beta, 1, 1, 1, sizeof beta}};
    if (!on_backend_recurrence(c->be, &s, H, o, e))
        return false;
    *error = small_difference(o, v, V);
    return true;
}

// Keys in the plane of the first two axes: two principal directions hold everything, and a key's
// angle to another one comes back from 1 - beta |k|^2.
static bool key_statistics(const verify_case *c, double *error, err *e) {
    (void)e;
    enum { N = 200, K = 5 };
    uint64_t seed = c->env->seed + 6;
    double cov[K * K] = {0};
    double complex w[K];
    for (int t = 0; t < N; t++) {
        double a = 2 * M_PI * random_uniform(&seed), k[K] = {cos(a), sin(a)};
        for (int i = 0; i < K * K; i++)
            cov[i] += k[i / K] * k[i % K] / N;
    }
    small_eigenvalues(cov, K, w);
    double all = 0, two = 0;
    for (int i = 0; i < K; i++) {
        all += creal(w[i]);
        two += creal(w[i]) > 0.01 ? creal(w[i]) : 0;
    }
    *error = fabs(two / all - 1) + fabs(all - 1);
    return true;
}

// A gate of 0 at document starts tells them from all other tokens: area under the curve 1. The
// score is the drop of the state's norm, from the backend's own recurrence.
static bool boundaries(const verify_case *c, double *error, err *e) {
    enum { T = 120, EVERY = 15, N = 4 };
    uint64_t seed = c->env->seed + 7;
    double H[N * N], score[T], before;
    small_normals(H, N * N, &seed);
    for (int t = 0; t < T; t++) {
        double k[N], v[N], beta = random_uniform(&seed);
        double g = t % EVERY == 0 ? -200 : log(0.7 + 0.3 * random_uniform(&seed));
        small_unit(k, N, &seed);
        small_normals(v, N, &seed);
        for (int i = 0; i < N; i++)
            v[i] *= 0.1;
        steps s = {.s = {.H = 1,
                         .Hk = 1,
                         .K = N,
                         .V = N,
                         .n_h = 1,
                         .decay = DECAY_HEAD,
                         .erase = ERASE_KEY,
                         .scale = 1,
                         .beta_max = 1},
                   .T = 1,
                   .k = {k, 1, N, N, sizeof *k},
                   .v = {v, 1, N, N, sizeof *v},
                   .beta = {&beta, 1, 1, 1, sizeof beta},
                   .decay = {&g, 1, 1, 1, sizeof g}};
        before = small_norm(H, N * N);
        if (!on_backend_recurrence(c->be, &s, H, NULL, e))
            return false;
        double after = 0; // what is left of the old state, without the new write
        for (int i = 0; i < N * N; i++) {
            double old = H[i] - beta * k[i / N] * v[i % N];
            after += old * old;
        }
        score[t] = -sqrt(after) / before;
        for (int i = 0; i < N * N; i++) // the next document has something to lose
            H[i] += 0.3 * random_normal(&seed);
    }
    double right = 0, pairs = 0;
    for (int a = 0; a < T; a += EVERY)
        for (int b = 0; b < T; b++)
            if (b % EVERY != 0) {
                pairs++;
                right += score[a] > score[b] ? 1 : score[a] == score[b] ? 0.5 : 0;
            }
    *error = 1 - right / pairs;
    return true;
}

const check verify_states[] = {
    // 2.6004900060 is quoted to ten digits.
    {"S01", "effective rank of states with known values", 1e-9, 1e-5, effective_rank, 0},
    {"S02", "1 <= erank <= rank; scales of 1e-20 and 1e20", 1e-9, 1e-5, bounds, 0},
    {"S03", "a zero state has no rank (NaN; the authors' 0)", 0, 0, zero_state, 0},
    {"S04", "norms, stable rank, condition, energies", 1e-12, 1e-5, companions, 0},
    {"S05", "beta = 1 writes what the same key reads", 1e-14, 1e-5, read_back, 0},
    {"S06", "keys in a plane need two principal directions", 1e-12, NAN, key_statistics, 0},
    {"S07", "gates of 0 tell document starts: 1 - AUC", 0, 0, boundaries, 0},
};
const size_t n_verify_states = sizeof verify_states / sizeof *verify_states;
