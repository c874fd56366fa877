#include "core/rows.h"

static int64_t row_start(const step_rows *r, int64_t T, int64_t i) {
    return r->starts ? r->starts[i] : i > 0 ? T : 0;
}

static int64_t rows_of(const step_rows *r) {
    return r->starts ? r->n : 1;
}

int64_t rows_states(const step_rows *r, int64_t T) {
    int64_t n = 0;
    for (int64_t i = 0; r->every > 0 && i < rows_of(r); i++)
        n += (row_start(r, T, i + 1) - row_start(r, T, i) + r->every - 1) / r->every;
    return n;
}

static mat tokens(mat m, int64_t first, int64_t n) {
    return mat_none(m) ? m : mat_rows(m, first, n);
}

static void stretch(backend *be, const steps *s, int64_t from, int64_t T, mat state, mat o) {
    const int64_t n = s->s.n_h;
    steps x = {.s = s->s,
               .T = T,
               .q = tokens(s->q, from, T),
               .k = tokens(s->k, from * n, T * n),
               .v = tokens(s->v, from * n, T * n),
               .beta = tokens(s->beta, from * n, T * n),
               .decay = tokens(s->decay, from, T),
               .a = tokens(s->a, from, T),
               .b = tokens(s->b, from, T)};
    be->op->recurrence(be, &x, state, mat_rows(o, from, T));
}

void rows_recurrence(backend *be, const steps *s, const step_rows *r, mat state, mat o) {
    const int64_t heads = (int64_t)s->s.H * s->s.K;
    int64_t boundary = 0;
    if (be->op->recurrence_rows && be->op->recurrence_rows(be, s, r, state, o))
        return;
    for (int64_t i = 0; i < rows_of(r); i++) {
        mat own = mat_rows(state, i * heads, heads);
        int64_t end = row_start(r, s->T, i + 1), step = r->every > 0 ? r->every : s->T;
        for (int64_t t = row_start(r, s->T, i); t < end && be->fail.code == ERR_NONE; t += step) {
            if (r->every > 0)
                be->op->copy(be, own, mat_rows(r->states, boundary++ * heads, heads));
            stretch(be, s, t, end - t < step ? end - t : step, own, o);
        }
    }
}
