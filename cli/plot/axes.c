#include "cli/plot/axes.h"

#include "cli/plot/ticks.h"
#include "core/text.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_log(axis_scale s) {
    return s == SCALE_LOG10 || s == SCALE_LOG2;
}

void axes_span_init(axes_span *s, axis_scale scale) {
    *s = (axes_span){.lo = NAN, .hi = NAN, .scale = scale};
}

void axes_span_add(axes_span *s, const double *v, size_t n) {
    for (size_t i = 0; v && i < n; i++) {
        if (!isfinite(v[i]))
            continue;
        if (is_log(s->scale) && v[i] <= 0) {
            s->not_shown++;
            continue;
        }
        s->finite++;
        s->lo = fmin(s->lo, v[i]); // fmin ignores the NaN of the start
        s->hi = fmax(s->hi, v[i]);
    }
}

static double forward(axis_scale s, double x) {
    if (!is_log(s))
        return x;
    return x > 0 ? log2(x) : NAN;
}

static double backward(axis_scale s, double u) {
    return is_log(s) ? exp2(u) : u;
}

double axes_place(const axes *a, double x) {
    double lo = forward(a->scale, a->lo), hi = forward(a->scale, a->hi);
    return (forward(a->scale, x) - lo) / (hi - lo);
}

double axes_value(const axes *a, double place) {
    double lo = forward(a->scale, a->lo), hi = forward(a->scale, a->hi);
    return backward(a->scale, lo + place * (hi - lo));
}

static bool power_of_two(double x) {
    int exponent;
    return x >= 1 && frexp(x, &exponent) == 0.5;
}

void axes_limits(axes *a, const axis *spec, const axes_span *s, double pad) {
    memset(a, 0, sizeof *a);
    a->scale = spec->scale;
    a->empty = s->finite == 0;
    double lo = s->lo, hi = s->hi;
    if (a->empty) {
        lo = is_log(a->scale) ? 1 : 0;
        hi = is_log(a->scale) ? 10 : 1;
    }
    bool given_lo = isfinite(spec->lo) && !(is_log(a->scale) && spec->lo <= 0);
    bool given_hi = isfinite(spec->hi) && !(is_log(a->scale) && spec->hi <= 0);
    if (given_lo)
        lo = spec->lo;
    if (given_hi)
        hi = spec->hi;
    // Positions 0..32767 are 32768 tokens: the axis ends on the power of two.
    if (spec->tokens && !given_hi && hi > 1 && power_of_two(hi + 1))
        hi = hi + 1;
    if (given_lo && given_hi && lo > hi) {
        double t = lo;
        lo = hi, hi = t;
    }
    if (hi < lo)
        *(given_lo ? &hi : &lo) = given_lo ? lo : hi;
    double u = forward(a->scale, lo), v = forward(a->scale, hi);
    double by = pad * (v - u);
    if (v - u <= 1e-12 * fmax(fabs(u), fabs(v)) || v - u < 1e-290) {
        if (is_log(a->scale))
            u -= 0.5, v += 0.5; // one octave around a single value
        else if (spec->whole)
            u -= u >= 1 || u < 0,
                v += 1; // its neighbours among the whole numbers, no count below 0
        else
            ticks_widen(&u, &v);
        by = 0;
    }
    a->lo = given_lo && by > 0 ? lo : backward(a->scale, u - by);
    a->hi = given_hi && by > 0 ? hi : backward(a->scale, v + by);
    if (is_log(a->scale)) { // the padding may leave the range of doubles
        a->lo = fmax(a->lo, DBL_MIN);
        a->hi = fmin(a->hi, DBL_MAX);
    }
    if (!(a->hi > a->lo) || !isfinite(a->hi - a->lo)) // overflow of a range near DBL_MAX
        a->lo = is_log(a->scale) ? 1 : 0, a->hi = is_log(a->scale) ? 10 : 1, a->empty = true;
}

static axes_tick *add(axes *a, double at) {
    static axes_tick nowhere;
    axes_tick *t = a->n < AXES_MAX_TICKS ? &a->tick[a->n++] : &nowhere;
    t->at = at;
    t->label[0] = 0;
    return t;
}

// 10^n or 2^n, as text with superscript digits where allowed.
static void print_power(int base, int n, bool ascii, char *buf, size_t size) {
    static const char *super[] = {"\u2070", "\u00b9", "\u00b2", "\u00b3", "\u2074",
                                  "\u2075", "\u2076", "\u2077", "\u2078", "\u2079"};
    char digits[16], out[64] = "";
    snprintf(digits, sizeof digits, "%d", n);
    if (ascii) {
        snprintf(buf, size, "%d^%d", base, n);
        return;
    }
    for (const char *p = digits; *p; p++)
        strncat(out, *p == '-' ? "\u207b" : super[*p - '0'], sizeof out - strlen(out) - 1);
    snprintf(buf, size, "%d%s", base, out);
}

// Counts of tokens with 1k = 1024: "512", "4k", "1M". Only whole multiples are shortened.
static void print_tokens(double x, char *buf, size_t size) {
    const double k = 1024, m = 1024 * 1024;
    if (x >= m && fmod(x, m) == 0)
        snprintf(buf, size, "%.0fM", x / m);
    else if (x >= k && fmod(x, k) == 0)
        snprintf(buf, size, "%.0fk", x / k);
    else
        snprintf(buf, size, "%.0f", x);
}

static bool inside(const axes *a, double x) {
    double p = axes_place(a, x);
    return p >= -1e-9 && p <= 1 + 1e-9;
}

// Powers of two apart when the range of a token axis ends on one.
static bool token_ticks(axes *a, int want, bool *kilo) {
    if (a->scale != SCALE_LINEAR || !power_of_two(a->hi) || a->hi < 8)
        return false;
    double step = 1;
    while ((a->hi - a->lo) / step > want * 1.25)
        step *= 2;
    for (double x = ceil(a->lo / step) * step; x <= a->hi; x += step)
        print_tokens(x, add(a, x)->label, AXES_LABEL);
    *kilo = a->hi >= 1024;
    return true;
}

static void linear_ticks(axes *a, const axis *spec, int want, bool ascii, int *factor) {
    ticks t;
    double lo = a->lo, hi = a->hi;
    *factor = 0;
    // Nobody counts half tokens.
    bool whole = spec->tokens || spec->whole;
    if (!(whole ? ticks_find_whole(lo, hi, want, &t) : ticks_find(lo, hi, want, false, &t)))
        return;
    *factor = spec->tokens ? 0 : ticks_factor(lo, hi);
    double by = pow(10, *factor);
    int decimals = ticks_decimals(&t, by);
    if (whole && decimals > 0) // 97500 steps, not 97.5 thousands
        *factor = 0, by = 1, decimals = 0;
    if (decimals > 12)
        decimals = 12;
    for (int i = 0; i < t.n; i++) {
        double x = ticks_at(&t, i);
        if (inside(a, x))
            ticks_print(x / by, decimals, ascii ? "-" : "\u2212", add(a, x)->label, AXES_LABEL);
    }
}

static void log2_ticks(axes *a, const axis *spec, int want, bool ascii, bool *kilo) {
    int from = (int)ceil(log2(a->lo) - 1e-9), to = (int)floor(log2(a->hi) + 1e-9);
    int every = 1;
    while ((to - from) / every + 1 > want * 1.25 && every < 64)
        every++;
    for (int k = from; k <= to; k++) {
        axes_tick *t = add(a, exp2(k));
        if ((to - k) % every != 0) // the end is labelled: documents end on a power of two
            continue;
        if (spec->tokens && k >= 0)
            print_tokens(exp2(k), t->label, AXES_LABEL), *kilo |= k >= 10;
        else if (from >= 0 && to <= 13)
            snprintf(t->label, AXES_LABEL, "%.0f", exp2(k));
        else
            print_power(2, k, ascii, t->label, AXES_LABEL);
    }
}

// Decades labelled, 2..9 minor; under 1.5 decades 1, 2 and 5 are labelled too; above 8 decades
// every second or third.
static void log10_ticks(axes *a, int want, bool ascii) {
    double span = log10(a->hi) - log10(a->lo); // the quotient may overflow
    int from = (int)floor(log10(a->lo)), to = (int)ceil(log10(a->hi)), every = 1;
    while (span / every > 8 || span / every > want * 1.3)
        every++;
    bool plain = from >= -4 && to <= 5;
    for (int k = from; k <= to; k++)
        for (int d = 1; d <= 9; d++) {
            double x = k < 0 ? d / pow(10, -k) : d * pow(10, k);
            if (!inside(a, x) || (every > 1 && d > 1))
                continue;
            axes_tick *t = add(a, x);
            bool named = d == 1 ? k % every == 0 : span < 1.5 && (d == 2 || d == 5);
            if (!named)
                continue;
            if (plain)
                ticks_print(x, k < 0 ? -k : 0, "-", t->label, AXES_LABEL);
            else if (d == 1)
                print_power(10, k, ascii, t->label, AXES_LABEL);
            else {
                char power[AXES_LABEL - 4];
                print_power(10, k, ascii, power, sizeof power);
                snprintf(t->label, AXES_LABEL, "%d%s%s", d, ascii ? "x" : "\u00d7", power);
            }
        }
}

char *axes_title(const char *name, const char *unit, char *buf, size_t size) {
    char a[AXES_TITLE / 2], b[AXES_TITLE / 2 - 8];
    text_escape(name, strlen(name), a, sizeof a);
    text_escape(unit, strlen(unit), b, sizeof b);
    if (*b)
        snprintf(buf, size, "%s%s(%s)", a, *a ? " " : "", b);
    else
        snprintf(buf, size, "%s", a);
    return buf;
}

int axes_labels(const axes *a) {
    int n = 0;
    for (int i = 0; i < a->n; i++)
        n += a->tick[i].label[0] != 0;
    return n;
}

void axes_ticks(axes *a, const axis *spec, int want, bool ascii) {
    int factor = 0;
    bool kilo = false;
    a->n = 0;
    if (want < 2)
        want = 2;
    switch (a->scale) {
    case SCALE_LINEAR:
        if (!(spec->tokens && token_ticks(a, want, &kilo)))
            linear_ticks(a, spec, want, ascii, &factor);
        break;
    case SCALE_LOG2:
        log2_ticks(a, spec, want, ascii, &kilo);
        break;
    case SCALE_LOG10:
        log10_ticks(a, want, ascii);
        break;
    }
    int labels = axes_labels(a);
    bool one_token = spec->tokens && labels && a->hi - a->lo < 1; // fractions mean nothing there
    if (labels < 2 && a->scale != SCALE_LINEAR &&
        !one_token) { // a short log axis: label it like a linear one
        a->n = 0;
        linear_ticks(a, spec, want, ascii, &factor);
    }
    a->power = factor;
    char unit[AXES_TITLE / 2 - 8], power[32];
    const char *u = spec->unit ? spec->unit : "";
    if (factor) {
        print_power(10, factor, ascii, power, sizeof power);
        snprintf(unit, sizeof unit, "%s%s%.80s", power, strcmp(u, "1") && *u ? " " : "",
                 strcmp(u, "1") ? u : "");
    } else if (kilo) {
        snprintf(unit, sizeof unit, "%.80s%s1k = 1024", u, *u ? ", " : "");
    } else {
        snprintf(unit, sizeof unit, "%.100s", u);
    }
    axes_title(spec->name ? spec->name : "", unit, a->title, sizeof a->title);
}

void axes_ticks_room(axes *a, const axis *spec, int want, int most, bool ascii) {
    enum { ENOUGH = 3 };
    axes_ticks(a, spec, want, ascii);
    if (a->scale != SCALE_LINEAR)
        return;
    for (int n = want + 1; axes_labels(a) < ENOUGH; n++) {
        axes_ticks(a, spec, n <= most ? n : want, ascii);
        if (n > most)
            return;
    }
}

void axes_x_ticks(axes *a, const figure *f, int want, bool ascii) {
    axes_ticks(a, &f->x, want, ascii);
    const heat *h = f->kind == FIG_HEATMAP ? f->heat : NULL;
    if (!h || !h->col_label)
        return;
    size_t every = (h->cols + (size_t)want - 1) / (size_t)want;
    a->n = 0;
    for (size_t j = 0; j < h->cols; j += every) {
        axes_tick *t = add(a, (h->x[j] + h->x[j + 1]) / 2);
        text_escape(h->col_label[j], strlen(h->col_label[j]), t->label, AXES_LABEL);
    }
}

static void span_marks(const figure *f, axes_span *x, axes_span *y) {
    for (size_t i = 0; i < f->n_marks; i++) {
        double v = f->marks[i].value, both[2] = {-v, v};
        if (f->marks[i].kind == MARK_CIRCLE) {
            axes_span_add(x, both, 2);
            axes_span_add(y, both, 2);
        } else if (f->marks[i].kind == MARK_Y && y->scale == SCALE_LINEAR) {
            axes_span_add(y, &v, 1);
        }
        // MARK_X does not stretch the axis: a train length beyond the document is simply not there.
    }
}

void axes_of_figure(const figure *f, axes *x, axes *y, axes_span *x_span, axes_span *y_span) {
    axes_span_init(x_span, f->x.scale);
    axes_span_init(y_span, f->y.scale);
    double pad_x = 0, pad_y = 0.04;
    const double zero = 0;
    for (size_t i = 0; i < f->n_series; i++) {
        const series *s = &f->series[i];
        if (f->kind != FIG_BARS)
            axes_span_add(x_span, s->x, s->n + (f->kind == FIG_HIST));
        axes_span_add(y_span, s->y, s->n);
        axes_span_add(y_span, s->lo, s->n);
        axes_span_add(y_span, s->hi, s->n);
    }
    if (f->kind != FIG_HEATMAP && y_span->finite)
        span_marks(f, x_span, y_span);
    if (f->kind == FIG_SCATTER)
        pad_x = 0.04;
    if (f->kind == FIG_BARS) {
        double ends[2] = {0, f->n_category ? (double)f->n_category : 1};
        axes_span_init(x_span, SCALE_LINEAR);
        axes_span_add(x_span, ends, 2);
    }
    if ((f->kind == FIG_BARS || f->kind == FIG_HIST) && y_span->scale == SCALE_LINEAR &&
        y_span->finite)
        axes_span_add(y_span, &zero, 1);
    if (f->kind == FIG_HEATMAP && f->heat) {
        double ends[2] = {heat_row_edge(f->heat, 0), heat_row_edge(f->heat, f->heat->rows)};
        axes_span_add(x_span, f->heat->x, f->heat->cols + 1);
        axes_span_init(y_span, SCALE_LINEAR);
        axes_span_add(y_span, ends, 2);
        pad_y = 0;
    }
    axes_limits(x, &f->x, x_span, pad_x);
    axes_limits(y, &f->y, y_span, pad_y);
    // Bars stand on the axis, not above it.
    if ((f->kind == FIG_BARS || f->kind == FIG_HIST) && y->scale == SCALE_LINEAR && !y->empty) {
        if (y_span->lo >= 0 && !isfinite(f->y.lo))
            y->lo = 0;
        if (y_span->hi <= 0 && !isfinite(f->y.hi))
            y->hi = 0;
    }
    if (f->kind == FIG_BARS)
        x->scale = SCALE_LINEAR;
}
