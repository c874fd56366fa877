// analyses/report/over_rows.h - numbers over the rows of a document, with 95 % intervals by bootstrap
// over rows: whole rows are drawn with replacement, because tokens of one row are not independent.
//
// All numbers of one document are resampled with the same draws. NaN rows are left out; with fewer
// than two rows that hold a number there is no interval (NaN).
#ifndef DELTOP_REPORT_OVER_ROWS_H
#define DELTOP_REPORT_OVER_ROWS_H

#include "core/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct row_draws {
    int64_t rows;
    int n;           // resamples
    int *count;      // [n, rows]: how often a resample holds a row; owned
    double *scratch; // [n]
} row_draws;
bool row_draws_make(row_draws *d, int64_t rows, int resamples, uint64_t seed, err *e);
void row_draws_free(row_draws *d); // an empty one is fine

typedef struct over_rows {
    double value, lo, hi;
} over_rows;

// Mean of v [rows].
over_rows rows_mean(row_draws *d, const double *v);
// exp of the mean.
over_rows rows_geometric(row_draws *d, const double *log_v);

// Median of values that belong to rows, e.g. of modes of all windows of a row; sorts them. Infinite
// values count; between two middle ones lies their mean, or the larger where one is infinite.
typedef struct row_value {
    double v;
    int32_t row;
} row_value;
over_rows rows_median(row_draws *d, row_value *v, size_t n);

#endif
