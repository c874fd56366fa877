#include "analyses/report/over_rows.h"

#include "analyses/resample.h"
#include "core/mem.h"
#include "core/random.h"

#include <math.h>
#include <stdlib.h>

bool row_draws_make(row_draws *d, int64_t rows, int resamples, uint64_t seed, err *e) {
    *d = (row_draws){.rows = rows, .n = rows > 1 ? resamples : 0};
    size_t n = (size_t)d->n;
    d->count = mem_zalloc(n * (size_t)rows, sizeof *d->count, "resamples", e);
    d->scratch = mem_alloc(n, sizeof *d->scratch, "resamples", e);
    if (!d->count || !d->scratch) {
        row_draws_free(d);
        return false;
    }
    for (int b = 0; b < d->n; b++)
        for (int64_t i = 0; i < rows; i++)
            d->count[b * rows + random_below(&seed, rows)]++;
    return true;
}

void row_draws_free(row_draws *d) {
    free(d->count);
    free(d->scratch);
    *d = (row_draws){0};
}

// Of the first n resampled numbers in d->scratch. A resample without any number is left out.
static over_rows interval(row_draws *d, double value, int n) {
    over_rows out = {value, NAN, NAN};
    if (n >= 2)
        resample_interval(d->scratch, n, &out.lo, &out.hi);
    return out;
}

over_rows rows_mean(row_draws *d, const double *v) {
    double sum = 0;
    int64_t known = 0;
    for (int64_t i = 0; i < d->rows; i++)
        if (!isnan(v[i])) {
            sum += v[i];
            known++;
        }
    int n = 0;
    for (int b = 0; b < d->n && known > 1; b++) {
        double part = 0;
        int64_t drawn = 0;
        for (int64_t i = 0; i < d->rows; i++)
            if (!isnan(v[i]) && d->count[b * d->rows + i]) { // 0 times an infinity is no number
                part += d->count[b * d->rows + i] * v[i];
                drawn += d->count[b * d->rows + i];
            }
        if (drawn && !isnan(part))
            d->scratch[n++] = part / (double)drawn;
    }
    return interval(d, known ? sum / (double)known : NAN, n);
}

over_rows rows_geometric(row_draws *d, const double *log_v) {
    over_rows x = rows_mean(d, log_v);
    return (over_rows){exp(x.value), exp(x.lo), exp(x.hi)};
}

static int by_value(const void *a, const void *b) {
    double x = ((const row_value *)a)->v, y = ((const row_value *)b)->v;
    return (x > y) - (x < y);
}

// v is sorted; weight NULL: every row once.
static double weighted_median(const row_value *v, size_t n, const int *weight) {
    int64_t all = 0, sum = 0;
    for (size_t i = 0; i < n; i++)
        all += weight ? weight[v[i].row] : 1;
    for (size_t i = 0; i < n && all > 0; i++) {
        sum += weight ? weight[v[i].row] : 1;
        if (2 * sum < all)
            continue;
        size_t next = i + 1;
        while (weight && next < n && weight[v[next].row] == 0)
            next++;
        if (2 * sum > all || next >= n)
            return v[i].v;
        // Between two: their mean, but never through an infinity.
        return isinf(v[i].v) || isinf(v[next].v) ? v[next].v : (v[i].v + v[next].v) / 2;
    }
    return NAN;
}

over_rows rows_median(row_draws *d, row_value *v, size_t n) {
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (!isnan(v[i].v))
            v[m++] = v[i];
    qsort(v, m, sizeof *v, by_value);
    bool several = false;
    for (size_t i = 1; i < m; i++)
        several = several || v[i].row != v[0].row;
    int drawn = 0;
    for (int b = 0; b < d->n && several; b++) {
        double x = weighted_median(v, m, d->count + b * d->rows);
        if (!isnan(x))
            d->scratch[drawn++] = x;
    }
    return interval(d, weighted_median(v, m, NULL), drawn);
}
