// The step form, register-tiled. Columns of a state never talk to each other, so a state is cut
// into tiles of TILE columns; a tile (K x TILE) stays in the first-level cache for the whole block
// and every inner loop runs over its columns. On a CPU this beats the chunked forms, whose matrix
// products do more arithmetic on operands that a cache line away: see docs/performance.md.
#include "kernels/cpu/real.h"

#include "core/mem.h"
#include "kernels/chunk.h"
#include "kernels/recurrence.h"

#include <stdlib.h>

enum { TILE = 128 / sizeof(real) }; // two cache lines: 32 floats or 16 doubles

typedef real column[TILE];

// r = sum_i x[i] S[i, :], two partial sums to hide the latency of the additions.
static inline void read_along(const real *x, const column *S, int K, real *restrict r) {
    real even[TILE] = {0}, odd[TILE] = {0};
    int i = 0;
    for (; i + 2 <= K; i += 2)
        for (int c = 0; c < TILE; c++) {
            even[c] += x[i] * S[i][c];
            odd[c] += x[i + 1] * S[i + 1][c];
        }
    if (i < K)
        for (int c = 0; c < TILE; c++)
            even[c] += x[i] * S[i][c];
    for (int c = 0; c < TILE; c++)
        r[c] = even[c] + odd[c];
}

// S[i, :] += x[i] u
static inline void write_along(const real *x, const real *restrict u, column *S, int K) {
    for (int i = 0; i < K; i++)
        for (int c = 0; c < TILE; c++)
            S[i][c] += x[i] * u[c];
}

static inline void decay_rows(const real *log_decay, bool channel, column *S, int K) {
    for (int i = 0; i < K; i++) {
        real w = real_exp(log_decay[channel ? i : 0]);
        for (int c = 0; c < TILE; c++)
            S[i][c] *= w;
    }
}

// Micro-steps first..last-1 of head h on the tile of columns v0..v0+n. o: where the read-out of a
// token goes (NULL: none).
static void advance_tile(const steps *s, int h, int64_t first, int64_t last, column *S, int64_t v0,
                         int n, mat o) {
    const head_shape *p = &s->s;
    int K = p->K, hk = h / (p->H / p->Hk);
    real r[TILE], v[TILE] = {0}, u[TILE];
    for (int64_t m = first; m < last; m++) {
        int64_t t = m / p->n_h;
        const real *k = row_of(s->k, m) + (int64_t)hk * K;
        real beta = mat_none(s->beta) ? 1 : row_of(s->beta, m)[h];
        memcpy(v, row_of(s->v, m) + (int64_t)h * p->V + v0, (size_t)n * sizeof *v);
        if (p->erase == ERASE_PAIR) // b reads the undecayed state
            read_along(row_of(s->b, t) + (int64_t)hk * K, S, K, r);
        if (p->decay != DECAY_NONE && m % p->n_h == 0)
            decay_rows(row_of(s->decay, t) +
                           (p->decay == DECAY_CHANNEL ? (int64_t)h * K : (int64_t)h),
                       p->decay == DECAY_CHANNEL, S, K);
        if (p->erase == ERASE_PAIR)
            write_along(row_of(s->a, t) + (int64_t)h * K, r, S, K);
        if (p->erase == ERASE_KEY) {
            read_along(k, S, K, r);
            for (int c = 0; c < TILE; c++)
                u[c] = beta * (v[c] - r[c]);
        } else {
            for (int c = 0; c < TILE; c++)
                u[c] = beta * v[c];
        }
        write_along(k, u, S, K);
        if (!mat_none(o) && m % p->n_h == p->n_h - 1) {
            read_along(row_of(s->q, t) + (int64_t)hk * K, S, K, r);
            real *out = row_of(o, t) + (int64_t)h * p->V + v0;
            for (int c = 0; c < n; c++)
                out[c] = (real)p->scale * r[c];
        }
    }
}

static void load(const real *S, int K, int V, int64_t v0, int n, column *tile) {
    for (int i = 0; i < K; i++)
        for (int c = 0; c < TILE; c++)
            tile[i][c] = c < n ? S[(int64_t)i * V + v0 + c] : 0;
}

static void store(const column *tile, int K, int V, int64_t v0, int n, real *S) {
    for (int i = 0; i < K; i++)
        for (int c = 0; c < n; c++)
            S[(int64_t)i * V + v0 + c] = tile[i][c];
}

static void run_tile(const steps *s, int h, int64_t first, int64_t last, real *S, int64_t v0,
                     column *tile, mat o) {
    int V = s->s.V, n = (int)(V - v0 < TILE ? V - v0 : TILE);
    load(S, s->s.K, V, v0, n, tile);
    advance_tile(s, h, first, last, tile, v0, n, o);
    store(tile, s->s.K, V, v0, n, S);
}

static void step_run(backend *be, const steps *s, mat state, mat o) {
    const head_shape *p = &s->s;
    int64_t tiles = (p->V + TILE - 1) / TILE, jobs = p->H * tiles;
    bool failed = false;
#pragma omp parallel if (jobs > 1)
    {
        column *tile = mem_aligned((size_t)p->K, sizeof *tile, "a state tile", NULL);
#pragma omp for schedule(dynamic)
        for (int64_t j = 0; j < jobs; j++) {
            int h = (int)(j / tiles);
            if (tile)
                run_tile(s, h, 0, s->T * p->n_h, row_of(state, (int64_t)h * p->K), j % tiles * TILE,
                         tile, o);
            else
#pragma omp atomic write
                failed = true;
        }
        free(tile);
    }
    if (failed)
        err_set(&be->fail, ERR_NOMEM, "out of memory: a state tile");
}

// RULE
static bool chunk_wins(const head_shape *p) {
    (void)p;
    return false;
}

void FN(recurrence_run)(backend *be, const steps *s, mat state, mat o) {
    bool chunk = be->recurrence == RECURRENCE_CHUNK ||
                 (be->recurrence == RECURRENCE_AUTO && chunk_wins(&s->s));
    if (chunk && FN(chunk_covers)(&s->s))
        FN(chunk_run)(be, s, state, o);
    else
        step_run(be, s, state, o);
}

void FN(recurrence_advance)(const steps *s, int h, int64_t first, int64_t last, void *S) {
    enum { ON_STACK = 512 };
    column local[ON_STACK];
    column *tile = s->s.K <= ON_STACK ? local : mem_aligned((size_t)s->s.K, sizeof *tile, "", NULL);
    for (int64_t v0 = 0; tile && v0 < s->s.V; v0 += TILE)
        run_tile(s, h, first, last, S, v0, tile, MAT_NONE);
    if (tile != local)
        free(tile);
}
