#include "tests/cuda_pair.h"

#include "kernels/cpu/cpu.h"
#include "kernels/cuda_open.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct {
    const char *what;
    double error;
} worst[48];
static size_t n_worst;

backend *cuda_or_skip(precision p) {
    err e = {0};
    backend *be = cuda_open(0, p, 0, &e);
    if (be)
        return be;
    // A library that does not fit this program is a fault, not a machine without a GPU.
    if (e.code != ERR_DEVICE || strstr(e.text, "undefined symbol") || getenv("DELTOP_NEED_GPU"))
        fail_msg("%s", e.text);
    printf("SKIP: no device (%s)\n", e.text);
    skip();
    return NULL;
}

void both_open(both *b, precision p) {
    err e = {0};
    *b = (both){.seed = 1, .gap = 3};
    n_worst = 0;
    b->be[0] = cuda_or_skip(p);
    b->be[1] = cpu_open(PRECISION_F64, 0, &e);
    assert_non_null(b->be[1]);
    b->be[1]->recurrence = RECURRENCE_STEP;
}

void both_reset(both *b) {
    for (int i = 0; i < b->n; i++)
        for (int s = 0; s < 2; s++)
            b->be[s]->op->free(b->be[s], b->made[i].all[s]);
    b->n = 0;
}

void both_close(both *b) {
    both_reset(b);
    backend_close(b->be[0]);
    backend_close(b->be[1]);
}

void both_check(both *b, const char *what) {
    for (int s = 0; s < 2; s++) {
        err e = {0};
        if (!backend_check(b->be[s], &e))
            fail_msg("%s on %s: %s", what, b->be[s]->device, e.text);
    }
}

// splitmix64
double both_uniform(both *b, double lo, double hi) {
    uint64_t z = (b->seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return lo + (hi - lo) * ((double)((z ^ (z >> 31)) >> 11) * 0x1p-53);
}

pair pair_new(both *b, int64_t rows, int64_t cols, bool exact, double lo, double hi) {
    pair p;
    int64_t n = (rows + 2) * (cols + 2 * b->gap);
    double *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    assert_true(b->n < PAIR_MOST);
    for (int64_t i = 0; i < n; i++)
        x[i] = NAN;
    for (int s = 0; s < 2; s++) {
        backend *be = b->be[s];
        p.all[s] =
            (exact ? be->op->alloc_exact : be->op->alloc)(be, rows + 2, cols + (int64_t)2 * b->gap);
        both_check(b, "memory");
        be->op->write(be, x, p.all[s]);
        p.at[s] = mat_cols(mat_rows(p.all[s], 1, rows), b->gap, cols);
    }
    b->made[b->n++] = p;
    for (int64_t i = 0; i < rows * cols; i++)
        x[i] = both_uniform(b, lo, hi);
    pair_write(b, &p, x);
    free(x);
    return p;
}

void pair_write(both *b, const pair *p, const double *numbers) {
    b->be[0]->op->write(b->be[0], numbers, p->at[0]);
    double *rounded = pair_read(b, p, 0);
    b->be[1]->op->write(b->be[1], rounded, p->at[1]);
    free(rounded);
    both_check(b, "writing");
}

double *pair_read(both *b, const pair *p, int side) {
    size_t n = (size_t)(p->at[side].rows * p->at[side].cols);
    double *x = malloc((n ? n : 1) * sizeof *x);
    assert_non_null(x);
    b->be[side]->op->read(b->be[side], p->at[side], x);
    return x;
}

static void assert_surroundings(both *b, const pair *p) {
    mat all = p->all[0];
    int64_t gap = (all.cols - p->at[0].cols) / 2;
    double *x = malloc((size_t)(all.rows * all.cols) * sizeof *x);
    assert_non_null(x);
    b->be[0]->op->read(b->be[0], all, x);
    int64_t written = 0;
    for (int64_t i = 0; i < all.rows; i++)
        for (int64_t j = 0; j < all.cols; j++) {
            bool inside = i > 0 && i < all.rows - 1 && j >= gap && j < all.cols - gap;
            written += !inside && !isnan(x[i * all.cols + j]);
        }
    free(x);
    if (written)
        fail_msg("%lld numbers around a matrix of %lld x %lld were written", (long long)written,
                 (long long)p->at[0].rows, (long long)p->at[0].cols);
}

// floor < 0: every difference over the largest entry.
static double error(both *b, const pair *p, double floor) {
    both_check(b, "an operation");
    assert_surroundings(b, p);
    double *x = pair_read(b, p, 0), *y = pair_read(b, p, 1), worst = 0, top = 0;
    int64_t n = p->at[0].rows * p->at[0].cols;
    both_check(b, "reading");
    for (int64_t i = 0; i < n; i++)
        if (isfinite(y[i]))
            top = fmax(top, fabs(y[i]));
    for (int64_t i = 0; i < n; i++) {
        double scale = floor < 0 ? top : fmax(fabs(y[i]), floor);
        double d = x[i] == y[i] || (isnan(x[i]) && isnan(y[i])) ? 0 : fabs(x[i] - y[i]) / scale;
        worst = d > worst || isnan(d) ? d : worst;
        if (isnan(worst))
            break;
    }
    free(x);
    free(y);
    return worst;
}

double pair_error(both *b, const pair *p) {
    return error(b, p, -1);
}

double pair_error_each(both *b, const pair *p, double floor) {
    return error(b, p, floor);
}

void pair_note(const both *b, const char *what, const pair *y, double error, double bound) {
    size_t i = 0;
    while (i < n_worst && strcmp(worst[i].what, what) != 0)
        i++;
    assert_true(i < sizeof worst / sizeof *worst);
    if (i == n_worst) {
        worst[n_worst].what = what;
        worst[n_worst++].error = 0;
    }
    worst[i].error = fmax(worst[i].error, error);
    if (!(error <= bound))
        fail_msg("%s in %s, %lld x %lld: off by %g (allowed %g)", what,
                 precision_name(b->be[0]->prec), (long long)y->at[0].rows, (long long)y->at[0].cols,
                 error, bound);
}

void pair_print_worst(const both *b) {
    for (size_t i = 0; i < n_worst; i++)
        printf("measured cuda %-4s %-34s worst %.1e\n", precision_name(b->be[0]->prec),
               worst[i].what, worst[i].error);
    n_worst = 0;
}
