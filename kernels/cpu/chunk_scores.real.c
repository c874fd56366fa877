// Decayed rows and decayed scores of one chunk. Every factor that appears is a product of decays,
// so none exceeds 1 and underflow means a contribution that is gone.
#include "kernels/cpu/chunk_impl.h"

#include <cblas.h>

enum { LANES = 64 / sizeof(real) };

static inline int step_of(const readers *r, int i) {
    return r->first + i * r->every;
}

static void ones(real *p, int n) {
    for (int i = 0; i < n; i++)
        p[i] = 1;
}

// Partial sums side by side: without them a sum in order is one long chain of additions.
static real dot(const real *x, const real *y, int n) {
    real lane[LANES] = {0}, sum = 0;
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int c = 0; c < LANES; c++)
            lane[c] += x[i + c] * y[i + c];
    for (int c = 0; c < LANES; c++)
        sum += lane[c];
    for (; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

void FN(chunk_gamma)(int n, const real *w, real *gamma) {
    memset(gamma, 0, (size_t)n * (size_t)n * sizeof *gamma);
    for (int i = 0; i < n; i++) {
        real *row = gamma + (int64_t)i * n;
        for (int j = 0; j < i; j++)
            row[j] = w[i] * row[j - n];
        row[i] = 1;
    }
}

void FN(chunk_left)(const chunk *c, const readers *r, int i0, int i1, int from) {
    int K = c->K, l = from;
    real *restrict p = c->p;
    ones(p, c->channel ? K : 1);
    for (int i = i0; i < i1; i++) {
        const real *x = r->x + i * r->ld;
        real *restrict out = c->left + (int64_t)(i - i0) * K;
        for (; l <= step_of(r, i); l++)
            if (c->channel)
                for (int d = 0; d < K; d++)
                    p[d] *= c->w[(int64_t)l * K + d];
            else
                p[0] *= c->w[l];
        if (c->channel)
            for (int d = 0; d < K; d++)
                out[d] = p[d] * x[d];
        else
            for (int d = 0; d < K; d++)
                out[d] = p[0] * x[d];
    }
}

void FN(chunk_right)(const chunk *c, const real *x, int64_t ld, int to) {
    int K = c->K;
    real *restrict p = c->p;
    ones(p, c->channel ? K : 1);
    for (int j = to - 1; j >= 0; j--) {
        const real *from = x + j * ld;
        real *restrict out = c->right + (int64_t)j * K;
        if (c->channel) {
            const real *w = c->w + (int64_t)j * K;
            for (int d = 0; d < K; d++) {
                out[d] = p[d] * from[d];
                p[d] *= w[d];
            }
        } else {
            for (int d = 0; d < K; d++)
                out[d] = p[0] * from[d];
            p[0] *= c->w[j];
        }
    }
}

static void scores_head(const chunk *c, const readers *r, const real *x, int64_t ld, real *P) {
    int n = c->n;
    REAL_GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, r->n, n, c->K, 1, r->x, (int)r->ld, x,
              (int)ld, 0, P, n);
    for (int i = 0; i < r->n; i++) {
        int e = step_of(r, i);
        real *row = P + (int64_t)i * n;
        if (e < 0)
            memset(row, 0, (size_t)n * sizeof *row);
        else
            for (int j = 0; j < n; j++)
                row[j] = j <= e ? row[j] * c->gamma[(int64_t)e * n + j] : 0;
    }
}

// Readers i0..i1 whose step lies in the sub-block that starts at step b, against b's own columns.
static void scores_within(const chunk *c, const readers *r, int i0, int i1, const real *x,
                          int64_t ld, int b, real *P) {
    int n = c->n, K = c->K, last = b + CHUNK_SUB < n ? b + CHUNK_SUB : n;
    real *restrict p = c->p;
    for (int j = b; j < last; j++) {
        int l = j; // p = D_l .. D_{j+1} x_j
        memcpy(p, x + j * ld, (size_t)K * sizeof *p);
        for (int i = i0; i < i1; i++) {
            if (step_of(r, i) < j)
                continue;
            while (l < step_of(r, i)) {
                const real *w = c->w + (int64_t)++l * K;
                for (int d = 0; d < K; d++)
                    p[d] *= w[d];
            }
            P[(int64_t)i * n + j] = dot(r->x + i * r->ld, p, K);
        }
    }
}

static void scores_channel(const chunk *c, const readers *r, const real *x, int64_t ld, real *P) {
    int n = c->n, i1 = 0;
    memset(P, 0, (size_t)r->n * (size_t)n * sizeof *P);
    while (i1 < r->n && step_of(r, i1) < 0)
        i1++;
    for (int b = 0; b < n; b += CHUNK_SUB) {
        int i0 = i1;
        while (i1 < r->n && step_of(r, i1) < b + CHUNK_SUB)
            i1++;
        if (i0 == i1)
            continue;
        scores_within(c, r, i0, i1, x, ld, b, P);
        if (b == 0)
            continue;
        FN(chunk_left)(c, r, i0, i1, b);
        FN(chunk_right)(c, x, ld, b);
        REAL_GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, i1 - i0, b, c->K, 1, c->left, c->K,
                  c->right, c->K, 0, P + (int64_t)i0 * n, n);
    }
}

void FN(chunk_scores)(const chunk *c, const readers *r, const real *x, int64_t ld, real *P) {
    if (c->channel)
        scores_channel(c, r, x, ld, P);
    else
        scores_head(c, r, x, ld, P);
}
