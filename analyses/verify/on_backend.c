#include "analyses/verify/on_backend.h"

#include "core/mem.h"

#include <stdlib.h>

mat on_backend_put(backend *be, const double *v, int64_t rows, int64_t cols, bool exact) {
    mat m = exact ? be->op->alloc_exact(be, rows, cols) : be->op->alloc(be, rows, cols);
    if (!mat_none(m) && v)
        be->op->write(be, v, m);
    return m;
}

static mat copy_of(backend *be, mat host, bool exact) {
    return mat_none(host) ? MAT_NONE : on_backend_put(be, host.p, host.rows, host.cols, exact);
}

bool on_backend_recurrence(backend *be, const steps *host, double *H, double *o, err *e) {
    const head_shape *p = &host->s;
    int64_t nk = (int64_t)p->Hk * p->K;
    steps s = {.s = *p, .T = host->T};
    s.q = mat_none(host->q) ? on_backend_put(be, NULL, host->T, nk, false)
                            : copy_of(be, host->q, false);
    s.k = copy_of(be, host->k, false);
    s.v = copy_of(be, host->v, false);
    s.beta = copy_of(be, host->beta, true);
    s.decay = copy_of(be, host->decay, true);
    s.a = copy_of(be, host->a, false);
    s.b = copy_of(be, host->b, false);
    mat state = on_backend_put(be, H, (int64_t)p->H * p->K, p->V, true);
    mat out = on_backend_put(be, NULL, host->T, (int64_t)p->H * p->V, false);
    if (be->fail.code == ERR_NONE) {
        be->op->recurrence(be, &s, state, out);
        be->op->read(be, state, H);
        if (o)
            be->op->read(be, out, o);
    }
    mat all[] = {s.q, s.k, s.v, s.beta, s.decay, s.a, s.b, state, out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        be->op->free(be, all[i]);
    return backend_check(be, e);
}
