#include "cli/spectrum_arrays.h"

#include "cli/results.h"
#include "core/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct place {
    output *x;
    size_t model, document;
    const spectrum_result *r;
    int64_t heads; // most of any layer
} place;

// [layers, heads, n] of doubles, NaN.
static double *blank(const place *p, size_t n, err *e) {
    size_t all = (size_t)p->r->n_layers * (size_t)p->heads * n;
    double *v = mem_alloc(all, sizeof *v, "an array", e);
    for (size_t i = 0; v && i < all; i++)
        v[i] = NAN;
    return v;
}

// Rows of `width` numbers become rows of `wide` >= width: layers may differ in K.
static void spread(double *to, const double *from, int64_t rows, int64_t width, int64_t wide) {
    for (int64_t i = 0; i < rows; i++)
        memcpy(to + i * wide, from + i * width, (size_t)width * sizeof *to);
}

typedef enum { EIG, COND, LYAPUNOV, LEDGER } what;

static bool write_one(const place *p, what kind, const char *name, err *e) {
    const spectrum_result *r = p->r;
    int64_t products = r->n_windows * r->samples, K = r->K, total = r->rows * r->T;
    int64_t width = kind == EIG        ? 2 * products * K
                    : kind == COND     ? products * K
                    : kind == LYAPUNOV ? K
                                       : total;
    double *v = blank(p, (size_t)width, e);
    if (!v)
        return false;
    for (int l = 0; l < r->n_layers; l++)
        for (int h = 0; h < r->layer[l].n_heads; h++) {
            const spectrum_head *x = &r->layer[l].head[h];
            double *to = v + (l * p->heads + h) * width;
            int64_t k = r->layer[l].shape.K;
            if (kind == EIG)
                spread(to, (const double *)x->eig, products, 2 * k, 2 * K);
            else if (kind == COND)
                spread(to, x->cond, products, k, K);
            else if (kind == LYAPUNOV)
                spread(to, x->lyapunov, 1, k, K);
            else
                memcpy(to, x->ledger, (size_t)total * sizeof *to);
        }
    int64_t L = r->n_layers, H = p->heads;
    bool ok;
    if (kind == EIG)
        ok = results_c128(p->x, p->model, p->document, name, 5,
                          (int64_t[]){L, H, r->n_windows, r->samples, K}, v, e);
    else if (kind == COND)
        ok = results_f64(p->x, p->model, p->document, name, 5,
                         (int64_t[]){L, H, r->n_windows, r->samples, K}, v, e);
    else if (kind == LYAPUNOV)
        ok = results_f64(p->x, p->model, p->document, name, 3, (int64_t[]){L, H, K}, v, e);
    else if (r->rows == 1)
        ok = results_f64(p->x, p->model, p->document, name, 3, (int64_t[]){L, H, r->T}, v, e);
    else
        ok = results_f64(p->x, p->model, p->document, name, 4, (int64_t[]){L, H, r->rows, r->T}, v,
                         e);
    free(v);
    return ok;
}

// One number of each product. *any: some number is neither 0 nor NaN.
static bool write_fact(const place *p, size_t offset, const char *name, bool unless_zero, err *e) {
    const spectrum_result *r = p->r;
    int64_t products = r->n_windows * r->samples;
    bool any = false;
    double *v = blank(p, (size_t)products, e);
    if (!v)
        return false;
    for (int l = 0; l < r->n_layers; l++)
        for (int h = 0; h < r->layer[l].n_heads; h++)
            for (int64_t i = 0; i < products; i++) {
                double *to = &v[(l * p->heads + h) * products + i];
                memcpy(to, (const char *)&r->layer[l].head[h].facts[i] + offset, sizeof *to);
                any |= *to != 0 && !isnan(*to);
            }
    bool ok = true;
    if (any || !unless_zero)
        ok = results_f64(p->x, p->model, p->document, name, 4,
                         (int64_t[]){r->n_layers, p->heads, r->n_windows, r->samples}, v, e);
    free(v);
    return ok;
}

bool spectrum_arrays_write(output *x, size_t model, size_t document, const spectrum_result *r,
                           err *e) {
    if (!output_wants_files(x))
        return true;
    place p = {x, model, document, r, 0};
    for (int l = 0; l < r->n_layers; l++)
        p.heads = r->layer[l].n_heads > p.heads ? r->layer[l].n_heads : p.heads;
    const spectrum_head *first = &r->layer[0].head[0];
    return write_one(&p, EIG, "eig.npy", e) &&
           (!first->cond || write_one(&p, COND, "cond.npy", e)) &&
           write_fact(&p, offsetof(window_facts, norm2), "norm2.npy", false, e) &&
           write_fact(&p, offsetof(window_facts, radius), "radius.npy", false, e) &&
           write_fact(&p, offsetof(window_facts, log_scale), "log_scale.npy", true, e) &&
           (!first->lyapunov || write_one(&p, LYAPUNOV, "lyapunov.npy", e)) &&
           (!first->ledger || write_one(&p, LEDGER, "ledger.npy", e));
}
