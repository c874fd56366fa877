// Random tokens, losses and updates of the rows of analyses/explain.h. S of science.md R14 is H
// here.
#include "analyses/explain_math.h"

#include "core/random.h"
#include "core/step_kinds.h"

#include <lapacke.h>
#include <math.h>
#include <string.h>

enum { K = EXPLAIN_K, V = EXPLAIN_V };

// ---- random tokens ------------------------------------------------------------------------------

static void normals(double *x, int n, uint64_t *seed) {
    for (int i = 0; i < n; i++)
        x[i] = random_normal(seed);
}

static void unit(double *x, uint64_t *seed) {
    double sum = 0;
    normals(x, K, seed);
    for (int i = 0; i < K; i++)
        sum += x[i] * x[i];
    for (int i = 0; i < K; i++)
        x[i] /= sqrt(sum);
}

void explain_draw_token(const recurrence *r, uint64_t *seed, explain_draw *d) {
    memset(d, 0, sizeof *d);
    d->n_h = r->n_h;
    normals(d->H, K * V, seed);
    normals(d->v, EXPLAIN_MICRO * V, seed);
    for (int j = 0; j < EXPLAIN_MICRO; j++) {
        unit(d->k + j * K, seed);
        d->beta[j] = r->beta_max > 0 ? r->beta_max * random_uniform(seed) : 1;
    }
    double all = 0.6 + 0.4 * random_uniform(seed);
    for (int i = 0; i < K; i++)
        d->w[i] = r->decay == DECAY_NONE      ? 1
                  : r->decay == DECAY_CHANNEL ? 0.6 + 0.4 * random_uniform(seed)
                                              : all;
    if (r->special)
        r->special(d, seed);
}

// gamma = 1 - 2^(-5-h): head 0 to 7.
void explain_draw_retnet(explain_draw *d, uint64_t *seed) {
    double gamma = 1 - ldexp(1, -5 - (int)(8 * random_uniform(seed)));
    for (int i = 0; i < K; i++)
        d->w[i] = gamma;
}

void explain_draw_hgrn2(explain_draw *d, uint64_t *seed) {
    (void)seed;
    for (int i = 0; i < K; i++)
        d->k[i] = 1 - d->w[i];
}

// Keys of any length.
void explain_draw_longhorn(explain_draw *d, uint64_t *seed) {
    normals(d->k, K, seed);
}

void explain_draw_comba(explain_draw *d, uint64_t *seed) {
    unit(d->read, seed);
    for (int i = 0; i < K; i++)
        d->a[i] = -d->beta[0] * d->k[i];
}

void explain_draw_rwkv7(explain_draw *d, uint64_t *seed) {
    normals(d->k, K, seed);
    unit(d->read, seed);
    for (int i = 0; i < K; i++) {
        d->rate[i] = random_uniform(seed);
        d->a[i] = -d->rate[i] * d->read[i];
    }
}

void explain_draw_dplr(explain_draw *d, uint64_t *seed) {
    unit(d->a, seed);
    unit(d->read, seed);
    normals(d->k, K, seed);
}

// ---- core/steps.h -------------------------------------------------------------------------------

steps explain_steps(const recurrence *r, explain_draw *d) {
    for (int i = 0; i < K; i++)
        d->log_w[i] = log(d->w[i]);
    step_inputs x = {.T = 1,
                     .K = K,
                     .V = V,
                     .scale = 1,
                     .k = d->k,
                     .v = d->v,
                     .beta = d->beta,
                     .w_log = d->log_w,
                     .a = d->a,
                     .b = d->read};
    if (r->own == explain_own_longhorn)
        return step_longhorn(&x, d->strength);
    if (r->own == explain_own_dplr)
        return step_dplr(&x);
    head_shape s = {.H = 1, .Hk = 1, .K = K, .V = V, .n_h = r->n_h, .scale = 1};
    s.decay = r->decay;
    s.erase = r->erase;
    s.beta_max = r->beta_max;
    return (steps){
        .s = s,
        .T = 1,
        .k = step_matrix(d->k, r->n_h, K),
        .v = step_matrix(d->v, r->n_h, V),
        .beta = r->beta_max > 0 ? step_matrix(d->beta, r->n_h, 1) : MAT_NONE,
        .decay = r->decay == DECAY_NONE ? MAT_NONE
                                        : step_matrix(d->log_w, 1, r->decay == DECAY_HEAD ? 1 : K),
        .a = r->erase == ERASE_PAIR ? step_matrix(d->a, 1, K) : MAT_NONE,
        .b = r->erase == ERASE_PAIR ? step_matrix(d->read, 1, K) : MAT_NONE,
    };
}

// X [K, n] <- (I - beta k k^T) X
static void erase(double *X, int n, const double *k, double beta) {
    for (int c = 0; c < n; c++) {
        double r = 0;
        for (int i = 0; i < K; i++)
            r += k[i] * X[i * n + c];
        for (int i = 0; i < K; i++)
            X[i * n + c] -= beta * k[i] * r;
    }
}

void explain_dense(const steps *s, double *A, double *B) {
    const double *g = s->decay.p, *a = s->a.p, *b = s->b.p, *beta = s->beta.p;
    memset(A, 0, K * K * sizeof *A);
    memset(B, 0, K * V * sizeof *B);
    for (int i = 0; i < K; i++)
        A[i * K + i] = g ? exp(g[s->s.decay == DECAY_CHANNEL ? i : 0]) : 1;
    for (int i = 0; i < K * K && s->s.erase == ERASE_PAIR; i++)
        A[i] += a[i / K] * b[i % K];
    for (int j = 0; j < s->s.n_h; j++) {
        const double *k = (const double *)s->k.p + j * K, *v = (const double *)s->v.p + j * V;
        double strength = beta ? beta[j] : 1;
        if (s->s.erase == ERASE_KEY) {
            erase(A, K, k, strength);
            erase(B, V, k, strength);
        }
        for (int i = 0; i < K * V; i++)
            B[i] += strength * k[i / V] * v[i % V];
    }
}

// ---- losses -------------------------------------------------------------------------------------

static double read_at(const double *X, const double *k, int c) {
    double r = 0;
    for (int i = 0; i < K; i++)
        r += k[i] * X[i * V + c];
    return r;
}

// 1/2 |sqrt(Diag(1 - w)) X|_F^2: descending it alone is the decay
static double keep_small(const explain_draw *d, const double *X) {
    double sum = 0;
    for (int i = 0; i < K * V; i++)
        sum += (1 - d->w[i / V]) * X[i] * X[i];
    return sum / 2;
}

// -beta <X^T k, v> + 1/2 |sqrt(Diag(1 - w)) X|_F^2
double explain_loss_write(const explain_draw *d, int j, const double *X) {
    double sum = 0;
    for (int c = 0; c < V; c++)
        sum += read_at(X, d->k + j * K, c) * d->v[j * V + c];
    return keep_small(d, X) - d->beta[j] * sum;
}

// beta/2 |X^T k - v|^2
double explain_loss_regression(const explain_draw *d, int j, const double *X) {
    double sum = 0;
    for (int c = 0; c < V; c++)
        sum += pow(read_at(X, d->k + j * K, c) - d->v[j * V + c], 2);
    return d->beta[j] * sum / 2;
}

double explain_loss_kept(const explain_draw *d, int j, const double *X) {
    return explain_loss_regression(d, j, X) + keep_small(d, X);
}

double explain_loss_implicit(const explain_draw *d, int j, const double *X) {
    double sum = 0;
    for (int i = 0; i < K * V; i++)
        sum += pow(X[i] - d->H[i], 2);
    return explain_loss_regression(d, j, X) + sum / 2;
}

// ---- updates, as the sources write them ---------------------------------------------------------

static void decayed(const explain_draw *d, double *out) {
    for (int i = 0; i < K * V; i++)
        out[i] = d->w[i / V] * d->H[i];
}

void explain_own_write(const explain_draw *d, double *out) {
    decayed(d, out);
    for (int i = 0; i < K * V; i++)
        out[i] += d->beta[0] * d->k[i / V] * d->v[i % V];
}

// Read the old value, move it towards the new one: H <- H + beta k (v - H^T k)^T.
static void correct(double *H, const double *k, const double *v, double beta) {
    for (int c = 0; c < V; c++) {
        double gap = v[c] - read_at(H, k, c);
        for (int i = 0; i < K; i++)
            H[i * V + c] += beta * k[i] * gap;
    }
}

void explain_own_delta(const explain_draw *d, double *out) {
    decayed(d, out);
    for (int j = 0; j < d->n_h; j++)
        correct(out, d->k + j * K, d->v + j * V, d->beta[j]);
}

// The minimiser by Sherman and Morrison: (I + beta k k^T)^-1 (H + beta k v^T).
void explain_own_longhorn(const explain_draw *d, double *out) {
    double kk = 0;
    for (int i = 0; i < K; i++)
        kk += d->k[i] * d->k[i];
    for (int c = 0; c < V; c++) {
        double r = 0;
        for (int i = 0; i < K; i++) {
            out[i * V + c] = d->H[i * V + c] + d->beta[0] * d->k[i] * d->v[c];
            r += d->k[i] * out[i * V + c];
        }
        for (int i = 0; i < K; i++)
            out[i * V + c] -= d->beta[0] / (1 + d->beta[0] * kk) * d->k[i] * r;
    }
}

// What is read along `read` comes from the old state; then decay, then both writes.
static void pair(const explain_draw *d, const double *write, double beta, double *out) {
    decayed(d, out);
    for (int c = 0; c < V; c++) {
        double r = read_at(d->H, d->read, c);
        for (int i = 0; i < K; i++)
            out[i * V + c] += write[i] * r + beta * d->k[i] * d->v[c];
    }
}

void explain_own_comba(const explain_draw *d, double *out) {
    double write[K];
    for (int i = 0; i < K; i++)
        write[i] = -d->beta[0] * d->k[i];
    pair(d, write, d->beta[0], out);
}

void explain_own_dplr(const explain_draw *d, double *out) {
    pair(d, d->a, 1, out);
}

// The source's row state S = H^T: S <- S (Diag(w) - kap^T (a . kap)) + v k^T.
void explain_own_rwkv7(const explain_draw *d, double *out) {
    for (int c = 0; c < V; c++) {
        double row[K], r = 0;
        for (int i = 0; i < K; i++) {
            row[i] = d->H[i * V + c];
            r += row[i] * d->read[i];
        }
        for (int i = 0; i < K; i++)
            out[i * V + c] = row[i] * d->w[i] - r * d->rate[i] * d->read[i] + d->v[c] * d->k[i];
    }
}

// ---- known cases --------------------------------------------------------------------------------

// Largest |eigenvalue| of a 2 x 2 matrix and its angle in degrees.
static double largest(double m[4], double *degrees) {
    double re[2], im[2];
    if (LAPACKE_dgeev(LAPACK_ROW_MAJOR, 'N', 'N', 2, m, 2, re, im, NULL, 1, NULL, 1) != 0)
        return NAN;
    int i = hypot(re[1], im[1]) > hypot(re[0], im[0]);
    *degrees = fabs(atan2(im[i], re[i])) * 180 / M_PI;
    return hypot(re[i], im[i]);
}

static void times(const double x[4], const double y[4], double out[4]) {
    for (int i = 0; i < 4; i++)
        out[i] = x[i / 2 * 2] * y[i % 2] + x[i / 2 * 2 + 1] * y[2 + i % 2];
}

// G02: keys 60 degrees apart, beta 2 and 2: two mirrors make a turn by twice their angle.
double explain_known_rotation(void) {
    double s = sqrt(3) / 2, degrees = NAN, product[4];
    const double F1[4] = {-1, 0, 0, 1}, F2[4] = {0.5, -s, -s, -0.5};
    times(F2, F1, product);
    double r = largest(product, &degrees);
    return fabs(r - 1) < 1e-12 ? degrees : NAN;
}

// G15: w = 1 and unit kappa, in-context rates 0 and 1; column-state form.
double explain_known_rwkv7(void) {
    double s = sqrt(3) / 4, degrees = NAN, product[4];
    const double A1[4] = {0.75, -s, 0, 1}, A2[4] = {1, 0, -s, 0.75};
    times(A2, A1, product);
    return largest(product, &degrees);
}
