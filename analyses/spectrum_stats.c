// Numbers made of a spectrum's eigenvalues: quantiles, shares, half-lives.
#include "analyses/spectrum.h"
#include "analyses/spectrum_tokens.h"

#include "core/mem.h"
#include "core/order.h"

#include <math.h>
#include <stdlib.h>

double spectrum_mode_half_life(double modulus, double log_scale, int64_t W) {
    if (isnan(modulus) || isnan(log_scale))
        return NAN;
    double loss = -(log(modulus) + log_scale); // modulus 0: inf, half-life 0
    return loss <= 1e-6 ? INFINITY : M_LN2 * (double)W / loss;
}

// The error of an eigenvalue is about 1e-15 |P|_2 cond. Ten times that, with K for the condition number
// (close to what --cond measures).
double spectrum_noise(const head_shape *s, const window_facts *f) {
    return s->erase == ERASE_NONE ? 0 : 1e-14 * s->K * f->norm2;
}

typedef struct pile {
    double *v;
    size_t n;
} pile;

// Stands for a value that is known to be small and not how small; sorts before all others.
#define LOST -1.0

// The value below which the share q lies: between neighbours linear, but never through an infinity
// or a lost value.
static double quantile(const pile *p, double q) {
    if (p->n == 0)
        return NAN;
    double at = q * (double)(p->n - 1);
    size_t i = (size_t)at;
    double part = at - (double)i, low = p->v[i], high = i + 1 < p->n ? p->v[i + 1] : low;
    double v = low + part * (high - low);
    if (isinf(high) || low == LOST)
        v = part < 0.5 ? low : high;
    return v == LOST ? NAN : v;
}

static void quantiles(pile *p, const double *q, int n, double *out) {
    qsort(p->v, p->n, sizeof *p->v, order_ascending);
    for (int i = 0; i < n; i++)
        out[i] = quantile(p, q[i]);
}

static double median(pile *p) {
    double m;
    quantiles(p, (double[]){0.5}, 1, &m);
    return m;
}

enum { NORMS, RADII, ASYMMETRIES, LIVES, CONDS, PILES };

// Adds one product to the piles.
static void pile_up(const spectrum_layer *l, const spectrum_head *h, int64_t at, int64_t W, pile *p,
                    spectrum_span *out, int64_t counts[6]) {
    const window_facts *f = &h->facts[at];
    double back = exp(f->log_scale);
    int K = l->shape.K;
    bool tells = spectrum_window_tells(&l->shape, W);
    double noise = spectrum_noise(&l->shape, f);
    p[NORMS].v[p[NORMS].n++] = f->norm2 * back;
    p[RADII].v[p[RADII].n++] = f->radius * back;
    p[ASYMMETRIES].v[p[ASYMMETRIES].n++] = f->asymmetry;
    out->products++;
    out->frozen = f->frozen > out->frozen ? f->frozen : out->frozen;
    for (int i = 0; i < K; i++) {
        double complex z = h->eig[at * K + i];
        double m = cabs(z);
        counts[0]++;
        counts[1] += fabs(cimag(z)) > noise;
        counts[2] += m * back < 0.01;
        counts[5] += m > noise;
        if (tells) {
            double life = m > noise || m == 0 ? spectrum_mode_half_life(m, f->log_scale, W) : LOST;
            p[LIVES].v[p[LIVES].n++] = life;
            counts[3] += isinf(life);
            counts[4] += life == LOST;
        }
        if (h->cond) {
            double c = h->cond[at * K + i];
            p[CONDS].v[p[CONDS].n++] = c;
            out->error = fmax(out->error, 1e-15 * f->norm2 * back * c);
        }
    }
}

static bool chosen(int i, int wanted) {
    return wanted < 0 || i == wanted;
}

bool spectrum_window_summary(const spectrum_result *r, int layer, int head, int window,
                             spectrum_span *out, err *e) {
    bool ok = false;
    *out = (spectrum_span){.W = r->windows[window], .cond = NAN, .error = NAN};
    size_t products = 0, K = (size_t)r->K;
    int64_t counts[6] = {0};
    for (int i = 0; i < r->n_layers; i++)
        for (int h = 0; h < r->layer[i].n_heads; h++)
            products += chosen(i, layer) && chosen(h, head) ? (size_t)r->samples : 0;
    pile p[PILES] = {{0}};
    for (int i = 0; i < PILES; i++) {
        size_t each = i == LIVES || i == CONDS ? K : 1;
        if (!(p[i].v = mem_alloc(products * each, sizeof *p[i].v, "a summary", e)))
            goto done;
    }
    for (int i = 0; i < r->n_layers; i++)
        for (int h = 0; chosen(i, layer) && h < r->layer[i].n_heads; h++)
            for (int64_t k = 0; chosen(h, head) && k < r->samples; k++) {
                int64_t at = window * r->samples + k;
                if (!isnan(r->layer[i].head[h].facts[at].norm2))
                    pile_up(&r->layer[i], &r->layer[i].head[h], at, out->W, p, out, counts);
            }
    quantiles(&p[NORMS], (double[]){0.05, 0.5, 0.95}, 3, out->norm2);
    quantiles(&p[RADII], (double[]){0.05, 0.5, 0.95}, 3, out->radius);
    quantiles(&p[LIVES], (double[]){0.1, 0.5, 0.9}, 3, out->half_life);
    out->asymmetry = median(&p[ASYMMETRIES]);
    out->cond = median(&p[CONDS]);
    out->complex_share = (double)counts[1] / (double)counts[5]; // 0 / 0: NaN, nothing evaluated
    out->vanished = (double)counts[2] / (double)counts[0];
    out->never = (double)counts[3] / (double)p[LIVES].n; // NaN: the window does not tell
    out->lost = (double)counts[4] / (double)p[LIVES].n;
    ok = true;
done:
    for (int i = 0; i < PILES; i++)
        free(p[i].v);
    return ok;
}

// Median half-life that the Lyapunov exponents give: no mode is too small for it.
static bool exponent_half_life(const spectrum_result *r, int layer, int head, double *out, err *e) {
    size_t most = 0;
    for (int i = 0; i < r->n_layers; i++)
        most += (size_t)r->layer[i].n_heads * (size_t)r->layer[i].shape.K;
    pile p = {.v = mem_alloc(most, sizeof *p.v, "a summary", e)};
    if (!p.v)
        return false;
    for (int i = 0; i < r->n_layers; i++)
        for (int h = 0; chosen(i, layer) && h < r->layer[i].n_heads; h++) {
            const double *x = r->layer[i].head[h].lyapunov;
            for (int j = 0; x && chosen(h, head) && j < r->layer[i].shape.K; j++)
                if (!isnan(x[j]))
                    p.v[p.n++] = spectrum_mode_half_life(1, x[j] * (double)r->lyapunov_tokens,
                                                         r->lyapunov_tokens);
        }
    *out = median(&p);
    free(p.v);
    return true;
}

bool spectrum_summarise(const spectrum_result *r, int layer, int head, spectrum_summary *out,
                        err *e) {
    *out = (spectrum_summary){.half_life = NAN,
                              .largest_exponent = NAN,
                              .smallest_exponent = NAN,
                              .strongest = NAN,
                              .largest_norm = NAN};
    int64_t *bins = mem_zalloc(SPECTRUM_BINS, sizeof *bins, "a histogram", e);
    if (!bins)
        return false;
    int64_t tokens = 0, pairs = 0, values = 0, negative = 0, ledger_tokens = 0;
    double rate = 0;
    for (int i = 0; i < r->n_layers; i++)
        for (int h = 0; chosen(i, layer) && h < r->layer[i].n_heads; h++) {
            if (!chosen(h, head))
                continue;
            const spectrum_head *x = &r->layer[i].head[h];
            const spectrum_tokens *s = &x->tokens;
            tokens += s->tokens;
            pairs += s->complex_tokens;
            values += s->values;
            negative += s->negative;
            for (int b = 0; b < SPECTRUM_BINS; b++)
                bins[b] += s->modulus[b];
            for (int b = 0; b < r->points; b++) {
                rate += x->rate[b] / r->layer[i].shape.K;
                ledger_tokens += x->rate_n[b];
            }
            out->singular += x->singular;
            out->strong += s->strong;
            out->over_norm += x->over_norm;
            out->strongest = fmax(out->strongest, s->strongest);
            for (int64_t k = 0; k < r->n_windows * r->samples; k++)
                out->largest_norm =
                    fmax(out->largest_norm, x->facts[k].norm2 * exp(x->facts[k].log_scale));
            if (x->lyapunov) {
                out->largest_exponent = fmax(out->largest_exponent, x->lyapunov[0]);
                out->smallest_exponent =
                    fmin(out->smallest_exponent, x->lyapunov[r->layer[i].shape.K - 1]);
            }
        }
    out->complex_share = (double)pairs / (double)tokens;
    out->negative_share = (double)negative / (double)values;
    out->median_modulus = spectrum_bins_median(bins, 0, 1);
    out->rate = rate / (double)ledger_tokens;
    free(bins);
    if (!exponent_half_life(r, layer, head, &out->exponent_half_life, e))
        return false;
    for (int w = r->n_windows - 1; w >= 0; w--) {
        spectrum_span s;
        if (!spectrum_window_summary(r, layer, head, w, &s, e))
            return false;
        if (!isnan(s.half_life[1])) {
            out->half_life = s.half_life[1];
            out->half_life_window = s.W;
            break;
        }
    }
    return true;
}
