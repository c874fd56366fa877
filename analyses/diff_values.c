// Values of two tensors, read in pieces.
#include "analyses/diff.h"

#include "core/busguard.h"
#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 1 << 16, // elements that are compared at a time
    BATCH = 64,      // pieces whose sums wait to be put together in order
    BYTES = 1 << 20, // of a piece of bits
    TILE = 256,      // rows of A in a transposed comparison
};

// Bits --------------------------------------------------------------------------------------------

typedef struct look {
    const unsigned char *a, *b;
    size_t n;
    bool same;
    uint64_t mark;
} look;

static void compare_bits(void *arg) {
    look *x = arg;
    x->same = memcmp(x->a, x->b, x->n) == 0;
}

static bool unreadable(const ckpt *c, const tensor *t, err *e) {
    return ckpt_still_whole(c, e) &&
           err_set(e, ERR_IO,
                   "%s: tensor %s: a part of the file cannot be read (disk or network "
                   "error)",
                   text_show(ckpt_file(c, t->file)), text_show(t->name));
}

bool diff_same_bits(const ckpt *ca, const tensor *a, const ckpt *cb, const tensor *b, bool *same,
                    err *e) {
    int64_t pieces = (int64_t)((a->bytes + BYTES - 1) / BYTES);
    bool differ = false, broken = false;
#pragma omp parallel for schedule(dynamic) if (pieces > 1)
    for (int64_t i = 0; i < pieces; i++) {
        bool stop;
#pragma omp atomic read
        stop = differ;
        if (stop)
            continue;
        size_t from = (size_t)i * BYTES, n = a->bytes - from < BYTES ? a->bytes - from : BYTES;
        look x = {(const unsigned char *)a->data + from, (const unsigned char *)b->data + from, n,
                  false, 0};
        bool read = busguard_run(compare_bits, &x);
        if (!read || !x.same) {
#pragma omp atomic write
            differ = true;
        }
        if (!read) {
#pragma omp atomic write
            broken = true;
        }
    }
    *same = !differ;
    if (broken)
        return unreadable(ca, a, e) && unreadable(cb, b, e);
    return ckpt_still_whole(ca, e) && ckpt_still_whole(cb, e);
}

static void mark_bits(void *arg) {
    look *x = arg;
    uint64_t h = x->mark, word;
    for (size_t i = 0; i < x->n; i += 8) {
        word = 0;
        memcpy(&word, x->a + i, x->n - i < 8 ? x->n - i : 8);
        h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    x->mark = h;
}

bool diff_mark(const ckpt *c, const tensor *t, uint64_t *mark, err *e) {
    *mark = 0;
    for (size_t from = 0; from < t->bytes; from += BYTES) {
        size_t n = t->bytes - from < BYTES ? t->bytes - from : BYTES;
        look x = {(const unsigned char *)t->data + from, NULL, n, false, *mark};
        if (!busguard_run(mark_bits, &x))
            return unreadable(c, t, e);
        *mark = x.mark;
    }
    return ckpt_still_whole(c, e);
}

// Values ------------------------------------------------------------------------------------------

typedef struct sums {
    double aa, bb, ab, dd, largest, a_at, b_at;
    int64_t at, changed, not_finite;
} sums;

static void add_pair(sums *s, int64_t i, double a, double b) {
    if (!isfinite(a) || !isfinite(b)) {
        s->not_finite++;
        s->changed += !(a == b || (isnan(a) && isnan(b)));
        return;
    }
    double d = a - b;
    s->aa += a * a;
    s->bb += b * b;
    s->ab += a * b;
    s->dd += d * d;
    s->changed += d != 0;
    if (fabs(d) > s->largest) {
        s->largest = fabs(d);
        s->at = i;
        s->a_at = a;
        s->b_at = b;
    }
}

static void join(sums *to, const sums *s) {
    to->aa += s->aa;
    to->bb += s->bb;
    to->ab += s->ab;
    to->dd += s->dd;
    to->changed += s->changed;
    to->not_finite += s->not_finite;
    if (s->largest > to->largest) {
        to->largest = s->largest;
        to->at = s->at;
        to->a_at = s->a_at;
        to->b_at = s->b_at;
    }
}

typedef struct pair_of {
    const ckpt *ca, *cb;
    const tensor *a, *b;
    bool transposed;
} pair_of;

// Pieces of a tensor: PIECE elements, or TILE rows when it is compared with a transposed one.
static int64_t piece_elements(const pair_of *p) {
    return p->transposed ? TILE * p->a->dims[1] : PIECE;
}

static bool straight_piece(const pair_of *p, int64_t first, int64_t n, sums *s, err *e) {
    double *x = mem_alloc(2 * PIECE, sizeof *x, "a piece of two tensors", e), *y = x + PIECE;
    bool ok = x && ckpt_read_f64(p->ca, p->a, first, n, x, e) &&
              ckpt_read_f64(p->cb, p->b, first, n, y, e);
    for (int64_t i = 0; ok && i < n; i++)
        add_pair(s, first + i, x[i], y[i]);
    free(x);
    return ok;
}

// a [m, n] rows r0 .. r0 + rows against b [n, m], some columns of a at a time.
static bool transposed_piece(const pair_of *p, int64_t first, int64_t count, sums *s, err *e) {
    int64_t m = p->a->dims[0], n = p->a->dims[1], r0 = first / n, rows = count / n;
    double *x = mem_alloc(2 * TILE * TILE, sizeof *x, "a tile of two tensors", e);
    double *y = x + TILE * TILE;
    bool ok = x != NULL;
    for (int64_t c0 = 0; ok && c0 < n; c0 += TILE) {
        int64_t cols = n - c0 < TILE ? n - c0 : TILE;
        for (int64_t r = 0; ok && r < rows; r++)
            ok = ckpt_read_f64(p->ca, p->a, (r0 + r) * n + c0, cols, x + r * TILE, e);
        for (int64_t c = 0; ok && c < cols; c++)
            ok = ckpt_read_f64(p->cb, p->b, (c0 + c) * m + r0, rows, y + c * TILE, e);
        for (int64_t r = 0; ok && r < rows; r++)
            for (int64_t c = 0; c < cols; c++)
                add_pair(s, (r0 + r) * n + c0 + c, x[r * TILE + c], y[c * TILE + r]);
    }
    free(x);
    return ok;
}

static bool all_pieces(const pair_of *p, sums *total, err *e) {
    int64_t size = piece_elements(p), pieces = (p->a->count + size - 1) / size;
    sums part[BATCH];
    bool ok = true;
    for (int64_t first = 0; ok && first < pieces; first += BATCH) {
        int64_t n = pieces - first < BATCH ? pieces - first : BATCH;
#pragma omp parallel for schedule(dynamic) if (n > 1)
        for (int64_t i = 0; i < n; i++) {
            int64_t from = (first + i) * size;
            int64_t count = p->a->count - from < size ? p->a->count - from : size;
            err own = {0};
            part[i] = (sums){.at = -1};
            if (p->transposed ? transposed_piece(p, from, count, &part[i], &own)
                              : straight_piece(p, from, count, &part[i], &own))
                continue;
#pragma omp critical
            ok = err_set(e, own.code, "%s", own.text);
        }
        for (int64_t i = 0; ok && i < n; i++) // in order: no sum depends on the threads
            join(total, &part[i]);
    }
    return ok;
}

bool diff_values(const ckpt *ca, const tensor *a, const ckpt *cb, const tensor *b, bool transposed,
                 value_diff *out, err *e) {
    pair_of p = {ca, cb, a, b, transposed};
    sums s = {.at = -1};
    if (!all_pieces(&p, &s, e))
        return false;
    *out = (value_diff){.changed = s.changed,
                        .not_finite = s.not_finite,
                        .norm_a = sqrt(s.aa),
                        .norm_b = sqrt(s.bb),
                        .l2 = sqrt(s.dd),
                        .cosine = s.aa > 0 && s.bb > 0 ? s.ab / (sqrt(s.aa) * sqrt(s.bb)) : NAN,
                        .largest = s.largest,
                        .at = s.at,
                        .a_at = s.a_at,
                        .b_at = s.b_at};
    if (out->cosine > 1) // by rounding
        out->cosine = 1;
    return true;
}
