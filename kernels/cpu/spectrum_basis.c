#include "kernels/cpu/spectrum_basis.h"

#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_LIMIT 64

bool basis_list(basis *b, lyapunov_kind kind, int64_t at, double factor, double mean, err *e) {
    lyapunov_plan *p = b->plan;
    if (p->n == p->room) {
        int64_t room = p->room ? 2 * p->room : 1024;
        lyapunov_op *op = realloc(p->op, (size_t)room * sizeof *op);
        if (!op)
            return err_set(e, ERR_NOMEM, "a plan of exponents");
        p->op = op;
        p->room = room;
    }
    p->op[p->n++] = (lyapunov_op){kind, at, factor, mean};
    return true;
}

// A factor that takes a direction away needs Q itself.
bool basis_listable(const basis *b, err *e) {
    return !b->plan || err_set(e, ERR_UNSUPPORTED, "a singular factor");
}

static bool fail(lapack_int info, err *e) {
    if (info == LAPACK_WORK_MEMORY_ERROR)
        return err_set(e, ERR_NOMEM, "re-orthogonalisation");
    return err_set(e, ERR_NUMERIC, "re-orthogonalisation: info=%d", (int)info);
}

void basis_drop_column(basis *b, int at) {
    for (int c = 0; c < b->K; c++) {
        const double *from = b->Q + (size_t)c * (size_t)b->m;
        double *to = b->Q + (size_t)c * (size_t)(b->m - 1); // never ahead of what is still to read
        memmove(to, from, (size_t)at * sizeof *to);
        memmove(to + at, from + at + 1, (size_t)(b->m - 1 - at) * sizeof *to);
    }
    memmove(b->growth + at, b->growth + at + 1, (size_t)(b->m - 1 - at) * sizeof *b->growth);
    b->m--;
}

bool basis_orthogonalise(basis *b, err *e) {
    if (b->count == 0 || b->m == 0)
        return true;
    if (b->plan) {
        b->ln_cond = 0;
        b->count = 0;
        return basis_list(b, LYAPUNOV_QR, 0, 0, 0, e);
    }
    lapack_int info = LAPACKE_dgelqf(LAPACK_COL_MAJOR, b->m, b->K, b->Q, b->m, b->tau);
    if (info != 0)
        return fail(info, e);
    for (int i = 0; i < b->m; i++)
        b->growth[i] += logl(fabsl(b->Q[(size_t)i * (size_t)b->m + (size_t)i]));
    info = LAPACKE_dorglq(LAPACK_COL_MAJOR, b->m, b->K, b->m, b->Q, b->m, b->tau);
    if (info != 0)
        return fail(info, e);
    b->ln_cond = 0;
    b->count = 0;
    return true;
}

// Room for a factor of this condition number: QR first if the block would pass the limit.
bool basis_make_room(basis *b, double ln_cond, err *e) {
    if ((b->ln_cond + ln_cond > COND_LIMIT || b->count >= COUNT_LIMIT) &&
        !basis_orthogonalise(b, e))
        return false;
    b->ln_cond += ln_cond;
    b->count++;
    return true;
}

// The first column whose span with those before it holds `null` (unit): it is the one that a factor
// with that null direction annihilates. -1 when the direction is outside Q. Q orthonormal.
int basis_annihilated(basis *b, const double *null) {
    size_t m = (size_t)b->m;
    memset(b->u, 0, m * sizeof *b->u);
    for (int c = 0; c < b->K; c++)
        for (size_t j = 0; j < m; j++)
            b->u[j] += null[c] * b->Q[(size_t)c * m + j];
    double tail = 0;
    for (int c = 0; c < b->K; c++) {
        double rest = null[c];
        for (size_t j = 0; j < m; j++)
            rest -= b->u[j] * b->Q[(size_t)c * m + j];
        tail += rest * rest;
    }
    // Rounding leaves 1e-16 sqrt(K) of a direction that lies in Q.
    double noise = 1e-13;
    if (sqrt(tail) > noise)
        return -1;
    int at = b->m - 1;
    for (; at > 0; at--) {
        tail += b->u[at] * b->u[at];
        if (sqrt(tail) > noise)
            break;
    }
    return at;
}

// Gram-Schmidt, twice, leaving out columns that the factor made dependent on those before them.
void basis_orthogonalise_dropping(basis *b) {
    for (int j = 0; j < b->m;) {
        size_t m = (size_t)b->m, K = (size_t)b->K;
        double before = 0, after = 0, top = 0;
        for (size_t i = 0; i < K * m; i++)
            top = fabs(b->Q[i]) > top ? fabs(b->Q[i]) : top;
        for (size_t c = 0; c < K; c++)
            before = hypot(before, b->Q[c * m + (size_t)j]);
        for (int pass = 0; pass < 2; pass++)
            for (size_t i = 0; i < (size_t)j; i++) {
                double dot = 0;
                for (size_t c = 0; c < K; c++)
                    dot += b->Q[c * m + i] * b->Q[c * m + (size_t)j];
                for (size_t c = 0; c < K; c++)
                    b->Q[c * m + (size_t)j] -= dot * b->Q[c * m + i];
            }
        for (size_t c = 0; c < K; c++)
            after = hypot(after, b->Q[c * m + (size_t)j]);
        if (after <= 1e-13 * before || after <= 1e-14 * top) {
            basis_drop_column(b, j);
            continue;
        }
        for (size_t c = 0; c < K; c++)
            b->Q[c * m + (size_t)j] /= after;
        b->growth[j] += logl(after);
        j++;
    }
    b->ln_cond = 0;
    b->count = 0;
}
