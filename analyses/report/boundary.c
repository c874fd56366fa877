#include "analyses/report/boundary.h"

#include "core/mem.h"

#include <math.h>
#include <stdlib.h>

int64_t boundary_mark(const int32_t *ids, int64_t T, const int64_t *starts, int64_t n, int32_t bos,
                      bool *mark) {
    int64_t found = 0;
    for (int64_t t = 0; t < T; t++)
        mark[t] = t > 0 && bos >= 0 && ids[t] == bos;
    for (int64_t i = 0; i < n; i++)
        if (starts[i] > 0 && starts[i] < T)
            mark[starts[i]] = true;
    for (int64_t t = 0; t < T; t++)
        found += mark[t];
    return found;
}

typedef struct ranked {
    double v;
    bool mark;
} ranked;

static int by_value(const void *a, const void *b) {
    double x = ((const ranked *)a)->v, y = ((const ranked *)b)->v;
    return (x > y) - (x < y);
}

bool boundary_auc(const float *signal, const bool *mark, int64_t n, double sign, double *auc,
                  err *e) {
    ranked *r = mem_alloc((size_t)n, sizeof *r, "a ranking of tokens", e);
    if (!r)
        return false;
    int64_t m = 0, marked = 0;
    for (int64_t t = 0; t < n; t++)
        if (!isnan(signal[t])) {
            r[m++] = (ranked){sign * signal[t], mark[t]};
            marked += mark[t];
        }
    qsort(r, (size_t)m, sizeof *r, by_value);
    double below = 0, wins = 0; // unmarked ones that are smaller; pairs that a marked one wins
    for (int64_t i = 0, j; i < m; i = j) {
        int64_t yes = 0, no = 0; // of equal values
        for (j = i; j < m && r[j].v == r[i].v; j++) {
            yes += r[j].mark;
            no += !r[j].mark;
        }
        wins += (double)yes * (below + 0.5 * (double)no);
        below += (double)no;
    }
    free(r);
    *auc = marked && marked < m ? wins / ((double)marked * (double)(m - marked)) : NAN;
    return true;
}

// 1/n! sum_k (-1)^k C(n, k) (x - k)^n over k < x, with x = n (1 - auc).
double boundary_by_chance(int64_t n, double auc) {
    enum { EXACT = 20 }; // beyond, terms cancel and a normal distribution is close
    if (n > EXACT)
        return 0.5 * erfc((auc - 0.5) * sqrt(12 * (double)n) / M_SQRT2);
    double x = (double)n * (1 - auc), sum = 0;
    for (int64_t k = 0; (double)k < x; k++)
        sum += (k % 2 ? -1 : 1) * exp((double)n * log(x - (double)k) - lgamma((double)k + 1) -
                                      lgamma((double)(n - k) + 1));
    return sum;
}

static double mean_at(const float *signal, const bool *mark, int64_t n) {
    double sum = 0;
    int64_t count = 0;
    for (int64_t t = 0; t < n; t++)
        if (mark[t] && !isnan(signal[t])) {
            sum += signal[t];
            count++;
        }
    return count ? sum / (double)count : NAN;
}

// Mean over boundaries b of signal[b + d]; with `sums` of the signals b .. b + d added up (for d < 0
// of those after b + d up to before b, taken away). at: the n boundaries of a row of T tokens.
static void align(const float *signal, const int64_t *at, int64_t n, int64_t T, bool sums,
                  double *out) {
    for (int i = 0; i < BOUNDARY_SPAN; i++) {
        int64_t d = i - BOUNDARY_BEFORE, known = 0;
        double sum = 0;
        for (int64_t k = 0; k < n && signal; k++) {
            int64_t b = at[k];
            if (b + d < 0 || b + d >= T)
                continue;
            double v = sums ? 0 : signal[b + d];
            for (int64_t t = b; sums && t <= b + d; t++)
                v += signal[t];
            for (int64_t t = b + d + 1; sums && t < b; t++)
                v -= signal[t];
            if (isfinite(v)) {
                sum += v;
                known++;
            }
        }
        out[i] = known ? sum / (double)known : NAN;
    }
}

// A ranking of its tokens is most of a head's work, and of a long row far from nothing.
bool boundary_layer(const head_stats *s, int layer, const bool *mark, double *out, double *aligned,
                    err *e) {
    int64_t n = 0, *at = mem_alloc((size_t)s->T, sizeof *at, "boundaries", e);
    bool ok = at != NULL;
    for (int64_t t = 0; ok && t < s->T; t++)
        if (mark[t])
            at[n++] = t;
    int H = ok ? s->shape[layer].H : 0;
#pragma omp parallel for schedule(dynamic)
    for (int h = 0; h < H; h++) {
        err mine = {0};
        double *x = out + h * BOUNDARY_NUMBERS;
        double *a = aligned + h * BOUNDARY_ALIGNED * BOUNDARY_SPAN;
        const float *gate = s->gate[layer] ? s->gate[layer] + h * s->T : NULL;
        const float *step = s->step[layer] + h * s->T;
        x[BOUNDARY_FORGET] = gate ? mean_at(gate, mark, s->T) : NAN;
        x[BOUNDARY_AUC_GATE] = NAN;
        x[BOUNDARY_STEP] = mean_at(step, mark, s->T);
        align(gate, at, n, s->T, false, a + BOUNDARY_ALIGNED_FORGET * BOUNDARY_SPAN);
        align(step, at, n, s->T, true, a + BOUNDARY_ALIGNED_SIZE * BOUNDARY_SPAN);
        if ((gate && !boundary_auc(gate, mark, s->T, 1, &x[BOUNDARY_AUC_GATE], &mine)) ||
            !boundary_auc(step, mark, s->T, -1, &x[BOUNDARY_AUC_NORM], &mine)) {
#pragma omp critical(boundary_error)
            {
                ok = false;
                err_set(e, mine.code, "%s", mine.text);
            }
        }
    }
    free(at);
    return ok;
}
