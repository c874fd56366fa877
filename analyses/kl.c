#include "analyses/kl.h"

#include "core/mem.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 512, WORDS = 2048 }; // of a tile: rows enough for all cores

struct kl_tiles {
    backend *be;
    mat a, b;      // [ROWS * WORDS] logits on the backend
    double *x, *y; // the same on the host
};

kl_tiles *kl_tiles_new(backend *be, int64_t n_vocab, err *e) {
    int64_t words = n_vocab < WORDS ? n_vocab : WORDS;
    kl_tiles *t = mem_zalloc(1, sizeof *t, "tiles of logits", e);
    if (!t)
        return NULL;
    t->be = be;
    t->a = be->op->alloc_exact(be, ROWS, words);
    t->b = be->op->alloc_exact(be, ROWS, words);
    t->x = mem_alloc((size_t)(ROWS * words), sizeof *t->x, "tiles of logits", e);
    t->y = mem_alloc((size_t)(ROWS * words), sizeof *t->y, "tiles of logits", e);
    if (t->x && t->y && backend_check(be, e))
        return t;
    kl_tiles_free(t);
    return NULL;
}

void kl_tiles_free(kl_tiles *t) {
    if (!t)
        return;
    t->be->op->free(t->be, t->a);
    t->be->op->free(t->be, t->b);
    free(t->x);
    free(t->y);
    free(t);
}

// Sums of one token so far: maxima, sums of exponentials under them, S under A's.
typedef struct running {
    double top_a, top_b, sum_a, sum_b, s;
} running;

static double highest(const double *v, int64_t n, double top) {
    for (int64_t j = 0; j < n; j++)
        top = v[j] > top ? v[j] : top;
    return top;
}

static void fold(running *r, const double *a, const double *b, int64_t n) {
    double top_a = highest(a, n, r->top_a), top_b = highest(b, n, r->top_b);
    double shrink = exp(r->top_a - top_a); // 0 at first
    double sum_a = r->sum_a * shrink, s = r->s * shrink, sum_b = r->sum_b * exp(r->top_b - top_b);
    for (int64_t j = 0; j < n; j++) {
        double w = exp(a[j] - top_a);
        sum_a += w;
        s += w * (a[j] - b[j]);
        sum_b += exp(b[j] - top_b);
    }
    *r = (running){top_a, top_b, sum_a, sum_b, s};
}

static double divergence(const running *r) {
    double kl = r->s / r->sum_a - (r->top_a + log(r->sum_a)) + (r->top_b + log(r->sum_b));
    return kl < 0 ? 0 : kl;
}

// The tile's memory as a matrix without gaps.
static mat shaped(mat tile, int64_t rows, int64_t cols) {
    tile.rows = rows;
    tile.cols = tile.ld = cols;
    return tile;
}

static bool some_rows(kl_tiles *t, mat ya, mat head_a, mat yb, mat head_b, double *kl, err *e) {
    const backend_ops *op = t->be->op;
    running r[ROWS];
    int64_t T = ya.rows, n_vocab = head_a.rows;
    for (int64_t i = 0; i < T; i++)
        r[i] = (running){.top_a = -INFINITY, .top_b = -INFINITY};
    for (int64_t j0 = 0; j0 < n_vocab; j0 += WORDS) {
        int64_t n = n_vocab - j0 < WORDS ? n_vocab - j0 : WORDS;
        mat a = shaped(t->a, T, n), b = shaped(t->b, T, n);
        op->linear_exact(t->be, ya, mat_rows(head_a, j0, n), MAT_NONE, a);
        op->linear_exact(t->be, yb, mat_rows(head_b, j0, n), MAT_NONE, b);
        op->read(t->be, a, t->x);
        op->read(t->be, b, t->y);
        if (!backend_check(t->be, e))
            return false;
#pragma omp parallel for
        for (int64_t i = 0; i < T; i++)
            fold(&r[i], t->x + i * n, t->y + i * n, n);
    }
    for (int64_t i = 0; i < T; i++)
        kl[i] = divergence(&r[i]);
    return true;
}

bool kl_rows(kl_tiles *t, mat ya, mat head_a, mat yb, mat head_b, double *kl, err *e) {
    for (int64_t first = 0; first < ya.rows; first += ROWS) {
        int64_t n = ya.rows - first < ROWS ? ya.rows - first : ROWS;
        if (!some_rows(t, mat_rows(ya, first, n), head_a, mat_rows(yb, first, n), head_b,
                       kl + first, e))
            return false;
    }
    return true;
}
