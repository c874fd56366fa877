// Singular values of the states inside a block (kernels/states.h) on the host: the way for sizes that
// the kernels of states.cu do not cover. The steps are copied to the host and replayed there.
#include "kernels/cuda/ops.h"

#include <stdlib.h>

extern "C" bool states_svals_f32(backend *be, const steps *s, mat state, const int *heads,
                                 int n_heads, const int64_t *at, int64_t n, double *sv, double *fro,
                                 err *e);

// A host copy of a device mat as floats; p NULL when there is none.
static bool fetch(backend *be, mat m, mat *out, err *e) {
    *out = mat{};
    if (mat_none(m))
        return true;
    size_t n = (size_t)(m.rows * m.cols);
    double *d = (double *)mem_alloc(n, sizeof *d, "steps", e);
    float *f = (float *)mem_alloc(n, sizeof *f, "steps", e);
    if (d && f) {
        be->op->read(be, m, d);
        for (size_t i = 0; i < n; i++)
            f[i] = (float)d[i];
        *out = mat{f, m.rows, m.cols, m.cols, sizeof(float)};
    } else {
        free(f);
    }
    free(d);
    return out->p != NULL && backend_check(be, e);
}

bool states_svals_on_host(backend *be, const steps *s, mat state, const int *heads, int n_heads,
                          const int64_t *at, int64_t n, double *sv, double *fro, err *e) {
    steps h = *s;
    mat S = {};
    h.q = mat{};
    bool ok = fetch(be, s->k, &h.k, e) && fetch(be, s->v, &h.v, e) &&
              fetch(be, s->beta, &h.beta, e) && fetch(be, s->decay, &h.decay, e) &&
              fetch(be, s->a, &h.a, e) && fetch(be, s->b, &h.b, e) && fetch(be, state, &S, e) &&
              states_svals_f32(be, &h, S, heads, n_heads, at, n, sv, fro, e);
    mat all[] = {h.k, h.v, h.beta, h.decay, h.a, h.b, S};
    // Only what fetch has made: an absent mat is NULL.
    mat given[] = {s->k, s->v, s->beta, s->decay, s->a, s->b, state};
    for (int i = 0; i < 7; i++)
        if (all[i].p != given[i].p)
            free(all[i].p);
    return ok;
}
