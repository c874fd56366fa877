// core/mat.h - a matrix in a backend's memory: a pointer, two sizes, a row stride.
//
// The pointer may be device memory: nobody but the backend that made it follows it. Views share
// memory; whoever called backend op `alloc` frees. Rows are tokens (or token micro-steps), columns
// are channels, heads outermost within a row.
#ifndef DELTOP_MAT_H
#define DELTOP_MAT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct mat {
    void *p;
    int64_t rows, cols;
    int64_t ld; // elements from one row to the next
    int esize;  // bytes of one element
} mat;

#define MAT_NONE ((mat){0})

static inline bool mat_none(mat m) {
    return !m.p;
}

static inline mat mat_rows(mat m, int64_t first, int64_t n) {
    assert(first >= 0 && n >= 0 && first + n <= m.rows);
    m.p = (char *)m.p + first * m.ld * m.esize;
    m.rows = n;
    return m;
}

static inline mat mat_rows_or_none(mat m, int64_t first, int64_t n) {
    return mat_none(m) ? m : mat_rows(m, first, n);
}

static inline mat mat_cols(mat m, int64_t first, int64_t n) {
    assert(first >= 0 && n >= 0 && first + n <= m.cols);
    m.p = (char *)m.p + first * m.esize;
    m.cols = n;
    return m;
}

// The same elements in other rows: [T, n_h * D] seen as [T * n_h, D]. Needs rows without gaps.
static inline mat mat_reshape(mat m, int64_t rows, int64_t cols) {
    assert(m.ld == m.cols && rows * cols == m.rows * m.cols);
    m.rows = rows;
    m.cols = m.ld = cols;
    return m;
}

#endif
