// The tools of core/families/family.h that read tensors: they become mats on the backend, and what
// was asked for is remembered, so that nothing in the file is dropped without a word.
#include "core/families/family.h"
#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool build_where(const builder *b, err *e) {
    return b->layer >= 0 ? err_prefix(e, "%s, layer %d", b->family, b->layer)
                         : err_prefix(e, "%s", b->family);
}

// The tensor, marked as used; NULL with or without a message (inspection collects).
static const tensor *take(builder *b, const char *name, err *e) {
    int64_t i = ckpt_index(b->ck, name);
    if (i >= 0) {
        b->used[i] = true;
        return ckpt_at(b->ck, i);
    }
    if (!b->be) {
        // Once, however many parts are cut from it.
        for (size_t i = 0; i < b->m->missing.n; i++)
            if (strcmp(b->m->missing.v[i], name) == 0)
                return NULL;
        name_list_add(&b->m->missing, e, "%s", name);
        return NULL;
    }
    err local = {0};
    const tensor *none;
    ckpt_find(b->ck, name, &none, &local);
    err_set(e, ERR_MISSING, "%s (needed because model_type is \"%s\")", local.text,
            b->m->info.family);
    build_where(b, e);
    return NULL;
}

// The same, for a tensor of n matrices rows x cols (n = 1: one matrix): who asks which tensors a config
// wants (model_wants) is told.
static const tensor *take_shaped(builder *b, const char *name, int64_t n, int64_t rows,
                                 int64_t cols, err *e) {
    if (b->wants && ckpt_index(b->ck, name) < 0)
        b->wants(b->wants_ctx, name, n, rows, cols);
    return take(b, name, e);
}

// Whether a tensor that is not there may be so: the inspection goes on, unless it could not note it.
static bool collected(const builder *b, const err *e) {
    return !b->be && !(e && e->code != ERR_NONE);
}

// Does the tensor, its sides of 1 left out, equal rows x cols, its sides of 1 left out?
static bool same_shape(const tensor *t, int64_t rows, int64_t cols) {
    int64_t want[2], got[TENSOR_MAX_RANK];
    int nw = 0, ng = 0;
    if (rows != 1)
        want[nw++] = rows;
    if (cols != 1)
        want[nw++] = cols;
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] != 1)
            got[ng++] = t->dims[i];
    if (nw != ng)
        return false;
    for (int i = 0; i < nw; i++)
        if (want[i] != got[i])
            return false;
    // [D, w, 1] is a transposed convolution, not another spelling of [D, 1, w] (fault B27).
    return !(t->rank == 3 && t->dims[2] == 1 && t->dims[1] != 1);
}

static bool check_shape(const builder *b, const tensor *t, int64_t rows, int64_t cols, err *e) {
    if (same_shape(t, rows, cols))
        return true;
    char shape[96];
    err_set(e, ERR_INPUT, "%s: tensor %s has shape %s, the config asks for [%lld, %lld]",
            text_show(ckpt_file(b->ck, t->file)), text_show(t->name),
            tensor_shape_text(t, shape, sizeof shape), (long long)rows, (long long)cols);
    return build_where(b, e);
}

typedef struct oddities {
    int64_t nan, inf;
} oddities;

static void count_odd(oddities *o, const double *v, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        o->nan += isnan(v[i]) != 0;
        o->inf += isinf(v[i]) != 0;
    }
}

// True when nothing was counted among n values (fault B15).
static bool all_finite(const builder *b, const tensor *t, const oddities *o, int64_t n, err *e) {
    if (o->nan + o->inf == 0)
        return true;
    err_set(e, ERR_NUMERIC, "%s: tensor %s holds %lld NaN and %lld Inf among %lld values",
            text_show(ckpt_file(b->ck, t->file)), text_show(t->name), (long long)o->nan,
            (long long)o->inf, (long long)n);
    return build_where(b, e);
}

// Copies `rows` rows of t, beginning with row `first`, into the mat: a piece at a time, so that the
// host never holds a second copy of a large matrix (an embedding in double would be four times its
// BF16 file). Counts what is no number over the whole tensor (fault B15).
static bool upload(builder *b, const tensor *t, int64_t first, mat to, err *e) {
    enum { PIECE = 1 << 20 }; // numbers
    int64_t most = PIECE / to.cols;
    oddities odd = {0};
    most = most < 1 ? 1 : most < to.rows ? most : to.rows;
    double *v = mem_alloc((size_t)(most * to.cols), sizeof *v, "a piece of a weight", e);
    bool ok = v != NULL;
    for (int64_t r = 0; ok && r < to.rows; r += most) {
        int64_t rows = to.rows - r < most ? to.rows - r : most, n = rows * to.cols;
        ok = ckpt_read_f64(b->ck, t, (first + r) * to.cols, n, v, e);
        if (ok) {
            count_odd(&odd, v, n);
            b->be->op->write(b->be, v, mat_rows(to, r, rows));
            ok = backend_check(b->be, e);
        }
    }
    free(v);
    return ok && all_finite(b, t, &odd, to.rows * to.cols, e);
}

// A weight that could not be filled is nobody's.
static bool drop(builder *b, mat *out) {
    if (b->be)
        b->be->op->free(b->be, *out);
    *out = MAT_NONE;
    return false;
}

// Vectors (norms, gates, biases) keep float32 where matrices are rounded further.
static mat weight_mat(builder *b, int64_t rows, int64_t cols) {
    return rows == 1 ? b->be->op->alloc_exact(b->be, rows, cols)
                     : b->be->op->alloc(b->be, rows, cols);
}

bool build_rows(builder *b, mat *out, int64_t first, int64_t rows, int64_t total, int64_t cols,
                const char *name, err *e) {
    *out = MAT_NONE;
    const tensor *t = take_shaped(b, name, 1, total, cols, e);
    if (!t)
        return collected(b, e);
    if (!check_shape(b, t, total, cols, e))
        return false;
    if (!b->be)
        return true;
    *out = weight_mat(b, rows, cols);
    if (!backend_check(b->be, e))
        return false;
    return upload(b, t, first, *out, e) || drop(b, out);
}

bool build_weight(builder *b, mat *out, int64_t rows, int64_t cols, const char *name, err *e) {
    return build_rows(b, out, 0, rows, rows, cols, name, e);
}

bool build_stack(builder *b, mat *out, int n, int64_t rows, int64_t cols, const char *prefix,
                 const char *suffix, err *e) {
    *out = MAT_NONE;
    if (b->be) {
        *out = weight_mat(b, n * rows, cols);
        if (!backend_check(b->be, e))
            return false;
    }
    for (int i = 0; i < n; i++) {
        char name[512];
        snprintf(name, sizeof name, "%s.%d%s", prefix, i, suffix);
        const tensor *t = take_shaped(b, name, 1, rows, cols, e);
        if (!t && !collected(b, e))
            return false;
        if (!t)
            continue;
        if (!check_shape(b, t, rows, cols, e))
            return false;
        if (b->be && !upload(b, t, 0, mat_rows(*out, i * rows, rows), e))
            return false;
    }
    return true;
}

bool build_blocks(builder *b, mat *out, int64_t n, int64_t first, int64_t rows, int64_t stride,
                  int64_t cols, const char *name, err *e) {
    *out = MAT_NONE;
    const tensor *t = take_shaped(b, name, 1, n * stride, cols, e);
    if (!t)
        return collected(b, e);
    if (!check_shape(b, t, n * stride, cols, e))
        return false;
    if (!b->be)
        return true;
    *out = weight_mat(b, n * rows, cols);
    if (!backend_check(b->be, e))
        return false;
    for (int64_t i = 0; i < n; i++)
        if (!upload(b, t, i * stride + first, mat_rows(*out, i * rows, rows), e))
            return false;
    return true;
}

bool build_joined(builder *b, mat *out, int64_t first, int64_t rows, int64_t total, int64_t cols,
                  const char *const *names, int n, err *e) {
    int64_t at = 0;
    *out = MAT_NONE;
    if (b->be) {
        *out = weight_mat(b, rows, cols);
        if (!backend_check(b->be, e))
            return false;
    }
    for (int i = 0; i < n; i++) {
        // How the rows are cut is the file's choice: all of them in the first, nothing said of others.
        const tensor *t =
            i == 0 && n == 1 ? take_shaped(b, names[i], 1, total, cols, e) : take(b, names[i], e);
        if (!t && !collected(b, e))
            return false;
        if (!t) {
            at = -1; // nothing to say about the sum
            continue;
        }
        if (!check_shape(b, t, t->dims[0], cols, e))
            return false;
        int64_t lo = first > at ? first : at, hi = first + rows, end = at + t->dims[0];
        hi = hi < end ? hi : end;
        if (b->be && lo < hi && !upload(b, t, lo - at, mat_rows(*out, lo - first, hi - lo), e))
            return false;
        at = at < 0 ? -1 : end;
    }
    if (at == total || at < 0)
        return true;
    err_set(e, ERR_INPUT, "%s: %s to %s hold %lld rows together, the config asks for %lld",
            config_path(b->cfg), text_show(names[0]), text_show(names[n - 1]), (long long)at,
            (long long)total);
    return build_where(b, e);
}

bool build_offset(builder *b, mat *out, int64_t rows, int64_t cols, const char *name, err *e) {
    double *v = NULL;
    *out = MAT_NONE;
    if (!build_numbers(b, &v, rows, cols, name, e))
        return false;
    if (!v)
        return true;
    for (int64_t i = 0; i < rows * cols; i++)
        v[i] += 1;
    bool ok = build_constant(b, out, rows, cols, v, e);
    free(v);
    return ok;
}

bool build_slab(builder *b, mat *out, int64_t n, int64_t first, int64_t rows, int64_t total,
                int64_t cols, const char *name, err *e) {
    char shape[96];
    *out = MAT_NONE;
    const tensor *t = take_shaped(b, name, n, total, cols, e);
    if (!t)
        return collected(b, e);
    if (t->rank != 3 || t->dims[0] != n || t->dims[1] != total || t->dims[2] != cols) {
        err_set(e, ERR_INPUT, "%s: tensor %s has shape %s, the config asks for [%lld, %lld, %lld]",
                text_show(ckpt_file(b->ck, t->file)), text_show(t->name),
                tensor_shape_text(t, shape, sizeof shape), (long long)n, (long long)total,
                (long long)cols);
        return build_where(b, e);
    }
    if (!b->be)
        return true;
    *out = weight_mat(b, n * rows, cols);
    if (!backend_check(b->be, e))
        return false;
    for (int64_t i = 0; i < n; i++)
        if (!upload(b, t, i * total + first, mat_rows(*out, i * rows, rows), e))
            return false;
    return true;
}

bool build_numbers(builder *b, double **out, int64_t rows, int64_t cols, const char *name, err *e) {
    *out = NULL;
    const tensor *t = take_shaped(b, name, 1, rows, cols, e);
    if (!t)
        return collected(b, e);
    if (!check_shape(b, t, rows, cols, e))
        return false;
    if (!b->be)
        return true;
    double *v = mem_alloc((size_t)rows * (size_t)cols, sizeof *v, "a weight", e);
    if (!v)
        return false;
    oddities odd = {0};
    bool ok = ckpt_read_f64(b->ck, t, 0, rows * cols, v, e);
    if (ok)
        count_odd(&odd, v, rows * cols);
    if (!ok || !all_finite(b, t, &odd, rows * cols, e)) {
        free(v);
        return false;
    }
    *out = v;
    return true;
}

bool build_constant(builder *b, mat *out, int64_t rows, int64_t cols, const double *v, err *e) {
    *out = MAT_NONE;
    if (!b->be)
        return true;
    *out = weight_mat(b, rows, cols);
    if (!backend_check(b->be, e))
        return false;
    b->be->op->write(b->be, v, *out);
    return backend_check(b->be, e) || drop(b, out);
}

bool build_pack(builder *b, mat *out, mat *const *part, int n, err *e) {
    int64_t rows = 0;
    *out = MAT_NONE;
    for (int i = 0; i < n; i++) {
        if (mat_none(*part[i]) || part[i]->cols != part[0]->cols || part[i]->esize != b->be->esize)
            return true;
        rows += part[i]->rows;
    }
    mat all = b->be->op->alloc(b->be, rows, part[0]->cols);
    if (!backend_check(b->be, e))
        return false;
    for (int64_t i = 0, at = 0; i < n; at += part[i++]->rows) {
        mat place = mat_rows(all, at, part[i]->rows);
        b->be->op->copy(b->be, *part[i], place);
        b->be->op->free(b->be, *part[i]);
        *part[i] = place;
    }
    *out = all;
    return backend_check(b->be, e);
}

const char *build_name(char *buf, size_t size, const char *prefix, const char *name) {
    snprintf(buf, size, "%s.%s", prefix, name);
    return buf;
}

bool build_has(const builder *b, const char *fmt, ...) {
    char name[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    return ckpt_get(b->ck, name) != NULL;
}

void build_shape(const builder *b, const char *name, int64_t *rows, int64_t *cols) {
    const tensor *t = ckpt_get(b->ck, name);
    *rows = *cols = 0;
    if (t && t->rank >= 1 && t->rank <= 2) {
        *rows = t->rank == 2 ? t->dims[0] : 1;
        *cols = t->dims[t->rank - 1];
    }
}

void build_dead(builder *b, const char *why, const char *name) {
    int64_t at = ckpt_index(b->ck, name);
    if (at < 0)
        return;
    b->used[at] = true;
    for (size_t i = 0; i < b->m->notes.n; i++)
        if (strstr(b->m->notes.v[i], why))
            return;
    name_list_add(&b->m->notes, NULL, "%s is in the file and unused: %s", text_show(name), why);
}

bool build_skip(builder *b, const char *prefix, const char *what, err *e) {
    int64_t count = 0;
    for (int64_t i = 0; i < ckpt_count(b->ck); i++)
        if (strncmp(ckpt_at(b->ck, i)->name, prefix, strlen(prefix)) == 0) {
            b->used[i] = true;
            count++;
        }
    return count == 0 ||
           build_note(b, e, "%lld tensors %s* (%s) are skipped", (long long)count, prefix, what);
}
