// Figures of one tensor's values in bounded memory: exact quantiles by counting, in two readings.
#include "analyses/inspect.h"
#include "core/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 16, BINS = 1 << 16, QUANTILES = 3 };

typedef struct counting {
    int64_t *high;           // [BINS] values whose upper 16 key bits are the index
    int64_t *low[QUANTILES]; // [BINS] lower 16 bits, among those in the quantile's upper bin
    int64_t rank[QUANTILES]; // from 1, within that bin after the first reading
    uint32_t bin[QUANTILES];
    double *piece; // [PIECE]
} counting;

// Unsigned integers in the order of the floats: every bit turned for negatives, the sign for the
// others. So F32, F16 and BF16 are ranked exactly.
static uint32_t key_of(double v) {
    float x = (float)v;
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u >> 31 ? ~u : u | 0x80000000u;
}

static double value_of(uint32_t key) {
    uint32_t u = key >> 31 ? key & 0x7fffffffu : ~key;
    float x;
    memcpy(&x, &u, sizeof x);
    return (double)x;
}

static void first_reading(counting *w, tensor_stats *s, const double *v, int64_t n, double *sum) {
    for (int64_t i = 0; i < n; i++) {
        if (isnan(v[i])) {
            s->nan++;
        } else if (isinf(v[i])) {
            s->inf++;
        } else {
            s->min = s->finite == 0 || v[i] < s->min ? v[i] : s->min;
            s->max = s->finite == 0 || v[i] > s->max ? v[i] : s->max;
            s->finite++;
            *sum += v[i];
            w->high[key_of(v[i]) >> 16]++;
        }
    }
}

static void second_reading(counting *w, const tensor_stats *s, const double *v, int64_t n,
                           double *squares) {
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(v[i]))
            continue;
        double d = v[i] - s->mean;
        uint32_t key = key_of(v[i]);
        *squares += d * d;
        for (int q = 0; q < QUANTILES; q++)
            if (key >> 16 == w->bin[q])
                w->low[q][key & 0xffff]++;
    }
}

// The bin that holds the rank-th value; *rank becomes the rank within it.
static uint32_t find_bin(const int64_t *count, int64_t *rank) {
    for (uint32_t i = 0; i < BINS; i++) {
        if (*rank <= count[i])
            return i;
        *rank -= count[i];
    }
    return BINS - 1;
}

static bool read_both(counting *w, const ckpt *c, const tensor *t, tensor_stats *s,
                      progress_fn progress, void *ctx, int64_t done, int64_t total, err *e) {
    static const double p[QUANTILES] = {0.01, 0.5, 0.99};
    double sum = 0, squares = 0;
    for (int reading = 0; reading < 2; reading++) {
        for (int64_t i = 0; i < t->count; i += PIECE) {
            int64_t n = t->count - i < PIECE ? t->count - i : PIECE;
            if (!ckpt_read_f64(c, t, i, n, w->piece, e))
                return false;
            if (reading == 0)
                first_reading(w, s, w->piece, n, &sum);
            else
                second_reading(w, s, w->piece, n, &squares);
            if (progress && !progress(ctx, done + (reading * t->count + i + n) / 2, total))
                return err_set(e, ERR_CANCELLED, "stopped");
        }
        if (s->finite == 0)
            return true;
        if (reading == 0) {
            s->mean = sum / (double)s->finite;
            for (int q = 0; q < QUANTILES; q++) {
                // ceil(p n), with p n rounded first: 0.99 * 100 is a little above 99.
                w->rank[q] = (int64_t)ceil(p[q] * (double)s->finite * (1 - 1e-15));
                w->rank[q] = w->rank[q] < 1 ? 1 : w->rank[q];
                w->bin[q] = find_bin(w->high, &w->rank[q]);
            }
        }
    }
    s->std = sqrt(squares / (double)s->finite);
    double *to[QUANTILES] = {&s->q01, &s->q50, &s->q99};
    for (int q = 0; q < QUANTILES; q++)
        *to[q] = value_of(w->bin[q] << 16 | find_bin(w->low[q], &w->rank[q]));
    return true;
}

bool inspect_stats(const ckpt *c, const tensor *t, tensor_stats *s, progress_fn progress, void *ctx,
                   int64_t done, int64_t total, err *e) {
    *s = (tensor_stats){
        .min = NAN, .q01 = NAN, .q50 = NAN, .q99 = NAN, .max = NAN, .mean = NAN, .std = NAN};
    if (!dtype_is_weight(t->type))
        return true;
    counting w = {0};
    w.high = mem_zalloc((1 + QUANTILES) * (size_t)BINS, sizeof *w.high, "counts", e);
    w.piece = mem_alloc(PIECE, sizeof *w.piece, "a piece of a tensor", e);
    bool ok = w.high && w.piece;
    for (int q = 0; ok && q < QUANTILES; q++)
        w.low[q] = w.high + (size_t)(1 + q) * BINS;
    ok = ok && read_both(&w, c, t, s, progress, ctx, done, total, e);
    s->read = ok;
    free(w.high);
    free(w.piece);
    return ok;
}
