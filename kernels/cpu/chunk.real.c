// The chunk form: a head is walked chunk by chunk, everything inside a chunk is matrix products.
#include "kernels/cpu/chunk_impl.h"

#include "core/mem.h"
#include "kernels/chunk.h"

#include <cblas.h>
#include <stdlib.h>

// Micro-steps of a chunk, unless one token has more. SLAB: columns of a state that one job takes; a
// wider state is cut, and each part repeats the work that does not touch the state.
enum { MICRO_STEPS = 64, SLAB = 256 };

typedef struct scratch {
    real *w, *gamma, *p, *left, *right; // see struct chunk
    real *m;                            // [n, n] scores
    real *u, *r;                        // [n, SLAB] what is written
} scratch;

// One head, columns v0..v0+nv of its state S.
typedef struct job {
    const steps *s;
    int h, hk;
    int64_t v0;
    int nv;
    real *S;
    int64_t ld;
    mat o; // none: nobody reads
} job;

// X^T U is what a chunk adds to the state.
typedef struct writers {
    const real *x;
    int64_t ld;
    const real *u; // [n, nv]
} writers;

bool FN(chunk_covers)(const head_shape *p) {
    return p->erase != ERASE_PAIR || p->n_h == 1;
}

static int64_t chunk_tokens(const head_shape *p) {
    return p->n_h < MICRO_STEPS ? MICRO_STEPS / p->n_h : 1;
}

// All scratch of a thread in one allocation, NULL when there is none; the caller frees.
static real *scratch_new(const head_shape *p, scratch *x) {
    size_t n = (size_t)(chunk_tokens(p) * p->n_h), K = (size_t)p->K;
    size_t V = (size_t)(p->V < SLAB ? p->V : SLAB);
    const size_t need[] = {n * K, n * n, K, n * K, n * K, n * n, n * V, n * V};
    real **part[] = {&x->w, &x->gamma, &x->p, &x->left, &x->right, &x->m, &x->u, &x->r};
    enum { PARTS = sizeof need / sizeof *need, LINE = 64 / sizeof(real) };
    size_t total = 0;
    for (int i = 0; i < PARTS; i++)
        total += (need[i] + LINE - 1) / LINE * LINE;
    real *all = mem_aligned(total, sizeof *all, "a chunk", NULL), *next = all;
    for (int i = 0; all && i < PARTS; i++) {
        *part[i] = next;
        next += (need[i] + LINE - 1) / LINE * LINE;
    }
    return all;
}

// C [m, n] = alpha A [m, k] B [k, n] + beta C
static void product(int m, int n, int k, double alpha, const real *A, int64_t lda, const real *B,
                    int64_t ldb, double beta, real *C, int64_t ldc) {
    REAL_GEMM(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, (real)alpha, A, (int)lda, B,
              (int)ldb, (real)beta, C, (int)ldc);
}

static void decay_factors(const job *j, int64_t m0, int n, real *w) {
    const head_shape *p = &j->s->s;
    int width = p->decay == DECAY_CHANNEL ? p->K : 1;
    for (int i = 0; i < n; i++)
        if (p->decay != DECAY_NONE && (m0 + i) % p->n_h == 0) {
            const real *log_decay = row_of(j->s->decay, (m0 + i) / p->n_h) + (int64_t)j->h * width;
            for (int d = 0; d < width; d++)
                w[(int64_t)i * width + d] = real_exp(log_decay[d]);
        } else {
            for (int d = 0; d < width; d++)
                w[(int64_t)i * width + d] = 1;
        }
}

static real beta_of(const job *j, int64_t m) {
    return mat_none(j->s->beta) ? 1 : row_of(j->s->beta, m)[j->h];
}

static void scale_row(real *x, int n, real by) {
    for (int i = 0; i < n; i++)
        x[i] *= by;
}

// u holds V; u = T (V - gamma K H) with T = (I + tril(beta K K^T . Gamma, -1))^-1 diag(beta).
static void erase_key(const job *j, const chunk *c, scratch *x, int64_t m0, writers k) {
    int n = c->n, nv = j->nv;
    readers rows = {k.x, k.ld, n, 0, 1};
    FN(chunk_scores)(c, &rows, k.x, k.ld, x->m);
    FN(chunk_left)(c, &rows, 0, n, 0);
    product(n, nv, c->K, -1, c->left, c->K, j->S, j->ld, 1, x->u, nv);
    for (int i = 0; i < n; i++) {
        scale_row(x->m + (int64_t)i * n, i, beta_of(j, m0 + i));
        scale_row(x->u + (int64_t)i * nv, nv, beta_of(j, m0 + i));
    }
    FN(chunk_solve)(n, x->m, x->u, nv);
}

// r = (I - tril(B A^T . Gamma, -1))^-1 (gamma B H + tril(B K^T . Gamma, -1) u), u = beta V.
static void erase_pair(const job *j, const chunk *c, scratch *x, int64_t t0, writers a, writers k) {
    int n = c->n, nv = j->nv;
    mat b = j->s->b;
    readers rows = {row_of(b, t0) + (int64_t)j->hk * c->K, b.ld, n, -1, 1};
    FN(chunk_scores)(c, &rows, k.x, k.ld, x->m);
    FN(chunk_left)(c, &rows, 0, n, 0);
    product(n, nv, c->K, 1, c->left, c->K, j->S, j->ld, 0, x->r, nv);
    product(n, nv, n, 1, x->m, n, x->u, nv, 1, x->r, nv);
    FN(chunk_scores)(c, &rows, a.x, a.ld, x->m);
    for (int i = 1; i < n; i++)
        scale_row(x->m + (int64_t)i * n, i, -1);
    FN(chunk_solve)(n, x->m, x->r, nv);
}

static void read_out(const job *j, const chunk *c, scratch *x, int64_t t0, const writers *wr,
                     int n_wr) {
    const head_shape *p = &j->s->s;
    mat q = j->s->q;
    int n = c->n, nv = j->nv;
    readers rows = {row_of(q, t0) + (int64_t)j->hk * c->K, q.ld, n / p->n_h, p->n_h - 1, p->n_h};
    real *out = row_of(j->o, t0) + (int64_t)j->h * p->V + j->v0;
    FN(chunk_left)(c, &rows, 0, rows.n, 0);
    product(rows.n, nv, c->K, p->scale, c->left, c->K, j->S, j->ld, 0, out, j->o.ld);
    for (int i = 0; i < n_wr; i++) {
        FN(chunk_scores)(c, &rows, wr[i].x, wr[i].ld, x->m);
        product(rows.n, nv, n, p->scale, x->m, n, wr[i].u, nv, 1, out, j->o.ld);
    }
}

static void move_state(const job *j, const chunk *c, const writers *wr, int n_wr) {
    int nv = j->nv;
    for (int i = 0; i < n_wr; i++) {
        FN(chunk_right)(c, wr[i].x, wr[i].ld, c->n);
        if (i == 0)
            for (int d = 0; d < c->K; d++)
                scale_row(j->S + d * j->ld, nv, c->p[c->channel ? d : 0]);
        REAL_GEMM(CblasRowMajor, CblasTrans, CblasNoTrans, c->K, nv, c->n, 1, c->right, c->K,
                  wr[i].u, nv, 1, j->S, (int)j->ld);
    }
}

static void one_chunk(const job *j, scratch *x, int64_t t0, int64_t tokens) {
    const steps *s = j->s;
    const head_shape *p = &s->s;
    int K = p->K, n = (int)tokens * p->n_h, nv = j->nv;
    int64_t m0 = t0 * p->n_h;
    chunk c = {n, K, p->decay == DECAY_CHANNEL, x->w, x->gamma, x->p, x->left, x->right};
    decay_factors(j, m0, n, x->w);
    if (!c.channel)
        FN(chunk_gamma)(n, x->w, x->gamma);
    writers wr[2] = {{row_of(s->k, m0) + (int64_t)j->hk * K, s->k.ld, x->u}, {0}};
    for (int i = 0; i < n; i++) {
        real *u = x->u + (int64_t)i * nv;
        memcpy(u, row_of(s->v, m0 + i) + (int64_t)j->h * p->V + j->v0, (size_t)nv * sizeof *u);
        if (p->erase != ERASE_KEY)
            scale_row(u, nv, beta_of(j, m0 + i));
    }
    if (p->erase == ERASE_KEY)
        erase_key(j, &c, x, m0, wr[0]);
    if (p->erase == ERASE_PAIR) {
        wr[1] = (writers){row_of(s->a, t0) + (int64_t)j->h * K, s->a.ld, x->r};
        erase_pair(j, &c, x, t0, wr[1], wr[0]);
    }
    int n_wr = p->erase == ERASE_PAIR ? 2 : 1;
    if (!mat_none(j->o))
        read_out(j, &c, x, t0, wr, n_wr);
    move_state(j, &c, wr, n_wr);
}

void FN(chunk_run)(backend *be, const steps *s, mat state, mat o) {
    const head_shape *p = &s->s;
    int64_t slabs = (p->V + SLAB - 1) / SLAB, jobs = p->H * slabs, most = chunk_tokens(p);
    bool failed = false;
#pragma omp parallel if (jobs > 1)
    {
        scratch x;
        real *all = scratch_new(p, &x);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < jobs; i++) {
            int h = (int)(i / slabs);
            int64_t v0 = i % slabs * SLAB;
            job j = {s,
                     h,
                     h / (p->H / p->Hk),
                     v0,
                     (int)(p->V - v0 < SLAB ? p->V - v0 : SLAB),
                     row_of(state, (int64_t)h * p->K) + v0,
                     state.ld,
                     o};
            for (int64_t t = 0; all && t < s->T; t += most)
                one_chunk(&j, &x, t, s->T - t < most ? s->T - t : most);
            if (!all)
#pragma omp atomic write
                failed = true;
        }
        free(all);
    }
    if (failed)
        err_set(&be->fail, ERR_NOMEM, "out of memory: a chunk");
}
