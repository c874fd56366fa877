#include "cli/plot/ticks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double Q[] = {1, 5, 2, 2.5, 4, 3};
enum { N_Q = sizeof Q / sizeof *Q };

// n x 10^z with one rounding for |z| <= 22, where the power of ten is exact.
static double times_power(double n, int z) {
    return z < 0 ? n / pow(10, -z) : n * pow(10, z);
}

static double total(double simplicity, double coverage, double density) {
    return 0.25 * simplicity + 0.2 * coverage + 0.5 * density + 0.05;
}

static double squared(double x) {
    return x * x;
}

typedef struct search {
    double lo, hi;
    int m;
    bool loose, whole;
    ticks best;
} search;

static double coverage_bound(const search *s, double span) {
    double range = s->hi - s->lo, h = (span - range) / 2;
    return h > 0 ? 1 - squared(h / (0.1 * range)) : 1;
}

static double density_bound(int k, int m) {
    return k >= m ? 2 - (double)(k - 1) / (m - 1) : 1;
}

// Scores the labellings with this q, j, k, z for every start that touches the data.
static void try_starts(search *c, int i, int j, int k, int z) {
    double unit = times_power(Q[i], z), step = j * unit, range = c->hi - c->lo;
    if (c->whole && unit != rint(unit))
        return;
    double from = floor(c->hi / step) * j - (double)(k - 1) * j, to = ceil(c->lo / step) * j;
    for (double s = from; s <= to; s++) {
        double lmin = times_power(s * Q[i], z), lmax = lmin + step * (k - 1);
        if (c->loose && (lmin > c->lo || lmax < c->hi))
            continue;
        // Zero is a label when the start is a multiple of j away from it and it lies between.
        bool zero = fmod(s, j) == 0 && s <= 0 && s + (double)(k - 1) * j >= 0;
        double simplicity = 1 - i / (double)(N_Q - 1) - j + (zero ? 1 : 0);
        // Divided before squaring: the square of 1e-200 is zero.
        double coverage = 1 - 0.5 * (squared((c->hi - lmax) / (0.1 * range)) +
                                     squared((c->lo - lmin) / (0.1 * range)));
        double r = (k - 1) / (lmax - lmin);
        double t = (c->m - 1) / (fmax(lmax, c->hi) - fmin(lmin, c->lo));
        double score = total(simplicity, coverage, 2 - fmax(r / t, t / r));
        if (score > c->best.score)
            c->best = (ticks){k, (int64_t)s, j, Q[i], z, score};
    }
}

// All powers z for one q, j, k. Larger z only widen the labelling, so the bound ends the loop.
static void try_powers(search *c, int i, int j, int k, double simple, double dense) {
    int z = (int)ceil(log10((c->hi - c->lo) / ((k + 1) * (double)j * Q[i])));
    for (;; z++) {
        double step = j * times_power(Q[i], z);
        if (total(simple, coverage_bound(c, step * (k - 1)), dense) < c->best.score)
            return;
        try_starts(c, i, j, k, z);
    }
}

// Whether doubles resolve the range.
static bool resolved(double lo, double hi) {
    double size = fmax(fabs(lo), fabs(hi));
    return isfinite(lo) && isfinite(hi) && hi - lo > 1e-12 * size && isfinite(hi - lo) &&
           hi - lo >= 1e-290;
}

// The best of all candidates; c.best is what they have to surpass.
static ticks best_of(search c) {
    for (int j = 1;; j++)
        for (int i = 0; i < N_Q; i++) {
            double simple = 2 - i / (double)(N_Q - 1) - j;
            if (total(simple, 1, 1) < c.best.score)
                return c.best; // every later q and j has a lower bound still
            for (int k = 2;; k++) {
                double dense = density_bound(k, c.m);
                if (total(simple, 1, dense) < c.best.score)
                    break;
                try_powers(&c, i, j, k, simple, dense);
            }
        }
}

bool ticks_find(double lo, double hi, int m, bool loose, ticks *t) {
    if (!resolved(lo, hi))
        return false;
    *t = best_of((search){lo, hi, m < 2 ? 2 : m, .loose = loose, .best.score = -1e9});
    return true;
}

bool ticks_find_whole(double lo, double hi, int m, ticks *t) {
    if (!resolved(lo, hi))
        return false;
    if (m < 2)
        m = 2;
    if (hi - lo < m) {
        double first = ceil(lo);
        *t = (ticks){.n = (int)(floor(hi) - first) + 1, .start = (int64_t)first, .skip = 1, .q = 1};
        return true;
    }
    *t = best_of((search){lo, hi, m, .whole = true, .best.score = -1e9});
    return true;
}

double ticks_at(const ticks *t, int i) {
    int64_t s = t->start + (int64_t)i * t->skip;
    return s == 0 ? 0 : times_power((double)s * t->q, t->z);
}

double ticks_step(const ticks *t) {
    return times_power(t->skip * t->q, t->z);
}

int ticks_decimals(const ticks *t, double factor) {
    // From the mantissa, so that 0.1 being no binary number cannot ask for 17 decimals.
    int power = t->z - (int)lround(log10(factor));
    double step = t->skip * t->q, first = (double)t->start * t->q;
    for (int d = 0; d <= 20; d++) {
        double a = times_power(step, power + d), b = times_power(first, power + d);
        if (fabs(a - round(a)) < 1e-9 * fmax(1, fabs(a)) &&
            fabs(b - round(b)) < 1e-9 * fmax(1, fabs(b)))
            return d;
    }
    return 20;
}

void ticks_widen(double *lo, double *hi) {
    double size = fmax(fabs(*lo), fabs(*hi));
    if (*hi - *lo > 1e-12 * size && *hi - *lo > 1e-290)
        return;
    double by = fmax(fabs(*lo), 1) * 0.05;
    *lo -= by;
    *hi += by;
}

int ticks_factor(double lo, double hi) {
    double size = fmax(fabs(lo), fabs(hi));
    if (!(size > 0) || !isfinite(size) || (size <= 1e5 && size >= 1e-3))
        return 0;
    return 3 * (int)floor(log10(size) / 3);
}

char *ticks_print(double x, int decimals, const char *minus, char *buf, size_t size) {
    char raw[400], out[420];
    snprintf(raw, sizeof raw, "%.*f", decimals, fabs(x));
    size_t n = 0;
    bool zero = true;
    for (const char *p = raw; *p && n + 1 < sizeof out; p++) {
        bool digit = *p >= '0' && *p <= '9';
        if (digit && *p != '0')
            zero = false;
        // Whatever the locale wrote between the digits, once, is the point.
        if (digit)
            out[n++] = *p;
        else if (n && out[n - 1] != '.')
            out[n++] = '.';
    }
    out[n] = 0;
    snprintf(buf, size, "%s%s", x < 0 && !zero ? minus : "", out);
    return buf;
}
