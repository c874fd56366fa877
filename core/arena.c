#include "core/arena.h"

#include "core/mem.h"

#include <stdlib.h>

enum { PIECES = 64, ALIGN = 64 }; // elements; keeps every mat on a cache line

struct arena {
    backend *be;
    mat piece[PIECES];
    int n;               // pieces in use
    int64_t used;        // elements taken from the last piece
    int64_t taken, peak; // from all pieces since the last reset, and the most that ever was
};

arena *arena_new(backend *be, err *e) {
    arena *a = mem_zalloc(1, sizeof *a, "scratch memory", e);
    if (a)
        a->be = be;
    return a;
}

void arena_free(arena *a) {
    if (!a)
        return;
    for (int i = 0; i < a->n; i++)
        a->be->op->free(a->be, a->piece[i]);
    free(a);
}

static mat take(arena *a, int64_t rows, int64_t cols, int esize) {
    int64_t elements = rows * cols * esize / a->be->esize; // of a piece
    int64_t need = (elements + ALIGN - 1) / ALIGN * ALIGN;
    if (need == 0)
        need = ALIGN;
    if (a->n == 0 || a->used + need > a->piece[a->n - 1].cols) {
        if (a->n == PIECES) {
            err_set(&a->be->fail, ERR_NOMEM, "scratch memory: more than %d pieces", PIECES);
            return MAT_NONE;
        }
        int64_t size = need < 1 << 16 ? 1 << 16 : need;
        mat m = a->be->op->alloc(a->be, 1, size);
        if (mat_none(m))
            return MAT_NONE;
        a->piece[a->n++] = m;
        a->used = 0;
    }
    mat m = mat_cols(a->piece[a->n - 1], a->used, elements);
    a->used += need;
    a->taken += need;
    a->peak = a->taken > a->peak ? a->taken : a->peak;
    m.rows = rows;
    m.cols = m.ld = cols;
    m.esize = esize;
    return m;
}

mat arena_mat(arena *a, int64_t rows, int64_t cols) {
    return take(a, rows, cols, a->be->esize);
}

mat arena_mat_exact(arena *a, int64_t rows, int64_t cols) {
    return take(a, rows, cols, a->be->exact_esize);
}

void arena_reset(arena *a) {
    a->used = a->taken = 0;
    if (a->n <= 1)
        return;
    int64_t total = 0;
    for (int i = 0; i < a->n; i++) {
        total += a->piece[i].cols;
        a->be->op->free(a->be, a->piece[i]);
    }
    a->n = 0;
    mat m = a->be->op->alloc(a->be, 1, total);
    if (!mat_none(m))
        a->piece[a->n++] = m;
}

int64_t arena_peak(const arena *a) {
    return a->peak * a->be->esize;
}
