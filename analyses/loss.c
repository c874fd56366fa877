#include "analyses/loss.h"

#include "analyses/resample.h"
#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool loss_init(loss_result *r, const char *model, const char *document, int64_t rows, int64_t n,
               int64_t train_length, err *e) {
    *r = (loss_result){.rows = rows, .n = n, .train_length = train_length};
    r->model = mem_strdup(model, e);
    r->document = mem_strdup(document, e);
    size_t count = 0;
    if (!mem_mul((size_t)rows, (size_t)n, &count))
        count = SIZE_MAX / 16;
    r->loss = mem_alloc(count, sizeof *r->loss, "losses", e);
    if (!r->model || !r->document || !r->loss) {
        loss_free(r);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        r->loss[i] = NAN;
    return true;
}

void loss_free(loss_result *r) {
    free(r->model);
    free(r->document);
    free(r->loss);
    *r = (loss_result){0};
}

// Mean over positions [from, to) of one row. Summed in double; a float near 3e6 moves in steps of
// 0.25.
static double row_mean(const loss_result *r, int64_t row, int64_t from, int64_t to) {
    double sum = 0;
    for (int64_t i = from; i < to; i++)
        sum += r->loss[row * r->n + i];
    return isnan(sum) ? NAN : sum / (double)(to - from); // without the sign that processors give it
}

static double mean_over(const loss_result *r, int64_t from, int64_t to) {
    double sum = 0;
    for (int64_t row = 0; row < r->rows; row++)
        sum += row_mean(r, row, from, to);
    return isnan(sum) ? NAN : sum / (double)r->rows;
}

static void stretches(loss_result *r) {
    int64_t from = 0, to = 512;
    r->n_stretches = 0;
    while (from < r->n && r->n_stretches < LOSS_MAX_STRETCHES) {
        loss_stretch *s = &r->stretch[r->n_stretches++];
        int64_t end = to < r->n ? to : r->n;
        s->from = from;
        s->to = end;
        s->mean = mean_over(r, from, end);
        s->block_ppl = exp(s->mean);
        from = to;
        to = to == 512 ? 2048 : 2 * to;
    }
}

bool loss_summarise(loss_result *r, int resamples, uint64_t seed, err *e) {
    r->scored = r->rows * r->n;
    r->mean = r->total_ppl = r->extrapolation = r->mean_lo = r->mean_hi = r->accuracy = NAN;
    r->n_stretches = r->not_finite = 0;
    if (r->scored == 0)
        return true;
    for (int64_t i = 0; i < r->scored; i++)
        r->not_finite += !isfinite(r->loss[i]);
    double *means = mem_alloc((size_t)r->rows, sizeof *means, "means", e);
    double *scratch =
        mem_alloc((size_t)(resamples > 0 ? resamples : 1), sizeof *scratch, "resamples", e);
    if (!means || !scratch) {
        free(means);
        free(scratch);
        return false;
    }
    for (int64_t row = 0; row < r->rows; row++)
        means[row] = row_mean(r, row, 0, r->n);
    resample_mean(means, r->rows, resamples, seed, scratch, &r->mean_lo, &r->mean_hi);
    free(means);
    free(scratch);
    r->mean = mean_over(r, 0, r->n);
    r->total_ppl = exp(r->mean);
    r->accuracy = (double)r->right / (double)r->scored;
    stretches(r);
    int64_t L = r->train_length;
    if (L >= 2 && r->n > L)
        r->extrapolation = mean_over(r, L, r->n) - mean_over(r, L / 2, L);
    return true;
}

bool loss_check_finite(const loss_result *r, err *e) {
    if (r->not_finite)
        return err_set(e, ERR_NUMERIC, "%lld of %lld losses are not finite",
                       (long long)r->not_finite, (long long)r->scored);
    // A state may break behind the last token, which no loss shows.
    const loss_flag *f = &r->first_broken;
    return !f->what[0] || err_set(e, ERR_NUMERIC, "row %lld, position %lld: %s", (long long)f->row,
                                  (long long)f->position, f->what);
}

void loss_gather(const double *v, int64_t rows, int64_t n, int64_t from, int64_t to, double *out) {
    for (int64_t row = 0; row < rows; row++)
        memcpy(out + row * (to - from), v + row * n + from, (size_t)(to - from) * sizeof *out);
}

void loss_smooth(const double *x, int64_t n, int64_t window, double *out) {
    int64_t h = window / 2, from = 0, to = 0; // the sum holds the finite ones of x[from..to)
    int64_t wild = 0;                         // and this many are none
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        // Afresh once a window: what rounding and one huge value left behind goes no further.
        if (i % (2 * h + 1) == 0) {
            from = to = i > h ? i - h : 0;
            sum = 0;
            wild = 0;
        }
        for (; to < n && to < i + h + 1; to++)
            if (isfinite(x[to]))
                sum += x[to];
            else
                wild++;
        for (; from < i - h; from++)
            if (isfinite(x[from]))
                sum -= x[from];
            else
                wild--;
        out[i] = wild ? NAN : sum / (double)(to - from);
    }
}
