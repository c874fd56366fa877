// The step form, register-tiled, and the choice between it and the chunk form.
//
// Columns of a state never talk to each other, so a state is cut into tiles of TILE columns; a tile
// (K x TILE) stays in the first-level cache for the whole block. A micro-step is two passes over it:
// one reads along the key, one decays, writes and, at a token's last micro-step, reads along the
// query.
#include "kernels/cpu/real.h"

#include "core/mem.h"
#include "kernels/chunk.h"
#include "kernels/recurrence.h"

#include <stdlib.h>

#define INLINE static inline __attribute__((always_inline))

// Two cache lines, four registers of 32 bytes (AVX; elsewhere the compiler takes pairs of 16).
typedef real vec __attribute__((vector_size(32)));
typedef vec quad[4];
enum { TILE = sizeof(quad) / (sizeof(real)) };

typedef struct tile {
    quad *S;      // [K]
    real *w, *kw; // [K] decay factors of a token, and times its first key
} tile;

static size_t tile_rows(int K) { // S, and w and kw behind it
    return (size_t)K + 2 * (size_t)K / TILE + 1;
}

static tile tile_in(quad *rows, int K) {
    real *w = (real *)(rows + K);
    return (tile){rows, w, w + K};
}

// r = sum_i x[i] S[i, :], two partial sums to hide the latency of the additions.
INLINE void read_along(const real *x, const quad *S, int K, vec *r) {
    vec e0 = {0}, e1 = {0}, e2 = {0}, e3 = {0}, o0 = {0}, o1 = {0}, o2 = {0}, o3 = {0};
    int i = 0;
    for (; i + 2 <= K; i += 2) {
        e0 += x[i] * S[i][0];
        e1 += x[i] * S[i][1];
        e2 += x[i] * S[i][2];
        e3 += x[i] * S[i][3];
        o0 += x[i + 1] * S[i + 1][0];
        o1 += x[i + 1] * S[i + 1][1];
        o2 += x[i + 1] * S[i + 1][2];
        o3 += x[i + 1] * S[i + 1][3];
    }
    if (i < K) {
        e0 += x[i] * S[i][0];
        e1 += x[i] * S[i][1];
        e2 += x[i] * S[i][2];
        e3 += x[i] * S[i][3];
    }
    r[0] = e0 + o0;
    r[1] = e1 + o1;
    r[2] = e2 + o2;
    r[3] = e3 + o3;
}

// S[i, :] = w[i] S[i, :] + a[i] r + k[i] u, then out = sum_i q[i] S[i, :]; w, a and q may be NULL.
INLINE void move(quad *S, int K, const real *w, const real *a, const vec *r, const real *k,
                 const vec *u, const real *q, vec *out) {
    vec u0 = u[0], u1 = u[1], u2 = u[2], u3 = u[3];
    vec q0 = {0}, q1 = {0}, q2 = {0}, q3 = {0};
    for (int i = 0; i < K; i++) {
        vec s0 = S[i][0], s1 = S[i][1], s2 = S[i][2], s3 = S[i][3];
        if (w) {
            s0 *= w[i];
            s1 *= w[i];
            s2 *= w[i];
            s3 *= w[i];
        }
        if (a) {
            s0 += a[i] * r[0];
            s1 += a[i] * r[1];
            s2 += a[i] * r[2];
            s3 += a[i] * r[3];
        }
        S[i][0] = s0 += k[i] * u0;
        S[i][1] = s1 += k[i] * u1;
        S[i][2] = s2 += k[i] * u2;
        S[i][3] = s3 += k[i] * u3;
        if (q) {
            q0 += q[i] * s0;
            q1 += q[i] * s1;
            q2 += q[i] * s2;
            q3 += q[i] * s3;
        }
    }
    out[0] = q0;
    out[1] = q1;
    out[2] = q2;
    out[3] = q3;
}

// One loop per combination: the tests above must not stand inside.
static void move_any(quad *S, int K, const real *w, const real *a, const vec *r, const real *k,
                     const vec *u, const real *q, vec *out) {
    if (a)
        w ? move(S, K, w, a, r, k, u, q, out) : move(S, K, NULL, a, r, k, u, q, out);
    else if (w)
        q ? move(S, K, w, NULL, r, k, u, q, out) : move(S, K, w, NULL, r, k, u, NULL, out);
    else
        q ? move(S, K, NULL, NULL, r, k, u, q, out) : move(S, K, NULL, NULL, r, k, u, NULL, out);
}

// Factors of a token, and times its first key: k^T (D S) = (D k)^T S. False when all are 1: then
// there is nothing to do, and a gate of one is the plain delta rule to the last bit (fault B58).
static bool decay_factors(const real *log_decay, bool channel, const real *k, const tile *x,
                          int K) {
    real one = channel ? 0 : real_exp(log_decay[0]);
    bool any = one != 1;
    for (int i = 0; i < K; i++)
        x->w[i] = one;
    if (channel) {
        any = false;
        for (int i = 0; i < K; i++) {
            x->w[i] = real_exp(log_decay[i]);
            any |= x->w[i] != 1;
        }
    }
    for (int i = 0; i < K; i++)
        x->kw[i] = x->w[i] * k[i];
    return any;
}

// Micro-steps first..last-1 of head h on the tile of columns v0..v0+n. o: where the read-out of a
// token goes (NULL: none).
static void advance_tile(const steps *s, int h, int64_t first, int64_t last, const tile *x,
                         int64_t v0, int n, mat o) {
    const head_shape *p = &s->s;
    int K = p->K, hk = h / (p->H / p->Hk);
    bool channel = p->decay == DECAY_CHANNEL;
    quad r = {{0}}, u, out;
    real v[TILE] = {0};
    for (int64_t m = first; m < last; m++) {
        int64_t t = m / p->n_h;
        bool decays = p->decay != DECAY_NONE && m % p->n_h == 0;
        bool reads = !mat_none(o) && m % p->n_h == p->n_h - 1;
        const real *k = row_of(s->k, m) + (int64_t)hk * K;
        real beta = mat_none(s->beta) ? 1 : row_of(s->beta, m)[h];
        const real *a = NULL;
        if (decays)
            decays = decay_factors(row_of(s->decay, t) + (int64_t)h * (channel ? K : 1), channel, k,
                                   x, K);
        memcpy(v, row_of(s->v, m) + (int64_t)h * p->V + v0, (size_t)n * sizeof *v);
        memcpy(u, v, sizeof u);
        if (p->erase == ERASE_PAIR) { // b reads the undecayed state
            read_along(row_of(s->b, t) + (int64_t)hk * K, x->S, K, r);
            a = row_of(s->a, t) + (int64_t)h * K;
        }
        if (p->erase == ERASE_KEY)
            read_along(decays ? x->kw : k, x->S, K, r);
        for (int c = 0; c < 4; c++)
            u[c] = beta * (p->erase == ERASE_KEY ? u[c] - r[c] : u[c]);
        move_any(x->S, K, decays ? x->w : NULL, a, r, k, u,
                 reads ? row_of(s->q, t) + (int64_t)hk * K : NULL, out);
        if (reads) {
            real *to = row_of(o, t) + (int64_t)h * p->V + v0, sum[TILE];
            memcpy(sum, out, sizeof sum);
            for (int c = 0; c < n; c++)
                to[c] = (real)p->scale * sum[c];
        }
    }
}

static void load(const real *S, int K, int V, int64_t v0, int n, quad *rows) {
    memset(rows, 0, (size_t)K * sizeof *rows);
    for (int i = 0; i < K; i++)
        memcpy(rows[i], S + (int64_t)i * V + v0, (size_t)n * sizeof *S);
}

static void store(const quad *rows, int K, int V, int64_t v0, int n, real *S) {
    for (int i = 0; i < K; i++)
        memcpy(S + (int64_t)i * V + v0, rows[i], (size_t)n * sizeof *S);
}

static void run_tile(const steps *s, int h, int64_t first, int64_t last, real *S, int64_t v0,
                     quad *rows, mat o) {
    int K = s->s.K, V = s->s.V, n = (int)(V - v0 < TILE ? V - v0 : TILE);
    tile x = tile_in(rows, K);
    load(S, K, V, v0, n, rows);
    advance_tile(s, h, first, last, &x, v0, n, o);
    store(rows, K, V, v0, n, S);
}

static void step_run(backend *be, const steps *s, mat state, mat o) {
    const head_shape *p = &s->s;
    int64_t tiles = (p->V + TILE - 1) / TILE, jobs = p->H * tiles;
    bool failed = false;
#pragma omp parallel if (jobs > 1)
    {
        quad *rows = mem_aligned(tile_rows(p->K), sizeof *rows, "a state tile", NULL);
#pragma omp for schedule(dynamic)
        for (int64_t j = 0; j < jobs; j++) {
            int h = (int)(j / tiles);
            if (rows)
                run_tile(s, h, 0, s->T * p->n_h, row_of(state, (int64_t)h * p->K), j % tiles * TILE,
                         rows, o);
            else
#pragma omp atomic write
                failed = true;
        }
        free(rows);
    }
    if (failed)
        err_set(&be->fail, ERR_NOMEM, "out of memory: a state tile");
}

// The step form wins until a tile no longer fits the first-level cache. Measured on one thread of an
// AVX2 machine with 32 KiB, float32, processor time of chunk / step (tests/test_recurrence_rate.c):
//
//   erase by key, decay per head   K=V=16: 3.6-4.3   64: 1.8-2.0   128: 1.2-1.4   256: 0.9-1.1
//                                  384: 0.8-0.9      512: 0.7-0.8   (n_h = 1..3)
//   other kinds, n_h = 1           decay per channel, 256: 0.7-0.9, 512: 0.7; pair 512: 1.0
//                                  512: key without decay 0.9, no erase with decay per head 0.8
//
// The step form is also the more exact one (kernels/chunk.h) and does not care where blocks are cut,
// so a tie goes to it. The rule looks at the shape alone: neither the block nor the number of
// threads may change how a layer is computed. Eight heads, because the chunk form hands
// out V/256 pieces of work per head where the step form has V/32.
static bool chunk_wins(const head_shape *p) {
    int from = p->decay == DECAY_CHANNEL ? 256 : 384;
    return p->K >= from && p->V >= from && p->H >= 8 && p->erase != ERASE_PAIR;
}

void FN(recurrence_run)(backend *be, const steps *s, mat state, mat o) {
    bool chunk = be->recurrence == RECURRENCE_CHUNK ||
                 (be->recurrence != RECURRENCE_STEP && chunk_wins(&s->s));
    chunk = chunk && FN(chunk_covers)(&s->s);
    // Several threads may be here at once.
    __atomic_store_n(&be->kernel, chunk ? "cpu chunk" : "cpu step", __ATOMIC_RELAXED);
    if (chunk)
        FN(chunk_run)(be, s, state, o);
    else
        step_run(be, s, state, o);
}

bool FN(recurrence_advance)(const steps *s, int h, int64_t first, int64_t last, void *S) {
    enum { ON_STACK = 640 };
    quad local[ON_STACK];
    size_t need = tile_rows(s->s.K);
    quad *rows = need <= ON_STACK ? local : mem_aligned(need, sizeof *rows, "", NULL);
    for (int64_t v0 = 0; rows && v0 < s->s.V; v0 += TILE)
        run_tile(s, h, first, last, S, v0, rows, MAT_NONE);
    if (rows != local)
        free(rows);
    return rows != NULL;
}
