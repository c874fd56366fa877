// How much runs of one binary differ: the noise floor of a baseline (bench/run.h).
#include "bench/run.h"
#include "bench/verdict.h"
#include "core/mem.h"

#include <math.h>
#include <stdlib.h>

enum { ROUNDS_MOST = 128 };

// The level of one run's row, as verdicts take it.
static double level(const bench_row *row) {
    double x[ROUNDS_MOST];
    size_t n = verdict_levels(&row->warm, false, x, ROUNDS_MOST);
    return row->status == ROW_OK && n ? stats_quantile(x, n, VERDICT_QUANTILE) : (double)NAN;
}

bool bench_calibrate(const bench_plan *p, int times, record *out, err *e) {
    size_t n = p->cases->n;
    double *x = mem_alloc(n * (size_t)times, sizeof *x, "a calibration", e);
    double *sd = mem_alloc(n + 1, sizeof *sd, "a calibration", e);
    bool ok = x && sd;
    for (int k = 0; ok && k < times; k++) {
        record one;
        record_init(&one);
        ok = bench_run(p, &one, e) && record_merge(out, &one, e);
        for (size_t i = 0; ok && i < n; i++)
            x[i * (size_t)times + (size_t)k] = level(&one.rows[i]);
        record_free(&one);
    }
    for (size_t i = 0; ok && i < n; i++) {
        double mean = 0, var = 0;
        for (int k = 0; k < times; k++)
            mean += x[i * (size_t)times + (size_t)k] / times;
        for (int k = 0; k < times; k++) {
            double d = x[i * (size_t)times + (size_t)k] - mean;
            var += d * d;
        }
        sd[i] = sqrt(var / (times - 1));
    }
    // A handful of runs may agree by luck: no row counts as quieter than half of them all.
    double *sorted = x;
    size_t known = 0;
    for (size_t i = 0; ok && i < n; i++)
        if (isfinite(sd[i]))
            sorted[known++] = sd[i];
    double typical = known ? stats_quantile(sorted, known, 0.5) : (double)NAN;
    for (size_t i = 0; ok && i < n && i < out->n; i++)
        if (isfinite(sd[i]))
            out->rows[i].noise = fmax(fmax(sd[i], typical), VERDICT_LEAST_NOISE);
    free(x);
    free(sd);
    return ok;
}
