#include "analyses/spectrum_tokens.h"

#include "core/mem.h"

#include <math.h>
#include <stdlib.h>

// Tokens of a row whose values are kept for pictures, and whose K x K problem is solved where there
// is no closed form.
enum { PICTURE_TOKENS = 256, DENSE_TOKENS = 128, ROTATING = 512 };

bool spectrum_tokens_init(spectrum_tokens *s, int64_t keep, err *e) {
    *s = (spectrum_tokens){.least_real = INFINITY, .strongest = NAN, .cap_kept = keep};
    s->modulus = mem_zalloc(3 * SPECTRUM_BINS, sizeof *s->modulus, "histograms", e);
    s->kept = mem_alloc((size_t)keep, sizeof *s->kept, "eigenvalues of tokens", e);
    s->rotating = mem_alloc(ROTATING, sizeof *s->rotating, "eigenvalues of tokens", e);
    if (s->modulus) {
        s->real = s->modulus + SPECTRUM_BINS;
        s->angle = s->real + SPECTRUM_BINS;
    }
    return s->modulus && s->kept && s->rotating;
}

void spectrum_tokens_free(spectrum_tokens *s) {
    free(s->modulus);
    free(s->kept);
    free(s->rotating);
    *s = (spectrum_tokens){0};
}

// Rounding may leave a value a little outside: it belongs to the end bin.
static void count(int64_t *bin, double v, double lo, double hi) {
    double at = (v - lo) / (hi - lo) * SPECTRUM_BINS;
    int i = at > 0 ? at < SPECTRUM_BINS ? (int)at : SPECTRUM_BINS - 1 : 0;
    bin[i]++;
}

double spectrum_bins_median(const int64_t *bin, double lo, double hi) {
    int64_t n = 0, sum = 0;
    for (int i = 0; i < SPECTRUM_BINS; i++)
        n += bin[i];
    for (int i = 0; i < SPECTRUM_BINS; i++) {
        sum += bin[i];
        if (n > 0 && 2 * sum >= n)
            return lo + (hi - lo) * (i + 0.5) / SPECTRUM_BINS;
    }
    return NAN;
}

static bool closed_form(const transitions *x) {
    return x->kind != TRANSITION_DIAGONAL && x->decay != TDECAY_CHANNEL;
}

int spectrum_token_values(const transitions *x) {
    if (closed_form(x))
        return x->n_h;
    return x->decay == TDECAY_CHANNEL ? x->K : 1;
}

// Every n-th token so that about `most` of a row are taken.
static int64_t stride(int64_t T, int64_t most) {
    return T > most ? (T + most - 1) / most : 1;
}

// The eigenvalues of token t of the block.
static bool values(const transitions *x, int64_t t, backend *be, double complex *eig, err *e) {
    if (x->kind == TRANSITION_DIAGONAL) {
        // No decay at all (linear attention): the identity.
        int n = spectrum_token_values(x);
        for (int i = 0; i < n; i++)
            eig[i] = x->decay == TDECAY_NONE ? 1 : exp(x->g[t * n + i]);
        return true;
    }
    if (closed_form(x))
        return be->op->token_spectrum(be, x, t, eig, e);
    window_facts f;
    if (!be->op->window_spectrum(be, x, t, 1, eig, NULL, &f, e))
        return false;
    for (int i = 0; i < x->K; i++) {
        // Two equal real values (channels that do not decay) come out of rounding as a pair with
        // imaginary parts near the root of its size. KDA and RWKV-7 steps have real values only.
        if (fabs(cimag(eig[i])) < 1e-6 * f.norm2)
            eig[i] = creal(eig[i]);
        // And channels that are wiped come out with either sign.
        if (cabs(eig[i]) < 1e-14 * x->K * f.norm2)
            eig[i] = 0;
        eig[i] *= exp(f.log_scale);
    }
    return true;
}

static void take(spectrum_tokens *s, const double complex *eig, int n, bool picture) {
    bool pair = false;
    for (int i = 0; i < n; i++) {
        double m = cabs(eig[i]), re = creal(eig[i]), im = cimag(eig[i]);
        count(s->modulus, m, 0, 1);
        s->largest = fmax(s->largest, m);
        if (im == 0) {
            count(s->real, re, -1, 1);
            s->negative += re < 0;
            s->least_real = fmin(s->least_real, re);
        } else {
            pair = true;
            if (im > 0)
                count(s->angle, carg(eig[i]), 0, M_PI);
        }
        // Complex values may be one in ten thousand: a thinned picture would not show a single one.
        if (im != 0 && s->n_rotating < ROTATING)
            s->rotating[s->n_rotating++] = eig[i];
        else if (picture && s->n_kept < s->cap_kept)
            s->kept[s->n_kept++] = eig[i];
    }
    s->tokens++;
    s->complex_tokens += pair;
    s->values += n;
}

// beta |k|^2 of every micro-step: above 2 a factor is no contraction (G08).
static void strengths(spectrum_tokens *s, const transitions *x, double limit) {
    if (x->kind != TRANSITION_KEYS)
        return;
    for (int64_t i = 0; i < x->T * x->n_h; i++) {
        double kk = 0;
        for (int c = 0; c < x->K; c++)
            kk += x->k[i * x->K + c] * x->k[i * x->K + c];
        double b = x->beta[i] * kk;
        s->strong += b > limit;
        s->strongest = fmax(s->strongest, b); // fmax passes over the NaN it starts from
    }
}

bool spectrum_tokens_add(spectrum_tokens *s, const transitions *x, int64_t t0, int64_t T,
                         backend *be, err *e) {
    double complex *eig =
        mem_alloc((size_t)spectrum_token_values(x), sizeof *eig, "eigenvalues", e);
    if (!eig)
        return false;
    bool dense = x->kind != TRANSITION_DIAGONAL && !closed_form(x), ok = true;
    int64_t look = dense ? stride(T, DENSE_TOKENS) : 1, show = stride(T, PICTURE_TOKENS);
    int n = spectrum_token_values(x);
    strengths(s, x, spectrum_strength_limit(be->prec));
    for (int64_t t = 0; ok && t < x->T; t++) {
        if ((t0 + t) % look != 0)
            continue;
        ok = values(x, t, be, eig, e);
        if (ok)
            take(s, eig, n, dense || (t0 + t) % show == 0);
    }
    free(eig);
    return ok;
}
