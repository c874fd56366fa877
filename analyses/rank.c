#include "analyses/rank.h"

#include <math.h>
#include <stdbool.h>

// The values arrive sorted, but a NaN has no place in an order: look at each.
static bool any_nan(const double *sv, int n) {
    for (int i = 0; i < n; i++)
        if (isnan(sv[i]))
            return true;
    return false;
}

// exp(entropy) of the values above `floor`, as ln S - (sum s ln s) / S with s = sigma / sigma_1:
// one pass, and s ln s stays within [-1/e, 0].
static double exp_entropy(const double *sv, int n, double floor) {
    double sum = 0, slogs = 0;
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (!(sv[i] > floor))
            continue;
        double s = sv[i] / sv[0];
        sum += s;
        if (s > 0)
            slogs += s * log(s);
        kept++;
    }
    if (kept == 0)
        return 0;
    double r = exp(log(sum) - slogs / sum);
    // Rounding can leave the bounds of S02 by an ulp; they are exact, so they are kept exactly.
    return fmin(fmax(r, 1), kept);
}

double rank_effective(const double *sv, int n, double cut) {
    if (any_nan(sv, n) || !(sv[0] > 0) || isinf(sv[0]))
        return NAN;
    return exp_entropy(sv, n, cut * sv[0]);
}

double rank_effective_authors(const double *sv, int n) {
    if (any_nan(sv, n) || isinf(sv[0]))
        return NAN;
    return exp_entropy(sv, n, 2.2e-16);
}

int rank_numeric(const double *sv, int n, double cut) {
    if (any_nan(sv, n))
        return -1;
    int r = 0;
    while (r < n && sv[r] > cut * sv[0])
        r++;
    return r;
}

// sum_{i<k} (sigma_i / sigma_1)^2; callers have checked sv[0] > 0.
static double energy(const double *sv, int k) {
    double sum = 0;
    for (int i = 0; i < k; i++) {
        double s = sv[i] / sv[0];
        sum += s * s;
    }
    return sum;
}

double rank_stable(const double *sv, int n) {
    if (any_nan(sv, n) || !(sv[0] > 0) || isinf(sv[0]))
        return NAN;
    return energy(sv, n);
}

double rank_nuclear(const double *sv, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += sv[i];
    return sum;
}

double rank_spectral(const double *sv, int n) {
    return any_nan(sv, n) ? NAN : sv[0];
}

double rank_frobenius(const double *sv, int n) {
    if (any_nan(sv, n))
        return NAN;
    if (!(sv[0] > 0) || isinf(sv[0]))
        return sv[0];
    return sv[0] * sqrt(energy(sv, n));
}

double rank_condition(const double *sv, int n) {
    if (any_nan(sv, n) || !(sv[0] > 0))
        return NAN;
    return sv[n - 1] > 0 ? sv[0] / sv[n - 1] : INFINITY;
}

double rank_energy(const double *sv, int n, int k) {
    if (any_nan(sv, n) || !(sv[0] > 0) || isinf(sv[0]))
        return NAN;
    k = k < 0 ? 0 : k > n ? n : k;
    return energy(sv, k) / energy(sv, n);
}
