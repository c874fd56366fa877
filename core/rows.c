#include "core/rows.h"

static int64_t row_start(const step_rows *r, int64_t T, int64_t i) {
    return r->starts ? r->starts[i] : i > 0 ? T : 0;
}

static int64_t rows_of(const step_rows *r) {
    return r->starts ? r->n : 1;
}

int64_t rows_states(const step_rows *r, int64_t T) {
    int64_t n = 0;
    for (int64_t i = 0; i < rows_of(r); i++)
        n += row_boundaries(row_start(r, T, i + 1) - row_start(r, T, i), r->every);
    return n;
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
            steps x = steps_part(s, t, end - t < step ? end - t : step);
            be->op->recurrence(be, &x, own, mat_rows(o, t, x.T));
        }
    }
}
