// G01-G17: eigenvalues, norms and determinants of transitions, against closed forms and LAPACK.
#include "analyses/verify/verify.h"

#include "analyses/verify/small.h"
#include "core/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// n tokens of n_h unit keys each, beta in (lo, hi), gates in (0.8, 1) or none.
typedef struct sample {
    double k[4096 * 16], beta[8192], g[4096];
    transitions x;
} sample;

static sample *draw(uint64_t seed, int T, int K, int n_h, double lo, double hi, bool gated,
                    err *e) {
    sample *s = malloc(sizeof *s);
    if (!s) {
        err_set(e, ERR_NOMEM, "out of memory: a sample of transitions");
        return NULL;
    }
    for (int i = 0; i < T * n_h; i++) {
        small_unit(s->k + i * K, K, &seed);
        s->beta[i] = lo + (hi - lo) * random_uniform(&seed);
    }
    for (int t = 0; t < T; t++)
        s->g[t] = log(0.8 + 0.2 * random_uniform(&seed));
    s->x = (transitions){.kind = TRANSITION_KEYS,
                         .decay = gated ? TDECAY_HEAD : TDECAY_NONE,
                         .T = T,
                         .K = K,
                         .n_h = n_h,
                         .k = s->k,
                         .beta = s->beta,
                         .g = gated ? s->g : NULL};
    return s;
}

// The product of all factors, newest on the left.
static void product(const transitions *x, double *P) {
    small_identity(P, x->K);
    for (int64_t i = 0; i < x->T * x->n_h; i++) {
        for (int c = 0; x->g && i % x->n_h == 0 && c < x->K * x->K; c++)
            P[c] *= exp(x->g[i / x->n_h]);
        small_reflect(P, x->K, x->K, x->k + i * x->K, x->beta[i]);
    }
}

static bool factor_spectrum(const verify_case *c, double *error, err *e) {
    enum { N = 8 };
    sample *s = draw(c->env->seed + 1, 1, N, 1, 0.3, 1.9, false, e);
    double complex eig[N];
    window_facts facts;
    bool ok = s && c->be->op->window_spectrum(c->be, &s->x, 0, 1, eig, NULL, &facts, e);
    *error = 0;
    for (int i = 0; ok && i < N; i++)
        *error = small_max(*error, fmin(cabs(eig[i] - 1), cabs(eig[i] - (1 - s->beta[0]))));
    if (ok) // d-1 ones: the trace tells how many
        *error = small_max(*error, fabs(exp(facts.logabsdet) - fabs(1 - s->beta[0])));
    free(s);
    return ok;
}

static bool turn_120(const verify_case *c, double *error, err *e) {
    double r = sqrt(3) / 2, k[4] = {1, 0, 0.5, r}, beta[2] = {2, 2};
    const double want[4] = {-0.5, -r, r, -0.5};
    double F1[4], F2[4], P[4], PP[4], PPP[4], one[4] = {1, 0, 0, 1};
    transitions x = {.kind = TRANSITION_KEYS, .T = 1, .K = 2, .n_h = 2, .k = k, .beta = beta};
    double complex eig[2];
    small_factor(k, 2, 2, F1);
    small_factor(k + 2, 2, 2, F2);
    small_mul(F2, F1, 2, 2, 2, P);
    small_mul(P, P, 2, 2, 2, PP);
    small_mul(P, PP, 2, 2, 2, PPP);
    if (!c->be->op->token_spectrum(c->be, &x, 0, eig, e))
        return false;
    *error = small_max(small_difference(P, want, 4), small_difference(PPP, one, 4));
    *error = small_max(*error, fabs(fabs(carg(eig[0])) - 2 * M_PI / 3));
    return true;
}

// Mismatches between the sign of the discriminant and LAPACK, among 4000 random pairs; nearly equal
// eigenvalues are nobody's fault and left out.
static bool complex_condition(const verify_case *c, double *error, err *e) {
    uint64_t seed = c->env->seed + 3;
    (void)e;
    *error = 0;
    for (int n = 0; n < 4000; n++) {
        double k1[4], k2[4], F1[16], F2[16], P[16];
        double complex w[4];
        double b1 = 2 * random_uniform(&seed), b2 = 2 * random_uniform(&seed);
        small_unit(k1, 4, &seed);
        small_unit(k2, 4, &seed);
        double cc = small_dot(k1, k2, 4), tau = 2 - b1 - b2 + b1 * b2 * cc * cc,
               delta = (1 - b1) * (1 - b2), gap = tau * tau - 4 * delta;
        double x = b1 - 1, y = b2 - 1, m = b1 * b2 * cc * cc;
        bool between =
            x > 0 && y > 0 && m > pow(sqrt(x) - sqrt(y), 2) && m < pow(sqrt(x) + sqrt(y), 2);
        if (fabs(gap) < 1e-9)
            continue;
        small_factor(k1, b1, 4, F1);
        small_factor(k2, b2, 4, F2);
        small_mul(F2, F1, 4, 4, 4, P);
        small_eigenvalues(P, 4, w);
        bool turned = false;
        for (int i = 0; i < 4; i++)
            turned |= fabs(cimag(w[i])) > 1e-7;
        *error += turned != (gap < 0);
        *error += between != (gap < 0);
    }
    return true;
}

static bool pair_angle(const verify_case *c, double *error, err *e) {
    double k[4] = {1, 0, 0.4, sqrt(1 - 0.16)}, beta[2] = {1.6, 1.9};
    transitions x = {.kind = TRANSITION_KEYS, .T = 1, .K = 2, .n_h = 2, .k = k, .beta = beta};
    double complex eig[2];
    if (!c->be->op->token_spectrum(c->be, &x, 0, eig, e))
        return false;
    double tau = 2 - 3.5 + 1.6 * 1.9 * 0.16, delta = 0.6 * 0.9; // 0.734846923, 2.331826 rad
    *error = small_max(fabs(cabs(eig[0]) - sqrt(delta)),
                       fabs(fabs(carg(eig[0])) - acos(tau / (2 * sqrt(delta)))));
    return true;
}

static bool same_key(const verify_case *c, double *error, err *e) {
    uint64_t seed = c->env->seed + 5;
    double k[6], P[36], F[36], keep = 1;
    (void)e;
    small_unit(k, 6, &seed);
    small_identity(P, 6);
    for (int j = 0; j < 3; j++) {
        double b = 2 * random_uniform(&seed);
        keep *= 1 - b;
        small_reflect(P, 6, 6, k, b);
    }
    small_factor(k, 1 - keep, 6, F);
    *error = small_difference(P, F, 36);
    return true;
}

static bool orthogonal_keys(const verify_case *c, double *error, err *e) {
    enum { N = 6 };
    uint64_t seed = c->env->seed + 6;
    double k[N * N] = {0}, beta[N];
    for (int i = 0; i < 3; i++) {
        k[i * N + 2 * i] = 0.6;
        k[i * N + 2 * i + 1] = 0.8;
        beta[i] = 2 * random_uniform(&seed);
    }
    transitions x = {.kind = TRANSITION_KEYS, .T = 1, .K = N, .n_h = 3, .k = k, .beta = beta};
    double complex eig[N];
    window_facts facts;
    if (!c->be->op->window_spectrum(c->be, &x, 0, 1, eig, NULL, &facts, e))
        return false;
    *error = facts.asymmetry;
    return true;
}

static bool rank_of_change(const verify_case *c, double *error, err *e) {
    enum { N = 10 };
    sample *s = draw(c->env->seed + 7, 1, N, 3, 0.3, 1.9, true, e);
    double P[N * N];
    if (!s)
        return false;
    product(&s->x, P);
    *error = abs(small_rank(P, N, 1e-12) - N);
    for (int i = 0; i < N; i++)
        P[i * N + i] -= exp(s->g[0]);
    *error += abs(small_rank(P, N, 1e-12) - 3);
    free(s);
    return true;
}

static bool contraction(const verify_case *c, double *error, err *e) {
    enum { N = 12 };
    sample *s = draw(c->env->seed + 8, 144, N, 1, 0, 2, false, e);
    double P[N * N], F[N * N];
    if (!s)
        return false;
    product(&s->x, P);
    *error = small_max(0, small_norm2(P, N) - 1);
    small_factor(s->k, 2.1, N, F); // above 2 it is none
    *error = small_max(*error, fabs(small_norm2(F, N) - 1.1));
    free(s);
    return true;
}

static bool states_grow(const verify_case *c, double *error, err *e) {
    (void)c, (void)e;
    double H[4] = {0}, B[4] = {0.3, -0.4, 0, 1.2};
    for (int t = 0; t < 50; t++)
        for (int i = 0; i < 4; i++)
            H[i] += B[i];
    *error = fabs(small_norm(H, 4) - 50 * small_norm(B, 4));
    return true;
}

static bool product_not_sum(const verify_case *c, double *error, err *e) {
    (void)c, (void)e;
    double k[3] = {0.6, 0, 0.8}, P[9], one[9], sum[9];
    small_identity(P, 3);
    small_identity(one, 3);
    small_reflect(P, 3, 3, k, 2);
    small_reflect(P, 3, 3, k, 2);
    small_factor(k, 4, 3, sum); // I - 2 k k^T - 2 k k^T
    *error = small_max(small_difference(P, one, 9), fabs(small_radius(sum, 3) - 3));
    return true;
}

// 6, 4, 2, 0, 0 eigenvalues at the decay itself for windows of 1 to 5 tokens, d = 8, n_h = 2.
static bool frozen(const verify_case *c, double *error, err *e) {
    static const int want[] = {6, 4, 2, 0, 0};
    *error = 0;
    for (int gated = 0; gated < 2; gated++) {
        sample *s = draw(c->env->seed + 11, 5, 8, 2, 0.2, 1.8, gated, e);
        for (int W = 1; s && W <= 5; W++) {
            double complex eig[8];
            window_facts facts;
            double still = 0;
            int ones = 0;
            for (int t = 5 - W; gated && t < 5; t++)
                still += s->g[t];
            if (!c->be->op->window_spectrum(c->be, &s->x, 4, W, eig, NULL, &facts, e)) {
                free(s);
                return false;
            }
            for (int i = 0; i < 8; i++)
                ones += cabs(eig[i] * exp(facts.log_scale) - exp(still)) < 1e-10;
            *error += abs(ones - want[W - 1]) + abs(facts.frozen - want[W - 1]);
        }
        if (!s)
            return false;
        free(s);
    }
    return true;
}

static bool determinants(const verify_case *c, double *error, err *e) {
    enum { N = 8, W = 12 };
    sample *s = draw(c->env->seed + 12, W, N, 2, 0.2, 1.9, true, e);
    double ledger[W], sum = 0, from_eig = 0, P[N * N];
    double complex w[N];
    if (!s)
        return false;
    c->be->op->ledger(c->be, &s->x, ledger);
    product(&s->x, P);
    small_eigenvalues(P, N, w);
    for (int t = 0; t < W; t++)
        sum += ledger[t];
    for (int i = 0; i < N; i++)
        from_eig += log(cabs(w[i]));
    *error = fabs(sum - from_eig);
    free(s);
    return true;
}

// Orthonormal keys clear; 8 random ones leave rank 7 (E25).
static bool clearing(const verify_case *c, double *error, err *e) {
    enum { N = 8 };
    (void)e;
    uint64_t seed = c->env->seed + 13;
    double H[N * N], R[N * N], k[N];
    small_normals(H, N * N, &seed);
    memcpy(R, H, sizeof R);
    for (int j = 0; j < N; j++) {
        for (int i = 0; i < N; i++)
            k[i] =
                sqrt(2.0 / N) * (j == 0 ? sqrt(0.5) : 1) * cos(M_PI * j * (2 * i + 1) / (2.0 * N));
        small_reflect(H, N, N, k, 1);
        small_unit(k, N, &seed);
        small_reflect(R, N, N, k, 1);
    }
    *error = small_norm(H, N * N) + abs(small_rank(R, N, 1e-12) - 7);
    return true;
}

static bool norm_and_radius(const verify_case *c, double *error, err *e) {
    (void)c, (void)e;
    double J[4] = {1, 100, 0, 1}; // [[1, 1], [0, 1]]^100
    *error = small_max(fabs(small_radius(J, 2) - 1), fabs(small_norm2(J, 2) - (50 + sqrt(2501))));
    return true;
}

static bool rwkv7_radius(const verify_case *c, double *error, err *e) {
    // kappa = (1/2, sqrt3/2), a = (1, 0); kappa' = (sqrt3/2, 1/2), a' = (0, 1). Written along
    // -a.kappa, read along kappa.
    double s = sqrt(3) / 2, a[4] = {-0.5, 0, 0, -0.5}, b[4] = {0.5, s, s, 0.5};
    double g[4] = {0};
    transitions x = {.kind = TRANSITION_DPLR,
                     .decay = TDECAY_CHANNEL,
                     .T = 2,
                     .K = 2,
                     .n_h = 1,
                     .a = a,
                     .b = b,
                     .g = g};
    double complex eig[2];
    window_facts facts;
    if (!c->be->op->window_spectrum(c->be, &x, 1, 2, eig, NULL, &facts, e))
        return false;
    *error = fabs(facts.radius - (27 + 3 * sqrt(17)) / 32);
    return true;
}

// A single RWKV-7 step: real spectrum inside [-1, 1], in 500 random draws.
static bool rwkv7_steps(const verify_case *c, double *error, err *e) {
    enum { N = 6 };
    (void)e;
    uint64_t seed = c->env->seed + 16;
    *error = 0;
    for (int n = 0; n < 500; n++) {
        double kap[N], A[N * N] = {0};
        double complex w[N];
        small_unit(kap, N, &seed);
        for (int i = 0; i < N; i++) {
            double rate = random_uniform(&seed);
            A[i * N + i] = 0.6 + 0.4 * random_uniform(&seed);
            for (int j = 0; j < N; j++)
                A[i * N + j] -= rate * kap[i] * kap[j];
        }
        small_eigenvalues(A, N, w);
        for (int i = 0; i < N; i++)
            *error = small_max(*error, small_max(fabs(cimag(w[i])), fabs(creal(w[i])) - 1));
    }
    return true;
}

// Exponents by QR sum to the determinant's logarithm, written out.
static bool exponents(const verify_case *c, double *error, err *e) {
    enum { N = 8, T = 4000 };
    sample *s = draw(c->env->seed + 17, T, N, 1, 0.05, 1.95, true, e);
    double exponent[N], sum = 0, total = 0;
    bool ok = s && c->be->op->lyapunov(c->be, &s->x, 0, T, exponent, e);
    for (int i = 0; ok && i < N; i++)
        sum += exponent[i] * T;
    for (int t = 0; ok && t < T; t++)
        total += log(fabs(1 - s->beta[t] * small_dot(s->k + t * N, s->k + t * N, N))) + N * s->g[t];
    if (ok)
        *error = fabs(sum - total) / fabs(total);
    free(s);
    return ok;
}

// Windows of one sample, many at a time where the backend can, and their exponents: trace, norm, radius
// and determinant against a product multiplied out here, relative to the norm; the largest error.
static bool windows_together(const verify_case *c, double *error, err *e) {
    enum { N = 32, T = 256, W = 24, JOBS = 40 };
    const backend_ops *op = c->be->op;
    sample *s = draw(c->env->seed + 18, T, N, 1, 0.2, 1.9, true, e);
    double complex *eig = malloc(sizeof *eig * JOBS * N);
    double P[N * N], exponent[N], sum = 0, total = 0;
    window_facts facts[JOBS];
    window_job job[JOBS];
    lyapunov_job last = {.first = 0, .n = T, .exponents = exponent};
    bool ok = s && (eig || err_set(e, ERR_NOMEM, "out of memory: eigenvalues"));
    for (int i = 0; ok && i < JOBS; i++)
        job[i] = (window_job){&s->x, W - 1 + 5 * i, W, eig + i * N, &facts[i], false};
    if (ok && op->window_spectra)
        ok = op->window_spectra(c->be, job, JOBS, e);
    *error = 0;
    for (int i = 0; ok && i < JOBS; i++) {
        double complex trace = 0;
        double want = 0, log_det = 0;
        if (!job[i].done)
            ok = op->window_spectrum(c->be, &s->x, job[i].last, W, job[i].eig, NULL, &facts[i], e);
        transitions part = s->x;
        part.T = W;
        part.k += (job[i].last - W + 1) * N;
        part.beta += job[i].last - W + 1;
        part.g += job[i].last - W + 1;
        product(&part, P);
        for (int n = 0; n < N; n++) {
            trace += job[i].eig[n] * exp(facts[i].log_scale);
            want += P[n * N + n];
        }
        for (int t = 0; t < W; t++)
            log_det += log(fabs(1 - part.beta[t] * small_dot(part.k + t * N, part.k + t * N, N))) +
                       N * part.g[t];
        double norm = small_norm2(P, N);
        *error = small_max(*error, cabs(trace - want) / norm);
        *error = small_max(*error, fabs(facts[i].norm2 * exp(facts[i].log_scale) - norm) / norm);
        *error = small_max(*error, fabs(facts[i].logabsdet - log_det) / fabs(log_det));
    }
    if (ok)
        last.x = &s->x;
    if (ok && op->lyapunov_spectra)
        ok = op->lyapunov_spectra(c->be, &last, 1, e);
    if (ok && !last.done)
        ok = op->lyapunov(c->be, &s->x, 0, T, exponent, e);
    for (int i = 0; ok && i < N; i++)
        sum += exponent[i] * T;
    for (int t = 0; ok && t < T; t++)
        total += log(fabs(1 - s->beta[t] * small_dot(s->k + t * N, s->k + t * N, N))) + N * s->g[t];
    *error = small_max(*error, fabs(sum - total) / fabs(total));
    free(eig);
    free(s);
    return ok;
}

#define HOST NAN
const check verify_geometry[] = {
    {"G01", "one factor: d-1 ones, one 1 - beta; det 1 - beta", 1e-12, HOST, factor_spectrum, 0},
    {"G02", "keys 60 degrees apart turn by 120; the cube is I", 1e-14, HOST, turn_120, 0},
    {"G03", "complex pair condition: mismatches in 4000 pairs", 0, HOST, complex_condition, 0},
    {"G04", "modulus sqrt(delta) and angle of a pair", 1e-12, HOST, pair_angle, 0},
    {"G05", "same key: 1 - prod(1 - beta)", 1e-14, HOST, same_key, 0},
    {"G06", "orthogonal keys make a symmetric product", 1e-14, HOST, orthogonal_keys, 0},
    {"G07", "rank(A - g I) = n_h, A of full rank", 0, HOST, rank_of_change, 0},
    {"G08", "144 factors have |P|_2 <= 1; one with beta 2.1 not", 1e-12, HOST, contraction, 0},
    {"G09", "contraction does not bound the state", 1e-12, HOST, states_grow, 0},
    {"G10", "two mirrors multiply to I; summed they reach -3", 1e-12, HOST, product_not_sum, 0},
    {"G11", "windows keep d - W n_h directions", 0, HOST, frozen, 0},
    // LAPACK rounds the smallest eigenvalues of a product of 12 tokens.
    {"G12", "determinant ledger against eigenvalues (log)", 1e-6, HOST, determinants, 0},
    {"G13", "orthonormal keys clear, random ones leave rank 7", 1e-12, HOST, clearing, 0},
    {"G14", "radius 1, norm 100.01: a Jordan block to the 100th", 1e-9, HOST, norm_and_radius, 0},
    {"G15", "RWKV-7: product of radius 1.2303 (reconstruction)", 1e-12, HOST, rwkv7_radius, 0},
    {"G16", "RWKV-7: one token has real eigenvalues in [-1, 1]", 1e-10, HOST, rwkv7_steps, 0},
    {"G17", "Lyapunov exponents sum to the ledger, 4000 tokens", 1e-12, HOST, exponents, 0},
    // Spectra are in float64 on every device; eigenvalues of a product carry its condition.
    {"G17", "windows and exponents many at a time, by products", 1e-10, 1e-10, windows_together, 0},
};
const size_t n_verify_geometry = sizeof verify_geometry / sizeof *verify_geometry;
