#include "bench/stats.h"

#include "core/order.h"
#include "core/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void stats_sort(double *x, size_t n) {
    qsort(x, n, sizeof *x, order_ascending);
}

static double sorted_quantile(const double *x, size_t n, double q) {
    if (n == 0)
        return NAN;
    double at = q * (double)(n - 1);
    size_t i = (size_t)at;
    return i + 1 < n ? x[i] + (at - (double)i) * (x[i + 1] - x[i]) : x[n - 1];
}

double stats_quantile(double *x, size_t n, double q) {
    stats_sort(x, n);
    return sorted_quantile(x, n, q);
}

// The rank below which the binomial(n, 1/2) has at most 2.5 %.
static size_t interval_rank(size_t n) {
    double r = 0.5 * (double)n - 0.98 * sqrt((double)n);
    return r < 0 ? 0 : (size_t)r;
}

summary stats_summary(const double *x, size_t n) {
    summary s = {n, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    double *v = n ? malloc(n * sizeof *v) : NULL;
    if (!v)
        return s;
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        v[i] = x[i];
        finite = finite && isfinite(x[i]);
    }
    if (finite) {
        stats_sort(v, n);
        s.min = v[0];
        s.p5 = sorted_quantile(v, n, 0.05);
        s.median = sorted_quantile(v, n, 0.5);
        s.p95 = sorted_quantile(v, n, 0.95);
        size_t r = interval_rank(n);
        s.lo = v[r];
        s.hi = v[n - 1 - r];
        for (size_t i = 0; i < n; i++)
            v[i] = fabs(v[i] - s.median);
        s.mad = stats_quantile(v, n, 0.5);
    }
    free(v);
    return s;
}

// Incomplete beta by Lentz' continued fraction, for the tail of Student's t.
static double beta_fraction(double a, double b, double x) {
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double f = d;
    for (int m = 1; m < 300; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        const double step[2] = {even, odd};
        double change = 1;
        for (int i = 0; i < 2; i++) {
            d = 1 + step[i] * d;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = 1 + step[i] / c;
            c = fabs(c) < tiny ? tiny : c;
            change = c * d;
            f *= change;
        }
        if (fabs(change - 1) < 1e-14)
            break;
    }
    return f;
}

static double beta_tail(double a, double b, double x) {
    if (x <= 0 || x >= 1)
        return x <= 0 ? 0 : 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                     : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double stats_t(double p, double dof) {
    double lo = 0, hi = 1;
    while (beta_tail(dof / 2, 0.5, dof / (dof + hi * hi)) > p && hi < 1e9)
        hi *= 2;
    for (int i = 0; i < 200 && hi - lo > 1e-10 * hi; i++) {
        double mid = (lo + hi) / 2;
        *(beta_tail(dof / 2, 0.5, dof / (dof + mid * mid)) > p ? &lo : &hi) = mid;
    }
    return (lo + hi) / 2;
}

static double quantile_of(const double *x, size_t n, double q, double *room) {
    memcpy(room, x, n * sizeof *x);
    return stats_quantile(room, n, q);
}

// Variance of the quantile of n groups under resampling. Few groups resample too narrowly by n / (n-1).
static double quantile_variance(const double *x, size_t n, double q, uint64_t *r, double *room) {
    enum { DRAWS = 400 };
    double sum = 0, sum2 = 0, center = quantile_of(x, n, q, room);
    for (int d = 0; d < DRAWS; d++) {
        for (size_t i = 0; i < n; i++)
            room[i] = x[random_next(r) % n];
        double m = stats_quantile(room, n, q) - center;
        sum += m;
        sum2 += m * m;
    }
    double v = sum2 / DRAWS - (sum / DRAWS) * (sum / DRAWS);
    return (v > 0 ? v : 0) * (double)n / (double)(n - 1);
}

difference stats_difference(const double *a, size_t n_a, const double *b, size_t n_b, double q,
                            uint64_t seed) {
    difference d = {NAN, NAN, 1};
    size_t most = n_a > n_b ? n_a : n_b;
    double *room = most ? malloc(most * sizeof *room) : NULL;
    if (!room || !n_a || !n_b) {
        free(room);
        return d;
    }
    d.estimate = quantile_of(b, n_b, q, room) - quantile_of(a, n_a, q, room);
    if (n_a > 1 && n_b > 1) {
        uint64_t r = seed;
        double va = quantile_variance(a, n_a, q, &r, room);
        double vb = quantile_variance(b, n_b, q, &r, room);
        d.error = sqrt(va + vb);
        double down = va * va / (double)(n_a - 1) + vb * vb / (double)(n_b - 1);
        d.dof = down > 0 ? (va + vb) * (va + vb) / down : (double)(n_a + n_b - 2);
    }
    free(room);
    return d;
}

static double entropy_now(const entropy *s) {
    double h = 0;
    for (size_t i = 0; i < s->n_seen; i++) {
        double p = (double)s->count[i] / (double)s->n;
        h -= p * log2(p);
    }
    return h;
}

void entropy_add(entropy *s, double x) {
    double bin = x > 0 ? round(log(x) * 200) : 0; // 0.5 % wide
    size_t i = 0;
    while (i < s->n_seen && s->seen[i] != bin)
        i++;
    if (i == s->n_seen && i < sizeof s->seen / sizeof *s->seen)
        s->seen[s->n_seen++] = bin;
    if (i < s->n_seen)
        s->count[i]++;
    s->n++;
    s->history[s->n % ENTROPY_WINDOW] = entropy_now(s);
}

bool entropy_settled(const entropy *s) {
    if (s->n < ENTROPY_WINDOW)
        return false;
    double mean_x = (ENTROPY_WINDOW - 1) / 2.0, mean_y = 0, xy = 0, xx = 0;
    for (size_t i = 0; i < ENTROPY_WINDOW; i++)
        mean_y += s->history[i] / ENTROPY_WINDOW;
    for (size_t i = 0; i < ENTROPY_WINDOW; i++) { // oldest first
        double y = s->history[(s->n + 1 + i) % ENTROPY_WINDOW] - mean_y, x = (double)i - mean_x;
        xy += x * y;
        xx += x * x;
    }
    return fabs(xy / xx) < 5e-4;
}
