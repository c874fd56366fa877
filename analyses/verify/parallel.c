// K01-K09: parallel forms, written out from their formulas, against the loop; and the backend's own
// chunk form.
#include "analyses/verify/verify.h"

#include "analyses/verify/on_backend.h"
#include "analyses/verify/small.h"
#include "core/mem.h"
#include "core/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { C = 24, K = 12, V = 8 };

// One chunk of a gated delta rule: unit keys, beta in (0, 2), gates in (0.8, 1) or 1.
typedef struct chunk {
    double k[C * K], v[C * V], q[C * K], beta[C], g[C], gamma[C], H[K * V];
} chunk;

static void draw(uint64_t seed, bool gated, chunk *x) {
    double run = 1;
    small_normals(x->v, C * V, &seed);
    small_normals(x->H, K * V, &seed);
    for (int t = 0; t < C; t++) {
        small_unit(x->k + t * K, K, &seed);
        small_unit(x->q + t * K, K, &seed);
        x->beta[t] = 2 * random_uniform(&seed);
        x->g[t] = gated ? 0.8 + 0.2 * random_uniform(&seed) : 1;
        run *= x->g[t];
        x->gamma[t] = run;
    }
}

// The loop: H is taken to the chunk's end, o [C, V] read after each token, unscaled.
static void loop(const chunk *x, double *H, double *o) {
    for (int t = 0; t < C; t++) {
        for (int i = 0; i < K * V; i++)
            H[i] *= x->g[t];
        small_reflect(H, K, V, x->k + t * K, x->beta[t]);
        for (int i = 0; i < K * V; i++)
            H[i] += x->beta[t] * x->k[t * K + i / V] * x->v[t * V + i % V];
        small_mul(x->q + t * K, H, 1, K, V, o + t * V);
    }
}

// T = (I + tril(diag(beta) (K K^T . Gamma), -1))^-1 diag(beta), by forward substitution. n rows.
static void ut(const chunk *x, bool gated, int n, double *T) {
    memset(T, 0, (size_t)(n * n) * sizeof *T);
    for (int i = 0; i < n; i++) {
        T[i * n + i] = x->beta[i];
        for (int j = 0; j < i; j++) {
            double a = x->beta[i] * small_dot(x->k + i * K, x->k + j * K, K);
            a *= gated ? x->gamma[i] / x->gamma[j] : 1;
            for (int c = 0; c <= j; c++)
                T[i * n + c] -= a * T[j * n + c];
        }
    }
}

// F_C .. F_1 = I - K^T W, u_i = beta_i (v_i - v_old): W = T K and U = T V (K02, K03).
static bool wy(const verify_case *c, double *error, err *e) {
    (void)e;
    chunk x;
    double T[C * C], W[C * K], U[C * V], P[K * K], Q[K * K], kt[K * C], H[K * V] = {0}, Hw[K * V];
    draw(c->env->seed + 2, false, &x);
    ut(&x, false, C, T);
    small_mul(T, x.k, C, C, K, W);
    small_mul(T, x.v, C, C, V, U);
    small_transpose(x.k, C, K, kt);
    small_mul(kt, W, K, C, K, Q);
    small_identity(P, K);
    for (int t = 0; t < C; t++)
        small_reflect(P, K, K, x.k + t * K, x.beta[t]);
    for (int i = 0; i < K * K; i++)
        Q[i] = (i % (K + 1) == 0) - Q[i];
    *error = small_difference(P, Q, K * K);
    // From H = 0 the state is K^T U.
    double o[C * V];
    loop(&x, H, o);
    small_mul(kt, U, K, C, V, Hw);
    *error = small_max(*error, small_difference(H, Hw, K * V));
    return true;
}

// w_i = beta_i (k_i - sum_{j<i} (k_i . k_j) w_j), and u_i the same with values (K03).
static bool sequential(const verify_case *c, double *error, err *e) {
    (void)e;
    chunk x;
    double T[C * C], W[C * K], U[C * V], w[C * K], u[C * V];
    draw(c->env->seed + 3, false, &x);
    ut(&x, false, C, T);
    small_mul(T, x.k, C, C, K, W);
    small_mul(T, x.v, C, C, V, U);
    memcpy(w, x.k, sizeof w);
    memcpy(u, x.v, sizeof u);
    for (int i = 0; i < C; i++) {
        for (int j = 0; j < i; j++) {
            double kk = small_dot(x.k + i * K, x.k + j * K, K);
            for (int n = 0; n < K; n++)
                w[i * K + n] -= kk * w[j * K + n];
            for (int n = 0; n < V; n++)
                u[i * V + n] -= kk * u[j * V + n];
        }
        for (int n = 0; n < K; n++)
            w[i * K + n] *= x.beta[i];
        for (int n = 0; n < V; n++)
            u[i * V + n] *= x.beta[i];
    }
    *error = small_max(small_difference(W, w, C * K), small_difference(U, u, C * V));
    return true;
}

// W<- = T_gated (gamma K) = gamma . (T_plain K); T_gated = D T_plain D^-1.
static bool gated_ut(const verify_case *c, double *error, err *e) {
    (void)e;
    chunk x;
    double Tg[C * C], Tp[C * C], gk[C * K], W1[C * K], W2[C * K];
    draw(c->env->seed + 4, true, &x);
    ut(&x, true, C, Tg);
    ut(&x, false, C, Tp);
    *error = 0;
    for (int i = 0; i < C * C; i++)
        *error = small_max(*error, fabs(Tg[i] - x.gamma[i / C] / x.gamma[i % C] * Tp[i]));
    for (int i = 0; i < C * K; i++)
        gk[i] = x.gamma[i / K] * x.k[i];
    small_mul(Tg, gk, C, C, K, W1);
    small_mul(Tp, x.k, C, C, K, W2);
    for (int i = 0; i < C * K; i++)
        W2[i] *= x.gamma[i / K];
    *error = small_max(*error, small_difference(W1, W2, C * K));
    return true;
}

// Vt = U - W<- H; O = (gamma Q) H + ((Q K^T) . Gamma) Vt; H <- gamma_C H + (gamma_C/gamma K)^T Vt.
// mask: the printed formula with M in the place of Gamma, which must fail (E19).
static void chunk_step(const chunk *x, bool mask, double *H, double *o) {
    double T[C * C], W[C * K], U[C * V], gk[C * K], WH[C * V], S[C * C], new[K * V];
    ut(x, true, C, T);
    for (int i = 0; i < C * K; i++)
        gk[i] = x->gamma[i / K] * x->k[i];
    small_mul(T, gk, C, C, K, W);
    small_mul(T, x->v, C, C, V, U);
    small_mul(W, H, C, K, V, WH);
    for (int i = 0; i < C * V; i++)
        U[i] -= WH[i];
    for (int i = 0; i < C; i++)
        for (int j = 0; j < C; j++)
            S[i * C + j] = j > i ? 0
                                 : small_dot(x->q + i * K, x->k + j * K, K) *
                                       (mask ? 1 : x->gamma[i] / x->gamma[j]);
    small_mul(S, U, C, C, V, o);
    for (int t = 0; t < C; t++) {
        double read[V];
        small_mul(x->q + t * K, H, 1, K, V, read);
        for (int i = 0; i < V; i++)
            o[t * V + i] += x->gamma[t] * read[i];
    }
    for (int i = 0; i < K * V; i++) {
        new[i] = x->gamma[C - 1] * H[i];
        for (int t = 0; t < C; t++)
            new[i] += x->gamma[C - 1] / x->gamma[t] * x->k[t * K + i / V] * U[t * V + i % V];
    }
    memcpy(H, new, sizeof new);
}

static bool chunk_formula(const verify_case *c, double *error, err *e) {
    (void)e;
    chunk x;
    double H1[K * V], H2[K * V], o1[C * V], o2[C * V];
    draw(c->env->seed + 5, true, &x);
    memcpy(H1, x.H, sizeof H1);
    memcpy(H2, x.H, sizeof H2);
    loop(&x, H1, o1);
    chunk_step(&x, c->arg == 1, H2, o2);
    double gap = fmax(small_difference(H1, H2, K * V), small_difference(o1, o2, C * V));
    *error = c->arg == 1 ? (small_difference(o1, o2, C * V) > 0.1 ? 0 : 1) : gap;
    return true;
}

// Att = ((Q K^T) . Gamma) T: o = Att V from H = 0, entries beta_j q_i^T A_i .. A_{j+1} k_j.
static bool attention_map(const verify_case *c, double *error, err *e) {
    (void)e;
    chunk x;
    double T[C * C], S[C * C], A[C * C], o1[C * V], o2[C * V], H[K * V] = {0};
    draw(c->env->seed + 6, true, &x);
    ut(&x, true, C, T);
    for (int i = 0; i < C; i++)
        for (int j = 0; j < C; j++)
            S[i * C + j] =
                j > i ? 0 : small_dot(x.q + i * K, x.k + j * K, K) * x.gamma[i] / x.gamma[j];
    small_mul(S, T, C, C, C, A);
    small_mul(A, x.v, C, C, V, o2);
    loop(&x, H, o1);
    *error = small_difference(o1, o2, C * V);
    double z[K];
    int j = 3, i = 17;
    memcpy(z, x.k + j * K, sizeof z);
    for (int t = j + 1; t <= i; t++) {
        for (int r = 0; r < K; r++)
            z[r] *= x.g[t];
        small_reflect(z, K, 1, x.k + t * K, x.beta[t]);
    }
    *error = small_max(*error, fabs(A[i * C + j] - x.beta[j] * small_dot(x.q + i * K, z, K)));
    return true;
}

// The inverse of unit lower triangular blocks of 16, merged to 64, against long double substitution.
static bool block_inverse(const verify_case *c, double *error, err *e) {
    enum { N = 64, B = 16, D = 64 };
    uint64_t seed = c->env->seed + 7;
    static const long double one = 1;
    double *k = mem_alloc(N * D, sizeof *k, "a chunk", e);
    double *L = mem_zalloc(N * N, sizeof *L, "a chunk", e),
           *X = mem_zalloc(N * N, sizeof *X, "", e);
    long double *want = mem_zalloc(N * N, sizeof *want, "a chunk", e);
    bool ok = k && L && X && want;
    for (int i = 0; ok && i < N; i++) {
        double beta = 2 * random_uniform(&seed);
        small_unit(k + i * D, D, &seed);
        for (int j = 0; j < i; j++)
            L[i * N + j] = beta * small_dot(k + i * D, k + j * D, D);
    }
    for (int col = 0; ok && col < N; col++)
        for (int i = col; i < N; i++) {
            long double sum = i == col ? one : 0;
            for (int j = col; j < i; j++)
                sum -= (long double)L[i * N + j] * want[j * N + col];
            want[i * N + col] = sum;
        }
    // Diagonal blocks, then X_ij = -X_ii sum_{j <= m < i} L_im X_mj.
    for (int b = 0; ok && b < N; b += B)
        for (int col = 0; col < B; col++)
            for (int i = col; i < B; i++) {
                double sum = i == col;
                for (int j = col; j < i; j++)
                    sum -= L[(b + i) * N + b + j] * X[(b + j) * N + b + col];
                X[(b + i) * N + b + col] = sum;
            }
    for (int dist = 1; ok && dist < N / B; dist++)
        for (int bj = 0; bj + dist < N / B; bj++) {
            int bi = bj + dist;
            double sum[B * B] = {0};
            for (int m = bj; m < bi; m++)
                for (int i = 0; i < B; i++)
                    for (int j = 0; j < B; j++)
                        for (int n = 0; n < B; n++)
                            sum[i * B + j] +=
                                L[(bi * B + i) * N + m * B + n] * X[(m * B + n) * N + bj * B + j];
            for (int i = 0; i < B; i++)
                for (int j = 0; j < B; j++)
                    for (int n = 0; n < B; n++)
                        X[(bi * B + i) * N + bj * B + j] -=
                            X[(bi * B + i) * N + bi * B + n] * sum[n * B + j];
        }
    *error = 0;
    for (int i = 0; ok && i < N * N; i++)
        *error = small_max(*error, fabs((double)(X[i] - want[i])));
    free(k);
    free(L);
    free(X);
    free(want);
    return ok;
}

// |T_ij| <= beta_i beta_j for i > j: the largest excess over 500 chunks.
static bool bound(const verify_case *c, double *error, err *e) {
    (void)e;
    *error = 0;
    for (int n = 0; n < 500; n++) {
        chunk x;
        double T[C * C];
        draw(c->env->seed + 100 + (uint64_t)n, false, &x);
        ut(&x, false, C, T);
        for (int i = 0; i < C; i++)
            for (int j = 0; j < i; j++)
                *error = small_max(*error, fabs(T[i * C + j]) - x.beta[i] * x.beta[j]);
    }
    return true;
}

// ---- on a backend ---------------------------------------------------------------------------------------

static mat host(double *v, int64_t rows, int64_t cols) {
    return (mat){v, rows, cols, cols, sizeof *v};
}

// n_h = 2 with a gate, and the same as a sequence of single steps: gates (g, 1), every second
// read-out (K01).
static bool expansion(const verify_case *c, double *error, err *e) {
    enum { TOKENS = C / 2 };
    chunk x;
    double log_g[TOKENS], log_each[C], q[TOKENS * K], o2[TOKENS * V], o1[C * V], Ha[K * V],
        Hb[K * V];
    draw(c->env->seed + 1, true, &x);
    for (int t = 0; t < TOKENS; t++) {
        log_g[t] = log(x.g[t]);
        log_each[2 * t] = log_g[t];
        log_each[2 * t + 1] = 0;
        memcpy(q + t * K, x.q + (2 * t + 1) * K, K * sizeof *q);
    }
    memcpy(Ha, x.H, sizeof Ha);
    memcpy(Hb, x.H, sizeof Hb);
    head_shape s = {.H = 1,
                    .Hk = 1,
                    .K = K,
                    .V = V,
                    .n_h = 2,
                    .decay = DECAY_HEAD,
                    .erase = ERASE_KEY,
                    .scale = 1,
                    .beta_max = 2};
    steps two = {.s = s,
                 .T = TOKENS,
                 .q = host(q, TOKENS, K),
                 .k = host(x.k, C, K),
                 .v = host(x.v, C, V),
                 .beta = host(x.beta, C, 1),
                 .decay = host(log_g, TOKENS, 1)};
    s.n_h = 1;
    steps one = {.s = s,
                 .T = C,
                 .q = host(x.q, C, K),
                 .k = host(x.k, C, K),
                 .v = host(x.v, C, V),
                 .beta = host(x.beta, C, 1),
                 .decay = host(log_each, C, 1)};
    if (!on_backend_recurrence(c->be, &two, Ha, o2, e) ||
        !on_backend_recurrence(c->be, &one, Hb, o1, e))
        return false;
    *error = small_difference(Ha, Hb, K * V);
    for (int t = 0; t < TOKENS; t++)
        *error = small_max(*error, small_difference(o2 + t * V, o1 + (2 * t + 1) * V, V));
    return true;
}

#define HOST NAN
const check verify_parallel[] = {
    {"K01", "n_h steps a token as a sequence of single steps", 1e-12, 2e-5, expansion, 0},
    {"K02", "WY form: F_r .. F_1 = I - K^T W, H = K^T U", 1e-12, HOST, wy, 0},
    {"K03", "UT transform against w and u one after the other", 1e-12, HOST, sequential, 0},
    {"K03", "|T_ij| <= beta_i beta_j in 500 chunks", 1e-12, HOST, bound, 0},
    {"K04", "gated UT: T = D T D^-1, both forms of W", 1e-12, HOST, gated_ut, 0},
    {"K05", "chunk step against the loop, from a state", 1e-11, HOST, chunk_formula, 0},
    {"K05", "the chunk's output with M for Gamma must fail (E19)", 0, HOST, chunk_formula, 1},
    // 200 tokens of a contraction; the chunk form's triangular solve costs a digit (kernels/chunk.h).
    {"K05", "the backend's chunks, K = V = 64, 200 tokens", 1e-11, 2e-4, on_backend_chunks,
     CHUNKS_DELTA},
    {"K06", "attention map ((Q K^T) . Gamma) T", 1e-12, HOST, attention_map, 0},
    {"K07", "inverse by blocks of 16 against long double", 1e-13, HOST, block_inverse, 0},
    {"K09", "the backend's DPLR chunks, decay per channel", 1e-11, 2e-4, on_backend_chunks,
     CHUNKS_PAIR},
};
const size_t n_verify_parallel = sizeof verify_parallel / sizeof *verify_parallel;
