#include "tests/gallery.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double gallery_random(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) / 16777216.0;
}

double gallery_normal(unsigned *seed) {
    double u = 1 - gallery_random(seed), v = gallery_random(seed);
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

static void must(bool ok) {
    assert(ok);
    (void)ok;
}

static double *reals(size_t n) {
    double *v = malloc((n ? n : 1) * sizeof *v);
    assert(v);
    return v;
}

figures gallery_one(figure *f) {
    figures s;
    figures_init(&s, 1);
    must(figures_add(&s, f, NULL));
    return s;
}

figure *gallery_curve(size_t n, const double *x, const double *y, axis_scale scale) {
    figure *f = figure_new(FIG_CURVES, "curve", "loss, test", "one row of tokens", NULL);
    must(f && figure_axis(&f->x, "position", "tokens", SCALE_LINEAR, NULL));
    must(figure_axis(&f->y, "loss", "nats/token", scale, NULL));
    must(figure_series(f, "loss", STYLE_LINE, n, x, y, NULL, NULL, NULL, NULL));
    return f;
}

// A falling loss that rises again beyond the training length for the model without gates.
figure *gallery_loss(void) {
    enum { N = 32768, W = 501, GRID = 220 };
    figure *f =
        figure_new(FIG_CURVES, "loss", "loss over position, two models",
                   "war-and-peace.txt, 32768 tokens, 8 rows; mean of 501 tokens, CPU, f32", NULL);
    must(f && figure_axis(&f->x, "position", "tokens", SCALE_LOG2, NULL));
    must(figure_axis(&f->y, "loss", "nats/token", SCALE_LINEAR, NULL));
    f->x.tokens = true;
    f->x.lo = 16;
    double *x = reals(N), *raw = reals(N), *smooth = reals(N), *lo = reals(N), *hi = reals(N);
    const char *name[2] = {"small-deltanet, mean of 501 tokens",
                           "small-deltaproduct2, mean of 501 tokens"};
    unsigned seed = 7;
    for (int m = 0; m < 2; m++) {
        for (int t = 0; t < N; t++) {
            double beyond = t > 2048 ? log2(t / 2048.0) : 0;
            double level = 2.9 + 2.6 * pow(t + 4, -0.22) + (m ? 0.015 : 0.1) * beyond - 0.12 * m;
            x[t] = t + 1;
            raw[t] = fmax(0.02, level + 0.55 * gallery_normal(&seed));
        }
        double sum = 0;
        for (int t = 0; t < N; t++) {
            sum += raw[t] - (t >= W ? raw[t - W] : 0);
            smooth[t] = t + 1 >= W ? sum / W : NAN; // never beyond the data
            lo[t] = smooth[t] - 0.05 - 0.02 * m;
            hi[t] = smooth[t] + 0.05 + 0.02 * m;
        }
        if (m == 0) {
            double *gx = reals(GRID), *gy = reals(GRID);
            for (int i = 0; i < GRID; i++) {
                int t = (int)(N * pow(2, -9.0 * (GRID - 1 - i) / (GRID - 1))) - 1;
                gx[i] = x[t];
                gy[i] = raw[t];
            }
            must(figure_series(f, "small-deltanet, single tokens", STYLE_FAINT, GRID, gx, gy, NULL,
                               NULL, NULL, NULL));
            f->series[0].colour = 0;
            free(gx);
            free(gy);
        }
        must(figure_series(f, name[m], STYLE_LINE, N, x, smooth, lo, hi,
                           "95% bootstrap, 200 resamples", NULL));
        f->series[f->n_series - 1].colour = m;
    }
    must(figure_mark(f, MARK_X, 2048, "train length 2048", NULL));
    must(figure_mark(f, MARK_Y, log(32), "ln 32", NULL));
    must(figure_note(f, NULL, "Extrapolation index: %.2f and %.2f.", 1.13, 1.02));
    free(x), free(raw), free(smooth), free(lo), free(hi);
    return f;
}

figure *gallery_models(int n) {
    enum { N = 256 };
    static const char *name[] = {
        "deltanet",       "gated-deltanet", "deltaproduct2", "deltaproduct3", "kda",    "gla",
        "gated-product2", "rwkv7",          "mamba2",        "longhorn",      "retnet", "hgrn2"};
    figure *f = figure_new(FIG_CURVES, "erank", "effective rank, layer 5",
                           "mean over heads, every 128 tokens", NULL);
    must(f && figure_axis(&f->x, "position", "tokens", SCALE_LINEAR, NULL));
    must(figure_axis(&f->y, "effective rank", "of 64", SCALE_LINEAR, NULL));
    f->x.tokens = true;
    double x[N], y[N];
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < N; i++) {
            x[i] = (i + 1) * 128 - 1;
            y[i] = (20 + 9 * k % 44) * (1 - exp(-x[i] / (900.0 + 700 * k))) +
                   1.2 * sin(x[i] / 1500 + k);
        }
        if (k == 1)
            for (int i = 90; i < 120; i++)
                y[i] = NAN;
        must(figure_series(f, name[k % 12], STYLE_LINE, N, x, y, NULL, NULL, NULL, NULL));
    }
    must(figure_mark(f, MARK_X, 4096, "train length", NULL));
    return f;
}

figure *gallery_erank(size_t layers, size_t heads, size_t cols) {
    size_t rows = layers * heads;
    figure *f = figure_new(FIG_HEATMAP, "erank-heads", "effective rank of every head, dp3-19M",
                           "war-and-peace.txt, 32768 tokens, every 64; CPU, f32", NULL);
    must(f && figure_axis(&f->x, "position", "tokens", SCALE_LINEAR, NULL));
    must(figure_axis(&f->y, "layer, head", "", SCALE_LINEAR, NULL));
    f->x.tokens = true;
    double *cell = reals(rows * cols), *x = reals(cols + 1);
    char(*name)[64] = malloc(rows * sizeof *name);
    const char **label = malloc(rows * sizeof *label);
    assert(name && label);
    for (size_t j = 0; j <= cols; j++)
        x[j] = 32768.0 * (double)j / (double)cols;
    for (size_t r = 0; r < rows; r++) {
        size_t l = r / heads, h = r % heads;
        snprintf(name[r], sizeof name[r], "L%zu.H%zu", l, h);
        label[r] = name[r];
        for (size_t j = 0; j < cols; j++) {
            double t = x[j + 1], top = 8 + 50.0 * (double)((l * 7 + h * 5) % 11) / 10;
            cell[r * cols + j] =
                1 + top * (1 - exp(-t / (300 + 900.0 * (double)h))) + 3 * sin(t / 2000 + (double)r);
            if (r == 3 && j > cols / 2 && j < cols * 3 / 4)
                cell[r * cols + j] = NAN;
        }
    }
    must(figure_heat(f, rows, cols, cell, x, label, "effective rank", "of 64", 0, 56,
                     MAP_SEQUENTIAL, NULL));
    must(figure_mark(f, MARK_X, 2048, "train length", NULL));
    free(cell), free(x), free(name), free(label);
    return f;
}

figure *gallery_delta(void) {
    enum { R = 12, C = 40 };
    figure *f = figure_new(FIG_HEATMAP, "delta", "loss, deltaproduct3 minus deltanet",
                           "blocks of 256 tokens, 12 documents", NULL);
    must(f && figure_axis(&f->x, "position", "tokens", SCALE_LINEAR, NULL));
    must(figure_axis(&f->y, "document", "1", SCALE_LINEAR, NULL));
    double cell[R * C], x[C + 1];
    unsigned seed = 3;
    for (int j = 0; j <= C; j++)
        x[j] = 256 * j;
    for (int i = 0; i < R * C; i++)
        cell[i] = 0.05 * gallery_normal(&seed) - 0.004 * (i % C) + 0.04;
    must(figure_heat(f, R, C, cell, x, NULL, "loss difference", "nats/token", NAN, NAN,
                     MAP_DIVERGING, NULL));
    return f;
}

figure *gallery_angles(void) {
    enum { R = 48, C = 96 };
    figure *f = figure_new(FIG_HEATMAP, "angle", "angle of the leading eigenvalue", "L3.H1", NULL);
    must(f && figure_axis(&f->x, "window", "1", SCALE_LINEAR, NULL));
    must(figure_axis(&f->y, "layer depth", "1", SCALE_LINEAR, NULL));
    double cell[R * C], x[C + 1];
    for (int j = 0; j <= C; j++)
        x[j] = j;
    for (int i = 0; i < R * C; i++)
        cell[i] = remainder(0.13 * (i % C) + 0.2 * (i / C), 2 * M_PI);
    must(figure_heat(f, R, C, cell, x, NULL, "angle", "rad", -M_PI, M_PI, MAP_CYCLIC, NULL));
    return f;
}

figure *gallery_eigen(void) {
    enum { N = 2000 };
    static const char *name[] = {"deltanet, W = 1", "deltaproduct2, W = 16", "kda, W = 64"};
    figure *f = figure_new(FIG_SCATTER, "eigenvalues", "eigenvalues of window products",
                           "L4.H2, 2000 windows of 32768 tokens; CPU, f64", NULL);
    must(f && figure_axis(&f->x, "Re \u03bb", "1", SCALE_LINEAR, NULL));
    must(figure_axis(&f->y, "Im \u03bb", "1", SCALE_LINEAR, NULL));
    f->equal_scale = true;
    double x[N], y[N];
    unsigned seed = 11;
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < N; i++) {
            double r = k == 0 ? 1 : pow(gallery_random(&seed), 0.4 * k), a;
            a = k == 0 ? 0 : 2 * M_PI * gallery_random(&seed);
            x[i] = k == 0 ? 2 * gallery_random(&seed) - 1 : r * cos(a) * (k == 2 ? 0.5 : 1);
            y[i] = k == 0 ? 0 : r * sin(a) * (k == 2 ? 0.5 : 1);
        }
        must(figure_series(f, name[k], STYLE_POINTS, N, x, y, NULL, NULL, NULL, NULL));
    }
    must(figure_mark(f, MARK_CIRCLE, 1, "|\u03bb| = 1", NULL));
    return f;
}

figure *gallery_hist(void) {
    enum { N = 72 };
    figure *f = figure_new(FIG_HIST, "angles", "rotation angles, L4",
                           "eigenvalues with Im > 0, 8 heads, 500 windows", NULL);
    must(f && figure_axis(&f->x, "angle", "rad", SCALE_LINEAR, NULL));
    must(figure_axis(&f->y, "eigenvalues", "count", SCALE_LINEAR, NULL));
    double x[N + 1], y[N];
    for (int i = 0; i <= N; i++)
        x[i] = M_PI * i / N;
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < N; i++)
            y[i] = round(4000 * exp(-pow((x[i] - 0.7 - k) / (0.35 + 0.3 * k), 2)) +
                         900 * exp(-pow((x[i] - 2.9) / 0.15, 2)));
        must(figure_series(f, k ? "deltaproduct3" : "deltaproduct2", STYLE_LINE, N, x, y, NULL,
                           NULL, NULL, NULL));
    }
    must(figure_mark(f, MARK_X, M_PI / 2, "\u03c0/2", NULL));
    return f;
}

figure *gallery_bars(void) {
    static const char *category[] = {"delta_step",        "delta_chunk_forward", "gated_chunk",
                                     "householder_apply", "svdvals_64x64",       "gemm"};
    figure *f = figure_new(FIG_BARS, "throughput", "kernel throughput",
                           "B=1 T=4096 H=8 K=V=64, 20 repetitions, f32", NULL);
    must(f && figure_axis(&f->x, "kernel", "", SCALE_LINEAR, NULL));
    must(figure_axis(&f->y, "rate", "tokens/s", SCALE_LINEAR, NULL));
    for (int i = 0; i < 6; i++)
        must(figure_category(f, category[i], NULL));
    for (int k = 0; k < 3; k++) {
        double y[6], lo[6], hi[6];
        for (int i = 0; i < 6; i++) {
            y[i] = 1e6 * (0.4 + 0.9 * ((i * 5 + k * 3) % 7));
            lo[i] = y[i] * 0.94, hi[i] = y[i] * 1.05;
        }
        if (k == 2)
            y[4] = lo[4] = hi[4] = NAN;
        static const char *name[] = {"scalar", "AVX2", "AVX-512"};
        must(figure_series(f, name[k], STYLE_LINE, 6, NULL, y, lo, hi, "quartiles", NULL));
    }
    return f;
}

figure *gallery_table(void) {
    figure *f = figure_new(FIG_TABLE, "heads", "heads by half-life", "L3", NULL);
    const char *name[] = {"L3.H0", "L3.H1", "comma, \"quote\"", "\u5c42 3"};
    const double life[] = {12.25, 4096, NAN, 1e-7}, rank[] = {3.14159265, 60, 1, -0.5};
    must(f && figure_column(f, "head", "", 4, NULL, name, 0, NULL));
    must(figure_column(f, "half-life", "tokens", 4, life, NULL, 4, NULL));
    must(figure_column(f, "effective rank", "of 64", 4, rank, NULL, 3, NULL));
    must(figure_note(f, NULL, "nan: the state was zero"));
    return f;
}

figure *gallery_log_axis(void) {
    const double x[] = {0, 1, 2, 3}, y[] = {0, -1, NAN, 2.5};
    return gallery_curve(4, x, y, SCALE_LOG10);
}

figure *gallery_odd_names(void) {
    const double x[] = {1, 2, 3}, y[] = {1, 4, 2};
    figure *f = figure_new(FIG_CURVES, "odd", "esc \x1b[31mred\x1b[0m, bell \a, \u5c42\u306e\u540d",
                           "bidi \u202egnp.exe, bytes \xff\xfe, tab\there", NULL);
    must(f && figure_axis(&f->x, "position\r\n", "tokens\x7f", SCALE_LINEAR, NULL));
    must(figure_axis(&f->y, "loss\x9b", "\xc3", SCALE_LINEAR, NULL));
    must(figure_series(f, "line\nbreak \x1b]0;title\a", STYLE_LINE, 3, x, y, NULL, NULL, NULL,
                       NULL));
    must(figure_mark(f, MARK_X, 2, "mark\x1b[2J", NULL));
    must(figure_note(f, NULL, "note \x1b[1m with escapes"));
    return f;
}

static double hostile(unsigned *seed) {
    static const double odd[] = {0,      -0.0,   NAN,    INFINITY, -INFINITY, 1e308, -1e308,
                                 5e-324, 1e-310, -1e-30, 1,        1,         -1,    65536};
    double r = gallery_random(seed);
    if (r < 0.3)
        return odd[(size_t)(gallery_random(seed) * 14)];
    return gallery_normal(seed) * pow(10, floor(gallery_random(seed) * 12 - 6));
}

figure *gallery_hostile(unsigned seed) {
    enum { N = 24 };
    unsigned s = seed * 2654435761u + 1;
    double mostly = gallery_random(&s); // how hostile this one is
    figure_kind kind = (figure_kind)(gallery_random(&s) * 5);
    figure *f = figure_new(kind, "hostile", "hostile numbers", "", NULL);
    axis_scale sx = (axis_scale)(gallery_random(&s) * 3), sy = (axis_scale)(gallery_random(&s) * 3);
    must(f && figure_axis(&f->x, "x", "tokens", sx, NULL) &&
         figure_axis(&f->y, "y", "1", sy, NULL));
    f->x.tokens = gallery_random(&s) < 0.5;
    f->equal_scale = gallery_random(&s) < 0.2;
    if (gallery_random(&s) < 0.3)
        f->x.lo = hostile(&s), f->x.hi = hostile(&s);
    if (gallery_random(&s) < 0.3)
        f->y.lo = hostile(&s), f->y.hi = hostile(&s);
    double x[N + 1], y[N * 4], lo[N], hi[N];
    for (int i = 0; i <= N; i++)
        x[i] = gallery_random(&s) < 0.9 * mostly ? hostile(&s) : i;
    if (kind == FIG_HEATMAP) {
        size_t rows = 1 + (size_t)(gallery_random(&s) * 4);
        for (size_t i = 0; i < rows * N; i++)
            y[i] = gallery_random(&s) < mostly ? hostile(&s) : (double)i;
        must(figure_heat(f, rows, N, y, x, NULL, "v", "1",
                         gallery_random(&s) < 0.5 ? NAN : hostile(&s),
                         gallery_random(&s) < 0.5 ? NAN : hostile(&s),
                         (heat_map)(gallery_random(&s) * 3), NULL));
    }
    int n_series = kind == FIG_HEATMAP ? 0 : (int)(gallery_random(&s) * 6);
    for (int k = 0; k < n_series; k++) {
        size_t n = (size_t)(gallery_random(&s) * (N + 1));
        for (size_t i = 0; i < n; i++) {
            y[i] = gallery_random(&s) < mostly ? hostile(&s) : (double)i;
            lo[i] = y[i] - 1;
            hi[i] = gallery_random(&s) < 0.8 ? y[i] + 1 : hostile(&s);
        }
        bool band = gallery_random(&s) < 0.5;
        must(figure_series(f, k % 2 ? "name" : "", (series_style)(gallery_random(&s) * 3), n, x, y,
                           band ? lo : NULL, band ? hi : NULL, band ? "band" : NULL, NULL));
        f->series[k].colour = (int)(gallery_random(&s) * 12) - 1;
    }
    for (int k = 0; k < 5; k++)
        must(figure_mark(f, (mark_kind)(gallery_random(&s) * 3), hostile(&s), "mark", NULL));
    for (int k = 0; kind == FIG_BARS && k < 9; k++)
        must(figure_category(f, "category with a name", NULL));
    return f;
}
