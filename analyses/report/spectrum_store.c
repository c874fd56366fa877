// A spectrum's result taken apart and put together again.
#include "analyses/report/row_store.h"

#include "analyses/spectrum_tokens.h"
#include "core/mem.h"

#include <math.h>
#include <stdlib.h>

enum { TOKEN_VALUES = 1024, TOKEN_ROTATING = 512 }; // most that a head keeps (spectrum_tokens.c)

// The three histograms, which lie behind each other: bins that are not empty, as (bin, count).
static void put_bins(const int64_t *bin, flat *f) {
    int64_t n = 0;
    for (int i = 0; i < 3 * SPECTRUM_BINS; i++)
        n += bin[i] != 0;
    flat_put_int(f, n);
    for (int64_t i = 0; i < 3 * SPECTRUM_BINS; i++)
        if (bin[i])
            flat_put_ints(f, (int64_t[]){i, bin[i]}, 2);
}

static bool get_bins(int64_t *bin, flat *f, err *e) {
    int64_t n = flat_get_int(f), x[2];
    for (int64_t i = 0; i < n && f->fail.code == ERR_NONE; i++) {
        flat_get_ints(f, x, 2);
        if (x[0] < 0 || x[0] >= 3 * SPECTRUM_BINS)
            return err_set(e, ERR_INPUT, "a record with a bin %lld", (long long)x[0]);
        bin[x[0]] = x[1];
    }
    return true;
}

static void put_tokens(const spectrum_tokens *t, flat *f) {
    flat_put_ints(f,
                  (int64_t[]){t->tokens, t->complex_tokens, t->values, t->negative, t->n_kept,
                              t->n_rotating, t->strong},
                  7);
    flat_put(f, (double[]){t->least_real, t->largest, t->strongest}, 3);
    put_bins(t->modulus, f);
    flat_put(f, (const double *)t->kept, 2 * (size_t)t->n_kept);
    flat_put(f, (const double *)t->rotating, 2 * (size_t)t->n_rotating);
}

static bool get_tokens(spectrum_tokens *t, flat *f, err *e) {
    int64_t n[7];
    double x[3];
    flat_get_ints(f, n, 7);
    flat_get(f, x, 3);
    if (n[4] < 0 || n[4] > TOKEN_VALUES || n[5] < 0 || n[5] > TOKEN_ROTATING)
        return err_set(e, ERR_INPUT, "a record with %lld eigenvalues of tokens", (long long)n[4]);
    if (!spectrum_tokens_init(t, TOKEN_VALUES, e))
        return false;
    t->tokens = n[0];
    t->complex_tokens = n[1];
    t->values = n[2];
    t->negative = n[3];
    t->n_kept = n[4];
    t->n_rotating = n[5];
    t->strong = n[6];
    t->least_real = x[0];
    t->largest = x[1];
    t->strongest = x[2];
    if (!get_bins(t->modulus, f, e))
        return false;
    flat_get(f, (double *)t->kept, 2 * (size_t)t->n_kept);
    flat_get(f, (double *)t->rotating, 2 * (size_t)t->n_rotating);
    return true;
}

static void put_head(const spectrum_result *r, int K, const spectrum_head *h, flat *f) {
    size_t products = (size_t)r->n_windows * (size_t)r->samples;
    flat_put_ints(f, (int64_t[]){h->head, h->over_norm, h->singular}, 3);
    flat_put(f, (const double *)h->eig, 2 * products * (size_t)K);
    for (size_t i = 0; i < products; i++) {
        const window_facts *w = &h->facts[i];
        flat_put(
            f, (double[]){w->norm2, w->radius, w->logabsdet, w->asymmetry, w->log_scale, w->frozen},
            6);
    }
    flat_put(f, h->rate, (size_t)r->points);
    flat_put_ints(f, h->rate_n, (size_t)r->points);
    if (r->lyapunov_tokens)
        flat_put(f, h->lyapunov, (size_t)K);
    put_tokens(&h->tokens, f);
}

static bool get_head(const spectrum_result *r, int K, spectrum_head *h, flat *f, err *e) {
    size_t products = (size_t)r->n_windows * (size_t)r->samples, values = products * (size_t)K;
    int64_t n[3];
    flat_get_ints(f, n, 3);
    h->head = (int)n[0];
    h->over_norm = n[1];
    h->singular = n[2];
    h->eig = mem_alloc(values, sizeof *h->eig, "eigenvalues", e);
    h->facts = mem_alloc(products, sizeof *h->facts, "facts of windows", e);
    h->rate = mem_alloc((size_t)r->points, sizeof *h->rate, "a ledger", e);
    h->rate_n = mem_alloc((size_t)r->points, sizeof *h->rate_n, "a ledger", e);
    if (r->lyapunov_tokens)
        h->lyapunov = mem_alloc((size_t)K, sizeof *h->lyapunov, "exponents", e);
    if (!h->eig || !h->facts || !h->rate || !h->rate_n || (r->lyapunov_tokens && !h->lyapunov))
        return false;
    flat_get(f, (double *)h->eig, 2 * values);
    for (size_t i = 0; i < products; i++) {
        double x[6];
        flat_get(f, x, 6);
        h->facts[i] = (window_facts){x[0], x[1], x[2], x[3], x[4], isnan(x[5]) ? 0 : (int)x[5]};
    }
    flat_get(f, h->rate, (size_t)r->points);
    flat_get_ints(f, h->rate_n, (size_t)r->points);
    if (r->lyapunov_tokens)
        flat_get(f, h->lyapunov, (size_t)K);
    return get_tokens(&h->tokens, f, e);
}

void spectrum_flatten(const spectrum_result *r, flat *f) {
    flat_put_ints(f,
                  (int64_t[]){r->T, r->rows, r->n_windows, r->samples, r->points,
                              r->lyapunov_tokens, r->prec, r->n_layers, r->K},
                  9);
    flat_put_ints(f, r->windows, (size_t)r->n_windows);
    flat_put_ints(f, r->ends, (size_t)r->samples);
    flat_put_ints(f, r->end_row, (size_t)r->samples);
    for (int i = 0; i < r->n_layers; i++) {
        const spectrum_layer *l = &r->layer[i];
        flat_put_ints(f, (int64_t[]){l->layer, l->n_heads}, 2);
        flat_put_shape(f, &l->shape);
        for (int h = 0; h < l->n_heads; h++)
            put_head(r, l->shape.K, &l->head[h], f);
    }
}

// Sizes that no record of ours has would only ask for absurd amounts of memory.
static bool sane(const int64_t *n, int count, err *e) {
    for (int i = 0; i < count; i++)
        if (n[i] < 0 || n[i] > INT32_MAX)
            return err_set(e, ERR_INPUT, "a record with impossible sizes");
    return true;
}

bool spectrum_unflatten(spectrum_result *r, flat *f, err *e) {
    int64_t n[9];
    *r = (spectrum_result){0};
    flat_get_ints(f, n, 9);
    if (!sane(n, 9, e))
        return false;
    *r = (spectrum_result){.T = n[0],
                           .rows = n[1],
                           .n_windows = (int)n[2],
                           .samples = n[3],
                           .points = (int)n[4],
                           .lyapunov_tokens = n[5],
                           .prec = (precision)n[6],
                           .K = (int)n[8]};
    r->windows = mem_alloc((size_t)r->n_windows, sizeof *r->windows, "windows", e);
    r->ends = mem_alloc((size_t)r->samples, sizeof *r->ends, "positions", e);
    r->end_row = mem_alloc((size_t)r->samples, sizeof *r->end_row, "positions", e);
    r->layer = mem_zalloc((size_t)n[7], sizeof *r->layer, "layers", e);
    bool ok = r->windows && r->ends && r->end_row && r->layer;
    if (ok) {
        flat_get_ints(f, r->windows, (size_t)r->n_windows);
        flat_get_ints(f, r->ends, (size_t)r->samples);
        flat_get_ints(f, r->end_row, (size_t)r->samples);
    }
    while (ok && r->n_layers < n[7] && f->fail.code == ERR_NONE) {
        spectrum_layer *l = &r->layer[r->n_layers++];
        int64_t m[2];
        flat_get_ints(f, m, 2);
        l->layer = (int)m[0];
        l->shape = flat_get_shape(f);
        ok = sane(m, 2, e) && l->shape.K >= 0 &&
             (l->head = mem_zalloc((size_t)m[1], sizeof *l->head, "heads", e)) != NULL;
        while (ok && l->n_heads < m[1])
            ok = get_head(r, l->shape.K, &l->head[l->n_heads++], f, e);
    }
    if (ok && f->fail.code != ERR_NONE)
        ok = err_set(e, f->fail.code, "%s", f->fail.text);
    if (!ok)
        spectrum_result_free(r);
    return ok;
}
