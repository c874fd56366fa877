#include "analyses/resample.h"

#include "core/mem.h"
#include "core/order.h"
#include "core/random.h"

#include <math.h>
#include <stdlib.h>

void resample_interval(double *v, int n, double *lo, double *hi) {
    qsort(v, (size_t)n, sizeof *v, order_ascending);
    *lo = v[(int)(0.025 * (n - 1) + 0.5)];
    *hi = v[(int)(0.975 * (n - 1) + 0.5)];
}

bool resample_paired(const double *before, const double *after, int64_t n, int64_t block,
                     int resamples, uint64_t seed, paired_change *out, err *e) {
    *out = (paired_change){.mean = NAN, .lo = NAN, .hi = NAN};
    // sum[i]: of the first i differences, twice around the circle.
    double *sum = mem_alloc((size_t)n * 2 + 1, sizeof *sum, "loss changes", e);
    double *mean = mem_alloc((size_t)(resamples > 0 ? resamples : 1), sizeof *mean, "resamples", e);
    bool ok = sum && mean;
    if (!ok)
        goto done;
    int64_t m = 0;
    sum[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = after[i] - before[i];
        if (isfinite(d)) {
            sum[m + 1] = sum[m] + d;
            m++;
        }
    }
    out->n = m;
    if (m == 0)
        goto done;
    out->mean = sum[m] / (double)m;
    for (int64_t i = 0; i < m; i++)
        sum[m + i + 1] = sum[m] + sum[i + 1];
    if (block <= 0)
        block = m / 8 < 128 ? m / 8 : 128;
    out->block = block;
    if (block < 1 || m / block < 4 || resamples < 2)
        goto done;
    for (int b = 0; b < resamples; b++) {
        double total = 0;
        for (int64_t left = m; left > 0; left -= block) {
            int64_t from = (int64_t)(random_next(&seed) % (uint64_t)m);
            int64_t k = left < block ? left : block;
            total += sum[from + k] - sum[from];
        }
        mean[b] = total / (double)m;
    }
    resample_interval(mean, resamples, &out->lo, &out->hi);
done:
    free(sum);
    free(mean);
    return ok;
}

void resample_mean(const double *x, int64_t n, int resamples, uint64_t seed, double *scratch,
                   double *lo, double *hi) {
    *lo = *hi = NAN;
    if (n < 2 || resamples < 2)
        return;
    for (int b = 0; b < resamples; b++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += x[random_next(&seed) % (uint64_t)n];
        scratch[b] = sum / (double)n;
        if (!isfinite(scratch[b]))
            return;
    }
    resample_interval(scratch, resamples, lo, hi);
}
